"""The behaviours that the suites of Spark's own Kafka connector test, and the options of its guide: is ours equal?

    python -m tests.spark.connector_suite        (writes docs/connector-suite.md)

A row with a check is played with ``kafka-topic`` by ``tests/spark/test_connector_suite.py``. ``Play`` takes the name of
the connector as well.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition

PAGE = Path(__file__).parents[2] / "docs" / "connector-suite.md"
EQUAL, DIFFERS, CANNOT = "equal", "differs", "cannot be"
T0 = 1_700_000_000_000
AWAY = {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.default.api.timeout.ms": "1500", "kafka.max.block.ms": "1500"}
SHORT = {"kafka.request.timeout.ms": "1400", "kafka.delivery.timeout.ms": "1500", "kafka.linger.ms": "0"}


class Play:
    """One format in one session, next to a cluster.

    Args:
        spark: the session.
        form: ``kafka`` or ``kafka-topic``.
        servers: of the cluster.
    """

    def __init__(self, spark: Any, form: str, servers: str) -> None:
        self.spark, self.form, self.servers = spark, form, servers

    def topic(self, partitions: int = 1) -> str:
        name = f"suite-{uuid.uuid4().hex[:12]}"
        with Admin(self.servers) as admin:
            admin.create_topics([NewTopic(name=name, num_partitions=partitions, configs={"retention.ms": "-1"})])
        return name

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

    def batches(self, folder: str | None = None, **options: Any) -> list[list[str]]:
        """Return the values of each micro-batch of a run to the end."""
        result: list[list[str]] = []
        values = {"kafka.bootstrap.servers": self.servers, "startingOffsets": "earliest", **options}
        frame = self.spark.readStream.format(self.form).options(**values).load().selectExpr("CAST(value AS string) v")

        def note(batch: Any, _: int) -> None:
            result.append(sorted(row.v for row in batch.collect()))

        with tempfile.TemporaryDirectory() as own:
            writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", folder or own)
            writer.trigger(availableNow=True).start().awaitTermination(120)
        return result

    def write(self, rows: list[tuple[Any, ...]], schema: str, **options: Any) -> None:
        values = {"kafka.bootstrap.servers": self.servers, **options}
        frame = self.spark.createDataFrame(rows, schema)
        frame.write.format(self.form).options(**values).mode("append").save()

    def refused(self, work: Callable[[], Any]) -> bool:
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
    nothing = play.refused(lambda: play.values(subscribe=topic, startingOffsetsByTimestamp=times))
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    return between, nothing, play.values(subscribe=topic, startingOffsetsByTimestamp=times, **latest)


def _bad_options(play: Play) -> Any:
    t = {"subscribe": "t"}
    bad = [
        {**t, "startingOffsets": "latest"}, {**t, "startingOffsets": '{"t": {"0": -1}}'},
        {**t, "endingOffsets": "earliest"}, {**t, "endingOffsets": '{"t": {"0": -2}}'}, {},
        {**t, "subscribePattern": "t.*"}, {**t, "assign": '{"a": [0]}'}, {"assign": ""}, {"subscribe": ""},
        {"subscribePattern": ""}, {**t, "minPartitions": "0"}, {**t, "minPartitions": "1.0"},
        {**t, "kafka.auto.offset.reset": "earliest"}, {**t, "kafka.enable.auto.commit": "true"},
        {**t, "kafka.key.deserializer": "a.B"}, {**t, "kafka.interceptor.classes": "a.B"},
        {**t, "kafka.isolation.level": "intentionally_invalid"},
    ]  # fmt: skip
    return [options for options in bad if not play.refused(lambda options=options: play.values(**options))]


def _offsets_of_other_partitions(play: Play) -> Any:
    topic = play.topic(3)
    some = json.dumps({topic: {"0": 0, "1": 0}})
    return play.refused(lambda: play.values(subscribe=topic, startingOffsets=some))


def _transactions(play: Play) -> Any:
    topic = play.topic()
    with Producer(play.servers, transactional_id=topic) as producer:
        for value, ends in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(topic, value)
            producer.flush()
            ends()
    committed = {"kafka.isolation.level": "read_committed"}
    return (
        play.values(subscribe=topic),
        play.values(subscribe=topic, **committed),
        play.batches(subscribe=topic, **committed),
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
        with Admin(play.servers) as admin:
            admin.create_partitions({topic: 2})
        play.send(topic, "b", partition=1)
        return first, play.batches(folder, subscribe=topic)


def _lost_records(play: Play) -> Any:
    topic = play.topic()
    play.send(topic, range(6))
    play.delete(topic, 4)
    options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    fails = play.refused(lambda: play.values(**options)), play.refused(lambda: play.batches(**options))
    lenient = {**options, "failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "1000"}
    return fails, play.values(**lenient), play.batches(**lenient)


def _stream_options(play: Play) -> Any:
    t = {"subscribe": "t", "kafka.default.api.timeout.ms": "1500"}
    bad = [{**t, "endingOffsets": "latest"}, {**t, "endingOffsetsByTimestamp": '{"t": {"0": 1000}}'}]
    bad += [{**t, "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"}]
    return [options for options in bad if not play.refused(lambda options=options: play.batches(**options))]


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
    passed = [
        schema
        for rows, schema, options in bad
        if not play.refused(lambda r=rows, s=schema, o=options: play.write(r, s, **o))
    ]
    return passed, play.values(subscribe=topic)


def _brokers_away(play: Play) -> Any:
    options = {**AWAY, "subscribe": "t", "fetchOffset.numRetries": "1"}
    return play.refused(lambda: play.values(**options)), play.refused(lambda: play.batches(**options))


class Row(NamedTuple):
    """One behaviour: which suite tests it, ours next to it, and how it is played."""

    suite: str
    behaviour: str
    verdict: str = EQUAL
    why: str = ""
    check: Callable[[Play], Any] | None = None
    expected: Any = None


R, M, S, O, D = "Relation", "MicroBatchSource", "Sink", "OffsetReader", "data loss"  # noqa: E741
ROWS = (
    Row(
        R,
        "a DataFrame is read again: new ends, new starts of the ends",
        check=_latest_is_bound_late,
        expected=(3, 5, 10),
    ),
    Row(R, "an earliest start is resolved by each action", check=_start_is_bound_late, expected=(5, ["a", "b"])),
    Row(R, "offsets for each partition, -1 and -2 among them", check=_specific_offsets, expected=["b", "c", "d"]),
    Row(R, "headers; null without any", check=_headers, expected=[None, [("e", b"f"), ("e", b"g")]]),
    Row(R, "timestamps, strategies without a match", check=_timestamps, expected=(["b"], True, [])),
    Row(R, "bad options, forbidden `kafka.*`", check=_bad_options, expected=[]),
    Row(R, "offsets of only some partitions are refused", check=_offsets_of_other_partitions, expected=True),
    Row(R, "read_committed, read_uncommitted", check=_transactions, expected=(["a", "b"], ["a"], [["a"]])),
    Row(R, "minPartitions (SPARK-30656)", check=_min_partitions, expected=(True, 10)),
    Row(R, "an RDD of a DataFrame sees new records", DIFFERS, "an RDD is a snapshot of its first action"),
    Row(R, "V1 and V2 sources by a setting", CANNOT, "classes of Spark"),
    Row(M, "null keys and values (SPARK-27494)", check=_nulls, expected=[(b"k", None), (None, None)]),
    Row(M, "AvailableNow, maxOffsetsPerTrigger", check=_rate_limit, expected=[5, 5, 1]),
    Row(M, "a limit of Long.Max (SPARK-26718)", check=_huge_rate_limit, expected=[["a", "b"]]),
    Row(M, "partitions that are added", check=_new_partitions, expected=([["a"]], [["b"]])),
    Row(M, "options of a stream that are refused", check=_stream_options, expected=[]),
    Row(M, "minOffsetsPerTrigger with maxTriggerDelay", why="played by `tests/interop/connector_script.py`"),
    Row(
        M, "a topic is deleted, or made again, with a pattern", why="played by `tests/spark/test_topic_checkpoints.py`"
    ),
    Row(M, "no offset `{}` for an empty list of topics (SPARK-41375)", why="the offsets are kept under the topic's id"),
    Row(
        M,
        "a nanosecond timestamp is an error (SPARK-56243)",
        why="in newer connectors than 4.2.0; `timestampErrors=null` reads null",
    ),
    Row(M, "AvailableNow repeats a batch after partitions were added (SPARK-53560)"),
    Row(M, "self-joins have one offset; exchanges are reused"),
    Row(
        M, "the checkpoint's first offsets (SPARK-19517)", DIFFERS, "not written; `checkpoint convert --for kafka` does"
    ),
    Row(
        M,
        "offsets behind the latest in the progress",
        DIFFERS,
        "Spark asks no Python source; `watch_topics` reports them",
    ),
    Row(M, "kafka.group.id, groupIdPrefix", DIFFERS, "accepted without effect: no group is joined"),
    Row(M, 'offsets for a whole topic, {"t": "earliest"}', DIFFERS, "refused; in no released connector as of 4.2"),
    Row(M, "async progress tracking", CANNOT, "Spark refuses it for Python sources"),
    Row(S, "topic by column, by option; partition by column", check=_sink, expected=(["1", "2", "3"], ["4", "5"])),
    Row(S, "bad schemas, types, options; too large; brokers away", check=_bad_sinks, expected=([], [])),
    Row(S, "save modes: append alone", DIFFERS, 'Python writers need `.mode("append")`, also where it is the default'),
    Row(S, "kafka.partitioner.class", CANNOT, "a Java class; set the column partition"),
    Row(S, 'outputMode("update")', DIFFERS, 'Spark refuses it; `write_topic(output_mode="update")`'),
    Row(O, "brokers away when a query begins", check=_brokers_away, expected=(True, True)),
    Row(O, "ranges for minPartitions", DIFFERS, "cut by bytes, not by offsets"),
    Row(O, "fetchOffset.numRetries, fetchOffset.retryIntervalMs", DIFFERS, "without effect: kafka.retries counts"),
    Row(
        D,
        "failOnDataLoss; no record twice without it",
        check=_lost_records,
        expected=((True, True), ["4", "5"], [["4", "5"]]),
    ),
    Row(D, "assign of a missing partition", DIFFERS, "refused; the connector reads the others in silence"),
    Row("Continuous", "all of KafkaContinuous*", CANNOT, "no continuous processing of Python sources"),
    Row("RealTimeMode", "all of KafkaRealTime*", CANNOT, "no real-time mode of Python sources"),
    Row(
        "DelegationToken",
        "tokens that Spark gets itself",
        CANNOT,
        "`spark.kafka.clusters.*`; a token in the login works",
    ),
)


def page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# The connector's suites, behaviour by behaviour",
        "",
        "What the test suites of Spark's own Kafka connector check, and whether `kafka-topic` does the same. Rows that",
        "are marked as played run in `make test` on the embedded broker. `make interop` plays others.",
        "The options of a read are in [Live topics on Spark](live-topics.md#options-of-a-read).",
        "",
        "| suite | behaviour | `kafka-topic` | why, or what else | played |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.suite} | {row.behaviour} | {row.verdict} | {row.why} | {'yes' if row.check else ''} |" for row in ROWS
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
