"""Look up the offsets of live topics once for each query execution; see ``execution_offsets.py``.

    python -m kafkaframes.spark.sources.offset_process SOCKET

One process serves all sessions of a JVM, and ends with the JVM. The process stores the offsets of query executions,
compressed, in at most ``MAX_CACHE_BYTES``, and evicts the least recently used execution. A task of an evicted execution
gets an error, because newer offsets would not match those of earlier tasks.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import secrets
import sys
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkaframes.client.loop import LoopThread
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.driver_process.serving import announce_ready, is_process_running, serve
from kafkaframes.jobs.driver_process.task_server import GREETING_TIMEOUT_S, SECRET_BYTES, TaskServer, send_last_answer
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import resolve_topic
from kafkaframes.scan.topic.shares import Bounds
from kafkaframes.spark.runtime.worker import rename_to_options
from kafkaframes.spark.sources.execution_offsets import LOOPBACK, identify_process

log = logging.getLogger("kafkaframes.spark")
MAX_CACHE_BYTES: Final = 64 << 20
HEARTBEAT_SECONDS: Final = 5.0
FIRST_REQUEST_TIMEOUT_SECONDS: Final = 60.0
_ENTRY_OVERHEAD_BYTES: Final = 500  # size of the key and the Python objects of an entry
Key = tuple[int | str, str]  # execution id or plan id, and the digest of the options


class _CachedBounds(NamedTuple):
    """The start and end offsets of a query, as bytes for Spark, and the time when they were read from the cluster."""

    bounds: bytes
    resolved_at: float

    @property
    def size_bytes(self) -> int:
        return len(self.bounds) + _ENTRY_OVERHEAD_BYTES


class ExecutionOffsetCache:
    """An LRU cache of the offsets that query executions read."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[Key, _CachedBounds] = OrderedDict()
        self._size_bytes = 0
        self._last_evicted_execution = -1
        self._evicted_plans: set[str] = set()

    def find_offsets(self, key: Key) -> tuple[list[list[Any]], float] | None:
        """Return the offsets of an execution and their age in seconds; None if the execution is new.

        Raises:
            KafkaframesError: the offsets were evicted.
        """
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            bounds: list[list[Any]] = json.loads(zlib.decompress(entry.bounds))
            return bounds, self._clock() - entry.resolved_at
        name = key[0]
        if name in self._evicted_plans or (isinstance(name, int) and name <= self._last_evicted_execution):
            raise KafkaframesError(
                f"the offsets of query execution {name} were evicted by newer executions; run the action again"
            )
        return None

    def add_offsets(self, key: Key, bounds: Bounds) -> None:
        """Store the offsets of an execution."""
        rows = [[partition.topic, partition.partition, first, end] for partition, (first, end) in bounds.items()]
        entry = _CachedBounds(zlib.compress(json.dumps(rows).encode(), 1), self._clock())
        self._entries[key] = entry
        self._size_bytes += entry.size_bytes
        while self._size_bytes > self._max_bytes and len(self._entries) > 1:
            (name, _), oldest = self._entries.popitem(last=False)
            self._size_bytes -= oldest.size_bytes
            if isinstance(name, int):
                self._last_evicted_execution = max(self._last_evicted_execution, name)
            else:
                self._evicted_plans.add(name)


class OffsetService:
    """A server that looks up the offsets of each query once: planners connect to a Unix socket, and tasks to TCP ports.

    Args:
        resolve: function that looks up offsets.
        max_bytes: largest size of the stored offsets, in bytes.
    """

    def __init__(
        self, resolve: Callable[[TopicOptions], Bounds] = resolve_topic, max_bytes: int = MAX_CACHE_BYTES
    ) -> None:
        self._resolve = resolve
        self._memory = ExecutionOffsetCache(max_bytes)
        self._pending: dict[Key, asyncio.Task[None]] = {}
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._loop = LoopThread("kafkaframes offsets")
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, int], tuple[TaskServer, int]] = {}
        self._watched_queries: set[tuple[int, str]] = set()
        self._ends_not_before = time.monotonic() + FIRST_REQUEST_TIMEOUT_SECONDS
        self._start_server(LOOPBACK, 0)

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            servers = [server for server, _ in self._servers.values()]
            self._servers.clear()
        for server in servers:
            server.close()
        if servers:
            self._loop.close()

    def handle_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ports at which tasks reach this process, and the secret that these tasks need.

        Raises:
            KafkaframesError: this process cannot listen on the specified host or port.
        """
        with self._lock:
            self._watched_queries.add(identify_process(request["watch"]))
            self._ends_not_before = time.monotonic()
            host, port = request["host"], request["port"]
            try:
                number: int | None = self._start_server(host, port)
            except KafkaframesError:
                if request["required"] or port:
                    raise
                number = None  # tasks on the driver's machine do not need this port
            loopback = self._servers[LOOPBACK, 0][1]
        return {"secret": self._secret.hex(), "loopbackPort": loopback, "port": number}

    def should_exit(self) -> bool:
        """Return whether all JVMs that use this process have ended. The first JVM has a minute to send its request."""
        with self._lock:
            self._watched_queries = {
                jvm for jvm in self._watched_queries if is_process_running(jvm[0]) and identify_process(jvm[0]) == jvm
            }
            return not self._watched_queries and time.monotonic() > self._ends_not_before

    def _start_server(self, host: str, port: int) -> int:
        """Listen at a host and port for tasks, and return the port."""
        if (host, port) not in self._servers:
            server = TaskServer(self._loop, self._serve_connection, self._secret)
            self._servers[host, port] = server, server.open(host, port)
        return self._servers[host, port][1]

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to a task's request. Until the response is ready, send spaces to show that this process runs."""
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            request = json.loads(await reader.readline())
        work = asyncio.create_task(self._answer_task(request))
        try:
            while not (await asyncio.wait({work}, timeout=HEARTBEAT_SECONDS))[0]:
                writer.write(b" ")
                await writer.drain()
        finally:
            work.cancel()
        await send_last_answer(reader, writer, work.result())

    async def _answer_task(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the offsets of the task's query execution, or the reason why they cannot be looked up."""
        execution, options = request["execution"], request["options"]
        key: Key = (request["plan"] if execution is None else int(execution), request["digest"])
        try:
            answer = self._memory.find_offsets(key)
            if answer is None:
                if key not in self._pending:
                    self._pending[key] = asyncio.create_task(self._look_up_offsets(key, base64.b64decode(options)))
                await asyncio.shield(self._pending[key])
                answer = self._memory.find_offsets(key)
            assert answer is not None
            return {"bounds": answer[0], "ageSeconds": answer[1]}
        except KafkaframesError as error:
            rename_to_options(error)
            return {"failed": str(error)}
        except Exception as error:  # the task reports the reason from this answer
            log.exception("the offset lookup failed")
            return {"failed": repr(error)}

    async def _look_up_offsets(self, key: Key, options: bytes) -> None:
        """Look up the offsets for the first task of an execution. A failure is not stored, so Spark can retry."""
        try:
            self._memory.add_offsets(key, await asyncio.to_thread(self._resolve, pickle.loads(options)))
        finally:
            del self._pending[key]


def run_process() -> None:
    """Serve offsets until the JVMs that use this process have ended."""
    (path,) = sys.argv[1:]
    try:
        service = OffsetService()
    except KafkaframesError as error:
        print(error)
        sys.exit(1)
    serve(Path(path), service, announce_ready)


if __name__ == "__main__":
    run_process()
