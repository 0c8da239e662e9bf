"""The manifest of one uploaded segment (``.rsm-manifest``, version 1): how its objects are read, and what they are.

``chunkIndex``, ``segmentIndexes``, ``compression`` and ``encryption`` decide how bytes are read, so every field of
theirs is known or refused. ``remoteLogSegmentMetadata`` says whose segment it is, and later releases may add to it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kafkaframes.errors import DecodeError, LogDirError
from kafkaframes.storage.files.checkpoints import EpochStart
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.tiered.chunk_index import ChunkIndex, parse_chunk_index
from kafkaframes.storage.tiered.strict_json import Fields, boolean, fields, integer, non_negative, parse_object, text

VERSION: Final = "1"
MOST_MANIFEST_BYTES: Final = 16 << 20  # base64 of the largest chunk index that the plugin reads, and the rest
INDEXES: Final = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")
_UUID = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
_EPOCH = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The stored bytes of one index in the indexes object."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class Encryption:
    """How a segment is encrypted.

    Attributes:
        key_id: of the RSA key pair.
        wrapped_key: the AES key, encrypted with that pair's public key.
        aad: additional authenticated data of every chunk and index.
    """

    key_id: str
    wrapped_key: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """The topic partition of a segment, and its part of the log.

    Attributes:
        end_offset: of its last record, inclusive.
        leader_epochs: from which offset on each leader epoch wrote in it; the first is the start offset.
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
    """The manifest of one segment: what its objects are, and how they are read.

    Attributes:
        chunks: where the segment's bytes lie.
        indexes: where the indexes lie, by their names in the manifest; no transaction index where there is none.
        compressed: whether chunks are zstd frames.
        encryption: None where nothing is encrypted.
    """

    chunks: ChunkIndex
    indexes: Mapping[str, IndexRange]
    compressed: bool
    encryption: Encryption | None
    metadata: SegmentMetadata

    @property
    def size_bytes(self) -> int:
        """Bytes of the segment."""
        return self.chunks.original_file_size

    @property
    def is_plain(self) -> bool:
        """Whether the object is the segment itself."""
        return not self.compressed and self.encryption is None

    @property
    def indexes_size(self) -> int:
        """Bytes of the indexes object."""
        return max((one.position + one.size for one in self.indexes.values()), default=0)


def parse_manifest(raw: bytes, *, file: str | None = None) -> Manifest:
    """Read a manifest.

    Raises:
        LogDirError: ``raw`` is not a manifest, or one of another version; the error names the object and the field.
    """
    try:
        if len(raw) > MOST_MANIFEST_BYTES:
            raise DecodeError(f"more than {MOST_MANIFEST_BYTES} bytes")
        return _manifest(parse_object(raw))
    except DecodeError as error:
        reason = f"not the manifest of a tiered segment: {error.reason}"
        raise LogDirError(reason, position=error.position, path=error.path, file=file) from None


def _manifest(top: Fields) -> Manifest:
    version = top.take("version", text)
    if version != VERSION:
        raise DecodeError(f"version {version[:20]!r}, only {VERSION!r} is known", path=("version",))
    manifest = Manifest(
        chunks=top.take("chunkIndex", lambda value: parse_chunk_index(fields(value))),
        indexes=top.take("segmentIndexes", _indexes),
        compressed=top.take("compression", boolean),
        encryption=top.take_optional("encryption", _encryption),
        metadata=top.take("remoteLogSegmentMetadata", _metadata),
    )
    top.refuse_others()
    if manifest.is_plain:
        _check_plain(manifest.chunks)
    return manifest


def _check_plain(chunks: ChunkIndex) -> None:
    """Refuse a manifest that transforms nothing and still has other chunk sizes than the segment."""
    if chunks.stored_size != chunks.original_file_size or chunks.stored_size_of(0, 1) != min(
        chunks.original_chunk_size, chunks.original_file_size
    ):
        raise DecodeError("neither compressed nor encrypted, but sizes differ", path=("chunkIndex",))


def _indexes(value: Any) -> Mapping[str, IndexRange]:
    values = fields(value)
    indexes = {name: values.take(name, _range) for name in INDEXES[:-1]}
    transaction = values.take_optional(INDEXES[-1], _range)
    values.refuse_others()
    return MappingProxyType(indexes if transaction is None else indexes | {INDEXES[-1]: transaction})


def _range(value: Any) -> IndexRange:
    values = fields(value)
    index_range = IndexRange(values.take("position", non_negative), values.take("size", non_negative))
    values.refuse_others()
    return index_range


def _encryption(value: Any) -> Encryption:
    values = fields(value)
    key_id, aad = values.take("dataKey", _data_key), values.take("aad", _base64)
    values.refuse_others()
    return Encryption(*key_id, aad)


def _data_key(value: Any) -> tuple[str, bytes]:
    key_id, colon, wrapped = text(value).partition(":")
    if not colon or not key_id or ":" in wrapped:
        raise DecodeError("not <key pair id>:<base64>")
    return key_id, _base64(wrapped)


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(text(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(f"not base64: {error}") from None


def _metadata(value: Any) -> SegmentMetadata:
    values = fields(value)
    topic_partition, topic_id, segment_id = values.take("remoteLogSegmentId", _segment_id)
    start, end = values.take("startOffset", _offset), values.take("endOffset", integer)
    if end < start:
        raise DecodeError(f"{end} is below the start offset {start}", path=("endOffset",))
    epochs = values.take("segmentLeaderEpochs", _epochs)
    if epochs and epochs[0].start_offset != start:
        reason = f"begin at offset {epochs[0].start_offset}, the segment at {start}"
        raise DecodeError(reason, path=("segmentLeaderEpochs",))
    return SegmentMetadata(
        topic_partition,
        topic_id,
        segment_id,
        start,
        end,
        max_timestamp_ms=values.take("maxTimestampMs", integer),
        broker_id=values.take("brokerId", integer),
        event_timestamp_ms=values.take("eventTimestampMs", integer),
        leader_epochs=epochs,
    )


def _segment_id(value: Any) -> tuple[TopicPartition, str, str]:
    values = fields(value)
    identified = values.take("topicIdPartition", fields)
    try:
        topic_id = identified.take("topicId", _uuid)
        named = identified.take("topicPartition", fields)
        topic, partition = named.take("topic", text), named.take("partition", non_negative)
    except DecodeError as error:
        raise error.within("topicIdPartition") from None
    return TopicPartition(topic, partition), topic_id, values.take("id", _uuid)


def _uuid(value: Any) -> str:
    if not _UUID.fullmatch(text(value)):
        raise DecodeError(f"{value[:40]!r} is not an id")
    return str(value)


def _offset(value: Any) -> int:
    if integer(value) < 0:
        raise DecodeError(f"{value} is not an offset")
    return int(value)


def _epochs(value: Any) -> tuple[EpochStart, ...]:
    values = fields(value)
    if not all(_EPOCH.fullmatch(name) and int(name) < 2**31 for name in values.names):
        raise DecodeError("a leader epoch is not a number")
    epochs = tuple(EpochStart(int(name), values.take(name, _offset)) for name in sorted(values.names, key=int))
    starts = [one.start_offset for one in epochs]
    if starts != sorted(starts):
        raise DecodeError("a later leader epoch begins at a lower offset")
    return epochs
