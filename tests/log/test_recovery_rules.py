"""Single rules of a recovery on made-up logs, each found where a broker's own classes gave another answer."""

from pathlib import Path

import pytest

from kafkaframes.log.directory import discover
from kafkaframes.log.producer_snapshot import ProducerEntry, read_producer_snapshot
from kafkaframes.log.recovery import RecoverySettings, recover_to
from kafkaframes.log.recovery_plan import plan_recovery
from kafkaframes.log.transactions import transactions_of
from kafkaframes.records.build import build_empty_batch, build_records
from kafkaframes.records.fields import BatchFields

NOW_MS = 1_795_000_000_000
DIRECTORY = "t-0"


def rows(first: int, count: int = 1, **options) -> bytes:
    offsets = list(range(first, first + count))
    columns = {"offset": offsets, "timestamp": [NOW_MS] * count, "key": [b"k"] * count, "value": [b"v"] * count}
    return build_records(columns, **options)


def write_log(home: Path, segments: dict[int, bytes]) -> Path:
    (home / DIRECTORY).mkdir(parents=True)
    for base, data in segments.items():
        (home / DIRECTORY / f"{base:020}.log").write_bytes(data)
    return home


def recovered(home: Path, **settings) -> dict[str, bytes]:
    (directory,) = discover(str(home))
    (partition,) = directory.partitions
    target = home.with_name("recovered")
    recover_to(directory, plan_recovery(directory, partition), RecoverySettings(NOW_MS, **settings), target)
    return {path.name: path.read_bytes() for path in target.iterdir()}


def test_messages_of_old_formats_do_not_move_the_end_of_what_is_known_of_producers(tmp_path):
    first = rows(0, 2, producer_id=7, producer_epoch=0, base_sequence=0) + rows(2, magic=1)
    files = recovered(write_log(tmp_path / "logs", {0: first, 3: rows(3)}))
    snapshots = {int(name[:20]): read_producer_snapshot(raw) for name, raw in files.items() if "snapshot" in name}
    assert {offset: [one.last_offset for one in found] for offset, found in snapshots.items()} == {3: [1], 4: [1]}


def test_an_emptied_control_batch_makes_its_producer_known(tmp_path):
    fields = BatchFields(producer_id=7, producer_epoch=3, transactional=True, control=True)
    files = recovered(write_log(tmp_path / "logs", {0: build_empty_batch(0, 0, max_timestamp=NOW_MS, fields=fields)}))
    assert read_producer_snapshot(files[f"{1:020}.snapshot"]) == (ProducerEntry(7, -1, -1, -1, 0, -1, -1, -1),)


@pytest.mark.parametrize(("semantics", "epochs"), [("2.8", "0\n2\n1 0\n2 5\n"), ("4.x", "0\n1\n2 5\n")])
def test_2_8_does_not_learn_epochs_from_a_segment_that_lost_its_index(tmp_path, semantics, epochs):
    home = write_log(tmp_path / "logs", {0: rows(0, 5, leader_epoch=1), 5: rows(5, leader_epoch=2)})
    (home / DIRECTORY / f"{0:020}.index").write_bytes(b"")
    assert recovered(home, semantics=semantics)["leader-epoch-checkpoint"].decode() == epochs


def test_an_empty_last_segment_says_where_the_log_ends(tmp_path):
    (directory,) = discover(str(write_log(tmp_path / "logs", {0: rows(0, 2), 9: b""})))
    assert transactions_of(directory.filesystem, directory.partitions[0]).log_end_offset == 9
