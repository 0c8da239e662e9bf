"""The small text files: brokers' files are rewritten byte for byte; other bytes are rejected with their position."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.checkpoints import CleanShutdown, EpochStart
from kafkaframes.storage.files.names import TopicPartition

LOGS = Path(__file__).parents[2] / "data" / "logs"
FORMATS = {
    names.LEADER_EPOCH_CHECKPOINT: (checkpoints.read_leader_epochs, checkpoints.write_leader_epochs),
    names.PARTITION_METADATA: (checkpoints.read_partition_metadata, checkpoints.write_partition_metadata),
    names.META_PROPERTIES: (checkpoints.read_meta_properties, checkpoints.write_meta_properties),
    names.CLEAN_SHUTDOWN_FILE: (checkpoints.read_clean_shutdown, checkpoints.write_clean_shutdown),
    **dict.fromkeys(
        names.OFFSET_CHECKPOINTS, (checkpoints.read_offset_checkpoint, checkpoints.write_offset_checkpoint)
    ),
}
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TOPICS = st.text("abcABC019._-", min_size=1, max_size=20)


@pytest.mark.parametrize("name", FORMATS)
def test_files_of_real_brokers_are_rewritten_byte_for_byte(name):
    read, write = FORMATS[name]
    files = [path for path in LOGS.rglob(name) if path.is_file()]
    assert files
    for path in files:
        raw = path.read_bytes()
        expected_bytes = b"0\n0\n" if not raw and "checkpoint" in name else raw  # an empty checkpoint has no entries
        assert write(read(raw, file=str(path))) == expected_bytes


@given(st.lists(st.builds(EpochStart, INT32, INT64)))
def test_leader_epochs_come_back(epochs):
    assert checkpoints.read_leader_epochs(checkpoints.write_leader_epochs(epochs)) == tuple(epochs)


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, INT32), INT64))
def test_offset_checkpoints_come_back(offsets):
    assert checkpoints.read_offset_checkpoint(checkpoints.write_offset_checkpoint(offsets)) == offsets


@pytest.mark.parametrize("name", FORMATS)
@given(raw=st.binary(max_size=80) | st.text('01 \n:=#-tv{}"', max_size=60).map(str.encode))
def test_any_bytes_give_a_value_or_an_error_with_the_file(name, raw):
    read, _ = FORMATS[name]
    error = None
    try:
        read(raw, file="the-file")
    except LogDirError as caught:
        error = caught
    assert error is None or error.file == "the-file"
    assert error is None or error.position in range(len(raw) + 1)


@pytest.mark.parametrize(
    ("name", "raw", "reason", "position"),
    [
        (names.LEADER_EPOCH_CHECKPOINT, b"1\n0\n", "unknown checkpoint version", 0),
        (names.LEADER_EPOCH_CHECKPOINT, b"0\n", "count of entries is missing", 2),
        (names.LEADER_EPOCH_CHECKPOINT, b"0\n2\n0 0\n", "states 2 entries, but contains 1", 2),
        (names.LEADER_EPOCH_CHECKPOINT, b"0\n1\n0 0\n1 5\n", "states 1 entries, but contains 2", 2),
        (names.LEADER_EPOCH_CHECKPOINT, b"0\n1\n0\n", "does not consist of 2 words", 4),
        (names.RECOVERY_POINT_CHECKPOINT, b"0\n1\ntopic 0 x\n", "offset is 'x'", 4),
        (
            names.RECOVERY_POINT_CHECKPOINT,
            b"0\n1\ntopic 0 99999999999999999999\n",
            "expected a number in the valid range",
            4,
        ),
        (names.RECOVERY_POINT_CHECKPOINT, b"0\n1\nt\xff 0 1\n", "not UTF-8", 5),
        (names.PARTITION_METADATA, b"version: 0\n", "topic_id is missing", 11),
        (names.PARTITION_METADATA, b"version: 0\ntopic_id: short", "is not a topic id", 11),
        (names.PARTITION_METADATA, b"version: 7\ntopic_id: A5CClEyrSq6pn88EiHjJNw", "unknown version", 0),
        (names.META_PROPERTIES, b"version=1\nwhat\n", "is not a property", 10),
        (names.CLEAN_SHUTDOWN_FILE, b"{}", "neither empty nor", 0),
        (names.CLEAN_SHUTDOWN_FILE, b"[1]", "neither empty nor", 0),
    ],
)
def test_errors_have_a_reason_and_a_position(name, raw, reason, position):
    with pytest.raises(LogDirError, match=reason) as error_info:
        FORMATS[name][0](raw, file="f")
    assert (error_info.value.position, error_info.value.file) == (position, "f")


def test_ids_of_a_broker_are_read_from_its_properties():
    kraft = checkpoints.read_meta_properties((LOGS / "kraft-4x-transactions" / "meta.properties").read_bytes())
    assert (kraft.version, kraft.node_id) == (1, 1)
    assert kraft.cluster_id
    zookeeper = checkpoints.read_meta_properties((LOGS / "zk-28-mixed" / "meta.properties").read_bytes())
    assert (zookeeper.version, zookeeper.node_id) == (0, 1)


def test_an_old_marker_is_empty():
    assert checkpoints.read_clean_shutdown(b"") == CleanShutdown()
    assert checkpoints.write_clean_shutdown(CleanShutdown()) == b""
