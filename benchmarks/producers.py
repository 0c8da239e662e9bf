"""Measure whether batches of other producers are read as fast as this package's batches, and on the fast path.

Run:    python benchmarks/producers.py [--written DIR] [--captures DIR] [--logs DIR] [--records 60000]
Values: python benchmarks/producers.py --values FILE    (what the clients below are to write)
Saves:  benchmarks/results/producers.md

Two tables. Speed: the same records in batches of 120, written by each client and by us, are read with all six default
columns; aiokafka and kafka-python write in this process, with their own builders. What other clients wrote is given as
``--written``: a log directory of any broker with a partition ``<client>-<codec>-0`` for each, into which the lines of
``--values`` were sent with the keys k0, k1, ... and the timestamp 10^12, 120 records a batch. Both sides are read in
turns in one run, and the result is the minimum CPU time of many rounds. Decompression alone is measured in the same
way: another compressor creates another stream of the same records, and any reader takes longer for a denser one.

Share: batches found in captures and logs, and how many of them the fast path took.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import math
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import zstandard
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

import kafkaframes
from kafkaframes.records._kernels_codecs import LZ4_DECOMPRESS
from kafkaframes.records.codecs import Codec
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.decode import open_sections
from kafkaframes.records.fused import FusedReader
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.native import load_functions
from kafkaframes.records.scan import FILE, MemorySource, as_array, check_crcs, scan_all

RESULTS_FILE = Path(__file__).parent / "results" / "producers.md"
BATCH_RECORDS = 120
ROUNDS = 60
MIN_RATIO = 0.85  # minimum speed relative to batches of this package
LZ4_TABLE = (
    "LZ4: what the C function alone takes for the blocks (called from Python, which costs each the same), and opening",
    "the batches with all that belongs to it. Where the last two columns agree, what a writer costs beyond ours is the",
    "library's own time for a stream of more sequences; aiokafka's blocks have checksums, which Kafka compares, too.",
    "",
    "| written by | bytes a record | sequences | C alone, ns | opening, ns | C / ours | opening / ours |",
    "|---|---|---|---|---|---|---|",
)


def make_values(count: int) -> list[bytes]:
    """Make JSON values of 100 bytes, no two alike."""
    choose = random.Random(7)
    value_list = []
    for number in range(count):
        order = f'{{"order_id":{number},"customer":"c{choose.randrange(99999):05}","amount":{choose.random():.4f}'
        value_list.append((order + f',"note":"{choose.getrandbits(128):032x}')[:98].encode() + b'"}')
    return value_list


def write_with_ours(codec: Codec, some: list[bytes], level: int | None = None) -> bytes:
    """Write with this package."""
    columns = {"key": [b"k%d" % n for n in range(len(some))], "value": some, "timestamp": [10**12] * len(some)}
    return kafkaframes.build_records(
        columns, codec=int(codec), level=level, batch_records=BATCH_RECORDS, batch_bytes=1 << 20
    )


def _build_batch(make: Callable[[], Any], some: list[bytes]) -> bytes:
    parts = []
    for start in range(0, len(some), BATCH_RECORDS):
        builder = make()
        for place, value in enumerate(some[start : start + BATCH_RECORDS]):
            key = b"k%d" % (start + place)
            builder.append(place, timestamp=10**12, key=key, value=value, headers=[])
        parts.append(bytes(builder.build()))
    return b"".join(parts)


def write_with_aiokafka(codec: Codec, some: list[bytes]) -> bytes:
    """Write with aiokafka's builder."""
    return _build_batch(lambda: DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 1 << 20), some)


def write_with_kafka_python(codec: Codec, some: list[bytes]) -> bytes:
    """Write with kafka-python's builder."""
    return _build_batch(lambda: KafkaPythonBuilder(2, int(codec), False, -1, -1, -1, 1 << 20), some)


WRITERS = {"kafkaframes": write_with_ours, "aiokafka": write_with_aiokafka, "kafka-python": write_with_kafka_python}


class GeneralPathCounter:
    """Counts the batches that do not take the fast path while the context is active."""

    def __enter__(self) -> GeneralPathCounter:
        self.odd, self._careful = 0, FusedReader._decompress_general

        def careful(maker: FusedReader, *arguments: Any) -> Any:
            self.odd += 1
            return self._careful(maker, *arguments)

        FusedReader._decompress_general = careful  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        FusedReader._decompress_general = self._careful  # type: ignore[method-assign]


def read_all_records(data: bytes) -> int:
    """Read all records with the default columns, without keeping the Arrow batches."""
    return sum(batch.num_rows for batch in RecordReader(MemorySource(as_array(data)), ReadOptions()))


def read_with_aiokafka(data: bytes) -> int:
    """Read all records into five lists a batch, CRC checked, with aiokafka."""
    count, position = 0, 0
    while position < len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        batch = DefaultRecordBatch(data[position:end])
        assert batch.validate_crc()
        fields: tuple[list[Any], ...] = ([], [], [], [], [])
        for one in batch:
            for column, value in zip(fields, (one.offset, one.timestamp, one.key, one.value, one.headers), strict=True):
                column.append(value)
        count, position = count + len(fields[0]), end
    return count


class ReadCosts(NamedTuple):
    """CPU nanoseconds a record: of reading it into columns, of decompressing alone, and of aiokafka's reading."""

    read: float
    opened: float
    aiokafka: float


def measure_costs(data: dict[str, bytes], records: int) -> dict[str, ReadCosts]:
    """Measure all in turn, so that a disturbance affects all of them."""
    scanned_batches = {name: (as_array(raw), scan_all(as_array(raw), rules=FILE)) for name, raw in data.items()}
    costs_by_name = {name: [math.inf] * 3 for name in data}
    for number in range(ROUNDS):
        for name, raw in data.items():
            calls = [
                partial(read_all_records, raw),
                partial(open_sections, *scanned_batches[name]),
                partial(read_with_aiokafka, raw),
            ]
            for place, call in enumerate(calls[: 3 if number < 2 else 2]):
                start = time.process_time()
                call()
                costs_by_name[name][place] = min(
                    costs_by_name[name][place], (time.process_time() - start) / records * 1e9
                )
    return {name: ReadCosts(*some) for name, some in costs_by_name.items()}


def write_with_clients(codec: Codec, some: list[bytes], directory: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yield the batches that each client has written."""
    for name, write in WRITERS.items():
        try:
            yield name, write(codec, some)
        except Exception as error:  # the client does not support this codec
            print(f"{name} does not write {codec.name.lower()}: {type(error).__name__}")
    for partition in sorted(directory.glob(f"*-{codec.name.lower()}-0")) if directory else []:
        raw = b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
        if raw and read_all_records(raw) == len(some):
            yield partition.name.removesuffix(f"-{codec.name.lower()}-0"), raw
        elif raw:
            print(f"{partition.name} has {read_all_records(raw)} records, not {len(some)}: left out")


def measure_speeds(count: int, directory: Path | None) -> Iterator[str]:
    """Measure each writer's batches compared with this package's, codec by codec."""
    some = make_values(count)
    for codec in Codec:
        data = dict(write_with_clients(codec, some, directory))
        costs_by_name = measure_costs(data, count)
        own = costs_by_name["kafkaframes"]
        for name, raw in data.items():
            with GeneralPathCounter() as counter:
                read_all_records(raw)
            share, client_costs = 1 - counter.odd / len(scan_all(as_array(raw), rules=FILE)), costs_by_name[name]
            streams = f"{client_costs.opened:.0f} / {own.opened:.0f}" if codec else "-"
            beside = own.read / client_costs.read
            is_slow = "" if beside >= MIN_RATIO else " (decompressing)" if _is_stream(client_costs, own) else " (!)"
            yield (
                f"| {name} | {codec.name.lower()} | {len(raw) / count:.0f} | {share:.1%} "
                f"| {1e3 / client_costs.read:.1f} | {client_costs.read:.0f} / {own.read:.0f} "
                f"| {beside:.0%}{is_slow} | {streams} | {client_costs.aiokafka / client_costs.read:.1f} |"
            )


def _is_stream(client_costs: ReadCosts, own: ReadCosts) -> bool:
    """Return whether the difference is explained by a longer decompression of the streams."""
    return own.read / (client_costs.read - (client_costs.opened - own.opened)) >= MIN_RATIO


def measure_lz4(count: int, directory: Path | None) -> Iterator[str]:
    """Measure the time of LZ4's C function for each writer's blocks, which is the lower bound for every reader."""
    some = make_values(count)
    data = dict(write_with_clients(Codec.LZ4, some, directory))
    data["kafkaframes, level 3"] = write_with_ours(Codec.LZ4, some, level=3)
    blocks_by_name, costs_by_name = (
        {name: _list_lz4_blocks(raw) for name, raw in data.items()},
        measure_costs(data, count),
    )
    alone = dict.fromkeys(data, math.inf)
    for _ in range(ROUNDS):
        for name, (blocks, _) in blocks_by_name.items():
            alone[name] = min(alone[name], _time_lz4(blocks) / count * 1e9)
    for name, raw in data.items():
        open_s, own = costs_by_name[name].opened, costs_by_name["kafkaframes"].opened
        yield (
            f"| {name} | {len(raw) / count:.0f} | {blocks_by_name[name][1] / count:.1f} | {alone[name]:.1f} "
            f"| {open_s:.1f} | {alone[name] - alone['kafkaframes']:+.1f} | {open_s - own:+.1f} |"
        )


def _time_lz4(blocks: list[tuple[int, int]]) -> float:
    """Call the function that the reader's kernels call, block by block, from Python; return the CPU time."""
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int] * 2)(load_functions()[LZ4_DECOMPRESS])
    out = ctypes.create_string_buffer(1 << 22)
    to, start = ctypes.addressof(out), time.process_time()
    for address, size in blocks:
        call(address, to, size, 1 << 22)
    return time.process_time() - start


def _list_lz4_blocks(raw: bytes) -> tuple[list[tuple[int, int]], int]:
    """Return address and size of each compressed block, and how many sequences they have."""
    data, blocks, sequences = as_array(raw), [], 0
    table = scan_all(data, rules=FILE)
    for position in table.column("position").tolist():
        place = position + BATCH_V2.size + 7 + (raw[position + BATCH_V2.size + 4] & 8)
        while word := int.from_bytes(raw[place : place + 4], "little"):
            size = word & 0x7FFF_FFFF
            if word == size:  # else it is stored as it is
                blocks.append((data.ctypes.data + place + 4, size))
                sequences += _count_sequences(raw[place + 4 : place + 4 + size])
            place += 4 + size + (4 if raw[position + BATCH_V2.size + 4] & 16 else 0)
    return blocks, sequences


def _count_sequences(block: bytes) -> int:
    """Count the sequences of an LZ4 block: a token, literals, the offset of a match, its length."""
    count, place = 0, 0
    while place < len(block):
        token, count = block[place], count + 1
        literals, place = _read_lz4_length(block, token >> 4, place + 1)
        place += literals + 2
        if place < len(block):
            _, place = _read_lz4_length(block, token & 15, place)
    return count


def _read_lz4_length(block: bytes, length: int, place: int) -> tuple[int, int]:
    """Return a length and where it ends: with a token's four bits full it goes on in bytes, up to one below 255."""
    more = 255 if length == 15 else 0
    while more == 255:
        more = block[place]
        length, place = length + more, place + 1
    return length, place


def _unpack_file(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(raw)
    return zstandard.ZstdDecompressor().stream_reader(raw).read() if path.suffix == ".zst" else raw


def find_batches(raw: bytes) -> Iterator[bytes]:
    """Find complete batches of format 2 with a valid CRC."""
    place = raw.find(b"\x02", 16)
    while place >= 0:
        start = place - 16
        size = 12 + int.from_bytes(raw[start + 8 : start + 12], "big")
        piece = raw[start : start + size]
        if 61 < size <= 1 << 20 and len(piece) == size:
            batch_table = scan_all(as_array(piece))
            if len(batch_table) == 1 and check_crcs(piece, batch_table)[0]:
                yield piece
                place += size - 17
        place = raw.find(b"\x02", place + 1)


def measure_shares(sources: dict[str, list[bytes]]) -> Iterator[str]:
    """Return for each source and codec how many batches took the fast path."""
    for name, batches in sources.items():
        by_codec: dict[int, list[bytes]] = {}
        for batch in batches:
            by_codec.setdefault(batch[22] & 7, []).append(batch)
        for codec, some in sorted(by_codec.items()):
            with GeneralPathCounter() as counter:
                count = sum(read_all_records(batch) for batch in some)
            share = 1 - counter.odd / len(some)
            yield f"| {name} | {Codec(codec).name.lower()} | {len(some)} | {count} | {share:.1%} |"


def collect_sources(captures: Path | None, logs: Path | None) -> dict[str, list[bytes]]:
    """Collect batches of captures by file, and of logs by case."""
    batches_by_source: dict[str, list[bytes]] = {}
    for path in sorted(captures.glob("*.pcap*")) if captures else []:
        name = path.name.split(".")[0]
        if not name.startswith(("mangled", "snaplen", "rotated", "one-direction")):
            batches_by_source[f"capture {name}"] = list(find_batches(_unpack_file(path)))
    for case in sorted(logs.iterdir()) if logs else []:
        if case.is_dir() and not case.name.startswith(("unclean", "preallocated")):
            batches = []
            for segment in case.rglob("*.log"):
                raw = segment.read_bytes()
                table = scan_all(as_array(raw), rules=FILE)
                places = zip(*(table.column(one).tolist() for one in ("position", "size", "magic")), strict=True)
                batches += [raw[at : at + size] for at, size, magic in places if magic == 2]
            batches_by_source[f"log {case.name}"] = batches
    return {name: batches for name, batches in batches_by_source.items() if batches}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=Path)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--written", type=Path)
    parser.add_argument("--values", type=Path, help="write the values to this file, one per line, and do nothing else")
    parser.add_argument("--records", type=int, default=60_000)
    options = parser.parse_args()
    if options.values:
        options.values.write_bytes(b"\n".join(make_values(options.records)))
        return
    lines = [
        "# Batches of real producers",
        "",
        f"Made by `benchmarks/producers.py`; {options.records:,} records with 100-byte values, 120 a batch, six",
        "columns, CPU time of one core of a shared machine (2026-11-22). Relative to ours: the same records in",
        f"our batches, read in turns in the same run. Below {MIN_RATIO:.0%}, the column has the reason:",
        "`decompressing` if only the C library takes longer for the other compressor's stream (and its",
        "checksums), otherwise `(!)`. aiokafka reads the same bytes into five lists per batch.",
        "",
        "| written by | codec | bytes a record | fast path | M records/s | ns a record / ours | relative to ours "
        "| decompressing, ns / ours | times aiokafka |",
        "|---|---|---|---|---|---|---|---|---|",
        *measure_speeds(options.records, options.written),
        "",
        *LZ4_TABLE,
        *measure_lz4(options.records, options.written),
        "",
        "| found in | codec | batches | records | fast path |",
        "|---|---|---|---|---|",
        *measure_shares(collect_sources(options.captures, options.logs)),
    ]
    print("\n".join(lines))
    RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
