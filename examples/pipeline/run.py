"""Run a declarative Spark pipeline on topics, a log directory and a capture. Needs pip install 'pyspark[pipelines]'.

python examples/pipeline/run.py      an embedded broker; KAFKA_BOOTSTRAP_SERVERS names a cluster of yours (plain text)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq

import kafkaframes
from kafkaframes.capture.recorder import Recorder, RecorderSettings
from kafkaframes.client import Admin, Consumer, Producer

HERE = Path(__file__).parent
ORDERS, LARGE = "example-orders", "example-large-orders"


def main() -> None:
    """Run the example."""
    with ExitStack() as stack:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            servers = stack.enter_context(kafkaframes.Broker()).bootstrap_servers
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with Admin(servers) as admin:
            admin.create_topics([ORDERS, LARGE])
            stack.callback(lambda: delete(servers))
        record(servers, folder / "traffic.pcapng")

        settings = {
            "KAFKA_BOOTSTRAP_SERVERS": servers,
            "EXAMPLE_LOG_DIR": str(HERE.parent / "logs" / "kafka-4.3"),
            "EXAMPLE_CAPTURE": str(folder / "traffic.pcapng"),
            "PYSPARK_PYTHON": sys.executable,
        }
        shutil.copytree(HERE, folder, dirs_exist_ok=True)
        spec = folder / "spark-pipeline.yml"
        spec.write_text(spec.read_text().replace("/tmp/orders-pipeline", str(folder / "checkpoints")))
        # The command is installed next to this Python's other commands. Tables are created in its working directory.
        command = [Path(sys.executable).with_name("spark-pipelines"), "run"]
        subprocess.run(command, env=os.environ | settings, cwd=folder, check=True)
        for table in ("orders", "backup", "calls"):
            print(table, pq.read_table(folder / "spark-warehouse" / table).num_rows, "rows")
        with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for(LARGE))
            print("large orders", consumer.fetch_arrow(10_000).num_rows, "records")


def record(servers: str, capture: Path) -> None:
    """Send orders, and record the traffic between the producer and the cluster."""
    host, _, port = servers.partition(",")[0].rpartition(":")
    with capture.open("wb") as file, Recorder(RecorderSettings("127.0.0.1", (), (host, int(port))), file) as recorder:
        proxy = "{}:{}".format(*recorder.start())
        with Producer(proxy) as producer:
            for number in range(1000):
                producer.send(ORDERS, str(number).encode(), key=f"customer-{number % 7}".encode())


def delete(servers: str) -> None:
    """Delete the example's topics."""
    with Admin(servers) as admin:
        admin.delete_topics([ORDERS, LARGE])


if __name__ == "__main__":
    main()
