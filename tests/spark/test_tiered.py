"""``kafka-log`` on tiered stores: the records of the reference, few fetched bytes, damage reported and skipped."""

import base64
import gzip
import json
import logging
from pathlib import Path

import pytest
from tests.scan.log.test_following import follower, read_all
from tests.scan.log.test_resolve import read_log_rows
from tests.storage.tiered.store import KeyPair, TieredStore

from kafkaframes import read_batches, read_records
from kafkaframes.errors import DamagedChunkError, LogDirError
from kafkaframes.records.build import build_records
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.options import parse_log_options
from kafkaframes.storage.files.indexes import write_offset_index, write_time_index
from kafkaframes.storage.files.segment_file import ByteCounter
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.rebuild import rebuild_indexes
from kafkaframes.storage.log.transactions import read_transactions

CASES = Path(__file__).parents[1] / "data" / "tiered"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())


def keys_of(case):
    files = ",".join(map(str, case.glob("*.private.pem")))
    return {"keyFile": files} if files else {}


def truth_of(case, name, offsets):
    lines = gzip.decompress((case / "truth" / f"{name}.records.jsonl.gz").read_bytes()).splitlines()
    records = (json.loads(line) for line in lines)
    return {
        record["offset"]: (record["timestamp"], record["key"])
        for record in records
        if record["type"] == "record" and record["offset"] in offsets and "control_type" not in record
    }


@pytest.mark.parametrize("name", NAMES)
def test_records_of_a_store_equal_those_of_kafka(name):
    case = CASES / name
    index = json.loads((case / "index.json").read_text())
    for partition in index["partitions"]:
        topic = partition["topic"]
        valid = [
            one
            for one in index["segments"]
            if one["valid"] and (one["topic"], one["partition"]) == (topic, partition["partition"])
        ]
        offsets = {offset for one in valid for offset in range(one["base_offset"], one["end_offset"] + 1)}
        names = ("offset", "timestamp", "key")
        assign = json.dumps({topic: [partition["partition"]]})
        rows = read_log_rows(case / "store", *names, assign=assign, **keys_of(case))
        got = {
            row["offset"]: (
                int(row["timestamp"].timestamp() * 1000 + 0.5),
                None if row["key"] is None else base64.b64encode(row["key"]).decode(),
            )
            for row in rows
        }
        assert got == truth_of(case, f"{topic}-{partition['partition']}", offsets)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_of_a_store_are_read_without_its_segments(isolation):
    case = CASES / "zstd-encrypted-transactions"
    index = json.loads((case / "index.json").read_text())
    (directory,) = discover(str(case / "store"), options={"key_files": tuple(keys_of(case)["keyFile"].split(","))})
    rows = read_log_rows(case / "store", "topic", "partition", "offset", isolation=isolation, **keys_of(case))
    truth = {(one["topic"], one["partition"]): one["live"][isolation]["ranges"] for one in index["partitions"]}
    for partition in directory.partitions:
        walked_state = read_transactions(directory.filesystem, partition, use_indexes=False)
        indexed_state = read_transactions(directory.filesystem, partition)
        assert (indexed_state.aborted_transactions, indexed_state.open, indexed_state.log_end_offset) == (
            walked_state.aborted_transactions,
            walked_state.open,
            walked_state.log_end_offset,
        )
        name = partition.topic, partition.partition
        consumed_offsets = [n for first, last in truth[name] for n in range(first, last + 1)]
        got = [row["offset"] for row in rows if (row["topic"], row["partition"]) == name]
        assert got == [n for n in consumed_offsets if n < walked_state.end_offset_for(isolation)]


# A store built by the test


def upload(store, tmp_path, base, *, count=2000, size=100):
    """Upload a segment of small batches with its indexes."""
    path = tmp_path / f"{base:020d}.log"
    rows = [{"key": b"k%d" % n, "value": bytes([n % 251]) * size, "timestamp": base + n} for n in range(count)]
    path.write_bytes(build_records(rows, base_offset=base, leader_epoch=0, batch_records=20))
    rebuild(path)
    return store.upload(path, end_offset=base + count - 1, epochs={0: base}, checkpoint="0\n1\n0 0\n")


def rebuild(path):
    (directory,) = discover(str(path))
    indexes = rebuild_indexes(directory.filesystem, directory.partitions[0].segments[0])
    path.with_suffix(".index").write_bytes(write_offset_index(indexes.offset_index))
    path.with_suffix(".timeindex").write_bytes(write_time_index(indexes.time_index))


@pytest.fixture
def store(tmp_path):
    """Five segments of about 250 KB in chunks of 10 KB."""
    store = TieredStore(tmp_path / "store", chunk_size=10_000, compress=True)
    for base in range(0, 10_000, 2000):
        upload(store, tmp_path, base)
    return store


def bounds(first, end):
    return {
        "startingOffsets": json.dumps({"orders": {"0": first}}),
        "endingOffsets": json.dumps({"orders": {"0": end}}),
    }


@pytest.mark.parametrize(("first", "end"), [(0, 10_000), (4321, 4421), (1999, 2001), (5999, 6000), (9990, 10_000)])
@pytest.mark.parametrize("kind", ["zstd", "plain", "both"])
def test_a_range_fetches_only_its_chunks(tmp_path, kind, first, end):
    pair = KeyPair.make("k") if kind == "both" else None
    (tmp_path / "k.pem").write_bytes(pair.pem if pair else b"")
    store = TieredStore(tmp_path / "store", chunk_size=10_000, compress=kind != "plain", keys=pair)
    for base in range(0, 10_000, 2000):
        upload(store, tmp_path, base)
    read_options = bounds(first, end) | ({"keyFile": f"{tmp_path}/k.pem"} if pair else {})
    meter = ByteCounter()
    rows = read_log_rows(store.root, "offset", "value", meter=meter, **read_options)
    assert [(row["offset"], row["value"][0]) for row in rows] == [(n, n % 2000 % 251) for n in range(first, end)]
    plan = plan_log(parse_log_options({"path": str(store.root), **read_options}), cores=1)
    stored_bytes = sum(Path(f"{main}.log").stat().st_size for main in store.written_paths)
    if end - first == 10_000:
        assert plan.bytes_to_fetch == stored_bytes
    else:
        per_chunk = stored_bytes / len(store.written_paths) / (250_000 / 10_000)
        assert plan.bytes_to_fetch < 6 * per_chunk
        overhead = 5 * 3000  # manifests
        assert meter.bytes_read <= plan.bytes_to_fetch + overhead + 2 * 10_000


def test_a_wrong_index_loses_no_record(store, caplog):
    main = store.written_paths[2]
    manifest = json.loads(Path(f"{main}.rsm-manifest").read_text())
    place = manifest["segmentIndexes"]["offset"]
    path = Path(f"{main}.indexes")
    raw = bytearray(path.read_bytes())
    entries = range(place["position"], place["position"] + place["size"], 8)
    for at in entries:  # every entry has an offset 500 below that of its batch
        raw[at : at + 4] = max(int.from_bytes(raw[at : at + 4], "big") - 500, (at - entries[0]) // 8 + 1).to_bytes(
            4, "big"
        )
    path.write_bytes(raw)
    with caplog.at_level(logging.WARNING, logger="kafkaframes"):
        rows = read_log_rows(store.root, "offset", **bounds(4600, 5200))
    assert [row["offset"] for row in rows] == list(range(4600, 5200))
    assert any("index is wrong" in message for message in caplog.messages)


@pytest.mark.parametrize("table", ["records", "batches"])
def test_a_damaged_chunk_loses_only_its_batches(store, caplog, table):
    path = Path(f"{store.written_paths[1]}.log")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    name = {"records": "offset", "batches": "baseOffset"}[table]
    with caplog.at_level(logging.WARNING, logger="kafkaframes"):
        rows = [row[name] for row in read_log_rows(store.root, name, table=table) if row[name] is not None]
    step = {"records": 1, "batches": 20}[table]
    missing = sorted(set(range(0, 10_000, step)) - set(rows))
    assert rows == sorted(set(rows))
    assert 0 < len(missing) * step < 400
    assert missing == list(range(missing[0], missing[-1] + step, step))
    assert str(path) in caplog.text
    with pytest.raises(DamagedChunkError, match="cannot be read"):
        read_log_rows(store.root, name, table=table, mode="FAILFAST")


def test_a_truncated_plain_object_is_read_to_its_end(tmp_path, caplog):
    store = TieredStore(tmp_path / "store", chunk_size=10_000)
    for base in (0, 2000):
        upload(store, tmp_path, base)
    path = Path(f"{store.written_paths[0]}.log")
    path.write_bytes(path.read_bytes()[:-1000])
    with caplog.at_level(logging.WARNING, logger="kafkaframes"):
        rows = [row["offset"] for row in read_log_rows(store.root, "offset")]
    assert 1980 <= rows.index(2000) < 2000
    assert "its manifest states" in caplog.text
    with pytest.raises(LogDirError, match="its manifest states"):
        read_log_rows(store.root, "offset", mode="FAILFAST")


def test_missing_objects_are_reported_and_the_rest_is_read(store, caplog):
    Path(f"{store.written_paths[1]}.log").unlink()
    with caplog.at_level(logging.WARNING, logger="kafkaframes"):
        rows = [row["offset"] for row in read_log_rows(store.root, "offset")]
    assert rows == [*range(2000), *range(4000, 10_000)]
    assert (
        f"a manifest without its .log object: the segment is lost (at {store.written_paths[1]}.rsm-manifest)"
        in caplog.text
    )
    with pytest.raises(LogDirError, match="no segment has the offsets 2000 to 3999 of orders-0"):
        read_log_rows(store.root, "offset", mode="FAILFAST")


def test_two_topics_with_the_same_name_are_reported_and_not_mixed(store, tmp_path):
    other = TieredStore(store.root, topic_id="AAAAAAAAAAAAAAAAAAAAAA", chunk_size=10_000)
    upload(other, tmp_path, 0)
    with pytest.raises(LogDirError, match=r"two topics with the same name.*has AAAAAAAAAAAAAAAAAAAAAA") as caught:
        read_log_rows(store.root, "offset")
    assert store.topic_id in str(caught.value)
    assert len(read_log_rows(other.folder.parent, "offset")) == 2000


def test_read_records_accepts_objects(store, tmp_path):
    path = f"{store.written_paths[1]}.log"
    offsets = [n for batch in read_records(path, columns=["offset"]) for n in batch.column("offset").to_pylist()]
    assert offsets == list(range(2000, 4000))
    assert read_batches(path).num_rows == 100
    Path(f"{store.written_paths[1]}.rsm-manifest").unlink()
    with pytest.raises(LogDirError, match="has no manifest"):
        read_batches(path)


def test_a_store_in_s3_and_the_local_log_are_read_as_one_log(s3):
    import fsspec

    case = CASES / "settings-changed"
    client = {"region_name": s3["fs.s3a.endpoint.region"]}
    bucket = fsspec.filesystem(
        "s3", endpoint_url=s3["fs.s3a.endpoint"], key="testing", secret="testing", client_kwargs=client
    )
    for file in (case / "store").rglob("*.*"):
        bucket.put_file(str(file), f"backup/tiered/dc2-{file.relative_to(case / 'store')}")
    store_options = keys_of(case) | s3
    far = [row["offset"] for row in read_log_rows("s3://backup/tiered", "offset", **store_options)]
    assert far == list(range(3090))
    some = json.dumps({"orders": {"0": 1000}}), json.dumps({"orders": {"0": 1100}})
    rows = read_log_rows(
        "s3://backup/tiered", "offset", startingOffsets=some[0], endingOffsets=some[1], **store_options
    )
    assert [row["offset"] for row in rows] == list(range(1000, 1100))
    both = json.dumps([str(case / "local"), "s3://backup/tiered"])
    merged_rows = read_log_rows("", "offset", paths=both, subscribe="orders", **store_options)
    assert [row["offset"] for row in merged_rows] == list(range(3200))


def test_a_stream_reads_every_row_of_a_store_once():
    case = CASES / "settings-changed"
    follow = follower(case / "store", **keys_of(case))
    read_rows, _, batches = read_all(follow, follow.find_start_offsets().offsets, max_offsets=700)
    assert [offset for _, offset in read_rows] == list(range(3090))
    assert batches == 5


@pytest.mark.spark
def test_spark_reads_an_encrypted_store(spark):
    import kafkaframes.spark as ours

    case = CASES / "settings-changed"
    ours.register(spark)
    frame = spark.read.format("kafka-log").options(**keys_of(case)).load(str(case / "store"))
    assert frame.selectExpr("min(offset)", "max(offset)", "count(*)").first()[:] == (0, 3089, 3090)


def test_a_damaged_chunk_is_reported_when_several_copies_are_merged(tmp_path, store):
    """Two local copies have the first segment, and only the store has the others: records lost in the store are lost
    for the log.
    """
    for broker in ("one", "two"):
        (tmp_path / broker / "orders-0").mkdir(parents=True)
        name = f"{0:020d}.log"
        (tmp_path / broker / "orders-0" / name).write_bytes((tmp_path / name).read_bytes())
    paths = [
        *(str(path) for path in sorted(tmp_path.glob("*/orders-0/*.log"))),
        *(f"{m}.log" for m in store.written_paths),
    ]
    assert [n for batch in read_records(paths) for n in batch["offset"].to_pylist()] == list(range(10_000))
    path = Path(f"{store.written_paths[1]}.log")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    read_on = read_records(paths)
    offsets = [n for batch in read_on for n in batch["offset"].to_pylist()]
    missing = sorted(set(range(10_000)) - set(offsets))
    assert offsets == sorted(set(offsets))
    assert 0 < len(missing) < 400
    assert missing == list(range(missing[0], missing[-1] + 1))
    assert ["cannot be read" in error.reason for error in read_on.errors] == [True]
    with pytest.raises(DamagedChunkError, match="cannot be read"):
        list(read_records(paths, on_damage="fail"))


def test_a_damaged_chunk_with_its_records_in_another_copy_loses_nothing(tmp_path, store):
    for broker in ("one", "two"):
        (tmp_path / broker / "orders-0").mkdir(parents=True)
        for base in (0, 2000):
            name = f"{base:020d}.log"
            (tmp_path / broker / "orders-0" / name).write_bytes((tmp_path / name).read_bytes())
    paths = [
        *(str(path) for path in sorted(tmp_path.glob("*/orders-0/*.log"))),
        *(f"{m}.log" for m in store.written_paths),
    ]
    path = Path(f"{store.written_paths[1]}.log")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    read_on = read_records(paths, on_damage="fail")
    assert [n for batch in read_on for n in batch["offset"].to_pylist()] == list(range(10_000))
    assert read_on.errors == []
