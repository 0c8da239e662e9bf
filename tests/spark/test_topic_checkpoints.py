"""Exactly-once writes for restored, deleted or copied checkpoints: each row is in the topic once, or the query gives
the reason why it stops.
"""

import shutil
from pathlib import Path

import pytest
from tests.spark.test_topic_exactly_once import produce, servers, values  # noqa: F401 (a fixture)

import kafkaframes

pytestmark = pytest.mark.spark


def run(spark, servers, checkpoint, *, reading=None, change=lambda frame: frame, **options):  # noqa: F811
    """Write all rows of ``in`` to ``out``."""
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    frame = stream.options(**{"subscribe": "in", "startingOffsets": "earliest"} | (reading or {})).load()
    options = {"kafka.bootstrap.servers": servers, "topic": "out", **options}
    trigger = {"availableNow": True}
    frame = change(frame.select("key", "value"))
    query = kafkaframes.spark.write_topic(frame, options, checkpoint=str(checkpoint), trigger=trigger)
    assert query.awaitTermination(240)


def check_refusal(spark, servers, checkpoint, reason, **options):  # noqa: F811
    """Check that a query stops for a reason, writes nothing, and names both choices."""
    before = sorted(values(servers, "out"))
    with pytest.raises(Exception, match=rf"(?s)does not fit the marker.*{reason}.*onForeignMarker=skip.*sink="):
        run(spark, servers, checkpoint, **options)
    assert sorted(values(servers, "out")) == before


def count(frame):
    return frame.groupBy("key").count().selectExpr("key AS value")


def copy_checkpoint(checkpoint: Path, name: str) -> Path:
    return Path(shutil.copytree(checkpoint, checkpoint.with_name(name)))


def test_a_checkpoint_restored_from_an_older_copy(spark, servers, tmp_path):  # noqa: F811
    rows = produce(servers, 0, 20)
    run(spark, servers, tmp_path / "checkpoint")
    copy = copy_checkpoint(tmp_path / "checkpoint", "copy")
    rows += produce(servers, 20, 40)
    run(spark, servers, tmp_path / "checkpoint")
    rows += produce(servers, 40, 60)
    shutil.rmtree(tmp_path / "checkpoint")
    copy.rename(tmp_path / "checkpoint")
    check_refusal(spark, servers, tmp_path / "checkpoint", "ends at other offsets")
    run(spark, servers, tmp_path / "checkpoint", onForeignMarker="skip")
    assert sorted(values(servers, "out")) == sorted(rows)
    with pytest.raises(kafkaframes.errors.OptionError, match="Aggregate in the query keeps state"):
        run(spark, servers, tmp_path / "checkpoint", change=count, onForeignMarker="skip")


def test_a_deleted_checkpoint(spark, servers, tmp_path):  # noqa: F811
    rows = produce(servers, 0, 20)
    run(spark, servers, tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "checkpoint")
    rows += produce(servers, 20, 40)
    check_refusal(spark, servers, tmp_path / "checkpoint", "the checkpoint was deleted")
    run(spark, servers, tmp_path / "checkpoint", onForeignMarker="skip")
    assert sorted(values(servers, "out")) == sorted(rows)


def test_a_checkpoint_copied_to_two_queries(spark, servers, tmp_path):  # noqa: F811
    rows = produce(servers, 0, 20)
    run(spark, servers, tmp_path / "checkpoint")
    copy = copy_checkpoint(tmp_path / "checkpoint", "copy")
    rows += produce(servers, 20, 40)
    for _ in range(2):
        for checkpoint in (tmp_path / "checkpoint", copy):  # the same rows under the same number
            run(spark, servers, checkpoint)
            assert sorted(values(servers, "out")) == sorted(rows)
    rows += produce(servers, 40, 60)
    run(spark, servers, copy)
    rows += produce(servers, 60, 80)
    check_refusal(spark, servers, tmp_path / "checkpoint", "ends at other offsets")


def test_source_options_changed_between_restarts(spark, servers, tmp_path):  # noqa: F811
    rows = produce(servers, 0, 40)
    checkpoint = tmp_path / "checkpoint"
    run(spark, servers, checkpoint, reading={"maxOffsetsPerTrigger": "20"})
    for name in ("1", ".1.crc"):  # as if the query had been killed before it stored its commit
        (checkpoint / "commits" / name).unlink()
    changes = {"maxOffsetsPerTrigger": "7", "startingOffsets": "latest", "minPartitions": "4"}
    check_refusal(
        spark, servers, checkpoint, "was written to sink, topic out, but this one is for sink, topic in", topic="in"
    )
    rows += produce(servers, 40, 60)
    run(spark, servers, checkpoint, reading=changes)
    assert sorted(values(servers, "out")) == sorted(rows)
