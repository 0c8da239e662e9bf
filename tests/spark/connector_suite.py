"""The behaviours in the test suites of Spark's own Kafka connector and in its guide, as checks that run with both
formats.

    python -m tests.spark.connector_suite                        (writes docs/connector-suite.md)
    python -m tests.spark.connector_suite SERVERS JARS [ROW ...] (plays the rows with both, prints JSON lines)

``tests/spark/test_connector_suite.py`` plays the rows with ``kafka-topic``. ``make interop`` plays them with the
connector, too, on Apache Kafka, stores what it ran in ``connector_suite.json`` and writes the page. Both sides must
give the expected result. A row whose sides differ has an expected result for each.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition

PAGE = Path(__file__).parents[2] / "docs" / "connector-suite.md"
RUN = Path(__file__).with_name("connector_suite.json")
CONNECTOR, OURS = "kafka", "kafka-topic"
EQUAL, DIFFERS, CANNOT = "equal", "differs", "cannot be"
T0 = 1_700_000_000_000
NANOSECONDS = T0 * 1_000_000
AWAY = {
    "kafka.bootstrap.servers": "127.0.0.1:9",
    "kafka.request.timeout.ms": "1400",
    "kafka.default.api.timeout.ms": "1500",
    "kafka.max.block.ms": "1500",
}
SHORT = {"kafka.delivery.timeout.ms": "1500", "kafka.linger.ms": "0"}
LATEST_SOON = {"kafka.metadata.max.age.ms": "500"}
STREAM_SECONDS = 120.0


class Play:
    """One format in one session, next to a cluster.

    Args:
        spark: the session.
        form: ``kafka`` or ``kafka-topic``.
        servers: of the cluster.
    """

    def __init__(self, spark: Any, form: str, servers: str) -> None:
        self.spark, self.form, self.servers = spark, form, servers

    def topic(self, partitions: int = 1, name: str | None = None, **configs: str) -> str:
        name = name or f"suite-{uuid.uuid4().hex[:12]}"
        configs = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        with Admin(self.servers) as admin:
            admin.create_topics([NewTopic(name=name, num_partitions=partitions, configs=configs)])
        return name

    def delete_topic(self, name: str) -> None:
        with Admin(self.servers) as admin:
            admin.delete_topics([name])
            deadline = time.monotonic() + STREAM_SECONDS
            while name in admin.list_topics():
                assert time.monotonic() < deadline, f"{name} still exists"
                time.sleep(0.2)

    def add_partitions(self, name: str, count: int) -> None:
        with Admin(self.servers) as admin:
            admin.create_partitions({name: count})

    def send(self, topic: str, values: Any, partition: int = 0, **record: Any) -> None:
        with Producer(self.servers) as producer:
            for value in values:
                text = None if value is None else str(value).encode()
                producer.send(topic, text, partition=partition, **record)

    def delete(self, topic: str, offset: int) -> None:
        with Admin(self.servers) as admin:
            admin.delete_records({TopicPartition(topic, 0): offset})

    def frame(self, **options: Any) -> Any:
        values = {"kafka.bootstrap.servers": self.servers, **options}
        return self.spark.read.format(self.form).options(**values).load().selectExpr("CAST(value AS string) AS v", "*")

    def values(self, **options: Any) -> list[Any]:
        return sorted(row.v or "" for row in self.frame(**options).collect())

    def stream(self, **options: Any) -> Any:
        values = {"kafka.bootstrap.servers": self.servers, "startingOffsets": "earliest", **options}
        frame = self.spark.readStream.format(self.form).options(**values).load()
        return frame.selectExpr("CAST(value AS string) v", "timestamp")

    def run(self, frame: Any, handle: Callable[[Any], None], folder: str | None = None) -> Any:
        """Run a stream to its end, and return the query."""
        with tempfile.TemporaryDirectory() as own:
            writer = frame.writeStream.foreachBatch(lambda batch, _: handle(batch))
            writer = writer.option("checkpointLocation", folder or own).trigger(availableNow=True)
            query = writer.start()
            assert query.awaitTermination(STREAM_SECONDS)
        return query

    def batches(self, folder: str | None = None, **options: Any) -> list[list[str]]:
        """Return the values of each micro-batch of a run to the end."""
        result: list[list[str]] = []
        self.run(self.stream(**options), lambda batch: result.append(sorted(row.v for row in batch.collect())), folder)
        return result

    def write(self, rows: list[tuple[Any, ...]], schema: str, **options: Any) -> None:
        values = {"kafka.bootstrap.servers": self.servers, **options}
        frame = self.spark.createDataFrame(rows, schema)
        frame.write.format(self.form).options(**values).mode("append").save()

    def is_refused(self, work: Callable[[], Any]) -> bool:
        """Return whether work ends in an error."""
        try:
            work()
        except Exception:
            return True
        return False


def _latest_is_bound_late(play: Play) -> Any:
    topic = play.topic(3)
    play.send(topic, range(3))
    frame = play.frame(subscribe=topic)
    first = frame.count()
    play.send(topic, range(2), partition=2)
    return first, frame.count(), frame.union(frame).count()


def _start_is_bound_late(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, range(5))
    frame = play.frame(subscribe=topic)
    first = frame.count()
    play.delete(topic, 5)
    play.send(topic, "ab")
    return first, sorted(row.v for row in frame.collect())


def _specific_offsets(play: Play) -> Any:
    topic = play.topic(2)
    play.send(topic, "abc")
    play.send(topic, "de", partition=1)
    start, end = {topic: {"0": 1, "1": -2}}, {topic: {"0": -1, "1": 1}}
    return play.values(subscribe=topic, startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))


def _headers(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a")
    play.send(topic, "b", headers=[("e", b"f"), ("e", b"g")])
    rows = play.frame(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    return [None if row.headers is None else [(h.key, bytes(h.value)) for h in row.headers] for row in rows]


def _timestamps(play: Play) -> Any:
    topic = play.topic()
    for number, value in enumerate("abc"):
        play.send(topic, value, timestamp_ms=T0 + 1000 * number)
    between = play.values(subscribe=topic, startingTimestamp=T0 + 500, endingTimestamp=T0 + 1500)
    times = json.dumps({topic: {"0": T0 + 10**9}})
    nothing = play.is_refused(lambda: play.values(subscribe=topic, startingOffsetsByTimestamp=times))
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    return between, nothing, play.values(subscribe=topic, startingOffsetsByTimestamp=times, **latest)


def _bad_options(play: Play) -> Any:
    """Read with each rejected option. The topic exists, so a read fails only because of its option."""
    topic, empty = play.topic(), play.topic()
    play.send(topic, "a")
    t = {"subscribe": topic}
    bad: list[dict[str, str]] = [
        {**t, "startingOffsets": "latest"}, {**t, "startingOffsets": json.dumps({topic: {"0": -1}})},
        {**t, "endingOffsets": "earliest"}, {**t, "endingOffsets": json.dumps({topic: {"0": -2}})}, {},
        {**t, "subscribePattern": topic}, {**t, "assign": json.dumps({topic: [0]})}, {"assign": ""}, {"subscribe": ""},
        {"subscribePattern": ""}, {**t, "minPartitions": "0"}, {**t, "minPartitions": "1.0"},
        {**t, "kafka.auto.offset.reset": "earliest"}, {**t, "kafka.enable.auto.commit": "true"},
        {**t, "kafka.key.deserializer": "a.B"}, {**t, "kafka.interceptor.classes": "a.B"},
        {**t, "kafka.isolation.level": "intentionally_invalid"},
    ]  # fmt: skip
    accepted_options = [
        options for options in bad if not play.is_refused(lambda options=options: play.values(**options))
    ]
    return accepted_options, play.values(**t), play.values(subscribe=empty)


def _offsets_of_other_partitions(play: Play) -> Any:
    topic = play.topic(3)
    some = json.dumps({topic: {"0": 0, "1": 0}})
    return play.is_refused(lambda: play.values(subscribe=topic, startingOffsets=some))


def _transactions(play: Play) -> Any:
    topic = play.topic()
    with Producer(play.servers, transactional_id=topic) as producer:
        for value, ends in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(topic, value)
            producer.flush()
            ends()
    read_committed = {"kafka.isolation.level": "read_committed"}
    return (
        play.values(subscribe=topic),
        play.values(subscribe=topic, **read_committed),
        play.batches(subscribe=topic, **read_committed),
    )


def _min_partitions(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, range(10))
    frame = play.frame(subscribe=topic, minPartitions="4")
    return frame.rdd.getNumPartitions() >= 4, frame.count()


def _nulls(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, [None], key=b"k")
    play.send(topic, [None])
    return [(row.key and bytes(row.key), row.value) for row in play.frame(subscribe=topic).orderBy("offset").collect()]


def _rate_limit(play: Play) -> Any:
    topic = play.topic(3)
    play.send(topic, range(100, 110))
    play.send(topic, [1], partition=2)
    return [len(batch) for batch in play.batches(subscribe=topic, maxOffsetsPerTrigger="5")]


def _huge_rate_limit(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "ab")
    return play.batches(subscribe=topic, maxOffsetsPerTrigger=str(2**63 - 1))


def _new_partitions(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a")
    with tempfile.TemporaryDirectory() as folder:
        first = play.batches(folder, subscribe=topic)
        play.add_partitions(topic, 2)
        play.send(topic, "b", partition=1)
        return first, play.batches(folder, subscribe=topic)


def _lose_records(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, range(6))
    play.delete(topic, 4)
    options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    fails = play.is_refused(lambda: play.values(**options)), play.is_refused(lambda: play.batches(**options))
    lenient = {**options, "failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "1000"}
    return fails, play.values(**lenient), play.batches(**lenient)


def _stream_options(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a")
    bad = [{"endingOffsets": "latest"}, {"endingOffsetsByTimestamp": json.dumps({topic: {"0": 1000}})}]
    bad += [{"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"}]
    accepted_options = [
        options
        for options in bad
        if not play.is_refused(lambda options=options: play.batches(subscribe=topic, **options))
    ]
    return accepted_options, play.batches(subscribe=topic)


def _ending_timestamp(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a")
    return play.is_refused(lambda: play.batches(subscribe=topic, endingTimestamp="1000"))


def _sink(play: Play) -> Any:
    topic, other = play.topic(), play.topic()
    play.write([("1", topic), ("2", topic)], "value string, topic string")
    play.write([("3", "foo")], "value string, topic string", topic=topic)
    play.write([("4", 0), ("5", None)], "value string, partition int", topic=other)
    return play.values(subscribe=topic), play.values(subscribe=other)


def _bad_sinks(play: Play) -> Any:
    topic = play.topic()
    bad: list[tuple[list[tuple[Any, ...]], str, dict[str, str]]] = [
        ([("a",)], "value string", {}),
        ([("a",)], "key string", {"topic": topic}),
        ([(1,)], "value int", {"topic": topic}),
        ([(1, "v")], "topic int, value string", {}),
        ([(1, "v")], "key int, value string", {"topic": topic}),
        ([("0", "v")], "partition string, value string", {"topic": topic}),
        ([(None, "v")], "topic string, value string", {}),
        ([(-1, "v")], "partition int, value string", {"topic": topic}),
        ([("a",)], "value string", {"topic": topic, "kafka.key.serializer": "foo"}),
        ([("a",)], "value string", {"topic": topic, "kafka.value.serializer": "foo"}),
        ([("a" * 5000,)], "value string", {"topic": topic, "kafka.max.request.size": "1000"}),
        ([("a",)], "value string", {"topic": topic, **AWAY, **SHORT}),
    ]
    results = [
        schema
        for rows, schema, options in bad
        if not play.is_refused(lambda r=rows, s=schema, o=options: play.write(r, s, **o))
    ]
    return results, play.values(subscribe=topic)


def _brokers_away(play: Play) -> Any:
    options = {**AWAY, "subscribe": "t", "fetchOffset.numRetries": "1"}
    return play.is_refused(lambda: play.values(**options)), play.is_refused(lambda: play.batches(**options))


def _rdd(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, range(3))
    rdd = play.frame(subscribe=topic).rdd
    first = rdd.count()
    play.send(topic, range(2))
    return first, rdd.count()


def _column_types(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a", key=b"k", timestamp_ms=T0)
    frame = play.frame(subscribe=topic, includeHeaders="true").drop("v")
    row = frame.selectExpr("*", "CAST(timestamp AS long) AS seconds").first()
    return frame.schema.simpleString(), bytes(row.key), bytes(row.value), row.offset, row.seconds, row.timestampType


def _option_names(play: Play) -> Any:
    """Try the connector's test "get offsets from case insensitive parameters"."""
    topic = play.topic()
    play.send(topic, "abc")
    return play.values(SUBSCRIBE=topic, STARTINGOFFSETS=json.dumps({topic: {"0": 1}}))


def _whole_topic(play: Play) -> Any:
    topic = play.topic()
    return play.is_refused(lambda: play.values(subscribe=topic, startingOffsets=json.dumps({topic: "earliest"})))


def _far_timestamp(play: Play) -> Any:
    topic = play.topic(message_timestamp_after_max_ms=str(2**63 - 1))
    play.send(topic, "a", timestamp_ms=NANOSECONDS)
    return play.is_refused(lambda: play.values(subscribe=topic))


def _repeat_batch(play: Play) -> Any:
    topic, fails, result = play.topic(), [True, True, False], []
    play.send(topic, "ab")

    def handle(batch: Any) -> None:
        values = sorted(row.v for row in batch.collect())
        if fails.pop(0):
            raise RuntimeError("the sink is unavailable")
        result.append(values)

    with tempfile.TemporaryDirectory() as folder:
        first = play.is_refused(lambda: play.run(play.stream(subscribe=topic), handle, folder))
        play.add_partitions(topic, 2)
        play.send(topic, "c", partition=1)
        second = play.is_refused(lambda: play.run(play.stream(subscribe=topic), handle, folder))
        fails.append(False)
        play.run(play.stream(subscribe=topic), handle, folder)
    return first, second, result


def _fewer_partitions(play: Play) -> Any:
    """Try the connector's test "Query with Trigger.AvailableNow should throw error when topic partitions got
    unavailable".
    """
    topic, counts = play.topic(3), []
    play.send(topic, range(9))

    def handle(batch: Any) -> None:
        counts.append(batch.count())
        play.delete_topic(topic)
        play.topic(1, topic)
        play.send(topic, range(9))

    frame = play.stream(subscribe=topic, maxOffsetsPerTrigger="3", **LATEST_SOON)
    return play.is_refused(lambda: play.run(frame, handle)), counts


def _topics_of_a_pattern(play: Play) -> Any:
    """A topic is deleted, and another one is created: an error, or without failOnDataLoss the other topics are read."""
    prefix = f"pattern-{uuid.uuid4().hex[:12]}"
    options = {"subscribePattern": f"{prefix}-[a-z&&[^x]]", **LATEST_SOON}
    for name in "ax":
        play.send(play.topic(1, f"{prefix}-{name}"), name)
    with tempfile.TemporaryDirectory() as folder:
        first = play.batches(folder, **options)
        play.delete_topic(f"{prefix}-a")
        play.send(play.topic(1, f"{prefix}-b"), "b")
        return (
            first,
            play.is_refused(lambda: play.batches(folder, **options)),
            play.batches(folder, **options, failOnDataLoss="false"),
        )


def _topic_created_again(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "abc")
    options = {"subscribe": topic, **LATEST_SOON}
    with tempfile.TemporaryDirectory() as folder:
        first = play.batches(folder, **options)
        play.delete_topic(topic)
        play.send(play.topic(1, topic), "de")
        return first, play.is_refused(lambda: play.batches(folder, **options))


def _self_join(play: Play) -> Any:
    topic, counts = play.topic(), []
    play.send(topic, range(5))
    frame = play.stream(subscribe=topic)
    joined_frame = frame.selectExpr("v AS a").join(frame.selectExpr("v AS b"), _expression("a = b"))
    query = play.run(joined_frame, lambda batch: counts.append(batch.count()))
    return counts, [progress["numInputRows"] for progress in query.recentProgress], len(query.lastProgress["sources"])


def _progress(play: Play) -> Any:
    topic = play.topic(2)
    play.send(topic, range(5))
    query = play.run(play.stream(subscribe=topic, maxOffsetsPerTrigger="4"), lambda batch: batch.count())
    sources = [progress["sources"][0] for progress in query.recentProgress]
    ends = [dict(json.loads(_text(source["endOffset"]))[topic]) for source in sources]
    return [source["numInputRows"] for source in sources], ends, "maxOffsetsBehindLatest" in sources[0]["metrics"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _first_offsets(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a")
    with tempfile.TemporaryDirectory() as folder:
        play.batches(folder, subscribe=topic)
        return (Path(folder) / "sources" / "0" / "0").exists()


def _watermark(play: Play) -> Any:
    topic, rows = play.topic(), []
    play.send(topic, range(3), timestamp_ms=T0)
    play.send(topic, range(2), timestamp_ms=T0 + 60_000)
    frame = play.stream(subscribe=topic).withWatermark("timestamp", "10 seconds")
    counts = frame.groupBy(_window("timestamp", "5 seconds")).count().select("count")
    play.run(counts, lambda batch: rows.extend(row[0] for row in batch.collect()))
    return rows


def _stop(play: Play) -> Any:
    """Try the connector's test "cannot stop Kafka stream"."""
    topic = play.topic(5)
    play.send(topic, range(20))
    with tempfile.TemporaryDirectory() as folder:
        query = play.stream(subscribe=topic).writeStream.format("noop").option("checkpointLocation", folder).start()
        query.processAllAvailable()
        query.stop()
        return query.isActive, query.exception()


def _refuse_trigger(play: Play, **trigger: Any) -> Any:
    topic = play.topic()

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = play.stream(subscribe=topic).writeStream.format("console")
            writer.option("checkpointLocation", folder).trigger(**trigger).start().stop()

    return play.is_refused(run)


def _continuous(play: Play) -> Any:
    return _refuse_trigger(play, continuous="1 second")


def _asynchronous_progress(play: Play) -> Any:
    source, target = play.topic(), play.topic()
    play.send(source, "abc")
    options = {"kafka.bootstrap.servers": play.servers, "topic": target, "asyncProgressTrackingEnabled": "true"}

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = (
                play.stream(subscribe=source).select("v").withColumnRenamed("v", "value").writeStream.format(play.form)
            )
            query = writer.options(**options, checkpointLocation=folder).start()
            try:
                query.processAllAvailable()
            finally:
                query.stop()

    return play.is_refused(run), play.values(subscribe=target)


def _save_modes(play: Play) -> Any:
    topic = play.topic()
    rows = play.spark.createDataFrame([("a",)], "value string")
    options = {"kafka.bootstrap.servers": play.servers, "topic": topic}
    modes = ("append", "errorifexists", "ignore", "overwrite")
    return [
        mode
        for mode in modes
        if not play.is_refused(lambda mode=mode: rows.write.format(play.form).options(**options).mode(mode).save())
    ]


def _update_mode(play: Play) -> Any:
    source, target = play.topic(), play.topic()
    play.send(source, "a")
    options = {"kafka.bootstrap.servers": play.servers, "topic": target}

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            counts = play.stream(subscribe=source).groupBy("v").count().selectExpr("v AS value")
            writer = counts.writeStream.format(play.form).outputMode("update").options(**options)
            query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
            query.awaitTermination(STREAM_SECONDS)

    return play.is_refused(run)


def _write_stream(play: Play) -> Any:
    source, target = play.topic(), play.topic()
    play.send(source, "abc")
    options = {"kafka.bootstrap.servers": play.servers, "topic": target}
    with tempfile.TemporaryDirectory() as folder:
        writer = play.stream(subscribe=source).selectExpr("v AS value").writeStream.format(play.form).options(**options)
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        assert query.awaitTermination(STREAM_SECONDS)
    return play.values(subscribe=target)


def _write_headers(play: Play) -> Any:
    topic = play.topic()
    schema = "value string, headers array<struct<key: string, value: binary>>"
    play.write([("a", [("h", b"1"), ("h", None)]), ("b", None)], schema, topic=topic, includeHeaders="true")
    rows = play.frame(subscribe=topic, includeHeaders="true").orderBy("v").collect()
    return [None if row.headers is None else [(h.key, h.value and bytes(h.value)) for h in row.headers] for row in rows]


def _missing_partition(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "ab")
    return play.is_refused(lambda: play.values(assign=json.dumps({topic: [0, 5]})))


def _bootstrap_servers(play: Play) -> Any:
    return play.is_refused(lambda: play.spark.read.format(play.form).option("subscribe", "t").load().count())


def _subscriptions(play: Play) -> Any:
    prefix = f"option-{uuid.uuid4().hex[:12]}"
    names = [play.topic(2, f"{prefix}-{letter}") for letter in "ab"]
    for name in names:
        play.send(name, [name[-1] + "0"])
        play.send(name, [name[-1] + "1"], partition=1)
    return (
        play.values(assign=json.dumps({names[0]: [1], names[1]: [0]})),
        play.values(subscribe=",".join(names)),
        play.values(subscribePattern=prefix + r"-[\p{Lower}&&[^a]]"),
    )


def _precedence(play: Play) -> Any:
    """Read with several options for the bounds: a global timestamp precedes timestamps by partition, which precede
    offsets.
    """
    topic = play.topic()
    for number, value in enumerate("abcd"):
        play.send(topic, value, timestamp_ms=T0 + 1000 * number)
    by_time = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": T0 + 1000}})}
    by_time["endingOffsetsByTimestamp"] = json.dumps({topic: {"0": T0 + 3000}})
    offsets = {"startingOffsets": json.dumps({topic: {"0": 3}}), "endingOffsets": json.dumps({topic: {"0": 4}})}
    times = {"startingTimestamp": str(T0 + 2000), "endingTimestamp": str(T0 + 2500)}
    return [
        play.values(subscribe=topic, **options) for options in (offsets, by_time | offsets, times | by_time | offsets)
    ]


def _poll_timeout(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "ab")
    options = {
        "subscribe": topic,
        "endingOffsets": json.dumps({topic: {"0": 9}}),
        "kafkaConsumer.pollTimeoutMs": "1000",
    }
    return play.is_refused(lambda: play.values(**options))


def _offset_fetching(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a")
    return play.values(subscribe=topic, **{"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "0"})


def _max_records_per_partition(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, range(10))
    frame = play.frame(subscribe=topic, maxRecordsPerPartition="4")
    return frame.rdd.getNumPartitions(), frame.count()


def _smallest_batch(play: Play) -> Any:
    """With fewer records than minOffsetsPerTrigger, a query waits for maxTriggerDelay. The trigger AvailableNow does
    not wait.
    """
    topic = play.topic()
    play.send(topic, range(3))
    limits = {"minOffsetsPerTrigger": "100", "maxTriggerDelay": "6s"}
    at_once = play.batches(subscribe=topic, **limits)
    with tempfile.TemporaryDirectory() as folder:
        writer = play.stream(subscribe=topic, **limits).writeStream.format("noop")
        query = writer.option("checkpointLocation", folder).trigger(processingTime="100 milliseconds").start()
        try:
            query.processAllAvailable()
            play.send(topic, range(2))
            deadline = time.monotonic() + STREAM_SECONDS
            while len(batches := [progress for progress in query.recentProgress if progress["numInputRows"]]) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            query.stop()
    first, second = (datetime.fromisoformat(progress["timestamp"]) for progress in batches)
    return at_once, (second - first).total_seconds() > 5


def _groups(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, "a")
    names = [f"{topic}-group", f"{topic}-prefix"]
    values = [
        play.values(subscribe=topic, **{"kafka.group.id": names[0]}),
        play.batches(subscribe=topic, groupIdPrefix=names[1]),
    ]
    with Admin(play.servers) as admin:
        return values, [group.group_id for group in admin.list_groups() if group.group_id.startswith(topic)]


def _window(column: str, length: str) -> Any:
    from pyspark.sql.functions import window

    return window(column, length)


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


class ResultRow(NamedTuple):
    """One behaviour of Spark's Kafka connector: its test suite, whether ``kafka-topic`` behaves equally, and a check.

    Attributes:
        suite, behaviour: the connector's test suite (or guide), and the behaviour that it tests (or describes).
        verdict, why: EQUAL, DIFFERS or CANNOT, and the reason or another remark.
        check: function that tries the behaviour with one format and returns a result; None if it cannot be tried.
        expected: result of the check with ``kafka-topic``.
        connector: result with the connector if the verdict is DIFFERS.
        is_deep: whether ``make test`` leaves it to ``make deep`` and ``make interop``.
    """

    suite: str
    behaviour: str
    verdict: str = EQUAL
    why: str = ""
    check: Callable[[Play], Any] | None = None
    expected: Any = None
    connector: Any = None
    is_deep: bool = False

    def expected_of(self, form: str) -> Any:
        """Return the expected result with the connector or with ``kafka-topic``."""
        return self.connector if form == CONNECTOR and self.verdict == DIFFERS else self.expected


R, M, S, O, D, G = "Relation", "MicroBatchSource", "Sink", "OffsetReader", "data loss", "guide"  # noqa: E741
SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)
ROWS = (
    ResultRow(
        R, "each action reads the current ends, also in a union", check=_latest_is_bound_late, expected=(3, 5, 10)
    ),
    ResultRow(R, "each action resolves an earliest start", check=_start_is_bound_late, expected=(5, ["a", "b"])),
    ResultRow(
        R,
        "an RDD of a DataFrame sees new records",
        DIFFERS,
        "an RDD reads the offsets of its first action, so that all its jobs read the same records",
        check=_rdd,
        expected=(3, 3),
        connector=(3, 5),
    ),
    ResultRow(R, "offsets for each partition, -1 and -2 among them", check=_specific_offsets, expected=["b", "c", "d"]),
    ResultRow(R, "columns and their types", check=_column_types, expected=(SCHEMA, b"k", b"a", 0, T0 // 1000, 0)),
    ResultRow(R, "headers; null if a record has none", check=_headers, expected=[None, [("e", b"f"), ("e", b"g")]]),
    ResultRow(R, "timestamps, strategies without a match", check=_timestamps, expected=(["b"], True, [])),
    ResultRow(R, "names of options in any letter case", check=_option_names, expected=["b", "c"]),
    ResultRow(R, "invalid options, forbidden `kafka.*`", check=_bad_options, expected=([], ["a"], [])),
    ResultRow(R, "offsets of only some partitions are rejected", check=_offsets_of_other_partitions, expected=True),
    ResultRow(R, 'offsets for a whole topic, {"t": "earliest"}, are rejected', check=_whole_topic, expected=True),
    ResultRow(R, "read_committed, read_uncommitted", check=_transactions, expected=(["a", "b"], ["a"], [["a"]])),
    ResultRow(R, "minPartitions (SPARK-30656)", check=_min_partitions, expected=(True, 10)),
    ResultRow(R, "a timestamp in nanoseconds is an error (SPARK-56243)", check=_far_timestamp, expected=True),
    ResultRow(R, "a setting chooses between V1 and V2 sources", CANNOT, "classes of Spark"),
    ResultRow(M, "null keys and values (SPARK-27494)", check=_nulls, expected=[(b"k", None), (None, None)]),
    ResultRow(M, "AvailableNow, maxOffsetsPerTrigger", check=_rate_limit, expected=[5, 5, 1]),
    ResultRow(M, "a limit of Long.Max (SPARK-26718)", check=_huge_rate_limit, expected=[["a", "b"]]),
    ResultRow(M, "partitions that are added", check=_new_partitions, expected=([["a"]], [["b"]])),
    ResultRow(
        M,
        "invalid options of a stream",
        why="an end offset is rejected at `start()`, not at `load()`",
        check=_stream_options,
        expected=([], [["a"]]),
    ),
    ResultRow(
        M,
        "`endingTimestamp` of a stream",
        DIFFERS,
        "rejected; the connector ignores it",
        check=_ending_timestamp,
        expected=True,
        connector=False,
    ),
    ResultRow(
        M,
        "AvailableNow repeats a batch after partitions were added (SPARK-53560)",
        check=_repeat_batch,
        expected=(True, True, [["a", "b"], ["c"]]),
        is_deep=True,
    ),
    ResultRow(
        M,
        "AvailableNow stops if the topic has fewer partitions",
        check=_fewer_partitions,
        expected=(True, [3]),
        is_deep=True,
    ),
    ResultRow(
        M,
        "a pattern whose topics are deleted and created",
        check=_topics_of_a_pattern,
        expected=([["a"]], True, [["b"]]),
        is_deep=True,
    ),
    ResultRow(
        M,
        "a topic is created again with fewer records",
        check=_topic_created_again,
        expected=([["a", "b", "c"]], True),
        is_deep=True,
    ),
    ResultRow(
        M,
        "a self-join reads once (numInputRows, one source)",
        check=_self_join,
        expected=([5], [5], 1),
        is_deep=True,
    ),
    ResultRow(
        M,
        "progress: rows and end offsets of each micro-batch",
        DIFFERS,
        "no offsetsBehindLatest: Spark does not request metrics of Python sources; `watch_topics` reports the lag",
        check=_progress,
        expected=([4, 1], [{"0": 4, "1": 0}, {"0": 5, "1": 0}], False),
        connector=([4, 1], [{"0": 4, "1": 0}, {"0": 5, "1": 0}], True),
        is_deep=True,
    ),
    ResultRow(
        M,
        "the checkpoint's first offsets (SPARK-19517)",
        DIFFERS,
        "not written; `checkpoint convert --for kafka` adds them",
        check=_first_offsets,
        expected=False,
        connector=True,
        is_deep=True,
    ),
    ResultRow(M, "a watermark", check=_watermark, expected=[3], is_deep=True),
    ResultRow(M, "a running query can be stopped", check=_stop, expected=(False, None), is_deep=True),
    ResultRow(
        M,
        "no offset `{}` for an empty list of topics (SPARK-41375)",
        why="tested in `tests/spark/test_topic_checkpoints.py`: offsets are stored under the topic's id",
    ),
    ResultRow(
        M,
        "async progress tracking",
        DIFFERS,
        "Spark rejects it for Python sources",
        check=_asynchronous_progress,
        expected=(True, []),
        connector=(False, ["a", "b", "c"]),
        is_deep=True,
    ),
    ResultRow(
        S, "topic by column, by option; partition by column", check=_sink, expected=(["1", "2", "3"], ["4", "5"])
    ),
    ResultRow(
        S,
        "invalid schemas, types and options; records that are too large; unreachable brokers",
        check=_bad_sinks,
        expected=([], []),
    ),
    ResultRow(S, "a stream", check=_write_stream, expected=["a", "b", "c"], is_deep=True),
    ResultRow(
        S,
        "save modes",
        DIFFERS,
        'a Python writer needs `.mode("append")`, even though it is the default',
        check=_save_modes,
        expected=["append"],
        connector=["append", "errorifexists"],
    ),
    ResultRow(
        S,
        'outputMode("update")',
        DIFFERS,
        'Spark rejects it; use `write_topic(output_mode="update")`',
        check=_update_mode,
        expected=True,
        connector=False,
        is_deep=True,
    ),
    ResultRow(O, "unreachable brokers at the start of a query", check=_brokers_away, expected=(True, True)),
    ResultRow(O, "ranges for minPartitions", DIFFERS, "divided by bytes, not by offsets"),
    ResultRow(
        D,
        "failOnDataLoss; no duplicates without it",
        check=_lose_records,
        expected=((True, True), ["4", "5"], [["4", "5"]]),
    ),
    ResultRow(
        "ConsumerStrategy",
        "`assign` with a missing partition",
        DIFFERS,
        "rejected; the connector reads the other partitions",
        check=_missing_partition,
        expected=True,
        connector=False,
    ),
    ResultRow(
        "SourceOffset, JsonUtils",
        "offsets in the checkpoint",
        why="checkpoints pass from one to the other: `tests/interop/checkpoint_script.py`",
    ),
    ResultRow(
        "DataConsumer, ProducerPool", "caches of the JVM's clients", CANNOT, "each task's process has its own clients"
    ),
    ResultRow(
        "Continuous",
        "all of KafkaContinuous*",
        DIFFERS,
        "Spark rejects it for Python sources",
        check=_continuous,
        expected=True,
        connector=False,
        is_deep=True,
    ),
    ResultRow("RealTimeMode", "all of KafkaRealTime*", CANNOT, "Spark rejects it for Python sources"),
    ResultRow(
        "DelegationToken",
        "delegation tokens that Spark obtains",
        CANNOT,
        "`spark.kafka.clusters.*` is missing; a token in the login module works",
    ),
    ResultRow(G, "`kafka.bootstrap.servers`: an error if it is missing", check=_bootstrap_servers, expected=True),
    ResultRow(
        G,
        "`assign`, `subscribe`, `subscribePattern`",
        check=_subscriptions,
        expected=(["a1", "b0"], ["a0", "a1", "b0", "b1"], ["b0", "b1"]),
    ),
    ResultRow(
        G,
        "`startingTimestamp` before `startingOffsetsByTimestamp` before `startingOffsets`; `ending...`",
        check=_precedence,
        expected=[["d"], ["b", "c"], ["c"]],
    ),
    ResultRow(G, "`startingOffsetsByTimestampStrategy`", why="Relation: strategies without a match"),
    ResultRow(G, "`failOnDataLoss`", why="data loss"),
    ResultRow(G, "`kafkaConsumer.pollTimeoutMs`", check=_poll_timeout, expected=True),
    ResultRow(
        G,
        "`fetchOffset.numRetries`, `fetchOffset.retryIntervalMs`",
        why="without effect; use `kafka.retries` and `kafka.retry.backoff.ms`",
        check=_offset_fetching,
        expected=["a"],
    ),
    ResultRow(G, "`maxOffsetsPerTrigger`", why="MicroBatchSource: AvailableNow"),
    ResultRow(
        G,
        "`minOffsetsPerTrigger`, `maxTriggerDelay`",
        check=_smallest_batch,
        expected=([["0", "1", "2"]], True),
        is_deep=True,
    ),
    ResultRow(G, "`minPartitions`", why="Relation: minPartitions"),
    ResultRow(
        G,
        "`maxRecordsPerPartition`: tasks of a batch read",
        DIFFERS,
        "the connector does not divide a batch read by it",
        check=_max_records_per_partition,
        expected=(3, 10),
        connector=(1, 10),
    ),
    ResultRow(
        G,
        "`groupIdPrefix`, `kafka.group.id`",
        why="neither joins a group; kafka-topic sends no group id either",
        check=_groups,
        expected=([["a"], [["a"]]], []),
    ),
    ResultRow(G, "`includeHeaders` of a read", why="Relation: headers"),
    ResultRow(
        G,
        "`topic`, `includeHeaders` of a write",
        check=_write_headers,
        expected=[[("h", b"1"), ("h", None)], None],
    ),
    ResultRow(G, "`kafka.*` of the clients", why="[each setting of Java's clients](client-settings.md) is recognized"),
    ResultRow(G, "`kafka.partitioner.class`", CANNOT, "rejected (a Java class); set the column partition"),
    ResultRow(G, "`spark.kafka.consumer.cache.*`, `spark.kafka.producer.cache.*`", CANNOT, "see DataConsumer"),
    ResultRow(G, "`spark.kafka.clusters.*`", CANNOT, "see DelegationToken"),
)
PLAYED = tuple(row for row in ROWS if row.check is not None)


def name_of(row: ResultRow) -> str:
    """Return the name of a row's check."""
    assert row.check is not None
    return row.check.__name__.strip("_")


def play_row(row: ResultRow, spark: Any, form: str, servers: str) -> Any:
    """Return the result of a row's check with one format."""
    assert row.check is not None
    return row.check(Play(spark, form, servers))


class Run(NamedTuple):
    """A run of all rows next to the connector: its date, the releases, and the rows that gave the expected results."""

    date: str
    spark: str
    connector: str
    kafka: str
    rows: list[str]

    @classmethod
    def read(cls) -> Run:
        """Return the last run."""
        return cls(**json.loads(RUN.read_text()))

    def write(self) -> None:
        """Store this run, and write the page."""
        RUN.write_text(json.dumps(self._asdict(), indent=1) + "\n")
        PAGE.write_text(page_of(self))


def page_of(run: Run) -> str:
    """Return the page as Markdown."""
    counts = {verdict: sum(row.verdict == verdict for row in ROWS) for verdict in (EQUAL, DIFFERS, CANNOT)}
    lines = [
        "# Behaviours of Spark's Kafka connector",
        "",
        "Behaviours that the test suites and the guide of Spark's own Kafka connector describe, and whether",
        f"`kafka-topic` has them: {counts[EQUAL]} are equal, {counts[DIFFERS]} differ, {counts[CANNOT]} cannot exist.",
        "",
        f"`make interop` runs {len(run.rows)} of these rows with both, and writes this page. The last run was on",
        f"{run.date} with connector {run.connector}, Spark {run.spark} and Apache Kafka {run.kafka}. In each row with",
        "a check mark, both sources gave the expected result.",
        "The options of a read are in [the reference](reference/kafka-topic.md#options-of-a-read).",
        "",
        "| suite | behaviour | `kafka-topic` | reason or remark | run |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        mark = "✓" if row.check is not None and name_of(row) in run.rows else ""
        lines.append(f"| {row.suite} | {row.behaviour} | {row.verdict} | {row.why} | {mark} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page; or with ``SERVERS JARS`` play the rows with both formats. Further arguments are names of rows."""
    if len(sys.argv) == 1:
        PAGE.write_text(page_of(Run.read()))
        return
    import kafkaframes

    servers, jars, *names = sys.argv[1:]
    config = {"spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    config["spark.sql.shuffle.partitions"] = "2"
    spark = kafkaframes.spark.session("suite", master="local[2]", memory="1g", config=config)
    for row in PLAYED:
        for form in (CONNECTOR, OURS) if not names or name_of(row) in names else ():
            try:
                result = play_row(row, spark, form, servers)
            except Exception as error:
                result = f"{type(error).__name__}: {error}"[:2000]
            line = {
                "row": name_of(row),
                "form": form,
                "expected": result == row.expected_of(form),
                "result": repr(result),
            }
            print(json.dumps(line), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
