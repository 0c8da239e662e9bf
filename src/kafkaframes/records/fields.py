"""The fields that a writer sets in a batch header, the formats that support them, and the content of control records.

Keys and values of control records: KIP-98, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import CorruptRecordError, EncodeError, OptionError
from kafkaframes.records import layout
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kafkaframes.wire.integers import MAX_INT16, MAX_INT32, MAX_INT64, MIN_INT16, MIN_INT32, MIN_INT64

CREATE_TIME, LOG_APPEND_TIME = 0, 1
TIMESTAMP_TYPE_BIT = layout.LOG_APPEND_TIME
NO_SEQUENCE = NO_TIMESTAMP = NO_PRODUCER_ID = -1


class BatchFields(NamedTuple):
    """The fields of a batch header that a writer can set. A field that is ``None`` is computed from the records.

    Formats 0 and 1 have only ``timestamp_type`` and, in a wrapper, ``last_offset`` and ``max_timestamp``.
    """

    timestamp_type: int = CREATE_TIME
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int | None = None
    base_offset: int | None = None
    last_offset: int | None = None
    max_timestamp: int | None = None

    def attributes(self, codec: int) -> int:
        """Return the attribute bits of a format 2 batch."""
        value = codec
        for is_set, bit in (
            (self.timestamp_type == LOG_APPEND_TIME, TIMESTAMP_TYPE_BIT),
            (self.transactional, TRANSACTIONAL),
            (self.control, CONTROL),
            (self.delete_horizon_ms is not None, DELETE_HORIZON),
        ):
            value |= bit if is_set else 0
        return value


DEFAULT_FIELDS = BatchFields()


def check_options(magic: int, codec: Codec, fields: BatchFields, batch_bytes: int, batch_records: int | None) -> None:
    """Reject options that a format does not support.

    Raises:
        OptionError, EncodeError: an option is invalid; the message names it.
    """
    if magic not in (0, 1, 2):
        raise OptionError(f"unknown record format {magic!r}; expected 0, 1 or 2")
    if codec is Codec.ZSTD and magic < 2:
        raise EncodeError(f"zstd requires format 2, not {magic}").within("codec")
    if batch_bytes < 1 or (batch_records is not None and batch_records < 1):
        raise OptionError("batch_bytes and batch_records must be at least 1")
    if fields.control and codec is not Codec.NONE:
        raise OptionError(f"control batches cannot be compressed; expected codec none, not {codec.name.lower()}")
    if magic == 0 and fields.timestamp_type != CREATE_TIME:
        raise OptionError("format 0 has no timestamps; LogAppendTime needs format 1 or 2")
    if magic < 2:
        _check_legacy_fields(magic, fields)
    else:
        _check_ranges(fields)


def _check_legacy_fields(magic: int, fields: BatchFields) -> None:
    for name, default in _V2_FIELD_DEFAULTS.items():
        if getattr(fields, name) != default:
            raise OptionError(f"{name} needs format 2, not {magic}")


_FIELDS_OF_ALL_FORMATS = ("timestamp_type", "last_offset", "max_timestamp")
_V2_FIELD_DEFAULTS = {
    name: value for name, value in DEFAULT_FIELDS._asdict().items() if name not in _FIELDS_OF_ALL_FORMATS
}
_FIELD_RANGES = {
    "leader_epoch": (MIN_INT32, MAX_INT32),
    "producer_id": (MIN_INT64, MAX_INT64),
    "producer_epoch": (MIN_INT16, MAX_INT16),
    "base_sequence": (NO_SEQUENCE, MAX_INT32),
    "delete_horizon_ms": (0, MAX_INT64),
}


def _check_ranges(fields: BatchFields) -> None:
    for name, (lowest, highest) in _FIELD_RANGES.items():
        value = getattr(fields, name)
        if value is not None and not lowest <= value <= highest:
            raise OptionError(f"{name} is {value}; expected {lowest} to {highest}")


CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
END_MARKER_TYPES = frozenset({"ABORT", "COMMIT"})
_CONTROL_KEY_BYTES = 4  # version int16, type int16
_MARKER_BYTES = 6  # version int16, coordinator epoch int32


def parse_control_type(key: bytes | None) -> str:
    """Return the type of a control record; ``UNKNOWN`` if it is not defined yet (``ControlRecordType.parse``).

    >>> parse_control_type(bytes.fromhex("00000001"))
    'COMMIT'

    Raises:
        CorruptRecordError: the key is too short or its version is negative.
    """
    if key is None or len(key) < _CONTROL_KEY_BYTES:
        raise CorruptRecordError("the key of a control record is shorter than 4 bytes")
    if key[0] & 0x80:
        raise CorruptRecordError("the version of a control record is negative")
    number = int.from_bytes(key[2:4], "big", signed=True)
    return CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else "UNKNOWN"


def parse_coordinator_epoch(value: bytes | None) -> int:
    """Return the epoch of the transaction coordinator that ended the transaction, from a marker's value.

    Raises:
        CorruptRecordError: the value is too short or its version is negative.
    """
    if value is None or len(value) < _MARKER_BYTES:
        raise CorruptRecordError("the value of a transaction marker is shorter than 6 bytes")
    if value[0] & 0x80:
        raise CorruptRecordError("the version of a transaction marker is negative")
    return int.from_bytes(value[2:6], "big", signed=True)
