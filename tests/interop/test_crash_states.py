"""For partitions after a crash, this package's readers return the records that consumers receive after Kafka starts on
them.

Crash states are segments that the cleaner or a split was about to replace (``.cleaned``, ``.swap``, ``.deleted``),
transaction indexes that are empty, short, missing or of another segment, torn ends, and combinations of these. The
records are read with ``scan_log`` before the broker starts, because the broker's recovery rewrites the files.

Damage before the end of a log is not tested: a broker deletes all records after it, but this package's readers return
them.
"""

from __future__ import annotations

import base64
import itertools
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop import brokers
from tests.interop.brokers import Record, read, user_topics
from tests.interop.log_judges import split_batches
from tests.interop.made_up_damage import bases, file_of
from tests.interop.made_up_logs import RandomLogWriter

import kafkaframes
from kafkaframes.jobs.restore.cluster import DirectoryNode, TopicLayout, build_bootstrap_checkpoint
from kafkaframes.storage.files.checkpoints import MetaProperties, write_meta_properties
from kafkaframes.storage.files.producer_files import AbortedTransaction, write_txn_index
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import read_transactions

LOGS_PER_STATE = int(os.environ.get("KAFKAFRAMES_CRASH_LOGS", "3"))
SEED = os.environ.get("KAFKAFRAMES_CRASH_SEED", "1")
ISOLATIONS = ("read_uncommitted", "read_committed")
CLUSTER_ID, DIRECTORY_ID = "Y29ycHVzLWNsdXN0ZXItMQ", "xwUKgqnBToqxLV2jFAXHkQ"
FILE_KINDS = ("log", "index", "timeindex", "txnindex")
COLUMNS = ("partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")


def add_suffix(path: Path, suffix: str) -> None:
    if path.exists():
        path.rename(f"{path}{suffix}")


def write_cleaned(choose: random.Random, directory: Path, group: list[int], suffix: str) -> None:
    """Write the cleaned copy of a group of segments with a temporary suffix, which keeps markers and last batches."""
    batches = [batch for base in group for batch in split_batches(file_of(directory, base, "log").read_bytes())]
    kept_batches = [batch for batch in batches if choose.random() < 0.6 or batch[22] & 0x20 or batch is batches[-1]]
    file_of(directory, group[0], f"log{suffix}").write_bytes(b"".join(kept_batches))
    for kind in FILE_KINDS[1:3]:
        file_of(directory, group[0], f"{kind}{suffix}").write_bytes(b"")


def replace_group(choose: random.Random, directory: Path, old: str) -> list[int]:
    """Write a complete swap file of one to three segments; the old segments are ``there``, ``deleted`` or ``gone``."""
    base_offsets = bases(directory)[:-1]
    first = choose.randrange(len(base_offsets) - 1)
    group = base_offsets[first : first + choose.choice((1, 2, 3))]
    write_cleaned(choose, directory, group, ".swap")
    for path in (file_of(directory, base, kind) for base in group for kind in FILE_KINDS):
        if old == "deleted":
            add_suffix(path, ".deleted")
        elif old == "gone":
            path.unlink(missing_ok=True)
    return group


def finish_swap(old: str) -> Callable[[random.Random, Path], None]:
    def interrupt(choose: random.Random, directory: Path) -> None:
        replace_group(choose, directory, old)

    return interrupt


def start_next_cleaning(choose: random.Random, directory: Path) -> None:
    """Leave a finished swap file, and the ``.cleaned`` file of a later segment."""
    group = replace_group(choose, directory, choose.choice(("there", "deleted", "gone")))
    later = [base for base in bases(directory) if base > group[-1]]
    write_cleaned(choose, directory, later[-1:], ".cleaned")


def cancel_split(choose: random.Random, directory: Path) -> None:
    """Leave a split whose first part is ``.cleaned`` and whose second part is ``.swap``; a broker deletes both."""
    base = choose.choice(bases(directory)[:-1])
    write_split(directory, base, (".cleaned", ".swap"))


def finish_split(old: str) -> Callable[[random.Random, Path], None]:
    def interrupt(choose: random.Random, directory: Path) -> None:
        base = choose.choice(bases(directory)[:-1])
        write_split(directory, base, (".swap", ".swap"))
        for kind in FILE_KINDS:
            if old == "deleted":
                add_suffix(file_of(directory, base, kind), ".deleted")
            elif old == "gone":
                file_of(directory, base, kind).unlink(missing_ok=True)

    return interrupt


def write_split(directory: Path, base: int, suffixes: tuple[str, str]) -> None:
    """Split a segment into two files with these suffixes."""
    batches = list(split_batches(file_of(directory, base, "log").read_bytes()))
    middle = len(batches) // 2
    second = int.from_bytes(batches[middle][:8], "big")
    for start, part, suffix in ((base, batches[:middle], suffixes[0]), (second, batches[middle:], suffixes[1])):
        file_of(directory, start, f"log{suffix}").write_bytes(b"".join(part))


def rename_half(choose: random.Random, directory: Path) -> None:
    """Leave a swap whose log file has its final name, but whose indexes do not."""
    base = choose.choice(bases(directory)[:-1])
    for kind in FILE_KINDS[1:]:
        if choose.random() < 0.7:
            file_of(directory, base, f"{kind}.swap").write_bytes(b"")


def delete_first(choose: random.Random, directory: Path) -> None:
    """Leave the first segment as ``.deleted``, as retention does before its delay has passed."""
    base = bases(directory)[0]
    for kind in FILE_KINDS:
        add_suffix(file_of(directory, base, kind), ".deleted")


def write_txn_indexes(
    contents: Callable[[random.Random, bytes], bytes | None],
) -> Callable[[random.Random, Path], None]:
    def interrupt(choose: random.Random, directory: Path) -> None:
        for base in bases(directory):
            path = file_of(directory, base, "txnindex")
            raw = contents(choose, path.read_bytes())
            path.unlink() if raw is None else path.write_bytes(raw)

    return interrupt


def list_foreign_transaction(choose: random.Random, raw: bytes) -> bytes:
    return write_txn_index([AbortedTransaction(1000 + number, 0, 10_000, 10_001) for number in range(4)])


def tear(choose: random.Random, directory: Path) -> None:
    path = file_of(directory, bases(directory)[-1], "log")
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) - choose.randrange(1, len(raw))])


def append_zeros(choose: random.Random, directory: Path) -> None:
    with file_of(directory, bases(directory)[-1], "log").open("ab") as file:
        file.write(bytes(choose.choice((1, 7, 17, 100, 4096))))


def append_garbage(choose: random.Random, directory: Path) -> None:
    with file_of(directory, bases(directory)[-1], "log").open("ab") as file:
        file.write(choose.randbytes(choose.choice((3, 17, 100))))


def flip_last_batch(choose: random.Random, directory: Path) -> None:
    """Flip a bit of the last batch that is covered by its CRC."""
    path = file_of(directory, bases(directory)[-1], "log")
    raw = bytearray(path.read_bytes())
    *_, last = split_batches(bytes(raw))
    raw[len(raw) - len(last) + choose.randrange(21, len(last))] ^= 1 << choose.randrange(8)
    path.write_bytes(bytes(raw))


def empty_active(choose: random.Random, directory: Path) -> None:
    file_of(directory, bases(directory)[-1], "log").write_bytes(b"")


def combine(*states: Callable[[random.Random, Path], None]) -> Callable[[random.Random, Path], None]:
    def interrupt(choose: random.Random, directory: Path) -> None:
        for state in states:
            state(choose, directory)

    return interrupt


EMPTY_TXN_INDEX = write_txn_indexes(lambda choose, raw: b"")
SHORT_TXN_INDEX = write_txn_indexes(lambda choose, raw: raw[: len(raw) - 1] if raw else b"\0" * 17)
STATES: dict[str, Callable[[random.Random, Path], None]] = {
    "whole": lambda choose, directory: None,
    "swap-old-there": finish_swap("there"),
    "swap-old-deleted": finish_swap("deleted"),
    "swap-old-gone": finish_swap("gone"),
    "swap-and-later-cleaned": start_next_cleaning,
    "cleaned": lambda choose, directory: write_cleaned(choose, directory, bases(directory)[:2], ".cleaned"),
    "split-unfinished": cancel_split,
    "split-old-there": finish_split("there"),
    "split-old-deleted": finish_split("deleted"),
    "split-old-gone": finish_split("gone"),
    "swap-half-renamed": rename_half,
    "first-deleted": delete_first,
    "txnindex-empty": EMPTY_TXN_INDEX,
    "txnindex-short": SHORT_TXN_INDEX,
    "txnindex-missing": write_txn_indexes(lambda choose, raw: None),
    "txnindex-foreign": write_txn_indexes(list_foreign_transaction),
    "torn": tear,
    "zeros": append_zeros,
    "garbage": append_garbage,
    "flipped-last-batch": flip_last_batch,
    "active-empty": empty_active,
    "swap-and-torn": combine(finish_swap("gone"), tear),
    "swap-and-txnindex-empty": combine(finish_swap("there"), EMPTY_TXN_INDEX),
    "torn-and-txnindex-short": combine(tear, SHORT_TXN_INDEX),
}


def write_log(choose: random.Random, directory: Path) -> None:
    """Write four to six segments with transactions, correct indexes, and the topic's id."""
    directory.mkdir(parents=True)
    writer = RandomLogWriter(choose, (2,), keys=12, clock=int(time.time() * 1000) - 86_400_000)
    while not any(producer.is_transactional for producer in writer.producers):
        writer = RandomLogWriter(choose, (2,), keys=12, clock=writer.clock)
    for _ in range(choose.choice((4, 5, 6))):
        path = directory / f"{writer.offset:020}.log"
        path.write_bytes(b"".join(writer.batch() for _ in range(choose.choice((4, 9, 15)))))
        file_of(directory, bases(directory)[-1], "index").write_bytes(b"")
        file_of(directory, bases(directory)[-1], "timeindex").write_bytes(b"")
    (log_dir,) = discover(str(directory))
    aborted_transactions = read_transactions(log_dir.filesystem, log_dir.partitions[0]).aborted_transactions
    boundaries = [*bases(directory), writer.offset]
    for base, end in itertools.pairwise(boundaries):
        entries = [transaction for transaction in aborted_transactions if base <= transaction.last_offset < end]
        file_of(directory, base, "txnindex").write_bytes(write_txn_index(entries))


def write_directory(data: Path) -> None:
    """Write a log directory with partitions in each crash state."""
    data.mkdir()
    identity = {"version": "1", "node.id": "1", "cluster.id": CLUSTER_ID, "directory.id": DIRECTORY_ID}
    (data / "meta.properties").write_bytes(write_meta_properties(MetaProperties(identity)))
    layouts = []
    for state, interrupt in STATES.items():
        for number in range(LOGS_PER_STATE):
            choose = random.Random(f"{SEED}-{state}-{number}")
            topic = f"{state}-{number}"
            directory = data / f"{topic}-0"
            write_log(choose, directory)
            interrupt(choose, directory)
            topic_id = base64.urlsafe_b64encode(b"\1" + choose.randbytes(15)).decode().rstrip("=")
            (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
            layouts.append(TopicLayout(topic, topic_id, {0: 50}, {"retention.ms": "-1"}))
    node = DirectoryNode(node_id=1, cluster_id=CLUSTER_ID, directory_id=DIRECTORY_ID)
    raw = build_bootstrap_checkpoint(layouts, node, now_ms=int(time.time() * 1000), next_producer_id=100_000)
    (data / "bootstrap.checkpoint").write_bytes(raw)


def scan(data: Path, isolation: str) -> dict[tuple[str, int], list[Record]]:
    """Return the records that ``scan_log`` returns."""
    records: dict[tuple[str, int], list[Record]] = {}
    rows = kafkaframes.scan_log(data, isolation=isolation, on_damage="drop").select("topic", *COLUMNS).to_arrow()
    timestamps = rows.column("timestamp").cast("int64").to_pylist()
    for row, timestamp in zip(rows.to_pylist(), timestamps, strict=True):
        record = brokers._words(row | {"timestamp": timestamp})
        records.setdefault((row["topic"], row["partition"]), []).append(record)
    return records


@pytest.mark.timeout(1500)
def test_a_scan_of_crashed_partitions_returns_the_records_that_a_started_broker_serves(kafka, java, tmp_path):
    data = tmp_path / "data"
    write_directory(data)
    shutil.copytree(data, tmp_path / "before")
    scanned_rows = {isolation: scan(data, isolation) for isolation in ISOLATIONS}
    with kafka(tmp_path) as node:
        served_rows = {
            isolation: user_topics(read(java, node, isolation=isolation).records) for isolation in ISOLATIONS
        }
    differences = {}
    for isolation in ISOLATIONS:
        for state in STATES:
            for number in range(LOGS_PER_STATE):
                key = (f"{state}-{number}", 0)
                ours, theirs = scanned_rows[isolation].get(key, []), served_rows[isolation].get(key, [])
                if ours != theirs:
                    only_ours, only_theirs = (
                        sorted(row[0] for row in set(rows) - set(other_rows))
                        for rows, other_rows in ((ours, theirs), (theirs, ours))
                    )
                    differences[key[0], isolation] = (
                        f"only returned by this package {only_ours}, only by the broker {only_theirs}"
                    )
    assert differences == {}
    committed_count, uncommitted_count = (
        sum(map(len, served_rows[isolation].values())) for isolation in reversed(ISOLATIONS)
    )
    assert 0 < committed_count < uncommitted_count
