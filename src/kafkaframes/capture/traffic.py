"""Captures and request logs alike, as one table of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from kafkaframes.capture.reader import CaptureBatches, CaptureOptions

_LOG_STARTS: Final = (b"[", b"{")


def read_traffic(files: Sequence[str], options: CaptureOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, captures before request logs."""
    if files:
        yield from CaptureBatches(files, options)
