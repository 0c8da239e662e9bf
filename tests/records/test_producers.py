"""Batches of other clients, with each codec: the fast path reads them, with the same rows as the general path."""

from pathlib import Path

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.records.batch import read_batches
from kafkaframes.records.fused import FusedReader

SAMPLES = sorted((Path(__file__).parents[1] / "data" / "producers").glob("*.log"))
UNCOMPRESSED_SAMPLE = next(path for path in SAMPLES if path.stem == "librdkafka-none")


def list_rows(raw):
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for batch in read_batches(raw)
        for record in batch.records
    ]


def test_each_client_has_a_sample():
    clients = {path.stem.rpartition("-")[0] for path in SAMPLES}
    assert clients == {"franz-go", "java", "kafkajs", "librdkafka", "rskafka", "sarama"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_batches_of_other_clients_take_the_fast_path(path, monkeypatch):
    raw = path.read_bytes()
    expected_rows = list_rows(raw)

    def careful(*_):
        raise AssertionError("a batch did not take the fast path")

    monkeypatch.setattr(FusedReader, "_decompress_general", careful)
    table = pa.Table.from_batches(kafkaframes.read_records(raw))
    columns = [table[name].to_pylist() for name in ("offset", "key", "value")]
    assert [*zip(*columns, strict=True)] == [(offset, key, value) for offset, _, key, value, _ in expected_rows]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [10**12] * len(expected_rows)
    assert table["headers"].to_pylist() == [[]] * len(expected_rows)
    assert expected_rows[:120] == list_rows(UNCOMPRESSED_SAMPLE.read_bytes())
    assert [row[2] for row in expected_rows] == [b"k%d" % number for number in range(len(expected_rows))]
    codecs = kafkaframes.read_records(raw, columns=["codec"]).read_all()["codec"].cast(pa.string())
    assert set(codecs.to_pylist()) == {path.stem.rpartition("-")[2]}
