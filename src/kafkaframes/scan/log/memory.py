"""Records and batches of bytes in memory, and the batches of segments: what has no plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from kafkaframes.records.columns import ReadError, ReadOptions, RecordReader
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES
from kafkaframes.records.makers import batches_table
from kafkaframes.records.scan import FILE, MEMORY, Memory, as_array
from kafkaframes.scan.rows import RecordBatches, known_columns
from kafkaframes.storage.files.filesystem import KEY_FILES
from kafkaframes.storage.files.names import printable
from kafkaframes.storage.log.discover import object_view
from kafkaframes.storage.log.open_segment import open_planned

IN_MEMORY: Final = (bytes, bytearray, memoryview)
Bytes = bytes | bytearray | memoryview


def read_bytes(
    source: Bytes,
    columns: Sequence[str],
    *,
    on_damage: str,
    verify_crc: bool,
    control_records: bool,
    offsets: tuple[int | None, int | None],
    limit_bytes: int | None,
    budget_bytes: int | None,
) -> RecordBatches:
    """Read bytes as ``kafkaframes.read_records`` says."""
    options = ReadOptions(
        columns=known_columns(columns, origin=()) or ("offset",),
        on_damage=on_damage,
        verify_crc=verify_crc,
        rules=MEMORY,
        control_records=control_records,
        first_offset=offsets[0],
        end_offset=offsets[1],
        limit_bytes=DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes,
        budget_bytes=budget_bytes,
    ).checked()
    errors: list[ReadError] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield from RecordReader(Memory(as_array(source)), options, errors=errors)

    return RecordBatches(batches(), options.schema, errors)


def read_batches(source: Bytes | Sequence[str], *, key_files: Sequence[str] = ()) -> pa.Table:
    """Read as ``kafkaframes.read_batches`` says; files by their paths."""
    if isinstance(source, IN_MEMORY):
        return batches_table(Memory(as_array(source)), rules=MEMORY)
    tables, storage = [], dict[str, Any]({KEY_FILES: tuple(key_files)})
    for path in (object_view(path, options=storage) for path in source):
        with open_planned(path, options=storage) as segment:
            table = batches_table(segment.source, rules=FILE)
            damage = segment.take_damage()
        if damage is not None:
            raise damage
        tables.append(table.add_column(0, "file", pa.array([printable(path)] * table.num_rows, pa.string())))
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(table.replace_schema_metadata(None) for table in tables)
