"""Read records and batches from bytes in memory, and batches from segment files, without a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.records.columns import ReadError, ReadOptions, RecordReader
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES
from kafkaframes.records.makers import read_batches_table
from kafkaframes.records.scan import FILE, MEMORY, MemorySource, as_array
from kafkaframes.scan.ranges import NO_END, Bound, check_batch_start, get_common_offset, get_common_time
from kafkaframes.scan.rows import RecordBatches, check_origin_columns, find_offset_at_time
from kafkaframes.scan.selection import Selection
from kafkaframes.storage.files.filesystem import KEY_FILES_OPTION
from kafkaframes.storage.files.names import escape_unprintable
from kafkaframes.storage.log.discover import to_view_path
from kafkaframes.storage.log.open_segment import open_planned_segment

BYTES_TYPES: Final = (bytes, bytearray, memoryview)
Bytes = bytes | bytearray | memoryview


def read_bytes(
    source: Bytes,
    columns: Sequence[str],
    selection: Selection,
    *,
    verify_crc: bool,
    limit_bytes: int | None,
    budget_bytes: int | None,
) -> RecordBatches:
    """Return the records in the bytes of a segment, as ``kafkaframes.read_records`` does.

    Raises:
        OptionError: The selection has topics, partitions or ``read_committed``, which are not available for bytes.
    """
    options = ReadOptions(
        columns=check_origin_columns(columns, origin=()) or ("offset",),
        on_damage=selection.on_damage,
        verify_crc=verify_crc,
        rules=MEMORY,
        control_records=selection.control_records,
        limit_bytes=DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes,
        budget_bytes=budget_bytes,
    ).validate()
    for setting, value in (("topics", selection.topic_names), ("partitions", selection.partition_numbers)):
        if value:
            raise OptionError(f"`{setting}` only applies to directories; bytes have no topic and no partition")
    if selection.isolation == "read_committed":
        raise OptionError("isolation=read_committed needs whole logs: specify directories instead of bytes")
    start, end = selection.log_range
    check_batch_start(start)
    options = options._replace(
        first_offset=_convert_bound("start", start, source), end_offset=_convert_bound("end", end, source)
    )
    errors: list[ReadError] = []

    def iterate_batches() -> Iterator[pa.RecordBatch]:
        yield from RecordReader(MemorySource(as_array(source)), options, errors=errors)

    return RecordBatches(iterate_batches(), options.schema, errors)


def _convert_bound(setting: str, limit: Bound, source: Bytes) -> int | None:
    """Convert the start or end of a read of bytes to an offset; None if no record is excluded."""
    if isinstance(limit, int):
        return get_common_offset(limit)
    time_ms = get_common_time(limit)
    if time_ms is None:
        raise OptionError(f"`{setting}` is one offset or one time for bytes, not one for each partition")
    offset = find_offset_at_time(MemorySource(as_array(source)), time_ms, rules=MEMORY)
    return NO_END if offset is None and setting == "start" else offset


def read_batches(source: Bytes | Sequence[str], *, key_files: Sequence[str] = ()) -> pa.Table:
    """Return the batches in bytes, or in the files at paths, as ``kafkaframes.read_batches`` does."""
    if isinstance(source, BYTES_TYPES):
        return read_batches_table(MemorySource(as_array(source)), rules=MEMORY)
    tables, storage = [], dict[str, Any]({KEY_FILES_OPTION: tuple(key_files)})
    for path in (to_view_path(path, options=storage) for path in source):
        with open_planned_segment(path, options=storage) as segment:
            table = read_batches_table(segment.source, rules=FILE)
            damage = segment.take_damage()
        if damage is not None:
            raise damage
        tables.append(table.add_column(0, "file", pa.array([escape_unprintable(path)] * table.num_rows, pa.string())))
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(table.replace_schema_metadata(None) for table in tables)
