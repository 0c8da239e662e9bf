"""Rules of a recovery on artificial logs. Each was found by a different result of a broker's classes."""

from pathlib import Path

import pytest

from kafkaframes.records.build import build_empty_batch, build_records
from kafkaframes.records.fields import BatchFields
from kafkaframes.storage.files.producer_files import (
    AbortedTransaction,
    ProducerEntry,
    passes_sanity_check,
    read_producer_snapshot,
    write_producer_snapshot,
    write_txn_index,
)
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import read_transactions
from kafkaframes.storage.recovery.plan import plan_recovery
from kafkaframes.storage.recovery.recover import RecoverySettings, recover_to

NOW_MS = 1_795_000_000_000
DIRECTORY = "t-0"


def build_batch(first: int, count: int = 1, **options) -> bytes:
    offsets = list(range(first, first + count))
    columns = {"offset": offsets, "timestamp": [NOW_MS] * count, "key": [b"k"] * count, "value": [b"v"] * count}
    return build_records(columns, **options)


def write_log(home: Path, segments: dict[int, bytes]) -> Path:
    (home / DIRECTORY).mkdir(parents=True)
    for base, data in segments.items():
        (home / DIRECTORY / f"{base:020}.log").write_bytes(data)
    return home


def recover_log(home: Path, **settings) -> dict[str, bytes]:
    (directory,) = discover(str(home))
    (partition,) = directory.partitions
    target = home.with_name("recovered")
    chosen_settings = RecoverySettings(NOW_MS, **settings)
    recover_to(
        directory,
        plan_recovery(directory, partition, broker_release=chosen_settings.broker_release),
        chosen_settings,
        target,
    )
    return {path.name: path.read_bytes() for path in target.iterdir()}


def test_messages_of_old_formats_do_not_advance_the_producer_state(tmp_path):
    first = build_batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0) + build_batch(2, record_format=1)
    files = recover_log(write_log(tmp_path / "logs", {0: first, 3: build_batch(3)}))
    snapshots = {int(name[:20]): read_producer_snapshot(raw) for name, raw in files.items() if "snapshot" in name}
    assert {offset: [entry.last_offset for entry in entries] for offset, entries in snapshots.items()} == {
        3: [1],
        4: [1],
    }


def test_an_emptied_control_batch_adds_its_producer(tmp_path):
    fields = BatchFields(producer_id=7, producer_epoch=3, transactional=True, control=True)
    files = recover_log(write_log(tmp_path / "logs", {0: build_empty_batch(0, 0, max_timestamp=NOW_MS, fields=fields)}))
    assert read_producer_snapshot(files[f"{1:020}.snapshot"]) == (ProducerEntry(7, -1, -1, -1, 0, -1, -1, -1),)


@pytest.mark.parametrize(("broker_release", "epochs"), [("2.8", "0\n2\n1 0\n2 5\n"), ("4.x", "0\n1\n2 5\n")])
def test_2_8_does_not_read_epochs_from_a_segment_without_an_index(tmp_path, broker_release, epochs):
    home = write_log(tmp_path / "logs", {0: build_batch(0, 5, leader_epoch=1), 5: build_batch(5, leader_epoch=2)})
    (home / DIRECTORY / f"{0:020}.index").write_bytes(b"")
    assert recover_log(home, broker_release=broker_release)["leader-epoch-checkpoint"].decode() == epochs


def test_an_empty_last_segment_specifies_the_log_end(tmp_path):
    (directory,) = discover(str(write_log(tmp_path / "logs", {0: build_batch(0, 2), 9: b""})))
    assert read_transactions(directory.filesystem, directory.partitions[0]).log_end_offset == 9


def test_a_transaction_index_is_checked_like_in_a_broker():
    entry = write_txn_index([AbortedTransaction(1, 10, 20, 21)])
    for version, base_offset, right in ((0, 20, True), (0, 21, False), (1, 0, False), (0x80, 0, True)):
        assert passes_sanity_check(bytes([version]) + entry[1:] + b"tail", base_offset=base_offset) is right


def test_renamed_segments_keep_recovered_indexes_and_snapshots(tmp_path):
    home = write_log(tmp_path / "logs", {0: build_batch(0, 2) + b"\0" * 20, 2: build_batch(2)})
    for base in (0, 2):
        (home / DIRECTORY / f"{base:020}.index").write_bytes(b"\0" * 8)
    (home / DIRECTORY / f"{2:020}.snapshot").write_bytes(write_producer_snapshot([]))
    files = recover_log(home)
    assert files[f"{2:020}.index.deleted"] == b"\0" * 8  # this index was not recovered
    assert files[f"{2:020}.timeindex.deleted"] == b""
    assert read_producer_snapshot(files[f"{2:020}.snapshot.deleted"]) == ()
    assert files[f"{2:020}.snapshot"]  # rebuilt at the log end


def test_a_log_that_ends_before_its_start_loses_epochs_and_renames_indexes(tmp_path):
    home = write_log(tmp_path / "logs", {0: build_batch(0, 2, leader_epoch=3)})
    (home / DIRECTORY / f"{0:020}.index").write_bytes(b"\0" * 8)
    (home / "log-start-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    files = recover_log(home)
    assert files["leader-epoch-checkpoint"] == b"0\n0\n"
    assert files[f"{0:020}.index.deleted"] == b""
    assert files[f"{9:020}.log"] == b""


def test_the_file_of_the_epochs_is_made_empty_and_left_alone_where_nothing_is_to_be_said(tmp_path):
    assert (
        recover_log(write_log(tmp_path / "logs", {0: build_batch(0, record_format=1)}))["leader-epoch-checkpoint"]
        == b""
    )


def test_a_swap_without_an_index_is_not_recovered_at_the_start(tmp_path):
    home = write_log(tmp_path / "logs", {0: build_batch(0, leader_epoch=1), 1: build_batch(1, leader_epoch=4)})
    (home / DIRECTORY / f"{0:020}.index").write_bytes(b"")
    (home / DIRECTORY / f"{1:020}.log").rename(home / DIRECTORY / f"{1:020}.log.swap")
    assert recover_log(home)["leader-epoch-checkpoint"] == b"0\n2\n1 0\n4 1\n"


def test_a_batch_with_a_changed_offset_still_updates_producers(tmp_path):
    first = build_batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0)
    far = build_batch(500, producer_id=7, producer_epoch=0, base_sequence=2)
    files = recover_log(write_log(tmp_path / "logs", {0: first + far, 3: build_batch(3)}))
    assert read_producer_snapshot(files[f"{3:020}.snapshot"])[0].last_offset == 500


def test_the_epoch_checkpoint_is_rewritten_with_equal_content_like_in_a_broker(tmp_path):
    home = write_log(tmp_path / "logs", {0: build_batch(0, record_format=1)})
    (home / DIRECTORY / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n2 5\n40 0\n")
    assert recover_log(home)["leader-epoch-checkpoint"] == b"0\n1\n40 0\n"


def test_active_indexes_are_truncated_to_whole_entries_after_a_clean_stop(tmp_path):
    home = write_log(tmp_path / "logs", {0: build_batch(0), 1: build_batch(1)})
    (home / ".kafka_cleanshutdown").write_bytes(b"")
    for base in (0, 1):
        (home / DIRECTORY / f"{base:020}.index").write_bytes(bytes(9))
        (home / DIRECTORY / f"{base:020}.timeindex").write_bytes(bytes(13))
    files = recover_log(home)
    assert {name[19:]: len(raw) for name, raw in files.items() if name.endswith("index")} == {
        "0.index": 9, "0.timeindex": 13, "1.index": 8, "1.timeindex": 12,
    }  # fmt: skip
