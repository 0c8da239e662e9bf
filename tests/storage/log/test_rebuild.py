"""Indexes that are rebuilt from batches equal those of a broker that recovered the same segments."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaframes.storage.files.indexes import write_offset_index, write_time_index
from kafkaframes.storage.files.producer_files import write_txn_index
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.rebuild import rebuild_indexes
from kafkaframes.storage.log.transactions import OpenTransactions
from kafkaframes.storage.recovery.plan import plan_recovery

LOGS = Path(__file__).parents[2] / "data" / "logs"
CASES = ["unclean-half-finished-swap", "unclean-flipped-bit-active", "preallocated-torn-tail"]


@pytest.mark.parametrize("case", CASES)
def test_rebuilt_indexes_equal_those_of_a_recovering_broker(case):
    properties = json.loads((LOGS / f"{case}.json").read_text())["server_properties"]
    (before,), (after,) = discover(str(LOGS / case / "before")), discover(str(LOGS / case / "after"))
    truth = {partition.topic_partition: partition for partition in after.partitions}
    compared_count = 0
    for partition in before.partitions:
        follow = OpenTransactions()
        for cut_segment in plan_recovery(before, partition).segments:
            (expected_file,) = (
                segment
                for segment in truth[partition.topic_partition].segments
                if segment.base_offset == cut_segment.base_offset
            )
            (original_segment,) = (
                segment for segment in partition.segments if segment.base_offset == cut_segment.base_offset
            )
            truncated_segment = replace(
                original_segment,
                log=replace(original_segment.log, path=cut_segment.path, size_bytes=cut_segment.size_bytes),
            )
            interval = int(properties["log.index.interval.bytes"])
            rebuilt = rebuild_indexes(
                before.filesystem, truncated_segment, index_interval_bytes=interval, follow=follow
            )
            if not cut_segment.is_recovered:
                continue
            assert rebuilt.next_offset == cut_segment.next_offset
            for file, raw in (
                (expected_file.index, write_offset_index(rebuilt.offset_index)),
                (expected_file.time_index, write_time_index(rebuilt.time_index)),
                (expected_file.txn_index, write_txn_index(rebuilt.aborted_transactions)),
            ):
                assert raw == (Path(file.path).read_bytes() if file else b"")
                compared_count += bool(raw)
    assert compared_count > 10


def test_an_empty_segment_has_empty_indexes(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{5:020d}.log").write_bytes(b"")
    (directory,) = discover(str(tmp_path))
    rebuilt = rebuild_indexes(directory.filesystem, directory.partitions[0].segments[0])
    assert (len(rebuilt.offset_index), len(rebuilt.time_index), rebuilt.aborted_transactions, rebuilt.next_offset) == (
        0,
        0,
        (),
        5,
    )
