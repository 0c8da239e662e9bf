"""Extract the records in the bodies of Produce, Fetch and ShareFetch as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.capture._kernels_frames import copy_ranges, measure_whole_batches
from kafkaframes.capture.bodies import DecodedMessages, MessageKind, find_parent_indexes, get_binary_extents
from kafkaframes.capture.calls import CallColumns, CallTableBuilder
from kafkaframes.capture.columns import HEADERS_TYPE, TIMESTAMP_TYPE, CaptureColumn, choose_columns, schema_of
from kafkaframes.capture.coverage import DAMAGED, UNSUPPORTED, Coverage, UnreadData
from kafkaframes.capture.packets import Bytes, Ints, PacketReader
from kafkaframes.capture.streams import CallFilter, Streams, WindowResult
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.protocol.api_keys import (
    CREATE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    METADATA,
    PRODUCE,
    SHARE_FETCH,
)
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.records.columns import ReadError, ReadOptions, RecordReader
from kafkaframes.records.scan import MemorySource
from kafkaframes.wire.integers import MAX_INT64
from kafkaframes.wire.primitives import NIL_UUID, uuid_to_text

# API key -> direction, and the names of the fields topic list, topic, partition list and partition.
_RECORD_SET_FIELDS: Final = {
    PRODUCE: (REQUEST, "topicData", "name", "partitionData", "index"),
    FETCH: (RESPONSE, "responses", "topic", "partitions", "partitionIndex"),
    SHARE_FETCH: (RESPONSE, "responses", "topic", "partitions", "partitionIndex"),
}
_API_NAMES: Final = {PRODUCE: "Produce", FETCH: "Fetch", SHARE_FETCH: "ShareFetch"}
# The ``topics`` list of these APIs contains names and ids.
_APIS_WITH_TOPIC_IDS: Final = (METADATA, CREATE_TOPICS, DESCRIBE_TOPIC_PARTITIONS)
_SECRET_TOPIC: Final = "__cluster_metadata"  # the topic's records include SCRAM credentials and delegation tokens
_NIL_UUID_BYTES: Final = NIL_UUID.bytes
_RECORD_READER_COLUMNS: Final = (
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "magic",
    "codec",
    "position",
)


class _RecordSets(NamedTuple):
    """The record sets of one API and version in one window of the capture, as columns with one entry per set."""

    calls: Ints
    topics: list[str | None]
    ids: list[str | None]
    partitions: Ints
    data: Bytes
    starts: Ints
    sizes: Ints


def collect_topic_names(
    files: Sequence[str], *, ports: Iterable[int] = (), apis: ApiRegistry = CATALOG
) -> dict[bytes, str]:
    """Return topic names by topic id, from all responses in a capture that contain names and ids."""
    result: dict[bytes, str] = {}
    builder = CallTableBuilder(choose_columns("calls", ("errors",)), files, apis=apis)
    for traffic in Streams(PacketReader(files), ports=ports, apis=apis):
        calls = CallColumns(builder, traffic)
        for kind, rows in calls.group_by_kind(RESPONSE, kind_filter=lambda key: key in _APIS_WITH_TOPIC_IDS):
            if kind.is_known:
                _add_names(result, DecodedMessages(*calls.get_frame_bytes(RESPONSE, rows), kind))
    return result


def _add_names(result: dict[bytes, str], bodies: DecodedMessages) -> None:
    """Add the topic names and ids in response bodies to ``result``."""
    topics = bodies.body.field("topics").values
    if topics.type.get_field_index("topicId") < 0:
        return
    for name, topic_id in zip(topics.field("name").to_pylist(), topics.field("topicId").to_pylist(), strict=True):
        if name and topic_id and topic_id != _NIL_UUID_BYTES:
            result[topic_id] = name


class RecordTableBuilder:
    """Builds the rows of the records table, one capture window at a time.

    Args:
        columns: columns to return, in output order.
        files: paths of the captures.
        names: topic names by topic id.
        coverage: report to which messages and record sets that cannot be read are added.
        secrets: whether records of ``__cluster_metadata`` are shown.
        span: filter for the calls of this read; None for all calls.
        apis: message specs for decoding requests and responses.
    """

    def __init__(
        self,
        columns: Sequence[CaptureColumn],
        files: Sequence[str],
        names: Mapping[bytes, str],
        coverage: Coverage,
        *,
        secrets: bool = False,
        span: CallFilter | None = None,
        apis: ApiRegistry = CATALOG,
    ) -> None:
        self.columns = tuple(columns)
        self.schema = schema_of(columns)
        self.names = names
        self.coverage = coverage
        self.secrets = secrets
        columns_of_calls = choose_columns("calls", ("clientId", "connection", "correlationId"))
        self._calls = CallTableBuilder(columns_of_calls, files, span=span, apis=apis)
        self._files = files

    def iterate_batches(self, traffic: WindowResult) -> Iterator[pa.RecordBatch]:
        """Yield the records in a capture window."""
        calls = CallColumns(self._calls, traffic)
        file = self._files[traffic.file]
        for key, (direction, *names) in _RECORD_SET_FIELDS.items():
            for kind, rows in calls.group_by_kind(direction, kind_filter=key.__eq__):
                message = f"{_API_NAMES[key]} {direction}"
                if not kind.is_known:
                    reason = f"{message}: version {kind.api_version} is not in the specs"
                    self.coverage.add(UnreadData(UNSUPPORTED, reason, file))
                    continue
                bodies = DecodedMessages(*calls.get_frame_bytes(direction, rows), kind)
                if not _has_record_set_fields(bodies.body.type, names):
                    reason = f"{message}: the fields of version {kind.api_version} differ from Kafka's"
                    self.coverage.add(UnreadData(UNSUPPORTED, reason, file))
                    continue
                if len(bodies.undecodable_rows):
                    self.coverage.add(UnreadData(DAMAGED, f"{message}: cannot be decoded", file))
                sets = self._collect_record_sets(bodies, rows, names)
                if len(sets.starts):
                    yield from self._read_record_sets(calls, kind, sets, file)

    def _collect_record_sets(self, bodies: DecodedMessages, rows: Ints, names: Sequence[str]) -> _RecordSets:
        """Return the nonempty record sets in decoded bodies, with their topics and partitions."""
        topics_name, topic_name, partitions_name, index_name = names
        topics = bodies.body.field(topics_name)
        of_topic = rows[find_parent_indexes(topics)]
        partitions = topics.values.field(partitions_name)
        owner = find_parent_indexes(partitions)
        data, starts, sizes = get_binary_extents(partitions.values.field("records"))
        numbers = partitions.values.field(index_name)
        names_of = _get_field_column(topics.values, topic_name)
        ids = _get_field_column(topics.values, "topicId")
        names_of_rows = [
            name or self.names.get(topic_id or _NIL_UUID_BYTES) or None
            for name, topic_id in zip(names_of, ids, strict=True)
        ]
        texts = [
            None if topic_id is None or topic_id == _NIL_UUID_BYTES else uuid_to_text(UUID(bytes=topic_id))
            for topic_id in ids
        ]
        is_kept = np.flatnonzero(sizes > 0)
        owner = owner[is_kept]
        return _RecordSets(
            of_topic[owner],
            [names_of_rows[index] for index in owner.tolist()],
            [texts[index] for index in owner.tolist()],
            numbers.to_numpy()[is_kept],
            data,
            np.ascontiguousarray(starts[is_kept]),
            np.ascontiguousarray(sizes[is_kept]),
        )

    def _read_record_sets(
        self, calls: CallColumns, kind: MessageKind, sets: _RecordSets, file: str
    ) -> Iterator[pa.RecordBatch]:
        """Read all sets as one sequence of batches. The position of a record's batch identifies its set."""
        joined_bytes, indexes = join_record_sets(sets.data, sets.starts, sets.sizes)
        reader = RecordReader(MemorySource(joined_bytes), ReadOptions(columns=_RECORD_READER_COLUMNS))
        reported_count = 0
        for batch in reader:
            position = batch.column("position").to_numpy()
            set_indexes = np.searchsorted(indexes, position, side="right") - 1
            errors = _select_first_errors(set_indexes, reader.errors[reported_count:], indexes)
            reported_count = len(reader.errors)
            yield self._build_batch(calls, kind, sets, set_indexes, batch, errors)
        for error in reader.errors:  # includes errors of sets without a readable record, which have no row
            reason = f"{_API_NAMES[kind.api_key]} {kind.direction}: records are damaged: {error.reason}"
            self.coverage.add(UnreadData(DAMAGED, reason, file))

    def _build_batch(
        self,
        calls: CallColumns,
        kind: MessageKind,
        sets: _RecordSets,
        set_index: Ints,
        batch: pa.RecordBatch,
        errors: list[str | None],
    ) -> pa.RecordBatch:
        rows = pa.array(sets.calls[set_index], pa.int64())
        topics = pa.array(sets.topics, pa.string()).take(pa.array(set_index, pa.int64()))
        columns: dict[str, Any] = {
            "time": lambda: calls.get_times(kind.direction).take(rows),
            "apiName": lambda: pa.array([_API_NAMES[kind.api_key]] * len(set_index), pa.string()),
            "clientId": lambda: calls.get_client_ids().take(rows),
            "topic": lambda: topics,
            "topicId": lambda: pa.array(sets.ids, pa.string()).take(pa.array(set_index, pa.int64())),
            "partition": lambda: pa.array(sets.partitions[set_index], pa.int32()),
            "offset": lambda: batch.column("offset"),
            "timestamp": lambda: _to_microseconds(batch.column("timestamp")),
            "timestampMs": lambda: _format_out_of_range_timestamps(batch.column("timestamp")),
            "timestampType": lambda: batch.column("timestamp_type").cast(pa.int32()),
            "key": lambda: self._hide_credentials(batch.column("key"), topics),
            "value": lambda: self._hide_credentials(batch.column("value"), topics),
            "headers": lambda: batch.column("headers").cast(HEADERS_TYPE),
            "magic": lambda: batch.column("magic").cast(pa.int32()),
            "codec": lambda: batch.column("codec").cast(pa.string()),
            "connection": lambda: calls.get_endpoint_column("label", pa.string()).take(rows),
            "correlationId": lambda: calls.get_correlation_ids().take(rows),
            "_error": lambda: pa.array(errors, pa.string()),
        }
        return pa.RecordBatch.from_arrays([columns[column.name]() for column in self.columns], schema=self.schema)

    def _hide_credentials(self, values: pa.Array, topics: pa.Array) -> pa.Array:
        """Return keys or values, null for the topic that contains credentials unless secrets are included."""
        import pyarrow.compute as pc

        values = values.cast(pa.binary())
        if self.secrets:
            return values
        is_secret = pc.equal(topics, _SECRET_TOPIC).fill_null(False)
        return pc.if_else(is_secret, pa.scalar(None, pa.binary()), values)


def join_record_sets(data: Bytes, starts: Ints, sizes: Ints) -> tuple[Bytes, Ints]:
    """Return the concatenated whole batches of record sets, and the start of each set plus the end of the last one."""
    wholes = np.zeros(len(starts), np.int64)
    measure_whole_batches(data, starts, sizes, wholes)
    indexes = np.zeros(len(wholes) + 1, np.int64)
    np.cumsum(wholes, out=indexes[1:])
    joined = np.empty(int(indexes[-1]), np.uint8)
    copy_ranges(data, np.stack([starts, wholes, indexes[:-1]], axis=1), joined)
    return joined, indexes


def _has_record_set_fields(body: pa.DataType, names: Sequence[str]) -> bool:
    """Return whether a body has the fields of ``_RECORD_SET_FIELDS``. The specs of a proposal may lack these fields."""
    topics_name, _, partitions_name, index_name = names
    partition = _get_element_type(_get_element_type(body, topics_name), partitions_name)
    return _get_field_type(partition, index_name) == pa.int32() and _get_field_type(partition, "records") is not None


def _get_element_type(struct: pa.DataType | None, name: str) -> pa.DataType | None:
    """Return the element type of a list field; None if the struct has no such field."""
    field = _get_field_type(struct, name)
    return field.value_type if field is not None and pa.types.is_list(field) else None


def _get_field_type(struct: pa.DataType | None, name: str) -> pa.DataType | None:
    """Return the type of a field; None if the struct has no such field."""
    if struct is None or not pa.types.is_struct(struct) or struct.get_field_index(name) < 0:
        return None
    return struct.field(name).type


def _get_field_column(array: pa.StructArray, name: str) -> list[Any]:
    """Return the values of a field; None for each row if the struct has no such field."""
    if array.type.get_field_index(name) < 0:
        return [None] * len(array)
    return list(array.field(name).to_pylist())


_NO_TIMESTAMP: Final = -1
_MAX_TIMESTAMP_MS: Final = MAX_INT64 // 1000  # largest time that microseconds can represent


def _to_microseconds(values: pa.Array) -> pa.Array:
    """Return timestamps in microseconds; null if a record has none, or if it is in ``timestampMs``."""
    numbers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    is_missing = (numbers == _NO_TIMESTAMP) | _is_far(numbers)
    return pa.array(np.where(is_missing, 0, numbers) * 1000, pa.int64(), mask=is_missing).cast(TIMESTAMP_TYPE)


def _format_out_of_range_timestamps(values: pa.Array) -> pa.Array:
    numbers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return pa.array(numbers, pa.int64(), mask=~_is_far(numbers))


def _is_far(numbers: Ints) -> npt.NDArray[np.bool_]:
    return (numbers > _MAX_TIMESTAMP_MS) | (numbers < -_MAX_TIMESTAMP_MS)


def _select_first_errors(set_index: Ints, errors: Sequence[ReadError], indexes: Ints) -> list[str | None]:
    """Return a column with the error of each record set in the row of the set's first record; other rows are None."""
    result: list[str | None] = [None] * len(set_index)
    for error in errors:
        batch_index = int(np.searchsorted(indexes, error.position, side="right")) - 1
        rows = np.flatnonzero(set_index == batch_index)
        if len(rows):
            result[int(rows[0])] = error.reason
    return result
