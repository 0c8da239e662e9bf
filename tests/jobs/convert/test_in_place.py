"""A log directory replaced by its converted form: only if no broker has it open, and with the original as backup."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.jobs.convert.test_convert import LOGS, headers, records, without_timestamp_type

from kafkaframes import restore_log
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.convert.job import convert, convert_in_place
from kafkaframes.jobs.settings import ConvertSettings
from kafkaframes.storage.cleaner import CleanerSettings
from kafkaframes.storage.files import atomic

UP = ConvertSettings(record_format=2)


@pytest.fixture
def stopped_log(tmp_path):
    """A log directory of a broker that stopped cleanly."""
    shutil.copytree(LOGS / "zk-0102-v1", tmp_path / "logs")
    (tmp_path / "logs" / ".kafka_cleanshutdown").touch()
    (tmp_path / "logs" / ".lock").touch()
    return tmp_path / "logs"


def test_the_original_directory_is_the_backup(stopped_log, tmp_path):
    convert_in_place(stopped_log, tmp_path / "backup", UP)
    assert headers(stopped_log, "magic") == {2}
    assert records(stopped_log) == without_timestamp_type(records(LOGS / "zk-0102-v1"))
    for file in (LOGS / "zk-0102-v1").rglob("*.log"):
        assert (tmp_path / "backup" / file.relative_to(LOGS / "zk-0102-v1")).read_bytes() == file.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "backup"}
    assert (stopped_log / ".kafka_cleanshutdown").exists()
    with pytest.raises(LogDirError, match="has rewritten this directory"):
        convert_in_place(stopped_log, tmp_path / "backup", UP)


def test_a_directory_after_an_unclean_stop_is_rejected(stopped_log, tmp_path):
    (stopped_log / ".kafka_cleanshutdown").unlink()
    with pytest.raises(LogDirError, match="did not shut down cleanly"):
        convert_in_place(stopped_log, tmp_path / "backup", UP)
    assert {path.name for path in tmp_path.iterdir()} == {"logs"}


HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "a+b")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_directory_that_a_broker_has_open_is_rejected(stopped_log, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(stopped_log / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as broker:
        assert broker.stdout.readline() == b"held\n"
        with pytest.raises(LogDirError, match="a broker is using this directory"):
            convert_in_place(stopped_log, tmp_path / "backup", UP)
        broker.stdin.close()
    assert {path.name for path in tmp_path.iterdir()} == {"logs"}
    with (stopped_log / ".lock").open("a+b") as lock:  # the job has released its lock
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("killed_at", [0, 1])
def test_a_job_killed_during_the_renames_is_resumed(stopped_log, tmp_path, monkeypatch, killed_at):
    real, renames = Path.rename, []

    def rename(self, target):
        if not str(target).endswith(".kafkaframes-new"):
            if len(renames) == killed_at:
                raise KeyboardInterrupt
            renames.append(target)
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        convert_in_place(stopped_log, tmp_path / "backup", UP)
    monkeypatch.undo()
    if killed_at == 1:
        with pytest.raises(LogDirError, match="has rewritten this directory"):  # the renames are completed first
            convert_in_place(stopped_log, tmp_path / "backup", UP)
    else:
        convert_in_place(stopped_log, tmp_path / "backup", UP)
    assert headers(stopped_log, "magic") == {2}
    assert headers(tmp_path / "backup", "magic") == {1}


def test_an_incomplete_log_directory_is_rejected(stopped_log, tmp_path):
    partition = next(path for path in stopped_log.iterdir() if path.is_dir())
    with pytest.raises(OptionError, match="is not a local log directory"):
        convert_in_place(partition, tmp_path / "backup", UP)
    with pytest.raises(OptionError, match="is inside the source"):
        convert_in_place(stopped_log, stopped_log / "backup", UP)
    assert not list(tmp_path.glob(f"*{atomic.LOCK}"))


def test_a_result_inside_the_source_is_rejected(stopped_log, tmp_path):
    before = sorted(stopped_log.rglob("*"))
    (tmp_path / "link").symlink_to(stopped_log)
    settings = CleanerSettings(now_ms=0)
    for target in (stopped_log, stopped_log / "new", stopped_log / "a" / "b", tmp_path / "link" / "new"):
        for job in (
            lambda to: convert(str(stopped_log), to, UP),
            lambda to: convert([str(stopped_log)], to, UP),
            lambda to: convert(f"file://{stopped_log}", to, UP),
            lambda to: compact(str(stopped_log), to, settings, topics=["*"]),
            lambda to: restore_log(str(stopped_log), to),
        ):
            with pytest.raises(OptionError, match="is inside the source"):
                job(target)
    assert sorted(stopped_log.rglob("*")) == before


def test_topics_to_compact_must_exist(stopped_log, tmp_path):
    with pytest.raises(OptionError, match="unknown topic nosuch; the log directory has "):
        compact(str(stopped_log), tmp_path / "new", CleanerSettings(now_ms=0), topics=["*", "nosuch"])
