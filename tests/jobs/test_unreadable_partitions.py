"""A partition directory that cannot be listed (chmod 000, a failing disk): the other partitions are read, and the
unreadable one is reported with its path and the reason.

Reported for a backup that was copied by root: ``info``, ``verify`` and ``export`` ended with one line about one
directory, and read nothing.
"""

import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes import Broker
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.scan.log.following import LogFollower
from kafkaframes.scan.log.options import ReadOptions

REASON = "orders-1: cannot be read: Permission denied"


@pytest.fixture(scope="module", name="log")
def _log(tmp_path_factory):
    path = tmp_path_factory.mktemp("unreadable") / "log"
    with Broker(data_dir=path) as broker:
        broker.create_topic("orders", partitions=3)
        broker.create_topic("payments", partitions=1)
        for number in range(3):
            broker.append("orders", [{"value": b"v"} for _ in range(number + 1)], partition=number)
        broker.append("payments", [{"value": b"w"}])
    return path


@pytest.fixture(name="lock")
def _lock(monkeypatch):
    """Return a function that makes directories unreadable. Tests may run as root, for whom chmod has no effect."""
    locked_paths: set[str] = set()
    original = os.scandir

    def scan(path):
        if str(path) in locked_paths:
            raise PermissionError(13, "Permission denied", path)
        return original(path)

    monkeypatch.setattr(os, "scandir", scan)

    def lock(*paths):
        locked_paths.clear()
        locked_paths.update(map(str, paths))

    return lock


def exported(to):
    """Return the topic partitions of the exported records, from their paths."""
    files = [file for file in Path(to).rglob("*.parquet") if pq.read_metadata(file).num_rows]
    directories = [dict(step.split("=") for step in file.parts[-3:-1]) for file in files]
    return sorted({(values["topic"], int(values["partition"])) for values in directories})


OTHERS = [("orders", 0), ("orders", 2), ("payments", 0)]


def test_info_and_verify_read_the_other_partitions(log, lock):
    lock(log / "orders-1")
    summary = kafkaframes.describe_log(log)
    assert [(one.topic, one.partition) for one in summary.report] == OTHERS
    assert summary.to_dict()["unreadable"][0]["file"] == str(log / "orders-1")
    assert f"error: unreadable: {REASON} (at {log / 'orders-1'})" in str(summary)
    report = kafkaframes.verify_log(log).report
    assert (report.verdict, report.partitions, report.is_sound) == ("UNREADABLE", 3, False)
    assert [str(finding) for finding in report.findings] == [f"error: unreadable: {REASON} (at {log / 'orders-1'})"]
    report_of_page = kafkaframes.report_log(log).report
    assert [finding.file for finding in report_of_page.findings] == [str(log / "orders-1")]


@pytest.mark.parametrize("command", ["info", "info --json", "verify", "verify --json", "report -o {}"])
def test_commands_report_the_partition_and_exit_with_status_1(log, lock, command, tmp_path):
    lock(log / "orders-1")
    result = ask(*command.format(tmp_path / "page.html").split(), log, "--workers", "1")
    assert result.exit_code == 1
    assert REASON in (result.output if "report" not in command else (tmp_path / "page.html").read_text())
    other_topic = ask(*command.format(tmp_path / "other.html").split(), log, "--workers", "1", "--topic", "payments")
    assert command.startswith("report") or (other_topic.exit_code, REASON in other_topic.output) == (0, False)


def test_an_export_has_the_other_partitions_and_continues_after_the_repair(log, lock, tmp_path):
    to = tmp_path / "out"
    lock(log / "orders-1")
    result = kafkaframes.export_log(log, to)
    assert not result.report.is_complete
    assert f"{REASON} (at {log / 'orders-1'})" in str(result)
    assert exported(to) == OTHERS
    assert not (to / "_SUCCESS").exists()
    assert ask("export", log, "--to", to, "--workers", "1").exit_code == 1

    lock()
    assert kafkaframes.export_log(log, to).report.is_complete
    assert exported(to) == sorted([*OTHERS, ("orders", 1)])

    lock(log / "orders-1")  # files of earlier runs stay
    assert not kafkaframes.export_log(log, to).report.is_complete
    assert exported(to) == sorted([*OTHERS, ("orders", 1)])


def test_the_selection_of_an_export_applies_to_unreadable_partitions(log, lock, tmp_path):
    lock(log / "orders-1")
    assert kafkaframes.export_log(log, tmp_path / "other", topics="payments").report.is_complete
    assert not kafkaframes.export_log(log, tmp_path / "one", partitions=1).report.is_complete
    starts = kafkaframes.export_log(log, tmp_path / "starts", topics="orders", start={"orders": {0: 1, 1: 0, 2: 1}})
    assert not starts.report.is_complete
    assert exported(tmp_path / "starts") == [("orders", 2)]
    with pytest.raises(OptionError, match="orders-7, which the read does not select"):
        kafkaframes.export_log(log, tmp_path / "typo", topics="orders", start={"orders": {0: 1, 1: 0, 2: 1, 7: 0}})
    lock(log / "payments-0")
    assert not kafkaframes.export_log(log, tmp_path / "none", topics="payments").report.is_complete


def test_another_copy_of_the_partition_is_read_and_the_copy_is_reported(log, lock, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    lock(log / "orders-1")
    result = kafkaframes.export_log([log, copy], tmp_path / "out", topics="orders")
    assert exported(tmp_path / "out") == [("orders", 0), ("orders", 1), ("orders", 2)]
    assert not result.report.is_complete
    info = ask("info", log, copy, "--workers", "1")
    assert (info.exit_code, REASON in info.output) == (1, True)


def test_jobs_that_need_every_partition_fail(log, lock, tmp_path):
    lock(log / "orders-1")
    for job in (
        lambda: kafkaframes.convert_log(log, tmp_path / "converted", record_format=2),
        lambda: kafkaframes.verify_log(log / "orders-1"),
    ):
        with pytest.raises(LogDirError, match=f"cannot be read: Permission denied .at {log / 'orders-1'}"):
            job()
    assert list(tmp_path.iterdir()) == []


READERS = {
    "scan": lambda log, to, **options: kafkaframes.scan_log(log, **options).count(),
    "grep": lambda log, to, **options: list(kafkaframes.grep_log(log, ".", **options)),
    "grep --follow": lambda log, to, **options: next(iter(kafkaframes.grep_log(log, ".", follow=True, **options))),
    "single file": lambda log, to, **options: kafkaframes.export_log(
        log, to / "a.parquet", single_file=True, **options
    ),
    "restore": lambda log, to, **options: kafkaframes.restore_log(log, to / "restored", **options),
    "analyze": lambda log, to, **options: kafkaframes.analyze_records(log, **options),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_readers_that_need_every_selected_partition_say_how_to_go_on(log, lock, tmp_path, reader):
    lock(log / "orders-1")
    remedy = "make the directory readable, or select other topics or partitions"
    for selection in ({}, {"topics": "orders"}):
        with pytest.raises(LogDirError) as failure:
            reader(log, tmp_path, **selection)
        assert str(failure.value) == f"{REASON}; {remedy} (at {log / 'orders-1'})"
    assert list(tmp_path.iterdir()) == []
    reader(log, tmp_path, topics="payments")


def test_a_stream_needs_the_selected_partitions(log, lock):
    lock(log / "orders-1")
    follower = LogFollower(ReadOptions(paths=(str(log),), subscribe=frozenset({"payments"})))
    assert follower.find_end_offsets() == {("payments", 0): 1}
    with pytest.raises(LogDirError, match="orders-1: cannot be read: Permission denied; make the directory readable"):
        LogFollower(ReadOptions(paths=(str(log),))).find_end_offsets()


def test_a_table_has_the_other_partitions_and_continues_after_the_repair(log, lock, tmp_path):
    table = tmp_path / "table"
    lock(log / "orders-1")
    result = kafkaframes.table_log(log, table, format="parquet")
    assert not result.report.is_complete
    assert f"{REASON} (at {log / 'orders-1'})" in str(result)
    assert pq.read_table(table).num_rows == 1 + 3 + 1
    assert ask("table", log, "--to", "parquet", table, "--workers", "1").exit_code == 1

    lock()
    assert kafkaframes.table_log(log, table, format="parquet").report.is_complete
    assert pq.read_table(table).num_rows == 1 + 2 + 3 + 1


def test_a_dump_has_the_other_partitions(log, lock):
    lock(log / "orders-1")
    dump = kafkaframes.dump_log(log, format="csv")
    assert dump.read_all().count(b"\n") == 1 + 1 + 3 + 1
    assert [str(error) for error in dump.errors] == [
        f"{REASON}; make the directory readable, or select other topics or partitions (at {log / 'orders-1'})"
    ]
    other_topic = kafkaframes.dump_log(log, format="csv", topics="payments")
    assert (other_topic.read_all().count(b"\n"), other_topic.errors) == (2, [])
    assert ask("dump-log", log).exit_code == 1


def test_a_dump_merges_the_copies_of_the_other_partitions(log, lock, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    lock(log / "orders-1")
    dump = kafkaframes.dump_log([log, copy], format="csv", topics="orders")
    assert dump.read_all().count(b"\n") == 1 + 1 + 2 + 3


def test_an_audit_reports_the_partition_as_not_checked(log, lock):
    lock(log / "orders-1")
    audit = ask("audit", log, "--json")
    assert '"judged": "part"' in audit.output
    assert str(log / "orders-1") in audit.output


def test_a_directory_that_cannot_be_searched_is_an_error_with_the_path(log, monkeypatch):
    """chmod 444: the names can be listed, but no file has a size."""
    segment = log / "orders-1" / "00000000000000000000.log"

    class Entry:
        name, path = segment.name, str(segment)

        def is_symlink(self):
            return False

        def stat(self):
            raise PermissionError(13, "Permission denied", self.path)

    original = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: [Entry()] if str(path) == str(segment.parent) else original(path))
    report = kafkaframes.verify_log(log).report
    assert report.verdict == "UNREADABLE"
    assert f"orders-1: cannot be read: Permission denied (at {segment})" in str(report.findings[0])
