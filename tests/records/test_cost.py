"""Costs of reading: no Python call per record, and limited memory for decompression bombs and retained batches."""

import gc
import gzip
import os
import struct
import subprocess
import sys
import zlib
from functools import reduce

import pytest

import kafkaframes
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.wire.checksum import crc32c
from kafkaframes.wire.varint import write_varint


def count_calls_of_read(data):
    """Return the number of Python and C calls of a read of all columns."""
    count = 0

    def count_calls(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    list(kafkaframes.read_records(data))  # lazy imports and first calls are not counted
    gc.collect()
    gc.disable()  # the collector would call callbacks for garbage of other tests
    sys.setprofile(count_calls)
    try:
        for _ in kafkaframes.read_records(data):
            pass
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def build_batches(count, **options):
    columns = {"key": [b"key"] * count, "value": [b"value"] * count, "headers": [[("h", b"v")]] * count}
    if options.get("record_format", 2) < 2:
        del columns["headers"]
    return kafkaframes.build_records(columns, **options)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_calls_do_not_grow_with_the_number_of_records(codec):
    few, many = (count_calls_of_read(build_batches(count, codec=codec, batch_records=count)) for count in (10, 2000))
    assert many <= few + 10


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_calls_do_not_grow_with_the_number_of_uncompressed_batches(magic):
    few, many = (
        count_calls_of_read(build_batches(count, record_format=magic, batch_records=1)) for count in (10, 2000)
    )
    assert many <= few + 10


BOMB_CODE = """
import sys
import kafkaframes
kafkaframes.read_records(b"")
reader = kafkaframes.read_records(sys.argv[1], columns=["offset", "value"], limit_bytes=64 << 20)
rows = sum(batch.num_rows for batch in reader)
print(rows, [error.reason for error in reader.errors])
"""


def build_bomb(mebibytes):
    """Return a v2 batch with one record whose value has ``mebibytes`` MiB of zero bytes."""
    start, zeros = bytearray(), bytes(1 << 20)
    write_varint(start, mebibytes << 20)
    compressor = zlib.compressobj(6, zlib.DEFLATED, 31)
    head = compressor.compress(start) + compressor.flush(zlib.Z_FULL_FLUSH)
    piece = compressor.compress(zeros) + compressor.flush(zlib.Z_FULL_FLUSH)
    crc = reduce(lambda before, _: zlib.crc32(zeros, before), range(mebibytes), zlib.crc32(start))
    trailer = struct.pack("<II", crc, len(start) + (mebibytes << 20))
    body = head + piece * mebibytes + compressor.flush()[:-8] + trailer
    raw = bytearray(BATCH_V2.size) + body
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[16] = 2
    raw[21:23] = (1).to_bytes(2, "big")
    raw[57:61] = (1).to_bytes(4, "big")
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    return bytes(raw)


def test_a_decompression_bomb_is_read_in_limited_memory(tmp_path):
    path = tmp_path / "bomb.log"
    assert gzip.decompress(build_bomb(1)[BATCH_V2.size :])[-(1 << 20) :] == bytes(1 << 20)
    path.write_bytes(build_bomb(400))  # 1000 times its size in the file
    assert path.stat().st_size < 1 << 20
    command = f"ulimit -v {3 << 20} && exec '{sys.executable}' -c '{BOMB_CODE}' '{path}'"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=250, env=environment)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("0 ['")
    assert str(64 << 20) in process.stdout


KEEP_BATCHES_CODE = """
import sys
import kafkaframes
def resident():
    return 4096 * int(open("/proc/self/statm").read().split()[1])
data = open(sys.argv[1], "rb").read()
list(kafkaframes.read_records(data[:100_000]))
before = resident()
kept = list(kafkaframes.read_records(data))
print(resident() - before, sum(batch.nbytes for batch in kept), len(kept))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_retained_batches_use_little_more_memory_than_their_data(codec, tmp_path):
    path = tmp_path / "log"
    columns = {"key": [b"%d" % n for n in range(30_000)], "value": [b"%0400d" % (n * n) for n in range(30_000)]}
    path.write_bytes(kafkaframes.build_records(columns, codec=codec))
    process = subprocess.run(
        [sys.executable, "-c", KEEP_BATCHES_CODE, path], capture_output=True, text=True, timeout=250, check=True
    )
    resident, size, batches = map(int, process.stdout.split())
    assert batches > 5
    assert resident < 1.5 * size + (4 << 20)
