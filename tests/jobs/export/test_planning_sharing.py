"""Small segments that share a file: resumed, written again, rejected, removed."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.export.test_export import read_written, rows, visible, write_segment

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export import planning
from kafkaframes.jobs.export.planning import FinishedSegments, plan_files
from kafkaframes.jobs.export.run import export_segments
from kafkaframes.jobs.export.task import ExportTask, ExportTaskSettings, SegmentResult

NOTHING = FinishedSegments({}, {}, frozenset())


@pytest.fixture
def tasks(tmp_path):
    """Five segments of 20 records."""
    log = tmp_path / "log" / "t-0"
    return [write_segment(log, n * 20, rows(n * 20, 20)) for n in range(5)]


@pytest.fixture
def settings(tmp_path):
    return ExportTaskSettings(str(tmp_path / "out"))


def name(first):
    return f"topic=t/partition=0/{first:020}.parquet"


def offsets(settings):
    return [row["offset"] for row in read_written(settings)]


def grow_segment(task, records):
    import kafkaframes

    with open(task.path, "ab") as file:
        file.write(kafkaframes.build_records(records))
    return replace(task, size_bytes=Path(task.path).stat().st_size)


def test_closed_segments_share_a_file_and_the_last_one_has_its_own(tasks, settings):
    outcome = export_segments(tasks, settings)
    assert visible(settings) == [name(0), name(80)]
    assert offsets(settings) == list(range(100))
    assert (outcome.exported, outcome.summary.records) == (5, 100)
    assert outcome.output_bytes == sum(Path(settings.to, one).stat().st_size for one in visible(settings))
    metadata = pq.ParquetFile(Path(settings.to, name(0))).schema_arrow.metadata
    assert json.loads(metadata[b"segments"]) == [task.path for task in tasks[:4]]
    again = export_segments(tasks, settings)
    assert (again.exported, again.resumed, again.summary.records) == (0, 5, 100)


def test_segments_of_a_shared_file_stay_together_while_the_log_changes(tasks, settings, tmp_path):
    export_segments(tasks, settings)
    inode = Path(settings.to, name(0)).stat().st_ino
    last = grow_segment(tasks[4], rows(100, 5))
    more = [write_segment(tmp_path / "log" / "t-0", n, rows(n, 10)) for n in (105, 115, 125)]
    outcome = export_segments([*tasks[2:4], last, *more], settings)  # retention deleted two of the four
    assert (outcome.exported, outcome.resumed) == (4, 2)
    assert visible(settings) == [name(0), name(80), name(105), name(125)]
    assert offsets(settings) == list(range(135))
    assert Path(settings.to, name(0)).stat().st_ino == inode


def test_a_file_is_written_again_from_all_its_segments_or_rejected(tasks, settings):
    export_segments(tasks, settings)
    changed_tasks = [tasks[0], write_segment(Path(tasks[1].path).parent, 20, rows(20, 19)), *tasks[2:]]
    outcome = export_segments(changed_tasks, settings)
    assert (outcome.exported, outcome.resumed) == (4, 1)
    assert offsets(settings) == [*range(39), *range(40, 100)]
    other = write_segment(Path(tasks[1].path).parent, 20, rows(20, 18))
    with pytest.raises(
        OptionError, match=r"00020.log has changed .*into one file with .*00000.log, which no longer exists"
    ):
        export_segments([other, *tasks[2:]], settings)
    assert offsets(settings) == [*range(39), *range(40, 100)]
    assert export_segments([other, *tasks[2:]], settings, overwrite=True).summary.records == 78


def test_a_missing_or_truncated_file_is_written_from_the_remaining_segments(tasks, settings):
    export_segments(tasks, settings)
    path = Path(settings.to, name(0))
    path.write_bytes(path.read_bytes()[:100])
    assert export_segments(tasks[1:], settings).exported == 3
    assert visible(settings) == [name(20), name(80)]
    assert offsets(settings) == list(range(20, 100))


@pytest.mark.parametrize("first_kept", [0, 1], ids=["log whole", "first segment gone"])
def test_an_unrecorded_file_of_a_killed_worker_is_not_a_second_copy(tasks, settings, first_kept):
    def kill(function, jobs):
        yield from map(function, jobs)
        for path in Path(settings.to, "_kafkaframes", "journal").glob("*"):
            path.write_bytes(path.read_bytes()[:40])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_segments(tasks, settings, run=kill)
    assert name(0) in visible(settings)
    export_segments(tasks[first_kept:], settings)
    assert offsets(settings) == list(range(20 * first_kept, 100))


def test_an_unreadable_segment_leaves_the_others_with_their_own_files(tasks, settings):
    Path(tasks[1].path).write_bytes(b"")
    outcome = export_segments(tasks, settings)
    assert [result.task for result in outcome.failed] == [tasks[1]]
    assert visible(settings) == [name(n) for n in (0, 40, 60, 80)]
    assert offsets(settings) == [*range(20), *range(40, 100)]
    mended_task = write_segment(Path(tasks[1].path).parent, 20, rows(20, 20))
    assert export_segments([tasks[0], mended_task, *tasks[2:]], settings).exported == 1
    assert offsets(settings) == [row for first in (0, 20, 40, 60, 80) for row in range(first, first + 20)]


def test_segments_without_a_selected_record_are_complete(tasks, settings, tmp_path):
    nothing = [write_segment(tmp_path / "log" / "t-0", n, []) for n in (100, 101, 102)]
    export_segments([*tasks, *nothing], settings)
    assert visible(settings) == [name(0)]
    assert export_segments([*tasks, *nothing], settings).exported == 0
    assert offsets(settings) == list(range(100))


def test_journals_of_earlier_releases_are_read(tasks, settings):
    small, planning.MAX_SMALL_SEGMENT_BYTES = planning.MAX_SMALL_SEGMENT_BYTES, 0
    try:
        export_segments(tasks, settings)
    finally:
        planning.MAX_SMALL_SEGMENT_BYTES = small
    for path in Path(settings.to, "_kafkaframes", "journal").glob("*"):
        lines = [json.loads(line)["segments"] for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(one) + "\n" for line in lines for one in line))
    assert export_segments(tasks, settings).exported == 0
    assert visible(settings) == [name(n) for n in range(0, 100, 20)]


def task(topic, number, size):
    return ExportTask(f"/{topic}-0/{number:020}.log", size, number, topic, 0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 6 << 20), st.booleans()), max_size=30))
def test_every_remaining_segment_shares_a_file_with_its_neighbours(given_segments):
    tasks_with_status = [(task(topic, n, size), ok) for n, (topic, size, ok) in enumerate(sorted(given_segments))]
    finished_tasks = FinishedSegments(
        {one.name: SegmentResult(one) for one, ok in tasks_with_status if ok}, {}, frozenset()
    )
    tasks = [one for one, _ in tasks_with_status]
    files = plan_files(tasks, finished_tasks)
    assert [one for file in files for one in file] == [one for one, ok in tasks_with_status if not ok]
    lasts = {task.topic: task for task in tasks}
    for file in files:
        places = [tasks.index(one) for one in file]
        assert places == list(range(places[0], places[0] + len(file)))
        assert len({one.topic for one in file}) == 1
        if len(file) > 1:
            assert max(one.size_bytes for one in file) <= planning.MAX_SMALL_SEGMENT_BYTES
            assert sum(one.size_bytes for one in file) <= planning.MAX_SHARED_FILE_BYTES
            assert lasts[file[0].topic] not in file


def test_small_neighbours_share_a_file():
    tasks = [task("a", n, 1 << 20) for n in range(100)]
    assert [len(file) for file in plan_files(tasks, NOTHING)] == [6] * 16 + [3, 1]
    tasks = [task("a", n, 4 << 20) for n in range(1000)]
    assert [len(file) for file in plan_files(tasks, NOTHING)][:-2] == [8] * 124
