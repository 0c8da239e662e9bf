"""The records of a read_committed consumer: aborted and open transactions, from markers or from indexes."""

import numpy as np
import pytest

from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.compact.staged_compaction import SplitSettings
from kafkaframes.jobs.convert.job import convert
from kafkaframes.jobs.settings import ConvertSettings
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.build import build_end_transaction, build_records
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN_INDEX
from kafkaframes.records.scan import BatchHeaders, ScanEnd
from kafkaframes.storage.cleaner.plan import CleanerSettings
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.producer_files import AbortedTransaction, write_txn_index
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import find_hidden_records, read_transactions


def data_batch(base, producer, count=2):
    values = {"value": [b"v"] * count}
    return build_records(
        values, base_offset=base, producer_id=producer, producer_epoch=0, base_sequence=base, transactional=True
    )


def end(base, producer, *, commit):
    return build_end_transaction(base, commit=commit, timestamp=1, producer_id=producer, producer_epoch=0)


@pytest.fixture
def partition(tmp_path):
    """Producer 1 aborts offsets 0 and 1, producer 2 commits 3 and 4, producer 3 stays open."""
    (tmp_path / "t-0").mkdir()
    batches = [
        data_batch(0, 1), end(2, 1, commit=False), data_batch(3, 2), end(5, 2, commit=True), data_batch(6, 3)
    ]  # fmt: skip
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(map(bytes, batches)))
    return tmp_path / "t-0"


def read_state(path, **how):
    (directory,) = discover(str(path))
    return read_transactions(directory.filesystem, directory.partitions[0], **how)


def test_markers_end_transactions(partition):
    state = read_state(partition)
    assert state.aborted_transactions == (AbortedTransaction(1, 0, 2, 3),)
    assert (state.open, state.log_end_offset, state.last_stable_offset) == ({3: 6}, 8, 6)
    assert (state.end_offset_for("read_committed"), state.end_offset_for("read_uncommitted")) == (6, 8)
    assert state.has_producers


ABORTED_TRANSACTIONS = (AbortedTransaction(1, 0, 2, 3),)


CORRECT_INDEX = write_txn_index(ABORTED_TRANSACTIONS)


@pytest.fixture(params=[None, b"", CORRECT_INDEX[:17], write_txn_index([AbortedTransaction(2, 3, 5, 6)])],
                ids=["missing", "empty", "short", "of another log"])  # fmt: skip
def wrong_index(request, partition):
    """A partition of two segments; the first has a wrong transaction index."""
    if request.param is not None:
        (partition / f"{0:020}.txnindex").write_bytes(request.param)
    (partition / f"{8:020}.log").write_bytes(bytes(data_batch(8, 4)))
    return partition


@pytest.mark.parametrize("job", ["convert", "compact"])
def test_jobs_that_write_a_log_rebuild_a_wrong_index(wrong_index, tmp_path, job):
    """Kafka rebuilds the index when it recovers a segment. After a clean shutdown, it keeps a wrong index."""
    new = tmp_path / "new"
    if job == "convert":
        report = convert(str(wrong_index), new, ConvertSettings(record_format=2))
    else:  # nothing is cleaned, because the first segment has an open transaction
        report = compact(str(wrong_index), new, CleanerSettings(now_ms=1))
    assert [note for note in report.partitions[0].notes if "txnindex" in note]
    assert (new / f"{0:020}.txnindex").read_bytes() == CORRECT_INDEX
    assert checks_of(read_state(new)) == []


@pytest.mark.parametrize(
    "work_split", [None, SplitSettings(secret=(1, 2), above_bytes=0)], ids=["one task", "shared out"]
)
def test_cleaning_rebuilds_a_wrong_index_of_an_uncleaned_segment(tmp_path, work_split):
    (tmp_path / "t-0").mkdir()
    for base, batches in {
        0: [data_batch(0, 1), end(2, 1, commit=True)],
        3: [data_batch(3, 2), end(5, 2, commit=False)],
    }.items():
        (tmp_path / "t-0" / f"{base:020}.log").write_bytes(b"".join(map(bytes, batches)))
    report = compact(str(tmp_path / "t-0"), tmp_path / "new", CleanerSettings(now_ms=1), work_split=work_split)
    assert report.partitions[0].cleaned
    index = (tmp_path / "new" / f"{3:020}.txnindex").read_bytes()
    assert index == write_txn_index([AbortedTransaction(2, 3, 5, 6)])


def checks_of(state):
    return [(finding.severity, finding.check) for finding in state.findings]


def write_index(partition, *entries):
    (partition / f"{0:020}.txnindex").write_bytes(write_txn_index(entries))


def test_an_index_that_matches_the_markers_is_not_reported(partition):
    write_index(partition, AbortedTransaction(1, 0, 2, 3))
    state = read_state(partition)
    assert (state.aborted_transactions, state.findings) == ((AbortedTransaction(1, 0, 2, 3),), ())


@pytest.mark.parametrize(
    ("raw", "check", "message"),
    [
        (b"nonsense", "txnindex-corrupt", "not a multiple of the entry size"),
        (b"", "txnindex-mismatch", "1 of 1 aborted transactions are not listed"),
        (write_txn_index([AbortedTransaction(1, 1, 2, 3)]), "txnindex-mismatch", "1 of 1"),
        (write_txn_index([*ABORTED_TRANSACTIONS, AbortedTransaction(2, 3, 5, 6)]), "txnindex-mismatch", "no ABORT"),
        (None, "txnindex-missing", "1 aborted transactions"),
    ],
    ids=["corrupt", "empty", "begins too late", "lists a committed one", "missing"],
)  # fmt: skip
def test_a_wrong_index_is_reported_and_ignored(partition, raw, check, message):
    """A killed Kafka 4.3.1 leaves an empty index, which its recovery rebuilds from the markers."""
    if raw is not None:
        (partition / f"{0:020}.txnindex").write_bytes(raw)
    state = read_state(partition)
    assert state.aborted_transactions == (AbortedTransaction(1, 0, 2, 3),)
    assert checks_of(state) == [(Severity.WARNING, check)]
    assert message in state.findings[0].message


def test_an_index_entry_replaces_a_damaged_marker(partition):
    path = partition / f"{0:020}.log"
    raw = bytearray(path.read_bytes())
    marker = len(bytes(data_batch(0, 1)))
    raw[marker + 61] = 0xFF  # the record's length
    path.write_bytes(raw)
    assert read_state(partition).open == {1: 0, 3: 6}
    write_index(partition, AbortedTransaction(1, 0, 2, 3))
    assert read_state(partition).aborted_transactions == (AbortedTransaction(1, 0, 2, 3),)


def test_a_confirmed_entry_gives_the_start_of_a_cleaned_transaction(tmp_path):
    """The cleaner has removed the data of the first transaction. Kafka's next cleaning keeps its index entry."""
    path = tmp_path / "t-0"
    path.mkdir()
    batches = [end(5, 1, commit=False), data_batch(8, 1), end(10, 1, commit=False)]
    (path / f"{0:020}.log").write_bytes(b"".join(map(bytes, batches)))
    entries = AbortedTransaction(1, 2, 5, 6), AbortedTransaction(1, 7, 10, 11)
    write_index(path, *entries)
    state = read_state(path)
    assert (state.aborted_transactions, state.findings) == (entries, ())
    write_index(path, entries[0], AbortedTransaction(1, 4, 10, 11))  # it would overlap the previous transaction
    assert read_state(path).aborted_transactions == (entries[0], AbortedTransaction(1, 8, 10, 11))


@pytest.fixture
def partition_with_deleted_records(tmp_path):
    """Two transactions, open before and after the log start offset 4; the second one is aborted at 6."""
    path = tmp_path / "log" / "t-0"
    path.mkdir(parents=True)
    batches = [data_batch(0, 2), data_batch(2, 1), data_batch(4, 1), end(6, 1, commit=False)]
    (path / f"{0:020}.log").write_bytes(b"".join(map(bytes, batches)))
    (path.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    return path


INDEX_FROM_LOG_START = (AbortedTransaction(1, 4, 6, 7),)


def test_batches_before_the_log_start_offset_do_not_start_an_aborted_transaction(partition_with_deleted_records):
    """After DeleteRecords and an unclean start, Kafka 3.9 and 4.3 build the index from the log start offset."""
    state = read_state(partition_with_deleted_records.parent)
    assert (state.aborted_transactions, checks_of(state)) == (
        INDEX_FROM_LOG_START, [(Severity.WARNING, "txnindex-missing")]
    )  # fmt: skip
    assert state.open == {2: 0}


@pytest.mark.parametrize(
    "entries", [INDEX_FROM_LOG_START, (AbortedTransaction(1, 2, 6, 0),)], ids=["unclean start", "written live"]
)
def test_an_index_built_before_or_after_a_deletion_is_not_reported(partition_with_deleted_records, entries):
    write_index(partition_with_deleted_records, *entries)
    state = read_state(partition_with_deleted_records.parent)
    assert (state.aborted_transactions, state.findings) == (entries, ())
    findings = verify(discover(str(partition_with_deleted_records.parent))).findings
    assert [finding.check for finding in findings if finding.check.startswith("txnindex")] == []


def test_records_hidden_by_an_open_transaction_are_counted(partition):
    (directory,) = discover(str(partition))
    partition_found = directory.partitions[0]
    hidden_records = find_hidden_records(
        directory.filesystem, partition_found, read_transactions(directory.filesystem, partition_found)
    )
    assert (
        hidden_records.producer_id,
        hidden_records.first_offset,
        hidden_records.end_offset,
        hidden_records.records,
    ) == (3, 6, 8, 2)
    assert "producer 3 has been open since offset 6" in str(hidden_records)
    none = find_hidden_records(
        directory.filesystem, partition_found, read_transactions(directory.filesystem, partition_found), end=6
    )
    assert none is None


def test_aborted_batches_and_markers_are_not_read(partition):
    transactional, control = 16, 48
    state = read_state(partition)
    table = np.zeros((len(BATCH_COLUMNS), 5), np.int64)
    for name, row in (
        ("magic", [2, 2, 2, 2, 1]),
        ("base_offset", [0, 2, 3, 6, 0]),
        ("producer_id", [1, 1, 2, 3, 1]),
        ("attributes", [transactional, control, transactional, transactional, transactional]),
    ):
        table[COLUMN_INDEX[name]] = row
    assert state.mask_aborted_batches(BatchHeaders(table, ScanEnd(0, 0))).tolist() == [True, False, False, False, False]
