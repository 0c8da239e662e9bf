"""One suite for two table formats: contents, incremental runs, rejected requests. The tests need no JVM."""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.truth import EXAMPLE_LOG_DIR, LOGS

import kafkaframes
from kafkaframes.errors import OptionError, UnknownOutcomeError
from kafkaframes.jobs.dump.chunks import RecordFilter
from kafkaframes.jobs.export.task import ExportTaskSettings
from kafkaframes.jobs.job import run_here
from kafkaframes.jobs.tables import run as running
from kafkaframes.jobs.tables.planning import make_log_planner
from kafkaframes.jobs.tables.run import TableRun
from kafkaframes.jobs.tables.state import CommitConflictError, make_stored_settings
from kafkaframes.scan.where import create_row_filter
from kafkaframes.spark.options import parse_log_options

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from kafkaframes.jobs.tables.delta import DeltaTable  # noqa: E402 (after importorskip)
from kafkaframes.jobs.tables.iceberg import CATALOG_FILE, IcebergTable, open_catalog  # noqa: E402

CASES = Path(__file__).parents[2] / "data" / "logs"
START = 1_700_000_000_000
NAMES = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value")


class Delta:
    """A Delta table, read back with deltalake only."""

    name = "delta"

    def __init__(self, root):
        self.root = root

    def table(self):
        return DeltaTable(str(self.root))

    def read(self, at=None):
        return deltalake.DeltaTable(str(self.root), version=at).to_pyarrow_table()

    def versions(self):
        if not (self.root / "_delta_log").exists():
            return []
        return list(range(deltalake.DeltaTable(str(self.root)).version() + 1))

    def offsets(self, at=None):
        """Return the offsets of a version, from the table's own log."""
        table = deltalake.DeltaTable(str(self.root), version=at)
        newest = deltalake.DeltaTable(str(self.root))
        note = next(entry["kafkaframes"] for entry in newest.history() if entry["version"] <= table.version())
        for topic, partitions in note["offsets"].items():
            for partition, end in partitions.items():
                assert table.transaction_version(f"kafkaframes/{topic}/{partition}") == end
        return note["offsets"]

    def note(self):
        return deltalake.DeltaTable(str(self.root)).history()[0]["kafkaframes"]

    def close(self):
        pass


class Iceberg:
    """An Iceberg table in a SQLite catalog, read back with pyiceberg only."""

    name = "iceberg"

    def __init__(self, root):
        self.root = root
        self._catalogs = []

    def table(self):
        return IcebergTable(self.catalog())

    def catalog(self):
        self._catalogs.append(open_catalog(None, str(self.root)))
        return self._catalogs[-1]

    def _theirs(self):
        return self.catalog().load_table("kafka.records")

    def read(self, at=None):
        return self._theirs().scan(snapshot_id=at).to_arrow()

    def versions(self):
        if not (self.root / CATALOG_FILE).exists():
            return []
        return [snapshot.snapshot_id for snapshot in self._theirs().metadata.snapshots]

    def offsets(self, at=None):
        table = self._theirs()
        snapshot = table.current_snapshot() if at is None else table.snapshot_by_id(at)
        return json.loads(snapshot.summary.additional_properties["kafkaframes"])["offsets"]

    def note(self):
        return json.loads(self._theirs().current_snapshot().summary.additional_properties["kafkaframes"])

    def close(self):
        for catalog in self._catalogs:
            catalog.close()


@pytest.fixture(params=[Delta, Iceberg], ids=lambda kind: kind.name)
def kind(request, tmp_path):
    table_kind = request.param(tmp_path / "table")
    yield table_kind
    table_kind.close()


@pytest.fixture
def log(tmp_path):
    """The directory of t-0, with two segments of 100 records."""
    directory = tmp_path / "log" / "t-0"
    directory.mkdir(parents=True)
    write(directory, 0, 100)
    write(directory, 100, 100, codec="zstd")
    return directory


def records(first, count):
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


def write(directory, first, count, **options):
    """Write a segment."""
    path = directory / f"{first:020}.log"
    path.write_bytes(kafkaframes.build_records(records(first, count), batch_records=10, **options))


def append(directory, first, count, **options):
    """Append to the last segment."""
    path = max(directory.glob("*.log"))
    with open(path, "ab") as file:
        file.write(kafkaframes.build_records(records(first, count), batch_records=10, **options))


def export(
    kind,
    source,
    *,
    incremental=True,
    overwrite=False,
    run=run_here,
    keep=None,
    offsets=None,
    commit_bytes=1 << 30,
    **options,
):
    """Export with options of kafka-log. Return the outcome."""
    options_read = replace(
        parse_log_options({"path": str(source), **options}), row_filter=create_row_filter(offset=offsets)
    )
    settings = ExportTaskSettings(
        str(kind.root), on_damage=options_read.on_damage, headers=options.get("includeHeaders") != "false"
    )
    if keep is not None:
        settings = replace(settings, keep=keep)
    chosen_settings = make_stored_settings(settings, isolation=options_read.isolation)
    job = TableRun(kind.table(), settings, chosen_settings, run=run, commit_bytes=commit_bytes)
    return job.add_new_offsets(make_log_planner(options_read), incremental=incremental, overwrite=overwrite)


def rows(table):
    """Return the rows of a table as sorted tuples, timestamps in milliseconds."""
    names = [*NAMES, *(("headers",) if "headers" in table.schema.names else ())]
    row_list = [tuple(map(_comparable, map(row.__getitem__, names))) for row in table.to_pylist()]
    return sorted(row_list, key=lambda row: row[:3])


def _comparable(value):
    if isinstance(value, list):  # pyiceberg 0.12 reads a null list as an empty one; the files have null
        return tuple((header["key"], header["value"]) for header in value) or None
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


def expected_rows(source, **options):
    """Return the same rows, read by ``kafka-log``'s own reader."""
    from tests.scan.log.test_resolve import read_log_rows

    source_rows = read_log_rows(source, *NAMES, "headers", includeHeaders="true", **options)
    return sorted(
        (tuple(_comparable(row[name]) for name in (*NAMES, "headers")) for row in source_rows), key=lambda r: r[:3]
    )


def offsets_of(kind):
    """Return the offsets of the rows of t-0."""
    return sorted(kind.read()["offset"].to_pylist())


def data_files(kind):
    return sorted(path.name for path in kind.root.rglob("*.parquet") if "_delta_log" not in path.parts)


def test_every_record_of_a_brokers_log_is_exported_unchanged(kind):
    outcome = export(kind, EXAMPLE_LOG_DIR, incremental=False)
    assert rows(kind.read()) == expected_rows(EXAMPLE_LOG_DIR)
    assert outcome.summary.records == 13_818
    assert outcome.table["commits"] == 1
    assert kind.offsets()["customers"] == {"0": 2200}
    assert kind.note()["topicIds"]["orders"] == "7CxUWMRxQiOoCraspxcZZQ"
    assert len(data_files(kind)) == 8, "the small segments of a partition share a file"


def test_several_runs_build_the_same_table(kind):
    for until in (1, 700, 701, 5000):
        export(kind, EXAMPLE_LOG_DIR, offsets=(None, until), subscribe="payments,customers")
    assert rows(kind.read()) == expected_rows(EXAMPLE_LOG_DIR, subscribe="payments,customers")
    assert kind.offsets() == {"customers": {"0": 2200}, "payments": {"0": 722, "1": 757}}
    assert len(kind.versions()) == 4


def test_old_formats_are_exported_too(kind):
    export(kind, LOGS / "kafka-2.8-format-1")
    assert rows(kind.read()) == expected_rows(LOGS / "kafka-2.8-format-1")


def test_a_later_run_adds_only_new_records(kind, log):
    export(kind, log)
    before = set(data_files(kind))
    append(log, 200, 30)
    write(log, 230, 20)
    (log.parent / "t-1").mkdir()
    write(log.parent / "t-1", 0, 5)
    outcome = export(kind, log.parent)
    assert offsets_of(kind) == sorted([*range(250), *range(5)])
    assert rows(kind.read()) == expected_rows(log.parent)
    assert outcome.summary.records == 55
    assert kind.offsets() == {"t": {"0": 250, "1": 5}}
    assert kind.note()["added"] == {"t": {"0": [200, 250], "1": [0, 5]}}
    assert before < set(data_files(kind))
    versions = kind.versions()
    for again in (export(kind, log.parent), export(kind, log)):
        assert again.table["commits"] == 0
        assert again.summary.records == 0
    assert kind.versions() == versions
    assert kind.offsets() == {"t": {"0": 250, "1": 5}}


def test_an_earlier_version_has_its_own_rows_and_offsets(kind, log):
    for end in (230, 260):
        export(kind, log)
        append(log, end - 30, 30)
    export(kind, log)
    history = [kind.offsets(at)["t"]["0"] for at in kind.versions()]
    assert history == [200, 230, 260]
    for at, end in zip(kind.versions(), history, strict=True):
        assert sorted(kind.read(at)["offset"].to_pylist()) == list(range(end))


def test_an_existing_table_is_not_changed_without_a_mode(kind, log):
    export(kind, log, incremental=False)
    with pytest.raises(OptionError, match="use `incremental` to add new records, or `overwrite` to replace"):
        export(kind, log, incremental=False)
    assert offsets_of(kind) == list(range(200))


def test_overwrite_replaces_the_rows_in_one_commit_and_keeps_the_old_version(kind, log):
    export(kind, EXAMPLE_LOG_DIR)
    (old,) = kind.versions()
    export(kind, log, incremental=False, overwrite=True)
    assert offsets_of(kind) == list(range(200))
    assert kind.offsets() == {"t": {"0": 200}}
    assert kind.read(old).num_rows == 13_818
    outcome = export(
        kind, EXAMPLE_LOG_DIR, subscribe="customers"
    )  # the offsets of the replaced rows do not count any more
    assert outcome.summary.records == kind.read().num_rows - 200 == 635


def test_overwrite_replaces_the_settings_too(kind, log):
    export(kind, log)
    with pytest.raises(OptionError, match=r"`isolation` was .*or replace the content with `overwrite`"):
        export(kind, log, isolation="read_committed")
    export(kind, log, incremental=False, overwrite=True, isolation="read_committed")
    append(log, 200, 10)
    with pytest.raises(OptionError, match="`isolation` was read_committed and is"):
        export(kind, log)
    assert export(kind, log, isolation="read_committed").summary.records == 10
    assert offsets_of(kind) == list(range(210))


def test_requested_offsets_limit_the_rows(kind, log):
    export(kind, log, offsets=(42, 117))
    assert offsets_of(kind) == list(range(42, 117))
    assert kind.offsets() == {"t": {"0": 117}}
    export(kind, log, offsets=(None, 118))
    export(kind, log)
    assert offsets_of(kind) == list(range(42, 200))


def test_filtered_records_are_not_read_again(kind, log):
    keep = RecordFilter(keys=frozenset({b"k3"}), control=False)
    export(kind, log, keep=keep)
    expected_offsets = [n for n in range(200) if n % 7 and n % 5 == 3]
    assert offsets_of(kind) == expected_offsets
    append(log, 203, 1, codec="gzip")
    export(kind, log, keep=keep)
    append(log, 204, 2)  # no matching records
    assert export(kind, log, keep=keep).table["commits"] == 1
    assert kind.offsets() == {"t": {"0": 206}}
    assert offsets_of(kind) == [*expected_offsets, 203] if 203 % 7 else expected_offsets
    with pytest.raises(OptionError, match="`keys` was \\['k3'\\] and is not set"):
        export(kind, log)


def test_transactions_end_at_the_last_stable_offset(kind):
    case = CASES / "kraft-4x-transactions"
    truth = json.loads((CASES / "kraft-4x-transactions.committed.json").read_text())["read_committed"]
    outcome = export(kind, case, isolation="read_committed")
    got = {}
    for row in kind.read().sort_by("offset").to_pylist():
        got.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    assert got == {
        name: [n for first, last in partition_truth["ranges"] for n in range(first, last + 1)]
        for name, partition_truth in truth.items()
        if partition_truth["ranges"] and not name.startswith("__")
    }
    assert any(one.reason == "records of aborted transactions" for one in outcome.summary.dropped)
    with pytest.raises(OptionError, match="`isolation` was read_committed and is read_uncommitted"):
        export(kind, case)


def test_an_open_transaction_is_added_by_the_run_after_its_end(kind, log):
    def marker(offset, kind_of, producer):
        key = b"\0\0\0" + bytes([kind_of])
        record = {"key": key, "value": b"\0\0\0\0\0\0", "offset": offset, "timestamp": START}
        return kafkaframes.build_records(
            [record], control=True, transactional=True, producer_id=producer, producer_epoch=0
        )

    def data(first, count, producer):
        producer_fields = {"transactional": True, "producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
        return kafkaframes.build_records(records(first, count), **producer_fields)

    path = max(log.glob("*.log"))
    whole = path.read_bytes()
    path.write_bytes(whole + data(200, 5, 1) + data(205, 5, 2) + marker(210, 1, 2))
    export(kind, log, isolation="read_committed")
    assert offsets_of(kind) == list(range(200))
    # producer 1 has aborted, producer 2 is open again
    path.write_bytes(path.read_bytes() + data(211, 4, 2) + marker(215, 0, 1))
    export(kind, log, isolation="read_committed")
    assert offsets_of(kind) == [*range(200), *range(205, 210)]
    path.write_bytes(path.read_bytes() + marker(216, 1, 2))
    export(kind, log, isolation="read_committed")
    assert offsets_of(kind) == [*range(200), *range(205, 210), *range(211, 215)]
    assert kind.offsets() == {"t": {"0": 217}}


def test_a_gap_is_an_error_unless_accepted_and_is_then_recorded(kind, log):
    export(kind, log)
    append(log, 200, 50)
    write(log, 250, 10)
    for path in sorted(log.glob("*.log"))[:2]:
        path.unlink()
    with pytest.raises(
        OptionError,
        match=r"offsets 200 to 249 of t-0 are missing in the table, .* the log has deleted them; `fail_on_data_loss`",
    ):
        export(kind, log)
    assert kind.offsets() == {"t": {"0": 200}}
    outcome = export(kind, log, failOnDataLoss="false")
    gap = {"topic": "t", "partition": 0, "first": 200, "end": 250}
    assert outcome.table["gaps"] == kind.note()["gaps"] == [gap]
    assert offsets_of(kind) == [*range(200), *range(250, 260)]
    append(log, 260, 1)
    assert export(kind, log).table["gaps"] == []


def test_a_requested_hole_is_a_gap_too(kind, log):
    export(kind, log, offsets=(None, 100))
    with pytest.raises(OptionError, match="offsets 100 to 149 of t-0"):
        export(kind, log, offsets=(150, None))


def test_a_replaced_log_is_rejected(kind, log):
    metadata = log / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    export(kind, log)
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    append(log, 200, 10)
    with pytest.raises(OptionError, match=r"topic t has the id AAAAAAAAAAAAAAAAAAAAAg.*deleted and created again"):
        export(kind, log)
    metadata.unlink()  # a copy without an id is accepted
    (log / f"{100:020}.log").unlink()
    with pytest.raises(OptionError, match=r"t-0 ends at offset 100, but the table has its records up to 199"):
        export(kind, log)
    export(kind, log, incremental=False, overwrite=True)
    assert offsets_of(kind) == list(range(100))


def test_a_later_run_with_headers_adds_the_column(kind, log):
    export(kind, log, includeHeaders="false")
    assert "headers" not in kind.read().schema.names
    append(log, 200, 10)
    export(kind, log)
    got = kind.read().sort_by("offset").to_pylist()
    assert [row["headers"] for row in got[:200]] == [None] * 200
    assert rows(kind.read())[200:] == expected_rows(log)[200:]
    append(log, 210, 10)
    with pytest.raises(OptionError, match=r"has the column headers.*remove includeHeaders=false"):
        export(kind, log, includeHeaders="false")
    export(kind, log)
    assert offsets_of(kind) == list(range(220))


def test_damage_is_reported_and_the_rest_exported(kind, log):
    path = log / f"{0:020}.log"
    raw = bytearray(path.read_bytes())
    second = 12 + int.from_bytes(raw[8:12], "big")
    raw[second + 22] = 7  # the codec's number
    path.write_bytes(raw)
    outcome = export(kind, log)
    assert offsets_of(kind) == [*range(10), *range(20, 200)]
    assert [(one.batches, one.records) for one in outcome.summary.dropped] == [(1, 10)]
    assert outcome.fault_count == 1
    with pytest.raises(OptionError, match=r"the content was not replaced: .*the codec number"):
        export(kind, log, incremental=False, overwrite=True, mode="FAILFAST")
    assert offsets_of(kind) == [*range(10), *range(20, 200)]
    assert len(data_files(kind)) == 1


def test_an_unreadable_segment_stops_its_partition(kind, log, monkeypatch):
    monkeypatch.setattr(running, "SHARED_FILE_LOG_BYTES", 1)
    other = log.parent / "t-1"
    other.mkdir()
    write(other, 0, 5)
    write(log, 200, 10)
    path = log / f"{100:020}.log"
    sound = path.read_bytes()
    raw = bytearray(sound)
    raw[30] ^= 1
    path.write_bytes(raw)
    outcome = export(kind, log.parent, mode="FAILFAST", commit_bytes=1)
    assert len(outcome.failed) == 2
    assert "an earlier segment could not be read" in outcome.failed[1].failed
    assert sorted(kind.read()["offset"].to_pylist()) == sorted([*range(100), *range(5)])
    assert kind.offsets() == {"t": {"0": 100, "1": 5}}
    path.write_bytes(sound)
    assert not export(kind, log.parent, mode="FAILFAST").failed
    assert offsets_of(kind) == sorted([*range(210), *range(5)])


def test_a_file_of_several_segments_ends_before_the_failing_one(kind, log):
    write(log, 200, 10)
    path = log / f"{100:020}.log"
    sound = path.read_bytes()
    path.write_bytes(sound[:30] + bytes([sound[30] ^ 1]) + sound[31:])
    outcome = export(kind, log, mode="FAILFAST")
    assert offsets_of(kind) == list(range(100))
    assert outcome.summary.records == 100
    assert len(data_files(kind)) == 1
    path.write_bytes(sound)
    export(kind, log, mode="FAILFAST")
    assert offsets_of(kind) == list(range(210))


def test_a_torn_tail_is_left_to_the_next_run(kind, log):
    path = max(log.glob("*.log"))
    sound = path.read_bytes()
    path.write_bytes(sound[:-10])
    export(kind, log)
    assert kind.offsets() == {"t": {"0": 190}}
    path.write_bytes(sound)
    export(kind, log)
    assert offsets_of(kind) == list(range(200))


class SimulatedKillError(BaseException):
    """Ends a run without the clean-up that a kill would also skip."""


@pytest.mark.parametrize("step", ["after one file", "before the commit", "after the commit"])
def test_a_killed_run_adds_nothing_and_the_next_one_cleans_up(kind, log, step, monkeypatch):
    monkeypatch.setattr(running, "SHARED_FILE_LOG_BYTES", 1)
    export(kind, log, offsets=(None, 50))
    before = data_files(kind)
    with monkeypatch.context() as patch:
        patch.setattr(TableRun, "_discard_files", lambda *arguments, **options: None)  # a kill does not clean up
        owner = type(kind.table())
        make = owner.commit_files

        def commit(self, *arguments):
            if step == "after the commit":
                make(self, *arguments)
            raise SimulatedKillError

        patch.setattr(owner, "commit_files", commit)

        def write_one(function, jobs):
            yield function(jobs[0])
            raise SimulatedKillError

        with pytest.raises(SimulatedKillError):
            export(kind, log, run=write_one if step == "after one file" else run_here)
    remaining_files = set(data_files(kind)) - set(before)
    assert len(remaining_files) == (1 if step == "after one file" else 2)
    is_committed = step == "after the commit"
    assert offsets_of(kind) == list(range(200 if is_committed else 50))
    outcome = export(kind, log)
    assert offsets_of(kind) == list(range(200))
    removed_files = {Path(path).name for path in outcome.table["removed_orphans"]}
    assert removed_files == (set() if is_committed else remaining_files)
    assert outcome.table["commits"] == (0 if is_committed else 1)
    assert not list(kind.root.rglob("_kafkaframes/runs/*"))
    assert len(data_files(kind)) == len(before) + 2


def test_a_first_run_killed_before_its_commit_does_not_block_the_next(kind, log, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(TableRun, "_discard_files", lambda *arguments, **options: None)

        def commit(self, *arguments):
            raise SimulatedKillError

        patch.setattr(type(kind.table()), "commit_files", commit)
        with pytest.raises(SimulatedKillError):
            export(kind, log, incremental=False)
    (remaining_file,) = data_files(kind)
    assert export(kind, log, incremental=False).table["removed_orphans"][0].endswith(remaining_file)
    assert offsets_of(kind) == list(range(200))
    assert len(data_files(kind)) == 1


def test_a_run_of_another_machine_expires_after_a_week(kind, log, monkeypatch):
    export(kind, log)
    (runs,) = kind.root.rglob("_kafkaframes/runs")
    stray = next(kind.root.rglob("topic=t")) / "partition=0" / f"{7:020}-aa-feedbeef.parquet"
    stray.write_bytes(b"")
    claim = runs / "feedbeef.json"
    claim.write_text(json.dumps({"since": kind.versions()[-1], "host": "elsewhere"}))
    assert export(kind, log).table["removed_orphans"] == []
    assert stray.exists()
    old = time.time() - 8 * 24 * 3600
    os.utime(claim, (old, old))
    assert export(kind, log).table["removed_orphans"] == [str(stray)]
    assert not claim.exists()


def test_a_file_that_vanishes_before_the_commit_fails_it(kind, log):
    def lost(function, jobs):
        for file in map(function, jobs):
            Path(file.path).unlink()
            yield file

    with pytest.raises(OptionError, match="is missing or incomplete"):
        export(kind, log, run=lost)
    assert export(kind, log).table["commits"] == 1


def test_files_of_an_active_run_are_not_removed(kind, log):
    export(kind, log, offsets=(None, 50))

    def with_another(function, jobs):
        files = list(map(function, jobs))
        assert export(kind, EXAMPLE_LOG_DIR, subscribe="customers").table["removed_orphans"] == []
        assert all(Path(file.path).exists() for file in files)
        yield from files

    outcome = export(kind, log, run=with_another)
    assert outcome.table["commits"] == 1, "other partitions were added in the meantime, which is not an error"
    table = kind.read()
    assert table.num_rows == 200 + 635
    assert sorted(row["offset"] for row in table.to_pylist() if row["topic"] == "t") == list(range(200))
    assert set(kind.offsets()) == {"t", "customers"}


@pytest.mark.parametrize("first", [True, False], ids=["new table", "old table"])
def test_two_exporters_cannot_both_add_the_same_offsets(kind, log, first):
    if not first:
        export(kind, log, offsets=(None, 50))

    def with_another(function, jobs):
        files = list(map(function, jobs))
        export(kind, log)
        yield from files

    with pytest.raises(OptionError, match=r"another export has added offsets of t-0 in the meantime"):
        export(kind, log, run=with_another)
    assert offsets_of(kind) == list(range(200))
    assert len(data_files(kind)) == (1 if first else 2)
    assert export(kind, log).table["commits"] == 0


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_with_a_lost_response_is_looked_up(kind, log, is_committed, monkeypatch):
    owner = type(kind.table())
    make = owner.commit_files
    calls = []

    def commit(self, *arguments):
        calls.append(1)
        if len(calls) > 1 or is_committed:
            make(self, *arguments)
        if len(calls) == 1:
            raise CommitConflictError("the line is dead") if not is_committed else OSError("the line is dead")

    monkeypatch.setattr(owner, "commit_files", commit)
    outcome = export(kind, log)
    assert offsets_of(kind) == list(range(200))
    assert len(calls) == (1 if is_committed else 2)
    assert outcome.table["commits"] == 1


def test_a_commit_of_unknown_outcome_keeps_its_files(kind, log, monkeypatch):
    export(kind, log, offsets=(None, 50))
    owner = type(kind.table())
    make = owner.commit_files

    def commit(self, *arguments):
        make(self, *arguments)
        raise OSError("the line is dead")

    with monkeypatch.context() as patch:
        patch.setattr(owner, "commit_files", commit)
        patch.setattr(owner, "has_committed", lambda *arguments, **options: None)
        with pytest.raises(UnknownOutcomeError, match=r"unknown whether commit \w+ succeeded"):
            export(kind, log)
    assert offsets_of(kind) == list(range(200))
    assert export(kind, log).table["commits"] == 0


def test_each_wave_is_a_separate_commit(kind, log):
    outcome = export(kind, log, commit_bytes=1)
    assert outcome.table["commits"] == len(kind.versions()) == 2
    assert [kind.offsets(at)["t"]["0"] for at in kind.versions()] == [100, 200]
    assert outcome.summary.records == 200


def test_times_outside_microseconds_are_null(kind, tmp_path):
    log = tmp_path / "log" / "t-0"
    log.mkdir(parents=True)
    times = [-1, 0, START, 2**62]
    raw = kafkaframes.build_records([{"value": b"", "offset": n, "timestamp": at} for n, at in enumerate(times)])
    (log / f"{0:020}.log").write_bytes(raw)
    export(kind, log)
    timestamps = kind.read().sort_by("offset")["timestamp"].to_pylist()
    assert [None if timestamp is None else round(timestamp.timestamp() * 1000) for timestamp in timestamps] == [
        -1,
        0,
        START,
        None,
    ]


def test_single_files_are_rejected(kind, log):
    with pytest.raises(OptionError, match="whole logs"):
        export(kind, log / f"{0:020}.log")


def test_several_copies_are_exported_as_one_log(kind, log, tmp_path):
    other = tmp_path / "other" / "t-0"
    shutil.copytree(log, other)
    append(log, 200, 30)
    both = parse_log_options({"paths": json.dumps([str(log.parent), str(other.parent)])})
    settings = ExportTaskSettings(str(kind.root))

    def run():
        job = TableRun(kind.table(), settings, make_stored_settings(settings, isolation=both.isolation))
        return job.add_new_offsets(make_log_planner(both), incremental=True)

    assert run().summary.records == 230
    append(other, 200, 30)
    append(other, 230, 10)
    assert run().summary.records == 10
    assert offsets_of(kind) == list(range(240))
    with pytest.raises(OptionError, match="a table has each record once"):
        export(kind, log, replicas="all")
