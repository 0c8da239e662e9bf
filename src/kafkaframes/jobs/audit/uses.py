"""Count which clients use which API versions and record formats, in captures, request logs and log directories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.capture.columns import TIMESTAMP_TYPE
from kafkaframes.capture.coverage import DAMAGED, Coverage, UnreadData
from kafkaframes.capture.reader import CaptureBatches, CaptureOptions, read_traffic, split_traffic
from kafkaframes.capture.request_log import LogReader
from kafkaframes.errors import KafkaframesError, get_reason
from kafkaframes.jobs.audit.audit import ApiUse, ClientIdentity, FormatUse, UsageSummary
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.spec.releases import Release
from kafkaframes.scan.functions import read_batches
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.swaps import swap_findings

_CALL_COLUMNS: Final = (
    "requestTime",
    "clientAddress",
    "clientId",
    "softwareName",
    "softwareVersion",
    "apiKey",
    "apiVersion",
    "connection",
    "records",
)
_USE_COLUMNS: Final = (
    "clientId",
    "clientAddress",
    "softwareName",
    "softwareVersion",
    "apiKey",
    "apiVersion",
    "atLimit",
)
_RECORD_LOCATION_BY_API_KEY: Final = {0: "produce", 1: "fetch", 78: "fetch"}  # FormatUse.where
_READ_CHUNK_BYTES: Final = 1 << 20  # bytes that are checked for zeros at once


def count_uses(
    files: Sequence[str], target: Release, uses: UsageSummary, *, ports: Sequence[int] = (), apis: ApiRegistry = CATALOG
) -> None:
    """Count the API calls in files. Unread parts of the files are added to the coverage of ``uses``.

    Raises:
        OptionError: a file cannot be opened.
        DecodeError: the only file is neither a capture nor a request log.
    """
    options = CaptureOptions(columns=_CALL_COLUMNS, ports=tuple(ports), apis=apis)
    limits = find_broker_limits(files, target, ports=ports, apis=apis)
    for batch in read_traffic(files, options, uses.coverage):
        _count_batch(batch, uses, limits)
    _, logs = split_traffic(files)
    if logs:
        uses.notes.append(
            "request logs do not have records, so record formats were not checked; a request log at level INFO only "
            f"has deprecated calls ({', '.join(logs)})"
        )


def find_broker_limits(
    files: Sequence[str], target: Release, *, ports: Sequence[int] = (), apis: ApiRegistry = CATALOG
) -> dict[tuple[str, int], int]:
    """Return the highest advertised versions by connection and API key, if the target no longer accepts them."""
    result: dict[tuple[str, int], int] = {}
    for connection, advertised_versions in _read_advertised_versions(files, ports, apis):
        for key, max_versions in advertised_versions.items():
            accepted_range = target.all_apis.get(key)
            if accepted_range is not None and max_versions < accepted_range.accepted_versions.lowest:
                result[connection, key] = max_versions
    return result


def _read_advertised_versions(
    files: Sequence[str], ports: Sequence[int], apis: ApiRegistry
) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield (connection, highest version by API key) for each ApiVersions response."""
    captures, logs = split_traffic(files)
    if captures:
        options = CaptureOptions(columns=("connection", "response"), api="ApiVersions", ports=tuple(ports), apis=apis)
        for batch in CaptureBatches(captures, options, is_alone=len(files) == 1):
            yield from _parse_advertised_ranges(batch)
    for path in logs:
        for row in LogReader(path, Coverage(), is_alone=len(files) == 1).iterate_rows():
            if row["apiKey"] == API_VERSIONS and row["response"]:
                yield row["connection"], _parse_max_versions(json.loads(row["response"]))


def _parse_advertised_ranges(batch: pa.RecordBatch) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield (connection, highest version by API key) for a batch. Identical responses are parsed once."""
    versions_by_response: dict[tuple[bytes, bytes], dict[int, int]] = {}
    lists = batch.column("response").field("apiKeys")
    values, offsets = lists.values, lists.offsets.to_numpy()
    keys, max_versions = (values.field(name).to_numpy(zero_copy_only=False) for name in ("apiKey", "maxVersion"))
    for row, connection in enumerate(batch.column("connection").to_pylist()):
        start, end = offsets[row], offsets[row + 1]
        mark = keys[start:end].tobytes(), max_versions[start:end].tobytes()
        if mark not in versions_by_response:
            versions_by_response[mark] = dict(
                zip(keys[start:end].tolist(), max_versions[start:end].tolist(), strict=True)
            )
        if versions_by_response[mark]:
            yield connection, versions_by_response[mark]


def _parse_max_versions(response: Any) -> dict[int, int]:
    """Return the highest versions of an ApiVersions response. For invalid JSON in a log, the result is empty."""
    api_keys = response.get("apiKeys") if isinstance(response, dict) else None
    entries = [entry for entry in api_keys if isinstance(entry, dict)] if isinstance(api_keys, list) else []
    pairs = [(entry.get("apiKey"), entry.get("maxVersion")) for entry in entries]
    return {key: max_versions for key, max_versions in pairs if isinstance(key, int) and isinstance(max_versions, int)}


def _count_batch(batch: pa.RecordBatch, uses: UsageSummary, limits: Mapping[tuple[str, int], int]) -> None:
    """Count the API calls and record formats of a batch. ``limits`` is the result of ``find_broker_limits``."""
    table = pa.Table.from_batches([batch.drop_columns(["records"])])
    has_api = table.column("apiKey").is_valid()
    uses.without_api += len(table) - pc.sum(has_api).as_py() if len(table) else 0
    table = table.append_column("atLimit", pa.array(_mask_limited_calls(table, limits), pa.bool_())).filter(has_api)
    groups = table.group_by(list(_USE_COLUMNS)).aggregate(
        [("requestTime", "min"), ("requestTime", "max"), ("apiKey", "count")]
    )
    for row in groups.to_pylist():
        client = ClientIdentity(
            row["clientId"] or None, row["clientAddress"], row["softwareName"], row["softwareVersion"]
        )
        use = ApiUse(client, row["apiKey"], row["apiVersion"], bool(row["atLimit"]))
        times = (_microseconds(row[f"requestTime_{limit}"]) for limit in ("min", "max"))
        uses.add_use(use, row["apiKey_count"], *times)
    _count_record_formats(batch, uses)


def _mask_limited_calls(table: pa.Table, limits: Mapping[tuple[str, int], int]) -> list[bool]:
    """Return a flag for each call: whether its version is the highest that the broker advertised."""
    if not limits:
        return [False] * len(table)
    columns = (table.column(name).to_pylist() for name in ("connection", "apiKey", "apiVersion"))
    return [limits.get((connection, key)) == version for connection, key, version in zip(*columns, strict=True)]


def _microseconds(time: Any) -> int | None:
    return None if time is None else pa.scalar(time, TIMESTAMP_TYPE).cast(pa.int64()).as_py()


def _count_record_formats(batch: pa.RecordBatch, uses: UsageSummary) -> None:
    """Count record sets of formats 0 and 1."""
    records = batch.column("records")
    if records.null_count == len(records):
        return
    lists = records.field("sets")
    sets = lists.values
    is_old = np.flatnonzero(sets.field("magic").to_numpy(zero_copy_only=False) < 2)
    owners = np.searchsorted(lists.offsets.to_numpy(), is_old, side="right") - 1
    for index, owner in zip(is_old.tolist(), owners.tolist(), strict=True):
        if not records[owner].is_valid:
            continue
        row = {name: batch.column(name)[owner].as_py() for name in _CALL_COLUMNS[:6]}
        client = ClientIdentity(
            row["clientId"] or None, row["clientAddress"], row["softwareName"], row["softwareVersion"]
        )
        result = sets[index].as_py()
        time = _microseconds(row["requestTime"])
        uses.add_format_use(
            FormatUse(client, _RECORD_LOCATION_BY_API_KEY[row["apiKey"]], result["magic"]),
            result["batches"],
            time,
            time,
        )


def is_log(path: str) -> bool:
    """Return whether a path is a log, not traffic: a directory with partitions, a partition, or a segment."""
    location = Path(path)
    if location.is_dir():
        return any(entry.is_dir() or entry.suffix in (".index", ".timeindex") for entry in location.iterdir())
    return location.suffix == ".log" and location.stem.isdecimal()


def count_log_formats(paths: Sequence[str], uses: UsageSummary) -> None:
    """Count the batches and messages of logs by topic and format, from the batch headers.

    Unreadable partitions and segments, and bytes after the last batch, are added to the coverage of ``uses``.

    Raises:
        OptionError, LogDirError: a path is not a log.
    """
    for directory in discover(paths, omit_unreadable=True):
        for entry in directory.unreadable_partitions:
            uses.coverage.add(UnreadData(DAMAGED, entry.error.reason, entry.directory))
        for partition in directory.partitions:
            uses.notes += map(str, swap_findings(partition))
            for segment in partition.segments:
                try:
                    table = read_batches(segment.path)
                except KafkaframesError as error:
                    uses.coverage.add(UnreadData(DAMAGED, get_reason(error), segment.path))
                    continue
                aggregates = [("max_timestamp", "min"), ("max_timestamp", "max"), ("magic", "count")]
                for row in _keep_known_timestamps(table).group_by("magic").aggregate(aggregates).to_pylist():
                    use = FormatUse(None, "disk", row["magic"], partition.topic)
                    times = (_microseconds(row[f"max_timestamp_{min_count}"]) for min_count in ("min", "max"))
                    uses.add_format_use(use, row["magic_count"], *times)
                _add_unread_tail(segment, table.schema.metadata or {}, uses.coverage)


def _keep_known_timestamps(table: pa.Table) -> pa.Table:
    """Return the format and the largest timestamp of each batch, with null for batches without timestamps."""
    times = table.column("max_timestamp")
    has_time = pc.greater_equal(times.cast(pa.int64()), 0)
    return pa.table({"magic": table.column("magic"), "max_timestamp": pc.if_else(has_time, times, None)})


def _add_unread_tail(segment: Segment, metadata: Mapping[bytes, bytes], coverage: Coverage) -> None:
    """Add the bytes after the last batch to the coverage, unless they are the zeros of a preallocated file."""
    end = int(metadata.get(b"end_position", b"0"))
    size = segment.size_bytes - end
    if size > 0 and not _is_zero_filled(segment.path, end):
        reason = metadata.get(b"end_reason", b"").decode()
        coverage.add(UnreadData(DAMAGED, f"bytes after the last batch: {reason}", segment.path, end, size))


def _is_zero_filled(path: str, position: int) -> bool:
    """Return whether a local file has only zeros after a position."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        file.seek(position)
        while chunk := file.read(_READ_CHUNK_BYTES):
            if chunk.count(0) != len(chunk):
                return False
    return True
