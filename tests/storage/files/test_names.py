"""Names of log directories and files: parsed, built, and rejected if invalid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.storage.files import names
from kafkaframes.storage.files.names import DirectoryName, FileName, TopicPartition

UNIQUE_ID = "3a400b54ac4a47ee86e55390ecea333b"


@pytest.mark.parametrize(
    ("name", "topic", "partition", "state"),
    [
        ("orders-0", "orders", 0, ""),
        ("a-b.c_d-12", "a-b.c_d", 12, ""),
        (f"orders-0.{UNIQUE_ID}-delete", "orders", 0, "delete"),
        (f"a.b-7.{UNIQUE_ID}-future", "a.b", 7, "future"),
        (f"x-1-2.{UNIQUE_ID}-stray", "x-1", 2, "stray"),
    ],
)
def test_directory_names_are_parsed(name, topic, partition, state):
    parsed_name = DirectoryName.parse(name)
    assert parsed_name is not None
    assert (parsed_name.topic_partition, parsed_name.state) == (TopicPartition(topic, partition), state)
    assert str(parsed_name) == name


@pytest.mark.parametrize(
    "name", ["orders", "-0", "orders-", "orders-x", f"orders-0.{UNIQUE_ID}-lost", "orders-99999999999", "lost+found"]
)
def test_other_directories_are_not_partitions(name):
    assert DirectoryName.parse(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "1.log",
        "00000000000000000000.txt",
        "99999999999999999999.log",
        "00000000000000000000.log.bak",
        "00000000000000000000-0000000000.log",
        "00000000000000000000.checkpoint",
        "leader-epoch-checkpoint",
    ],
)
def test_other_files_are_not_of_an_offset(name):
    assert FileName.parse(name) is None


@given(
    st.integers(0, 2**63 - 1),
    st.sampled_from((*names.SEGMENT_KINDS, "snapshot")),
    st.sampled_from(("", *names.TEMPORARY_SUFFIXES)),
)
def test_file_names_survive_a_round_trip(offset, kind, temporary):
    name = FileName(offset, kind, temporary)
    assert FileName.parse(str(name)) == name


@given(st.text())
def test_any_text_is_a_round_trip_file_name_or_rejected(text):
    parsed_name = FileName.parse(text)
    assert parsed_name is None or str(parsed_name) == text
