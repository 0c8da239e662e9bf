"""The files of a checkpoint that continues after a marker, before and after. ``test_topic_checkpoints.py`` tests the
same with Spark.
"""

import json

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.jobs.micro_batch import StreamBatch, explain_conflict
from kafkaframes.spark.exactly_once.marker_skip import find_next_batch, skip_to_marker

TARGET = "sink, topic out"


def line(end: int) -> str:
    return f'{{"in":{{"0":{end}}}}}'


def mark(number: int, end: int | None, query: str = "q") -> StreamBatch:
    return StreamBatch(query, number, "/c", TARGET, None, None if end is None else (line(end),))


class Files(dict):
    """The contents of a checkpoint's files, by name."""

    path = "/c"

    def read_text(self, name):
        return self.get(name)

    def write_text(self, name, text):
        self[name] = text

    def list_names(self, folder):
        return [name.partition("/")[2] for name in self if name.startswith(f"{folder}/")]


def checkpoint(*ends: int, done_count: int, query: str = "q") -> Files:
    """Return a checkpoint whose micro-batches end at ``ends``, of which ``done_count`` are committed."""
    files = Files({"metadata": json.dumps({"id": query})})
    for number, end in enumerate(ends):
        files[f"offsets/{number}"] = f'v1\n{{"conf":{{"n":{number}}}}}\n{line(end)}'
        if number < done_count:
            files[f"commits/{number}"] = "v1\n{}"
    return files


@pytest.mark.parametrize(
    ("files", "marker", "next_number"),
    [
        (checkpoint(10, 20, done_count=2), mark(4, 50), 5),  # restored
        (checkpoint(10, 20, done_count=1), mark(1, 25), 2),  # restored, and planned again with another end
        (checkpoint(10, 20, 30, done_count=2), mark(1, 25), 3),  # copied: starts before the marker's end
        (checkpoint(5, done_count=0, query="new"), mark(4, 50), 5),  # deleted, and tried before
        (Files(), mark(0, 50), 1),  # deleted
        (Files(), mark(3, 50), 4),
    ],
)
def test_a_checkpoint_that_does_not_fit_continues_after_the_marker(files, marker, next_number):
    files = Files(files)
    assert explain_conflict(marker, find_next_batch(files, TARGET)) is not None
    skip_to_marker(files, marker)
    after = find_next_batch(files, TARGET)
    assert (after.query_id, after.batch_id, after.begins, after.ends) == ("q", next_number, marker.ends, None)
    assert explain_conflict(marker, after) is None
    assert f"offsets/{next_number - 2}" in files or next_number == 1
    before = dict(files)
    skip_to_marker(files, marker)
    assert files == before


def test_a_marker_of_version_0_1_0_applies_to_the_planned_batch_with_its_number():
    files = checkpoint(10, 20, done_count=1)
    skip_to_marker(files, mark(1, None))
    assert find_next_batch(files, TARGET).begins == (line(20),)
    with pytest.raises(OptionError, match=r"0\.1\.0 contains no offsets; use another sink name"):
        skip_to_marker(checkpoint(10, 20, done_count=1), mark(3, None))


@pytest.mark.parametrize(
    ("more", "marker", "message"),
    [
        ({"state/0/_metadata/metadata": ""}, mark(4, 50), "has state in /c"),
        ({}, StreamBatch("q", 4, "/c", TARGET, None, ("17",)), "some sources of the query have no topic offsets"),
    ],
)
def test_a_marker_that_cannot_be_skipped_changes_nothing(more, marker, message):
    files = checkpoint(10, done_count=1)
    files.update(more)
    before = dict(files)
    with pytest.raises(OptionError, match=message):
        skip_to_marker(files, marker)
    assert files == before
