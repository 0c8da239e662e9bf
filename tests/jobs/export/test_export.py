"""Exports of segments: contents, resumption, damage. The tests need neither Spark nor other processes."""

import json
import shutil
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import kafkaframes
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.jobs.dump.chunks import RecordFilter, compile_key_pattern
from kafkaframes.jobs.export import planning, run, task, writers
from kafkaframes.jobs.export.job import summarize_outcome
from kafkaframes.jobs.export.run import export_segments
from kafkaframes.jobs.export.tally import CONTROL_RECORDS_REASON, NOT_SELECTED_REASON, DroppedTotals
from kafkaframes.jobs.export.task import ExportTask, ExportTaskSettings, export_file
from kafkaframes.records.json_lines import from_json_record
from kafkaframes.records.strict_json import parse_json

START = 1_700_000_000_000


def rows(first, count):
    return [
        {
            "key": None if n % 7 == 0 else b"k%d" % (n % 5),
            "value": None if n % 11 == 0 else b"value %d \xff" % n,
            "offset": n,
            "timestamp": START + n,
            "headers": [("h", b"x" * (n % 3)), ("null", None)] if n % 2 else [],
        }
        for n in range(first, first + count)
    ]


def write_segment(directory, base, records, **options):
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base:020}.log"
    path.write_bytes(kafkaframes.build_records(records, batch_records=50, **options))
    return ExportTask(str(path), path.stat().st_size, base, directory.name[:-2], int(directory.name[-1]))


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch):
    """Make every segment large enough for its own file; ``test_export_sharing`` tests shared files."""
    monkeypatch.setattr(planning, "MAX_SMALL_SEGMENT_BYTES", 0)


@pytest.fixture
def tasks(tmp_path):
    """Three segments of 200 records, with different codecs."""
    log = tmp_path / "log" / "t-0"
    return [write_segment(log, n * 200, rows(n * 200, 200), codec=c) for n, c in enumerate(("none", "zstd", "gzip"))]


@pytest.fixture
def settings(tmp_path):
    return ExportTaskSettings(str(tmp_path / "out"))


def visible(settings):
    return sorted(str(path.relative_to(settings.to)) for path in Path(settings.to).glob("topic=*/*/*"))


def read_written(settings):
    """Return the rows of all files, by offset."""
    return [row for name in visible(settings) for row in pq.ParquetFile(Path(settings.to, name)).read().to_pylist()]


def expected_rows(numbers):
    return [
        (row["key"], row["value"], row["offset"], row["timestamp"], row["headers"] or None)
        for n in numbers
        for row in rows(n, 1)
    ]


def comparable(row):
    headers = row["headers"] and [(h["key"], h["value"]) for h in row["headers"]]
    return row["key"], row["value"], row["offset"], round(row["timestamp"].timestamp() * 1000), headers


def test_every_record_is_exported_unchanged(tasks, settings):
    outcome = export_segments(tasks, settings)
    assert visible(settings) == [f"topic=t/partition=0/{n:020}.parquet" for n in (0, 200, 400)]
    assert [comparable(row) for row in read_written(settings)] == expected_rows(range(600))
    assert Path(settings.to, "_SUCCESS").exists()
    assert not list(Path(settings.to, "_kafkaframes").glob("tmp/*"))
    summary = outcome.summary
    (topic,) = summary.topics
    payload = sum(
        len(row["key"] or b"") + len(row["value"] or b"") + sum(len(k) + len(v or b"") for k, v in row["headers"])
        for row in rows(0, 600)
    )
    assert (topic.topic, topic.partitions, topic.records, topic.payload_bytes) == ("t", 1, 600, payload)
    assert (topic.first_timestamp_ms, topic.last_timestamp_ms) == (START, START + 599)
    assert {(c.codec, c.batches, c.records) for c in summary.codecs} == {(c, 4, 200) for c in ("none", "zstd", "gzip")}
    assert sum(c.log_bytes for c in summary.codecs) == sum(task.size_bytes for task in tasks)
    assert summary.dropped == ()
    summary_json = json.loads(Path(settings.to, "_kafkaframes", "summary.json").read_text())
    assert summary_json["records"] == 600
    assert summary_json["complete"] is True


def test_parquet_has_the_layout_that_measured_best(tasks, settings):
    export_segments(tasks, settings)
    file = pq.ParquetFile(Path(settings.to, visible(settings)[1]))
    assert file.schema_arrow.metadata[b"segment"] == tasks[1].path.encode()
    columns = {file.metadata.row_group(0).column(n).path_in_schema: n for n in range(file.metadata.num_columns)}
    for name in ("offset", "timestamp"):
        column = file.metadata.row_group(0).column(columns[name])
        assert "DELTA_BINARY_PACKED" in column.encodings
        assert column.compression == "ZSTD"
    assert "RLE_DICTIONARY" not in file.metadata.row_group(0).column(columns["value"]).encodings
    assert file.metadata.row_group(0).column(columns["offset"]).statistics.min == 200


def test_the_other_formats_have_the_same_records(tasks, settings):
    wanted_rows = expected_rows(range(600))
    for form in ("arrow", "csv", "json"):
        chosen_settings = replace(settings, to=f"{settings.to}-{form}", form=form, base64=form == "csv")
        export_segments(tasks, chosen_settings)
        paths = [Path(chosen_settings.to, name) for name in visible(chosen_settings)]
        assert [path.suffix for path in paths] == [f".{form}"] * 3
        assert [row for path in paths for row in READERS[form](path)] == wanted_rows, form


def _from_arrow(path):
    return [comparable(row) for row in pa.feather.read_table(path).to_pylist()]


def _raw(text):
    return None if text is None else b64decode(text)


def _from_csv(path):
    options = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    for row in pa.csv.read_csv(path, convert_options=options).to_pylist():
        headers = row["headers"] and [(k, _raw(v)) for k, v in json.loads(row["headers"])]
        moment = round(row["timestamp"].timestamp() * 1000)
        yield _raw(row["key"]), _raw(row["value"]), row["offset"], moment, headers


def _from_json(path):
    for line in path.read_bytes().splitlines():
        row = from_json_record(parse_json(line))
        headers = [(h["key"].decode(), h["value"]) for h in row["headers"]] or None
        yield row["key"], row["value"], json.loads(line)["offset"], row["timestamp"], headers


READERS = {"arrow": _from_arrow, "csv": _from_csv, "json": _from_json}


def test_csv_without_base64_replaces_invalid_utf_8_and_json_keeps_it(tasks, settings):
    by_form = {form: replace(settings, to=f"{settings.to}-{form}", form=form) for form in ("csv", "json")}
    for chosen_settings in by_form.values():
        export_segments(tasks[:1], chosen_settings)
    csv, lines = (
        Path(chosen_settings.to, visible(chosen_settings)[0]).read_text() for chosen_settings in by_form.values()
    )
    assert "value 1 \N{REPLACEMENT CHARACTER}" in csv
    first = json.loads(lines.splitlines()[1])
    assert first["key"] == "k1"
    assert b64decode(first["value"]["base64"]).startswith(b"value 1 ")


def test_an_older_json_export_is_not_continued_in_another_encoding(tasks, settings, monkeypatch):
    chosen_settings = replace(settings, form="json")
    with monkeypatch.context() as older:
        older.setattr(task, "_JSON_LINES_VERSION", 1)
        export_segments(tasks[:2], chosen_settings)
    with pytest.raises(KafkaframesError, match="json_lines"):
        export_segments(tasks, chosen_settings)


@pytest.mark.parametrize(
    ("keep", "expected_numbers"),
    [
        (RecordFilter(from_timestamp=START + 150, until_timestamp=START + 250, control=False), range(150, 250)),
        (RecordFilter(keys=frozenset({b"k3"}), control=False), [n for n in range(600) if n % 7 and n % 5 == 3]),
        (
            RecordFilter(key_pattern=compile_key_pattern("^k[12]"), control=False),
            [n for n in range(600) if n % 7 and n % 5 in (1, 2)],
        ),
        (RecordFilter(keys=frozenset({b"nobody"}), control=False), []),
    ],
)
def test_filters_by_time_and_key_are_applied(tasks, settings, keep, expected_numbers):
    chosen_settings = replace(settings, keep=keep)
    outcome = export_segments(tasks, chosen_settings)
    assert [comparable(row) for row in read_written(chosen_settings)] == expected_rows(expected_numbers)
    assert outcome.summary.records == len(expected_numbers)
    assert outcome.summary.dropped == (DroppedTotals(NOT_SELECTED_REASON, 0, 600 - len(expected_numbers), 0),)
    assert (Path(chosen_settings.to) / "_SUCCESS").exists()


def test_the_offsets_of_a_task_limit_its_rows(tasks, settings):
    export_segments([replace(tasks[0], first_offset=120), tasks[1], replace(tasks[2], end_offset=401)], settings)
    assert [row["offset"] for row in read_written(settings)] == list(range(120, 401))


def test_control_records_are_skipped_and_counted(tmp_path, settings):
    log = tmp_path / "log" / "t-0"
    task = write_segment(log, 0, rows(0, 3), transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    marker = kafkaframes.build_records(
        [{"key": b"\0\0\0\1", "value": b"\0\0\0\0\0\0", "offset": 3}], control=True, transactional=True, producer_id=7
    )
    with open(task.path, "ab") as file:
        file.write(marker)
    outcome = export_segments([replace(task, size_bytes=task.size_bytes + len(marker))], settings)
    assert outcome.summary.records == 3
    assert outcome.summary.dropped == (DroppedTotals(CONTROL_RECORDS_REASON, 1, 1, len(marker)),)


def test_damage_is_reported_and_the_rest_exported(tasks, settings):
    path = Path(tasks[1].path)
    raw = bytearray(path.read_bytes())
    second = 12 + int.from_bytes(raw[8:12], "big")
    raw[second + 22] = 7  # the codec's number
    path.write_bytes(raw + b"\0" * 40)
    tasks[1] = replace(tasks[1], size_bytes=len(raw) + 40)
    outcome = export_segments(tasks, settings)
    assert [row["offset"] for row in read_written(settings)] == [*range(250), *range(300, 600)]
    size = 12 + int.from_bytes(raw[second + 8 : second + 12], "big")
    assert outcome.summary.dropped == (
        DroppedTotals("the codec number is unknown to Kafka", 1, 50, size),
        DroppedTotals("the size of a batch is below the minimum (14)", 1, None, 40),
    )
    assert outcome.fault_count == 2
    assert path.name in outcome.results[1].faults[0]
    assert not outcome.failed
    strict = export_segments(tasks, replace(settings, to=f"{settings.to}2", on_damage="fail"))
    assert [result.task for result in strict.failed] == [tasks[1]]
    assert strict.summary.records == 400
    assert not Path(f"{settings.to}2", "_SUCCESS").exists()


def test_a_torn_tail_is_reported_but_is_not_damage(tasks, settings):
    path = Path(tasks[2].path)
    path.write_bytes(path.read_bytes()[:-10])
    tasks[2] = replace(tasks[2], size_bytes=tasks[2].size_bytes - 10)
    outcome = export_segments(tasks, settings)
    assert outcome.summary.records == 550
    assert outcome.fault_count == 0
    assert [(one.batches, one.records) for one in outcome.summary.dropped] == [(1, None)]


def test_a_segment_that_vanished_or_was_truncated_fails_alone(tasks, settings):
    Path(tasks[0].path).unlink()
    with open(tasks[2].path, "ab") as file:
        file.truncate(100)
    outcome = export_segments(tasks, settings)
    assert [result.failed.split(" (")[0] for result in outcome.failed] == [
        "was deleted after the read was planned",
        "has become shorter since the read was planned",
    ]
    assert [row["offset"] for row in read_written(settings)] == list(range(200, 400))
    assert not Path(settings.to, "_SUCCESS").exists()
    again = export_segments(tasks[1:2], settings)  # the values of a new plan
    assert (again.exported, again.resumed) == (0, 1)
    assert Path(settings.to, "_SUCCESS").exists()


def test_an_interrupted_run_is_resumed(tasks, settings, monkeypatch):
    monkeypatch.setattr(run, "TARGET_JOB_LOG_BYTES", 1)

    def one_then_nothing(function, jobs):
        yield function(jobs[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_segments(tasks, settings, run=one_then_nothing)
    assert len(visible(settings)) == 1
    assert not Path(settings.to, "_SUCCESS").exists()
    stray = Path(settings.to, "_kafkaframes", "tmp", "half.parquet")
    stray.write_bytes(b"PAR1")
    (journal,) = Path(settings.to, "_kafkaframes", "journal").glob("*")
    journal.write_bytes(journal.read_bytes() + b'{"task": {"pa')  # killed while it wrote
    before = Path(settings.to, visible(settings)[0]).stat().st_ino
    outcome = export_segments(tasks, settings)
    assert (outcome.exported, outcome.resumed) == (2, 1)
    assert Path(settings.to, visible(settings)[0]).stat().st_ino == before
    assert not stray.exists()
    assert outcome.summary.records == 600
    assert [row["offset"] for row in read_written(settings)] == list(range(600))


def test_a_later_run_exports_appended_records(tasks, settings):
    export_segments(tasks, settings)
    with open(tasks[2].path, "ab") as file:
        file.write(kafkaframes.build_records(rows(600, 20)))
    grown_task = replace(tasks[2], size_bytes=Path(tasks[2].path).stat().st_size)
    outcome = export_segments([*tasks[:2], grown_task], settings)
    assert (outcome.exported, outcome.resumed) == (1, 2)
    assert [row["offset"] for row in read_written(settings)] == list(range(620))
    missing = Path(settings.to, visible(settings)[0])
    missing.unlink()
    assert export_segments([*tasks[:2], grown_task], settings).exported == 1
    assert missing.exists()


def test_merged_segments_are_not_exported_twice(tasks, settings):
    export_segments(tasks, settings)
    with pytest.raises(OptionError, match="compacted"):
        export_segments([tasks[0], tasks[2]], settings)
    assert export_segments(tasks[1:], settings).resumed == 2  # old segments that retention deleted stay exported
    assert export_segments([tasks[0], tasks[2]], settings, overwrite=True).exported == 2
    assert len(visible(settings)) == 2


def test_a_run_with_other_settings_is_rejected(tasks, settings):
    export_segments(tasks, settings)
    with pytest.raises(OptionError, match=r"`on_damage` was keep and is fail.*`overwrite`"):
        export_segments(tasks, replace(settings, on_damage="fail"))
    assert len(visible(settings)) == 3


def test_a_destination_that_cannot_be_written_ends_the_export(tasks, tmp_path, settings):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot be written"):
        export_segments(tasks, ExportTaskSettings(str(tmp_path / "file" / "out")))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("")
    with pytest.raises(OptionError, match="the directory has other files"):
        export_segments(tasks, ExportTaskSettings(str(tmp_path / "mine")), overwrite=True)
    assert (tmp_path / "mine" / "precious").exists()

    def gone(function, jobs):
        shutil.rmtree(Path(settings.to, "_kafkaframes", "tmp"))
        return map(function, jobs)

    with pytest.raises(OptionError, match="cannot be written"):
        export_segments(tasks, settings, run=gone)
    assert visible(settings) == []


def test_two_exports_to_one_destination_exclude_each_other(tasks, settings):
    def second(function, jobs):
        with pytest.raises(OptionError, match="another export is writing"):
            export_segments(tasks, settings)
        return map(function, jobs)

    assert export_segments(tasks, settings, run=second).exported == 3


def test_small_segments_share_a_file(settings):
    tasks = [ExportTask(f"{n}.log", 1 << 20, n, "t", 0) for n in range(100)]
    jobs = run.group_files_into_jobs([(task,) for task in tasks], settings)
    assert [task for _, files in jobs for (task,) in files] == tasks
    assert 16 <= len(jobs) <= 18


def test_an_empty_segment_writes_nothing(tmp_path, settings):
    task = write_segment(tmp_path / "log" / "t-0", 0, [])
    outcome = export_segments([task], settings)
    assert visible(settings) == []
    assert outcome.summary.records == 0
    assert export_file((task,), settings)[0].output is None


def test_rows_lost_before_a_file_is_written_fail_the_segment(tasks, tmp_path, monkeypatch):
    real = writers.OutputFile.write_rows
    monkeypatch.setattr(writers.OutputFile, "write_rows", lambda self, batch: real(self, batch.slice(1)))
    outcome = export_segments(tasks, ExportTaskSettings(str(tmp_path / "out"), "parquet", RecordFilter(control=False)))
    assert [one.failed.split(",")[:2] for one in outcome.failed] == [
        ["200 records were read", " 199 written and 0 left out"]
    ] * 3
    assert not list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "json"])
def test_an_outcome_has_the_numbers_of_records_read_and_written(tasks, tmp_path, form):
    keep = RecordFilter(control=False, from_timestamp=START + 5)
    outcome = export_segments(tasks, ExportTaskSettings(str(tmp_path / "out"), form, keep))
    assert (outcome.records_read, outcome.summary.records) == (600, 595)
    assert outcome.as_json()["records_read"] == 600


def test_the_text_of_a_result_counts_unlisted_faults(tasks, tmp_path):
    outcome = export_segments(tasks, ExportTaskSettings(str(tmp_path / "out")))
    damaged = replace(outcome.results[0], faults=["first", "second"], fault_count=5)
    result = summarize_outcome(replace(outcome, results=(damaged, *outcome.results[1:])))
    assert result.lines[:3] == ("first", "second", f"{damaged.task.path}: 3 more damaged positions")
