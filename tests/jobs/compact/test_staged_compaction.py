"""Compaction with segments as separate tasks writes the files of a single process, for any log."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.cleaner.reference import find_latest_entries, siphash

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.compact.staged_compaction import (
    SCRATCH_SUFFIX,
    PartitionCompaction,
    SplitSettings,
    clean_partitions,
)
from kafkaframes.jobs.job import run_here
from kafkaframes.records.build import build_batch, build_end_transaction, build_records
from kafkaframes.records.fields import BatchFields
from kafkaframes.records.memory import Recycler
from kafkaframes.records.rows import rows_of
from kafkaframes.storage.cleaner import CleanerSettings, _kernels, clean_partition
from kafkaframes.storage.cleaner.exchange import EntriesWriter, judge_buckets
from kafkaframes.storage.cleaner.latest import MapFullError
from kafkaframes.storage.cleaner.round import preview_partition
from kafkaframes.storage.cleaner.walk import read_windows
from kafkaframes.storage.files import atomic
from kafkaframes.storage.log.discover import discover

SPLIT = SplitSettings(secret=(1, -2), above_bytes=0, chunk_bytes=300, run_entries=5, judge_entries=7, here_bytes=0)
SETTINGS = CleanerSettings(now_ms=100_000, delete_retention_ms=50_000, segment_bytes=700)
KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"c", b"d" * 9, b"e" * 17])


@st.composite
def batches(draw):
    """The next batch of a log: data with or without a producer, or the end of a transaction."""
    if draw(st.integers(0, 2)) == 0:
        return "end", draw(st.integers(0, 1)), draw(st.booleans())
    rows = draw(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), min_size=1, max_size=6))
    producer = draw(st.integers(-1, 1))
    transactional = producer >= 0 and draw(st.integers(0, 3)) > 0
    magic = draw(st.sampled_from([2, 2, 2, 1, 0])) if producer < 0 else 2
    codec = draw(st.sampled_from([0, 3]))
    return "data", rows, producer, transactional, magic, codec, draw(st.sampled_from([1, 1, 3]))


def write_log(path: Path, drawn_rows: list, cuts: list[bool], mtimes: list[int]) -> None:
    path.mkdir(parents=True)
    base, offset, content = 0, 0, b""
    files_written = 0

    def close() -> None:
        nonlocal base, content, files_written
        file = path / f"{base:020}.log"
        file.write_bytes(content)
        os.utime(file, ns=(mtimes[files_written % len(mtimes)] * 1_000_000,) * 2)
        base, content, files_written = offset, b"", files_written + 1

    for one, is_cut in zip(drawn_rows, cuts, strict=True):
        if one[0] == "end":
            content += build_end_transaction(
                offset, commit=one[2], timestamp=1000, producer_id=one[1], producer_epoch=0
            )
            offset += 1
        else:
            _, rows, producer, transactional, magic, codec, step = one
            offsets = [offset + step * number for number in range(len(rows))]
            columns = {"offset": offsets, "timestamp": [1000] * len(rows)}
            columns |= {"key": [key for key, _ in rows], "value": [value for _, value in rows]}
            fields = BatchFields(producer_id=producer, producer_epoch=0, base_sequence=0, transactional=transactional)
            given_fields = fields if producer >= 0 else BatchFields()
            content += build_batch(rows_of(columns), record_format=magic, codec=codec, fields=given_fields)
            offset = offsets[-1] + 1
        if is_cut:
            close()
    close()
    if base != offset or files_written == 1:
        close()


def contents(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(file.relative_to(path)): (file.read_bytes(), file.stat().st_mtime_ns if file.suffix == ".log" else 0)
        for file in path.rglob("*")
        if file.is_file()
    }


@given(
    drawn_rows=st.lists(batches(), min_size=8, max_size=25),
    data=st.data(),
    broker_release=st.sampled_from(["2.8", "3.9", "4.x"]),
)
def test_staged_compaction_writes_the_files_of_one_process(tmp_path_factory, drawn_rows, data, broker_release):
    top = tmp_path_factory.mktemp("staged")
    cuts = data.draw(st.lists(st.booleans(), min_size=len(drawn_rows), max_size=len(drawn_rows)))
    write_log(top / "t-0", drawn_rows, cuts, data.draw(st.lists(st.sampled_from([0, 60_000, 99_000]), min_size=1)))
    (directory,) = discover(str(top / "t-0"))
    (partition,) = directory.partitions
    dirty = data.draw(st.sampled_from([0, 0, 0, *(segment.base_offset for segment in partition.segments)]))
    settings = replace(SETTINGS, broker_release=broker_release, first_dirty_offset=dirty + data.draw(st.integers(0, 1)))
    jobs = [PartitionCompaction(directory.filesystem, partition, top / "many")]
    try:
        alone = clean_partition(directory.filesystem, partition, settings, top / "alone")
    except LogDirError as error:  # Kafka fails there as well
        with pytest.raises(LogDirError, match=re.escape(str(error))):
            clean_partitions(jobs, settings, SPLIT, run_here)
        return
    (written_report,) = clean_partitions(jobs, settings, SPLIT, run_here)
    (counted_report,) = clean_partitions([replace(jobs[0], writes=False)], settings, SPLIT, run_here)
    if alone is None:
        assert written_report is counted_report is None
        return
    assert written_report is not None
    assert counted_report is not None
    assert counted_report.tally == preview_partition(directory.filesystem, partition, settings)[1]
    assert contents(top / "many") == contents(top / "alone")
    assert (written_report.end_offset, written_report.tally) == (alone.end_offset, alone.tally)
    assert {path.name for path in top.iterdir()} == {"t-0", "alone", "many"}


def data_batch(first: int, keys: list[bytes], **fields) -> tuple:
    return "data", [(key, b"v") for key in keys], -1, False, 2, 3, 1


def test_decreasing_offsets_are_compacted_in_one_process(tmp_path):
    write_log(tmp_path / "t-0", [data_batch(0, [b"a", b"b"])] * 4, [True] * 4, [1])
    first = (tmp_path / "t-0" / f"{0:020}.log").read_bytes()
    (tmp_path / "t-0" / f"{4:020}.log").write_bytes(first)  # offsets 0 and 1 again
    compact(str(tmp_path / "t-0"), tmp_path / "alone", SETTINGS)
    report = compact(str(tmp_path / "t-0"), tmp_path / "many", SETTINGS, work_split=SPLIT)
    assert report.partitions[0].cleaned
    assert contents(tmp_path / "many").keys() == contents(tmp_path / "alone").keys()
    for name, expected_content in contents(tmp_path / "alone").items():
        assert name == "_SUCCESS" or contents(tmp_path / "many")[name] == expected_content


def test_a_failed_step_leaves_no_output_and_a_second_run_succeeds(tmp_path, monkeypatch):
    write_log(tmp_path / "t-0", [data_batch(0, [b"a", b"b"])] * 6, [True] * 6, [1])
    compact(str(tmp_path / "t-0"), tmp_path / "alone", SETTINGS)
    open_new = atomic.open_new
    for kind in ("entries", "ledger", "verdicts", "part", f"{0:020}.log"):

        def full(path: Path, kind: str = kind):
            if path.name.startswith(kind):
                raise OSError(28, "No space left on device")
            return open_new(path)

        monkeypatch.setattr(atomic, "open_new", full)
        with pytest.raises(LogDirError, match="No space left"):
            compact(str(tmp_path / "t-0"), tmp_path / "many", SETTINGS, work_split=SPLIT)
        assert {path.name for path in tmp_path.iterdir()} == {"t-0", "alone"}
    monkeypatch.undo()
    # The remains of a killed job are removed.
    for name in ("many.kafkaframes-unfinished", f"many.kafkaframes-unfinished{SCRATCH_SUFFIX}"):
        (tmp_path / name / "half").mkdir(parents=True)
    compact(str(tmp_path / "t-0"), tmp_path / "many", SETTINGS, work_split=SPLIT)
    assert {path.name for path in tmp_path.iterdir()} == {"t-0", "alone", "many"}
    assert {name: one for name, one in contents(tmp_path / "many").items() if name != "_SUCCESS"} == {
        name: one for name, one in contents(tmp_path / "alone").items() if name != "_SUCCESS"
    }


def test_a_staged_plan_equals_that_of_one_process_and_leaves_nothing(tmp_path):
    for name in ("t-0", "t-1"):
        write_log(tmp_path / "in" / name, [data_batch(0, [b"a", b"b", name.encode()])] * 4, [True] * 4, [1])
    (tmp_path / "scratch").mkdir()
    alone = compact(str(tmp_path / "in"), None, SETTINGS, topics=["*"])
    shared_report = compact(
        str(tmp_path / "in"), None, SETTINGS, topics=["*"], work_split=SPLIT, scratch=tmp_path / "scratch"
    )
    assert alone == shared_report
    assert alone.partitions[0].dropped == {"a later record of the key": 9}
    assert not list((tmp_path / "scratch").iterdir())


# Logs that are hard to split


def write_keys(path: Path, keys: list, per_segment: int, value: bytes = b"v") -> str:
    path.mkdir()
    for base in range(0, len(keys), per_segment):
        part = keys[base : base + per_segment]
        columns = {"offset": list(range(base, base + len(part))), "key": part, "value": [value] * len(part)}
        data = build_records(columns, codec="lz4", batch_bytes=2000)
        (path / f"{base:020}.log").write_bytes(data)
    (path / f"{len(keys):020}.log").write_bytes(b"")
    return str(path)


LOGS_HARD_TO_SPLIT = {
    "one key has nine of ten records": [b"hot" if number % 10 else b"key-%d" % number for number in range(6000)],
    "all keys are different, and long": [b"%0100d" % number for number in range(6000)],
    "half has no key, and the other the empty one": [None if number % 2 else b"" for number in range(6000)],
    "no record has a key": [None] * 3000,
}


@pytest.mark.parametrize("per_segment", [700, 6000])
@pytest.mark.parametrize("keys", LOGS_HARD_TO_SPLIT.values(), ids=LOGS_HARD_TO_SPLIT.keys())
def test_keys_and_segments_of_very_different_sizes_are_compacted(tmp_path, keys, per_segment):
    source = write_keys(tmp_path / "t-0", keys, per_segment)
    settings = replace(SETTINGS, segment_bytes=1 << 30)
    before = contents(tmp_path / "t-0")
    alone = compact(source, tmp_path / "alone", settings)
    wide = SplitSettings(secret=(5, 6), above_bytes=0, here_bytes=0, workers=3, chunk_bytes=1 << 14)
    many = compact(source, tmp_path / "many", settings, work_split=wide)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "alone")
    assert many.partitions == alone.partitions
    assert alone.partitions[0].records_kept == len(set(keys) - {None})
    assert contents(tmp_path / "t-0") == before


def files_of(path: Path) -> dict[str, tuple[bytes, int]]:
    return {name: content for name, content in contents(path).items() if name != "_SUCCESS"}


def test_one_segment_with_transactions_is_split_among_workers(tmp_path):
    keys = [b"a", b"b", b"c"]
    drawn_rows = []
    # every producer aborts, commits, and continues: later tasks must not see these aborted transactions again
    for number in range(40):
        rows = [(keys[(number + place) % 3], b"%d" % number) for place in range(4)]
        drawn_rows += [("data", rows, number % 2, True, 2, 3, 1), ("end", number % 2, number % 3 > 0)]
    write_log(tmp_path / "t-0", drawn_rows, [False] * len(drawn_rows), [1])
    (directory,) = discover(str(tmp_path / "t-0"))
    (partition,) = directory.partitions
    assert len(partition.segments) == 2  # one task, and the active segment
    alone = clean_partition(directory.filesystem, partition, SETTINGS, tmp_path / "alone")
    task_names: list[str] = []

    def note_tasks(function, tasks):
        task_names.extend(type(task).__name__ for task in tasks)
        return run_here(function, tasks)

    work_split = SplitSettings(secret=(1, 2), workers=3, chunk_bytes=1 << 14, here_bytes=0)
    (written_report,) = clean_partitions(
        [PartitionCompaction(directory.filesystem, partition, tmp_path / "many")], SETTINGS, work_split, note_tasks
    )
    assert task_names.count("FirstPassTask") == 3
    assert contents(tmp_path / "many") == contents(tmp_path / "alone")
    assert written_report.tally == alone.tally
    assert alone.tally.dropped_records["aborted, or the marker of a transaction that is gone"] > 40


def test_a_damaged_batch_is_the_same_error_with_or_without_a_split(tmp_path):
    source = write_keys(tmp_path / "t-0", [b"%0100d" % number for number in range(6000)], 6000)
    path = tmp_path / "t-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    for place in (len(data) * 3 // 4, len(data) // 2):
        data[place] ^= 0x55
        path.write_bytes(data)
        with pytest.raises(LogDirError) as alone:
            compact(source, tmp_path / "alone", SETTINGS)
        work_split = SplitSettings(secret=(5, 6), above_bytes=0, here_bytes=0, workers=3, chunk_bytes=1 << 14)
        with pytest.raises(LogDirError) as many:
            compact(source, tmp_path / "many", SETTINGS, work_split=work_split)
        assert str(many.value) == str(alone.value)
    assert {path.name for path in tmp_path.iterdir()} == {"t-0"}


def test_a_frequent_key_is_one_entry_per_window(tmp_path):
    keys = [b"hot" if number % 10 else b"key-%d" % number for number in range(6000)]
    (directory,) = discover(write_keys(tmp_path / "t-0", keys, 2000))
    with (tmp_path / "e").open("wb") as entries, (tmp_path / "l").open("wb") as ledger:
        writer = EntriesWriter(entries, ledger, secret=(0, 0), buckets=256)
        for segment in directory.partitions[0].segments[:-1]:
            for window in read_windows(directory.filesystem, segment, memory=Recycler()):
                writer.add_window(window, np.ones(len(window.owners), np.bool_))
        writer.finish_run()
    assert sum(writer.runs) == 600 + 3  # a segment of these is one window


def test_keys_above_the_memory_limit_are_partitioned_into_files(tmp_path):
    for name in ("t-0", "t-1", "t-2"):
        (tmp_path / "in").mkdir(exist_ok=True)
        keys = [b"%0100d" % (number % (4000 if name == "t-1" else 40)) for number in range(6000)]
        write_keys(tmp_path / "in" / name, keys, 1500)
    bounded_split = SplitSettings(secret=(1, 2), map_bytes=300_000)
    (directory,) = discover(str(tmp_path / "in"))
    with pytest.raises(MapFullError):
        clean_partition(directory.filesystem, directory.partitions[1], SETTINGS, tmp_path / "x", map_bytes=300_000)
    alone = compact(str(tmp_path / "in"), tmp_path / "alone", SETTINGS, topics=["t"])
    task_names: list[list[str]] = []

    def note_tasks(function, tasks):
        task_names.append([type(task).__name__ for task in tasks])
        return run_here(function, tasks)

    for here_bytes in (0, 64 << 20):
        how = {"topics": ["t"], "run": note_tasks, "work_split": replace(bounded_split, here_bytes=here_bytes)}
        many = compact(str(tmp_path / "in"), tmp_path / f"many-{here_bytes}", SETTINGS, **how)
        assert many.partitions == alone.partitions
        assert files_of(tmp_path / f"many-{here_bytes}") == files_of(tmp_path / "alone")
        dry_report = compact(str(tmp_path / "in"), None, SETTINGS, scratch=tmp_path, **how)
        assert dry_report.partitions == alone.partitions
        assert task_names[0] == ["CompactionTask"] * 3  # then one of them again, in steps
        assert {"SecondPassTask"} <= {name for names in task_names for name in names} or here_bytes
        task_names.clear()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "alone", "many-0", f"many-{64 << 20}"}


def test_unordered_keys_above_the_memory_limit_use_the_required_memory(tmp_path):
    source = write_keys(tmp_path / "t-0", [b"%0100d" % number for number in range(6000)], 3000)
    again = (tmp_path / "t-0" / f"{0:020}.log").read_bytes()
    (tmp_path / "t-0" / f"{6000:020}.log").write_bytes(again)
    (tmp_path / "t-0" / f"{6001:020}.log").write_bytes(b"")
    settings = replace(SETTINGS, segment_bytes=1 << 30)
    compact(source, tmp_path / "alone", settings)
    compact(source, tmp_path / "many", settings, work_split=SplitSettings(secret=(1, 2), map_bytes=300_000))
    assert files_of(tmp_path / "many") == files_of(tmp_path / "alone")


FULL_DISK = """
    import subprocess, sys
    from pathlib import Path
    from kafkaframes.errors import LogDirError
    from kafkaframes.storage.cleaner import CleanerSettings
    from kafkaframes.jobs.compact.compaction import compact
    from kafkaframes.jobs.compact.staged_compaction import SplitSettings

    source, disk, above_bytes = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    split = SplitSettings(secret=(1, 2), above_bytes=above_bytes, here_bytes=0, workers=2, chunk_bytes=1 << 16)
    for kilobytes in sys.argv[4:]:
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(disk)], check=True)
        try:
            compact(source, disk / "out", CleanerSettings(now_ms=100_000), work_split=split)
        except LogDirError as error:
            assert not list(disk.iterdir()), list(disk.iterdir())
            print("refused:", error)
    files = sorted(path for path in (disk / "out").iterdir() if path.name != "_SUCCESS")
    print([(path.name, path.read_bytes()) for path in files])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("above_bytes", "too_small"), [(0, [64, 200, 700]), (1 << 30, [16, 64])])
def test_a_disk_that_becomes_full_is_reported(tmp_path, above_bytes, too_small):
    keys = [b"%0100d" % (number * 7919 % 9001) for number in range(18_000)]
    source = write_keys(tmp_path / "t-0", keys, 2000, value=os.urandom(20))
    before, disk = contents(tmp_path / "t-0"), tmp_path / "disk"
    compact(source, tmp_path / "alone", CleanerSettings(now_ms=100_000))
    disk.mkdir()
    (tmp_path / "job.py").write_text(textwrap.dedent(FULL_DISK))
    job = [sys.executable, tmp_path / "job.py", source, disk, above_bytes, *too_small, 20_000]
    script = f"mount -t tmpfs none {shlex.quote(str(disk))} || exit 77; exec {shlex.join(map(str, job))}"
    process = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    if process.returncode == 77 or process.stderr.startswith("unshare:"):
        pytest.skip(f"a disk of limited size cannot be mounted: {process.stderr.strip()}")
    assert process.returncode == 0, process.stderr
    *refusals, contents_text = process.stdout.strip().split("\n")
    assert len(refusals) == len(too_small)
    assert all(refusal.startswith("refused: ") and "No space left on device" in refusal for refusal in refusals)
    assert contents_text == str([(name, data) for name, (data, _) in sorted(files_of(tmp_path / "alone").items())])
    assert contents(tmp_path / "t-0") == before


# Digests, verdicts


@given(st.binary(max_size=40), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_digests_are_siphash(key, key0, key1):
    digest = np.zeros(2, np.int64)
    buf, places = np.frombuffer(key + b"\0", np.uint8), np.zeros(1, np.int64)
    _kernels.digest_keys(buf, places, np.array([len(key)], np.int32), key0, key1, digest)
    plain = siphash(key, key0=key0 % 2**64, key1=key1 % 2**64)
    assert [int(one) % 2**64 for one in digest] == list(plain)


@given(st.lists(st.tuples(st.sampled_from([0, 2, -2, 1 << 62]), st.booleans()), min_size=1, max_size=60))
def test_verdicts_equal_those_of_a_set(entries):
    given_entries = np.array([number for low, counts in entries for number in (low | counts, low)], np.int64)
    latest = np.empty(len(entries), np.uint8)
    _kernels.find_latest_entries(given_entries, np.zeros(2 * 128, np.int64), latest)
    assert latest.astype(bool).tolist() == find_latest_entries([(str(low).encode(), counts) for low, counts in entries])


def test_an_empty_log_has_no_entries(tmp_path):
    with (tmp_path / "e").open("wb") as entries, (tmp_path / "l").open("wb") as ledger:
        writer = EntriesWriter(entries, ledger, secret=(0, 0), buckets=256)
        writer.finish_run()
    with (tmp_path / "v").open("wb") as out:
        judge_buckets([(tmp_path / "e", writer.runs)], out, buckets=256, first_bucket=0, end_bucket=256)
    assert (tmp_path / "v").stat().st_size == 16
