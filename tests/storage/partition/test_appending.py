"""The header that is decoded during validation is kept with the batch, so that it equals the appended bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.records.append.entry import validate_and_assign_at
from kafkaframes.records.append.settings import AppendSettings
from kafkaframes.records.build import build_end_transaction, build_records
from kafkaframes.storage.files import headers
from kafkaframes.storage.files.headers import parse_headers, read_first_header
from kafkaframes.storage.partition import appending

NOW_MS = 1_700_000_000_000
SETTINGS = st.builds(
    AppendSettings,
    record_format=st.sampled_from([1, 2]),
    codec=st.sampled_from(["producer", "none", "gzip"]),
    timestamp_type=st.sampled_from(["CreateTime", "LogAppendTime"]),
    leader_epoch=st.integers(0, 9),
    origin=st.sampled_from(["CLIENT", "COORDINATOR"]),
)


def build_batches(**fields):
    times = fields.pop("timestamp", [NOW_MS, NOW_MS - 5, NOW_MS + 5])
    return build_records({"key": [b"k"] * len(times), "value": [b"v" * 9] * len(times), "timestamp": times}, **fields)


def set_max_timestamp(raw: bytes, timestamp: int) -> bytes:
    """Return a v2 batch with a max timestamp that none of its records has, and with a correct CRC."""
    out = bytearray(raw)
    out[35:43] = timestamp.to_bytes(8)
    out[17:21] = appending.crc32c(bytes(out[21:])).to_bytes(4)
    return bytes(out)


RECORD_SETS = [
    build_batches(),
    build_batches(codec="lz4"),
    build_batches(producer_id=7, producer_epoch=1, base_sequence=0),
    build_batches(producer_id=7, producer_epoch=1, base_sequence=0, transactional=True, codec="zstd"),
    build_batches(timestamp=[NOW_MS]),
    set_max_timestamp(build_batches(), NOW_MS + 99),
    build_batches(record_format=1),
    build_batches(record_format=1, codec="gzip"),
    build_end_transaction(0, commit=True, producer_id=7, producer_epoch=1, timestamp=NOW_MS),
]


@given(raw=st.sampled_from(RECORD_SETS), settings=SETTINGS, offset=st.integers(0, 2**40))
def test_headers_of_assigned_batches_equal_their_bytes(raw, settings, offset):
    try:
        assigned_batch = validate_and_assign_at(raw, offset, settings, NOW_MS)
    except appending.AppendRefusedError:
        return
    assert appending._parse_appended_headers(assigned_batch, read_first_header(raw), settings) == parse_headers(
        assigned_batch.records
    )


def test_the_header_of_an_ordinary_batch_is_read_once(monkeypatch):
    raw = build_batches(codec="lz4")
    sent_header, settings = read_first_header(raw), AppendSettings(leader_epoch=3)
    assigned_batch = validate_and_assign_at(raw, 40, settings, NOW_MS)
    monkeypatch.setattr(headers, "parse_header", lambda *_, **__: pytest.fail("read again"))
    (header,) = appending._parse_appended_headers(assigned_batch, sent_header, settings)
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.crc) == (40, 42, 3, sent_header.crc)


@pytest.mark.parametrize("raw", RECORD_SETS)
def test_a_first_header_is_that_of_the_general_path(raw):
    assert read_first_header(raw) == (parse_headers(raw)[0] if raw[16] == 2 else None)


@pytest.mark.parametrize("size", [0, 16, 17, 22, 60])
def test_bytes_that_end_inside_the_header(size):
    header = read_first_header(build_batches()[:size])
    assert (header is None) == (size < 17)
    if header is not None:
        assert (header.base_offset, header.magic, header.record_count) == (0, 2, -1)
        assert header.attributes == (-1 if size < 23 else 0)
