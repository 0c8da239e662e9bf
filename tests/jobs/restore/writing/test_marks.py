"""A micro-batch is in the log directory once, wherever its commit was killed and however often it is repeated."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.micro_batch import StreamBatch
from kafkaframes.jobs.restore.writing import RunCommitter, RunWriter, TargetState, WriteSettings
from kafkaframes.jobs.restore.writing import commit as commits
from kafkaframes.jobs.restore.writing.marks import STREAM_MARKS_FILE, is_committed, read_marks
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.batch import read_batches
from kafkaframes.storage.log.discover import discover

QUERY, OTHER = "aaaa", "bbbb"
CHECKPOINTS = Path(__file__).parents[3] / "data" / "checkpoints" / "sinks"
OLD_QUERY = "d29fcd60-9352-472d-a8c0-72e0f39faf63"


def batch(query: str, number: int, *, shift: int = 0) -> StreamBatch:
    """Return a micro-batch of ten offsets. ``shift`` gives it other offsets under the same number."""
    begin, end = (f'{{"in":{{"0":{at + shift}}}}}' for at in (10 * number, 10 * number + 10))
    return StreamBatch(query, number, f"/checkpoints/{query}", begins=(begin,), ends=(end,))


def send(top: Path, task_results: StreamBatch, value: bytes, *, overwrite: bool = False) -> None:
    """Write one row as a micro-batch."""
    target = TargetState.inspect_target(str(top))
    settings = WriteSettings(now_ms=5000, topic="t", partitions={} if overwrite else target.counts)
    staging = top.with_name("staging")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    writer = RunWriter(staging, settings, task=0)
    writer.add_rows(pa.record_batch({"value": pa.array([value], pa.binary())}))
    RunCommitter(target, settings, overwrite, lambda: "A" * 21 + "Q", map, task_results).commit(writer.finish())


def values(top: Path) -> list[bytes]:
    files = sorted((top / "t-0").glob("*.log"))
    return [record.value for file in files for batch in read_batches(file.read_bytes()) for record in batch.records]


def test_a_repeated_batch_is_written_once_and_later_ones_continue(tmp_path):
    top = tmp_path / "logs"
    for number, value in [(0, b"a"), (0, b"a"), (1, b"b"), (1, b"b"), (2, b"c")]:
        send(top, batch(QUERY, number), value)
    send(top, batch(OTHER, 0), b"d")
    assert values(top) == [b"a", b"b", b"c", b"d"]
    assert read_marks(top) == {QUERY: batch(QUERY, 2), OTHER: batch(OTHER, 0)}
    assert verify(discover(str(top)), deep=True).findings == []


@pytest.mark.parametrize("step", ["prepared", "half moved", "moved"])
def test_a_killed_commit_counts_from_the_rename_on(tmp_path, monkeypatch, step):
    top = tmp_path / "logs"
    send(top, batch(QUERY, 0), b"a")

    class CommitKilledError(Exception):
        pass

    def kill(place, path):
        if place == "prepared":
            raise CommitKilledError
        real = commits.names.CLEAN_SHUTDOWN_FILE
        if place == "half moved":
            (path / real).unlink()
            committed_dir = path / commits.APPEND_DIRECTORY
            shutil.move(next((committed_dir / "t-0").glob("*.log")), path / "t-0")
        else:
            finish(path)
        raise CommitKilledError

    finish = commits.finish_append
    calls = iter([finish, partial(kill, step)])
    monkeypatch.setattr(commits, "finish_append", lambda path: next(calls)(path))
    with pytest.raises(CommitKilledError):
        send(top, batch(QUERY, 1), b"b")
    monkeypatch.undo()
    send(top, batch(QUERY, 1), b"b")
    assert values(top) == [b"a", b"b"]
    assert verify(discover(str(top)), deep=True).findings == []


def test_an_overwrite_keeps_the_marks_of_committed_queries(tmp_path):
    top = tmp_path / "logs"
    send(top, batch(QUERY, 4), b"a")
    send(top, batch(OTHER, 0), b"b", overwrite=True)
    send(top, batch(OTHER, 0), b"b", overwrite=True)
    send(top, batch(QUERY, 4), b"a")
    assert values(top) == [b"b"]
    assert is_committed(top, batch(QUERY, 4))
    assert not is_committed(top, batch(QUERY, 5))


def test_another_batch_with_a_committed_number_is_rejected_before_anything_is_written(tmp_path):
    top = tmp_path / "logs"
    for number in range(3):
        send(top, batch(QUERY, number), b"%d" % number)
    again = replace(batch(OTHER, 0), checkpoint=batch(QUERY, 2).checkpoint)
    for other in (batch(QUERY, 1), batch(QUERY, 2, shift=3), batch(QUERY, 3, shift=-5), again):
        with pytest.raises(LogDirError, match=r'does not fit .* startingOffsets=\{"in":\{"0":30\}\}; to write'):
            send(top, other, b"x")
    assert values(top) == [b"0", b"1", b"2"]
    assert read_marks(top) == {QUERY: batch(QUERY, 2)}


def test_a_directory_of_version_0_1_0_is_continued_and_a_number_without_offsets_is_rejected(tmp_path):
    top = Path(shutil.copytree(CHECKPOINTS / "log", tmp_path / "log"))
    assert read_marks(top) == {OLD_QUERY: StreamBatch(OLD_QUERY, 2)}
    with pytest.raises(LogDirError, match=r"kafkaframes 0\.1\.0 wrote the mark"):
        send(top, batch(OLD_QUERY, 2), b"x")
    send(top, batch(OLD_QUERY, 3), b"y")
    assert read_marks(top) == {OLD_QUERY: batch(OLD_QUERY, 3)}


def test_an_overwriting_batch_is_written_whatever_was_committed(tmp_path):
    top = tmp_path / "logs"
    for number, value in [(5, b"a"), (5, b"b"), (2, b"c")]:
        send(top, batch(QUERY, number), value, overwrite=True)
    assert values(top) == [b"c"]


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"q": "7"}', b'{"q": {"batchId": "7"}}', b"\xff"])
def test_a_damaged_mark_is_an_error(tmp_path, damage):
    top = tmp_path / "logs"
    send(top, batch(QUERY, 0), b"a")
    (top / STREAM_MARKS_FILE).write_bytes(damage)
    with pytest.raises(LogDirError, match=rf"is damaged.*{STREAM_MARKS_FILE}"):
        send(top, batch(QUERY, 1), b"b")
    assert values(top) == [b"a"]
