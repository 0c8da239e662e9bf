"""Vectors of records: batches of each format and codec, undamaged and damaged, with the expected records.

Vectors of keys, with their partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafkaframes.records.batch import Batch, BatchWalk, Record, read_batches
from kafkaframes.records.build import build_empty_batch, build_end_transaction, build_records
from kafkaframes.records.partitioner import murmur2, partition_of
from kafkaframes.storage.files.names import coordinator_partition

Row = dict[str, Any]
_CODECS_BY_OLD_RECORD_FORMAT: Final = {0: ("none", "gzip", "snappy", "lz4"), 1: ("none", "gzip", "snappy", "lz4")}
_ALL_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_TIMESTAMP_MS: Final = 1_700_000_000_000
_ATTRIBUTES_POSITION_BY_FORMAT: Final = {0: 17, 1: 17, 2: 22}
_SAMPLE_VALUES: Final = (
    b"",
    b"a",
    b"21",
    b"foobar",
    b"a-little-bit-long-string",
    b"twelve bytes",
    b"a key of forty-one bytes, which is no four",
)
_SAMPLE_KEYS: Final = (*_SAMPLE_VALUES, b"\x00\xff\x80\x7f", bytes(range(256)))
_SAMPLE_GROUP_IDS: Final = ("", "a", "billing", "Zürich", "𝄞", "a-group-with-a-long-name-0123456789" * 3)


def generate_record_files() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each record set."""
    for record_format in (0, 1, 2):
        for codec in _CODECS_BY_OLD_RECORD_FORMAT.get(record_format, _ALL_CODECS):
            yield f"v{record_format}-{codec}", _build_ordinary_batch(record_format, codec)
    yield from _generate_format_2_batches()
    yield from _generate_damaged_batches()


def _build_ordinary_batch(record_format: int, codec: str) -> bytes:
    count = 40
    columns: dict[str, list[Any]] = {
        "offset": [1_000 + index for index in range(count)],
        "timestamp": [_TIMESTAMP_MS + index * 7 for index in range(count)],
        "key": [None if index % 5 == 0 else b"key-%d" % (index % 4) for index in range(count)],
        "value": [None if index % 7 == 3 else b"v" * (index * 9) for index in range(count)],
    }
    if record_format == 0:
        columns["timestamp"] = [-1] * count
    if record_format == 2:
        columns["headers"] = [_build_headers(index) for index in range(count)]
    return build_records(columns, record_format=record_format, codec=codec, batch_records=25)


def _build_headers(index: int) -> list[dict[str, Any]]:
    """Return a record's headers: none to three, depending on its index."""
    example_headers = (
        {"key": "trace", "value": b"\x00\x01"},
        {"key": "", "value": b""},
        {"key": "Zürich", "value": None},
    )
    return list(example_headers[: index % 4])


def _generate_format_2_batches() -> Iterator[tuple[str, bytes]]:
    entry = {"value": [b"a", b"b"], "timestamp": [_TIMESTAMP_MS, _TIMESTAMP_MS + 5]}
    yield "v2-idempotent", build_records(entry, producer_id=7, producer_epoch=2, base_sequence=2**31 - 1)
    yield "v2-transactional", build_records(entry, producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)
    for name, commit in (("commit", True), ("abort", False)):
        yield (
            f"v2-{name}",
            build_end_transaction(
                12, commit=commit, timestamp=_TIMESTAMP_MS, producer_id=7, producer_epoch=2, coordinator_epoch=3
            ),
        )
    yield (
        "v2-log-append-time",
        build_records(entry | {"timestamp": [_TIMESTAMP_MS, _TIMESTAMP_MS]}, timestamp_type="LogAppendTime"),
    )
    yield "v2-delete-horizon", build_records(entry, delete_horizon_ms=_TIMESTAMP_MS + 1_000)
    yield "v2-no-records", build_empty_batch(40, 44, max_timestamp=_TIMESTAMP_MS)
    far = {"offset": [0, 2**31 - 1], "timestamp": [0, 2**62], "value": [b"", b""]}
    yield "v2-far-apart", build_records(far)
    holes = {"offset": [5, 9, 10, 300], "value": [b"a", b"b", b"c", b"d"]}
    yield "v2-holes", build_records(holes)
    yield "v1-holes-in-a-wrapper", build_records(holes, record_format=1, codec="gzip")
    yield "mixed-formats", b"".join(_build_ordinary_batch(record_format, "gzip") for record_format in (0, 1, 2))


def _generate_damaged_batches() -> Iterator[tuple[str, bytes]]:
    for record_format in (0, 1, 2):
        data = _build_ordinary_batch(record_format, "lz4")
        flipped_bytes = bytearray(data)
        flipped_bytes[len(data) // 3] ^= 0x10
        yield f"v{record_format}-a-bit-flipped", bytes(flipped_bytes)
        yield f"v{record_format}-cut", data[:-9]
        codec = bytearray(data)
        codec[_ATTRIBUTES_POSITION_BY_FORMAT[record_format]] |= 7
        yield f"v{record_format}-unknown-codec", bytes(codec)
    yield "unknown-magic", b"".join((bytes(7), b"\x01", (40).to_bytes(4, "big"), bytes(4), b"\x09", bytes(35)))


def describe_record_set(data: bytes) -> Row:
    """Return what a reader must find in a record set: the batches with records, and why reading ends."""
    walk = read_batches(data)
    batches = [_describe_batch(batch) for batch in walk]
    return {"batches": batches, **_describe_end(walk, len(data))}


def _describe_end(walk: BatchWalk, size: int) -> Row:
    end = walk.end
    return {} if end is None or end.position >= size else {"ends_at": end.position, "because": end.reason}


def _describe_batch(batch: Batch) -> Row:
    result = {
        "position": batch.position,
        "size": batch.size,
        "magic": batch.magic,
        "crc_ok": batch.valid,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "codec": batch.codec,
        "timestamp_type": batch.timestamp_type,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "leader_epoch": batch.leader_epoch,
        "transactional": batch.transactional,
        "control": batch.control,
        "delete_horizon": batch.delete_horizon,
        "records": [_describe_record(record) for record in batch.records],
    }
    return result if batch.damage is None else result | {"error": batch.damage.reason}


def _describe_record(record: Record) -> Row:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _to_hex(record.key),
        "value": _to_hex(record.value),
        "headers": [[bytes(key).decode(), _to_hex(value)] for key, value in record.headers],
    }


def _to_hex(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).hex()


def generate_key_rows() -> Iterator[Row]:
    """Yield keys with their murmur2 hash and their partition in Kafka's default partitioner."""
    for key in _SAMPLE_KEYS:
        partitions = {str(count): partition_of(key, count) for count in (1, 3, 12, 100)}
        yield {"key": key.hex(), "murmur2": murmur2(key), "partition_of": partitions}


def generate_coordinator_rows() -> Iterator[Row]:
    """Yield groups and transactional ids with their partition of the internal topic."""
    for name in _SAMPLE_GROUP_IDS:
        yield {"id": name, "partition_of": {str(count): coordinator_partition(name, count) for count in (1, 50, 7)}}
