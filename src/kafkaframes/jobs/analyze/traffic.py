"""Read the messages of captures and request logs as columns, grouped by API, version and direction."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.capture.bodies import (
    APIS_WITH_RECORDS,
    DecodedMessages,
    MessageKind,
    find_error_rows,
    get_binary_extents,
    iterate_record_sets,
    to_array,
)
from kafkaframes.capture.calls import CallColumns, CallTableBuilder
from kafkaframes.capture.columns import choose_columns
from kafkaframes.capture.coverage import Coverage
from kafkaframes.capture.layout import F_END_TIME
from kafkaframes.capture.packets import Ints, PacketReader
from kafkaframes.capture.reader import split_traffic
from kafkaframes.capture.records import join_record_sets
from kafkaframes.capture.request_log import LogReader
from kafkaframes.capture.streams import Streams, iterate_windows_with_coverage
from kafkaframes.capture.typed import RECORDS_SIZE_SUFFIX, replace_record_sizes
from kafkaframes.errors import KafkaframesError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.jobs.analyze.records import RecordSizes
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.framed import find_frame_plan
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.records.scan import scan_all
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.varint import size_of_unsigned_varint

CLIENT, CONNECTION, SECOND = BY = ("client", "connection", "second")
_ROWS_PER_READ: Final = 4096  # request log rows that are decoded together
_UNGROUPED: Final = (None, None, None)  # client, connection and second of messages that are not grouped
_UNKNOWN_VERSION_REASON: Final = "the specs do not have this API version"


class TrafficTask(NamedTuple):
    """The input of one process or Spark task: a share of the connections in files."""

    files: tuple[str, ...]
    share: int = 0
    shares: int = 1
    ports: tuple[int, ...] = ()


@dataclass
class ApiMessages:
    """Messages of one API, version and direction.

    Attributes:
        frames: columns ``header`` and ``body``, with a row for each message that could be decoded.
        wire_sizes: size of each message on the wire; None if unknown (in a request log).
        labels: row of ``names`` for each message.
        names: (client, connection, second) of each label, with None for parts that were not requested.
        unread: number of messages that could not be decoded, by label number and reason.
        span: times of the first and the last message, in microseconds.
        records: sizes of each message's records, if the message does not contain the records themselves (request logs).
    """

    api_key: int
    api_version: int
    direction: str
    frames: pa.StructArray
    wire_sizes: Ints | None
    labels: Ints
    names: Sequence[tuple[Any, ...]]
    unread: Counter[tuple[int, str]] = field(default_factory=Counter)
    span: tuple[int, int] | None = None
    records: Sequence[Sequence[int]] = ()

    def sum_record_bytes(self, *, compact: bool) -> Ints | int:
        """Return the size of the records that the messages do not contain.

        The size includes the additional bytes of the records' length prefixes.
        """
        if not any(self.records):
            return 0
        sizes_with_prefixes = (
            sum(size + (compact and size_of_unsigned_varint(size + 1) - 1) for size in record_sizes)
            for record_sizes in self.records
        )
        return np.fromiter(sizes_with_prefixes, np.int64, len(self.records))

    def select_rows(self, rows: Ints) -> ApiMessages:
        """Return a selection of the messages."""
        sizes = None if self.wire_sizes is None else self.wire_sizes[rows]
        records = [self.records[row] for row in rows.tolist()] if self.records else ()
        frames = self.frames.take(pa.array(rows))
        return replace(self, frames=frames, wire_sizes=sizes, labels=self.labels[rows], records=records)

    def split_by_label(self) -> Iterator[ApiMessages]:
        """Yield the messages of each label."""
        labels = np.unique(self.labels).tolist()
        for label in labels:
            yield self if len(labels) == 1 else self.select_rows(np.flatnonzero(self.labels == label))


def read_captured_calls(task: TrafficTask, apis: ApiRegistry, coverage: Coverage) -> Iterator[CallColumns]:
    """Yield the calls in a task's share of the captures. Unread parts are added to ``coverage``."""
    captures, _ = split_traffic(task.files)
    if captures:
        builder = CallTableBuilder(choose_columns("calls", ("clientId",)), captures, apis=apis)
        reader = PacketReader(captures, share=task.share, shares=task.shares, is_alone=len(task.files) == 1)
        for traffic in iterate_windows_with_coverage(Streams(reader, ports=task.ports, apis=apis), coverage):
            yield CallColumns(builder, traffic)


def read_messages(
    task: TrafficTask,
    directions: Sequence[str],
    by: Sequence[str] = (),
    apis: ApiRegistry = CATALOG,
    coverage: Coverage | None = None,
) -> Iterator[ApiMessages]:
    """Yield the messages in a task's share, labelled by client, connection or second as ``by`` requests.

    Args:
        task: share of the files to read.
        directions: requests, responses or both.
        by: parts of the labels.
        apis: message specs for decoding.
        coverage: object to which the unread parts are added.
    """
    account = Coverage() if coverage is None else coverage
    for calls in read_captured_calls(task, apis, account):
        labels, names = np.zeros(calls.count, np.int64), [_UNGROUPED]
        if by:
            labels, names = _number_labels(_list_group_values(calls, by))
        for direction in directions:
            times = calls.get_frame_values(direction, F_END_TIME) // 1000
            for kind, rows in calls.group_by_kind(direction):
                yield from _decode_captured_messages(calls, kind, rows, labels, names, times)
    _, logs = split_traffic(task.files)
    for path in logs[task.share :: task.shares]:
        log_rows = LogReader(path, account, is_alone=len(task.files) == 1).iterate_rows(secrets=True, apis=apis)
        while some := list(islice(log_rows, _ROWS_PER_READ)):
            yield from _read_request_log(some, directions, by, apis)


def _iterate_record_sizes(value: Any) -> Iterator[int]:
    """Yield the record sizes that a request log has instead of the records.

    Invalid sizes are skipped; decoding rejects them later.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith(RECORDS_SIZE_SUFFIX) and isinstance(inner, int) and 0 <= inner <= MAX_INT32:
                yield inner
            else:
                yield from _iterate_record_sizes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_record_sizes(inner)


def _list_group_values(calls: CallColumns, by: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return (client, connection, second) of each call, with None for parts that are not in ``by``."""
    nothing = [None] * calls.count
    clients = calls.get_client_ids().fill_null("").to_pylist() if CLIENT in by else nothing
    connections = calls.get_endpoint_column("label", pa.string()).to_pylist() if CONNECTION in by else nothing
    seconds = (calls.get_frame_values(REQUEST, F_END_TIME) // 10**9).tolist() if SECOND in by else nothing
    return list(zip(clients, connections, seconds, strict=True))


def _number_labels(group_values_of_rows: Sequence[tuple[Any, ...]]) -> tuple[Ints, list[tuple[Any, ...]]]:
    """Return the label number of each row, and the group values of each label."""
    numbers: dict[tuple[Any, ...], int] = {}
    labels = np.fromiter(
        (numbers.setdefault(group_values, len(numbers)) for group_values in group_values_of_rows),
        np.int64,
        len(group_values_of_rows),
    )
    return labels, list(numbers)


def _decode_captured_messages(
    calls: CallColumns, kind: MessageKind, rows: Ints, labels: Ints, names: Sequence[tuple[Any, ...]], times: Ints
) -> Iterator[ApiMessages]:
    """Yield the messages of one kind in captured calls. Undecodable messages are counted with the reason."""
    key, version, direction, apis = kind
    raw, starts = calls.get_frame_bytes(direction, rows)
    span = int(times[rows].min()), int(times[rows].max())
    if not kind.is_known:
        empty = pa.array([], pa.struct([]))
        unread = Counter((label, _UNKNOWN_VERSION_REASON) for label in labels[rows].tolist())
        yield ApiMessages(key, version, direction, empty, None, labels[:0], names, unread, span)
        return
    if key == API_VERSIONS and direction == RESPONSE and version:
        older = _find_version_0_responses(raw, starts, version, apis)
        if len(older):
            yield from _decode_version_0(calls, rows[older], labels, names, span)
            rows = np.delete(rows, older)
            raw, starts = calls.get_frame_bytes(direction, rows)
    bodies = DecodedMessages(raw, starts, kind)
    unread = _count_errors(bodies.errors, labels[rows])
    is_valid = bodies.errors.is_null()
    rows, sizes = (
        rows[is_valid.to_numpy(zero_copy_only=False)],
        np.diff(starts)[is_valid.to_numpy(zero_copy_only=False)],
    )
    frames = bodies.frames.filter(is_valid) if unread else bodies.frames
    yield ApiMessages(key, version, direction, frames, sizes, labels[rows], names, unread, span)


def _find_version_0_responses(raw: Any, starts: Ints, version: int, apis: ApiRegistry) -> Ints:
    """Return a flag for each ApiVersions response: whether it has version 0, as for unknown versions (KIP-511)."""
    array = to_array(raw, starts)
    read = [
        decode_columns(find_frame_plan(API_VERSIONS, candidate_version, RESPONSE, apis), array).field("_error")
        for candidate_version in (version, 0)
    ]
    return np.flatnonzero((read[0].is_valid().to_numpy(False)) & (read[1].is_null().to_numpy(False)))


def _decode_version_0(
    calls: CallColumns, rows: Ints, labels: Ints, names: Sequence[tuple[Any, ...]], span: tuple[int, int]
) -> Iterator[ApiMessages]:
    """Yield ApiVersions responses, decoded as version 0."""
    raw, starts = calls.get_frame_bytes(RESPONSE, rows)
    frames = DecodedMessages(raw, starts, MessageKind(API_VERSIONS, 0, RESPONSE, calls.builder.apis)).frames
    yield ApiMessages(API_VERSIONS, 0, RESPONSE, frames, np.diff(starts), labels[rows], names, span=span)


def _count_errors(errors: pa.Array, labels: Ints) -> Counter[tuple[int, str]]:
    """Count decoding errors by label and text."""
    failed_rows = find_error_rows(errors).tolist()
    return Counter((int(labels[row]), str(errors[row].as_py())) for row in failed_rows)


def _read_request_log(
    rows: Sequence[dict[str, Any]], directions: Sequence[str], by: Sequence[str], apis: ApiRegistry
) -> Iterator[ApiMessages]:
    """Yield the messages in a request log.

    A request log has only the sizes of records, and does not have the tagged fields of headers.
    """
    for direction in directions:
        groups: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if row[direction] is not None and row["apiKey"] is not None:
                groups[row["apiKey"], row["apiVersion"]].append(row)
        for (key, version), log_rows in groups.items():
            yield _decode_log_messages(key, version, direction, log_rows, by, apis)


def _decode_log_messages(
    key: int, version: int, direction: str, rows: Sequence[dict[str, Any]], by: Sequence[str], apis: ApiRegistry
) -> ApiMessages:
    """Return the messages of one kind in rows of a request log, encoded again from their JSON."""
    labels, names = _number_labels([_list_group_values_of_row(row, by) for row in rows])
    data, records, valid_rows, unread = [], [], [], Counter[tuple[int, str]]()
    for number, row in enumerate(rows):
        try:
            body = json.loads(row[direction])
            data.append(_build_frame_value(key, version, direction, body, row["clientId"], apis))
            records.append(list(_iterate_record_sizes(body)))
            valid_rows.append(number)
        except (KafkaframesError, TypeError) as error:
            unread[int(labels[number]), str(error)] += 1
    frames = pa.array([], pa.struct([]))
    if data:
        frames = decode_columns(find_frame_plan(key, version, direction, apis), data)
    times = [row["responseTime"] for row in rows if row["responseTime"] is not None]
    span = (min(times), max(times)) if times else None
    return ApiMessages(key, version, direction, frames, None, labels[valid_rows], names, unread, span, records)


def _list_group_values_of_row(row: dict[str, Any], by: Sequence[str]) -> tuple[Any, ...]:
    """Return (client, connection, second) of a call, with None for parts that are not in ``by``."""
    time = row["responseTime"]
    return (
        row["clientId"] or "" if CLIENT in by else None,
        row["connection"] if CONNECTION in by else None,
        time // 1_000_000 if SECOND in by and time is not None else None,
    )


def _build_frame_value(
    key: int, version: int, direction: str, value: Any, client_id: str | None, apis: ApiRegistry
) -> bytes:
    """Encode a request or response from the JSON of a request log."""
    kind = MessageKind(key, version, direction, apis)
    if not kind.is_known:
        raise KafkaframesError(_UNKNOWN_VERSION_REASON)
    body: Message = kind.message_class.from_json(replace_record_sizes(value), version)
    if direction == REQUEST:
        return encode_request(body, version, client_id=client_id)
    return encode_response(body, version)


PRODUCED, FETCHED = "produced", "fetched"
_RECORD_API_KEYS_BY_DIRECTION: Final = {
    direction: frozenset(key for key, api_direction in APIS_WITH_RECORDS if api_direction == direction)
    for _, direction in APIS_WITH_RECORDS
}


class RecordMeasurement(NamedTuple):
    """The sizes of records in a task's share of captures, and the unread parts."""

    sizes: dict[str, RecordSizes]
    coverage: Coverage


def measure_task_records(task: TrafficTask, apis: ApiRegistry = CATALOG) -> RecordMeasurement:
    """Measure the records in a task's share of the captures, and return their sizes with the unread parts."""
    coverage = Coverage()
    return RecordMeasurement(measure_records(task, apis, coverage), coverage)


def measure_records(
    task: TrafficTask, apis: ApiRegistry = CATALOG, coverage: Coverage | None = None
) -> dict[str, RecordSizes]:
    """Measure the records in a task's share of captures, separately for produced and fetched records.

    A record that was produced and then fetched counts twice. Request logs do not have records. Unread parts are added
    to ``coverage``.
    """
    result = {PRODUCED: RecordSizes(), FETCHED: RecordSizes()}
    for calls in read_captured_calls(task, apis, Coverage() if coverage is None else coverage):
        for direction, keys in _RECORD_API_KEYS_BY_DIRECTION.items():
            for kind, rows in calls.group_by_kind(direction, kind_filter=keys.__contains__):
                if kind.is_known:
                    bodies = DecodedMessages(*calls.get_frame_bytes(direction, rows), kind)
                    _add_record_sizes(bodies, result[PRODUCED if direction == REQUEST else FETCHED])
    return result


def _add_record_sizes(bodies: DecodedMessages, sizes: RecordSizes) -> None:
    """Add the sizes of the records in produce requests or fetch responses."""
    assert bodies.plan is not None
    for _, blobs in iterate_record_sets(bodies.body, bodies.plan, np.arange(bodies.count)):
        data, _ = join_record_sets(*get_binary_extents(blobs))
        if len(data):
            sizes.add_batches(data, scan_all(data))
