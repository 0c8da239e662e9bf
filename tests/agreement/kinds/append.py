"""Kind ``append``: Kafka 3.9.1's LogValidator and its down-conversion (``vectors/records/append.jsonl.gz``)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences

from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.append import AppendSettings, down_convert, validate_and_assign
from kafkaframes.records.batch import read_batches

_CODEC_SETTINGS = {
    "target_codec": "codec",
    "target_magic": "record_format",
    "leader_epoch": "leader_epoch",
    "now": "now_ms",
}
_SETTINGS = _CODEC_SETTINGS | {
    "ts_type": "timestamp_type",
    "before_max": "before_max_ms",
    "after_max": "after_max_ms",
    "compacted": "is_compacted",
    "origin": "origin",
}
_INPUT_KEYS = {"file", "op", "offset", "first_offset", *_SETTINGS}
_LINES_PER_CASE = 100


def _yield_cases(folder: Path) -> Iterator[Case]:
    path = folder / "append.jsonl.gz"
    if not path.exists():
        return
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            place = folder.parent / (row["file"] + ".bin")
            yield Case(f"{row['file']} (line {number})", (str(place), row))


def _run_append(data: bytes, row: dict[str, Any]) -> dict[str, Any]:
    try:
        if row["op"] == "down":
            result = down_convert(data, row["target_magic"], first_offset=row["first_offset"])
            return {"converted": result.converted, "out": result.records}
        settings = {"now_ms": 1_700_000_000_000} | {_SETTINGS[key]: row[key] for key in row if key in _SETTINGS}
        append_result = validate_and_assign(data, row["offset"], AppendSettings(**settings))
    except AppendRefusedError as error:
        row_found: dict[str, Any] = {"error": error.exception}
        if error.valid_bytes is not None:
            row_found["valid_bytes"] = error.valid_bytes
        if error.record_errors:
            row_found["record_errors"] = [record.batch_index for record in error.record_errors]
        return row_found
    return {
        "valid_bytes": append_result.valid_bytes,
        "next": append_result.next_offset,
        "in_place": append_result.in_place,
        "max_timestamp": append_result.max_timestamp,
        "size_maybe_changed": not append_result.in_place,
        "converted": append_result.converted,
        "append_time": append_result.append_time_ms,
        "out": append_result.records,
    }


def _expected_row(row: dict[str, Any]) -> dict[str, Any]:
    truth = {key: value for key, value in row.items() if key not in _INPUT_KEYS}
    if "error" in truth:
        truth["error"] = truth["error"].partition(":")[0]
    if "record_errors" in truth:
        truth["record_errors"] = [index for index, _ in truth["record_errors"]]
    if "out" in truth:
        truth["out"] = bytes.fromhex(truth["out"])
    return truth


def _describe_batches(data: bytes) -> list[Any]:
    """Describe rebuilt compressed sets by records, without sizes, CRCs and positions, which depend on the codec."""
    walk = read_batches(data)
    batches = [
        {name: getattr(batch, name) for name in batch.__slots__ if name not in ("position", "size", "crc")}
        for batch in walk
    ]
    return [*batches, walk.end.status if walk.end else None]


def _yield_disagreements(case: Case) -> Iterator[str]:
    path, row = case.payload
    truth, actual_row = _expected_row(row), _run_append(Path(path).read_bytes(), row)
    rebuilt = actual_row.get("in_place") is False or (row["op"] == "down" and "out" in actual_row)
    if rebuilt and "out" in truth and truth["out"] != actual_row["out"]:
        truth["out"], actual_row["out"] = _describe_batches(truth["out"]), _describe_batches(actual_row["out"])
        if not any(batch["codec"] not in ("none", None) for batch in truth["out"][:-1]):
            yield "out: rebuilt without compression, but with other bytes"
    yield from differences(truth, actual_row)


KIND = Kind("append", ("records",), _yield_cases, _yield_disagreements)
