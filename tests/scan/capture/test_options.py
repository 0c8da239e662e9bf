"""How captures become tasks."""

from __future__ import annotations

from kafkaframes.capture.reader import CaptureOptions
from kafkaframes.scan.capture.options import SourceOptions, plan_works


def test_small_files_are_one_task_and_large_ones_as_many_as_there_are_cores(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(bytes(100))
    options = SourceOptions((str(path),), CaptureOptions())
    assert len(plan_works([str(path)], options, cores=4)) == 1
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert [work.options.share for work in plan_works([str(path)], options, cores=4)] == [0, 1, 2, 3]
