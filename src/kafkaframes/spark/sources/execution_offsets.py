"""Resolve the same offsets for all tasks of one action on a DataFrame of live topics.

Spark requests the tasks of a DataFrame from a Python data source once, and runs the same tasks for each action. Each
action should read the current records, so a task requests its offsets when it runs, from a process on the driver's
machine (``offset_process.py``). The process looks the offsets up for the first task of a query execution, and returns
the same offsets to all other tasks and to repeated tasks. Tasks identify their execution by Spark's local property
``spark.sql.execution.id``. Both sides of a self-join have the same id, and each micro-batch has its own id.

RDDs have no query execution. ``df.rdd`` and ``df.foreach`` read the offsets of the first RDD action on the DataFrame,
because all jobs of an RDD must read the same records.
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
from kafkaframes.jobs.driver_process.address import TaskServerAddress

if TYPE_CHECKING:
    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.scan.topic.shares import PartitionRange, TaskShare

log = logging.getLogger("kafkaframes.spark")
LOOPBACK: Final = "127.0.0.1"
RESPONSE_TIMEOUT_SECONDS: Final = 60.0  # timeout without data; the process sends spaces while it looks offsets up
_PROCESS_MODULE: Final = "kafkaframes.spark.sources.offset_process"
_PROCESS_PURPOSE: Final = "looks up the offsets of kafka-topic"
_EXECUTION_ID_PROPERTY: Final = "spark.sql.execution.id"
_MASTER, _DRIVER_HOST = "spark.master", "spark.driver.host"
_MAX_SILENT_AGE_SECONDS: Final = 60  # the use of older offsets by an RDD is logged as a warning


@dataclass(frozen=True, slots=True)
class DeferredOffsetWork:
    """The partitions that a task reads, and the address of the process that looks up their offsets.

    Attributes:
        share: partitions, and parts of partitions, that the task reads.
        plan: id of the DataFrame.
        digest: hash of the options that select partitions and offsets.
        local: address of the process for tasks on the driver's machine.
        remote: address of the process for tasks on other machines; None if the process cannot listen on it.
    """

    share: TaskShare
    plan: str
    digest: str
    local: TaskServerAddress
    remote: TaskServerAddress | None

    def resolve_ranges(self, options: TopicOptions) -> list[PartitionRange]:
        """Return the offset ranges that this task reads in the current query execution.

        Raises:
            KafkaframesError: the process cannot be reached, or the offsets cannot be looked up.
        """
        from pyspark import TaskContext

        from kafkaframes.client.metadata import TopicPartition

        context = TaskContext.get()
        properties = {
            name: context.getLocalProperty(name) if context is not None else None
            for name in (_EXECUTION_ID_PROPERTY, _MASTER, _DRIVER_HOST)
        }
        execution = properties[_EXECUTION_ID_PROPERTY]
        request = {
            "execution": None if execution is None else int(execution),
            "plan": self.plan,
            "digest": self.digest,
            "options": base64.b64encode(pickle.dumps(options)).decode(),
        }
        answer = _query_first_reachable(list(self._iterate_addresses(properties, options.driver_host)), request)
        if "failed" in answer:
            raise KafkaframesError(answer["failed"])
        if execution is None and answer["ageSeconds"] > _MAX_SILENT_AGE_SECONDS:
            log.warning(
                "an RDD of kafka-topic reads the offsets of %d s ago, when the first RDD of this DataFrame was read; "
                "load() the topic again for newer records",
                answer["ageSeconds"],
            )
        return self.share.select_ranges(
            {TopicPartition(name, number): (s, e) for name, number, s, e in answer["bounds"]}
        )

    def _iterate_addresses(
        self, properties: Mapping[str, str | None], driver_host: str | None
    ) -> Iterator[TaskServerAddress]:
        """Yield the addresses at which the process may be reached, according to the task's Spark settings."""
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


def _query_first_reachable(addresses: Sequence[TaskServerAddress], request: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request to the first address that can be reached, and return the response."""
    from kafkaframes.jobs.driver_process.task_server import CONNECTION_ERRORS, TaskConnection

    problems: list[str] = []
    for address in addresses:
        connection: TaskConnection | None = None
        try:
            connection = TaskConnection(address)
            connection.authenticate(answer_timeout_s=RESPONSE_TIMEOUT_SECONDS)
            return connection.send_request(request)
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


def defer_offsets(options: TopicOptions, shares: Sequence[TaskShare]) -> list[DeferredOffsetWork]:
    """Return the work of tasks with offsets that are resolved when they run.

    The process is started if it is not running.

    Raises:
        KafkaframesError: the process cannot be started, or cannot listen on driverHost or driverPort.
    """
    host = options.driver_host or _find_own_address()
    pid = _find_jvm_process()
    path = control.make_socket_path("offsets", __file__, Path(__file__).stat().st_mtime_ns, *identify_process(pid))
    request = {"watch": pid, "host": host, "port": options.driver_port, "required": options.driver_host is not None}
    answer = control.send_request_or_start(
        path, request, lambda: control.start_process(_PROCESS_MODULE, path, b"", purpose=_PROCESS_PURPOSE)
    )
    secret = bytes.fromhex(answer["secret"])
    remote = None if answer["port"] is None else TaskServerAddress(host, answer["port"], secret)
    local, plan, digest = (
        TaskServerAddress(LOOPBACK, answer["loopbackPort"], secret),
        uuid.uuid4().hex,
        digest_options(options),
    )
    return [DeferredOffsetWork(share, plan, digest, local, remote) for share in shares]


def digest_options(options: TopicOptions) -> str:
    """Return a hash of the options that select partitions and offsets. The hash does not reveal secrets."""
    pattern = None if options.subscribe_pattern is None else options.subscribe_pattern.pattern
    values = (
        sorted(options.client.items(), key=str), sorted(options.subscribe or ()), pattern, options.assign,
        options.start, options.end, options.no_match, options.fail_on_data_loss, options.row_filter,
    )  # fmt: skip
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _find_own_address() -> str:
    """Return the default listen address of Spark's driver."""
    address = os.environ.get("SPARK_LOCAL_IP") or os.environ.get("SPARK_LOCAL_HOSTNAME")
    if address:
        return address.strip("[]")
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        address = LOOPBACK
    if not address.startswith("127."):
        return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:  # sends no data: this only selects the route
        try:
            route.connect(("192.0.2.1", 9))
            return str(route.getsockname()[0])
        except OSError:
            return LOOPBACK


def _find_jvm_process() -> int:
    """Return the process id of Spark's JVM, which is the first ancestor of this process that is not Python."""
    pid, name = os.getppid(), _read_process_info(os.getpid())[0]
    for _ in range(3):  # PySpark's daemon forks the planner process
        parent_name, parent = _read_process_info(pid)
        if parent_name != name and not parent_name.startswith("python"):
            break
        if parent <= 1:
            break
        pid = parent
    return pid


def _read_process_info(pid: int) -> tuple[str, int]:
    """Return the name and the parent's id of a process; an empty name if it cannot be read."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        if stat.exists():
            text = stat.read_text()
            name, _, stat_fields = text.partition("(")[2].rpartition(")")
            return name, int(stat_fields.split()[1])
        process = subprocess.run(
            ["ps", "-o", "ppid=,comm=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        parent, _, command = process.stdout.strip().partition(" ")
        return os.path.basename(command.strip()).lower(), int(parent)
    except (OSError, ValueError, subprocess.SubprocessError):
        return "", 0


def identify_process(pid: int) -> tuple[int, str]:
    """Return the id and the start time of a process. The start time is empty if the system does not report it."""
    try:
        return pid, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return pid, ""
