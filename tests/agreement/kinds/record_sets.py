"""Kinds ``records`` and ``batches``: record sets in memory, compared with Kafka's memory iterator.

The text of an error is Kafka's own and is not compared, only whether an error exists.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences

from kafkaframes.records.batch import Batch, Record, read_batches

_MAX_LISTED_RECORDS = 6  # the reference lists only the first of `n` records
_ERROR_FIELDS = ("recErr", "hdrErr", "skipErr")


def _yield_cases(folder: Path) -> Iterator[Case]:
    """Yield a case for each file and each entry of the reference, so that one without the other is detected."""
    truth_path = folder / "expected.json"
    truth = json.loads(truth_path.read_text()) if truth_path.exists() else {}
    for name in sorted(truth.keys() | {path.stem for path in folder.glob("*.bin")}):
        yield Case(name, (folder / f"{name}.bin", truth.get(name)))


def _yield_disagreements(case: Case) -> Iterator[str]:
    path, expected_set = case.payload
    if expected_set is None:
        yield f"{path} has no reference"
        return
    if not path.exists():
        yield f"{path} is missing"
        return
    walk = read_batches(path.read_bytes())
    lenient = read_batches(path.read_bytes(), lenient=True)
    batch_pairs = list(zip(walk, lenient, strict=True))
    assert walk.end is not None
    for index, (one, pair) in enumerate(zip_longest(expected_set["batches"], batch_pairs)):
        other = None if pair is None else _describe_batch(*pair, forms=_list_shortened_records(one))
        yield from differences(_reduce_errors(one), other, f"batches[{index}]")
    rest = {key: value for key, value in expected_set.items() if key not in ("batches", "validate")}
    yield from differences(rest | {"iterErr": rest["iterErr"] is not None}, {"iterErr": walk.end.is_corrupt})


def _reduce_errors(batch: dict[str, Any] | None) -> dict[str, Any] | None:
    """Reduce an error to the fact that one exists."""
    if batch is None:
        return None
    return {key: value is not None if key in _ERROR_FIELDS else value for key, value in batch.items()}


def _list_shortened_records(batch: dict[str, Any] | None) -> list[bool]:
    """Return for each listed record whether the reference has its value by length and checksum only."""
    rows = [] if batch is None else batch["records"]
    return [str(row[3]).startswith("len") for row in rows]


def _describe_batch(batch: Batch, lenient: Batch, *, forms: list[bool]) -> dict[str, Any]:
    fields: dict[str, Any] = {"size": batch.size, "isValid": batch.valid, "magic": batch.magic}
    skipped_counts = _skip_values(batch, lenient)
    if batch.max_timestamp is None or batch.last_offset is None:
        fields["hdrErr"] = True
    else:
        fields |= {"lastOffset": batch.last_offset, "maxTimestamp": batch.max_timestamp, "tsType": batch.timestamp_type}
        fields |= {"codec": batch.codec} if batch.codec is not None else {"hdrErr": True}
    damage = batch.damage
    return fields | {
        "n": len(batch.records) if damage is None else damage.reached,
        "recErr": damage is not None,
        "records": [
            _describe_record(record, is_short=bool(is_short))
            for record, is_short in zip_longest(batch.records[:_MAX_LISTED_RECORDS], forms[: len(batch.records)])
        ],
        "skipN": skipped_counts[0],
        "skipErr": skipped_counts[1],
    }


def _skip_values(batch: Batch, lenient: Batch) -> tuple[int, bool]:
    """Return the result of the iterator that skips keys and values, which checks fewer fields, except in uncompressed
    v2 batches.
    """
    chosen_batch = batch if batch.magic >= 2 and batch.codec == "none" else lenient
    return len(chosen_batch.records), chosen_batch.damage is not None


def _describe_record(record: Record, *, is_short: bool) -> list[Any]:
    key, value = (None if raw is None else raw.hex() for raw in (record.key, record.value))
    if is_short and record.value is not None:
        value = f"len{len(record.value)}:crc{binascii.crc32(record.value)}"
    row = [record.offset, record.timestamp, key, value, len(record.headers)]
    return row if record.crc_ok is None else [*row, record.crc_ok]


RECORDS_KIND = Kind("records", ("records",), _yield_cases, _yield_disagreements)
BATCHES_KIND = Kind("batches", ("batches",), _yield_cases, _yield_disagreements)
