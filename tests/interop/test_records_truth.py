"""Kafka 3.9.1's record classes read this package's record sets identically, and fail at the same positions."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import JAR, run_java
from tests.records import streams

from kafkaframes.records import scan
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_end_transaction, build_records
from kafkaframes.records.codecs import Codec, decompress

CASES_PER_KIND = 60
FORMATS_AND_CODECS = [(magic, codec) for magic in (0, 1, 2) for codec in Codec if magic == 2 or codec is not Codec.ZSTD]
TEXTS = ("", "a", "key", "ключ", "x" * 300)
SNAPPY_CHUNK_LENGTH_REASON = "a chunk length of"


def columns_of(choose: random.Random, magic: int) -> dict[str, list[Any]]:
    count = choose.choice([1, 2, 7, 40, 300])
    offset, holes = choose.choice([0, 5, 2**40]), choose.random() < 0.5
    offsets = []
    for _ in range(count):
        offset += choose.randrange(1, 90) if holes else 1
        offsets.append(offset)

    def blobs(largest: int) -> list[bytes | None]:
        return [None if choose.random() < 0.2 else choose.randbytes(choose.randrange(largest)) for _ in range(count)]

    def headers() -> list[tuple[str, bytes | None]]:
        return [(choose.choice(TEXTS), choose.choice([None, b"", b"v"])) for _ in range(choose.randrange(3))]

    return {
        "offset": offsets,
        "timestamp": [choose.choice([-1, 0, 2**41, 1_700_000_000_000 + choose.randrange(10**6)]) for _ in offsets],
        "key": blobs(30),
        "value": blobs(choose.choice([10, 200, 5000])),
    } | ({"headers": [headers() for _ in offsets]} if magic == 2 else {})


def options_of(choose: random.Random, magic: int) -> dict[str, Any]:
    options: dict[str, Any] = {"batch_bytes": choose.choice([1, 500, 16384, 1 << 20])}
    if magic and choose.random() < 0.3:
        options["timestamp_type"] = "LogAppendTime"
    if magic < 2:
        return options
    if choose.random() < 0.4:
        options |= {"producer_id": 4000, "producer_epoch": 3, "base_sequence": choose.choice([0, 7, 2**31 - 5])}
        options["transactional"] = choose.random() < 0.5
    if choose.random() < 0.2:
        options["delete_horizon_ms"] = 1_800_000_000_000
    return options | {"leader_epoch": choose.choice([-1, 0, 12])}


def run_kafka_reader(oracle: Path, log_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """Run Kafka's reader once over a folder of partition folders. Return its output lines by folder name."""
    lines_by_folder: dict[str, list[dict[str, Any]]] = {}
    folder = ""
    for line in run_java("-jar", oracle / JAR, "--full-values", log_dir).splitlines():
        parsed_line = json.loads(line)
        # the lines of records follow their batch and do not repeat its fields
        folder = parsed_line.get("directory", folder)
        if parsed_line["type"] != "end":
            lines_by_folder.setdefault(folder, []).append(parsed_line)
    return lines_by_folder


def write(log_dir: Path, name: str, raw: bytes) -> None:
    (log_dir / name).mkdir(parents=True)
    (log_dir / name / "00000000000000000000.log").write_bytes(raw)


def text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def expected_rows(columns: dict[str, list[Any]], magic: int) -> list[tuple[Any, ...]]:
    count = len(columns["offset"])
    headers = columns.get("headers") or [[] for _ in range(count)]
    return [
        (offset, timestamp if magic else -1, text(key), text(value), [[name, text(item)] for name, item in pairs])
        for offset, timestamp, key, value, pairs in zip(
            columns["offset"], columns["timestamp"], columns["key"], columns["value"], headers, strict=True
        )
    ]


@pytest.mark.slow
def test_kafka_reads_our_batches(oracle: Path, tmp_path: Path) -> None:
    choose = random.Random(20261121)
    cases: dict[str, tuple[int, Codec, dict[str, list[Any]], dict[str, Any]]] = {}
    for number in range(CASES_PER_KIND * len(FORMATS_AND_CODECS)):
        magic, codec = FORMATS_AND_CODECS[number % len(FORMATS_AND_CODECS)]
        columns, options = columns_of(choose, magic), options_of(choose, magic)
        cases[f"case-{number}"] = magic, codec, columns, options
        write(tmp_path, f"case-{number}", build_records(columns, record_format=magic, codec=codec, **options))
    truth = run_kafka_reader(oracle, tmp_path)
    assert truth.keys() == cases.keys()
    for name, (magic, codec, columns, options) in cases.items():
        lines = truth[name]
        records = [line for line in lines if line["type"] == "record"]
        read_rows = [tuple(line[key] for key in ("offset", "timestamp", "key", "value", "headers")) for line in records]
        assert read_rows == expected_rows(columns, magic), (name, magic, codec, options)
        assert not [line for line in lines if line["type"] == "error"]
        for line in lines:
            if line["type"] == "batch":
                check_batch(line, magic, codec, options)


def check_batch(line: dict[str, Any], magic: int, codec: Codec, options: dict[str, Any]) -> None:
    kind = options.get("timestamp_type", "CreateTime") if magic else "NoTimestampType"
    assert (line["valid"], line["magic"], line["codec"], line["ts_type"]) == (True, magic, codec.name.lower(), kind)
    if magic == 2:
        assert line["producer_id"] == options.get("producer_id", -1)
        assert line["producer_epoch"] == options.get("producer_epoch", -1)
        assert line["transactional"] == options.get("transactional", False)
        assert line["leader_epoch"] == options["leader_epoch"]
        assert line["delete_horizon"] == options.get("delete_horizon_ms")


@pytest.mark.slow
def test_kafka_reads_our_markers(oracle: Path, tmp_path: Path) -> None:
    markers = [
        build_end_transaction(
            offset,
            commit=offset % 2 == 1,
            timestamp=9,
            producer_id=4,
            producer_epoch=2,
            coordinator_epoch=offset + 5,
        )
        for offset in range(4)
    ]
    write(tmp_path, "markers-0", b"".join(markers))
    lines = run_kafka_reader(oracle, tmp_path)["markers-0"]
    read_markers = [(line["control_type"], line["coordinator_epoch"]) for line in lines if line["type"] == "record"]
    assert read_markers == [("ABORT", 5), ("COMMIT", 6), ("ABORT", 7), ("COMMIT", 8)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_sets_have_the_records_that_kafka_reads(oracle: Path, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    log = bytearray()
    for number in range(1500):
        codec, count, payload = streams.choose_stream(choose)
        if SNAPPY_CHUNK_LENGTH_REASON in (decompress(codec, payload, magic=2).error or ""):
            continue  # snappy's own class throws an Error for it, which ends the Java process
        log += streams.build_batch(number * 1000, codec, count, payload)
    write(tmp_path, "damaged-0", bytes(log))
    expected_batches: list[list[Any]] = []
    for line in run_kafka_reader(oracle, tmp_path)["damaged-0"]:
        if line["type"] == "batch":
            expected_batches.append([line["base_offset"], [], None])
        elif line["type"] == "record":
            expected_batches[-1][1].append((line["offset"], line["value"]))
        else:
            expected_batches[-1][2] = line["class"]
    batches = list(read_batches(bytes(log), rules=scan.FILE))
    assert len(batches) == len(expected_batches) > 1000
    assert sum(1 for case in expected_batches if case[2]) > 300
    for batch, (base_offset, records, error) in zip(batches, expected_batches, strict=True):
        assert batch.base_offset == base_offset
        assert [(record.offset, text(record.value)) for record in batch.records] == records, (base_offset, error)
        assert (batch.damage is None) == (error is None), (base_offset, error, batch.damage)
