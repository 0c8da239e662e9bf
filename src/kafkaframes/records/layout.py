"""The position of each field of a batch header, as tables. No other file contains these numbers.

All integers are big-endian. Offset, size and magic have the same position in all three formats, so any log can be split
into batches before its format is known. A batch has 12 bytes and then ``size`` more.

``BATCH_COLUMNS`` are the columns that a header-only scan returns for each batch; ``COLUMN_INDEX`` has the row of each
column in the scan's table. The numbers are compiled into the kernels, so their cache also depends on this file
(``wire/_jit.py``).
"""

from __future__ import annotations

import struct
from typing import NamedTuple


class HeaderField(NamedTuple):
    """One integer of a header: its name, its ``struct`` format, and a note about its meaning."""

    name: str
    format: str
    note: str = ""


class HeaderLayout:
    """The layout of a header: its fields in order, without gaps.

    >>> BATCH_V2.position_of("crc"), BATCH_V2.end_of("crc"), BATCH_V2.size
    (17, 21, 61)
    """

    def __init__(self, *fields: HeaderField) -> None:
        self.fields = fields
        self._bounds: dict[str, tuple[int, int]] = {}
        position = 0
        for field in fields:
            end = position + struct.calcsize(">" + field.format)
            self._bounds[field.name] = position, end
            position = end
        self.size = position

    def position_of(self, name: str) -> int:
        """Return the position of a field in bytes, from the start of the batch."""
        return self._bounds[name][0]

    def end_of(self, name: str) -> int:
        """Return the position after a field, in bytes from the start of the batch."""
        return self._bounds[name][1]


_OVERHEAD_FIELDS = (
    HeaderField("offset", "q", "outside every CRC, so that a broker can assign offsets (KIP-31)"),
    HeaderField("size", "i", "bytes after this field"),
)

# One message of a message set; the key's length comes next.
MESSAGE_V0 = HeaderLayout(
    *_OVERHEAD_FIELDS,
    HeaderField("crc", "I", "CRC-32 of the bytes after this field"),
    HeaderField("magic", "b"),
    HeaderField("attributes", "b", "bits 0-2 codec"),
)
MESSAGE_V1 = HeaderLayout(
    *MESSAGE_V0.fields,
    HeaderField("timestamp", "q", "milliseconds; -1 means no timestamp (KIP-32)"),
)
# Magic 2 (KIP-98).
BATCH_V2 = HeaderLayout(
    *_OVERHEAD_FIELDS,
    HeaderField("leader_epoch", "i", "set by the broker; outside the CRC"),
    HeaderField("magic", "b", "outside the CRC"),
    HeaderField("crc", "I", "CRC-32C of the bytes after this field"),
    HeaderField("attributes", "h", "bits 0-2 codec, then the flags below; bits 7-15 are ignored"),
    HeaderField("last_offset_delta", "i"),
    HeaderField("base_timestamp", "q", "the delete horizon if that flag is set (KIP-534)"),
    HeaderField("max_timestamp", "q", "every record's timestamp if the type is LogAppendTime"),
    HeaderField("producer_id", "q"),
    HeaderField("producer_epoch", "h"),
    HeaderField("base_sequence", "i"),
    HeaderField("count", "i"),
)

OVERHEAD_BYTES = MESSAGE_V0.end_of("size")  # Kafka's LOG_OVERHEAD
BYTES_TO_MAGIC = MESSAGE_V0.end_of("magic")  # Kafka's HEADER_SIZE_UP_TO_MAGIC
MIN_STATED_BATCH_BYTES = 14  # Kafka's RECORD_OVERHEAD_V0: CRC, magic, attributes and two lengths
# The smallest record of magic 2 has one byte for each of length, attributes, two deltas, two lengths and header count.
MIN_RECORD_BYTES = 7

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # codec names by number; 5, 6 and 7 are unknown to Kafka
ZSTD = CODECS.index("zstd")
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}

# A message of magic 0 or 1 has its offset in both offset columns, its timestamp in both timestamp columns, and -1 in
# the columns that it lacks.
BATCH_COLUMNS = (
    "position",
    "size",
    "magic",
    "crc",
    "attributes",
    "base_offset",
    "last_offset",
    "leader_epoch",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
COLUMN_INDEX = {name: position for position, name in enumerate(BATCH_COLUMNS)}
