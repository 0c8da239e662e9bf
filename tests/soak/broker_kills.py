"""Kill a broker with ``kill -9`` under load repeatedly, and compare its data with the acknowledged records.

    python -m tests.soak.broker_kills [ROUNDS] [SEED]

librdkafka clients run through all kills: an idempotent producer, a transactional producer that commits and aborts at
random, and a group that commits offsets. At the end, the topics are read with a read_committed consumer of librdkafka
and from the log directory. Every acknowledged record must exist once, at its acknowledged offset, in order. Each
transaction must be complete or absent, as acknowledged, and aborted records must not be read. After each kill,
committed offsets must not have decreased. The command prints the seed, and exits with status 1 after a difference.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaframes import read_records

PLAIN, BILLING, GROUP = "plain", "billing", "readers"
PARTITIONS = 3
START_SECONDS = 60
BUSY_SECONDS = 10  # maximum time in which the clients must find the restarted broker
MAX_WAITING = 1_000  # maximum number of unacknowledged records
QUIET_CONFIG = {"log_level": 0}


def free_port() -> int:
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        return free_socket.getsockname()[1]


def _drain(stream: TextIO) -> None:
    with stream:
        stream.read()


class KillableBroker:
    """A broker process that keeps its port and directory when it is killed and restarted."""

    def __init__(self, directory: str, durability: str) -> None:
        self.port = free_port()
        self._directory = directory
        self._durability = durability
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        arguments = ["--port", str(self.port), "--data-dir", self._directory, "--durability", self._durability]
        command = [sys.executable, "-m", "kafkaframes", "broker", *arguments]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self._process.stderr.readline()
        assert line.startswith("listening on"), line + self._process.stderr.read()
        threading.Thread(target=_drain, args=(self._process.stderr,), daemon=True).start()

    def end(self, number: int = signal.SIGKILL) -> int:
        self._process.send_signal(number)
        return self._process.wait(60)


@dataclass
class AcknowledgementLedger:
    """The acknowledgements that the clients have received from the broker.

    Attributes:
        plain: (partition, offset) of each acknowledged number without a transaction.
        committed_sizes: committed transactions, each with its number of records.
        aborted_numbers: transactions that were aborted or never ended.
        unknown: transactions whose end was not acknowledged.
        offsets: the highest committed offset by partition.
    """

    plain: dict[int, tuple[int, int]] = field(default_factory=dict)
    committed_sizes: dict[int, int] = field(default_factory=dict)
    aborted_numbers: set[int] = field(default_factory=set)
    unknown: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def write_plain(servers: str, ledger: AcknowledgementLedger, stop: threading.Event) -> None:
    """Send consecutive numbers with one idempotent producer until ``stop`` is set."""
    settings = {"enable.idempotence": True, "linger.ms": 2, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 300_000, **settings, **QUIET_CONFIG})

    def on_delivery(error, record) -> None:
        if error is not None:
            ledger.failures.append(f"plain {record.value()}: {error}")
        else:
            ledger.plain[int(record.value())] = record.partition(), record.offset()

    number = 0
    while not stop.is_set():
        if len(producer) < MAX_WAITING:
            producer.produce(PLAIN, b"%d" % number, partition=number % PARTITIONS, on_delivery=on_delivery)
            number += 1
        producer.poll(0 if number % 10 else 0.002)
    remaining_count = producer.flush(120)
    if remaining_count:
        ledger.failures.append(f"{remaining_count} records of {PLAIN} got no answer")


def write_transactions(servers: str, ledger: AcknowledgementLedger, stop: threading.Event, rng: random.Random) -> None:
    """Commit or abort transactions of a few records at random. A fenced producer is replaced by a new one."""
    producer, number = None, 0
    while not stop.is_set():
        try:
            if producer is None:
                producer = create_transactional(servers)
            number += 1
            one_transaction(producer, number, ledger, rng)
        except KafkaException as error:
            error_reason = error.args[0]
            if not (error_reason.fatal() or error_reason.txn_requires_abort() or error_reason.retriable()):
                ledger.failures.append(f"transaction {number}: {error_reason}")
            producer = None  # the next producer's init_transactions aborts the open transaction


def create_transactional(servers: str) -> Producer:
    settings = {"transactional.id": BILLING, "linger.ms": 1, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    producer = Producer({"bootstrap.servers": servers, **settings, **QUIET_CONFIG})
    retry(lambda: producer.init_transactions(30))
    return producer


def retry(act, seconds: float = 120) -> None:
    """Retry retriable errors until a response arrives."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            act()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def one_transaction(producer: Producer, number: int, ledger: AcknowledgementLedger, rng: random.Random) -> None:
    size, is_kept = rng.randint(1, 20), rng.random() < 0.7
    ledger.aborted_numbers.add(number)  # the transaction counts as unknown until its outcome is acknowledged
    producer.begin_transaction()
    for place in range(size):
        producer.produce(BILLING, b"%d:%d" % (number, place), partition=place % PARTITIONS)
    if not is_kept:
        producer.flush(60)
        retry(lambda: producer.abort_transaction(30))
        return
    ledger.aborted_numbers.discard(number)
    ledger.unknown[number] = size
    try:
        retry(lambda: producer.commit_transaction(30))
    except KafkaException as error:
        if error.args[0].txn_requires_abort():
            retry(lambda: producer.abort_transaction(30))
            del ledger.unknown[number]
            ledger.aborted_numbers.add(number)
            return
        raise
    del ledger.unknown[number]
    ledger.committed_sizes[number] = size


def read_and_commit(servers: str, ledger: AcknowledgementLedger, stop: threading.Event) -> None:
    """Read and commit offsets as a group, through all kills."""
    settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    times = {"session.timeout.ms": 6000, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    consumer = Consumer({"bootstrap.servers": servers, **settings, **times, **QUIET_CONFIG})
    consumer.subscribe([PLAIN])
    offsets_seen: dict[int, int] = {}
    while not stop.is_set():
        for record in consumer.consume(500, 0.05):
            if record.error() is None:
                before = offsets_seen.get(record.partition(), -1)
                if record.offset() <= before and record.offset() + 20_000 < before:
                    ledger.failures.append(f"the group's offset decreased from {before} to {record.offset()}")
                offsets_seen[record.partition()] = record.offset()
        with contextlib.suppress(KafkaException):
            for commit in consumer.commit(asynchronous=False) or ():
                if commit.error is None and commit.offset >= 0:
                    ledger.offsets[commit.partition] = max(ledger.offsets.get(commit.partition, 0), commit.offset)
    consumer.close()


def check_offsets(servers: str, ledger: AcknowledgementLedger) -> None:
    """Fetch the committed offsets. Offsets must not be lower than those acknowledged before the request."""
    before = dict(ledger.offsets)
    offsets_reader = Consumer({"bootstrap.servers": servers, "group.id": GROUP, **QUIET_CONFIG})
    try:
        committed_offsets = (
            offsets_reader.committed([TopicPartition(PLAIN, one) for one in before], timeout=60) if before else []
        )
    except KafkaException as error:
        ledger.failures.append(f"committed offsets cannot be fetched: {error}")
        return
    finally:
        offsets_reader.close()
    for one in committed_offsets:
        if one.offset < before[one.partition]:
            ledger.failures.append(
                f"{PLAIN}-{one.partition}: the committed offset decreased from {before[one.partition]} to {one.offset}"
            )


def read_all(servers: str, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """Return all records that a read_committed consumer reads, by partition."""
    settings = {"group.id": "judge", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": servers, "auto.offset.reset": "earliest", **settings, **QUIET_CONFIG})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    records_by_partition: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(PARTITIONS)}
    ended_partitions: set[int] = set()
    deadline = time.monotonic() + 300
    while len(ended_partitions) < PARTITIONS and time.monotonic() < deadline:
        for record in consumer.consume(5000, 0.2):
            if record.error() is None:
                records_by_partition[record.partition()].append((record.offset(), record.value()))
            elif record.error().code() == KafkaError._PARTITION_EOF:
                ended_partitions.add(record.partition())
    consumer.close()
    assert len(ended_partitions) == PARTITIONS, f"{topic} could not be read to its end"
    return records_by_partition


def judge(servers: str, ledger: AcknowledgementLedger) -> list[str]:
    """Compare the records with the ledger. Return the differences."""
    wrong = list(ledger.failures)
    plain = read_all(servers, PLAIN)
    values_by_place = {(partition, offset): int(value) for partition, rows in plain.items() for offset, value in rows}
    counts = Counter(values_by_place.values())
    wrong += [f"{PLAIN}: {number} is there {count} times" for number, count in counts.items() if count > 1]
    wrong += [f"{PLAIN}: {number} was acknowledged at {place} but does not exist"
              for number, place in ledger.plain.items() if values_by_place.get(place) != number]  # fmt: skip
    wrong += [f"{PLAIN}-{partition} is not in order" for partition, rows in plain.items()
              if [int(value) for _, value in rows] != sorted(int(value) for _, value in rows)]  # fmt: skip
    billed_counts = Counter(value for rows in read_all(servers, BILLING).values() for _, value in rows)
    wrong += [f"{BILLING}: {value} is there {count} times" for value, count in billed_counts.items() if count > 1]
    sizes = Counter(int(value.split(b":")[0]) for value in billed_counts)
    for number, size in ledger.committed_sizes.items():
        if sizes[number] != size:
            wrong.append(f"transaction {number} was committed with {size} records; {sizes[number]} are read")
    for number in ledger.aborted_numbers:
        if sizes[number]:
            wrong.append(f"transaction {number} was not committed; {sizes[number]} of its records are read")
    for number, size in ledger.unknown.items():
        if sizes[number] not in (0, size):
            wrong.append(f"transaction {number} has {size} records or none, not {sizes[number]}")
    return wrong


def check_directory(directory: str, ledger: AcknowledgementLedger) -> list[str]:
    """Check that the files of the closed log directory contain all acknowledged records undamaged."""
    values_by_offset: dict[tuple[int, int], int] = {}
    for partition in range(PARTITIONS):
        batches = read_records(Path(directory) / f"{PLAIN}-{partition}", columns=["offset", "value"], on_damage="fail")
        for batch in batches:
            rows = zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
            values_by_offset |= {(partition, offset): int(value) for offset, value in rows}
    return [
        f"{PLAIN}: {number} is not in the files"
        for number, place in ledger.plain.items()
        if values_by_offset.get(place) != number
    ]


def wait_until_busy(ledger: AcknowledgementLedger) -> None:
    """Wait until the clients send again, because killing an idle broker tests nothing."""
    plain, transaction_count = len(ledger.plain) + 100, len(ledger.committed_sizes) + len(ledger.aborted_numbers) + 1
    offsets = dict(ledger.offsets)
    deadline = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < deadline:
        is_busy = (
            len(ledger.plain) >= plain and len(ledger.committed_sizes) + len(ledger.aborted_numbers) > transaction_count
        )
        if is_busy and ledger.offsets != offsets:
            return
        time.sleep(0.05)


def soak(rounds: int, seed: int, durability: str) -> tuple[AcknowledgementLedger, list[str]]:
    """Run the load and the kills. Return the acknowledged counts and the differences."""
    rng, ledger, stop = random.Random(seed), AcknowledgementLedger(), threading.Event()
    with tempfile.TemporaryDirectory(prefix="kafkaframes-soak-") as directory:
        broker = KillableBroker(directory, durability)
        servers = f"127.0.0.1:{broker.port}"
        broker.start()
        try:
            admin = AdminClient({"bootstrap.servers": servers, **QUIET_CONFIG})
            creations = admin.create_topics([NewTopic(name, PARTITIONS) for name in (PLAIN, BILLING)])
            for creation in creations.values():
                creation.result(START_SECONDS)
            workers = [
                threading.Thread(target=write_plain, args=(servers, ledger, stop)),
                threading.Thread(target=write_transactions, args=(servers, ledger, stop, random.Random(seed + 1))),
                threading.Thread(target=read_and_commit, args=(servers, ledger, stop)),
            ]
            for worker in workers:
                worker.start()
            for number in range(rounds):
                wait_until_busy(ledger)
                time.sleep(rng.uniform(0.0, 1.0))
                broker.end()
                broker.start()
                check_offsets(servers, ledger)
                if (number + 1) % 20 == 0:
                    print(f"  {number + 1} kills, {len(ledger.plain):,} records and {len(ledger.committed_sizes):,} "
                          f"transactions acknowledged, {len(ledger.failures)} failures", flush=True)  # fmt: skip
            stop.set()
            for worker in workers:
                worker.join(300)
            wrong = judge(servers, ledger)
        finally:
            stop.set()
            status = broker.end(signal.SIGTERM)
        if status != 0:
            wrong.append(f"the broker ended with {status}")
        return ledger, wrong + check_directory(directory, ledger)


def main(rounds: int, seed: int) -> int:
    """Run with each durability that survives a kill. Print the acknowledged counts and the differences."""
    worst = 0
    for share, durability in ((2, "log"), (1, "fsync")):
        kills = max(1, rounds * share // 3)
        print(f"{kills} kills, durability {durability}, seed {seed}", flush=True)
        ledger, wrong = soak(kills, seed, durability)
        counts_text = f"{len(ledger.plain):,} records, {len(ledger.committed_sizes):,} transactions committed"
        print(
            f"  {counts_text}, {len(ledger.aborted_numbers):,} aborted, "
            f"{len(ledger.unknown)} unanswered: {len(wrong)} differences"
        )
        for line in wrong[:20]:
            print(f"    {line}")
        worst |= bool(wrong)
    return worst


if __name__ == "__main__":
    arguments = [int(one) for one in sys.argv[1:]]
    sys.exit(
        main(arguments[0] if arguments else 200, arguments[1] if len(arguments) > 1 else int.from_bytes(os.urandom(3)))
    )
