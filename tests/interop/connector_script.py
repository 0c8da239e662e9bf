"""A script for ``test_spark_connector.py``: each read is made by Spark's connector and by ``kafka-topic``.

The script prints a JSON line for each difference, and ``DONE n`` at the end. Errors are compared by kind.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import kafkaframes
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition

FORMS = ("kafka", "kafka-topic")
SLOW_SECONDS = 15
START_MS = 1_700_000_000_000
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# topic -> partitions
TOPICS = {"alpha": 3, "beta": 1, "paid": 2, "cut": 1, "empty": 2}


def fill(servers: str) -> None:
    """Create topics with nulls, headers, transactions, and one whose first records are deleted."""
    topic_configs = {"retention.ms": "-1"}  # the timestamps are older than the default retention time
    with Admin(servers) as admin:
        admin.create_topics(
            [NewTopic(name=name, num_partitions=count, configs=topic_configs) for name, count in TOPICS.items()]
        )
    for name, codec in (("alpha", "lz4"), ("beta", "zstd"), ("cut", "none")):
        with Producer(servers, compression_type=codec, batch_size=2_000) as producer:
            producer.send_arrow(rows(300, TOPICS[name]), topic=name)
    with Producer(servers, transactional_id="t") as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send_arrow(rows(20, TOPICS["paid"]), topic="paid")
            producer.flush()
            producer.abort_transaction() if number % 3 == 1 else producer.commit_transaction()
    with Admin(servers) as admin:
        admin.delete_records({TopicPartition("cut", 0): 100})


def rows(count: int, partitions: int) -> pa.Table:
    some = [
        None if n % 9 == 0 else [{"key": "h", "value": b"%d" % n}, {"key": "i", "value": None}] for n in range(count)
    ]
    return pa.table(
        {
            "key": pa.array([None if n % 5 == 0 else b"k%d" % (n % 11) for n in range(count)], pa.binary()),
            "value": pa.array([None if n % 7 == 3 else b"v%d" % n for n in range(count)], pa.binary()),
            "headers": pa.array(some, HEADERS_TYPE),
            "partition": pa.array([n % partitions for n in range(count)], pa.int32()),
            "timestamp": pa.array([START_MS + 1000 * n for n in range(count)], pa.int64()),
        }
    )


def per_partition(value: Any, *names: str) -> str:
    return json.dumps({name: {str(n): value for n in range(TOPICS[name])} for name in names})


SUBSCRIBE_ALPHA = {"subscribe": "alpha"}
FIXED_OPTIONS: list[dict[str, Any]] = [
    SUBSCRIBE_ALPHA,
    {"subscribe": "alpha,beta"},
    {"subscribe": "alpha, beta", "includeHeaders": True},
    {"subscribePattern": "alpha|b.*"},
    {"subscribePattern": "nothing.*"},
    {"assign": '{"alpha": [0, 2], "beta": [0]}'},
    {"subscribe": "empty"},
    {"subscribe": "empty,beta", "minPartitions": 5},
    {**SUBSCRIBE_ALPHA, "startingOffsets": '{"alpha": {"0": 10, "1": -2, "2": 99}}'},
    {
        **SUBSCRIBE_ALPHA,
        "startingOffsets": per_partition(40, "alpha"),
        "endingOffsets": '{"alpha": {"0": 50, "1": -1, "2": 40}}',
    },
    {**SUBSCRIBE_ALPHA, "endingOffsets": per_partition(33, "alpha")},
    {**SUBSCRIBE_ALPHA, "startingTimestamp": START_MS + 150_500},
    {**SUBSCRIBE_ALPHA, "startingTimestamp": START_MS + 10**9},
    {**SUBSCRIBE_ALPHA, "startingTimestamp": START_MS + 10**9, "startingOffsetsByTimestampStrategy": "latest"},
    {**SUBSCRIBE_ALPHA, "startingOffsetsByTimestamp": per_partition(START_MS + 200_000, "alpha")},
    {
        **SUBSCRIBE_ALPHA,
        "startingOffsetsByTimestamp": per_partition(START_MS + 200_000, "alpha"),
        "startingTimestamp": START_MS + 250_000,
    },
    {**SUBSCRIBE_ALPHA, "startingTimestamp": START_MS + 100_000, "startingOffsets": per_partition(99, "alpha")},
    {**SUBSCRIBE_ALPHA, "endingTimestamp": START_MS + 100_500},
    {**SUBSCRIBE_ALPHA, "endingTimestamp": START_MS + 10**9},
    {
        **SUBSCRIBE_ALPHA,
        "endingOffsetsByTimestamp": per_partition(START_MS + 70_000, "alpha"),
        "endingOffsets": "latest",
    },
    {**SUBSCRIBE_ALPHA, "startingTimestamp": START_MS + 50_000, "endingTimestamp": START_MS + 60_000},
    {**SUBSCRIBE_ALPHA, "minPartitions": 8},
    {**SUBSCRIBE_ALPHA, "maxRecordsPerPartition": 7},
    {**SUBSCRIBE_ALPHA, "minPartitions": 5, "maxRecordsPerPartition": 90},
    {"subscribe": "paid"},
    {"subscribe": "paid", "kafka.isolation.level": "read_committed"},
    {"subscribe": "paid", "kafka.isolation.level": "read_committed", "minPartitions": 6},
    {"subscribe": "cut"},
    {"subscribe": "cut", "startingOffsets": per_partition(0, "cut")},
    {"subscribe": "cut", "startingOffsets": per_partition(0, "cut"), "failOnDataLoss": False},
    {"subscribe": "cut", "startingOffsets": per_partition(120, "cut"), "failOnDataLoss": True},
    {"subscribe": "cut", "endingOffsets": per_partition(50, "cut")},
    {"subscribe": "cut", "endingOffsets": per_partition(50, "cut"), "failOnDataLoss": False},
    {"subscribe": "cut", "startingOffsets": per_partition(150, "cut"), "endingOffsets": per_partition(120, "cut")},
    {"subscribe": "cut", "startingOffsets": per_partition(900, "cut")},
    {"subscribe": "cut", "endingOffsets": per_partition(900, "cut"), "kafkaConsumer.pollTimeoutMs": 2000},
    {
        "subscribe": "cut",
        "endingOffsets": per_partition(900, "cut"),
        "kafkaConsumer.pollTimeoutMs": 2000,
        "failOnDataLoss": False,
    },
    {"subscribe": "cut", "startingOffsets": per_partition(150, "cut"), "endingOffsets": per_partition(150, "cut")},
    {**SUBSCRIBE_ALPHA, "maxOffsetsPerTrigger": 5},
    {**SUBSCRIBE_ALPHA, "kafka.group.id": "mine"},
    {**SUBSCRIBE_ALPHA, "groupIdPrefix": "mine", "kafka.client.id": "me", "fetchOffset.numRetries": 5},
    {**SUBSCRIBE_ALPHA, "kafka.max.partition.fetch.bytes": 3000, "kafka.fetch.max.bytes": 5000},
    {**SUBSCRIBE_ALPHA, "kafkaConsumer.pollTimeoutMs": 60000, "kafka.request.timeout.ms": 20000},
    # options that both sources reject
    {},
    {**SUBSCRIBE_ALPHA, "subscribePattern": "alpha"},
    {**SUBSCRIBE_ALPHA, "startingOffsets": "latest"},
    {**SUBSCRIBE_ALPHA, "endingOffsets": "earliest"},
    {**SUBSCRIBE_ALPHA, "startingOffsets": '{"alpha": {"0": 10}}'},
    {**SUBSCRIBE_ALPHA, "startingOffsets": '{"alpha": {"0": 1, "1": 1, "2": 1, "3": 1}}'},
    {**SUBSCRIBE_ALPHA, "startingOffsets": per_partition(-1, "alpha")},
    {**SUBSCRIBE_ALPHA, "endingOffsets": per_partition(-2, "alpha")},
    {**SUBSCRIBE_ALPHA, "startingOffsets": "{alpha"},
    {**SUBSCRIBE_ALPHA, "minPartitions": -1},
    {**SUBSCRIBE_ALPHA, "maxRecordsPerPartition": 0},
    {**SUBSCRIBE_ALPHA, "kafka.auto.offset.reset": "latest"},
    {**SUBSCRIBE_ALPHA, "kafka.enable.auto.commit": True},
    {**SUBSCRIBE_ALPHA, "kafka.key.deserializer": "a.B"},
    {**SUBSCRIBE_ALPHA, "kafka.interceptor.classes": "a.B"},
    {**SUBSCRIBE_ALPHA, "startingOffsetsByTimestampStrategy": "never"},
]


def draw_options(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield random combinations of valid options."""
    rng = random.Random(seed)
    for _ in range(count):
        name = rng.choice(("alpha", "beta", "paid"))
        starts = [{}, {"startingOffsets": "earliest"}]
        starts += [{"startingOffsets": per_partition(rng.randrange(60), name)}]
        starts += [{"startingTimestamp": START_MS + rng.randrange(20_000)}]
        ends = [{}, {"endingOffsets": per_partition(rng.randrange(60, 66), name)}]
        ends += [{"endingTimestamp": START_MS + rng.randrange(20_000, 400_000)}]
        splits = [{}, {"minPartitions": rng.randrange(1, 12)}, {"maxRecordsPerPartition": rng.randrange(1, 90)}]
        yield {
            **rng.choice(({"subscribe": name}, {"subscribePattern": name}, {"assign": _assign_all(name)})),
            **rng.choice(starts),
            **rng.choice(ends),
            **rng.choice(splits),
            **rng.choice(({}, {"includeHeaders": True})),
            **rng.choice(({}, {"kafka.isolation.level": "read_committed"})),
        }


def _assign_all(name: str) -> str:
    return json.dumps({name: list(range(TOPICS[name]))})


# Patterns for the error texts of both sources, by kind of error. Other errors are rejected options.
ERROR_PATTERNS = {
    "it ends before it starts": r"is greater than the (resolved )?end offset|, after its end \d+",
    "data is lost": r"data may have been lost|failOnDataLoss=false|OffsetOutOfRange",
    "no record that late": r"No offset matched|has no record at or after the time",
    "no such topic": r"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PARTITION|there is no topic partition",
}


def kind_of(error: Exception) -> str:
    """Return the kind of an error."""
    message = str(error)
    kinds = [kind for kind, words in ERROR_PATTERNS.items() if re.search(words, message)]
    return f"an error: {kinds[0] if kinds else 'refused'}"


def run_batch(spark: Any, form: str, options: dict[str, Any]) -> Any:
    """Return the rows of a read, sorted, or the kind of its error."""
    try:
        frame = spark.read.format(form).options(**options).load()
        rows = frame.selectExpr("*", "hash(*) AS h").collect() if "includeHeaders" not in options else frame.collect()
    except Exception as error:
        return kind_of(error)
    return [frame.schema.simpleString(), *sorted(str(row) for row in rows)]


def run_stream(spark: Any, form: str, options: dict[str, Any]) -> Any:
    """Run a stream to the end; return the rows and offsets of each micro-batch."""
    received_batches: list[Any] = []
    try:
        frame = spark.readStream.format(form).options(**options).load()
        with tempfile.TemporaryDirectory() as folder:
            writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", folder)
            query = writer.foreachBatch(
                lambda one, number: received_batches.append((number, sorted(map(str, one.collect()))))
            ).start()
            query.awaitTermination(120)
            ends = [_last_offsets(Path(folder), number) for number, _ in received_batches]
    except Exception as error:
        return kind_of(error)
    return received_batches, ends


def _last_offsets(folder: Path, number: int) -> Any:
    return json.loads((folder / "offsets" / str(number)).read_text().splitlines()[2])


STREAM_OPTIONS: list[dict[str, Any]] = [
    {**SUBSCRIBE_ALPHA, "startingOffsets": "earliest"},
    {**SUBSCRIBE_ALPHA, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 100},
    {"subscribe": "alpha,beta", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 250},
    {"subscribe": "paid", "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"},
    {**SUBSCRIBE_ALPHA, "startingOffsets": per_partition(80, "alpha"), "minOffsetsPerTrigger": 10_000},
    {**SUBSCRIBE_ALPHA, "startingTimestamp": START_MS + 250_000, "includeHeaders": True},
    {**SUBSCRIBE_ALPHA},
    {**SUBSCRIBE_ALPHA, "startingOffsets": "earliest", "endingOffsets": "latest"},
    {"subscribePattern": "alpha|b.*", "startingOffsets": "earliest", "includeHeaders": True},
    {"subscribe": "cut", "startingOffsets": per_partition(0, "cut")},
    {"subscribe": "cut", "startingOffsets": per_partition(0, "cut"), "failOnDataLoss": False},
]
# Rows that exist before the first micro-batch are returned without a delay; later rows are delayed.
DELAYED_OPTIONS = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 10_000, "maxTriggerDelay": "25s"}


def run_delayed_stream(spark: Any, form: str, options: dict[str, Any]) -> Any:
    """Return the rows of a delayed stream after its first micro-batch, shortly after more rows were written, and at the
    end.
    """
    servers, topic = options["kafka.bootstrap.servers"], f"late-{form}"
    table = pa.table({"value": [b"%d" % number for number in range(50)]})
    count = 0

    def add(one: Any, _: int) -> None:
        nonlocal count
        count += one.count()

    with tempfile.TemporaryDirectory() as folder, Producer(servers) as producer:
        producer.send_arrow(table, topic=topic)
        frame = spark.readStream.format(form).options(**options, subscribe=topic).load()
        writer = frame.writeStream.trigger(processingTime="200 milliseconds").option("checkpointLocation", folder)
        query = writer.foreachBatch(add).start()
        snapshots = []
        for wanted_count, seconds in ((50, 20.0), (100, 4.0), (100, 40.0)):
            if len(snapshots) == 1:
                producer.send_arrow(table, topic=topic)
            deadline = time.monotonic() + seconds
            while count < wanted_count and time.monotonic() < deadline:
                time.sleep(0.1)
            snapshots.append(count)
        query.stop()
    return snapshots


def main() -> None:
    """Run ``connector_script.py SERVERS JARS SEED DRAWS``."""
    servers, jars, seed, draws = sys.argv[1:]
    spark = kafkaframes.spark.session(
        "side by side",
        master="local[2]",
        memory="1g",
        config={"spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"},
    )
    kafkaframes.spark.register(spark)
    fill(servers)
    servers_option = {"kafka.bootstrap.servers": servers}
    reads = [*FIXED_OPTIONS, *draw_options(int(seed), int(draws))]
    comparisons = [(run_batch, options) for options in reads] + [(run_stream, options) for options in STREAM_OPTIONS]
    comparisons.append((run_delayed_stream, DELAYED_OPTIONS))
    for way, options in comparisons:
        start = time.monotonic()
        theirs, ours = (way(spark, form, servers_option | options) for form in FORMS)
        if time.monotonic() - start > SLOW_SECONDS:
            print(f"{time.monotonic() - start:.0f} s: {options}", file=sys.stderr, flush=True)
        if theirs != ours:
            print(
                "DIFFERENT", json.dumps([way.__name__, options, _short(theirs), _short(ours)], default=str), flush=True
            )
    print(f"DONE {len(comparisons)}", flush=True)
    spark.stop()


def _short(result: Any) -> str:
    text = json.dumps(result, default=str)
    return f"{len(result)}: {text[:1000]}"


if __name__ == "__main__":
    main()
