"""The embedded broker for performances, and the processes in which clients perform."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any, Final

from tests.everyday.clusters import GROUPS_WITHOUT_DELAY
from tests.interop.peers.performer import KEY

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security

ROOT: Final = Path(__file__).parents[3]
TIMEOUT_S: Final = 120  # time limit of a performance
START_TIMEOUT_S: Final = 60


class Stage:
    """The broker functions that a performance may call. Values must be of builtin types, because they cross a process
    boundary.

    Attributes:
        broker: the embedded broker.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._name = ""
        self._topics = 0
        self._rules: list[Any] = []

    def begin(self, name: str) -> None:
        """Prepare a performance, whose topics and groups get unique names."""
        self._name, self._topics = name.replace("::", "."), 0

    def end(self) -> None:
        """Remove the faults of a performance."""
        for rule in self._rules:
            rule.remove()
        self._rules.clear()

    def name(self) -> str:
        """Return a new name for a topic, a group or a transactional id."""
        self._topics += 1
        return f"{self._name}-{self._topics}"

    def topic(self, partitions: int = 3, records: int = 0, **configs: str | int) -> str:
        """Create a topic and return its name.

        Args:
            partitions: number of partitions.
            records: number of records in partition 0, with timestamps 1000, 2000, ... ms, in batches of five.
            configs: topic settings, with ``_`` instead of ``.``.
        """
        name = self.name()
        self.broker.create_topic(name, partitions, **configs)
        for first in range(0, records, 5):
            numbers = range(first, min(first + 5, records))
            batch = [{"value": b"%d" % number, "timestamp": (number + 1) * 1_000} for number in numbers]
            self.broker.append(name, batch, partition=0)
        return name

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic with a given name."""
        self.broker.create_topic(name, partitions)

    def append(self, topic: str, records: Sequence[Mapping[str, Any]], partition: int = 0) -> None:
        """Append records as one batch."""
        self.broker.append(topic, list(records), partition=partition)

    def records(self, topic: str) -> list[tuple[Any, ...]]:
        """Return (partition, offset, timestamp, key, value, headers) of each stored record."""
        return [
            (number, record.offset, record.timestamp, record.key, record.value, list(map(tuple, record.headers)))
            for number in range(self.broker.topics[topic].partitions)
            for record in self.broker.records(topic, number)
        ]

    def values(self, topic: str) -> list[bytes | None]:
        """Return the values of the stored records."""
        return [record[4] for record in self.records(topic)]

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self.broker.topics)

    def fault(self, api: str, effect: str, argument: Any = None, *, topic: str | None = None, times: int = 0) -> int:
        """Add a fault; return its number. With ``times`` 0, the fault applies to all requests."""
        rule = self.broker.on(api, optional=True, **({} if topic is None else {"topic": topic}))
        if times:
            rule = rule.times(times)
        effects = getattr(rule, effect)
        self._rules.append(effects() if argument is None else effects(argument))
        return len(self._rules) - 1

    def fault_count(self, number: int) -> int:
        """Return how often a fault was applied."""
        return int(self._rules[number].count)

    def remove_fault(self, number: int) -> None:
        """End a fault."""
        self._rules[number].remove()

    def member_count(self, group: str) -> int:
        """Return the number of a group's members."""
        return len(self.broker.groups[group].members) if group in self.broker.groups else 0


class ClientProcess:
    """A process in which a client performs. The process is restarted after a performance that hangs."""

    def __init__(self, adapter: str, python: str | Path) -> None:
        self.adapter, self._python = adapter, python
        security = Security(authorizer=True)
        self._broker = Broker(config=GROUPS_WITHOUT_DELAY, security=security).__enter__()
        self._stage = Stage(self._broker)
        self._process: subprocess.Popen[bytes] | None = None
        self.version = ""

    def _start(self) -> None:
        key = secrets.token_hex(16)
        with Listener(("127.0.0.1", 0), authkey=key.encode()) as listener:
            port = listener.address[1]
            self._process = subprocess.Popen(
                [self._python, "-m", "tests.interop.peers.performer", self.adapter, self._servers(), str(port)],
                cwd=ROOT,
                env=os.environ | {KEY: key, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            listener._listener._socket.settimeout(START_TIMEOUT_S)
            self._connection = listener.accept()
        _, self.version = self._connection.recv()

    def _servers(self) -> str:
        return str(self._broker.bootstrap_servers)

    def perform(self, name: str) -> tuple[str, Any]:
        """Return the outcome of a performance: ("sees", value), ("cannot", reason), ("error", traceback) or a hang."""
        if self._process is None:
            self._start()
        self._stage.begin(name)
        self._connection.send(name)
        try:
            while self._connection.poll(TIMEOUT_S):
                kind, *message = self._connection.recv()
                if kind == "outcome":
                    return message[0], message[1]
                self._connection.send(self._answer(*message))
            self._end_process()
            return "error", f"the performance hangs: no outcome within {TIMEOUT_S} s"
        except EOFError:
            self._end_process()
            return "error", "the process has ended"
        finally:
            self._stage.end()

    def _answer(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> tuple[bool, Any]:
        try:
            return False, getattr(self._stage, name)(*arguments, **options)
        except Exception as error:
            return True, repr(error)

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._connection.close()
            self._process = None

    def close(self) -> None:
        """End the process and the broker."""
        self._end_process()
        self._broker.__exit__(None, None, None)
