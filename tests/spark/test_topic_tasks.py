"""The work of a task of ``kafka-topic`` in a worker; no JVM."""

import pickle

import pytest

pytest.importorskip("pyspark")
from kafkaframes.scan.topic import reading as topic_reading
from kafkaframes.scan.topic.planning import Range
from kafkaframes.spark import topic_tasks
from kafkaframes.spark.topic_tasks import TopicPiece, read_piece


def test_a_piece_is_read_after_the_way_to_a_worker_and_an_empty_one_has_no_rows(monkeypatch):
    asked = []
    monkeypatch.setattr(topic_tasks, "settle", lambda: asked.append("settled"))
    monkeypatch.setattr(topic_reading, "read_range", lambda *given: asked.append(given) or iter(["batch"]))
    work = Range("orders", 3, 10, 20)
    piece = pickle.loads(pickle.dumps(TopicPiece(work)))
    assert list(read_piece(piece, (), None)) == ["batch"]
    assert asked == [(work, (), None), "settled"]
    assert list(read_piece(TopicPiece(None), (), None)) == []
    assert len(asked) == 2
