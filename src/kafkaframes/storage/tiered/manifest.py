"""The manifest of one uploaded segment (``.rsm-manifest``, version 1): metadata, and how to read its objects.

``chunkIndex``, ``segmentIndexes``, ``compression`` and ``encryption`` determine how bytes are read, so unknown fields
in them are rejected. ``remoteLogSegmentMetadata`` identifies the segment, and may get more fields in later releases.

The segment is divided into chunks of ``original_chunk_size`` bytes. Each chunk is compressed and encrypted separately,
and the results are concatenated in the object. The chunk index contains the stored sizes of the chunks, as either a
fixed size or a packed list. The amount of allocated memory does not depend on unverified numbers in a manifest. The
sizes of a fixed index are computed, and a variable index has as many sizes as its decoded bytes contain.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zstandard

from kafkaframes.errors import DecodeError, LogDirError
from kafkaframes.storage.files.checkpoints import EpochStart
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.tiered.strict_json import (
    JsonFields,
    parse_boolean,
    parse_fields,
    parse_integer,
    parse_non_negative,
    parse_object,
    parse_positive,
    parse_text,
)
from kafkaframes.wire.integers import MAX_INT32

MAX_INDEX_BYTES: Final = 10 << 20  # largest decompressed size; Aiven's plugin has the same limit
_INT32_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The mapping from bytes of the segment to bytes of the object.

    Attributes:
        original_chunk_size: size of every chunk but the last in the segment, in bytes.
        original_file_size: size of the segment, in bytes.
        kind: ``fixed`` or ``variable``.
        stored_chunk_size: size of every chunk but the last in the object, in bytes; only for a fixed index.
        final_chunk_size: size of the last chunk in the object, in bytes; only for a fixed index.
        ends: end position of each chunk in the object; only for a variable index.
    """

    original_chunk_size: int
    original_file_size: int
    kind: str
    stored_chunk_size: int = 0
    final_chunk_size: int = 0
    ends: npt.NDArray[np.int64] | None = field(default=None, compare=False)

    @property
    def count(self) -> int:
        """Number of chunks."""
        return -(-self.original_file_size // self.original_chunk_size)

    @property
    def stored_size(self) -> int:
        """Size of the object, in bytes."""
        return self.get_object_range(self.count - 1)[1] if self.count else 0

    def get_plain_range(self, chunk: int) -> tuple[int, int]:
        """Return the start and end position of a chunk in the segment."""
        start = chunk * self.original_chunk_size
        return start, min(start + self.original_chunk_size, self.original_file_size)

    def get_object_range(self, chunk: int) -> tuple[int, int]:
        """Return the start and end position of a chunk in the object."""
        if self.ends is not None:
            return int(self.ends[chunk - 1]) if chunk else 0, int(self.ends[chunk])
        start = chunk * self.stored_chunk_size
        return start, start + (self.final_chunk_size if chunk == self.count - 1 else self.stored_chunk_size)

    def count_stored_bytes(self, start: int, end: int) -> int:
        """Return the number of bytes to fetch from the object for the segment's bytes from ``start`` to ``end``."""
        end = min(end, self.original_file_size)
        if start >= end:
            return 0
        first, last = start // self.original_chunk_size, (end - 1) // self.original_chunk_size
        return self.get_object_range(last)[1] - self.get_object_range(first)[0]

    def sizes(self) -> list[int]:
        """Return the size of each chunk in the object. The list has an item for every chunk of the segment."""
        ranges = map(self.get_object_range, range(self.count))
        return [end - start for start, end in ranges]


def parse_chunk_index(fields: JsonFields) -> ChunkIndex:
    """Parse the object ``chunkIndex`` of a manifest.

    Raises:
        DecodeError: the object is invalid; ``path`` is the field.
    """
    kind = fields.take("type", parse_text)
    if kind not in _INDEX_PARSERS:
        raise DecodeError(f"unknown index type {kind[:40]!r}; expected fixed or variable", path=("type",))
    index = _INDEX_PARSERS[kind](
        fields, fields.take("originalChunkSize", parse_positive), fields.take("originalFileSize", parse_non_negative)
    )
    fields.reject_other_fields()
    return index


def _parse_fixed_index(fields: JsonFields, chunk_size: int, file_size: int) -> ChunkIndex:
    stored_size, final = (
        fields.take("transformedChunkSize", parse_positive),
        fields.take("finalTransformedChunkSize", parse_non_negative),
    )
    return ChunkIndex(chunk_size, file_size, "fixed", stored_size, final)


def _parse_variable_index(fields: JsonFields, chunk_size: int, file_size: int) -> ChunkIndex:
    encoded_sizes = fields.take("transformedChunks", parse_text)
    try:
        sizes = unpack_sizes(_decompress_sizes(encoded_sizes))
    except DecodeError as error:
        raise error.within("transformedChunks") from None
    index = ChunkIndex(chunk_size, file_size, "variable", ends=np.cumsum(sizes, dtype=np.int64))
    if len(sizes) != index.count:
        reason = (
            f"the index has {len(sizes)} chunks, but {file_size} bytes in chunks of {chunk_size} bytes need "
            f"{index.count}"
        )
        raise DecodeError(reason, path=("transformedChunks",))
    return index


_INDEX_PARSERS: Mapping[str, Callable[[JsonFields, int, int], ChunkIndex]] = {
    "fixed": _parse_fixed_index,
    "variable": _parse_variable_index,
}


def _decompress_sizes(encoded_sizes: str) -> bytes:
    try:
        frame = base64.b64decode(encoded_sizes, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(f"not base64: {error}") from None
    try:
        size = zstandard.get_frame_parameters(frame).content_size
        if not 0 <= size <= MAX_INDEX_BYTES:  # zstandard reports an unknown size as a huge number
            raise DecodeError(f"the list of sizes has {size} bytes; the maximum is {MAX_INDEX_BYTES}")
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DecodeError(f"not a zstd frame: {error}") from None


def unpack_sizes(raw: bytes) -> npt.NDArray[np.int64]:
    """Return the chunk sizes in a decompressed list.

    >>> unpack_sizes(bytes.fromhex("00000003 00000064 01 00 05 00000007")).tolist()
    [100, 105, 7]

    Raises:
        DecodeError: the number of bytes does not match the count, or a size is not positive.
    """
    count = _read_int32(raw, 0)
    if count < 0:
        raise DecodeError(f"the list states an invalid number of sizes, {count}", position=0)
    if count == 0:
        return _check_sizes(np.zeros(0, np.int64), raw, _INT32_BYTES)
    if count == 1:
        return _check_sizes(np.array([_read_int32(raw, _INT32_BYTES)], np.int64), raw, 2 * _INT32_BYTES)
    base, width = _read_int32(raw, _INT32_BYTES), raw[2 * _INT32_BYTES] if len(raw) > 2 * _INT32_BYTES else 0
    if not 1 <= width <= _INT32_BYTES:
        raise DecodeError(f"each size has {width} bytes; expected 1 to 4", position=2 * _INT32_BYTES)
    start = 2 * _INT32_BYTES + 1
    end = start + (count - 1) * width
    if end + _INT32_BYTES > len(raw):
        raise DecodeError(f"the list states {count} sizes, but has only {len(raw)} bytes", position=start)
    values = np.zeros((count - 1, _INT32_BYTES), np.uint8)
    values[:, _INT32_BYTES - width :] = np.frombuffer(raw, np.uint8, (count - 1) * width, start).reshape(-1, width)
    sizes = np.empty(count, np.int64)
    sizes[:-1] = values.view(">u4").ravel().astype(np.int64) + base
    sizes[-1] = _read_int32(raw, end)
    return _check_sizes(sizes, raw, end + _INT32_BYTES)


def _read_int32(raw: bytes, position: int) -> int:
    if position + _INT32_BYTES > len(raw):
        raise DecodeError("the list of sizes is truncated", position=position)
    return int.from_bytes(raw[position : position + _INT32_BYTES], "big", signed=True)


def _check_sizes(sizes: npt.NDArray[np.int64], raw: bytes, end: int) -> npt.NDArray[np.int64]:
    if end != len(raw):
        raise DecodeError(f"{len(raw) - end} bytes follow the last size", position=end)
    if len(sizes) and int(sizes.min()) <= 0:
        raise DecodeError(f"a chunk cannot have {int(sizes.min())} bytes")
    return sizes


MANIFEST_VERSION: Final = "1"
MAX_MANIFEST_BYTES: Final = 16 << 20  # base64 of the plugin's largest chunk index, and the other fields
INDEX_NAMES: Final = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")
_UUID_PATTERN = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
_EPOCH_PATTERN = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The stored bytes of one index in the indexes object."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class SegmentEncryption:
    """The parameters of a segment's encryption.

    Attributes:
        key_id: id of the RSA key pair.
        wrapped_key: AES key, encrypted with the public key of the pair.
        aad: additional authenticated data of every chunk and index.
    """

    key_id: str
    wrapped_key: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """The topic partition of a segment, and its part of the log.

    Attributes:
        end_offset: offset of the last record, inclusive.
        leader_epochs: leader epochs of the segment with their start offsets; the first starts at ``start_offset``.
    """

    topic_partition: TopicPartition
    topic_id: str
    segment_id: str
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    leader_epochs: tuple[EpochStart, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one segment: metadata, and how to read its objects.

    Attributes:
        chunks: chunks of the ``.log`` object.
        indexes: ranges in the indexes object, by the names of the indexes in the manifest. A segment without aborted
            transactions has no transaction index.
        is_compressed: whether chunks are zstd frames.
        encryption: encryption of chunks and indexes; None if they are not encrypted.
    """

    chunks: ChunkIndex
    indexes: Mapping[str, IndexRange]
    is_compressed: bool
    encryption: SegmentEncryption | None
    metadata: SegmentMetadata

    @property
    def size_bytes(self) -> int:
        """Size of the segment, in bytes."""
        return self.chunks.original_file_size

    @property
    def is_plain(self) -> bool:
        """Whether the object is identical to the segment."""
        return not self.is_compressed and self.encryption is None

    @property
    def indexes_size(self) -> int:
        """Size of the indexes object, in bytes."""
        return max((index.position + index.size for index in self.indexes.values()), default=0)


def parse_manifest(raw: bytes, *, file: str | None = None) -> Manifest:
    """Parse a manifest.

    Raises:
        LogDirError: ``raw`` is not a manifest of version 1; the error names the object and the field.
    """
    try:
        if len(raw) > MAX_MANIFEST_BYTES:
            raise DecodeError(f"the manifest has more than {MAX_MANIFEST_BYTES} bytes")
        return _parse_top_level(parse_object(raw))
    except DecodeError as error:
        reason = f"not the manifest of a tiered segment: {error.reason}"
        raise LogDirError(reason, position=error.position, path=error.path, file=file) from None


def _parse_top_level(top: JsonFields) -> Manifest:
    version = top.take("version", parse_text)
    if version != MANIFEST_VERSION:
        raise DecodeError(f"unsupported version {version[:20]!r}; expected {MANIFEST_VERSION!r}", path=("version",))
    manifest = Manifest(
        chunks=top.take("chunkIndex", lambda value: parse_chunk_index(parse_fields(value))),
        indexes=top.take("segmentIndexes", _parse_indexes),
        is_compressed=top.take("compression", parse_boolean),
        encryption=top.take_optional("encryption", _parse_encryption),
        metadata=top.take("remoteLogSegmentMetadata", _parse_metadata),
    )
    top.reject_other_fields()
    if manifest.is_plain:
        _check_plain(manifest.chunks)
    return manifest


def _check_plain(chunks: ChunkIndex) -> None:
    """Reject a manifest without compression and encryption if its chunk sizes differ from those of the segment."""
    if chunks.stored_size != chunks.original_file_size or chunks.count_stored_bytes(0, 1) != min(
        chunks.original_chunk_size, chunks.original_file_size
    ):
        raise DecodeError(
            "the segment is neither compressed nor encrypted, but the stored chunk sizes differ", path=("chunkIndex",)
        )


def _parse_indexes(value: Any) -> Mapping[str, IndexRange]:
    values = parse_fields(value)
    indexes = {name: values.take(name, _parse_index_range) for name in INDEX_NAMES[:-1]}
    transaction = values.take_optional(INDEX_NAMES[-1], _parse_index_range)
    values.reject_other_fields()
    return MappingProxyType(indexes if transaction is None else indexes | {INDEX_NAMES[-1]: transaction})


def _parse_index_range(value: Any) -> IndexRange:
    values = parse_fields(value)
    index_range = IndexRange(values.take("position", parse_non_negative), values.take("size", parse_non_negative))
    values.reject_other_fields()
    return index_range


def _parse_encryption(value: Any) -> SegmentEncryption:
    values = parse_fields(value)
    key_id, aad = values.take("dataKey", _parse_data_key), values.take("aad", _parse_base64)
    values.reject_other_fields()
    return SegmentEncryption(*key_id, aad)


def _parse_data_key(value: Any) -> tuple[str, bytes]:
    key_id, colon, wrapped_key = parse_text(value).partition(":")
    if not colon or not key_id or ":" in wrapped_key:
        raise DecodeError("expected <key pair id>:<base64>")
    return key_id, _parse_base64(wrapped_key)


def _parse_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(parse_text(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(f"not base64: {error}") from None


def _parse_metadata(value: Any) -> SegmentMetadata:
    values = parse_fields(value)
    topic_partition, topic_id, segment_id = values.take("remoteLogSegmentId", _parse_segment_id)
    start, end = values.take("startOffset", _parse_offset), values.take("endOffset", parse_integer)
    if end < start:
        raise DecodeError(f"{end} is below the start offset {start}", path=("endOffset",))
    epochs = values.take("segmentLeaderEpochs", _parse_epochs)
    if epochs and epochs[0].start_offset != start:
        reason = f"start at offset {epochs[0].start_offset}, but the segment at {start}"
        raise DecodeError(reason, path=("segmentLeaderEpochs",))
    return SegmentMetadata(
        topic_partition,
        topic_id,
        segment_id,
        start,
        end,
        max_timestamp_ms=values.take("maxTimestampMs", parse_integer),
        broker_id=values.take("brokerId", parse_integer),
        event_timestamp_ms=values.take("eventTimestampMs", parse_integer),
        leader_epochs=epochs,
    )


def _parse_segment_id(value: Any) -> tuple[TopicPartition, str, str]:
    values = parse_fields(value)
    topic_id_fields = values.take("topicIdPartition", parse_fields)
    try:
        topic_id = topic_id_fields.take("topicId", _parse_uuid)
        partition_fields = topic_id_fields.take("topicPartition", parse_fields)
        topic, partition = (
            partition_fields.take("topic", parse_text),
            partition_fields.take("partition", parse_non_negative),
        )
    except DecodeError as error:
        raise error.within("topicIdPartition") from None
    return TopicPartition(topic, partition), topic_id, values.take("id", _parse_uuid)


def _parse_uuid(value: Any) -> str:
    if not _UUID_PATTERN.fullmatch(parse_text(value)):
        raise DecodeError(f"{value[:40]!r} is not a valid id")
    return str(value)


def _parse_offset(value: Any) -> int:
    if parse_integer(value) < 0:
        raise DecodeError(f"{value} is not a valid offset")
    return int(value)


def _parse_epochs(value: Any) -> tuple[EpochStart, ...]:
    values = parse_fields(value)
    if not all(_EPOCH_PATTERN.fullmatch(name) and int(name) <= MAX_INT32 for name in values.names):
        raise DecodeError("a leader epoch is not a number")
    epochs = tuple(EpochStart(int(name), values.take(name, _parse_offset)) for name in sorted(values.names, key=int))
    starts = [epoch_start.start_offset for epoch_start in epochs]
    if starts != sorted(starts):
        raise DecodeError("a later leader epoch starts at a lower offset")
    return epochs
