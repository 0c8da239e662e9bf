"""Decompressed data is limited, however much a few kilobytes expand to: compressed batches, tiny records, headers.

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

TINY = b"\x0c\0\0\0\x01\x01\0"  # a record of seven bytes: no key, no value, no headers
LIMITED = 5 << 29  # address space in bytes: python, numba, pyarrow and their libraries take 1 GiB of it
TIGHT = 1 << 30
# The number of unused threads, which take address space, is the number of cores.
FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def compress_repeated(*parts):
    """Compress parts, each given as bytes and how often they are repeated."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    pieces = [compressor.compress(part * min(times, 1 << 16)) for part, n in parts for times in _runs(n)]
    return b"".join(pieces) + compressor.flush()


def _runs(times):
    return [1 << 16] * (times >> 16) + ([times & 0xFFFF] if times & 0xFFFF else [])


def large_value(size):
    """Return a batch of one record with a value of so many bytes."""
    head = b"\0\0\0\x01" + mutations.varint(size)
    return compress_repeated((mutations.varint(len(head) + size + 1) + head, 1), (b"\0", size + 1))


def many_headers(count):
    head = b"\0\0\0\x01\x01" + mutations.varint(count)
    return compress_repeated((mutations.varint(len(head) + 2 * count) + head, 1), (b"\0\0", count))


def log_of(folder, payload, *, batches, count=1):
    """A log directory of one segment of so many equal batches."""
    path = folder / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    equal_batches = [
        mutations.batch_v2(payload, count=count, base_offset=number * count, attributes=4) for number in range(batches)
    ]
    path.write_bytes(b"".join(equal_batches))
    return path


def run_limited(*arguments, size=LIMITED, status=None):
    """Run Python within so many bytes of addresses; return what it printed."""
    process = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=os.environ | FEW_THREADS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )
    assert "Traceback" not in process.stderr, process.stderr
    assert process.returncode in ((0, 1) if status is None else (status,)), process.stderr
    return process.stdout + process.stderr


READ = """
import kafkaframes, sys
reader = kafkaframes.read_records(sys.argv[1], columns=sys.argv[2].split(","))
print(sum(batch.num_rows for batch in reader), [error.reason for error in reader.errors])
"""
SPARK = """
import sys
from tests.scan.log.test_reading import read
print(len(read(sys.argv[1], "offset")))
"""
APPEND = """
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
def bombs(tmp_path_factory):
    """Sixteen batches of 60 MiB, in a few kilobytes: more than 2 GiB if they were open together."""
    return log_of(tmp_path_factory.mktemp("bombs"), large_value(60 << 20), batches=16)


@pytest.fixture(scope="module")
def few_bombs(tmp_path_factory):
    """Ten batches of 60 MiB, with holes between their offsets, and a segment after them."""
    folder, payload = tmp_path_factory.mktemp("few"), large_value(60 << 20)
    path = log_of(folder, payload, batches=1)
    batches = [
        mutations.batch_v2(payload, count=1, base_offset=2 * number, attributes=4, last_delta=1) for number in range(10)
    ]
    path.write_bytes(b"".join(batches))
    path.with_name(f"{100:020}.log").write_bytes(mutations.batch_v2(TINY, count=1, base_offset=100))
    return folder


@pytest.mark.parametrize("columns", ["key_size", "offset,timestamp"])
def test_batches_that_are_large_when_open_are_read_in_turn(bombs, columns):
    assert run_limited("-c", READ, bombs, columns, size=7 << 28).startswith("16 []")


@pytest.mark.parametrize("code", [SPARK, APPEND], ids=["spark", "append"])
def test_spark_and_the_append_path_hold_no_more_than_the_budget(bombs, code):
    assert run_limited("-c", code, bombs if code is APPEND else bombs.parent.parent)


COMMANDS = {
    "dump-log": "dump-log LOG --deep-iteration",
    "recompress": "recompress LOG --codec lz4 --to OUT",
    "compact": "compact LOG --topic * --dry-run",
    "prove-gone": "compact LOG --prove-gone key",
    "restore": "restore LOG --offsets reassign --to OUT",
}


def command_with_budget(name, log, out, budget):
    words = [str({"LOG": log, "OUT": out}.get(word, word)) for word in COMMANDS[name].split()]
    return [*words, "--budget", budget]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_hold_no_more_than_the_budget(few_bombs, name, tmp_path):
    run_limited(
        "-m", "kafkaframes", *command_with_budget(name, few_bombs, tmp_path / "out", "64m"), size=TIGHT, status=0
    )


def test_the_budget_reaches_the_processes_of_a_command(few_bombs, tmp_path):
    (tmp_path / "t-1").mkdir()
    for segment in few_bombs.glob("t-0/*"):
        (tmp_path / "t-1" / segment.name).write_bytes(segment.read_bytes())
    command = command_with_budget("prove-gone", tmp_path, None, "64m")
    assert run_limited("-m", "kafkaframes", *command, "--workers", "2", size=TIGHT).startswith("proven gone")


def test_what_a_machine_cannot_hold_is_told_in_one_line(few_bombs):
    answer = run_limited(
        "-m", "kafkaframes", *command_with_budget("prove-gone", few_bombs, None, "8g"), size=TIGHT, status=2
    )
    assert answer.startswith("kafkaframes: out of memory (")
    assert answer.count("\n") == 1


@pytest.mark.parametrize("size", ["0", "-1", "much", "1.5g"])
def test_a_budget_that_is_no_size_is_told(tmp_path, size):
    answer = CliRunner().invoke(cli, command_with_budget("dump-log", tmp_path, None, size))
    assert (answer.exit_code, "a size such as" in answer.output) == (2, True)


@pytest.mark.parametrize("columns", ["key_size", "offset,key,value,headers"])
def test_tiny_records_are_bounded(tmp_path, columns):
    count = MAX_RECORDS // 4
    path = log_of(tmp_path, compress_repeated((TINY, count)), batches=6, count=count)
    assert run_limited("-c", READ, path, columns).startswith(f"{6 * count} []")


def test_a_batch_of_too_many_records_is_damage(tmp_path):
    path = log_of(tmp_path, compress_repeated((TINY, MAX_RECORDS + 5)), batches=1, count=MAX_RECORDS + 5)
    assert run_limited("-c", READ, path, "offset", size=2 * LIMITED).startswith(
        f"{MAX_RECORDS} ['the batch has more than {MAX_RECORDS} records']"
    )


@pytest.mark.parametrize("columns", ["offset", "headers"])
def test_headers_are_bounded(tmp_path, columns):
    most = f"['the records of the batch have more than {MAX_HEADERS} headers']"
    path = log_of(tmp_path, many_headers(MAX_HEADERS // 2), batches=4)
    assert run_limited("-c", READ, path, columns).startswith("4 []")
    path.write_bytes(mutations.batch_v2(many_headers(MAX_HEADERS + 1), count=1, attributes=4))
    assert run_limited("-c", READ, path, columns).startswith(f"0 {most}")


@given(st.integers(0, 1 << 40), st.sampled_from([1, 100, 2000, 30_000]))
def test_every_budget_gives_the_same(seed, budget):
    data = mutations.some_log(seed, damage=0.05)
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
def test_every_budget_reads_the_same(seed, budget):
    data = mutations.some_log(seed, damage=0.05)
    columns = [*kafkaframes.read_records(b"").schema.names, "key_size", "base_offset"]
    values = []
    for options in ({}, {"budget_bytes": budget}):
        reader = kafkaframes.read_records(data, columns=columns, **options)
        values.append(
            ([row for batch in reader for row in batch.drop_columns(["timestamp"]).to_pylist()], reader.errors)
        )
    assert values[0] == values[1]


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(OptionError, match="at least 1"):
        kafkaframes.read_records(b"", budget_bytes=0)
