"""Producer snapshots of a partition after it was loaded."""

import pytest

from kafkaframes.storage.files.producer_files import ProducerEntry, read_producer_snapshot, write_producer_snapshot
from kafkaframes.storage.log.rebuild import ProducerStateLoader, StoredSnapshots, sort_in_file_order

NOW_MS = 1_795_255_143_423


def producer(producer_id: int, timestamp: int = NOW_MS) -> ProducerEntry:
    return ProducerEntry(producer_id, 0, 4, 4, 4, timestamp, -1, -1)


@pytest.mark.parametrize(
    ("present", "bases", "remaining_offsets"),
    [
        (
            (10, 20, 35),
            (0, 20),
            (20, 35),
        ),  # the last stray snapshot is at the log end
        ((5, 10, 20), (0, 10, 20), (10, 20)),
        ((25, 30, 35), (0, 20), (35,)),
        ((5,), (0, 20), ()),
        ((5,), (), (5,)),
        ((), (0,), ()),
    ],
)
def test_stray_snapshots_are_deleted(present, bases, remaining_offsets):
    snapshots = StoredSnapshots(dict.fromkeys(present, b""), NOW_MS)
    snapshots.remove_stray_snapshots(bases)
    assert tuple(sorted(snapshots.snapshots)) == remaining_offsets


def test_a_corrupt_snapshot_is_deleted_and_an_idle_producer_expires():
    old = producer(1, NOW_MS - 86_400_000)
    snapshots = StoredSnapshots(
        {10: write_producer_snapshot([old, producer(2)]), 20: b"corrupt", 40: b"beyond"}, NOW_MS
    )
    load = ProducerStateLoader(snapshots)
    load.rebuild([0, 10, 20], start_offset=0, end_offset=30, is_clean=False, replay=lambda base, at: iter(()))
    assert sorted(snapshots.snapshots) == [10, 20, 30]
    assert [one.producer_id for one in read_producer_snapshot(snapshots.snapshots[30])] == [2]


def test_a_log_of_an_old_format_gets_empty_snapshots():
    snapshots = StoredSnapshots({}, NOW_MS, record_format=1)
    ProducerStateLoader(snapshots).rebuild(
        [0, 10, 20], start_offset=0, end_offset=30, is_clean=False, replay=lambda base, at: iter(())
    )
    assert {offset: read_producer_snapshot(raw) for offset, raw in snapshots.snapshots.items()} == {
        10: (),
        20: (),
        30: (),
    }


def test_producers_are_in_the_order_of_a_java_hash_map():
    ids = [33, 1, 17, 2, 1 << 32]  # 16 buckets: 33, 1, 17 and 2^32 (with mixed halves) share the second
    assert [one.producer_id for one in sort_in_file_order(map(producer, ids))] == [33, 1, 17, 1 << 32, 2]
    many = [*range(20, 0, -1)]  # more than 12: the table doubles
    assert [one.producer_id for one in sort_in_file_order(map(producer, many))] == sorted(many)
