"""Records of Kafka's own topics, decoded: ``kafka-log`` with ``decode=internal``. No pyspark.

The records are read as always; then type, version, key and value of each are made from its bytes, one Python object a
record: these topics are small beside the data. A record that cannot be decoded is a row with ``error`` in mode
PERMISSIVE, left out in DROPMALFORMED, an error in FAILFAST.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from kafkaframes.errors import CorruptRecordError
from kafkaframes.scan.arrow import ARROW_TYPES, arrow_schema
from kafkaframes.scan.columns import DECODED, Column, choose_columns
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Slice
from kafkaframes.scan.log.reading import read_work
from kafkaframes.storage.log.internal_topics import InternalRecord, open_control_record, open_record

_NEEDED = ("topic", "partition", "offset", "control", "key", "value")


def read_internal_work(
    work: Iterable[Slice], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the slices, in order and decoded.

    Raises:
        CorruptRecordError: damage, or a record that cannot be decoded, in mode FAILFAST.
        LogDirError: a segment cannot be read.
    """
    plain = [column.name for column in columns if column.name not in (*DECODED, *_NEEDED)]
    for batch in read_work(work, choose_columns((*plain, *_NEEDED)), options):
        yield _decoded(batch, columns, options.mode)


def _decoded(batch: pa.RecordBatch, columns: Sequence[Column], mode: str) -> pa.RecordBatch:
    opened = [_open(*row) for row in zip(*(batch.column(name).to_pylist() for name in _NEEDED), strict=True)]
    if mode == "FAILFAST":
        _refuse(batch, opened)
    if mode == "DROPMALFORMED":
        whole = [one.error is None for one in opened]
        batch = batch.filter(pa.array(whole, pa.bool_()))
        opened = [one for one in opened if one.error is None]
    made = dict(zip(DECODED, zip(*opened, strict=True), strict=True)) if opened else dict.fromkeys(DECODED, ())
    arrays = [
        pa.array(made[column.name], ARROW_TYPES[column.type]) if column.name in made else batch.column(column.name)
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _open(
    topic: str, _partition: int, _offset: int, control: bool, key: bytes | None, value: bytes | None
) -> InternalRecord:
    return open_control_record(key, value) if control else open_record(topic, key, value)


def _refuse(batch: pa.RecordBatch, opened: Sequence[InternalRecord]) -> None:
    for row, entry in enumerate(opened):
        if entry.error is not None:
            topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
            raise CorruptRecordError(f"{topic}-{partition}, offset {offset}: {entry.error}")
