"""The options of ``kafka-capture``, and how files become tasks; no JVM."""

from __future__ import annotations

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.scan.capture.options import SourceOptions, plan_works


def test_options_are_checked_before_anything_is_read():
    assert SourceOptions.parse({"path": "x", "PORTS": "9092,9094-9095"}).read.ports == (9092, 9094, 9095)
    for options, words in [
        ({}, "needs a path"),
        ({"path": "x", "tabel": "calls"}, "did you mean table"),
        ({"path": "x", "table": "nonsense"}, "one of calls"),
        ({"path": "x", "columns": "nonsense"}, "no column"),
        ({"path": "x", "api": "Nonsense"}, "api=Nonsense"),
        ({"path": "x", "api": "Metadata", "table": "gaps"}, "table=calls"),
        ({"path": "x", "minPartitions": "0"}, "above 0"),
    ]:
        with pytest.raises(OptionError, match=words):
            SourceOptions.parse(options)


def test_small_files_are_one_task_and_large_ones_as_many_as_there_are_cores(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(bytes(100))
    options = SourceOptions.parse({"path": str(path)})
    assert len(plan_works([str(path)], options, cores=4)) == 1
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert [work.options.share for work in plan_works([str(path)], options, cores=4)] == [0, 1, 2, 3]
