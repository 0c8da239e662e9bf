"""``Broker``: an embedded broker as plain code, asyncio code and tests hold it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self, TypeVar

from kafkaframes.broker.assembly import open_broker
from kafkaframes.broker.clock import Clock
from kafkaframes.broker.dispatch import Dispatcher
from kafkaframes.broker.nodes import Endpoint, Node, Nodes
from kafkaframes.broker.server import Listener, Server
from kafkaframes.broker.settings import BrokerSettings
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import OptionError

_Answer = TypeVar("_Answer")
_START_SECONDS = 30.0


class Broker:
    """One embedded broker: ``with Broker() as b: ...``, or ``async with``.

    In plain code it runs in a thread of its own; in asyncio on the loop that entered it. Several can run in one
    process; none knows of the others.

    Args:
        host: the address to listen on; this machine only by default.
        port: the port; 0 for a free one, see ``port``.
        data_dir: a Kafka log directory of its own; None keeps everything in memory.
        durability: ``memory``, ``log`` (written before the ack: survives ``kill -9``; the default with a
            ``data_dir``) or ``fsync`` (on the disk before the ack).
        nodes: how many virtual nodes.
        config: settings under Kafka's names (``num.partitions``).
        clock: the broker's time; one of its own by default, which a test can ``advance``.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        data_dir: str | None = None,
        durability: str | None = None,
        nodes: int = 1,
        config: Mapping[str, str | int | bool] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if nodes < 1:
            raise OptionError(f"nodes is at least 1, not {nodes}")
        self.host = host
        self._wanted_port = port
        self._data_dir = data_dir
        self._durability = durability
        self._settings = BrokerSettings({key: _text(value) for key, value in (config or {}).items()})
        self._nodes = Nodes({number: Node(number) for number in range(1, nodes + 1)})
        self._clock = clock or Clock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._state: BrokerState | None = None
        self._server: Server | None = None

    # ---------------------------------------------------------------------------------------------- life

    def start(self) -> Self:
        """Start it in a thread of its own; return when it listens.

        Raises:
            LogDirError, StorageError: the data directory cannot be opened.
            OSError: the address is taken.
        """
        if self._server is not None:
            raise OptionError("the broker runs already")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="kafkaframes-broker", daemon=True)
        self._thread.start()
        try:
            self._on_loop(self._open())
        except BaseException:
            self._end_thread()
            raise
        return self

    def _run_loop(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def stop(self) -> None:
        """Stop cleanly: every log is flushed and closed."""
        if self._server is None:
            return
        try:
            self._on_loop(self._close())
        finally:
            self._end_thread()

    def kill(self) -> None:
        """Stop as a crash does: connections break, nothing is flushed, no marker is written."""
        if self._server is None:
            return
        try:
            self._on_loop(self._break_off())
        finally:
            self._end_thread()

    def restart(self) -> Self:
        """Stop it if it runs, and start it again on the same port."""
        port = self.port if self._server is not None else self._wanted_port
        self.stop()
        self._wanted_port = port
        return self.start()

    def _end_thread(self) -> None:
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_START_SECONDS)
            self._loop.close()
        self._thread = self._loop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._close()
        self._loop = None

    async def _open(self) -> None:
        self._state = open_broker(
            data_dir=self._data_dir,
            settings=self._settings,
            clock=self._clock,
            nodes=self._nodes,
            durability=self._durability,
        )
        settings = self._settings
        self._server = Server(
            Dispatcher(self._state),
            self._clock,
            max_request_bytes=settings.number("socket.request.max.bytes"),
            max_connections=settings.number("max.connections"),
            max_idle_seconds=settings.number("connections.max.idle.ms") / 1000,
        )
        try:
            await self._listen()
        except BaseException:
            await self._server.close()
            self._state.logs.abandon()
            self._server = self._state = None
            raise

    async def _listen(self) -> None:
        assert self._server is not None
        for node in self._nodes.by_id.values():
            wanted = self._wanted_port + node.node_id - 1 if self._wanted_port else 0
            listener = Listener(host=self.host, port=wanted, node_id=node.node_id)
            port = await self._server.listen(listener)
            node.endpoints[listener.name] = Endpoint(_told(self.host), port)

    async def _close(self) -> None:
        if self._server is None or self._state is None:
            return
        await self._server.close()
        state, self._state, self._server = self._state, None, None
        state.logs.close(now_ms=self._clock.now_ms)

    async def _break_off(self) -> None:
        assert self._server is not None
        assert self._state is not None
        await self._server.close()
        state, self._state, self._server = self._state, None, None
        state.logs.abandon()

    # ---------------------------------------------------------------------------------------------- questions

    def _on_loop(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS)

    def call(self, ask: Callable[[BrokerState], _Answer]) -> _Answer:
        """Ask the broker's state something, on the broker's own thread; return the answer.

        Raises:
            OptionError: the broker does not run.
        """
        if self._state is None or self._loop is None:
            raise OptionError("the broker does not run")
        state = self._state
        if self._thread is None or threading.current_thread() is self._thread:
            return ask(state)

        async def asking() -> _Answer:
            return ask(state)

        return self._on_loop(asking())

    @property
    def port(self) -> int:
        """The port of the first node."""
        endpoints = next(iter(self._nodes.by_id.values())).endpoints
        return next(iter(endpoints.values())).port if endpoints else self._wanted_port

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every node, as clients take it."""
        found = [node.endpoints for node in self._nodes.by_id.values() if node.endpoints]
        return ",".join(f"{at.host}:{at.port}" for endpoints in found for at in list(endpoints.values())[:1])


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(host: str) -> str:
    """Return the address that clients are told: a wildcard is no address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
