"""The options of ``kafka-capture``; no JVM."""

from __future__ import annotations

import pickle

import pytest
from tests.capture.own_specs import write_specs

from kafkaframes.errors import OptionError
from kafkaframes.spark.options import parse_capture_options


def test_options_are_checked_before_anything_is_read():
    assert parse_capture_options({"path": "x", "PORTS": "9092,9094-9095"}).read.ports == (9092, 9094, 9095)
    for options, words in [
        ({}, "needs a path"),
        ({"path": "x", "tabel": "calls"}, "did you mean table"),
        ({"path": "x", "table": "nonsense"}, "one of calls"),
        ({"path": "x", "columns": "nonsense"}, "no column"),
        ({"path": "x", "api": "Nonsense"}, "api=Nonsense"),
        ({"path": "x", "api": "Metadata", "table": "gaps"}, "table=calls"),
        ({"path": "x", "minPartitions": "0"}, "greater than 0"),
        ({"path": "x", "mode": "DROPMALFORMED"}, "one of PERMISSIVE, FAILFAST"),
    ]:
        with pytest.raises(OptionError, match=words):
            parse_capture_options(options)


def test_the_callers_specs_are_read_with_the_options(tmp_path):
    folder = write_specs(tmp_path / "specs")
    options = parse_capture_options({"path": "/x.pcap", "specs": str(folder), "api": "Greet"})
    assert options.read.apis.name_of(120) == "Greet"
    assert options.read == pickle.loads(pickle.dumps(options.read))
    with pytest.raises(OptionError, match="nowhere"):
        parse_capture_options({"path": "/x.pcap", "specs": str(tmp_path / "nowhere")})
