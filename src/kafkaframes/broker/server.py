"""The one file that knows asyncio and sockets: it pumps bytes between connections and the dispatcher.

A connection handles one request at a time, as Kafka's does: while an answer is not there yet (``Later``), or is not on
the disk yet (``fsync``), the next request waits in the buffer, and no more is read than ``_READ_AHEAD`` bytes.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from kafkaframes.broker.acceptor import Acceptor, DescriptorBudget, bind
from kafkaframes.broker.api import Answer, CloseConnection, Encoded, Later
from kafkaframes.broker.clock import Clock
from kafkaframes.broker.dispatch import Buffers, Dispatcher, encode_answer, together
from kafkaframes.broker.outbox import CAN_SEND_FILES, GroupCommit, Outbox
from kafkaframes.broker.request import ANONYMOUS, Request, Session
from kafkaframes.broker.security.tls import name_of_certificate
from kafkaframes.broker.short import Unfinished
from kafkaframes.errors import DecodeError, KafkaframesError, OptionError
from kafkaframes.protocol.framing import FrameBuffer
from kafkaframes.protocol.messages import Message
from kafkaframes.storage.files.memory_disk import MemoryDisk

_READ_AHEAD = 256 << 10
_FREE_FRAME_BYTES = 1 << 20  # of frames that find memory however much others take
_MOST_UNSENT = 64 << 20  # bytes of answers in memory that clients do not take, of all connections
_RESTING_SECONDS = 5.0  # after which a connection gives back memory that only large requests need
_AT_ONCE = 64  # requests of one connection before others have their turn
_LONG_ANSWER = 16 << 10  # is sent before the next request is looked at
_FRAME_SECONDS = 30.0  # from a frame's first byte to its last
_SWEEP_SECONDS = 5.0
_CLOSING_TURNS, _MOST_TURNS = 4, 100  # of the loop, until closed ports and their connections are gone
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listener:
    """A way in: where it is bound, how it is secured, which node it belongs to.

    Attributes:
        name: as in ``listeners``: ``PLAINTEXT``, ``EXTERNAL`` ...
        tls: for SSL and SASL_SSL.
        needs_sasl: a connection authenticates before anything else.
    """

    name: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 0
    node_id: int = 1
    tls: ssl.SSLContext | None = None
    needs_sasl: bool = False


class Connection(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, server: Server, listener: Listener) -> None:
        self._server = server
        self._dispatcher = server.dispatcher
        self.listener = listener
        self._frames = FrameBuffer(server.max_sasl_bytes if listener.needs_sasl else server.max_request_bytes)
        self._later: Later | None = None
        self._is_held = False  # an answer waits for the disk, or a turn is given to others
        self._is_muted = False  # a quota was exceeded
        self._outbox: Outbox | None = None
        self._is_paused = False
        self.session = Session(
            number=next(server.numbers),
            listener=listener.name,
            node_id=listener.node_id,
            is_authenticated=not listener.needs_sasl,
            principal=ANONYMOUS,
            sends_files=listener.tls is None and server.sends_files,
        )
        self.transport: asyncio.Transport | None = None
        self.last_active = 0.0
        self.frame_began: float | None = None
        self.holds_memory = False

    # ---------------------------------------------------------------------------------------------- asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername") or ("", 0)
        self.session.peer = f"{peer[0]}:{peer[1]}"
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.session.principal = f"User:{name_of_certificate(certificate)}"
        self._outbox = Outbox(transport)
        self.last_active = self._server.loop.time()
        if not self._server.admit(self):
            transport.abort()
            return
        broker = self._server.dispatcher.broker
        refused_ms = broker.quotas.refused_ms(str(peer[0]), broker.waits.now_ms)
        if refused_ms:
            self._server.closed(self.session, "too many new connections of its address")
            self._is_muted = True
            self._server.loop.call_later(refused_ms / 1000, self.close)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self.transport = None
        if self._outbox is not None:
            self._outbox.drop()
        self._server.forget(self)
        if self._later is not None:
            self._later.abandon()
            self._later = None
        for call in self.session.when_closed.values():
            call()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where bytes go."""
        return self._frames.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes, answer what is whole."""
        self._frames.buffer_updated(nbytes)
        self.last_active = self._server.loop.time()
        self._pump()
        if self._frames.capacity_bytes > _FREE_FRAME_BYTES or self.holds_memory:
            self._server.note_frame_memory(self, self._frames.capacity_bytes)
            self._server.bound_frame_memory()

    def pause_writing(self) -> None:
        """Stop answering: the client does not read."""
        if self._outbox is not None:
            self._outbox.is_choked = True
            self._server.not_taken(self, self._outbox.held_bytes)

    def resume_writing(self) -> None:
        """Go on."""
        if self._outbox is not None:
            self._server.taken(self)
            self._outbox.resume()
            self._pump()

    @property
    def _is_choked(self) -> bool:
        """Whether the client does not read."""
        return self._outbox is not None and (self._outbox.is_choked or self._outbox.is_ending)

    # ---------------------------------------------------------------------------------------------- pumping

    def _pump(self) -> None:
        """Answer the whole requests that are there, one after another."""
        out: Buffers = []
        try:
            self._answer_frames(out)
        except (CloseConnection, DecodeError) as error:
            self._server.closed(self.session, str(error))
            self._send(out)
            self.close()
            return
        except Exception:
            _LOG.exception("a handler failed")
            self.close()
            return
        self._send(out)
        self._balance_reading()

    def _answer_frames(self, out: Buffers) -> None:
        done = 0
        while not (self._later or self._is_held or self._is_muted or self._is_choked) and self.transport is not None:
            if done >= _AT_ONCE:
                self._give_turn()
                return
            frame = self._frames.next_view()
            if frame is None:
                return
            done += 1
            self.frame_began = None  # what follows is another frame
            self._answer_frame(frame, out)

    def _give_turn(self) -> None:
        """Let other connections be answered before this one's next request."""
        self._is_held = True
        self._server.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_held = False
        self._pump()

    def _answer_frame(self, view: memoryview, out: Buffers) -> None:
        if self._frames.max_bytes != self._server.max_request_bytes and self.session.is_authenticated:
            self._frames.max_bytes = self._server.max_request_bytes
        fast = self._server.fast
        if fast is not None and (answered := fast(view, self.session)) is not None:
            if isinstance(answered, Unfinished):
                self._wait_or_take(answered.request, answered.answer, out)
            else:
                self._give(answered, out)
            return
        frame = view.tobytes()
        raw = self.session.memory.get("raw")
        if raw is not None:  # SASL tokens without headers, after SaslHandshake 0
            self._answer_raw(raw(frame), out)
            return
        request = self._dispatcher.request_of(frame, self.session)
        if request.may_be_long and self.session.is_authenticated:
            self._answer_apart(request)
            return
        self._wait_or_take(request, self._dispatcher.answer(request), out)

    def _wait_or_take(self, request: Request, answer: Answer, out: Buffers) -> None:
        if isinstance(answer, Later) and not answer.is_done:
            self._later = answer
            answer.when_complete(lambda later: self._late(request, later))
            return
        self._take(request, answer.answer if isinstance(answer, Later) else answer, out)

    def _answer_raw(self, answer: Answer, out: Buffers) -> None:
        """Answer a SASL token; one that is refused, by closing the connection later."""
        if isinstance(answer, Encoded):
            out.extend(answer.parts)
            return
        assert isinstance(answer, Later)
        self._later = answer

        def go_on(later: Later) -> None:
            if isinstance(later.answer, Encoded):
                self._later = None
                self._send(list(later.answer.parts))
                self._server.loop.call_soon(self._pump)
                return
            self._drop("SASL: authentication failed")

        answer.when_complete(go_on)

    def _answer_apart(self, request: Request) -> None:
        """Answer a request that may have long lists: it is decoded, and its answer encoded, beside the loop."""
        self._later = later = Later()
        later.when_complete(lambda done: self._late(request, done))
        decoding = self._server.loop.run_in_executor(None, lambda: request.body)
        decoding.add_done_callback(lambda done: self._decoded(request, later, done.exception()))

    def _decoded(self, request: Request, later: Later, error: BaseException | None) -> None:
        if later.is_done:  # the connection is gone
            return
        try:
            if error is not None:
                raise error
            answer = self._dispatcher.answer(request)
        except (CloseConnection, DecodeError) as reason:
            self._drop(str(reason))
        except Exception as failure:
            later.fail(failure)
        else:
            if isinstance(answer, Later):
                later.when_abandoned(answer.abandon)
                answer.when_complete(lambda done: self._encode_apart(request, later, done.answer, done.error))
            else:
                self._encode_apart(request, later, answer)

    def _encode_apart(self, request: Request, later: Later, answer: Answer, error: Exception | None = None) -> None:
        def encoded(done: asyncio.Future[Buffers]) -> None:
            failure = done.exception()
            if failure is None:
                later.complete(Encoded(done.result()))
            else:
                later.fail(RuntimeError(f"the answer was not encoded: {failure!r}"))

        if error is not None:
            later.fail(error)
        elif isinstance(answer, Message):
            message, version = answer, request.version
            encoding = self._server.loop.run_in_executor(None, lambda: together(encode_answer(message, version)))
            encoding.add_done_callback(encoded)
        else:
            assert not isinstance(answer, Later)
            later.complete(answer)

    def _late(self, request: Request, later: Later) -> None:
        """Send the answer that was waited for, and go on with the next request."""
        if self._later is not later:
            return
        self._later = None
        if isinstance(later.error, CloseConnection):
            self._drop(str(later.error))
            return
        if later.error is not None:
            _LOG.error("a handler failed", exc_info=later.error)
            self.close()
            return
        if request.has_long_answer and isinstance(later.answer, Message):
            self._later = apart = Later()
            apart.when_complete(lambda done: self._late(request, done))
            self._encode_apart(request, apart, later.answer)
            return
        out: Buffers = []
        self._take(request, later.answer, out)
        self._send(out)
        self._server.loop.call_soon(self._pump)

    def _mute(self, milliseconds: int) -> None:
        """Read no request for a time."""
        self._is_muted = True

        def go_on() -> None:
            self._is_muted = False
            self._pump()

        self._server.loop.call_later(milliseconds / 1000, go_on)

    def _take(self, request: Request, answer: Answer, out: Buffers) -> None:
        if request.throttle_ms:
            self._mute(request.throttle_ms)
        if answer is None:
            return
        assert isinstance(answer, Message | Encoded)
        self._give(self._dispatcher.encode(request, answer), out)
        if request.session.memory.pop("close", False):
            self._server.loop.call_soon(self.close)

    def _give(self, buffers: Buffers, out: Buffers) -> None:
        """Send what is answered, once the disk has what it stands for."""
        if not self._server.commit.is_needed:
            out.extend(buffers)
            if len(buffers) > 1 or len(buffers[0]) > _LONG_ANSWER:  # else joined with those that follow
                self._send(out)
                out.clear()
            return
        self._send(out)
        out.clear()
        self._is_held = True

        def go_on() -> None:
            self._send(buffers)
            self._go_on()

        self._server.commit.when_flushed(go_on, self.abort)

    def _send(self, buffers: Buffers) -> None:
        if buffers and self._outbox is not None and self.transport is not None:
            self._outbox.send(buffers)

    def _balance_reading(self) -> None:
        if self.transport is None:
            return
        waiting = self._frames.waiting_bytes
        if not waiting and not self._is_paused:
            self.frame_began = None
            return
        self.frame_began = None if not waiting else self.frame_began or self._server.loop.time()
        must_wait = self._later or self._is_held or self._is_muted or self._is_choked
        is_full = waiting >= _READ_AHEAD and bool(must_wait)
        if is_full != self._is_paused:
            self._is_paused = is_full
            (self.transport.pause_reading if is_full else self.transport.resume_reading)()

    def _drop(self, reason: str) -> None:
        self._server.closed(self.session, reason)
        self.close()

    def close(self) -> None:
        """Close the connection, after what was answered is sent."""
        if self.transport is not None and self._outbox is not None:
            self._outbox.end()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def rest(self) -> None:
        """Give back memory that only large requests need."""
        self._frames.shrink()
        if self.holds_memory:
            self._server.note_frame_memory(self, self._frames.capacity_bytes)

    def drop_frames(self) -> None:
        """Give back all memory of frames; nothing more is read."""
        self._frames = FrameBuffer(self._frames.max_bytes)
        self._server.note_frame_memory(self, 0)

    @property
    def is_ending(self) -> bool:
        """Whether it closes once everything is sent."""
        return self._outbox is not None and self._outbox.is_ending

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of answers the client has not read yet, beside what the system holds."""
        return 0 if self.transport is None or self._outbox is None else self._outbox.unsent_bytes

    @property
    def is_waiting(self) -> bool:
        """Whether a request has no answer yet."""
        return self._later is not None or self._is_held


class Alarm:
    """Wakes a loop when something of a clock is due."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._wake: asyncio.TimerHandle | None = None
        clock.on_change = self._schedule
        self._schedule()

    def _schedule(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        due = self._clock.next_due_ms
        if due is not None and not self._clock.is_frozen:
            self._wake = self._loop.call_later(max(due - self._clock.monotonic_ms, 0) / 1000, self._run_due)

    def _run_due(self) -> None:
        self._wake = None
        try:
            self._clock.run_due()
        except KafkaframesError:
            _LOG.exception("a task that was due failed")
        self._schedule()

    def stop(self) -> None:
        """Wake nobody any more."""
        self._clock.on_change = None
        if self._wake is not None:
            self._wake.cancel()


@dataclass(eq=False)
class Server:
    """The listeners of one broker and their connections.

    Attributes:
        clock: what drives timers; the server wakes when something is due.
        max_queued_bytes: ``queued.max.request.bytes`` (KIP-72): the memory of frames above 1 MiB each; -1: unlimited.
        fast: answers ordinary frames without the dispatcher; None from it: not ordinary.
    """

    dispatcher: Dispatcher
    clock: Clock
    max_request_bytes: int = 104_857_600
    max_sasl_bytes: int = 524_288
    max_queued_bytes: int = -1
    max_connections: int = 2**31 - 1
    max_idle_seconds: float = 600.0
    fast: Callable[[memoryview, Session], Buffers | Unfinished | None] | None = None
    connections: set[Connection] = field(default_factory=set)
    numbers: count[int] = field(default_factory=lambda: count(1))
    _listening: list[tuple[Listener, Acceptor]] = field(default_factory=list)
    _not_taken: dict[Connection, int] = field(default_factory=dict)  # the one that has waited for longest first
    _sweep: asyncio.TimerHandle | None = None
    _frame_memory: dict[Connection, int] = field(default_factory=dict)  # of connections with large buffers
    _frame_memory_bytes: int = 0
    _closing: list[Acceptor] = field(default_factory=list)  # with connections that are being established

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        state = self.dispatcher.broker
        in_files = state.store is None and not isinstance(state.logs.disk.inner, MemoryDisk)
        self.sends_files = CAN_SEND_FILES and in_files and not self.dispatcher.hooks
        self.commit = GroupCommit(self.dispatcher.broker, self.loop)
        self._budget = DescriptorBudget(state.logs.disk.shrink_pool)
        self._alarms = [Alarm(clock, self.loop) for clock in (self.clock, self.dispatcher.broker.waits)]
        self._sweep = self.loop.call_later(_SWEEP_SECONDS, self._look_around)

    async def listen(self, listener: Listener) -> int:
        """Bind a listener and return its port. Connections are accepted after ``accept_connections``.

        Raises:
            OptionError: the host is not a valid name (``a..b``).
        """
        try:
            sockets = await bind(listener.host, listener.port)
        except UnicodeError as error:
            raise OptionError(f"cannot listen on {listener.host}:{listener.port}: {error}") from None
        acceptor = Acceptor(lambda: Connection(self, listener), sockets, self._budget, tls=listener.tls)
        self._listening.append((listener, acceptor))
        return acceptor.port

    def accept_connections(self) -> None:
        """Accept connections on all listeners."""
        for _, acceptor in self._listening:
            acceptor.resume()

    def stop_listening(self, node_id: int | None = None) -> None:
        """Close the listeners, of one node or of all, and their connections. Nothing is accepted from now on."""
        for listener, acceptor in tuple(self._listening):
            if node_id in (None, listener.node_id):
                acceptor.close()
                self._closing.append(acceptor)
                self._listening.remove((listener, acceptor))
        for connection in tuple(self.connections):
            if node_id in (None, connection.session.node_id):
                connection.abort()

    async def wait_closed(self) -> None:
        """Return when the ports that were closed are, and the connections that broke with them."""
        for turn in range(_MOST_TURNS):
            await asyncio.sleep(0)
            nodes = {listener.node_id for listener, _ in self._listening}
            self._closing = [one for one in self._closing if one.opening]
            is_closed = not self._closing and all(one.session.node_id in nodes for one in self.connections)
            if turn >= _CLOSING_TURNS and is_closed:
                return

    def admit(self, connection: Connection) -> bool:
        """Take a new connection, unless there are too many, or its port was closed when it came."""
        is_open = any(listener is connection.listener for listener, _ in self._listening)
        if not is_open or len(self.connections) >= self.max_connections:
            return False
        self.connections.add(connection)
        return True

    def not_taken(self, connection: Connection, size_bytes: int) -> None:
        """Note answers that a client does not take; where all of them are too many, who has waited longest goes."""
        self._not_taken[connection] = size_bytes
        while sum(self._not_taken.values()) > _MOST_UNSENT:
            oldest = next(iter(self._not_taken))
            del self._not_taken[oldest]
            self.closed(oldest.session, "its answers are not read, and too many wait")
            oldest.abort()

    def taken(self, connection: Connection) -> None:
        """Note that a client goes on reading, or is gone."""
        self._not_taken.pop(connection, None)

    def note_frame_memory(self, connection: Connection, size_bytes: int) -> None:
        """Note the size of a connection's buffer; those up to 1 MiB are not counted: ordinary requests find memory."""
        connection.holds_memory = size_bytes > _FREE_FRAME_BYTES
        self._frame_memory_bytes += size_bytes * connection.holds_memory - self._frame_memory.pop(connection, 0)
        if connection.holds_memory:
            self._frame_memory[connection] = size_bytes

    def bound_frame_memory(self) -> None:
        """If the large buffers take too much, close the connection whose frame has been unfinished for longest."""
        if not 0 <= self.max_queued_bytes < self._frame_memory_bytes:
            return
        for connection in tuple(self._frame_memory):
            connection.rest()  # those without an unfinished frame
        unfinished = {one: one.frame_began for one in self._frame_memory if one.frame_began is not None}
        for connection, _ in sorted(unfinished.items(), key=lambda item: item[1]):
            if self._frame_memory_bytes <= self.max_queued_bytes:
                return
            reason = (
                f"queued.max.request.bytes={self.max_queued_bytes} is used, and its frame is unfinished for longest"
            )
            self.closed(connection.session, reason)
            connection.drop_frames()
            connection.abort()

    def forget(self, connection: Connection) -> None:
        """Note that a connection is closed; one that waited for its descriptor may be accepted."""
        self.note_frame_memory(connection, 0)
        self.connections.discard(connection)
        self.taken(connection)
        for _, acceptor in self._listening:
            if acceptor.is_waiting:
                self.loop.call_soon(acceptor.resume)  # once the system has closed the socket

    def closed(self, session: Session, reason: str) -> None:
        """Tell that a connection was dropped."""
        _LOG.debug("connection %s (%s) closed: %s", session.number, session.peer, reason)

    def _look_around(self) -> None:
        """Close connections that are idle, or that do not finish a frame."""
        now = self.loop.time()
        for connection in tuple(self.connections):
            if connection.is_waiting:
                continue
            if now - connection.last_active > _RESTING_SECONDS:
                connection.rest()
            began = connection.frame_began
            if began is not None and now - began > _FRAME_SECONDS:
                self.closed(connection.session, "a frame was not finished in time")
                connection.abort()
            elif now - connection.last_active > self.max_idle_seconds:
                self.closed(connection.session, "idle")
                (connection.abort if connection.is_ending else connection.close)()
        self._sweep = self.loop.call_later(_SWEEP_SECONDS, self._look_around)

    async def close(self) -> None:
        """Close everything."""
        self.stop_listening()
        for alarm in self._alarms:
            alarm.stop()
        if self._sweep is not None:
            self._sweep.cancel()
        await self.wait_closed()
        await self.commit.close()
