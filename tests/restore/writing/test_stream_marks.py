"""A micro-batch is in the log directory once, wherever its commit was killed and however often it is sent again."""

import shutil
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from kafkaframes.dump.verify import verify
from kafkaframes.errors import LogDirError
from kafkaframes.log.discover import discover
from kafkaframes.records.batch import read_values
from kafkaframes.restore.writing import Commit, RunWriter, StreamBatch, Target, WriteSettings
from kafkaframes.restore.writing import commit as commits
from kafkaframes.restore.writing.stream_marks import MARKS, is_committed, read_marks

QUERY, OTHER = "aaaa", "bbbb"


def send(top: Path, batch: StreamBatch, value: bytes, *, overwrite: bool = False) -> None:
    """Write one row as a micro-batch."""
    target = Target.look(str(top))
    settings = WriteSettings(now_ms=5000, topic="t", partitions={} if overwrite else target.counts)
    staging = top.with_name("staging")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    writer = RunWriter(staging, settings, task=0)
    writer.add(pa.record_batch({"value": pa.array([value], pa.binary())}))
    Commit(target, settings, overwrite, lambda: "A" * 21 + "Q", map, batch).commit(writer.finish())


def values(top: Path) -> list[bytes]:
    files = sorted((top / "t-0").glob("*.log"))
    return [record.value for file in files for batch in read_values(file.read_bytes()) for record in batch.records]


def test_a_batch_that_is_sent_again_is_there_once_and_others_go_on(tmp_path):
    top = tmp_path / "logs"
    for number, value in [(0, b"a"), (0, b"a"), (1, b"b"), (0, b"a"), (1, b"b"), (2, b"c")]:
        send(top, StreamBatch(QUERY, number), value)
    send(top, StreamBatch(OTHER, 0), b"d")
    assert values(top) == [b"a", b"b", b"c", b"d"]
    assert read_marks(top) == {QUERY: 2, OTHER: 0}
    assert verify(discover(str(top)), deep=True).findings == []


@pytest.mark.parametrize("step", ["prepared", "half moved", "moved"])
def test_a_commit_that_was_killed_counts_from_the_rename_on(tmp_path, monkeypatch, step):
    top = tmp_path / "logs"
    send(top, StreamBatch(QUERY, 0), b"a")

    class KilledError(Exception):
        pass

    def kill(place, path):
        if place == "prepared":
            raise KilledError
        real = commits.names.CLEAN_SHUTDOWN
        if place == "half moved":
            (path / real).unlink()
            committed = path / commits.COMMITTED
            shutil.move(next((committed / "t-0").glob("*.log")), path / "t-0")
        else:
            finish(path)
        raise KilledError

    finish = commits.finish_append
    calls = iter([finish, partial(kill, step)])
    monkeypatch.setattr(commits, "finish_append", lambda path: next(calls)(path))
    with pytest.raises(KilledError):
        send(top, StreamBatch(QUERY, 1), b"b")
    monkeypatch.undo()
    send(top, StreamBatch(QUERY, 1), b"b")
    assert values(top) == [b"a", b"b"]
    assert verify(discover(str(top)), deep=True).findings == []


def test_what_is_written_over_keeps_what_queries_have_committed(tmp_path):
    top = tmp_path / "logs"
    send(top, StreamBatch(QUERY, 4), b"a")
    send(top, StreamBatch(OTHER, 0), b"b", overwrite=True)
    send(top, StreamBatch(OTHER, 0), b"b", overwrite=True)
    send(top, StreamBatch(QUERY, 4), b"a")
    assert values(top) == [b"b"]
    assert is_committed(top, StreamBatch(QUERY, 3))
    assert not is_committed(top, StreamBatch(QUERY, 5))


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"q": "7"}', b"\xff"])
def test_a_damaged_note_is_an_error(tmp_path, damage):
    top = tmp_path / "logs"
    send(top, StreamBatch(QUERY, 0), b"a")
    (top / MARKS).write_bytes(damage)
    with pytest.raises(LogDirError, match=rf"is damaged.*{MARKS}"):
        send(top, StreamBatch(QUERY, 1), b"b")
    assert values(top) == [b"a"]
