"""Write and read topics as Arrow tables, and export a topic to a table incrementally. Without Spark.

python examples/client.py            an embedded broker; KAFKA_BOOTSTRAP_SERVERS names a cluster of yours
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.dataset as ds

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.client import Admin, Consumer, Producer

TOPIC = "example-readings"


def main() -> None:
    """Run the example."""
    with ExitStack() as stack:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            servers = stack.enter_context(kafkaframes.Broker()).bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([TOPIC])
            stack.callback(lambda: delete(servers))

        values = [f'{{"sensor": "s{number % 3}", "celsius": {20 + number / 10}}}' for number in range(1000)]
        with Producer(servers, compression_type="lz4") as producer:
            producer.send_arrow(pa.table({"value": values}), topic=TOPIC)

        with Consumer(servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for(TOPIC))
            print(consumer.fetch_arrow().slice(0, 3).to_pylist())

        # In a shell: kafkaframes table example-readings -b HOST:PORT --to parquet DIR --mode json
        place = stack.enter_context(tempfile.TemporaryDirectory()) + "/readings"
        for _ in range(2):  # the second run finds no new records: the table stores its offsets
            words = ["table", TOPIC, "-b", servers, "--to", "parquet", place, "--mode", "json"]
            cli.main(words, standalone_mode=False)
        readings = ds.dataset(place, partitioning="hive").to_table()
        print(readings.group_by("sensor").aggregate([("celsius", "mean")]).sort_by("sensor").to_pylist())


def delete(servers: str) -> None:
    """Delete the example's topic."""
    with Admin(servers) as admin:
        admin.delete_topics([TOPIC])


if __name__ == "__main__":
    main()
