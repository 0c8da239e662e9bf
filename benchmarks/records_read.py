"""Measure how many records per second are read per core, compared with kafka-python, aiokafka and kio on the same
bytes.

Run:   python benchmarks/records_read.py [--quick] [--only v2-100B] [--codec lz4]
Saves: benchmarks/results/records_read.md, of which each measured row is replaced

CPU seconds of one process, the best of several rounds, CRCs checked by all. We give Arrow record batches with all six
default columns, each handed on before the next; the peers fill five lists a batch (offset, timestamp, key, value,
headers), each dropped before the next ("lists"), or drop each record at once ("dropped"). Batches differ throughout:
one repeated batch flatters every decompressor. aiokafka's records are all compared with ours first, the others'
in part.

The bound is a reader in Python that does not look at the records: the best decompressor there is for Python, called
once a batch, plus the CRC and one copy of the decompressed bytes. It counts what its calls cost (a microsecond or two a
batch: most of it for LZ4 and without compression), which a kernel that calls the C libraries does not pay; so 100 % can
be surpassed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
import deflate
import google_crc32c
import lz4.frame
import zstandard

import kafkaframes
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.scan import scan_batches

RESULTS_FILE = Path(__file__).parent / "results" / "records_read.md"
DATE, MACHINE = "2026-11-21", "2 cores shared"
TARGET_RATES = {"none": 20.0, "gzip": 4.3, "snappy": 7.0, "lz4": 10.0, "zstd": 4.9}
TARGET_AIOKAFKA_RATIOS = {"none": 9.0, "gzip": 4.0, "snappy": 4.0, "lz4": 5.0, "zstd": 2.5}
TARGET_BOUND_SHARES = {"none": 0.45, "gzip": 0.90, "snappy": 0.70, "lz4": 0.70, "zstd": 0.85}
OLD_TARGET_AIOKAFKA_RATIOS = {"none": 4.0, "gzip": 2.5, "snappy": 2.0, "lz4": 2.7}


class DataSet(NamedTuple):
    """One row group of the table: format, value size, and records per batch."""

    name: str
    magic: int
    value_bytes: int
    batch_records: int
    codecs: tuple[str, ...]
    megabytes: float  # of values, per codec


DATA_SETS = (
    DataSet("v2-100B", 2, 100, 120, ("none", "gzip", "snappy", "lz4", "zstd"), 24),
    DataSet("v2-1KiB", 2, 1024, 15, ("none", "gzip", "snappy", "lz4", "zstd"), 12),
    DataSet("v2-100B-5000", 2, 100, 5000, ("none", "gzip", "snappy", "lz4", "zstd"), 12),
    DataSet("v2-one-record", 2, 100, 1, ("none",), 8),
    DataSet("v1-100B", 1, 100, 120, ("none", "gzip", "snappy", "lz4"), 12),
    DataSet("v0-100B", 0, 100, 120, ("none", "gzip", "snappy"), 8),
)


def build_data(data_set: DataSet, codec: str, share: float) -> tuple[bytes, int]:
    """Build the bytes; the values are different JSON texts of exactly ``value_bytes``."""
    random_ = random.Random(7)
    count = max(int(data_set.megabytes * share * 1e6 / data_set.value_bytes), 2 * data_set.batch_records)
    values, keys = [], []
    for number in range(count):
        order = f'{{"order_id":{number},"customer":"c{random_.randrange(99999):05}","amount":{random_.random():.4f}'
        order += f',"status":"{random_.choice(("new", "paid", "sent", "back"))}","note":"'
        while len(order) < data_set.value_bytes - 2:
            order += f"{random_.getrandbits(32):08x} "
        values.append((order[: data_set.value_bytes - 2] + '"}').encode())
        keys.append(b"key-%d" % random_.randrange(10**6))
    columns: dict[str, Any] = {
        "key": keys,
        "value": values,
        "timestamp": [1_700_000_000_000 + number for number in range(count)],
    }
    if data_set.magic == 2:  # every fourth record has two headers
        headers = [("source", b"bench"), ("trace", b"0123456789abcdef")]
        columns["headers"] = [headers if number % 4 == 0 else [] for number in range(count)]
    data = kafkaframes.build_records(
        columns, record_format=data_set.magic, codec=codec, batch_records=data_set.batch_records, batch_bytes=1 << 30
    )
    return data, count


# ------------------------------------------------------------------------------------------------ readers


def read_with_ours(data: bytes) -> Iterator[list[Any]]:
    """Yield the records as Arrow batches of this package."""
    for batch in kafkaframes.read_records(data, on_damage="fail"):
        yield [batch]


def _make_lists(records: Any) -> list[Any]:
    """Return the fields of records as lists."""
    offsets, stamps, keys, values, headers = [], [], [], [], []
    for record in records:
        offsets.append(record.offset)
        stamps.append(record.timestamp)
        keys.append(record.key)
        values.append(record.value)
        headers.append(record.headers)
    return [offsets, stamps, keys, values, headers]


def _read_with_client(module: Any, data: bytes) -> Iterator[Any]:
    records = module.MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise ValueError("CRC")
        yield batch


def read_with_aiokafka(data: bytes) -> Iterator[list[Any]]:
    """Read batches to lists with aiokafka."""
    from aiokafka.record import memory_records

    return map(_make_lists, _read_with_client(memory_records, data))


def read_with_aiokafka_without_lists(data: bytes) -> Iterator[list[Any]]:
    from aiokafka.record import memory_records

    for batch in _read_with_client(memory_records, data):
        for _ in batch:
            pass
        yield []


def read_with_kafka_python(data: bytes) -> Iterator[list[Any]]:
    """Read batches to lists with kafka-python."""
    from kafka.record import memory_records

    return map(_make_lists, _read_with_client(memory_records, data))


def read_with_kio(data: bytes) -> Iterator[list[Any]]:
    """Read batches to lists with kio."""
    from kio.records.readers import read_batch

    position = 0
    while position < len(data):
        batch, size = read_batch(data, position)
        position += size
        yield _make_lists(batch.records)


PEER_READERS: dict[str, Callable[[bytes], Iterator[list[Any]]]] = {
    "aiokafka lists": read_with_aiokafka,
    "aiokafka dropped": read_with_aiokafka_without_lists,
    "kafka-python": read_with_kafka_python,
    "kio": read_with_kio,
}


def is_readable(peer: str, data_set: DataSet, codec: str) -> bool:
    """Return whether the peer can read this (kio: only uncompressed format 2)."""
    return peer != "kio" or (data_set.magic == 2 and codec == "none")


# -------------------------------------------------------------------------------------------------- bound


def _decompress_gzip(payload: bytes) -> bytes:
    """libdeflate: a quarter faster here than ISA-L (``isal_zlib.decompress``), three times as fast as zlib."""
    return deflate.gzip_decompress(payload, int.from_bytes(payload[-4:], "little"))


def _decompress_snappy(payload: bytes) -> bytes:
    out = bytearray()
    position = 16  # after xerial's header
    while position < len(payload):
        size = int.from_bytes(payload[position : position + 4], "big")
        out += cramjam.snappy.decompress_raw(payload[position + 4 : position + 4 + size])
        position += 4 + size
    return bytes(out)


def make_bound_run(data: bytes, codec: str) -> Callable[[], None]:
    unzstd = zstandard.ZstdDecompressor().decompress
    steps: dict[str, Callable[[bytes], bytes]] = {
        "none": lambda payload: payload,
        "gzip": _decompress_gzip,
        "snappy": _decompress_snappy,
        "lz4": lz4.frame.decompress,
        "zstd": lambda payload: unzstd(payload, max_output_size=4 << 20),
    }
    decompress, extend, crc_start = steps[codec], google_crc32c.extend, BATCH_V2.end_of("crc")
    batches = scan_batches(data)
    spans = list(zip(batches.column("position").tolist(), batches.column("size").tolist(), strict=True))

    def run() -> None:
        for start, size in spans:
            extend(0, data[start + crc_start : start + size])
            bytearray(decompress(data[start + BATCH_V2.size : start + size]))

    return run


# ------------------------------------------------------------------------------------------------ measure


def time_run(run: Callable[[], None]) -> float:
    """Return the CPU seconds of a run."""
    start_s = time.process_time()
    run()
    return time.process_time() - start_s


def make_drain_run(reader: Callable[[bytes], Iterator[list[Any]]], data: bytes) -> Callable[[], None]:
    def run() -> None:
        for _ in reader(data):
            pass

    return run


def compare_values(peer: str, data: bytes, magic: int) -> None:
    """Compare all records of a peer with this package's."""
    mine = [
        row
        for (batch,) in read_with_ours(data)
        for row in zip(*(column.to_pylist() for column in _plain(batch)), strict=True)
    ]
    theirs = [row for lists in PEER_READERS[peer](data) for row in zip(*lists, strict=True)]
    assert len(mine) == len(theirs), (peer, len(mine), len(theirs))
    for (offset, stamp, key, value, headers), other in zip(mine, theirs, strict=True):
        assert (offset, key, value) == (other[0], other[2], other[3]), (peer, offset)
        if peer != "kio":  # the peer truncates timestamps to whole seconds
            assert stamp == (-1 if other[1] is None else other[1]), (peer, offset, stamp, other[1])
            assert [(h["key"], h["value"]) for h in headers] == list(other[4]), (peer, offset)


def _plain(batch: Any) -> list[Any]:
    return [batch["offset"], batch["timestamp"].cast("int64"), batch["key"], batch["value"], batch["headers"]]


def measure_rates(data_set: DataSet, codec: str, *, rounds: int, share: float) -> dict[str, float]:
    """Return millions of records per second by reader, ``bytes``, and ``bound``."""
    data, count = build_data(data_set, codec, share)
    small, _ = build_data(data_set._replace(megabytes=0), codec, share)
    rates = {"bytes": float(len(data))}
    runs = {"ours": make_drain_run(read_with_ours, data)}
    if data_set.magic == 2 and data_set.batch_records > 1:
        runs["bound"] = make_bound_run(data, codec)
    for peer, reader in PEER_READERS.items():
        if not is_readable(peer, data_set, codec):
            continue
        if peer != "aiokafka dropped":
            compare_values(peer, data if peer == "aiokafka lists" else small, data_set.magic)
        runs[peer] = make_drain_run(reader, data)
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds):  # in turn, so that a disturbance affects all of them
        for name, run in runs.items():
            slow = name in ("kafka-python", "kio")
            for _ in range(0 if slow and number else 3 if name in ("ours", "bound") else 1):
                best[name] = min(best[name], time_run(run))
    return rates | {name: count / best_s / 1e6 for name, best_s in best.items()}


def format_row(data_set: DataSet, codec: str, rates: dict[str, float]) -> str:
    """Return the table row of a data set and codec."""

    def cell(name: str) -> str:
        return f"{rates[name]:.2f}" if name in rates else "-"

    ratio = rates["ours"] / rates["aiokafka lists"]
    share = f"{rates['ours'] / rates['bound']:.0%}" if "bound" in rates else "-"
    size, stored_mb = data_set.value_bytes * rates["ours"], rates["bytes"] / 1e6
    cells = [data_set.name, codec, f"{stored_mb:.0f}", f"{rates['ours']:.2f}", f"{size:.0f}", cell("aiokafka lists")]
    cells += [f"**{ratio:.1f}**", *map(cell, ("aiokafka dropped", "kafka-python", "kio", "bound"))]
    return f"| {' | '.join([*cells, share, format_goal(data_set, codec)])} |"


def format_goal(data_set: DataSet, codec: str) -> str:
    """Return the goals for a data set and codec as text."""
    if data_set.name == "v2-100B":
        share = f"{TARGET_BOUND_SHARES[codec]:.0%}"
        return f"{TARGET_RATES[codec]} M/s, {TARGET_AIOKAFKA_RATIOS[codec]}x, {share} of the bound"
    if data_set.name == "v2-one-record":
        return "3.0 M/s, 2.0x"
    if data_set.magic < 2:
        return f"{OLD_TARGET_AIOKAFKA_RATIOS[codec]}x"
    return ""


COLUMN_NAMES = (
    "data",
    "codec",
    "MB stored",
    "kafkaframes",
    "MB/s of values",
    "aiokafka lists",
    "times",
    "aiokafka dropped",
)
COLUMN_NAMES += ("kafka-python", "kio", "bound", "of the bound", "goal")
RESULTS_HEAD = """# Reading records, M records/s per core

`python benchmarks/records_read.py`, {date}, {machine}, Python {python}. {total} MB as stored, all batches different;
aiokafka's records all compared with ours, the others' in part. What the bound is, the script says.

{names}
{rule}
{rows}
"""


def save_results(rows: dict[tuple[str, str], str]) -> None:
    """Write the page; rows that were not measured in this run and the notes are unchanged."""
    before, _, notes = (RESULTS_FILE.read_text() if RESULTS_FILE.exists() else "").partition("\n## ")
    for line in before.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == len(COLUMN_NAMES) + 2:
            rows.setdefault((cells[1], cells[2]), line)
    lines = [
        rows[key] for data_set in DATA_SETS for codec in data_set.codecs if (key := (data_set.name, codec)) in rows
    ]
    text = RESULTS_HEAD.format(
        date=DATE,
        machine=MACHINE,
        python=sys.version.split()[0],
        total=sum(int(line.split("|")[3]) for line in lines),
        names="| " + " | ".join(COLUMN_NAMES) + " |",
        rule="|---" * len(COLUMN_NAMES) + "|",
        rows="\n".join(lines),
    )
    RESULTS_FILE.write_text(text + (f"\n## {notes}" if notes else ""))
    print(f"saved {RESULTS_FILE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="use a tenth of the data, and save nothing")
    parser.add_argument("--only", help="name of a data set")
    parser.add_argument("--codec", help="one codec's name")
    options = parser.parse_args()
    rounds, share = (2, 0.1) if options.quick else (5, 1.0)
    rows: dict[tuple[str, str], str] = {}
    for data_set in DATA_SETS:
        for codec in data_set.codecs:
            if options.only in (None, data_set.name) and options.codec in (None, codec):
                rows[data_set.name, codec] = format_row(
                    data_set, codec, measure_rates(data_set, codec, rounds=rounds, share=share)
                )
                print(rows[data_set.name, codec], flush=True)
    if not options.quick:
        save_results(rows)


if __name__ == "__main__":
    main()
