"""A script for ``test_spark_connector.py``: a streaming count by key alternates between sources on one checkpoint."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import kafkaframes
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.jobs.checkpoint import convert_checkpoint


def produce(servers: str, first: int, end: int) -> None:
    rows = {"key": [f"k{n % 7}" for n in range(first, end)], "value": [f"v{n}" for n in range(first, end)]}
    with Producer(servers) as producer:
        producer.send_arrow(pa.table(rows), topic="in")


def run(spark: Any, form: str, servers: str, checkpoint: Path) -> None:
    """Run the stream to the end of the topic, and print the counts of the last micro-batch."""
    stream = spark.readStream.format(form).option("kafka.bootstrap.servers", servers)
    frame = stream.option("subscribe", "in").option("startingOffsets", "earliest").load()
    counts = frame.selectExpr("CAST(key AS string) k", "timestamp").groupBy("k").count()
    counts_by_key: dict[str, int] = {}
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True)
    query = writer.foreachBatch(lambda batch, _: counts_by_key.update(map(tuple, batch.collect()))).start()
    query.awaitTermination(180)
    print(json.dumps([form, checkpoint.name, [counts_by_key[key] for key in sorted(counts_by_key)]]), flush=True)


def main() -> None:
    """Run ``checkpoint_script.py SERVERS JARS FOLDER``."""
    servers, jars, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    config = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
    spark = kafkaframes.spark.session("checkpoints", master="local[2]", memory="1g", config=config)
    kafkaframes.spark.register(spark)
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name="in", num_partitions=2)])
    theirs, ours = folder / "theirs", folder / "ours"
    for end, turns in ((50, "kafka kafka-topic"), (70, "kafka-topic kafka"), (80, "kafka kafka-topic")):
        produce(servers, {50: 0, 70: 50, 80: 70}[end], end)
        for form, checkpoint in zip(turns.split(), (theirs, ours), strict=True):
            run(spark, form, servers, checkpoint)
    # ``kafka-topic``'s files for its first micro-batch, with the entry that Spark's connector requires
    first = folder / "first"
    run_first(spark, servers, first)
    convert_checkpoint(first, folder / "converted", target="kafka", begins={0: {"in": {"0": 0, "1": 0}}})
    run(spark, "kafka", servers, folder / "converted")
    # ``kafka-topic``'s state of topics that brokers did not list
    absent = folder / "absent"
    shutil.copytree(ours, absent)
    newest = max(
        (path for path in (absent / "offsets").iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
    )
    *lines, offsets = newest.read_text().splitlines()
    offsets = json.dumps({**json.loads(offsets), "gone@AAAAAAAAAAAAAAAAAAAAAQ/0=42,3=7": {}})
    newest.write_text("\n".join([*lines, offsets]))
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    produce(servers, 80, 87)
    run(spark, "kafka", servers, absent)
    spark.stop()


def run_first(spark: Any, servers: str, checkpoint: Path) -> None:
    """Leave a checkpoint with a planned, incomplete first micro-batch."""
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    frame = stream.option("subscribe", "in").option("startingOffsets", "earliest").load()
    counts = frame.selectExpr("CAST(key AS string) k", "timestamp").groupBy("k").count()

    def fail(batch: Any, _: int) -> None:
        batch.collect()
        raise ValueError("as if it were killed")

    writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    try:
        writer.trigger(availableNow=True).foreachBatch(fail).start().awaitTermination(180)
    except Exception as error:
        if "as if it were killed" not in str(error):
            raise


if __name__ == "__main__":
    main()
