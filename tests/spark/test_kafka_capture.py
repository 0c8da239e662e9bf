"""The data source kafka-capture: the same rows as the plain reader's, in any number of tasks, and as a stream."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.capture.own_specs import write_specs, write_traffic

from kafkaframes.capture.reader import CaptureOptions, read_capture, read_traffic
from kafkaframes.spark.options import parse_capture_options
from kafkaframes.spark.sources.kafka_capture import KafkaCaptureStreamReader

DATA = Path(__file__).parent.parent / "data" / "captures"
SHARE = DATA / "share-groups-broker43.pcap.zst"
LOSS = DATA / "mangled-loss.pcapng.zst"


def plain(path, **options):
    return read_capture(str(path), CaptureOptions(**options)).read_all().to_pylist()


def comparable(rows):
    return sorted(str([row[name] for name in ("connection", "correlationId", "apiName", "_error")]) for row in rows)


@pytest.mark.spark
@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_equal_those_of_the_plain_reader(spark, tasks):
    frame = spark.read.format("kafka-capture").option("minPartitions", tasks).load([str(SHARE), str(LOSS)])
    rows = [row.asDict() for row in frame.collect()]
    both = read_capture([str(SHARE), str(LOSS)], CaptureOptions()).read_all().to_pylist()
    assert comparable(rows) == comparable(both)
    assert frame.rdd.getNumPartitions() == tasks


@pytest.mark.spark
@pytest.mark.parametrize("table", ["connections", "gaps", "packets", "records"])
def test_every_table_is_read(spark, table):
    frame = spark.read.format("kafka-capture").option("table", table).load(str(LOSS))
    assert frame.count() == len(plain(LOSS, table=table))
    frame.limit(2).collect()


@pytest.mark.spark
def test_typed_columns_of_one_api_are_queried_in_sql(spark):
    spark.read.format("kafka-capture").option("api", "Metadata").load(str(LOSS)).createOrReplaceTempView("metadata")
    rows = spark.sql(
        "select distinct t.name from metadata lateral view explode(response.topics) as t where t.name is not null"
    )
    names = {
        t["name"] for row in plain(LOSS, api="Metadata") if row["response"] for t in row["response"]["topics"] or []
    }
    assert {row.name for row in rows.collect()} == names - {None}


@pytest.mark.spark
def test_workers_use_the_callers_specs(spark, tmp_path):
    folder = write_specs(tmp_path / "specs")
    trace = write_traffic(tmp_path / "own.pcapng", folder)
    frame = spark.read.format("kafka-capture").option("specs", str(folder)).load(trace)
    assert [row.apiName for row in frame.collect()] == ["Greet", "Greet", "Heartbeat", "Heartbeat"]


@pytest.mark.parametrize(("wait", "most"), [(1, None), (3, None), (2, 2)])
def test_micro_batches_read_earlier_files_again_and_return_every_call_once(tmp_path, wait, most):
    """The stream's reader plans micro-batches without Spark, over capture files of a recorder that starts a new file
    regularly.
    """
    pieces = _split_pcap(_unpack(SHARE), 7)
    # otherwise few bytes of a connection that began earlier identify it
    ports = sorted({row["serverPort"] for row in plain(SHARE)})
    capture_settings = {
        "path": str(tmp_path),
        "quietSeconds": "0",
        "waitFiles": str(wait),
        "columns": "connection,correlationId,_error",
        "ports": ",".join(map(str, ports)),
    }
    reader = KafkaCaptureStreamReader(
        parse_capture_options(capture_settings | ({"maxFilesPerTrigger": str(most)} if most else {}))
    )
    rows, start = [], reader.initialOffset()
    for number in range(len(pieces) + wait):
        (tmp_path / f"trace.{number}.pcap").write_bytes(pieces[number] if number < len(pieces) else pieces[0][:24])
        end = reader.latestOffset(start)
        for partition in reader.partitions(start, end):
            assert len(partition.value.files) <= 1 + wait + 1
            batches = list(read_traffic(partition.value.files, partition.value.options))
            rows += [row for batch in batches for row in batch.to_pylist()]
        start = end
    whole = plain(SHARE, columns=("connection", "correlationId", "_error"))
    assert Counter((row["correlationId"], row["_error"]) for row in rows) == Counter(
        (row["correlationId"], row["_error"]) for row in whole
    )


@pytest.mark.spark
def test_a_growing_directory_has_every_call_once(spark, tmp_path):
    """Capture files are added one after the other. Connections and frames cross the boundaries between files."""
    whole = read_capture(str(SHARE), CaptureOptions(table="packets")).read_all()
    assert whole.num_rows
    data = _unpack(SHARE)
    pieces = _split_pcap(data, 4)
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    stream = spark.readStream.format("kafka-capture").option("quietSeconds", 0).load(str(source))
    for number, piece in enumerate(pieces):
        (source / f"trace.{number}.pcap").write_bytes(piece)
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out))
        )
        assert query.awaitTermination(240)
        assert query.exception() is None
    rows = [row.asDict() for row in spark.read.parquet(str(out)).collect()]
    answered_calls = [row for row in plain(SHARE) if row["_error"] is None]
    key = ("clientPort", "correlationId", "apiName")
    found_calls = sorted(str([row[name] for name in key]) for row in rows if row["_error"] is None)
    assert found_calls == sorted(str([row[name] for name in key]) for row in answered_calls)
    shutil.rmtree(source)


def _unpack(path):
    from kafkaframes.capture.files import open_bytes

    with open_bytes(str(path)) as file:
        return file.read()


def _split_pcap(data, count):
    """Split a pcap file into several, between packets, wherever frames are."""
    edges, at = [24], 24
    while at < len(data):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        edges.append(at)
    steps = [edges[len(edges) * number // count] for number in range(count)] + [len(data)]
    return [data[:24] + data[a:b] for a, b in zip([24, *steps[1:-1]], steps[1:], strict=True)]


@pytest.mark.spark
@pytest.mark.parametrize("tasks", [1, 3])
def test_mode_failfast_fails_the_query_with_the_unread_data(spark, tasks):
    frame = spark.read.format("kafka-capture").option("minPartitions", tasks)
    assert frame.load(str(LOSS)).count() == len(plain(LOSS))
    with pytest.raises(Exception, match="packets are missing"):
        frame.option("mode", "FAILFAST").load(str(LOSS)).collect()
    assert frame.option("mode", "FAILFAST").load(str(SHARE)).count() == len(plain(SHARE))


def test_unread_data_is_logged_by_its_task(caplog):
    from pyspark.sql.datasource import InputPartition

    from kafkaframes.scan.capture import plan_connection_shares
    from kafkaframes.spark.sources.kafka_capture import KafkaCaptureReader

    options = parse_capture_options({"path": str(LOSS), "minPartitions": "3"})
    reader = KafkaCaptureReader(options)
    for work in plan_connection_shares(options.files(), options, cores=1):
        list(reader.read(InputPartition(work)))
    loss_messages = [record.getMessage() for record in caplog.records if "packets are missing" in record.getMessage()]
    assert sum(int(line.split()[0].replace(",", "")) for line in loss_messages) == 2427
