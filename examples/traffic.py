"""Record the traffic between clients and a broker, and query the recording. Without Spark, root or libpcap.

python examples/traffic.py           an embedded broker; KAFKA_BOOTSTRAP_SERVERS names a cluster of yours (plain text)
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

import kafkaframes
from kafkaframes.capture.recorder import Recorder, RecorderSettings
from kafkaframes.cli.main import cli
from kafkaframes.client import Admin, Producer

TOPIC = "example-greetings"


def main() -> None:
    """Run the example."""
    with ExitStack() as stack:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            servers = stack.enter_context(kafkaframes.Broker()).bootstrap_servers
        host, _, port = servers.partition(",")[0].rpartition(":")
        capture = stack.enter_context(tempfile.TemporaryDirectory()) + "/traffic.pcapng"

        # In a shell: kafkaframes record --upstream HOST:PORT --listen 127.0.0.1:9192 -o traffic.pcapng
        settings = RecorderSettings("127.0.0.1", (), (host, int(port)))
        with open(capture, "wb") as file, Recorder(settings, file) as recorder:
            proxy = "{}:{}".format(*recorder.start())
            with Admin(proxy) as admin:
                admin.create_topics([TOPIC])
            for client_id, release in (("new-client", None), ("client-of-0.10", "0.10.2")):
                version = {} if release is None else {"api_version": release, "enable_idempotence": False}
                with Producer(proxy, client_id=client_id, **version) as producer:
                    producer.send(TOPIC, b"hello").result()
            with Admin(proxy) as admin:
                admin.delete_topics([TOPIC])

        calls = kafkaframes.read_capture(
            capture
        ).read_all()  # a pyarrow.Table, a row for each request with its response
        print(calls.group_by(["clientId", "apiName", "apiVersion"]).aggregate([("apiName", "count")]).to_pandas())
        cli.main(["audit", capture, "--target", "4.0"], standalone_mode=False)


if __name__ == "__main__":
    main()
