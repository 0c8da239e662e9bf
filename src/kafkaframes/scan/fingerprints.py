"""Compute fingerprints of records. A later run uses them to recognize the log that an earlier run has read.

An end offset does not identify a log. A topic may have been deleted and created again under the same name. A log that
was truncated grows again with other records at the same offsets. A run therefore stores fingerprints of the last
records that it has read. The next run compares these fingerprints with the records that the log has at the same
offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors.words import count_text

MAX_FINGERPRINTS: Final = 3  # largest number for each topic partition; compaction may have removed the records of some
FINGERPRINT_COLUMNS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "control")
_DIGEST_LENGTH: Final = 16  # hexadecimal digits in the digest of a record


class Fingerprint(NamedTuple):
    """The fingerprint of a record.

    Attributes:
        offset: offset of the record.
        timestamp: timestamp in milliseconds since 1970; None if the record has none.
        key_size: size of the key in bytes; None if the key is null.
        value_size: size of the value in bytes; None if the value is null.
        digest: digest of key, value and headers, in hexadecimal.
    """

    offset: int
    timestamp: int | None
    key_size: int | None
    value_size: int | None
    digest: str

    def __str__(self) -> str:
        time = "no timestamp" if self.timestamp is None else f"timestamp {self.timestamp}"
        return f"{time}, key {_size_text(self.key_size)}, value {_size_text(self.value_size)}, digest {self.digest}"


def _size_text(size: int | None) -> str:
    return "null" if size is None else f"of {count_text(size, 'byte')}"


def fingerprint_last_rows(batch: pa.RecordBatch, selected: npt.NDArray[np.bool_]) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of the last selected rows of a batch.

    Args:
        batch: rows with ``FINGERPRINT_COLUMNS``, in offset order.
        selected: a flag for each row.
    """
    return fingerprint_rows(batch, np.flatnonzero(selected)[-MAX_FINGERPRINTS:])


def fingerprint_rows(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of rows, selected by their indexes in a batch."""
    selected_rows = batch.take(pa.array(rows))
    times = selected_rows.column("timestamp").view(pa.int64()).to_pylist()
    names = ("offset", "timestamp_type", "key", "value", "headers")
    columns = (selected_rows.column(name).to_pylist() for name in names)
    return tuple(
        Fingerprint(
            offset, time if kind >= 0 else None, _size(key), _size(value), _digest_record(key, value, headers or ())
        )
        for time, offset, kind, key, value, headers in zip(times, *columns, strict=True)
    )


def create_collector(
    expected_fingerprints: Sequence[Fingerprint], result: dict[int, Fingerprint]
) -> Callable[[pa.RecordBatch], None]:
    """Return a function that adds the fingerprints of a batch's records at the expected offsets to ``result``."""
    offsets = np.array([fingerprint.offset for fingerprint in expected_fingerprints], np.int64)

    def collect_fingerprints(batch: pa.RecordBatch) -> None:
        """Add the fingerprints of the batch's records at the expected offsets."""
        rows = np.isin(batch.column("offset").to_numpy(), offsets)
        rows &= ~batch.column("control").to_numpy(zero_copy_only=False)
        result.update(
            {fingerprint.offset: fingerprint for fingerprint in fingerprint_rows(batch, np.flatnonzero(rows))}
        )

    return collect_fingerprints


def find_difference(
    expected_fingerprints: Iterable[Fingerprint], actual: Mapping[int, Fingerprint]
) -> tuple[Fingerprint, Fingerprint] | None:
    """Return the first expected fingerprint that differs from the log's fingerprint at this offset, and the latter.

    Args:
        expected_fingerprints: fingerprints of an earlier run.
        actual: fingerprints of the log's records, by offset. A missing record does not count as a difference.
    """
    pairs = ((row, actual[row.offset]) for row in expected_fingerprints if row.offset in actual)
    return next(((row, log_row) for row, log_row in pairs if log_row != row), None)


def _size(value: bytes | None) -> int | None:
    return None if value is None else len(value)


def _digest_record(key: bytes | None, value: bytes | None, headers: Iterable[Mapping[str, Any]]) -> str:
    """Return a hash of a record's key, value and headers."""
    result = sha256()
    fields: list[bytes | None] = [key, value]
    for header in headers:
        name = header["key"]
        fields += [name.encode() if isinstance(name, str) else name, header["value"]]
    for field in fields:
        result.update((-1 if field is None else len(field)).to_bytes(8, "big", signed=True))
        result.update(field or b"")
    return result.hexdigest()[:_DIGEST_LENGTH]
