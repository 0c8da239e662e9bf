"""The offsets that one action on a DataFrame of live topics reads, the same for all of its tasks.

Spark asks a Python data source for the tasks of a DataFrame once, and runs the same tasks for each action. So that each
action reads what the topics hold then, a task learns its offsets when it runs: it asks a process on the driver's
machine (``offset_process.py``), which looks them up for the first task of a query execution and gives all other tasks,
repeated ones included, the same answer. A task knows its execution by Spark's local property
``spark.sql.execution.id``, which both sides of a self-join share, and which a micro-batch has as well.

RDDs have no query execution: ``df.rdd`` and ``df.foreach`` read the offsets of the first such action on the DataFrame,
for an RDD must not change from one of its jobs to the next.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import pickle
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.driver_process import control
from kafkaframes.jobs.driver_process.address import Address

if TYPE_CHECKING:
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.shares import Range, TaskShare

log = logging.getLogger("kafkaframes.spark")
LOOPBACK: Final = "127.0.0.1"
ANSWER_S: Final = 60.0  # of silence; the process sends a space every few seconds while it looks offsets up
_MODULE: Final = "kafkaframes.spark.offset_process"
_PURPOSE: Final = "looks up the offsets of kafka-topic"
_EXECUTION_ID: Final = "spark.sql.execution.id"
_MASTER, _DRIVER_HOST = "spark.master", "spark.driver.host"
_OLD_SNAPSHOT_S: Final = 60


@dataclass(frozen=True, slots=True)
class DeferredWork:
    """What one task reads, and where it learns its offsets.

    Attributes:
        share: the parts of topic partitions that the task reads.
        plan: identifies the DataFrame.
        digest: identifies what is read.
        local: the address of the process for tasks on the driver's machine.
        remote: its address for tasks on other machines; None: the process could not listen on one.
    """

    share: TaskShare
    plan: str
    digest: str
    local: Address
    remote: Address | None

    def resolve(self, options: TopicOptions) -> list[Range]:
        """Return the ranges that this task reads in the present query execution.

        Raises:
            KafkaframesError: the process cannot be reached, or the offsets cannot be looked up.
        """
        from pyspark import TaskContext

        from kafkaframes.client.metadata import TopicPartition

        context = TaskContext.get()
        properties = {
            name: context.getLocalProperty(name) if context is not None else None
            for name in (_EXECUTION_ID, _MASTER, _DRIVER_HOST)
        }
        execution = properties[_EXECUTION_ID]
        question = {
            "execution": None if execution is None else int(execution),
            "plan": self.plan,
            "digest": self.digest,
            "options": base64.b64encode(pickle.dumps(options)).decode(),
        }
        answer = _ask_first(list(self._addresses(properties, options.driver_host)), question)
        if "failed" in answer:
            raise KafkaframesError(answer["failed"])
        if execution is None and answer["ageSeconds"] > _OLD_SNAPSHOT_S:
            log.warning(
                "an RDD of kafka-topic reads the offsets of %d s ago, when the first RDD of this DataFrame was read; "
                "load() the topic again for newer records",
                answer["ageSeconds"],
            )
        return self.share.ranges_in({TopicPartition(name, number): (s, e) for name, number, s, e in answer["bounds"]})

    def _addresses(self, properties: Mapping[str, str | None], driver_host: str | None) -> Iterator[Address]:
        """Yield where to look for the process: as Spark's settings have it, if this task has any."""
        master = properties[_MASTER]
        is_local = master is not None and (master == "local" or master.startswith("local["))
        if is_local or master is None or self.remote is None:
            yield self.local
        if is_local or self.remote is None:
            return
        if driver_host is None and properties[_DRIVER_HOST] not in (None, self.remote.host):
            yield replace(self.remote, host=str(properties[_DRIVER_HOST]).strip("[]"))
        yield self.remote
        if master is not None:
            yield self.local


def _ask_first(addresses: Sequence[Address], question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the first address at which the process can be reached."""
    from kafkaframes.jobs.driver_process.task_server import CONNECTION_ERRORS, TaskConnection

    problems: list[str] = []
    for address in addresses:
        connection: TaskConnection | None = None
        try:
            connection = TaskConnection(address)
            connection.greet(answer_timeout_s=ANSWER_S)
            return connection.ask(question)
        except CONNECTION_ERRORS as error:
            problems.append(f"{address.host}:{address.port} ({error})")
        finally:
            if connection is not None:
                connection.close()
    raise KafkaframesError(
        f"the process on the driver's machine that looks up the offsets of kafka-topic cannot be reached at "
        f"{', '.join(problems)}; if tasks run on other machines, set driverHost (and driverPort) to an address of the "
        "driver that they reach; if the process was killed, load() the DataFrame again"
    )


def defer(options: TopicOptions, shares: Sequence[TaskShare]) -> list[DeferredWork]:
    """Return the work of tasks that learn their offsets when they run; start the process unless it runs.

    Raises:
        KafkaframesError: the process cannot be started, or cannot listen on driverHost or driverPort.
    """
    host = options.driver_host or _address_of_this_machine()
    pid = _spark_process()
    path = control.socket_path("offsets", __file__, Path(__file__).stat().st_mtime_ns, *identity_of(pid))
    question = {"watch": pid, "host": host, "port": options.driver_port, "required": options.driver_host is not None}
    answer = control.ask_or_start(path, question, lambda: control.start_process(_MODULE, path, b"", purpose=_PURPOSE))
    secret = bytes.fromhex(answer["secret"])
    remote = None if answer["port"] is None else Address(host, answer["port"], secret)
    local, plan, digest = Address(LOOPBACK, answer["loopbackPort"], secret), uuid.uuid4().hex, digest_of(options)
    return [DeferredWork(share, plan, digest, local, remote) for share in shares]


def digest_of(options: TopicOptions) -> str:
    """Return a hash of what options say about partitions and offsets; it does not reveal secrets."""
    pattern = None if options.subscribe_pattern is None else options.subscribe_pattern.pattern
    values = (
        sorted(options.client.items(), key=str), sorted(options.subscribe or ()), pattern, options.assign,
        options.start, options.end, options.no_match, options.fail_on_data_loss, options.where,
    )  # fmt: skip
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _address_of_this_machine() -> str:
    """Return the address on which Spark's driver listens unless its settings say otherwise."""
    address = os.environ.get("SPARK_LOCAL_IP") or os.environ.get("SPARK_LOCAL_HOSTNAME")
    if address:
        return address.strip("[]")
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        address = LOOPBACK
    if not address.startswith("127."):
        return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:  # sends nothing: it asks for the route
        try:
            route.connect(("192.0.2.1", 9))
            return str(route.getsockname()[0])
        except OSError:
            return LOOPBACK


def _spark_process() -> int:
    """Return the process id of Spark's JVM: the first ancestor of this process that does not run Python."""
    pid, name = os.getppid(), _name_and_parent(os.getpid())[0]
    for _ in range(3):  # PySpark's daemon forks the process that plans
        parent_name, parent = _name_and_parent(pid)
        if parent_name != name and not parent_name.startswith("python"):
            break
        if parent <= 1:
            break
        pid = parent
    return pid


def _name_and_parent(pid: int) -> tuple[str, int]:
    stat = Path(f"/proc/{pid}/stat")
    try:
        if stat.exists():
            text = stat.read_text()
            name, _, rest = text.partition("(")[2].rpartition(")")
            return name, int(rest.split()[1])
        process = subprocess.run(
            ["ps", "-o", "ppid=,comm=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        parent, _, command = process.stdout.strip().partition(" ")
        return os.path.basename(command.strip()).lower(), int(parent)
    except (OSError, ValueError, subprocess.SubprocessError):
        return "", 0


def identity_of(pid: int) -> tuple[int, str]:
    """Return what distinguishes a process from a later one with the same number, as far as the system tells."""
    try:
        return pid, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return pid, ""
