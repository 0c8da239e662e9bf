"""Features of single formats: time travel back, cleaned logs, other writers, statistics."""

import json
import shutil
import subprocess
import sys
import warnings

import pyarrow as pa
import pytest
from tests.jobs.tables.test_planning import Delta, Iceberg, append, export, log, offsets_of, write

from kafkaframes.errors import OptionError
from kafkaframes.jobs.tables import delta

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
__all__ = ["log"]  # the fixture
PARTITIONS = ["topic", "partition"]


@pytest.fixture
def lake(tmp_path):
    return Delta(tmp_path / "table")


@pytest.fixture
def house(tmp_path):
    table = Iceberg(tmp_path / "table")
    yield table
    table.close()


def theirs(lake):
    return deltalake.DeltaTable(str(lake.root))


def test_a_restored_delta_table_continues_from_its_version(lake, log):
    export(lake, log, offsets=(None, 50))
    (log.parent / "t-1").mkdir()
    write(log.parent / "t-1", 0, 5)
    export(lake, log.parent)
    theirs(lake).restore(0)
    assert offsets_of(lake) == list(range(50))
    # t-1 is left out for now: the offsets that the table had for it must not count any more
    outcome = export(lake, log)
    assert outcome.summary.records == 150
    assert lake.offsets() == {"t": {"0": 200}}
    assert export(lake, log.parent).summary.records == 5
    assert offsets_of(lake) == sorted([*range(200), *range(5)])
    assert lake.offsets() == {"t": {"0": 200, "1": 5}}


def test_a_delta_table_with_a_cleaned_log_keeps_its_offsets(lake, log, monkeypatch):
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    export(lake, log)
    theirs(lake).create_checkpoint()
    theirs(lake).alter.set_table_description("a commit that is none of ours")
    (lake.root / "_delta_log" / f"{0:020}.json").unlink()
    append(log, 200, 10)
    assert export(lake, log).summary.records == 10
    assert offsets_of(lake) == list(range(210))
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    with pytest.raises(OptionError, match="deleted and created again"):
        export(lake, log)


def test_offsets_in_a_long_delta_history_are_found(lake, log, monkeypatch):
    monkeypatch.setattr(delta, "HISTORY_PAGE_SIZE", 2)
    export(lake, log)
    for n in range(5):
        theirs(lake).alter.set_table_description(f"{n}")
    state = lake.table().read_state()
    assert state.ends == {("t", 0): 200}
    table = lake.table()
    assert table.has_committed(lake_run(lake), since=None) is True
    assert table.has_committed("none", since=None) is False
    assert table.has_committed("none", since=4) is False
    theirs(lake).create_checkpoint()
    (lake.root / "_delta_log" / f"{0:020}.json").unlink()
    assert table.has_committed("none", since=None) is None


def lake_run(lake):
    return next(entry["kafkaframes"]["run"] for entry in theirs(lake).history() if "kafkaframes" in entry)


def test_a_delta_table_compacted_between_and_during_runs(lake, log):
    for first in (200, 220):
        export(lake, log)
        append(log, first, 20)

    def compacting(function, jobs):
        yield from map(function, jobs)
        theirs(lake).optimize.compact()

    assert export(lake, log, run=compacting).table["commits"] == 1
    theirs(lake).optimize.compact()
    assert export(lake, log).table["commits"] == 0
    assert offsets_of(lake) == list(range(240))


def test_delta_files_have_statistics_for_data_skipping(lake, log, monkeypatch):
    from kafkaframes.jobs.tables import run

    monkeypatch.setattr(run, "SHARED_FILE_LOG_BYTES", 1)
    export(lake, log)
    adds = pa.table(theirs(lake).get_add_actions(flatten=True)).sort_by("min.offset").to_pylist()
    statistics = [(a["num_records"], a["min.offset"], a["max.offset"], a["null_count.offset"]) for a in adds]
    assert statistics == [(100, 0, 99, 0), (100, 100, 199, 0)]
    assert [a["partition.topic"] for a in adds] == ["t", "t"]
    assert [round(a["max.timestamp"].timestamp() * 1000) for a in adds] == [1_700_000_000_099, 1_700_000_000_199]
    files = list(theirs(lake).to_pyarrow_dataset().get_fragments(filter=pa.compute.field("offset") >= 150))
    assert len(files) == 1


def test_foreign_or_incompatible_delta_tables_are_rejected(lake, log, tmp_path):
    deltalake.write_deltalake(str(lake.root), pa.table({"a": [1]}))
    with pytest.raises(OptionError, match="is a table that was not created by an export"):
        export(lake, log)
    shutil.rmtree(lake.root)
    export(lake, log)
    rows = lake.read()
    marked_rows = rows.set_column(
        2, rows.schema.field("offset").with_metadata({"kafkaframes.settings": "{}"}), rows["offset"]
    )
    for change, message in _CHANGES.items():
        shutil.rmtree(lake.root)
        deltalake.write_deltalake(
            str(lake.root), change(marked_rows), partition_by=_PARTITIONED.get(change, PARTITIONS)
        )
        with pytest.raises(OptionError, match=message):
            export(lake, log)


def _text_value(rows):
    return rows.set_column(6, "value", pa.array([""] * len(rows)))


def _no_key(rows):
    return rows.drop_columns(["key"])


def _as_it_is(rows):
    return rows


def _strict(rows):
    return rows.append_column(pa.field("loaded", pa.int64(), nullable=False), pa.array([0] * len(rows)))


_CHANGES = {
    _text_value: "column value has type string, but the values have type binary; restore the old type",
    _no_key: "column key was removed from the table; add it again",
    _as_it_is: "is partitioned by topic, but an export requires topic, partition",
    _strict: "column loaded is required, but an export does not have it",
}
_PARTITIONED = {_as_it_is: ["topic"]}


def test_delta_columns_of_other_writers_are_kept(lake, log):
    export(lake, log)
    fields = deltalake.Schema.from_arrow(pa.schema([("loaded", pa.int64())])).fields
    theirs(lake).alter.add_columns(fields)
    append(log, 200, 10)
    export(lake, log)
    assert offsets_of(lake) == list(range(210))
    assert set(lake.read()["loaded"].to_pylist()) == {None}


def test_a_rolled_back_iceberg_table_continues_from_its_snapshot(house, log):
    export(house, log, offsets=(None, 50))
    export(house, log)
    table = house._theirs()
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert offsets_of(house) == list(range(50))
    assert export(house, log).summary.records == 150
    assert offsets_of(house) == list(range(200))


def test_an_iceberg_table_with_expired_snapshots_keeps_its_offsets(house, log):
    export(house, log, offsets=(None, 50))
    export(house, log)
    theirs = house._theirs()
    rows = theirs.scan().to_arrow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.overwrite(rows)  # as a compaction would: a snapshot without our properties
    old = [snapshot.snapshot_id for snapshot in theirs.metadata.snapshots[:-1]]
    theirs.maintenance.expire_snapshots().by_ids(old).commit()
    assert len(house.versions()) == 1
    append(log, 200, 10)
    assert export(house, log).summary.records == 10
    assert offsets_of(house) == list(range(210))


def test_an_iceberg_table_rolled_back_to_an_unknown_snapshot_is_rejected(house, log):
    export(house, log, offsets=(None, 50))
    theirs = house._theirs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.overwrite(theirs.scan().to_arrow())
    plain = theirs.current_snapshot().snapshot_id
    export(house, log)
    theirs = house._theirs()
    theirs.manage_snapshots().rollback_to_snapshot(plain).commit()
    old = [snapshot.snapshot_id for snapshot in theirs.metadata.snapshots[:2]]
    theirs.maintenance.expire_snapshots().by_ids(old).commit()
    with pytest.raises(OptionError, match="rolled back to a snapshot"):
        export(house, log)


def test_iceberg_commits_of_other_writers_during_a_run_are_allowed(house, log):
    export(house, log, offsets=(None, 50))

    def with_another(function, jobs):
        yield from map(function, jobs)
        with house._theirs().transaction() as transaction:
            transaction.set_properties({"owner": "somebody"})
        house._theirs().append(house._theirs().scan(limit=1).to_arrow())

    assert export(house, log, run=with_another).table["commits"] == 1
    assert len(offsets_of(house)) == 201
    assert house._theirs().properties["owner"] == "somebody"
    assert export(house, log).table["commits"] == 0


def test_iceberg_skips_files_by_partition_and_offset(house, log, monkeypatch):
    from kafkaframes.jobs.tables import run

    monkeypatch.setattr(run, "SHARED_FILE_LOG_BYTES", 1)
    export(house, log)
    table = house._theirs()
    assert len(list(table.scan(row_filter="offset >= 150").plan_files())) == 1
    assert len(list(table.scan(row_filter="partition = 0 and topic = 't'").plan_files())) == 2
    assert len(list(table.scan(row_filter="partition = 1").plan_files())) == 0


def test_foreign_or_incompatible_iceberg_tables_are_rejected(house, log):
    from pyiceberg.types import LongType

    export(house, log)
    with house._theirs().update_schema() as update:
        update.add_column("loaded", LongType())
    append(log, 200, 10)
    export(house, log)
    assert set(house.read()["loaded"].to_pylist()) == {None}
    with house._theirs().update_schema() as update:
        update.update_column("partition", LongType())
    with pytest.raises(OptionError, match="column partition has type int64, but the values have type int32"):
        export(house, log)
    house.catalog().drop_table("kafka.records")
    export(house, log)
    with house._theirs().update_schema() as update:
        update.delete_column("key")
    with pytest.raises(OptionError, match="column key was removed from the table"):
        export(house, log)
    house.catalog().drop_table("kafka.records")
    export(house, log)
    with house._theirs().update_spec() as update:
        update.add_field("timestamp", "day")
    with pytest.raises(
        OptionError, match=r"is partitioned by topic, partition, day\(timestamp\), but an export requires"
    ):
        export(house, log)
    house.catalog().drop_table("kafka.records")
    house.catalog().create_table("kafka.records", pa.schema([("a", pa.string())]))
    with pytest.raises(OptionError, match="is a table that was not created by an export"):
        export(house, log)


_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture
def store(monkeypatch):
    """A bucket ``lake`` of a server in another process: deltalake holds Python's lock while it waits for a server."""
    pytest.importorskip("moto.server")
    import fsspec

    command = [sys.executable, "-c", _SERVER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as server:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        filesystem = fsspec.filesystem("s3", skip_instance_cache=True)
        filesystem.mkdir("lake")
        yield filesystem
        for one in (filesystem, fsspec.filesystem("s3")):
            if one._s3 is not None:
                fsspec.asyn.sync(one.loop, one._s3.close)
        type(filesystem).clear_instance_cache()
        server.stdin.close()


def test_delta_tables_in_a_store_are_written(log, store):
    from tests.cli.table_calls import ask

    to = "s3://lake/events"
    assert ask(log, "--to", "delta", to).exit_code == 0
    append(log, 200, 10)
    report = json.loads(ask(log, "--to", "delta", to, "--json").stdout)
    assert report["records"] == 10
    table = deltalake.DeltaTable(to)
    assert sorted(table.to_pyarrow_table()["offset"].to_pylist()) == list(range(210))
    assert table.transaction_version("kafkaframes/t/0") == 210
    assert len(store.find("lake/events/topic=t")) == 2
