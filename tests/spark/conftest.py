"""What several files of these tests read from."""

import fsspec
import pytest
from tests.spark.truth import SHOP


@pytest.fixture(scope="session")
def s3():
    """Return options for a bucket ``backup`` that holds the shop's orders; servers of a process share it."""
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "fs.s3a.endpoint": f"http://{host}:{port}",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.access.key": "testing",
        "fs.s3a.secret.key": "testing",
    }
    client = {"region_name": "eu-west-1"}
    store = fsspec.filesystem(
        "s3", endpoint_url=f"http://{host}:{port}", key="testing", secret="testing", client_kwargs=client
    )
    store.mkdir("backup")
    for file in (*SHOP.glob("orders-*/*"), SHOP / "meta.properties"):
        store.put_file(str(file), f"backup/logs/{file.relative_to(SHOP)}")
    yield options
    fsspec.asyn.sync(store.loop, store._s3.close) if hasattr(store, "_s3") and store._s3 else None
    server.stop()
