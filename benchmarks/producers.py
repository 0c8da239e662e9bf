"""Are batches as real producers write them read as fast as ours, and by the short way?

Run:    python benchmarks/producers.py [--captures DIR] [--logs DIR] [--megabytes 12]
Saves:  benchmarks/results/producers.md

Two tables. Speed: the same records, written by each client that writes batches in this process (aiokafka and
kafka-python by their own builders) and by us, are read with all six default columns; CPU seconds of this process, the
best of several rounds, each beside ours in the same run. Share: batches found in captures and logs (of librdkafka, the
Java client, franz-go, sarama, kafka-go, kafkajs and others), and how many of them the short way took.
"""

from __future__ import annotations

import argparse
import gzip
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

import kafkaframes
from kafkaframes.records.chunks import Memory
from kafkaframes.records.codecs import Codec
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.fused import ColumnMaker
from kafkaframes.records.scan import FILE, as_array, check_crcs, scan_all

RESULTS = Path(__file__).parent / "results" / "producers.md"
BATCH_RECORDS = 120
ROUNDS = 5


def values(megabytes: float) -> list[bytes]:
    """Make JSON values of 100 bytes, no two alike."""
    choose = random.Random(7)
    found = []
    for number in range(int(megabytes * 1e4)):
        order = f'{{"order_id":{number},"customer":"c{choose.randrange(99999):05}","amount":{choose.random():.4f}'
        found.append((order + f',"note":"{choose.getrandbits(128):032x}')[:98].encode() + b'"}')
    return found


def ours(codec: Codec, some: list[bytes]) -> bytes:
    """Write with this package."""
    columns = {"key": [b"k%d" % n for n in range(len(some))], "value": some, "timestamp": [10**12] * len(some)}
    return kafkaframes.build_records(columns, codec=int(codec), batch_records=BATCH_RECORDS, batch_bytes=1 << 20)


def _built(make: Callable[[], Any], some: list[bytes]) -> bytes:
    parts = []
    for start in range(0, len(some), BATCH_RECORDS):
        builder = make()
        for place, value in enumerate(some[start : start + BATCH_RECORDS]):
            key = b"k%d" % (start + place)
            builder.append(place, timestamp=10**12, key=key, value=value, headers=[])
        parts.append(bytes(builder.build()))
    return b"".join(parts)


def aiokafka(codec: Codec, some: list[bytes]) -> bytes:
    """Write with aiokafka's builder."""
    return _built(lambda: DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 1 << 20), some)


def kafka_python(codec: Codec, some: list[bytes]) -> bytes:
    """Write with kafka-python's builder."""
    return _built(lambda: KafkaPythonBuilder(2, int(codec), False, -1, -1, -1, 1 << 20), some)


WRITERS = {"kafkaframes": ours, "aiokafka": aiokafka, "kafka-python": kafka_python}


class Counted:
    """Counts the batches that did not take the short way while it is entered."""

    def __enter__(self) -> Counted:
        self.odd, self._careful = 0, ColumnMaker._careful

        def careful(maker: ColumnMaker, *arguments: Any) -> Any:
            self.odd += 1
            return self._careful(maker, *arguments)

        ColumnMaker._careful = careful  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        ColumnMaker._careful = self._careful  # type: ignore[method-assign]


def read(data: bytes) -> int:
    """Read all records with the default columns, each Arrow batch dropped at once."""
    return sum(batch.num_rows for batch in RecordReader(Memory(as_array(data)), ReadOptions()))


def read_by_aiokafka(data: bytes) -> int:
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


def best(run: Callable[[bytes], int], data: bytes) -> float:
    """Return records per CPU second, the best of the rounds."""
    found = 0.0
    for _ in range(ROUNDS):
        start = time.process_time()
        count = run(data)
        found = max(found, count / (time.process_time() - start))
    return found


def best_of_pair(one: bytes, other: bytes) -> tuple[float, float]:
    """Return records per CPU second of two reads, in turns: what disturbs one round disturbs both."""
    rounds = [(best(read, one), best(read, other)) for _ in range(3)]
    return max(pair[0] for pair in rounds), max(pair[1] for pair in rounds)


def speed_rows(megabytes: float) -> Iterator[str]:
    """Measure each writer's batches beside ours, codec by codec."""
    some = values(megabytes)
    for codec in Codec:
        for name, write in WRITERS.items():
            try:
                data = write(codec, some)
            except Exception as error:  # a client without this codec
                yield f"| {name} | {codec.name.lower()} | not written: {type(error).__name__} | | | |"
                continue
            with Counted() as counted:
                read(data)
            batches = len(scan_all(as_array(data)))
            share = 1 - counted.odd / batches
            own, rate = best_of_pair(ours(codec, some), data)
            peer = best(read_by_aiokafka, data)
            figures = f"{share:.1%} | {rate / 1e6:.2f} | {rate / own:.0%} | {rate / peer:.1f}"
            yield f"| {name} | {codec.name.lower()} | {figures} |"


def _unpacked(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(raw)
    return zstandard.ZstdDecompressor().stream_reader(raw).read() if path.suffix == ".zst" else raw


def batches_in(raw: bytes) -> Iterator[bytes]:
    """Find batches of format 2 with right CRCs, wherever they lie whole."""
    place = raw.find(b"\x02", 16)
    while place >= 0:
        start = place - 16
        size = 12 + int.from_bytes(raw[start + 8 : start + 12], "big")
        piece = raw[start : start + size]
        if 61 < size <= 1 << 20 and len(piece) == size:
            found = scan_all(as_array(piece))
            if len(found) == 1 and check_crcs(piece, found)[0]:
                yield piece
                place += size - 17
        place = raw.find(b"\x02", place + 1)


def share_rows(sources: dict[str, list[bytes]]) -> Iterator[str]:
    """Tell of each source and codec how many batches took the short way."""
    for name, batches in sources.items():
        by_codec: dict[int, list[bytes]] = {}
        for batch in batches:
            by_codec.setdefault(batch[22] & 7, []).append(batch)
        for codec, some in sorted(by_codec.items()):
            with Counted() as counted:
                count = sum(read(batch) for batch in some)
            share = 1 - counted.odd / len(some)
            yield f"| {name} | {Codec(codec).name.lower()} | {len(some)} | {count} | {share:.1%} |"


def sources_of(captures: Path | None, logs: Path | None) -> dict[str, list[bytes]]:
    """Collect batches of captures by file, and of logs by case."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(captures.glob("*.pcap*")) if captures else []:
        name = path.name.split(".")[0]
        if not name.startswith(("mangled", "snaplen", "rotated", "one-direction")):
            found[f"capture {name}"] = list(batches_in(_unpacked(path)))
    for case in sorted(logs.iterdir()) if logs else []:
        if case.is_dir() and not case.name.startswith(("unclean", "preallocated")):
            batches = []
            for segment in case.rglob("*.log"):
                raw = segment.read_bytes()
                table = scan_all(as_array(raw), rules=FILE)
                places = zip(*(table.column(one).tolist() for one in ("position", "size", "magic")), strict=True)
                batches += [raw[at : at + size] for at, size, magic in places if magic == 2]
            found[f"log {case.name}"] = batches
    return {name: batches for name, batches in found.items() if batches}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=Path)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--megabytes", type=float, default=12)
    options = parser.parse_args()
    lines = [
        "# Batches as real producers write them",
        "",
        "Made by `benchmarks/producers.py`; 100-byte values, 120 records a batch, six columns, CPU time of one core of",
        "a shared machine (2026-11-22). Beside ours: the same records in our batches, in the same run (another",
        "compressor makes other streams). aiokafka reads the same bytes into five lists a batch.",
        "",
        "| written by | codec | short way | M records/s | beside ours | times aiokafka |",
        "|---|---|---|---|---|---|",
        *speed_rows(options.megabytes),
        "",
        "| found in | codec | batches | records | short way |",
        "|---|---|---|---|---|",
        *share_rows(sources_of(options.captures, options.logs)),
    ]
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
