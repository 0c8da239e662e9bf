"""Captures and request logs alike, as one table of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa

from kafkaframes.capture.files import LOG_NAME, open_bytes
from kafkaframes.capture.reader import CaptureBatches, CaptureOptions
from kafkaframes.capture.request_log import MARK, log_rows
from kafkaframes.capture.request_log_bodies import typed_columns
from kafkaframes.capture.tables import batch_of
from kafkaframes.capture.typed import ApiTypes
from kafkaframes.errors import OptionError

_ROWS = 4096
_PEEK = 1 << 16


def is_request_log(path: str) -> bool:
    """Tell whether a file is a broker's request log: by what is in it, or by its name where nothing is in it."""
    with open_bytes(path) as file:
        head = file.read(_PEEK)
    return MARK.encode() in head or (not head.strip() and bool(LOG_NAME.search(path))) or _is_text(head)


def _is_text(head: bytes) -> bool:
    return head[:1] in (b"[", b"{") or head[:4].isdigit()


def read_traffic(files: Sequence[str], options: CaptureOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, captures before request logs.

    Raises:
        OptionError: a table is asked for that a request log does not have.
        DecodeError: a file is neither.
    """
    logs = [path for path in files if is_request_log(path)]
    others = set(logs)
    captures = [path for path in files if path not in others]
    if captures:
        yield from CaptureBatches(captures, options)
    if logs and options.table != "calls":
        if captures:
            return
        raise OptionError(f"{logs[0]}: table={options.table} is for captures; a request log has calls")
    new = set(files[options.lead_files or 0 :])  # a line of a log needs no other file
    for path in [path for path in logs if path in new][options.share :: options.shares]:
        yield from _log_batches(path, options)


def _log_batches(path: str, options: CaptureOptions) -> Iterator[pa.RecordBatch]:
    types = options.types()
    if types is not None:
        yield from _typed_batches(path, options, types)
        return
    rows = log_rows(path, secrets=options.secrets, apis=options.apis)
    while some := list(islice(rows, _ROWS)):
        yield batch_of(some, options.chosen())


def _typed_batches(path: str, options: CaptureOptions, types: ApiTypes) -> Iterator[pa.RecordBatch]:
    """Yield the calls of one API with their bodies as structs, which are made from the log's JSON."""
    rows = (row for row in log_rows(path, secrets=True, apis=options.apis) if row["apiKey"] == types.api_key)
    while some := list(islice(rows, _ROWS)):
        made = typed_columns(some, types)
        yield batch_of(some, options.chosen(), made)
