"""A ``kafka-topic`` task in a worker; without a JVM."""

import pickle

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.datasource import InputPartition

from kafkaframes.scan.topic import reading as topic_reading
from kafkaframes.scan.topic.shares import PartitionRange
from kafkaframes.spark.sources import tasks
from kafkaframes.spark.sources.tasks import read_topic


def test_a_slice_is_read_after_pickling_and_an_empty_one_has_no_rows(monkeypatch):
    calls = []
    monkeypatch.setattr(tasks, "freeze_imports", lambda: calls.append("settled"))
    monkeypatch.setattr(topic_reading, "read_range", lambda *arguments: calls.append(arguments) or iter(["batch"]))
    work = PartitionRange("orders", 3, 10, 20)
    piece = pickle.loads(pickle.dumps(InputPartition(work))).value
    assert list(read_topic(piece, (), None)) == ["batch"]
    assert calls == [(work, (), None), "settled"]
    assert list(read_topic(None, (), None)) == []
    assert len(calls) == 2
