"""Run every family of kernels on invalid bytes and extreme numbers, and print a digest of each result.

``test_plain.py`` runs this module with compiled kernels and as plain Python, and compares the output.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard
from tests.protocol.messages.values import make_value
from tests.records import mutations

import kafkaframes
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.report import _kernels as report_kernels
from kafkaframes.protocol.messages import message
from kafkaframes.records.append import validate_and_assign
from kafkaframes.storage.cleaner import _kernels as cleaner_kernels
from kafkaframes.storage.partition._kernels_fetch import find_batch
from kafkaframes.wire import _kernels as wire_kernels

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "share-groups-broker43.pcap.zst"
CAPTURE_BYTES = 12_000
NUMBERS = (-(2**63), -(2**63) + 1, -(2**31) - 1, -1, 0, 2**31, 2**32 - 1, 2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1)
MESSAGES = ("ApiVersionsResponse", "FetchRequest", "FetchResponse", "MetadataResponse", "ProduceRequest")


def damage(data: bytes, seed: int) -> bytes:
    """Overwrite up to two positions with extreme numbers, and truncate some inputs."""
    rng, raw = random.Random(seed), bytearray(data)
    for _ in range(rng.randrange(3)):
        width, position = rng.choice((1, 2, 4, 8)), rng.randrange(max(len(raw), 1))
        raw[position : position + width] = (rng.choice(NUMBERS) % 2 ** (8 * width)).to_bytes(width, "big")
    return bytes(raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.1 else raw)


def rows_of(batches: Any) -> list[Any]:
    """Return the columns of batches as Python values, with timestamps as numbers."""
    return [[_plain(column).to_pylist() for column in batch.columns] for batch in batches]


def _plain(column: Any) -> Any:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def read(data: bytes) -> Any:
    names = [*kafkaframes.read_records(b"").schema.names, "key_size", "base_offset"]
    reader = kafkaframes.read_records(data, columns=names)
    return rows_of(reader), [str(error) for error in reader.errors]


def append(data: bytes, offset: int) -> Any:
    return validate_and_assign(data, offset, now_ms=1000)


def decode(name: str, version: int, data: list[bytes], mode: str) -> Any:
    array = message(name).decode_columns(data, version, mode=mode)
    valid = array.filter(array.field("_error").is_null())
    return array.to_pylist(), message(name).encode_columns(valid, version).to_pylist()


def scan_capture(data: bytes, table: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.pcap")
        path.write_bytes(data)
        batches = kafkaframes.scan_capture(path, table=table).to_arrow().to_batches()
        return repr(rows_of(batches)).replace(folder, "")


def hash_keys(keys: list[bytes]) -> Any:
    buf = np.frombuffer(b"".join(keys), np.uint8)
    sizes = np.array([len(key) for key in keys], np.int32)
    positions = np.cumsum(sizes, dtype=np.int64) - sizes
    outs = [np.zeros(2 * len(keys), np.int64) for _ in range(3)]
    report_kernels.hash_keys(buf, positions, sizes, outs[0])
    cleaner_kernels.hash_keys(buf, positions, sizes, outs[1])
    cleaner_kernels.digest_keys(buf, positions, sizes, *NUMBERS[:2], outs[2])
    ledger = np.zeros(len(keys), np.uint16)
    cleaner_kernels.fill_record_buckets(outs[2], sizes, np.ones(len(keys), np.uint8), 50, np.zeros(8, np.int64), ledger)
    return [out.tolist() for out in (*outs, ledger)]


def read_varints(data: bytes) -> Any:
    raw = np.frombuffer(data, np.uint8)
    return [
        kernel(raw, 0, raw.size) for kernel in (wire_kernels.varint_at, wire_kernels.varlong_at, wire_kernels.crc32c)
    ]


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    record = mutations.write_record(random.Random(1), 0, damage=0)
    logs = [damage(mutations.choose_log(seed, damage=0.3), seed) for seed in range(24)]
    logs += [
        mutations.build_batch_v2(record, count=1, base_offset=base, last_delta=delta)
        for base, delta in product(NUMBERS, (-1, 0, 2**31 - 1))
    ]
    for number, data in enumerate(logs):
        yield f"read {number}", partial(read, data)
        for offset in (0, 2**53 - 1, 2**62, 2**63 - 2**31):
            yield f"append {number} at {offset}", partial(append, data, offset)
        for offset in NUMBERS:
            yield f"find {offset} in {number}", partial(find_batch, data, 0, len(data), offset, NUMBERS[0], NUMBERS[-1])
    for name, mode in product(MESSAGES, ("reference", "strict")):
        versions = message(name).spec.valid_versions
        for version in (versions.lowest, versions.highest):
            values = [make_value(message(name), version, seed).encode(version) for seed in range(6)]
            data = [damage(value, seed) for seed, value in enumerate(values * 3)]
            yield f"decode {name} {version} {mode}", partial(decode, name, version, data, mode)
    packets = zstandard.ZstdDecompressor().stream_reader(CAPTURE.read_bytes()).read(CAPTURE_BYTES)
    for seed, table in product(range(3), ("calls", "gaps", "packets", "connections")):
        yield f"capture {table} {seed}", partial(scan_capture, damage(packets, seed), table)
    rng = random.Random(1)
    yield "keys", partial(hash_keys, [rng.randbytes(size) for size in (0, 1, 7, 8, 9, 16, 40)] * 2)
    for seed in range(20):
        yield f"varints {seed}", partial(read_varints, rng.randbytes(seed + 1) + b"\xff" * (seed % 11))


def main() -> None:
    """Print the name of each case and the digest of its result. A KafkaframesError is a result."""
    for name, run in cases():
        try:
            result = run()
        except KafkaframesError as error:
            result = type(error).__name__, str(error)
        print(name, hashlib.sha256(repr(result).encode()).hexdigest()[:16])


if __name__ == "__main__":
    main()
