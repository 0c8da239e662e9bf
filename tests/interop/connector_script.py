"""A script for ``test_spark_connector.py``: each read twice, by Spark's connector and by ``kafka-topic``.

Prints one JSON line for each difference, and ``DONE n`` at the end. Errors are compared by kind.
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
T0 = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# topic -> partitions
TOPICS = {"alpha": 3, "beta": 1, "paid": 2, "cut": 1, "empty": 2}


def fill(servers: str) -> None:
    """Create topics with nulls, headers, transactions, and one whose first records are deleted."""
    topic_configs = {"retention.ms": "-1"}  # the timestamps are years old
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
            "headers": pa.array(some, HEADERS),
            "partition": pa.array([n % partitions for n in range(count)], pa.int32()),
            "timestamp": pa.array([T0 + 1000 * n for n in range(count)], pa.int64()),
        }
    )


def per_partition(value: Any, *names: str) -> str:
    return json.dumps({name: {str(n): value for n in range(TOPICS[name])} for name in names})


ALPHA = {"subscribe": "alpha"}
FIXED: list[dict[str, Any]] = [
    ALPHA,
    {"subscribe": "alpha,beta"},
    {"subscribe": "alpha, beta", "includeHeaders": True},
    {"subscribePattern": "alpha|b.*"},
    {"subscribePattern": "nothing.*"},
    {"assign": '{"alpha": [0, 2], "beta": [0]}'},
    {"subscribe": "empty"},
    {"subscribe": "empty,beta", "minPartitions": 5},
    {**ALPHA, "startingOffsets": '{"alpha": {"0": 10, "1": -2, "2": 99}}'},
    {**ALPHA, "startingOffsets": per_partition(40, "alpha"), "endingOffsets": '{"alpha": {"0": 50, "1": -1, "2": 40}}'},
    {**ALPHA, "endingOffsets": per_partition(33, "alpha")},
    {**ALPHA, "startingTimestamp": T0 + 150_500},
    {**ALPHA, "startingTimestamp": T0 + 10**9},
    {**ALPHA, "startingTimestamp": T0 + 10**9, "startingOffsetsByTimestampStrategy": "latest"},
    {**ALPHA, "startingOffsetsByTimestamp": per_partition(T0 + 200_000, "alpha")},
    {**ALPHA, "startingOffsetsByTimestamp": per_partition(T0 + 200_000, "alpha"), "startingTimestamp": T0 + 250_000},
    {**ALPHA, "startingTimestamp": T0 + 100_000, "startingOffsets": per_partition(99, "alpha")},
    {**ALPHA, "endingTimestamp": T0 + 100_500},
    {**ALPHA, "endingTimestamp": T0 + 10**9},
    {**ALPHA, "endingOffsetsByTimestamp": per_partition(T0 + 70_000, "alpha"), "endingOffsets": "latest"},
    {**ALPHA, "startingTimestamp": T0 + 50_000, "endingTimestamp": T0 + 60_000},
    {**ALPHA, "minPartitions": 8},
    {**ALPHA, "maxRecordsPerPartition": 7},
    {**ALPHA, "minPartitions": 5, "maxRecordsPerPartition": 90},
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
    {**ALPHA, "maxOffsetsPerTrigger": 5},
    {**ALPHA, "kafka.group.id": "mine"},
    {**ALPHA, "groupIdPrefix": "mine", "kafka.client.id": "me", "fetchOffset.numRetries": 5},
    {**ALPHA, "kafka.max.partition.fetch.bytes": 3000, "kafka.fetch.max.bytes": 5000},
    {**ALPHA, "kafkaConsumer.pollTimeoutMs": 60000, "kafka.request.timeout.ms": 20000},
    # options that both reject
    {},
    {**ALPHA, "subscribePattern": "alpha"},
    {**ALPHA, "startingOffsets": "latest"},
    {**ALPHA, "endingOffsets": "earliest"},
    {**ALPHA, "startingOffsets": '{"alpha": {"0": 10}}'},
    {**ALPHA, "startingOffsets": '{"alpha": {"0": 1, "1": 1, "2": 1, "3": 1}}'},
    {**ALPHA, "startingOffsets": per_partition(-1, "alpha")},
    {**ALPHA, "endingOffsets": per_partition(-2, "alpha")},
    {**ALPHA, "startingOffsets": "{alpha"},
    {**ALPHA, "minPartitions": -1},
    {**ALPHA, "maxRecordsPerPartition": 0},
    {**ALPHA, "kafka.auto.offset.reset": "latest"},
    {**ALPHA, "kafka.enable.auto.commit": True},
    {**ALPHA, "kafka.key.deserializer": "a.B"},
    {**ALPHA, "kafka.interceptor.classes": "a.B"},
    {**ALPHA, "startingOffsetsByTimestampStrategy": "never"},
]


def draw_options(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield random combinations of valid options."""
    rng = random.Random(seed)
    for _ in range(count):
        name = rng.choice(("alpha", "beta", "paid"))
        starts = [{}, {"startingOffsets": "earliest"}]
        starts += [{"startingOffsets": per_partition(rng.randrange(60), name)}]
        starts += [{"startingTimestamp": T0 + rng.randrange(20_000)}]
        ends = [{}, {"endingOffsets": per_partition(rng.randrange(60, 66), name)}]
        ends += [{"endingTimestamp": T0 + rng.randrange(20_000, 400_000)}]
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


# Kinds of errors, by the texts of either side. Other errors are rejected options.
KINDS = {
    "it ends before it starts": r"is greater than the (resolved )?end offset|, after its end \d+",
    "data is lost": r"data may have been lost|failOnDataLoss=false|OffsetOutOfRange",
    "no record that late": r"No offset matched|has no record at or after the time",
    "no such topic": r"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PARTITION|there is no topic partition",
}


def kind_of(error: Exception) -> str:
    """Return the kind of an error."""
    message = str(error)
    kinds = [kind for kind, words in KINDS.items() if re.search(words, message)]
    return f"an error: {kinds[0] if kinds else 'refused'}"


def batch(spark: Any, form: str, options: dict[str, Any]) -> Any:
    """Return the rows of a read, sorted, or the kind of its error."""
    try:
        frame = spark.read.format(form).options(**options).load()
        rows = frame.selectExpr("*", "hash(*) AS h").collect() if "includeHeaders" not in options else frame.collect()
    except Exception as error:
        return kind_of(error)
    return [frame.schema.simpleString(), *sorted(str(row) for row in rows)]


def stream(spark: Any, form: str, options: dict[str, Any]) -> Any:
    """Return the rows and offsets of each micro-batch of a run to the end."""
    got: list[Any] = []
    try:
        frame = spark.readStream.format(form).options(**options).load()
        with tempfile.TemporaryDirectory() as folder:
            writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", folder)
            query = writer.foreachBatch(
                lambda one, number: got.append((number, sorted(map(str, one.collect()))))
            ).start()
            query.awaitTermination(120)
            ends = [_last_offsets(Path(folder), number) for number, _ in got]
    except Exception as error:
        return kind_of(error)
    return got, ends


def _last_offsets(folder: Path, number: int) -> Any:
    return json.loads((folder / "offsets" / str(number)).read_text().splitlines()[2])


STREAMS: list[dict[str, Any]] = [
    {**ALPHA, "startingOffsets": "earliest"},
    {**ALPHA, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 100},
    {"subscribe": "alpha,beta", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 250},
    {"subscribe": "paid", "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"},
    {**ALPHA, "startingOffsets": per_partition(80, "alpha"), "minOffsetsPerTrigger": 10_000},
    {**ALPHA, "startingTimestamp": T0 + 250_000, "includeHeaders": True},
    {**ALPHA},
    {**ALPHA, "startingOffsets": "earliest", "endingOffsets": "latest"},
    {"subscribePattern": "alpha|b.*", "startingOffsets": "earliest", "includeHeaders": True},
    {"subscribe": "cut", "startingOffsets": per_partition(0, "cut")},
    {"subscribe": "cut", "startingOffsets": per_partition(0, "cut"), "failOnDataLoss": False},
]
# Its rows exist before the first micro-batch, which waits for nothing. Later rows are delayed.
DELAYED = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 10_000, "maxTriggerDelay": "25s"}


def stream_with_delay(spark: Any, form: str, options: dict[str, Any]) -> Any:
    """Return the rows of a stream with a delay: of its first micro-batch, soon after more were written, and at the
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
    """``connector_script.py SERVERS JARS SEED DRAWS``."""
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
    reads = [*FIXED, *draw_options(int(seed), int(draws))]
    comparisons = [(batch, options) for options in reads] + [(stream, options) for options in STREAMS]
    comparisons.append((stream_with_delay, DELAYED))
    for way, options in comparisons:
        began = time.monotonic()
        theirs, ours = (way(spark, form, servers_option | options) for form in FORMS)
        if time.monotonic() - began > SLOW_SECONDS:
            print(f"{time.monotonic() - began:.0f} s: {options}", file=sys.stderr, flush=True)
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
