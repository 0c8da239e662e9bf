"""``kafkaframes topics``: topics are created, get more partitions, lose records, and are deleted."""

import json

import pytest

from kafkaframes.errors import OptionError


def test_partitions_are_added_and_records_are_deleted(run):
    run("topics create grown --partitions 1")
    run("produce grown", stdin=b"a\nb\nc\n")
    run("topics alter grown --partitions 3")
    run("topics delete-records grown:0=2 --yes")
    rows = json.loads(run("topics describe grown --json").output)
    assert [(row["log_start_offset"], row["log_end_offset"]) for row in rows] == [(2, 3), (0, 0), (0, 0)]
    assert json.loads(run("topics offsets grown --time earliest --json").output)[0]["offset"] == 2
    assert json.loads(run("topics offsets grown --time 2999-01-01 --json").output)[0]["offset"] == -1
    assert "grown-0 begins at 3" in run("topics delete-records grown:0=latest --yes").output


def test_a_deleted_topic_is_not_listed(run):
    run("topics create watched --partitions 2")
    assert "watched" in run("topics list").output
    run("topics delete watched --yes")
    assert "watched" not in run("topics list").output


def test_an_invalid_offset_is_rejected(run):
    with pytest.raises(OptionError, match="an offset or latest"):
        run("topics delete-records t:0=x --yes")


def test_without_a_terminal_a_deletion_names_the_flag(run):
    run("topics create kept --partitions 1")
    with pytest.raises(OptionError, match="nothing was deleted; without a terminal, confirm with --yes"):
        run("topics delete kept", stdin=b"")
    assert "kept" in run("topics list").output
    run("topics delete kept", stdin=b"y\n")
    assert "kept" not in run("topics list").output
