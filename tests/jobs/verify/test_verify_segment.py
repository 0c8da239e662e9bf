"""The fast path for sound batches finds the same as the general path, for any wrong byte."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import mutations

import kafkaframes
from kafkaframes.jobs.verify.record_checks import UNKNOWN_TIMESTAMP, check_records
from kafkaframes.records import scan
from kafkaframes.records.batch import read_batches

ROWS = [{"key": b"key %d" % (number % 5), "value": b"value %d" % number, "timestamp": 9} for number in range(30)]
KINDS = [(0, "gzip"), (0, "lz4"), (1, "snappy"), (1, "gzip"), (1, "none"), (2, "lz4"), (2, "zstd"), (2, "none")]
BATCHES = {
    kind: kafkaframes.build_records(ROWS, record_format=kind[0], codec=kind[1], batch_records=10) for kind in KINDS
}


def compute_expected_check(raw, batches):
    """Compute the expected result of ``check_records`` from batches that ``read_batches`` decodes."""
    rows, first_offsets, problems, wrong = [], [], {}, {}
    positions = batches.column("position").tolist()
    for place, (position, size) in enumerate(zip(positions, batches.column("size").tolist(), strict=True)):
        (batch,) = read_batches(raw[position : position + size], rules=scan.FILE)
        rows.append(len(batch.records))
        is_unreadable_wrapper = batch.magic < 2 and batch.codec != "none" and not batch.records
        first_offsets.append(UNKNOWN_TIMESTAMP if is_unreadable_wrapper else batch.base_offset)
        if batch.damage is not None:
            problems[place] = batch.damage.reason
        if batch.codec != "none" and (bad := [record.offset for record in batch.records if record.crc_ok is False]):
            wrong[place] = bad
    return rows, first_offsets, problems, wrong


def assert_judged(raw):
    batches = scan.scan_all(raw, rules=scan.FILE)
    judgement = check_records(raw, batches)
    assert (
        judgement.rows.tolist(),
        judgement.first_offsets.tolist(),
        judgement.problems,
        judgement.wrong_messages,
    ) == compute_expected_check(raw, batches)
    return judgement


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_sound_log_has_no_findings(kind):
    judgement = assert_judged(BATCHES[kind])
    assert judgement.rows.sum() == 30
    assert (judgement.problems, judgement.wrong_messages) == ({}, {})


@given(st.sampled_from(KINDS), st.data())
def test_a_wrong_byte_is_reported_in_the_same_words(kind, data):
    raw = bytearray(BATCHES[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assert_judged(bytes(raw))


@given(st.integers(0, 1 << 40))
def test_damage_under_matching_crcs_is_reported_in_the_same_words(seed):
    assert_judged(mutations.choose_log(seed))


def test_a_wrong_crc_inside_is_found():
    """The CRC of the wrapper message matches. Only the CRC of the message inside reveals the damage."""
    inner = bytearray(kafkaframes.build_records(ROWS[:3], record_format=1, codec="none"))
    inner[-1] ^= 1
    wrapper = kafkaframes.build_records(
        [{"value": bytes(inner), "timestamp": 9, "offset": 2}], record_format=1, codec="none"
    )
    value = gzip.compress(bytes(inner))
    head = bytearray(wrapper[:34])
    head[17] |= 1  # attributes: gzip
    head[30:34] = len(value).to_bytes(4, "big")
    message_bytes = head + value
    message_bytes[8:12] = (len(message_bytes) - 12).to_bytes(4, "big")
    message_bytes[12:16] = zlib.crc32(bytes(message_bytes[16:])).to_bytes(4, "big")
    batches = scan.scan_all(bytes(message_bytes), rules=scan.FILE)
    assert scan.check_crcs(bytes(message_bytes), batches).tolist() == [1]
    assert assert_judged(bytes(message_bytes)).wrong_messages == {0: [2]}
