"""Batches as other clients write them, each codec: read by the short way, and as the long way reads them."""

from pathlib import Path

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.records.batch import read_batches
from kafkaframes.records.fused import FusedReader

SAMPLES = sorted((Path(__file__).parents[1] / "data" / "producers").glob("*.log"))
PLAIN = next(path for path in SAMPLES if path.stem == "librdkafka-none")


def rows_of(raw):
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for batch in read_batches(raw)
        for record in batch.records
    ]


def test_there_is_a_sample_of_each_client():
    clients = {path.stem.rpartition("-")[0] for path in SAMPLES}
    assert clients == {"franz-go", "java", "kafkajs", "librdkafka", "rskafka", "sarama"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_client_s_batches_take_the_short_way(path, monkeypatch):
    raw = path.read_bytes()
    expected_rows = rows_of(raw)

    def careful(*_):
        raise AssertionError("a batch was odd")

    monkeypatch.setattr(FusedReader, "_decompress_general", careful)
    table = pa.Table.from_batches(kafkaframes.read_records(raw))
    columns = [table[name].to_pylist() for name in ("offset", "key", "value")]
    assert [*zip(*columns, strict=True)] == [(offset, key, value) for offset, _, key, value, _ in expected_rows]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [10**12] * len(expected_rows)
    assert table["headers"].to_pylist() == [[]] * len(expected_rows)
    assert expected_rows[:120] == rows_of(PLAIN.read_bytes())
    assert [row[2] for row in expected_rows] == [b"k%d" % number for number in range(len(expected_rows))]
    codecs = kafkaframes.read_records(raw, columns=["codec"]).read_all()["codec"].cast(pa.string())
    assert set(codecs.to_pylist()) == {path.stem.rpartition("-")[2]}
