"""Exports of live topics to files: complete, each record once, continued by later runs."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkaframes import Admin, Broker, Producer, export_log, export_topics
from kafkaframes.cli.main import cli
from kafkaframes.client import NewTopic, TopicPartition
from kafkaframes.errors import BrokerError, NetworkError, OptionError
from kafkaframes.jobs.export import live_planning, topic_export
from kafkaframes.jobs.export.job import plan_topic_export
from kafkaframes.jobs.export.settings import TopicExportSettings
from kafkaframes.scan.topic.options import build_consumer_options

EXAMPLE_LOG_DIR = Path(__file__).parents[2] / "data" / "examples" / "kafka-4.3"


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def servers(broker):
    return broker.bootstrap_servers


@pytest.fixture
def admin(servers):
    with Admin(servers) as admin:
        yield admin


def send(servers, values, *, topic="t", partition=0, **settings):
    with Producer(servers, **settings) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)
        producer.flush()


def texts(first, end):
    return [b"%d" % number for number in range(first, end)]


def offsets_of(to, partition=0, topic="t"):
    """Return the offsets in the files of a partition, in the order of the file names."""
    paths = sorted(Path(to, f"topic={topic}", f"partition={partition}").glob("*.parquet"))
    return [offset for path in paths for offset in pq.read_table(path, partitioning=None)["offset"].to_pylist()]


@pytest.fixture
def small_ranges(monkeypatch):
    """Let each task read a range of ten offsets."""
    monkeypatch.setattr(live_planning, "TARGET_FILE_BYTES", 10 << 10)


def test_a_later_run_adds_the_new_records_of_each_partition(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=2)])
    send(servers, texts(0, 5))
    send(servers, texts(0, 3), partition=1)
    first = export_topics(servers, "t", tmp_path / "out")
    assert str(first) == f"8 records read, 8 written to {tmp_path / 'out'}, in 2 ranges"
    send(servers, texts(5, 9))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    second = export_topics(servers, ["t"], tmp_path / "out").report
    assert (second.exported, second.resumed, second.summary.records) == (1, 2, 12)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (offsets_of(tmp_path / "out"), offsets_of(tmp_path / "out", 1)) == (list(range(9)), [0, 1, 2])
    third = export_topics(servers, "t", tmp_path / "out").report
    assert (third.exported, third.summary.records) == (0, 12)
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.usefixtures("small_ranges")
def test_an_interrupted_run_continues_with_the_missing_ranges(servers, admin, tmp_path):
    """Several workers complete ranges in any order, so that a killed run may leave a hole in a partition."""
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 50))
    settings = TopicExportSettings()
    read = settings.make_topic_options(build_consumer_options(servers, None, isolation="read_committed"), "t")
    job = plan_topic_export(read, settings.make_file_settings(str(tmp_path / "out")))

    def run_two_and_fail(function, jobs):
        (whole,) = jobs
        for files in (whole.files[1:2], whole.files[3:4]):
            yield function(whole._replace(files=files))
        raise NetworkError("the broker went away")

    with pytest.raises(NetworkError):
        job.write_files(run_two_and_fail)
    assert offsets_of(tmp_path / "out") == [*range(10, 20), *range(30, 40)]
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    send(servers, texts(50, 55))
    report = export_topics(servers, "t", tmp_path / "out").report
    assert (report.exported, report.resumed) == (4, 2)  # 0 to 9, 20 to 29, 40 to 49, 50 to 54
    assert offsets_of(tmp_path / "out") == list(range(55))
    assert [result.task.first_offset for result in report.results] == [0, 10, 20, 30, 40, 50]


@pytest.mark.usefixtures("small_ranges")
def test_a_file_that_is_missing_or_truncated_is_exported_again(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 30))
    export_topics(servers, "t", tmp_path / "out")
    first, second, _ = sorted((tmp_path / "out" / "topic=t" / "partition=0").glob("*.parquet"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    assert export_topics(servers, "t", tmp_path / "out").report.exported == 2
    assert offsets_of(tmp_path / "out") == list(range(30))


def test_offsets_lost_between_two_runs_are_an_error_or_a_note(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 5))
    export_topics(servers, "t", tmp_path / "out")
    send(servers, texts(5, 10))
    admin.delete_records({TopicPartition("t", 0): 8})
    with pytest.raises(OptionError, match=r"offsets 5 to 7 of t-0 are missing in the export, .*`fail_on_data_loss`"):
        export_topics(servers, "t", tmp_path / "out")
    report = export_topics(servers, "t", tmp_path / "out", fail_on_data_loss=False).report
    assert [finding.check for finding in report.notes.findings] == ["lost-records"]
    send(servers, texts(10, 12))
    assert not export_topics(servers, "t", tmp_path / "out").report.notes  # an accepted loss is not reported again
    assert offsets_of(tmp_path / "out") == [*range(5), *range(8, 12)]


def test_lost_first_records_of_a_known_partition_are_a_loss(servers, admin, tmp_path):
    """The partition was empty in the first run, so that no file has its start offset."""
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    export_topics(servers, "t", tmp_path / "out")
    send(servers, texts(0, 5))
    admin.delete_records({TopicPartition("t", 0): 2})
    with pytest.raises(OptionError, match="offsets 0 to 1 of t-0"):
        export_topics(servers, "t", tmp_path / "out")


def test_a_recreated_topic_is_another_source(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 5))
    export_topics(servers, "t", tmp_path / "out")
    admin.delete_topics(["t"])
    with pytest.raises(BrokerError):
        export_topics(servers, "t", tmp_path / "out")
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(100, 110))
    with pytest.raises(OptionError, match=r"topic t has the id .*the export was filled from a topic with another id"):
        export_topics(servers, "t", tmp_path / "out")
    assert offsets_of(tmp_path / "out") == list(range(5))
    export_topics(servers, "t", tmp_path / "out", overwrite=True)
    assert offsets_of(tmp_path / "out") == list(range(10))


def test_records_of_aborted_and_open_transactions_are_omitted(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    with Producer(servers, transactional_id="x") as producer:
        for number, ends in enumerate((producer.abort_transaction, producer.commit_transaction)):
            producer.begin_transaction()
            producer.send("t", b"%d" % number, partition=0).result()
            ends()
        producer.begin_transaction()
        producer.send("t", b"2", partition=0).result()
        report = export_topics(servers, "t", tmp_path / "out").report
        assert [finding.check for finding in report.notes.findings] == ["open-transaction"]
        assert offsets_of(tmp_path / "out") == [2]
        producer.commit_transaction()
    send(servers, [b"3"])
    assert not export_topics(servers, "t", tmp_path / "out").report.notes
    assert offsets_of(tmp_path / "out") == [2, 4, 6]
    with pytest.raises(OptionError, match="`isolation` was read_committed and is read_uncommitted"):
        export_topics(servers, "t", tmp_path / "out", isolation="read_uncommitted")
    everything = {"isolation": "read_uncommitted", "control_records": True}
    export_topics(servers, "t", tmp_path / "all", **everything)
    assert offsets_of(tmp_path / "all") == list(range(7))


def test_large_records_and_compacted_ranges_are_complete(servers, admin, tmp_path, monkeypatch):
    admin.create_topics(
        [NewTopic(name="t", num_partitions=1, configs={"max.message.bytes": "20000000"})],
    )
    values = [bytes([65 + number]) * 3_000_000 for number in range(6)]
    send(servers, values, max_request_size=20_000_000)
    monkeypatch.setattr(live_planning, "TARGET_FILE_BYTES", 2 << 10)  # ranges of two offsets, far smaller than a record
    report = export_topics(servers, "t", tmp_path / "out").report
    assert (report.exported, report.records_read) == (3, 6)
    paths = sorted(tmp_path.rglob("*.parquet"))
    assert [value for path in paths for value in pq.read_table(path, partitioning=None)["value"].to_pylist()] == values


def test_the_range_and_the_conditions_select_records(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=2)])
    send(servers, texts(0, 20))
    send(servers, texts(0, 20), partition=1)
    export_topics(servers, "t", tmp_path / "a", partitions=0, start=5, end=12)
    assert (offsets_of(tmp_path / "a"), offsets_of(tmp_path / "a", 1)) == (list(range(5, 12)), [])
    export_topics(servers, "t", tmp_path / "a", partitions=[0, 1])  # partition 0 continues, partition 1 is new
    assert (offsets_of(tmp_path / "a"), offsets_of(tmp_path / "a", 1)) == (list(range(5, 20)), list(range(20)))
    with pytest.raises(OptionError, match="`start`: a batch read cannot start at latest"):
        export_topics(servers, "t", tmp_path / "b", start="latest")
    with pytest.raises(OptionError, match="`topics` is empty"):
        export_topics(servers, [], tmp_path / "b")


def test_committed_offsets_of_a_group_are_the_start_of_new_partitions(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 10))
    admin.alter_group_offsets("g", {TopicPartition("t", 0): 4})
    export_topics(servers, "t", tmp_path / "out", start="group:g")
    assert offsets_of(tmp_path / "out") == list(range(4, 10))
    send(servers, texts(10, 14))
    admin.alter_group_offsets("g", {TopicPartition("t", 0): 12})
    export_topics(servers, "t", tmp_path / "out", start="group:g")
    assert offsets_of(tmp_path / "out") == list(range(4, 14))


def test_logs_and_topics_need_separate_destinations(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 5))
    export_topics(servers, "t", tmp_path / "out")
    with pytest.raises(OptionError, match="has an export with other settings: `source` was live topics"):
        export_log(EXAMPLE_LOG_DIR, tmp_path / "out", topics="orders")


@pytest.mark.parametrize("form", ["csv", "json", "arrow"])
def test_topics_are_exported_in_other_formats(servers, admin, tmp_path, form):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 5))
    export_topics(servers, "t", tmp_path / "out", format=form)
    (path,) = (tmp_path / "out" / "topic=t" / "partition=0").iterdir()
    assert path.name == f"{0:020}.{form}"
    assert path.stat().st_size
    if form == "json":
        assert [json.loads(line)["offset"] for line in path.read_text().splitlines()] == list(range(5))


def test_a_single_file_has_all_partitions(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=2)])
    for partition in (0, 1):
        send(servers, texts(0, 3), partition=partition)
    export_topics(servers, "t", tmp_path / "out.parquet", single_file=True)
    rows = pq.read_table(tmp_path / "out.parquet").select(["partition", "offset"]).to_pylist()
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    with pytest.raises(OptionError, match="exists; `overwrite` replaces it"):
        export_topics(servers, "t", tmp_path / "out.parquet", single_file=True)


def test_a_plan_of_an_interrupted_journal_line_is_skipped(tmp_path):
    journal = tmp_path / "_kafkaframes" / "journal"
    journal.mkdir(parents=True)
    (journal / "a.jsonl").write_text(
        '{"plan": {"starts": {"t": {"0": 3}}, "topic_ids": {}, "gaps": []}}\n{"plan": {"st'
    )
    contents = topic_export.read_contents(str(tmp_path))
    assert contents.find_end(("t", 0)) == 3
    assert contents.find_end(("t", 1)) is None


def run_command(*arguments):
    return CliRunner().invoke(cli, ["export", *map(str, arguments), "--workers", "1"])


def test_the_command_exports_topics(servers, admin, tmp_path):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    send(servers, texts(0, 5))
    result = run_command("t", "-b", servers, "--to", tmp_path / "out", "--start", "1")
    assert result.exit_code == 0, result.output
    assert "1 range in" in result.output
    send(servers, texts(5, 8))
    result = run_command("t", "-b", servers, "--to", tmp_path / "out", "--json")
    values = json.loads(result.stdout)
    assert (values["records"], values["exported"], values["resumed"]) == (7, 1, 1)
    assert offsets_of(tmp_path / "out") == list(range(1, 8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replicas", "all"], "--replicas is for a log directory, and the source is a topic"),
        (["--topic", "u"], "--topic is for a log directory, and the source is a topic"),
        (["--isolation", "read_uncommitted"], "--isolation was read_committed and is read_uncommitted"),
    ],
)
def test_flags_of_logs_and_other_settings_are_rejected(servers, admin, tmp_path, arguments, message):
    admin.create_topics([NewTopic(name="t", num_partitions=1)])
    export_topics(servers, "t", tmp_path / "out")
    result = CliRunner().invoke(cli, ["export", "t", "-b", servers, "--to", str(tmp_path / "out"), *arguments])
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_properties_of_clients_are_rejected_for_logs(tmp_path):
    result = CliRunner().invoke(
        cli, ["export", str(EXAMPLE_LOG_DIR), "--to", str(tmp_path / "out"), "-X", "client.id=x"]
    )
    assert "-X is for a topic, and the source is a log directory" in str(result.exception)
