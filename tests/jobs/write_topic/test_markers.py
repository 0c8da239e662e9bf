"""The marker that a micro-batch must fit. Writing and reading markers: ``tests/spark/test_topic_transaction.py``."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.micro_batch import StreamBatch
from kafkaframes.jobs.write_topic.markers import Marker, find_marker, is_written

CHECKPOINTS = Path(__file__).parents[2] / "data" / "checkpoints" / "sinks"
ENDS = ('{"in":{"0":30,"1":30}}',)
BATCH = StreamBatch("q", 3, "/c", "sink, topic out", ENDS, ('{"in":{"0":40,"1":40}}',))


def test_markers_of_version_0_1_0_are_read():
    lines = map(json.loads, (CHECKPOINTS / "markers.jsonl").read_text().splitlines())
    markers = {line["key"]: line["value"].encode() for line in lines}
    key = next(iter(markers))
    marker = find_marker(markers, key, BATCH)
    assert (marker.batch, marker.open_ms) == (StreamBatch("q", 2), 81)
    assert not is_written(marker.batch, BATCH, key)
    with pytest.raises(KafkaframesError, match=r"micro-batch 2 of kafkaframes-.*0\.1\.0.* onForeignMarker=skip.*sink="):
        is_written(marker.batch, replace(BATCH, batch_id=2), key)
    assert find_marker(markers, "kafkaframes-other-sink", BATCH) is None


def test_the_marker_of_another_query_applies_to_the_same_checkpoint_and_sink():
    other = replace(BATCH, query_id="old", batch_id=7)
    markers = {
        "kafkaframes-old-sink": Marker(other, 5).to_record_value().encode(),
        "kafkaframes-old-b": Marker(replace(other, batch_id=9, sink="b, topic out")).to_record_value().encode(),
        "kafkaframes-x-sink": Marker(replace(other, query_id="x", checkpoint="/d")).to_record_value().encode(),
        "foreign": b"no marker",
    }
    key = "kafkaframes-q-sink"
    assert find_marker(markers, key, BATCH) == Marker(other, 5)
    own = Marker(BATCH, 6)
    assert find_marker(markers | {key: own.to_record_value().encode()}, key, BATCH) == own
    with pytest.raises(KafkaframesError, match="cannot be read: b'no'"):
        find_marker(markers | {key: b"no"}, key, BATCH)
