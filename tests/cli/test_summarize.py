"""The main job: its output, the written files, and mistakes that are reported before Spark starts."""

import pytest
from click.testing import CliRunner
from tests.spark.truth import LOGS, SHOP, lines_of, rows_of

from kafkaframes.cli import summarize as cli_summarize
from kafkaframes.cli.main import cli
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.export.tally import CodecSummary, Dropped, Summary, TopicSummary
from kafkaframes.spark.dataframes.summary import summarize


def run(*arguments):
    return CliRunner().invoke(cli, ["summarize", *map(str, arguments)])


@pytest.mark.spark
def test_the_figures_are_those_of_kafkas_truth(spark, tmp_path):
    summary = summarize(spark, str(LOGS), to=str(tmp_path / "out"))
    topics = {topic.topic: topic for topic in summary.topics}
    assert set(topics) == {"orders", "payments", "customers", "sensor-readings", "clickstream"}
    for name in ("orders", "sensor-readings"):
        rows = rows_of(SHOP, name)
        assert (topics[name].records, topics[name].partitions) == (len(rows), len({row[0] for row in rows}))
        assert topics[name].first_timestamp_ms == min(row[2] for row in rows)
        assert topics[name].last_timestamp_ms == max(row[2] for row in rows)
    batches = [line for log in (SHOP, LOGS / "kafka-2.8-format-1") for line in lines_of(log) if line["type"] == "batch"]
    batches = [line for line in batches if not line["topic"].startswith("__")]
    for codec in summary.codecs:
        own = [line for line in batches if line["codec"] == codec.codec and not line["control"]]
        assert (codec.batches, codec.log_bytes) == (len(own), sum(line["size"] for line in own))
        assert codec.records == sum(line["count"] for line in own)
        assert codec.ratio == codec.payload_bytes / codec.log_bytes
    markers = [line for line in batches if line["control"]]
    assert summary.dropped == (
        Dropped("control records (transaction markers)", len(markers), len(markers), sum(m["size"] for m in markers)),
    )
    assert "__consumer_offsets" in summary.internal_topics
    written_frame = spark.read.parquet(summary.output)
    assert written_frame.count() == summary.records == summary.records_read == 17_418
    text = "\n".join(part if isinstance(part, str) else part.title for part in cli_summarize.render(summary))
    assert "17,418 records read, 17,418 written" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such/place", "--to", "{tmp}/out"], "no such file"),
        ([SHOP, "--to", "{tmp}/out", "--option", "subscribed=orders"], "did you mean subscribe"),
        ([SHOP, "--to", "{tmp}/out", "--option", "subscribe=order"], "no topic order"),
        ([SHOP, "--to", "{tmp}/out", "--option", "subscribe"], "NAME=VALUE"),
        ([SHOP, "--to", "{tmp}"], "--overwrite replaces"),
        ([SHOP, "--to", "{tmp}", "--overwrite"], "is no earlier output"),
    ],
)
def test_mistakes_are_told_before_spark_starts(arguments, message, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_summarize, "spark_at", None)
    (tmp_path / "precious").write_text("")
    result = run(*[str(argument).format(tmp=tmp_path) for argument in arguments])
    assert isinstance(result.exception, KafkaframesError)
    assert message in str(result.exception)
    assert (tmp_path / "precious").exists()


def test_names_with_brackets_are_printed_as_they_are():
    topic = TopicSummary("[red]topic", 1, 1, 1, None, None)
    codec = CodecSummary("none", 1, 1, 0, 0)
    summary = Summary((topic,), (codec,), (Dropped("why [bold]", 1, None, 5),), (), "out[x]", 1.0)
    from rich.console import Console

    console = Console(width=150)
    with console.capture() as capture:
        for part in cli_summarize.render(summary):
            console.print(part)
    for text in ("[red]topic", "why [bold]", "out[x]", "?"):
        assert text in capture.get()


@pytest.mark.parametrize(("whole", "is_left"), [(False, False), (True, True)], ids=["half", "whole"])
def test_what_was_begun_is_gone_after_ctrl_c(whole, is_left, tmp_path, monkeypatch):
    def stop(*_, **__):
        (tmp_path / "out" / "_temporary").mkdir(parents=True)
        if whole:
            (tmp_path / "out" / "_SUCCESS").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_summarize, "spark_at", stop)
    result = run(SHOP, "--to", tmp_path / "out")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (130, "kafkaframes: interrupted")
    assert (tmp_path / "out").exists() is is_left
