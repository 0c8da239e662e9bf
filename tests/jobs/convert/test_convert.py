"""Conversions of real brokers' logs: every record is kept, and the output is complete or absent."""

import errno
import multiprocessing
import os
import signal
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes import read_records
from kafkaframes.errors import EncodeError, LogDirError, OptionError
from kafkaframes.jobs.convert import segment
from kafkaframes.jobs.convert.job import convert
from kafkaframes.jobs.convert.segment import _find_batch_starts
from kafkaframes.jobs.settings import ConvertSettings, RecompressSettings
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.build import build_records
from kafkaframes.records.codecs import Codec, codec_of, compress
from kafkaframes.records.layout import BYTES_TO_MAGIC, CODECS
from kafkaframes.records.scan import as_array, scan_batches
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.log.discover import discover
from kafkaframes.wire.checksum import crc32

LOGS = Path(__file__).parents[2] / "data" / "logs"
COLUMNS = ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]
DOWN = {"on_loss": "drop", "codec": "gzip"}


def segments(path: Path) -> list[Path]:
    return sorted(path.rglob("*.log"))


def records(path: Path, *, control: bool = True, without: tuple[str, ...] = ()) -> dict[str, list]:
    records_by_file = {}
    for file in segments(path):
        rows = []
        for table in read_records(file, on_damage="fail", columns=COLUMNS, control_records=control):
            rows += table.to_pylist()
        for row in rows:
            row["headers"] = row["headers"] or []
            for name in without:
                del row[name]
        records_by_file[str(file.relative_to(path))] = rows
    return records_by_file


def headers(path: Path, name: str) -> set[int]:
    return {
        value for file in segments(path) for value in scan_batches(as_array(file.read_bytes())).column(name).tolist()
    }


def without_timestamp_type(records_by_file: dict[str, list]) -> dict[str, list]:
    """Replace missing timestamp types: record format 0 has none, and the test's other records have CreateTime."""
    return {
        file: [{**row, "timestamp_type": max(row["timestamp_type"], 0)} for row in rows]
        for file, rows in records_by_file.items()
    }


@pytest.mark.parametrize("case", ["zk-28-mixed", "zk-0102-v1"])
@pytest.mark.parametrize("codec", [None, "zstd", "none"])
def test_conversion_up_to_format_2_keeps_every_record(case, codec, tmp_path):
    report = convert(str(LOGS / case), tmp_path / "out", ConvertSettings(record_format=2, codec=codec))
    assert headers(tmp_path / "out", "magic") <= {2}
    assert without_timestamp_type(records(LOGS / case)) == records(tmp_path / "out")
    assert sum(partition.records for partition in report.partitions) == sum(map(len, records(LOGS / case).values()))
    assert not report.lost
    if codec is not None:
        assert {value & 7 for value in headers(tmp_path / "out", "attributes")} <= {codec_of(codec), 0}
    for source in segments(LOGS / case):
        assert (
            tmp_path / "out" / source.relative_to(LOGS / case)
        ).stat().st_mtime_ns // 10**6 == source.stat().st_mtime_ns // 10**6


def test_other_files_are_copied_and_the_result_is_sound(tmp_path):
    source = LOGS / "zk-28-mixed"
    convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    before = {str(file.relative_to(source)): file for file in source.rglob("*") if file.is_file()}
    after = {str(file.relative_to(tmp_path / "out")): file for file in (tmp_path / "out").rglob("*") if file.is_file()}
    assert after.keys() - before.keys() == {"_SUCCESS"}
    assert before.keys() - after.keys() <= {".lock"}
    for name, file in ((name, file) for name, file in before.items() if name in after):
        if not name.endswith((".log", ".index", ".timeindex")):
            assert after[name].read_bytes() == file.read_bytes()
    findings = verify(discover(str(tmp_path / "out")), deep=True).findings
    assert [finding for finding in findings if finding.severity >= Severity.ERROR] == []


@pytest.mark.parametrize("magic", [0, 1])
def test_downgrades_report_lost_data(magic, tmp_path):
    source = LOGS / "kraft-4x-transactions"
    report = convert(str(source), tmp_path / "out", ConvertSettings(record_format=magic, **DOWN))
    lost_columns = ("headers", "timestamp_type", *(("timestamp",) if magic == 0 else ()))
    topics = [path.name for path in source.iterdir() if path.is_dir() and not path.name.startswith("__cluster")]
    for topic in topics:
        assert headers(tmp_path / "out" / topic, "magic") <= {magic}
        expected_records = records(source / topic, control=False, without=lost_columns)
        assert records(tmp_path / "out" / topic, without=lost_columns) == expected_records
    assert report.lost["control batches"]
    assert report.lost["transactional batches"]
    for one in report.partitions:
        assert one.records == one.records_written + sum(one.left_out.values())
    assert sum(sum(partition.left_out.values()) for partition in report.partitions) >= report.lost["control batches"]
    assert report.lost["aborted records that become visible"]
    assert bool(report.lost["timestamps"]) == (magic == 0)
    with pytest.raises(EncodeError, match=r"cannot represent .*control batches"):
        convert(str(source), tmp_path / "other", ConvertSettings(record_format=magic, codec="gzip"))
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("other")]


@pytest.mark.parametrize(("first", "then"), [(0, 1), (1, 0), (2, 1), (1, 2)])
def test_every_pair_of_formats_converts_back(first, then, tmp_path):
    source = LOGS / "zk-28-mixed"
    convert(str(source), tmp_path / "one", ConvertSettings(record_format=first, **DOWN))
    convert(str(tmp_path / "one"), tmp_path / "two", ConvertSettings(record_format=then, codec="lz4", on_loss="drop"))
    lost_columns = ("headers", "timestamp_type", *(("timestamp",) if 0 in (first, then) else ()))
    assert records(tmp_path / "two", without=lost_columns) == records(source, control=False, without=lost_columns)
    assert headers(tmp_path / "two", "magic") == {then}


@pytest.mark.parametrize("codec", CODECS)
def test_recompressing_format_2_keeps_headers_and_records(codec, tmp_path):
    source = LOGS / "kraft-4x-transactions"
    convert(str(source), tmp_path / "out", RecompressSettings(codec=codec, level=1 if codec == "zstd" else None))
    assert records(tmp_path / "out") == records(source)
    for file in segments(source):
        before = scan_batches(as_array(file.read_bytes()))
        after = scan_batches(as_array((tmp_path / "out" / file.relative_to(source)).read_bytes()))
        for name in (
            "base_offset",
            "last_offset",
            "leader_epoch",
            "base_timestamp",
            "max_timestamp",
            "producer_id",
            "base_sequence",
            "count",
        ):
            assert before.column(name).tolist() == after.column(name).tolist()
        data = np.isin(before.column("attributes") & 0x20, [0])
        if "__cluster" not in str(file):
            assert set((after.column("attributes")[data] & 7).tolist()) <= {codec_of(codec)}


def test_a_log_already_in_the_format_is_copied_byte_for_byte(tmp_path):
    source = LOGS / "kraft-4x-transactions"
    convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    for file in source.rglob("*"):
        if file.is_file():
            assert (tmp_path / "out" / file.relative_to(source)).read_bytes() == file.read_bytes()


def messages(count: int, *, size: int = 100, magic: int = 1, **options) -> bytes:
    rows = {"timestamp": list(range(count)), "key": [b"%d" % n for n in range(count)], "value": [bytes(size)] * count}
    return build_records(rows, record_format=magic, **options)


def partition(path: Path, data: bytes, name: str = "orders-0") -> Path:
    (path / name).mkdir(parents=True)
    (path / name / f"{0:020}.log").write_bytes(data)
    return path / name


def test_uncompressed_messages_are_joined_and_a_wrapper_becomes_a_batch(tmp_path):
    data = messages(1000) + messages(300, codec="gzip", base_offset=1000, batch_bytes=10**6)
    source = partition(tmp_path / "in", data)
    convert(str(source), tmp_path / "out-0", ConvertSettings(record_format=2))
    counts = scan_batches(as_array(segments(tmp_path / "out-0")[0].read_bytes())).column("count").tolist()
    assert counts[-1] == 300
    assert sum(counts[:-1]) == 1000
    assert all(130 < count < 160 for count in counts[:-2])  # 16 KiB
    assert records(tmp_path / "out-0") == records(source)


def test_log_append_time_stays_with_each_message(tmp_path):
    data = b"".join(
        build_records(
            {"timestamp": [stamp], "value": [b"x"]}, record_format=1, base_offset=n, timestamp_type="LogAppendTime"
        )
        for n, stamp in enumerate([5, 5, 7, 7, 7, 6])
    )
    source = partition(tmp_path / "in", data)
    convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    assert records(tmp_path / "out") == records(source)
    assert scan_batches(as_array(segments(tmp_path / "out")[0].read_bytes())).column("count").tolist() == [2, 3, 1]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.integers(1, 60)), min_size=1, max_size=40),
    st.integers(1, 100),
)
def test_batches_keep_required_boundaries(given_batches, batch_bytes):
    numbers = np.cumsum([1 + gap // 10 for gap, _, _ in given_batches])
    joins = np.zeros(int(numbers[-1]) + 1, np.bool_)
    joins[numbers] = [join for _, join, _ in given_batches]
    weights = np.array([weight for _, _, weight in given_batches], np.int64)
    starts = _find_batch_starts(numbers, joins, np.cumsum(weights), None, batch_bytes).tolist()
    plain, size = [0], weights[0]
    for place in range(1, len(numbers)):
        apart = not (joins[numbers[place]] and joins[numbers[place - 1]] and numbers[place] == numbers[place - 1] + 1)
        if apart or size + weights[place] > batch_bytes:
            plain.append(place)
            size = 0
        size += weights[place]
    assert starts == plain


# Failures


def test_damage_fails_the_job_or_is_kept(tmp_path):
    data = bytearray(messages(50, magic=2, codec="lz4", batch_bytes=500))
    batches = scan_batches(as_array(bytes(data)))
    at = int(batches.column("position")[3])
    data[at + 80] ^= 1
    source = partition(tmp_path / "in", bytes(data) + b"torn tail of some bytes")
    with pytest.raises(LogDirError, match="CRC") as caught:
        convert(str(source), tmp_path / "out", RecompressSettings(codec="zstd"))
    assert caught.value.position == at
    assert caught.value.file.endswith(".log")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    report = convert(str(source), tmp_path / "out", RecompressSettings(codec="zstd", on_damage="keep"))
    written_segment = segments(tmp_path / "out")[0].read_bytes()
    assert bytes(data[at : at + int(batches.column("size")[3])]) in written_segment
    assert written_segment.endswith(b"torn tail of some bytes")
    assert [position for _, position, _ in report.partitions[0].damaged] == [at, len(data)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("kind", "to"),
    [
        (ConvertSettings, {"record_format": 2, "on_loss": "drop"}),
        (RecompressSettings, {"codec": "lz4"}),
        (ConvertSettings, {"record_format": 0, "on_loss": "drop"}),
    ],
    ids=str,
)
def test_an_invalid_message_in_a_wrapper_is_damage(magic, kind, to, tmp_path):
    """A converted batch has no CRC of the message any more: the damaged value would look valid."""
    columns = {"timestamp": [1] * 4, "key": [b"k"] * 4, "value": [b"v"] * 4}
    good = build_records(columns, record_format=magic, codec="gzip")
    inside = bytearray(build_records(columns, record_format=magic, base_offset=4))
    inside[len(inside) // 2 + BYTES_TO_MAGIC - 2] ^= 1  # a byte of a CRC
    bad = wrapper(magic, 7, compress(Codec.GZIP, bytes(inside), magic=magic))
    (tmp_path / "in-0").mkdir()
    (tmp_path / "in-0" / f"{0:020}.log").write_bytes(good + bad)
    with pytest.raises(LogDirError, match="inside") as error_info:
        convert(str(tmp_path / "in-0"), tmp_path / "out", kind(**to))
    assert error_info.value.position == len(good)
    report = convert(str(tmp_path / "in-0"), tmp_path / "kept", kind(on_damage="keep", **to))
    assert (tmp_path / "kept" / f"{0:020}.log").read_bytes().endswith(bad)
    assert [position for _, position, _ in report.partitions[0].damaged] == [len(good)]


def wrapper(magic: int, offset: int, payload: bytes) -> bytes:
    """Write a message of format 0 or 1 whose value is compressed with gzip."""
    stamp = struct.pack(">q", 1) if magic else b""
    checked_bytes = bytes((magic, Codec.GZIP)) + stamp + struct.pack(">ii", -1, len(payload)) + payload
    return struct.pack(">qiI", offset, 4 + len(checked_bytes), crc32(checked_bytes)) + checked_bytes


def test_a_full_disk_leaves_no_output(tmp_path, monkeypatch):
    source = partition(tmp_path / "in", messages(500))
    real = atomic.open_new

    def failing(path):
        out = real(path)
        if path.name.startswith("0"):

            def write(_):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            class FullDiskFile:
                def __enter__(self):
                    return self

                def __exit__(self, *_):
                    out.close()

                def __getattr__(self, name):
                    return write if name in ("write", "writelines") else getattr(out, name)

            return FullDiskFile()
        return out

    monkeypatch.setattr(atomic, "open_new", failing)
    with pytest.raises(LogDirError, match="No space left"):
        convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    monkeypatch.undo()
    convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    assert records(tmp_path / "out") == records(source)


def test_two_jobs_with_one_destination_exclude_each_other(tmp_path):
    source = partition(tmp_path / "in", messages(5))
    with atomic.hold_lock(tmp_path / "out"), pytest.raises(LogDirError, match="another job"):
        convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    assert not list(tmp_path.glob("*lock*"))


def _slow_convert(source: str, target: str) -> None:
    def run(function, tasks):
        for task in tasks:
            yield function(task)
            time.sleep(290)

    convert(source, target, ConvertSettings(record_format=2), run=run)


def test_a_killed_job_is_resumed(tmp_path):
    source = tmp_path / "in"
    for name in ("a-0", "b-0"):
        partition(source, messages(500), name)
    job = multiprocessing.get_context("fork").Process(target=_slow_convert, args=(str(source), str(tmp_path / "out")))
    job.start()
    deadline = time.monotonic() + 250
    while not list(tmp_path.glob("out.*/*/*.timeindex")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(job.pid, signal.SIGKILL)
    job.join()
    assert (tmp_path / "out.kafkaframes-unfinished").exists()
    assert not (tmp_path / "out").exists()
    convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    assert records(tmp_path / "out") == records(source)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out"}


def test_a_second_run_does_nothing_and_another_job_is_rejected(tmp_path):
    source = partition(tmp_path / "in", messages(500))
    first = convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    stamp = segments(tmp_path / "out")[0].stat().st_ino
    again = convert(str(source), tmp_path / "out", ConvertSettings(record_format=2))
    assert again.done_before
    assert again.partitions == first.partitions
    assert segments(tmp_path / "out")[0].stat().st_ino == stamp
    with pytest.raises(LogDirError, match="exists already"):
        convert(str(source), tmp_path / "out", ConvertSettings(record_format=2, codec="lz4"))


def test_a_single_segment_is_converted(tmp_path):
    source = partition(tmp_path / "in", messages(50))
    convert(str(segments(source)[0]), tmp_path / "one", ConvertSettings(record_format=2))
    assert records(tmp_path / "one") == records(source)


@pytest.mark.parametrize(
    "wrong",
    [
        {"record_format": 3},
        {"record_format": 1, "codec": "zstd"},
        {"level": 3},
        {"codec": "gzip", "level": 40},
        {"on_loss": "no"},
    ],
)
def test_settings_that_do_not_fit_the_log(wrong):
    with pytest.raises(OptionError):
        ConvertSettings(**{"record_format": 2, **wrong})


def test_records_lost_in_the_job_fail_it(tmp_path, monkeypatch):
    real = segment.rewrite_batches
    monkeypatch.setattr(segment, "rewrite_batches", lambda *arguments: list(real(*arguments))[:-1])
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(build_records([{"value": b"x" * 50}] * 9, record_format=1, batch_records=1))
    with pytest.raises(LogDirError, match="9 records were read"):
        convert(str(path.parent), tmp_path / "out", ConvertSettings(record_format=2, codec="gzip", batch_bytes=100))
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]
