"""The memory for decompressed data is limited: for large batches, tiny records and headers.

The large cases run in a process with limited memory (RLIMIT_AS), like ``prlimit --as``.
"""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest
import zstandard
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.records import mutations

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError
from kafkaframes.records import decode
from kafkaframes.records.reasons import MAX_HEADERS, MAX_RECORDS
from kafkaframes.records.scan import FILE, as_array, scan_all

TINY_RECORD = b"\x0c\0\0\0\x01\x01\0"  # a record of seven bytes: no key, no value, no headers
MEMORY_LIMIT_BYTES = 5 << 29  # address space, of which Python, numba, pyarrow and their libraries take 1 GiB
LOW_MEMORY_LIMIT_BYTES = 1 << 30
# By default, libraries start idle threads for each core, which take address space.
FEW_THREADS_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def compress_repeated(*parts):
    """Compress the concatenation of parts, each a pair (bytes, number of repetitions)."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    pieces = [compressor.compress(part * min(times, 1 << 16)) for part, n in parts for times in _runs(n)]
    return b"".join(pieces) + compressor.flush()


def _runs(times):
    return [1 << 16] * (times >> 16) + ([times & 0xFFFF] if times & 0xFFFF else [])


def compress_large_value(size):
    """Return a compressed records section with one value of ``size`` zero bytes."""
    head = b"\0\0\0\x01" + mutations.encode_varint(size)
    return compress_repeated((mutations.encode_varint(len(head) + size + 1) + head, 1), (b"\0", size + 1))


def compress_many_headers(count):
    head = b"\0\0\0\x01\x01" + mutations.encode_varint(count)
    return compress_repeated((mutations.encode_varint(len(head) + 2 * count) + head, 1), (b"\0\0", count))


def write_equal_batches(folder, payload, *, batches, count=1):
    """Write a log of one segment with equal batches, and return the segment's path."""
    path = folder / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    equal_batches = [
        mutations.build_batch_v2(payload, count=count, base_offset=number * count, attributes=4)
        for number in range(batches)
    ]
    path.write_bytes(b"".join(equal_batches))
    return path


def run_with_limited_memory(*arguments, size=MEMORY_LIMIT_BYTES, status=None):
    """Run Python with ``size`` bytes of address space, and return its output."""
    process = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=os.environ | FEW_THREADS_ENVIRONMENT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )
    assert "Traceback" not in process.stderr, process.stderr
    assert process.returncode in ((0, 1) if status is None else (status,)), process.stderr
    return process.stdout + process.stderr


READ_CODE = """
import kafkaframes, sys
reader = kafkaframes.read_records(sys.argv[1], columns=sys.argv[2].split(","))
print(sum(batch.num_rows for batch in reader), [error.reason for error in reader.errors])
"""
SPARK_CODE = """
import sys
from tests.scan.log.test_reading import read_rows
print(len(read_rows(sys.argv[1], "offset")))
"""
APPEND_CODE = """
import sys
from pathlib import Path
from kafkaframes.records.append import AppendRefusedError, AppendSettings, validate_and_assign
raw = Path(sys.argv[1]).read_bytes()
for settings in (AppendSettings(), AppendSettings(codec="lz4"), AppendSettings(on_noncontiguous="keep")):
    try:
        print(validate_and_assign(raw, 0, settings).next_offset)
    except AppendRefusedError as refused:
        print(refused.code.name)
"""


@pytest.fixture(scope="module")
def large_bomb_log(tmp_path_factory):
    """A log of a few kilobytes with sixteen batches that decompress to 60 MiB each."""
    return write_equal_batches(tmp_path_factory.mktemp("bombs"), compress_large_value(60 << 20), batches=16)


@pytest.fixture(scope="module")
def small_bomb_log(tmp_path_factory):
    """A log with ten batches that decompress to 60 MiB each, with gaps between their offsets, and a second segment."""
    folder, payload = tmp_path_factory.mktemp("few"), compress_large_value(60 << 20)
    path = write_equal_batches(folder, payload, batches=1)
    batches = [
        mutations.build_batch_v2(payload, count=1, base_offset=2 * number, attributes=4, last_delta=1)
        for number in range(10)
    ]
    path.write_bytes(b"".join(batches))
    path.with_name(f"{100:020}.log").write_bytes(mutations.build_batch_v2(TINY_RECORD, count=1, base_offset=100))
    return folder


@pytest.mark.parametrize("columns", ["key_size", "offset,timestamp"])
def test_batches_with_large_content_are_read_one_at_a_time(large_bomb_log, columns):
    assert run_with_limited_memory("-c", READ_CODE, large_bomb_log, columns, size=7 << 28).startswith("16 []")


@pytest.mark.parametrize("code", [SPARK_CODE, APPEND_CODE], ids=["spark", "append"])
def test_spark_and_the_append_path_stay_within_the_budget(large_bomb_log, code):
    assert run_with_limited_memory("-c", code, large_bomb_log if code is APPEND_CODE else large_bomb_log.parent.parent)


COMMAND_LINES = {
    "dump-log": "dump-log LOG --deep-iteration",
    "recompress": "recompress LOG --codec lz4 --to OUT",
    "compact": "compact LOG --topic * --dry-run",
    "prove-gone": "compact LOG --prove-gone key",
    "restore": "restore LOG --offsets reassign --to OUT",
}


def build_command(name, log, out, budget):
    words = [str({"LOG": log, "OUT": out}.get(word, word)) for word in COMMAND_LINES[name].split()]
    return [*words, "--budget", budget]


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_commands_stay_within_the_budget(small_bomb_log, name, tmp_path):
    run_with_limited_memory(
        "-m",
        "kafkaframes",
        *build_command(name, small_bomb_log, tmp_path / "out", "64m"),
        size=LOW_MEMORY_LIMIT_BYTES,
        status=0,
    )


def test_the_budget_reaches_the_processes_of_a_command(small_bomb_log, tmp_path):
    (tmp_path / "t-1").mkdir()
    for segment in small_bomb_log.glob("t-0/*"):
        (tmp_path / "t-1" / segment.name).write_bytes(segment.read_bytes())
    command = build_command("prove-gone", tmp_path, None, "64m")
    assert run_with_limited_memory(
        "-m", "kafkaframes", *command, "--workers", "2", size=LOW_MEMORY_LIMIT_BYTES
    ).startswith("proven gone")


def test_lack_of_memory_is_reported_in_one_line(small_bomb_log):
    output = run_with_limited_memory(
        "-m",
        "kafkaframes",
        *build_command("prove-gone", small_bomb_log, None, "8g"),
        size=LOW_MEMORY_LIMIT_BYTES,
        status=2,
    )
    assert output.startswith("kafkaframes: out of memory (")
    assert output.count("\n") == 1


@pytest.mark.parametrize("size", ["0", "-1", "much", "1.5g"])
def test_an_invalid_budget_is_reported(tmp_path, size):
    result = CliRunner().invoke(cli, build_command("dump-log", tmp_path, None, size))
    assert (result.exit_code, "a size such as" in result.output) == (2, True)


@pytest.mark.parametrize("columns", ["key_size", "offset,key,value,headers"])
def test_memory_for_tiny_records_is_limited(tmp_path, columns):
    count = MAX_RECORDS // 4
    path = write_equal_batches(tmp_path, compress_repeated((TINY_RECORD, count)), batches=6, count=count)
    assert run_with_limited_memory("-c", READ_CODE, path, columns).startswith(f"{6 * count} []")


def test_a_batch_with_too_many_records_is_reported_as_damage(tmp_path):
    path = write_equal_batches(
        tmp_path, compress_repeated((TINY_RECORD, MAX_RECORDS + 5)), batches=1, count=MAX_RECORDS + 5
    )
    assert run_with_limited_memory("-c", READ_CODE, path, "offset", size=2 * MEMORY_LIMIT_BYTES).startswith(
        f"{MAX_RECORDS} ['the batch has more than {MAX_RECORDS} records']"
    )


@pytest.mark.parametrize("columns", ["offset", "headers"])
def test_memory_for_headers_is_limited(tmp_path, columns):
    expected_problems = f"['the records of the batch have more than {MAX_HEADERS} headers']"
    path = write_equal_batches(tmp_path, compress_many_headers(MAX_HEADERS // 2), batches=4)
    assert run_with_limited_memory("-c", READ_CODE, path, columns).startswith("4 []")
    path.write_bytes(mutations.build_batch_v2(compress_many_headers(MAX_HEADERS + 1), count=1, attributes=4))
    assert run_with_limited_memory("-c", READ_CODE, path, columns).startswith(f"0 {expected_problems}")


@given(st.integers(0, 1 << 40), st.sampled_from([1, 100, 2000, 30_000]))
def test_sections_are_equal_for_every_budget(seed, budget):
    data = mutations.choose_log(seed, damage=0.05)
    batches = scan_all(as_array(data), rules=FILE)
    sections = decode.open_sections(as_array(data), batches)
    index = decode.index_records(batches, sections)
    parts = list(decode.decode_steps(as_array(data), batches, budget_bytes=budget))
    assert [part.first for part in parts] == np.cumsum([0, *(len(part.batches) for part in parts)])[:-1].tolist()
    for name in ("offsets", "timestamps", "rows", "statuses", "key_size", "value_size", "header_counts"):
        joined_arrays = np.concatenate([getattr(part.index, name) for part in parts])
        assert joined_arrays.tolist() == getattr(index, name).tolist()
    problems = {part.first + row: problem for part in parts for row, problem in part.sections.problems.items()}
    assert problems == sections.problems


@given(st.integers(0, 1 << 40), st.sampled_from([1, 100, 2000, 30_000]))
def test_columns_are_equal_for_every_budget(seed, budget):
    data = mutations.choose_log(seed, damage=0.05)
    columns = [*kafkaframes.read_records(b"").schema.names, "key_size", "base_offset"]
    values = []
    for options in ({}, {"budget_bytes": budget}):
        reader = kafkaframes.read_records(data, columns=columns, **options)
        values.append(
            ([row for batch in reader for row in batch.drop_columns(["timestamp"]).to_pylist()], reader.errors)
        )
    assert values[0] == values[1]


def test_a_budget_of_zero_is_rejected():
    with pytest.raises(OptionError, match="at least 1"):
        kafkaframes.read_records(b"", budget_bytes=0)
