"""Many small sections of batches, such as a fetch brings for fifty partitions, read as one.

A reader costs some hundred microseconds to set up, more than a section of a few records costs to read. So the whole
batches of all sections are put behind each other and read once; what is told names the section that it is about.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.records.chunks import Memory
from kafkaframes.records.columns import ReadError, ReadOptions, RecordReader
from kafkaframes.records.layout import BYTES_TO_MAGIC, MESSAGE_V0, MIN_SIZE, OVERHEAD_BYTES
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import BAD_MAGIC, HUGE_SIZE, SMALL_SIZE
from kafkaframes.records.scan import MEMORY, End, Ints, as_array

_SIZE = struct.Struct(">i")
_AT_SIZE, _AT_MAGIC = MESSAGE_V0.place_of("size"), MESSAGE_V0.place_of("magic")

_HIGHEST_MAGIC, _LARGEST_SIZE = 2, 2**31 - 1 - OVERHEAD_BYTES


class SectionRecords(NamedTuple):
    """The records of sections.

    Attributes:
        table: all records, section after section.
        starts: the place in ``table`` of each section's first record; one more for the end.
        errors: section -> what was damaged in it; positions count from its first byte.
    """

    table: pa.Table
    starts: Ints
    errors: dict[int, list[ReadError]]


def read_sections(
    sections: Sequence[bytes | memoryview], options: ReadOptions | None = None, *, memory: Recycler | None = None
) -> SectionRecords:
    """Read the records of many sections as ``RecordReader`` reads each of them by the rules of Kafka's memory iterator.

    A part of a batch at the end of a section is left out, as in a fetch; what follows a batch that cannot be framed
    goes unread, and is damage.

    Args:
        sections: bytes of batches, one after the other in each.
        options: as for a reader; rules are always those for memory.
        memory: shared with other readers.

    Raises:
        CorruptRecordError: damage, in mode FAILFAST.
        OptionError: a column or the mode does not exist.
    """
    options = (options or ReadOptions())._replace(rules=MEMORY).checked()
    wholes = [_whole(section) for section in sections]
    joined = b"".join(memoryview(section)[:size] for section, (size, _) in zip(sections, wholes, strict=True))
    places: Ints = np.concatenate(([0], np.cumsum([size for size, _ in wholes]))).astype(np.int64)
    asked = options if "position" in options.columns else options._replace(columns=("position", *options.columns))
    reader = RecordReader(Memory(as_array(joined)), asked, memory=memory)
    table = pa.Table.from_batches(list(reader), reader.schema)
    positions = table["position"].to_numpy()
    starts: Ints = np.searchsorted(positions, places).astype(np.int64)
    errors: dict[int, list[ReadError]] = {}
    for error in reader.errors:
        section = int(np.searchsorted(places, error.position, side="right")) - 1
        moved = error._replace(position=error.position - int(places[section]))
        errors.setdefault(section, []).append(moved)
    for section, (size, status) in enumerate(wholes):
        if status is not None:
            error = ReadError(None, size, None, status, End(size, status).reason, 0)
            if options.mode == "FAILFAST":
                raise error.as_exception()
            errors.setdefault(section, []).append(error)
    if "position" in options.columns:
        owners = np.repeat(places[:-1], np.diff(starts))
        at = table.schema.get_field_index("position")
        table = table.set_column(at, "position", pa.array(positions - owners))
    return SectionRecords(table.select(list(options.columns)), starts, errors)


def _whole(section: bytes | memoryview) -> tuple[int, int | None]:
    """Return how many bytes of a section hold whole batches, and why the framing breaks behind them, if it does."""
    position, end = 0, len(section)
    while end - position >= OVERHEAD_BYTES:
        size: int = _SIZE.unpack_from(section, position + _AT_SIZE)[0]
        if size < MIN_SIZE:
            return position, SMALL_SIZE
        if end - position < BYTES_TO_MAGIC:
            break
        if section[position + _AT_MAGIC] > _HIGHEST_MAGIC:
            return position, BAD_MAGIC
        if size > _LARGEST_SIZE:
            return position, HUGE_SIZE
        if size > end - position - OVERHEAD_BYTES:
            break
        position += OVERHEAD_BYTES + size
    return position, None
