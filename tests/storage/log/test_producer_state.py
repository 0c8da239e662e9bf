"""A broker's producer state at the end of a log: from a snapshot, then batch by batch."""

from tests.storage.log.test_transactions import data_batch, end

from kafkaframes.records.build import build_empty_batch
from kafkaframes.records.fields import BatchFields
from kafkaframes.storage.files.producer_files import ProducerEntry, write_producer_snapshot
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.producer_state import load_producer_states

DAY_MS = 86_400_000


def read_producers(path, *, end_offset, now_ms=1000):
    (directory,) = discover(str(path))
    producers = load_producer_states(
        directory.filesystem, directory.partitions[0], now_ms=now_ms, end_offset=end_offset
    )
    return {entry.producer_id: entry for entry in producers.entries()}


def write_segment(tmp_path, *batches):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(map(bytes, batches)))
    return tmp_path / "t-0"


def test_batches_and_markers_update_producers(tmp_path):
    path = write_segment(tmp_path, data_batch(0, 1), end(2, 1, commit=True), data_batch(3, 2))
    states = read_producers(path, end_offset=5)
    assert list(states) == [1, 2]
    assert (states[1].last_sequence, states[1].last_offset, states[1].current_txn_first_offset) == (1, 1, -1)
    assert (states[2].last_offset, states[2].current_txn_first_offset) == (4, 3)


def test_a_control_batch_emptied_by_the_cleaner_adds_its_producer(tmp_path):
    fields = BatchFields(producer_id=5, producer_epoch=3, transactional=True, control=True)
    states = read_producers(
        write_segment(tmp_path, data_batch(0, 1), build_empty_batch(2, 2, fields=fields)), end_offset=3
    )
    assert list(states) == [1, 5]
    assert states[5] == ProducerEntry(5, -1, -1, -1, 0, -1, -1, -1)


def test_reading_starts_at_the_newest_valid_snapshot(tmp_path):
    path = write_segment(tmp_path, data_batch(0, 1), end(2, 1, commit=True), data_batch(3, 2))
    known_entry = ProducerEntry(9, 0, 5, 1, 0, 900, -1, -1)
    (path / f"{2:020}.snapshot").write_bytes(write_producer_snapshot((known_entry,)))
    (path / f"{3:020}.snapshot").write_bytes(b"nonsense")
    states = read_producers(path, end_offset=5)
    assert sorted(states) == [1, 2, 9]
    assert states[9] == known_entry
    assert states[1].last_offset != 1  # its data is before the snapshot, so only the marker was read


def test_an_idle_producer_expires_unless_its_transaction_is_open(tmp_path):
    path = write_segment(tmp_path, data_batch(0, 1))
    entries = (ProducerEntry(7, 0, 5, 1, 0, 0, -1, -1), ProducerEntry(8, 0, 5, 1, 0, 0, -1, 0))
    (path / f"{2:020}.snapshot").write_bytes(write_producer_snapshot(entries))
    assert list(read_producers(path, end_offset=2, now_ms=DAY_MS)) == [8]


def test_a_partition_without_segments_has_no_producers(tmp_path):
    """A damaged directory can contain only checkpoints and snapshots."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    (partition,) = discover(str(tmp_path))[0].partitions
    assert partition.segments == ()
    assert read_producers(tmp_path, end_offset=5) == {}
