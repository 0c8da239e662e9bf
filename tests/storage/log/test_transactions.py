"""What a read_committed consumer is given: aborted and open transactions, from markers or from indexes."""

import numpy as np
import pytest

from kafkaframes.records.build import build_end_transaction, build_records
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN
from kafkaframes.records.scan import Batches, End
from kafkaframes.storage.files.producer_files import AbortedTransaction, write_txn_index
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import transactions_of


def data(base, producer, count=2):
    values = {"value": [b"v"] * count}
    return build_records(
        values, base_offset=base, producer_id=producer, producer_epoch=0, base_sequence=base, transactional=True
    )


def end(base, producer, *, commit):
    return build_end_transaction(base, commit=commit, timestamp=1, producer_id=producer, producer_epoch=0)


@pytest.fixture
def partition(tmp_path):
    """Producer 1 aborts offsets 0 and 1, producer 2 commits 3 and 4, producer 3 is still open at 6."""
    (tmp_path / "t-0").mkdir()
    batches = [
        data(0, 1), end(2, 1, commit=False), data(3, 2), end(5, 2, commit=True), data(6, 3)
    ]  # fmt: skip
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(map(bytes, batches)))
    return tmp_path / "t-0"


def state_of(path, **how):
    (directory,) = discover(str(path))
    return transactions_of(directory.filesystem, directory.partitions[0], **how)


def test_markers_end_what_data_began(partition):
    state = state_of(partition)
    assert state.aborted == (AbortedTransaction(1, 0, 2, 3),)
    assert (state.open, state.log_end_offset, state.last_stable_offset) == ({3: 6}, 8, 6)
    assert (state.end_offset("read_committed"), state.end_offset("read_uncommitted")) == (6, 8)
    assert state.has_producers


def test_an_index_is_believed_and_says_the_same(partition):
    (partition / f"{0:020}.txnindex").write_bytes(write_txn_index((AbortedTransaction(1, 0, 2, 3),)))
    assert state_of(partition) == state_of(partition, use_indexes=False)


def test_a_damaged_index_is_told_and_the_markers_count(partition):
    (partition / f"{0:020}.txnindex").write_bytes(b"nonsense")
    state = state_of(partition)
    assert len(state.problems) == 1
    assert state.aborted == state_of(partition, use_indexes=False).aborted


def test_batches_of_the_aborted_transaction_are_left_out_and_markers_are_no_data(partition):
    transactional, control = 16, 48
    state = state_of(partition)
    table = np.zeros((len(BATCH_COLUMNS), 5), np.int64)
    for name, row in (
        ("magic", [2, 2, 2, 2, 1]),
        ("base_offset", [0, 2, 3, 6, 0]),
        ("producer_id", [1, 1, 2, 3, 1]),
        ("attributes", [transactional, control, transactional, transactional, transactional]),
    ):
        table[COLUMN[name]] = row
    assert state.aborted_batches(Batches(table, End(0, 0))).tolist() == [True, False, False, False, False]
