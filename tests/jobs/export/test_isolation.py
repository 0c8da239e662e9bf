"""Exports of transactional logs: the records of each isolation level, and which earlier exports may be continued."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Producer
from kafkaframes.errors import OptionError

LOGS = Path(__file__).parents[2] / "data" / "logs"
EXAMPLE_LOG_DIR = Path(__file__).parents[2] / "data" / "examples" / "kafka-4.3"
TRANSACTIONS = LOGS / "kraft-4x-transactions"


def exported(to) -> dict[tuple[str, int], list[int]]:
    """Return the exported offsets by topic and partition."""
    result = {}
    for path in sorted(Path(to).glob("topic=*/partition=*/*.parquet")):
        topic, partition = (part.partition("=")[2] for part in path.parts[-3:-1])
        result.setdefault((topic, int(partition)), []).extend(pq.ParquetFile(path).read()["offset"].to_pylist())
    return result


def scanned(paths, **keywords) -> dict[tuple[str, int], list[int]]:
    result = {}
    for batch in kafkaframes.scan_log(paths, **keywords).select("topic", "partition", "offset"):
        for row in batch.to_pylist():
            result.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return result


@pytest.mark.parametrize("log", [TRANSACTIONS, EXAMPLE_LOG_DIR], ids=["transactions", "shop"])
@pytest.mark.parametrize("isolation", [None, "read_committed", "read_uncommitted"])
def test_an_export_has_the_records_that_a_scan_has(log, isolation, tmp_path):
    done = kafkaframes.export_log(log, tmp_path / "out", isolation=isolation).report
    assert exported(tmp_path / "out") == scanned(log, isolation=isolation)
    single = kafkaframes.export_log(log, tmp_path / "one.parquet", isolation=isolation, single_file=True).report
    assert single.summary.records == done.summary.records == pq.read_metadata(tmp_path / "one.parquet").num_rows
    assert kafkaframes.export_log(log, tmp_path / "out", isolation=isolation).report.exported == 0


def test_omitted_records_of_aborted_transactions_are_counted(tmp_path):
    committed = kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out").report
    every = kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "all", isolation="read_uncommitted").report
    omitted = {entry.reason: entry.records for entry in committed.summary.dropped}
    assert omitted["records of aborted transactions"] == every.summary.records - committed.summary.records > 0


def test_records_that_an_open_transaction_hides_are_in_the_result(tmp_path):
    result = kafkaframes.export_log(TRANSACTIONS, tmp_path / "out")
    assert not result.report.is_complete
    assert result.report.notes.hidden_records
    assert "read_committed omits" in str(result)
    stored = json.loads((tmp_path / "out" / "_kafkaframes" / "summary.json").read_text())
    assert stored["open_transactions"] == result.to_dict()["open_transactions"] != []
    command = ask("export", TRANSACTIONS, "--to", tmp_path / "out")
    assert command.exit_code == 1
    assert "--isolation read_uncommitted includes these records" in command.stderr


def test_records_of_a_transaction_that_has_ended_are_added_by_the_next_run(tmp_path):
    """A segment that ended before the last stable offset is exported again as a whole."""
    with (
        Broker(data_dir=tmp_path / "data") as broker,
        Producer(broker.bootstrap_servers, transactional_id="t") as producer,
    ):
        with Producer(broker.bootstrap_servers) as other:
            other.send("t", b"before", partition=0).result()
            other.send("u", b"other", partition=0).result()
        producer.begin_transaction()
        producer.send("t", b"1", partition=0).result()
        shutil.copytree(tmp_path / "data", tmp_path / "open")
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"2", partition=0).result()
        producer.commit_transaction()
    first = kafkaframes.export_log(tmp_path / "open", tmp_path / "out", topics=["t", "u"]).report
    assert (exported(tmp_path / "out"), len(first.notes.hidden_records)) == ({("t", 0): [0], ("u", 0): [0]}, 1)
    shutil.copytree(tmp_path / "data", tmp_path / "ended")
    second = kafkaframes.export_log(tmp_path / "ended", tmp_path / "out", topics=["t", "u"]).report
    expected_offsets = {("t", 0): [0, 3], ("u", 0): [0]}
    assert exported(tmp_path / "out") == scanned(tmp_path / "ended", topics=["t", "u"]) == expected_offsets
    assert (second.exported, second.resumed) == (1, 1)  # the segment of the other partition is not exported again
    assert second.is_complete


def test_an_export_of_single_segments_is_read_uncommitted(tmp_path):
    segment = next(TRANSACTIONS.rglob("ledger-0/*.log"))
    kafkaframes.export_log(segment, tmp_path / "out")
    assert "isolation" not in json.loads((tmp_path / "out" / "_kafkaframes" / "export.json").read_text())
    with pytest.raises(OptionError, match="read_committed needs whole logs"):
        kafkaframes.export_log(segment, tmp_path / "other", isolation="read_committed")


# Stored by commit 06119745, whose file exports were always read_uncommitted.
STORED = {
    "base64": False,
    "form": "parquet",
    "headers": True,
    "keep": {
        "control": False,
        "from_offset": None,
        "from_timestamp": None,
        "key_pattern": None,
        "keys": None,
        "until_offset": None,
        "until_timestamp": None,
    },
    "mode": "PERMISSIVE",
    "verify_crc": True,
}


def test_an_export_of_an_earlier_release_is_continued_with_its_isolation_level_only(tmp_path):
    kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out", isolation="read_uncommitted")
    state = tmp_path / "out" / "_kafkaframes" / "export.json"
    assert json.loads(state.read_text()) == STORED
    before = exported(tmp_path / "out")
    with pytest.raises(OptionError, match=r"`isolation` was read_uncommitted and is read_committed.*`overwrite`"):
        kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out")
    command = ask("export", EXAMPLE_LOG_DIR, "--to", tmp_path / "out")
    assert "--isolation was read_uncommitted and is read_committed" in str(command.exception)
    assert exported(tmp_path / "out") == before
    assert kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out", isolation="read_uncommitted").report.exported == 0
    kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out", overwrite=True)
    assert json.loads(state.read_text()) == STORED | {"isolation": "read_committed"}
    with pytest.raises(OptionError, match="`isolation` was read_committed and is read_uncommitted"):
        kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "out", isolation="read_uncommitted")


def test_the_journal_of_an_earlier_release_is_continued(tmp_path):
    """The tasks in that journal have no aborted transactions, but the same bounds as those of this release."""
    kafkaframes.export_log(
        EXAMPLE_LOG_DIR, tmp_path / "out", isolation="read_uncommitted", topics="payments", start=100
    )
    lines = [
        json.loads(line)
        for path in (tmp_path / "out" / "_kafkaframes" / "journal").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    tasks = [segment["task"] for line in lines for segment in line.get("segments", [line])]
    assert {tuple(sorted(task)) for task in tasks} == {
        (
            "aborted", "alternates", "base_offset", "end_offset", "first_offset", "head", "label", "partition", "path",
            "size_bytes", "source", "start", "topic", "topic_id",
        )
    }  # fmt: skip
    assert {(task["start"], task["first_offset"], task["end_offset"]) for task in tasks} <= {
        (0, 100, None),
        (0, None, None),
    }


def test_offsets_that_the_log_has_lost_are_an_error(tmp_path):
    partition = tmp_path / "log" / "t-0"
    partition.mkdir(parents=True)
    raw = kafkaframes.build_records([{"value": b"v"}] * 5, base_offset=100)
    (partition / f"{100:020}.log").write_bytes(raw)
    for keywords in ({"start": 5}, {"end": 200}):
        with pytest.raises(OptionError, match="offset"):
            kafkaframes.export_log(tmp_path / "log", tmp_path / "out", **keywords)
        with pytest.raises(OptionError, match="offset"):
            kafkaframes.table_log(tmp_path / "log", tmp_path / "t", **keywords)
    assert not (tmp_path / "out").exists()
    report = kafkaframes.export_log(tmp_path / "log", tmp_path / "out", start=5, fail_on_data_loss=False).report
    assert report.summary.records == 5
