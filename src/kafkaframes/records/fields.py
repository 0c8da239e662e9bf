"""What a writer says in the header of a batch, and which of it a format can say."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records import layout
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import CONTROL, DELETE_HORIZON, TRANSACTIONAL

CREATE_TIME, LOG_APPEND_TIME = 0, 1
TIMESTAMP_TYPE_BIT = layout.LOG_APPEND_TIME
LARGEST_INT32 = 2**31 - 1
NO_SEQUENCE = -1


class BatchFields(NamedTuple):
    """What the header of a batch says beside its records; ``None`` means: as the records have it.

    Formats 0 and 1 have none of it but ``timestamp_type`` and, on a wrapper, ``last_offset`` and ``max_timestamp``.
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
        """Return the attributes of a format 2 batch."""
        value = codec
        for said, bit in (
            (self.timestamp_type == LOG_APPEND_TIME, TIMESTAMP_TYPE_BIT),
            (self.transactional, TRANSACTIONAL),
            (self.control, CONTROL),
            (self.delete_horizon_ms is not None, DELETE_HORIZON),
        ):
            value |= bit if said else 0
        return value


PLAIN = BatchFields()


def check_options(magic: int, codec: Codec, fields: BatchFields, batch_bytes: int, batch_records: int | None) -> None:
    """Refuse what a format cannot say.

    Raises:
        OptionError, EncodeError: name the option.
    """
    if magic not in (0, 1, 2):
        raise OptionError(f"no record format {magic!r}; there are 0, 1 and 2")
    if codec is Codec.ZSTD and magic < 2:
        raise EncodeError(f"zstd needs format 2, not {magic}").within("codec")
    if batch_bytes < 1 or (batch_records is not None and batch_records < 1):
        raise OptionError("batch_bytes and batch_records are at least 1")
    if fields.control and codec is not Codec.NONE:
        raise OptionError("control batches are not compressed")
    if magic == 0 and fields.timestamp_type != CREATE_TIME:
        raise OptionError("format 0 has no timestamps, so no LogAppendTime")
    if magic < 2:
        _check_old(magic, fields)
    else:
        _check_ranges(fields)


def _check_old(magic: int, fields: BatchFields) -> None:
    for name, default in _ONLY_IN_V2.items():
        if getattr(fields, name) != default:
            raise OptionError(f"{name} needs format 2, not {magic}")


_IN_EVERY_FORMAT = ("timestamp_type", "last_offset", "max_timestamp")
_ONLY_IN_V2 = {name: value for name, value in PLAIN._asdict().items() if name not in _IN_EVERY_FORMAT}
_RANGES = {
    "leader_epoch": (-(2**31), LARGEST_INT32),
    "producer_id": (-(2**63), 2**63 - 1),
    "producer_epoch": (-(2**15), 2**15 - 1),
    "base_sequence": (NO_SEQUENCE, LARGEST_INT32),
    "delete_horizon_ms": (0, 2**63 - 1),
}


def _check_ranges(fields: BatchFields) -> None:
    for name, (lowest, highest) in _RANGES.items():
        value = getattr(fields, name)
        if value is not None and not lowest <= value <= highest:
            raise OptionError(f"{name} is {lowest} to {highest}, not {value}")
