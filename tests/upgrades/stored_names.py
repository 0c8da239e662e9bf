"""The names that destinations and brokers store: keys of their JSON files, of table properties and of Parquet files.

``python -m tests.upgrades.read_stored_names`` writes the list in ``docs/contributing.md`` again.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.upgrades.states import unpack_states

import kafkaframes
from kafkaframes.broker import Broker

PAGE = Path(__file__).parents[2] / "docs" / "contributing.md"
START, END = "<!-- stored names -->", "<!-- end of stored names -->"
# Files that store names, by their names in the list. Keys below some names are topics, codecs, reasons or settings.
FILES_BY_DESCRIPTION = {
    "an export's _kafkaframes/export.json": "_kafkaframes/export.json",
    "an export's journal, _kafkaframes/journal/*.jsonl": "_kafkaframes/journal/*.jsonl",
    "an export's _kafkaframes/summary.json": "_kafkaframes/summary.json",
    "commits of a table of Parquet files, _kafkaframes/commits/*.json": "_kafkaframes/commits/*.json",
    "the result of a job that writes a log, _SUCCESS": "_SUCCESS",
    "a broker's kafkaframes.broker.json": "kafkaframes.broker.json",
    "a log that a stream writes, .kafkaframes-streams": ".kafkaframes-streams",
}
PARQUET, DELTA, ICEBERG = (
    "metadata of exported Parquet files",
    "properties of Delta tables",
    "properties of Iceberg tables",
)
_FREE_KEYS = frozenset(
    (
        "added",
        "aborted",
        "client_metrics",
        "codecs",
        "configs",
        "deleting",
        "dropped",
        "entity",
        "group_configs",
        "lastRecords",
        "left_out",
        "lost",
        "node_configs",
        "offsets",
        "scram",
        "topicIds",
        "topic_ids",
        "topics",
        "values",
    )
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def yield_names(value: Any, *, is_free: bool = False) -> Iterator[str]:
    """Yield the keys of a JSON value that are names, not topics or other content."""
    if isinstance(value, list):
        for item in value:
            yield from yield_names(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not is_free and _NAME.fullmatch(key):
                yield key
            yield from yield_names(item, is_free=key in _FREE_KEYS)


def read_stored_names(root: Path) -> dict[str, set[str]]:
    """Return the names that are stored below a directory, by kind of file."""
    names: dict[str, set[str]] = defaultdict(set)
    for kind, pattern in FILES_BY_DESCRIPTION.items():
        for path in root.rglob(pattern):
            text = path.read_text()
            for line in text.splitlines() if path.suffix == ".jsonl" else [text] if text else []:
                names[kind].update(yield_names(json.loads(line)))
    for path in root.rglob("topic=*/*/*.parquet"):
        metadata = pq.ParquetFile(path).schema_arrow.metadata or {}
        names[PARQUET].update(key.decode() for key in metadata if not key.startswith((b"ARROW", b"org.apache")))
    for path in root.rglob("_delta_log/*.json"):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            properties = entry.get("metaData", {}).get("configuration", {}) | {
                key: value for key, value in entry.get("commitInfo", {}).items() if "kafkaframes" in key
            }
            names[DELTA].update(_yield_property_names(properties))
    for path in root.rglob("*iceberg*.json"):
        table = json.loads(path.read_text())
        names[ICEBERG].update(_yield_property_names(table["properties"]))
        for snapshot in table["snapshots"]:
            names[ICEBERG].update(_yield_property_names(snapshot["summary"]))
    return dict(names)


def _yield_property_names(properties: dict[str, Any]) -> Iterator[str]:
    for key, value in properties.items():
        if key.startswith("kafkaframes"):
            yield key
            yield from yield_names(json.loads(value) if isinstance(value, str) else value)


def read_earlier_names() -> dict[str, set[str]]:
    """Return the names that the earlier commit stored."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("exports", "tables", "jobs", "broker", "queries"):
            unpack_states(Path(folder, name), name)
        return read_stored_names(Path(folder))


def read_current_names() -> dict[str, set[str]]:
    """Return the names that today's code stores."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        unpack_states(root, "logs", "queries")
        log = root / "log-1"
        kafkaframes.export_log(log, root / "export")
        kafkaframes.table_log(log, root / "parquet", format="parquet")
        kafkaframes.table_log(log, root / "delta", format="delta")
        kafkaframes.table_log(log, root / "iceberg", format="iceberg")
        max((root / "iceberg").rglob("*.metadata.json")).rename(root / "iceberg.metadata.json")
        kafkaframes.convert_log(log, root / "converted", record_format=2)
        kafkaframes.compact_log(log, root / "compacted")
        kafkaframes.restore_log(log, root / "restored")
        with Broker(data_dir=root / "log-2"):
            pass
        return read_stored_names(root)


def format_list(names: dict[str, set[str]]) -> str:
    """Return the list of the page, a block of text."""
    indent = " " * 4
    lines = [
        line
        for kind in sorted(names)
        for line in (
            kind,
            *textwrap.wrap(" ".join(sorted(names[kind])), 120, initial_indent=indent, subsequent_indent=indent),
        )
    ]
    return "\n".join((START, "", "```text", *lines, "```", "", END))


def read_all_names() -> dict[str, set[str]]:
    """Return the names that today's code or the earlier commit stored."""
    earlier, current = read_earlier_names(), read_current_names()
    return {kind: earlier.get(kind, set()) | current.get(kind, set()) for kind in {**earlier, **current}}


if __name__ == "__main__":
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    PAGE.write_text(before + format_list(read_all_names()) + rest.partition(END)[2])
    sys.stdout.write(f"{PAGE}\n")
