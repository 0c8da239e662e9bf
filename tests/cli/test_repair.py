"""The command ``kafkaframes repair``: sound results, counted records, and rejected inputs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.repair import repair as repair_module
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.log.discover import discover

LOGS = Path(__file__).parents[1] / "data" / "logs"
LOG_BEFORE_RECOVERY = LOGS / "unclean-flipped-bit-active" / "before"


def run(*arguments):
    return CliRunner().invoke(cli, ["repair", *map(str, arguments)])


@pytest.fixture
def log(tmp_path):
    shutil.copytree(LOG_BEFORE_RECOVERY, tmp_path / "log")
    return tmp_path / "log"


def test_a_repaired_log_is_sound_and_its_losses_are_reported(log, tmp_path):
    result = run(log, "--to", tmp_path / "out", "--index-interval-bytes", 1024)
    assert result.exit_code == 0, result.output
    assert "the offsets 419 to 428 have no records after the repair" in result.output
    report = verify(discover(str(tmp_path / "out")))
    assert (report.is_sound, report.batches) == (True, 198)  # one of 199 batches is lost, while Kafka keeps 192
    assert not (tmp_path / "out" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("how", [[], ["--as-kafka"]], ids=["every good batch", "as kafka"])
def test_the_records_that_were_read_and_written_are_counted(log, tmp_path, how):
    result = run(log, "--to", tmp_path / "out", *how)
    record_count = verify(discover(str(tmp_path / "out"))).records
    assert f"{record_count:,} records read, {record_count:,} written from all valid batches" in result.output
    again = json.loads(run(log, "--to", tmp_path / "out", *how, "--json").output)
    assert sum(one["records_written"] for one in again["partitions"]) == record_count


def test_a_repair_that_loses_a_readable_record_fails(log, tmp_path, monkeypatch):
    monkeypatch.setattr(repair_module, "_write_partition", lambda task: task.repair.records_read - 1)
    result = run(log, "--to", tmp_path / "out")
    assert "does not add up" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_as_kafka_truncates_like_a_broker(log, tmp_path):
    assert run(log, "--to", tmp_path / "out", "--as-kafka").exit_code == 0
    assert verify(discover(str(tmp_path / "out"))).batches == 192


def test_a_dry_run_changes_nothing(log, tmp_path):
    result = run(log, "--dry-run", "--json")
    assert {one["partition"]: one["bytes_lost"] for one in json.loads(result.stdout)["partitions"]}["plain-0"] == 663
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_in_place_moves_the_log_to_the_backup(log, tmp_path):
    before = {path.relative_to(log): path.read_bytes() for path in log.rglob("*") if path.is_file()}
    assert run(log, "--in-place", "--backup", tmp_path / "backup").exit_code == 0
    backup = tmp_path / "backup"
    assert {path.relative_to(backup): path.read_bytes() for path in backup.rglob("*") if path.is_file()} == before
    assert verify(discover(str(log))).is_sound
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "log"]


@pytest.mark.parametrize("options", [[], ["--in-place"], ["--to", "x", "--in-place"]])
def test_half_an_instruction_is_refused(log, options):
    assert isinstance(run(log, *options).exception, OptionError)


def test_existing_destinations_are_not_overwritten(log, tmp_path):
    for options in (["--to", tmp_path], ["--in-place", "--backup", tmp_path]):
        assert isinstance(run(log, *options).exception, LogDirError)


HOLD_LOCK_CODE = (
    "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
)


def test_a_directory_opened_by_a_broker_is_rejected(log):
    (log / ".lock").touch()
    command = [sys.executable, "-c", HOLD_LOCK_CODE, str(log / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:
        broker.stdout.readline()
        result = run(log, "--dry-run")
        broker.communicate("stop\n")
    assert "a broker is using this directory" in str(result.exception)
    assert run(log, "--dry-run").exit_code == 0


def test_a_second_run_does_nothing_and_prints_an_equal_report(log, tmp_path):
    first = run(log, "--to", tmp_path / "out")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    again = run(log, "--to", tmp_path / "out")
    assert (again.exit_code, again.output) == (0, first.output.replace("done:", "done before:"))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == times
    assert isinstance(run(log, "--to", tmp_path / "out", "--as-kafka").exception, LogDirError)
    assert json.loads((tmp_path / "out" / "_SUCCESS").read_text())["partitions"]


def test_an_output_path_inside_the_log_directory_is_rejected(log, tmp_path):
    before = sorted(log.rglob("*"))
    (tmp_path / "link").symlink_to(log)
    for target in (log / "out", log, tmp_path / "link" / "out"):
        error = run(log, "--to", target).exception
        assert isinstance(error, OptionError)
        assert "is inside the source" in str(error)
    assert isinstance(run(log, "--in-place", "--backup", log / "backup").exception, OptionError)
    assert sorted(log.rglob("*")) == before


def test_a_run_after_a_kill_between_the_renames_completes_them(log, tmp_path):
    assert run(log, "--to", tmp_path / "log.kafkaframes-repaired").exit_code == 0
    log.rename(tmp_path / "backup")
    error = run(log, "--in-place", "--backup", tmp_path / "backup").exception
    assert "has rewritten this directory" in str(error)
    assert verify(discover(str(log))).is_sound
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "log"]


def test_the_parent_directory_of_a_backup_is_created(log, tmp_path):
    assert run(log, "--in-place", "--backup", tmp_path / "old" / "backup").exit_code == 0
    assert (tmp_path / "old" / "backup" / "plain-0").is_dir()


READ_ONLY_LOCK_CODE = """
import os, sys
from kafkaframes.storage.files.local_disk import take_lock
given = os.open
def refusing(path, flags, *rest):  # root may do everything
    if flags & os.O_RDWR:
        raise PermissionError(13, "Permission denied")
    return given(path, flags, *rest)
os.open = refusing
print(take_lock(sys.argv[1], create=False) is not None)
"""


def test_a_read_only_lock_file_is_locked(log):
    (log / ".lock").touch()
    ask = [sys.executable, "-c", READ_ONLY_LOCK_CODE, str(log / ".lock")]
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "True\n"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK_CODE, str(log / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        broker.stdout.readline()
        assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "False\n"
        broker.communicate("stop\n")
