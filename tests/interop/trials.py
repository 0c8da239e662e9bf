"""The trials of clients in any language with the embedded broker, and the checks of their results.

A client is a program: ``PROGRAM ... NAME HOST:PORT VERB ARGUMENTS``. Values are ``PREFIX-NUMBER``, with trailing dots
so that codecs have data to compress. The program prints a line for each event, without the trailing dots of values:

    write TOPIC PREFIX COUNT CODEC PAUSE_MS    ``acked VALUE`` or ``failed VALUE``
    read TOPIC GROUP                           ``read VALUE``, until standard input ends; then it commits, and leaves
    transact TOPIC                             commits kept-0 to kept-4, aborts gone-0 ..., commits kept-too-0 ...
    admin TOPIC                                creates it, ``partitions 3``; deletes it, ``there false``
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.broker_kills import KillableBroker

from kafkaframes import read_records, scan_topic
from kafkaframes.client import Admin, NewTopic
from kafkaframes.errors import BrokerError

PATIENCE_SECONDS = 120
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITION_COUNT = 4
ACKNOWLEDGED_AT_KILLS = (300, 700)  # numbers of acknowledged records at which the broker is killed
RECORDS_TO_WRITE = 1_200


@dataclass(frozen=True)
class PeerClient:
    """A client in the table, and its features.

    Attributes:
        name: usual name of the client; name and version are a row of docs/clients.md.
        command: the client's program, and the program's name for the client.
        is_idempotent: whether retried records are written once; otherwise they are written at least once.
    """

    name: str
    version: str
    command: tuple[str | Path, ...] = ()
    codecs: tuple[str, ...] = CODECS
    is_idempotent: bool = True
    has_transactions: bool = True
    has_admin: bool = True
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The test id, which is also used in topic names."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.name}-{self.version}").strip("-")


class RunningProgram:
    """A running program, whose output lines are read as they arrive."""

    def __init__(self, broker: ServedBroker, client: PeerClient, *words: object) -> None:
        command = [*client.command, broker.bootstrap, *words]
        self._process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | client.environment,
        )
        self._lines: list[tuple[str, str]] = []
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._take_lines, daemon=True),
            threading.Thread(target=self._take_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _take_lines(self) -> None:
        with self._process.stdout as lines:
            for line in lines:
                word, _, rest = line.decode(errors="replace").strip().partition(" ")
                self._lines.append((word, rest))

    def _take_errors(self) -> None:
        with self._process.stderr as lines:
            for line in lines:
                self._errors.append(line.decode(errors="replace"))

    def words_after(self, word: str) -> list[str]:
        """Return the rest of each line so far that starts with a word."""
        return [rest for one, rest in list(self._lines) if one == word]

    def wait_until(self, awaited: str, is_so: Callable[[], bool]) -> None:
        """Wait for a condition while the program runs."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert self._process.poll() is None, f"ended with {self._process.returncode}: {self.errors()}"
            assert time.monotonic() < deadline, (
                f"not so: {awaited}; {Counter(w for w, _ in self._lines)} {self.errors()}"
            )
            time.sleep(0.05)

    def errors(self) -> str:
        """Return the end of the program's error output."""
        return "".join(self._errors[-40:])[-4000:]

    def end(self) -> RunningProgram:
        """Close the program's standard input, and wait until the program ends."""
        self._process.stdin.close()
        try:
            status = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end: {self.errors()}") from None
        for thread in self._threads:
            thread.join()
        assert status == 0, self.errors()
        return self

    def kill(self) -> None:
        """Kill the program immediately."""
        self._process.kill()
        self._process.wait()
        with suppress(OSError):  # closing may fail because of unflushed data
            self._process.stdin.close()
        for thread in self._threads:
            thread.join()


class ServedBroker:
    """A broker in a separate process, which keeps its port and directory when it is killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process = KillableBroker(str(directory), "log")
        self._process.start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._process.port}"

    def crash(self) -> None:
        """Kill the broker with kill -9, and restart it shortly afterwards."""
        self._process.end()
        time.sleep(0.5)
        self._process.start()

    def close(self) -> None:
        self._process.end()

    def create(self, topic: str, partitions: int = PARTITION_COUNT) -> None:
        with Admin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, partitions)])

    def values(self, topic: str) -> list[str]:
        """Return the values that a read_committed consumer gets."""
        table = scan_topic(self.bootstrap, topic).select("value").to_arrow()
        return [value.decode().rstrip(".") for value in table.column(0).to_pylist()]

    def codecs(self, topic: str) -> dict[str, str]:
        """Return the codec of each value's batch, read from the log files."""
        records = read_records(
            self.directory, topics=[topic], columns=["value", "codec"], control_records=False
        ).read_all()
        return {row["value"].decode().rstrip("."): row["codec"] for row in records.to_pylist()}

    def assignment_sizes(self, group: str) -> list[int]:
        """Return the number of partitions of each member of a stable group."""
        with Admin(self.bootstrap) as admin:
            try:
                description = admin.describe_group(group)
            except BrokerError:  # no member has joined yet
                return []
        return sorted(len(member.assignment) for member in description.members) if description.state == "Stable" else []


@contextmanager
def programs(broker: ServedBroker, client: PeerClient) -> Iterator[Callable[..., RunningProgram]]:
    """Yield a function that starts the client's program. All programs are killed at the end of the test."""
    running_programs: list[RunningProgram] = []

    def start(*words: object) -> RunningProgram:
        running_programs.append(RunningProgram(broker, client, *words))
        return running_programs[-1]

    try:
        yield start
    finally:
        for program in running_programs:
            program.kill()


def try_codecs(broker: ServedBroker, client: PeerClient, start: Callable[..., RunningProgram]) -> str:
    """Check that the log has each requested codec, and that a group reads all records."""
    topic = f"codecs-{client.id}"
    broker.create(topic)
    expected_codecs = {}
    for codec in client.codecs:
        writer = start("write", topic, codec, 20, codec, 0).end()
        written_values = [f"{codec}-{number}" for number in range(20)]
        assert sorted(writer.words_after("acked")) == sorted(written_values), f"{codec}: {writer.errors()}"
        expected_codecs |= dict.fromkeys(written_values, codec)
    assert broker.codecs(topic) == expected_codecs
    reader = start("read", topic, f"{topic}-group")
    reader.wait_until("all is read", lambda: set(reader.words_after("read")) >= set(expected_codecs))
    assert Counter(reader.end().words_after("read")) == Counter(expected_codecs.keys())
    return ", ".join(client.codecs)


def try_rebalances(broker: ServedBroker, client: PeerClient, start: Callable[..., RunningProgram]) -> str:
    """Check that two members share the partitions. When one leaves, the other one gets all partitions. Committed
    records are not read again.
    """
    topic = f"group-{client.id}"
    group = f"{topic}-group"
    broker.create(topic)

    def write(prefix: str) -> set[str]:
        return set(start("write", topic, prefix, 100, "none", 1).end().words_after("acked"))

    first = start("read", topic, group)
    first.wait_until("one member has all partitions", lambda: broker.assignment_sizes(group) == [4])
    written_values = write("alone")
    first.wait_until("it reads all", lambda: set(first.words_after("read")) >= written_values)
    second = start("read", topic, group)
    second.wait_until("two members share", lambda: broker.assignment_sizes(group) == [2, 2])
    written_values = write("shared")
    second.wait_until(
        "both read all", lambda: {*first.words_after("read"), *second.words_after("read")} >= written_values
    )
    second.end()
    first.wait_until("one member has all partitions again", lambda: broker.assignment_sizes(group) == [4])
    written_values = write("alone-again")
    first.wait_until(
        "the remaining member reads all new records", lambda: set(first.words_after("read")) >= written_values
    )
    first.end()
    last = start("read", topic, group)
    last.wait_until("the third member has all partitions", lambda: broker.assignment_sizes(group) == [4])
    written_values = write("after")
    last.wait_until("the third member reads the new records", lambda: set(last.words_after("read")) >= written_values)
    assert set(last.end().words_after("read")) == written_values
    return "2 members"


def try_transactions(broker: ServedBroker, client: PeerClient, start: Callable[..., RunningProgram]) -> str:
    """Check that committed records are read and aborted ones are not."""
    topic = f"transact-{client.id}"
    broker.create(topic)
    start("transact", topic).end()
    assert sorted(broker.values(topic)) == [
        f"{prefix}-{number}" for prefix in ("kept", "kept-too") for number in range(5)
    ]
    with_aborted = scan_topic(broker.bootstrap, topic, isolation="read_uncommitted").select("value").to_arrow()
    assert with_aborted.num_rows == 15
    return "committed, aborted"


def try_administration(broker: ServedBroker, client: PeerClient, start: Callable[..., RunningProgram]) -> str:
    """Check that a topic is created, described and deleted."""
    outcome = start("admin", f"admin-{client.id}").end()
    assert outcome.words_after("partitions") == ["3"]
    assert outcome.words_after("there") == ["false"]
    return "create, describe, delete"


def try_kills(broker: ServedBroker, client: PeerClient, start: Callable[..., RunningProgram]) -> str:
    """Check that a broker that is killed twice has each acknowledged record, once if the client is idempotent."""
    topic = f"kills-{client.id}"
    broker.create(topic)
    reader = start("read", topic, f"{topic}-group")
    writer = start("write", topic, "record", RECORDS_TO_WRITE, "none", 3)
    for count in ACKNOWLEDGED_AT_KILLS:
        writer.wait_until(f"{count} are acknowledged", lambda count=count: len(writer.words_after("acked")) >= count)
        broker.crash()
    acknowledged_values = writer.end().words_after("acked")
    assert len(acknowledged_values) == len(set(acknowledged_values)) > ACKNOWLEDGED_AT_KILLS[-1] + 100, (
        "it continues after the last kill"
    )
    stored_counts = Counter(broker.values(topic))
    assert [value for value in acknowledged_values if not stored_counts[value]] == []
    twice = sum(count - 1 for count in stored_counts.values())
    if client.is_idempotent:
        assert twice == 0
    reader.wait_until(
        "all acknowledged records are read", lambda: set(reader.words_after("read")) >= set(acknowledged_values)
    )
    reader.end()
    return f"{len(acknowledged_values):,} acknowledged, each stored" + (" once" if not twice else f", {twice} twice")


Trial = Callable[[ServedBroker, PeerClient, Callable[..., RunningProgram]], str]
TRIALS: dict[str, tuple[Trial, Callable[[PeerClient], bool]]] = {
    "codecs": (try_codecs, lambda client: bool(client.codecs)),
    "rebalance": (try_rebalances, lambda client: True),
    "transaction": (try_transactions, lambda client: client.has_transactions),
    "admin": (try_administration, lambda client: client.has_admin),
    "kill -9": (try_kills, lambda client: True),
}


def trials_of(clients: Sequence[PeerClient]) -> list[tuple[PeerClient, str]]:
    """Return each client with each trial of its features."""
    return [(client, name) for client in clients for name, (_, is_supported) in TRIALS.items() if is_supported(client)]


def run_trial(broker: ServedBroker, client: PeerClient, name: str) -> str:
    """Run one trial. Run a trial; return a short description of the result."""
    with programs(broker, client) as start:
        return TRIALS[name][0](broker, client, start)
