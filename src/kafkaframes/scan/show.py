"""How scans look in notebooks: a description as HTML, and a progress bar while rows are gathered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from typing import Any

import pyarrow as pa

from kafkaframes.scan.running import Running
from kafkaframes.scan.slices import Rows


def scan_html(scan: Rows) -> str:
    """Return a scan as HTML: what it reads, and a table of its columns. Nothing is read for it."""
    rows = "".join(f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>" for field in scan.schema)
    head = "<tr><th>column</th><th>type</th></tr>"
    return f"<div>{escape(repr(scan))}</div><table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def watched(batches: Iterator[pa.RecordBatch], running: Running, label: str) -> Iterator[pa.RecordBatch]:
    """Yield batches; in a notebook, with a bar of the bytes that are read, where the library tqdm is there."""
    bar = _bar(label) if _is_notebook() else None
    if bar is None:
        yield from batches
        return
    with bar:
        for batch in batches:
            bar.total = running.total_bytes or None
            bar.update(running.done_bytes - bar.n)
            yield batch
        bar.update(running.done_bytes - bar.n)


def _is_notebook() -> bool:
    """Say whether this is the kernel of a notebook: a terminal has no use for what it shows."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _bar(label: str) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=label, unit="B", unit_scale=True)
