"""The reader of a ``kafka-log`` stream, as Spark calls it."""

import pytest
from tests.scan.log.test_following import append_records

from kafkaframes.scan.columns import choose_columns

COLUMNS = choose_columns(["partition", "offset"])


@pytest.mark.spark
def test_a_query_restarts_from_its_checkpoint_and_reads_every_row_once(spark, tmp_path):
    log, out, checkpoint = tmp_path / "log", tmp_path / "out", tmp_path / "checkpoint"
    log.mkdir()

    def run(options):
        stream = spark.readStream.format("kafka-log").option("columns", "partition,offset").options(**options)
        writer = stream.load(str(log)).writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(str(out))
        assert query.awaitTermination(240)
        assert query.exception() is None
        return [progress["sources"][0] for progress in query.recentProgress]

    append_records(log, 0, 40)
    run({"startingOffsets": "earliest"})
    append_records(log, 40, 30)
    append_records(log, 70, 30, roll=True)
    append_records(log, 0, 20, partition=1)
    (log / "t-0" / f"{0:020}.log").stat()
    progress = run({"startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"})
    assert len([one for one in progress if one["numInputRows"]]) == 2
    rows = sorted(map(tuple, spark.read.parquet(str(out)).select("partition", "offset").collect()))
    assert rows == [*((0, n) for n in range(100)), *((1, n) for n in range(20))]
