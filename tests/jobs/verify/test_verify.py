"""Verification: healthy logs have no findings, and each kind of damage is found and named."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.build import build_records
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.indexes import OffsetIndex, read_offset_index, write_offset_index
from kafkaframes.storage.log.discover import discover

LOGS = Path(__file__).parents[2] / "data" / "logs"
SOURCE = LOGS / "unclean-half-finished-swap" / "after"


def base(offset: int, suffix: str = "log") -> str:
    return f"{offset:020d}.{suffix}"


def find_problems(
    path: Path, *, min_severity: Severity = Severity.WARNING, deep: bool = False
) -> list[tuple[str, int | None]]:
    report = verify(discover(str(path)), deep=deep)
    assert report.is_sound == all(finding.severity < Severity.ERROR for finding in report.findings)
    return [(one.check, one.position) for one in find_unexpected_findings(report) if one.severity >= min_severity]


def find_unexpected_findings(report) -> list[Finding]:
    """Return the findings except the open transactions at the ends of these logs, whose brokers were stopped in
    them.
    """
    return [finding for finding in report.findings if finding.check != "open-transaction"]


@pytest.mark.parametrize("name", ["kraft-4x-transactions", "zk-28-mixed", "unclean-half-finished-swap/after"])
@pytest.mark.parametrize("deep", [False, True])
def test_healthy_logs_have_no_findings(name, deep):
    report = verify(discover(str(LOGS / name)), deep=deep)
    assert [one for one in find_unexpected_findings(report) if one.severity > Severity.NOTE] == []
    assert report.is_sound
    assert report.batches > 100
    assert report.as_json()["sound"] is True


@pytest.fixture
def log(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "log")
    return tmp_path / "log"


def patch(path: Path, position: int, raw: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[position : position + len(raw)] = raw
    path.write_bytes(whole)


def test_a_flipped_bit_is_reported(log):
    patch(log / "idem-0" / base(84), 100, b"\xff")
    assert find_problems(log) == [("crc", 0)]


def test_a_torn_tail_and_garbage_are_reported(log):
    segment = log / "idem-0" / base(170)
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-5])
    checks = dict(find_problems(log))
    assert "torn-tail" in checks
    segment.write_bytes(whole + b"\xff" * 30)
    assert find_problems(log) == [("framing", len(whole))]


def test_zeros_at_the_end_are_a_note(log):
    segment = log / "idem-0" / base(170)
    segment.write_bytes(segment.read_bytes() + b"\0" * 100)
    assert find_problems(log) == []
    assert [check for check, _ in find_problems(log, min_severity=Severity.NOTE)] == ["zero-tail"]


def test_offsets_out_of_order_are_reported(log):
    """Only the order of the offsets reveals the error, because the CRC of a batch does not cover its offset."""
    patch(log / "idem-0" / base(84), 0, struct.pack(">q", 10))
    checks = {check for check, _ in find_problems(log)}
    assert "offset-order" in checks
    assert "crc" not in checks


def test_overlapping_segments_are_reported(log):
    for kind in ("log", "index", "timeindex"):
        (log / "idem-0" / base(84, kind)).rename(log / "idem-0" / base(80, kind))
    checks = {check for check, _ in find_problems(log)}
    assert "segment-overlap" in checks


def test_a_missing_batch_breaks_the_sequence(log):
    segment = log / "idem-0" / base(170)
    whole = segment.read_bytes()
    size = struct.unpack_from(">i", whole, 8)[0] + 12
    shortened_segment = bytearray(whole[size:])
    (log / "idem-0" / base(170, "index")).unlink()
    (log / "idem-0" / base(170, "timeindex")).unlink()
    position = 0
    while position < len(shortened_segment):  # close the hole in the offsets, which no CRC covers
        following, body = struct.unpack_from(">qi", shortened_segment, position)
        gap = struct.unpack_from(">q", whole, size)[0] - 170
        struct.pack_into(">q", shortened_segment, position, following - gap)
        position += body + 12
    segment.write_bytes(shortened_segment)
    assert "sequence" in {check for check, _ in find_problems(log)}


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("sequence", "silent_ms", "checks"),
    [(1, 0, []), (0, DAY_MS - 1, ["sequence"]), (0, DAY_MS, []), (2, DAY_MS, ["sequence"])],
)
def test_a_sequence_may_restart_once_brokers_have_forgotten_the_producer(tmp_path, sequence, silent_ms, checks):
    def batch(offset: int, sequence: int, timestamp: int) -> bytes:
        rows = [{"value": b"v", "timestamp": timestamp}]
        return build_records(rows, base_offset=offset, producer_id=1, producer_epoch=0, base_sequence=sequence)

    partition = tmp_path / "orders-0"
    partition.mkdir()
    data = batch(0, 0, 1_700_000_000_000) + batch(1, sequence, 1_700_000_000_000 + silent_ms)
    (partition / base(0)).write_bytes(data)
    assert [check for check, _ in find_problems(tmp_path) if check == "sequence"] == checks


def test_index_entries_must_satisfy_the_brokers_invariant(log):
    path = log / "plain-0" / base(163, "index")
    index = read_offset_index(path.read_bytes(), base_offset=163)
    # A follower's append of many batches: the last offset of all, the position of the first one (before KAFKA-806).
    merged_index = OffsetIndex(163, index.offsets[1::2], index.positions[::2][: len(index.offsets[1::2])])
    path.write_bytes(write_offset_index(merged_index))
    assert find_problems(log) == []
    wrong = OffsetIndex(163, index.offsets, index.positions + 1)
    path.write_bytes(write_offset_index(wrong))
    assert [check for check, _ in find_problems(log)] == ["index-mismatch"] * len(index)
    wrong = OffsetIndex(163, np.roll(index.offsets, 0) - 1, index.positions)
    path.write_bytes(write_offset_index(wrong))
    assert "index-mismatch" in {check for check, _ in find_problems(log)}


@pytest.mark.parametrize(
    ("name", "raw", "check"),
    [
        (f"plain-0/{base(0, 'index')}", b"\0\0\0", "index-corrupt"),
        (f"plain-0/{base(0, 'timeindex')}", b"\1" * 24, "timeindex-corrupt"),
        (f"plain-0/{base(0, 'timeindex')}", b"\0\0\0\0\0\0\0\5\0\0\0\5", "timeindex-mismatch"),
        (f"txn-0/{base(0, 'txnindex')}", b"\0" * 34, "txnindex-mismatch"),
        (f"txn-0/{base(91, 'txnindex')}", b"\1" * 34, "txnindex-corrupt"),
        (f"idem-0/{base(245, 'snapshot')}", b"\0\1nonsense", "snapshot-corrupt"),
        ("idem-0/leader-epoch-checkpoint", b"0\n1\n7 0\n", "epoch-checkpoint"),
        ("idem-0/leader-epoch-checkpoint", b"what", "small-file"),
        ("replication-offset-checkpoint", b"0\n1\nidem 0 999\n", "checkpoint-beyond-end"),
        (f"idem-0/{base(999, 'index')}", b"", "orphan"),
    ],
)
def test_damage_that_brokers_rebuild_is_a_warning(log, name, raw, check):
    (log / name).write_bytes(raw)
    report = verify(discover(str(log)))
    assert check in {finding.check for finding in report.findings}
    assert {finding.severity for finding in report.findings} == {Severity.WARNING}


@pytest.mark.parametrize("kind", ["index", "txnindex"])
def test_a_missing_index_is_a_warning(log, kind):
    (log / "txn-0" / base(0, kind)).unlink()
    assert find_problems(log) == [(f"{kind}-missing", None)]


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        (f"txn-0/{base(0, 'txnindex')}", b"", "is missing from the transaction index"),
        (f"txn-0/{base(0, 'txnindex')}", None, "transaction index is missing"),
        (f"txn-0/{base(0, 'txnindex')}", 2, "is listed from offset"),
        (f"txn-0/{base(0, 'txnindex')}", 1, "is missing from the transaction index"),
    ],
    ids=["empty", "missing", "starts too late", "of another producer"],
)
def test_a_transaction_index_that_differs_is_in_the_verdict(log, name, raw, message):
    if raw is None:
        (log / name).unlink()
    elif isinstance(raw, int):  # a field of the first entry, incremented: version, producer id, first offset
        patch(log / name, 2 + 8 * raw - 1, bytes([(log / name).read_bytes()[2 + 8 * raw - 1] + 1]))
    else:
        (log / name).write_bytes(raw)
    report = verify(discover(str(log)))
    assert any(message in one.message for one in find_unexpected_findings(report))
    caveat = "1 transaction index differs from its markers"
    assert caveat in report.as_json()["caveats"]
    assert report.is_sound
    assert report.verdict.startswith(f"sound, but {caveat}")


def test_an_open_transaction_is_in_the_verdict(tmp_path):
    (tmp_path / "t-0").mkdir()
    transactional = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    batches = [
        build_records({"value": [b"v"]}),
        build_records({"value": [b"v"] * 2}, base_offset=1, producer_id=7, **transactional),
        build_records({"value": [b"v"]}, base_offset=3, producer_id=8, **transactional),
        build_records({"value": [b"v"] * 3}, base_offset=4),
    ]
    (tmp_path / "t-0" / base(0)).write_bytes(b"".join(map(bytes, batches)))
    (tmp_path / "t-0" / base(0, "index")).write_bytes(b"")
    report = verify(discover(str(tmp_path)))
    assert [(finding.check, finding.severity, finding.offset) for finding in report.findings] == [
        ("open-transaction", Severity.WARNING, 1),
        ("open-transaction", Severity.WARNING, 3),
    ]
    assert "producer 7 has been open since offset 1; read_committed omits 6 records" in report.findings[0].message
    assert report.caveats == ("2 open transactions hide records from read_committed",)


def test_a_wrong_inner_crc_is_reported(tmp_path):
    """A compressed message with a damaged inner message and a matching outer CRC."""
    import gzip
    import zlib

    body = b"\1\0" + struct.pack(">q", 1000) + struct.pack(">i", -1) + struct.pack(">i", 3) + b"abc"
    inner = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body) ^ 1) + body
    value = gzip.compress(inner, mtime=0)
    outer = b"\1\1" + struct.pack(">qii", 1000, -1, len(value)) + value
    (tmp_path / "t-0").mkdir()
    raw = struct.pack(">qiI", 0, len(outer) + 4, zlib.crc32(outer)) + outer
    (tmp_path / "t-0" / base(0)).write_bytes(raw)
    assert find_problems(tmp_path / "t-0", min_severity=Severity.ERROR) == [("inner-crc", 0)]


@given(st.integers(0, 15000), st.binary(min_size=1, max_size=30))
def test_any_damage_is_reported_without_an_exception(tmp_path_factory, position, raw):
    log = tmp_path_factory.mktemp("damaged") / "plain-0"
    shutil.copytree(SOURCE / "plain-0", log)
    segment = log / base(0)
    before = segment.read_bytes()
    patch(segment, min(position, len(before) - len(raw)), raw)
    has_changed = segment.read_bytes() != before
    for deep in (False, True):
        assert bool(find_problems(log, deep=deep)) == has_changed


_SOURCES = ("verify.py", "verify_segment.py")


def test_the_page_lists_every_check():
    import re

    root = Path(__file__).parents[3]
    page = (root / "docs" / "verifying-logs.md").read_text()
    listed_checks = set(
        re.findall(
            r"`([a-z-]+)`", "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
        )
    )
    source = "".join((root / "src/kafkaframes/jobs/verify" / name).read_text() for name in _SOURCES)
    source += (root / "src/kafkaframes/storage/log/swaps.py").read_text()
    used_checks = set(re.findall(r'Severity\.[A-Z]+,\s+"([a-z-]+)"', source)) | set(
        re.findall(r'\.add_error\(\s*"([a-z-]+)"', source)
    )
    assert used_checks == listed_checks
