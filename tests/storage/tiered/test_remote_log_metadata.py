"""The replayed topic of remote segments: a real broker's records, and arbitrary bytes."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes import read_records
from kafkaframes.errors import DecodeError
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.tiered.lineage import (
    DELETION_STATES,
    MetadataEntry,
    RemoteLogMetadata,
    decode_custom_metadata,
    decode_entry,
    replay_metadata_topic,
)

CASES = Path(__file__).parents[2] / "data" / "tiered"
VALUES = [
    value
    for path in sorted(CASES.glob("*/local/__remote_log_metadata-*/*.log"))
    for batch in read_records(path, columns=["value"], control_records=False)
    for value in batch.column("value").to_pylist()
]


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir() if path.is_dir()))
def test_final_segment_states_equal_those_of_the_broker(name):
    truth = json.loads((CASES / name / "index.json").read_text())["segments"]
    replay_result = replay_metadata_topic(discover(str(CASES / name / "local")))
    assert not replay_result.problems
    assert replay_result.states == {one["segment_id"]: one["state"] for one in truth if one["state"]}
    for one in truth:
        owner = one["topic_id"], one["partition"]
        assert replay_result.has_records_of(owner)
        if one["valid"]:
            assert replay_result.is_valid(owner, one["segment_id"])
    assert not replay_result.has_records_of(("AAAAAAAAAAAAAAAAAAAAAA", 0))


def test_a_deleted_partition_deletes_its_segments():
    metadata = RemoteLogMetadata()
    entry = MetadataEntry(0, 0, "RemoteLogSegmentMetadata", "orders", "id", 3, "segment", "COPY_SEGMENT_FINISHED", {})
    metadata.apply_entry(entry)
    assert metadata.is_valid(("id", 3), "segment")
    metadata.apply_entry(
        MetadataEntry(0, 1, "RemotePartitionDeleteMetadata", "orders", "id", 3, None, DELETION_STATES[0], {})
    )
    assert not metadata.is_valid(("id", 3), "segment")


@given(st.binary(max_size=120), st.integers(0, len(VALUES) - 1), st.data())
def test_any_bytes_are_an_entry_or_rejected(raw, which, data):
    real = bytearray(VALUES[which])
    place = data.draw(st.integers(0, len(real) - 1))
    real[place : place + data.draw(st.integers(0, 9))] = raw[: data.draw(st.integers(0, 9))]
    for one in (raw, bytes(real)):
        with suppress(DecodeError):
            decode_entry(one, partition=0, offset=0)


@given(st.binary(max_size=60))
def test_any_bytes_are_custom_metadata_or_rejected(raw):
    with suppress(DecodeError):
        decode_custom_metadata(raw)


def test_custom_metadata_contains_sizes_and_keys():
    assert decode_custom_metadata(bytes.fromhex("02 00 02 d804 01 05 05 62616b2f".replace(" ", ""))) == {
        "REMOTE_SIZE": 300,
        "OBJECT_PREFIX": "bak/",
    }
    for wrong in ("02 00 02 d804", "01 00 03 d804", "01 01 05 07 62616b2f", "01 00 02 d804 00"):
        with pytest.raises(DecodeError):
            decode_custom_metadata(bytes.fromhex(wrong.replace(" ", "")))
