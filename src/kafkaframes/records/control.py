"""Control records: what their keys and values say (KIP-98, KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from kafkaframes.errors import CorruptRecordError

CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
END_OF_TRANSACTION = frozenset({"ABORT", "COMMIT"})
_KEY_BYTES = 4  # version int16, type int16
_MARKER_BYTES = 6  # version int16, coordinator epoch int32


def control_type(key: bytes | None) -> str:
    """Return what a control record is, ``UNKNOWN`` for a type of the future (``ControlRecordType.parse``).

    >>> control_type(bytes.fromhex("00000001"))
    'COMMIT'

    Raises:
        CorruptRecordError: the key is too short or its version is negative.
    """
    if key is None or len(key) < _KEY_BYTES:
        raise CorruptRecordError("the key of a control record is shorter than 4 bytes")
    if key[0] & 0x80:
        raise CorruptRecordError("the version of a control record is negative")
    number = int.from_bytes(key[2:4], "big", signed=True)
    return CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else "UNKNOWN"


def coordinator_epoch(value: bytes | None) -> int:
    """Return the epoch of the transaction coordinator that wrote an ABORT or COMMIT marker.

    Raises:
        CorruptRecordError: the value is too short or its version is negative.
    """
    if value is None or len(value) < _MARKER_BYTES:
        raise CorruptRecordError("the value of a transaction marker is shorter than 6 bytes")
    if value[0] & 0x80:
        raise CorruptRecordError("the version of a transaction marker is negative")
    return int.from_bytes(value[2:6], "big", signed=True)
