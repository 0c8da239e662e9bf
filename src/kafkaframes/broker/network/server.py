"""``Server``: the listeners and connections of a broker. This is the only module that reads from sockets.

The server transfers bytes between connections and the dispatcher. As in Kafka, a connection's requests are handled one
at a time. While a response is pending (``DeferredResponse``), or not yet flushed (``fsync``), the next request waits in
the buffer, and at most ``_READ_AHEAD_BYTES`` bytes are read.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from kafkaframes.broker.dispatch.dispatch import Buffers, Dispatcher, encode_answer, join_short_parts
from kafkaframes.broker.dispatch.fast_path import UnfinishedResponse
from kafkaframes.broker.network.acceptor import Acceptor, DescriptorBudget, bind
from kafkaframes.broker.network.outbox import CAN_SEND_FILES, GroupCommit, Outbox
from kafkaframes.broker.requests.api import Answer, CloseConnection, DeferredResponse, EncodedResponse
from kafkaframes.broker.requests.request import ANONYMOUS_PRINCIPAL, Request, Session
from kafkaframes.broker.security.tls import format_certificate_name
from kafkaframes.broker.state.clock import Clock
from kafkaframes.errors import DecodeError, KafkaframesError, OptionError
from kafkaframes.protocol.framing import FrameBuffer
from kafkaframes.protocol.messages import Message
from kafkaframes.storage.files.memory_disk import MemoryDisk
from kafkaframes.wire.integers import MAX_INT32

_READ_AHEAD_BYTES = 256 << 10  # a connection is not read while its waiting requests have at least this size
_UNCOUNTED_FRAME_BYTES = 1 << 20  # frames up to this size are not counted against max_queued_bytes
_MAX_UNSENT_BYTES = 64 << 20  # total bytes of unsent responses in memory, over all connections
_FREE_MEMORY_AFTER_SECONDS = 5.0  # time after which an idle connection frees the memory that only large requests need
_REQUESTS_PER_TURN = 64  # requests of one connection before other connections are served
_LONG_RESPONSE_BYTES = 16 << 10  # a longer response is sent before the next request is handled
_MAX_FRAME_SECONDS = 30.0  # longest time from a frame's first byte to its last
_IDLE_CHECK_INTERVAL_SECONDS = 5.0
# Event loop iterations for which a close waits, at least and at most.
_MIN_CLOSING_TURNS, _MAX_CLOSING_TURNS = 4, 100
_LOGGER = logging.getLogger("kafkaframes.broker")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener: its address, its security, and the node that it belongs to.

    Attributes:
        name: listener name, as in ``listeners``: ``PLAINTEXT``, ``EXTERNAL`` ...
        tls: TLS context for SSL and SASL_SSL; None for plaintext.
        needs_sasl: whether connections must authenticate with SASL.
    """

    name: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 0
    node_id: int = 1
    tls: ssl.SSLContext | None = None
    needs_sasl: bool = False


class Connection(asyncio.BufferedProtocol):
    """The connection of a client."""

    def __init__(self, server: Server, listener: Listener) -> None:
        self._server = server
        self._dispatcher = server.dispatcher
        self.listener = listener
        self._frames = FrameBuffer(server.max_sasl_bytes if listener.needs_sasl else server.max_request_bytes)
        self._pending_response: DeferredResponse | None = None
        self._is_held = False  # true while a response waits for a flush, or other connections are served first
        self._is_muted = False  # true while requests are delayed because of a quota
        self._outbox: Outbox | None = None
        self._is_paused = False
        self.session = Session(
            number=next(server.numbers),
            listener=listener.name,
            node_id=listener.node_id,
            is_authenticated=not listener.needs_sasl,
            principal=ANONYMOUS_PRINCIPAL,
            sends_files=listener.tls is None and server.sends_files,
        )
        self.transport: asyncio.Transport | None = None
        self.last_active = 0.0
        self.frame_began: float | None = None
        self.holds_memory = False

    # ---------------------------------------------------------------------------------------------- asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection, or close the connection if the server does not admit it."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername") or ("", 0)
        self.session.peer = f"{peer[0]}:{peer[1]}"
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.session.principal = f"User:{format_certificate_name(certificate)}"
        self._outbox = Outbox(transport)
        self.last_active = self._server.loop.time()
        if not self._server.admit(self):
            transport.abort()
            return
        broker = self._server.dispatcher.broker
        refused_ms = broker.quotas.count_connection(str(peer[0]), broker.waits.now_ms)
        if refused_ms:
            self._server.log_closed(self.session, "the client's address opened too many connections")
            self._is_muted = True
            self._server.loop.call_later(refused_ms / 1000, self.close)

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection's resources, and cancel its pending response."""
        self.transport = None
        if self._outbox is not None:
            self._outbox.drop()
        self._server.remove_connection(self)
        if self._pending_response is not None:
            self._pending_response.abandon()
            self._pending_response = None
        for call in self.session.when_closed.values():
            call()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._frames.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the complete requests in the buffer."""
        self._frames.buffer_updated(nbytes)
        self.last_active = self._server.loop.time()
        self._handle_buffer()
        if self._frames.capacity_bytes > _UNCOUNTED_FRAME_BYTES or self.holds_memory:
            self._server.note_frame_memory(self, self._frames.capacity_bytes)
            self._server.limit_frame_memory()

    def pause_writing(self) -> None:
        """Stop handling requests, because the client does not read its responses."""
        if self._outbox is not None:
            self._outbox.is_choked = True
            self._server.note_unread_responses(self, self._outbox.held_bytes)

    def resume_writing(self) -> None:
        """Continue after ``pause_writing``."""
        if self._outbox is not None:
            self._server.note_read_responses(self)
            self._outbox.resume()
            self._handle_buffer()

    @property
    def _is_blocked(self) -> bool:
        """Whether the client does not read its responses, or the connection is closing."""
        return self._outbox is not None and (self._outbox.is_choked or self._outbox.is_ending)

    # ---------------------------------------------------------------------------------------------- pumping

    def _handle_buffer(self) -> None:
        """Handle the complete requests in the buffer, one after the other."""
        out: Buffers = []
        try:
            self._answer_frames(out)
        except (CloseConnection, DecodeError) as error:
            self._server.log_closed(self.session, str(error))
            self._send(out)
            self.close()
            return
        except Exception:
            _LOGGER.exception("a handler failed")
            self.close()
            return
        self._send(out)
        self._balance_reading()

    def _answer_frames(self, out: Buffers) -> None:
        """Answer the complete frames in the buffer, until a frame has to wait."""
        done_count = 0
        while (
            not (self._pending_response or self._is_held or self._is_muted or self._is_blocked)
            and self.transport is not None
        ):
            if done_count >= _REQUESTS_PER_TURN:
                self._yield_turn()
                return
            frame = self._frames.next_view()
            if frame is None:
                return
            done_count += 1
            self.frame_began = None  # the next bytes belong to another frame
            self._answer_frame(frame, out)

    def _yield_turn(self) -> None:
        """Serve other connections before this connection's next request."""
        self._is_held = True
        self._server.loop.call_soon(self._resume_handling)

    def _resume_handling(self) -> None:
        self._is_held = False
        self._handle_buffer()

    def _answer_frame(self, view: memoryview, out: Buffers) -> None:
        """Answer one request frame on the fast path, or with the dispatcher."""
        if self._frames.max_bytes != self._server.max_request_bytes and self.session.is_authenticated:
            self._frames.max_bytes = self._server.max_request_bytes
        fast_path = self._server.fast
        if fast_path is not None and (answered_request := fast_path(view, self.session)) is not None:
            if isinstance(answered_request, UnfinishedResponse):
                self._send_or_wait(answered_request.request, answered_request.answer, out)
            else:
                self._send_response(answered_request, out)
            return
        frame = view.tobytes()
        raw = self.session.login.answer_raw
        if raw is not None:  # after SaslHandshake version 0, SASL tokens have no headers
            self._answer_raw(raw(frame), out)
            return
        request = self._dispatcher.decode_request(frame, self.session)
        if request.may_be_long and self.session.is_authenticated:
            self._answer_in_thread(request)
            return
        self._send_or_wait(request, self._dispatcher.answer(request), out)

    def _send_or_wait(self, request: Request, answer: Answer, out: Buffers) -> None:
        """Send a response, or wait until the response is complete."""
        if isinstance(answer, DeferredResponse) and not answer.is_done:
            self._pending_response = answer
            answer.call_when_complete(lambda response: self._send_late_response(request, response))
            return
        self._send_answer(request, answer.answer if isinstance(answer, DeferredResponse) else answer, out)

    def _answer_raw(self, answer: Answer, out: Buffers) -> None:
        """Answer a SASL token without headers. If the token is rejected, the connection is closed after a delay."""
        if isinstance(answer, EncodedResponse):
            out.extend(answer.parts)
            return
        assert isinstance(answer, DeferredResponse)
        self._pending_response = answer

        def resume_handling(response: DeferredResponse) -> None:
            """Send the SASL reply and continue, or drop the connection after a failure."""
            if isinstance(response.answer, EncodedResponse):
                self._pending_response = None
                self._send(list(response.answer.parts))
                self._server.loop.call_soon(self._handle_buffer)
                return
            self._drop_connection("SASL: authentication failed")

        answer.call_when_complete(resume_handling)

    def _answer_in_thread(self, request: Request) -> None:
        """Answer a request that may be large: decode it and encode its response in a thread."""
        self._pending_response = response = DeferredResponse()
        response.call_when_complete(lambda done: self._send_late_response(request, done))
        decoding = self._server.loop.run_in_executor(None, lambda: request.body)
        decoding.add_done_callback(lambda done: self._answer_decoded(request, response, done.exception()))

    def _answer_decoded(self, request: Request, response: DeferredResponse, error: BaseException | None) -> None:
        """Answer a long request that a thread has decoded."""
        if response.is_done:  # the connection is closed
            return
        try:
            if error is not None:
                raise error
            answer = self._dispatcher.answer(request)
        except (CloseConnection, DecodeError) as reason:
            self._drop_connection(str(reason))
        except Exception as failure:
            response.fail(failure)
        else:
            if isinstance(answer, DeferredResponse):
                response.call_when_abandoned(answer.abandon)
                answer.call_when_complete(
                    lambda done: self._encode_in_thread(request, response, done.answer, done.error)
                )
            else:
                self._encode_in_thread(request, response, answer)

    def _encode_in_thread(
        self, request: Request, response: DeferredResponse, answer: Answer, error: Exception | None = None
    ) -> None:
        """Encode a long response in a thread, and complete the deferred response with it."""

        def send_encoded(future: asyncio.Future[Buffers]) -> None:
            failure = future.exception()
            if failure is None:
                response.complete(EncodedResponse(future.result()))
            else:
                response.fail(RuntimeError(f"the response cannot be encoded: {failure!r}"))

        if error is not None:
            response.fail(error)
        elif isinstance(answer, Message):
            message, version = answer, request.version
            encoding = self._server.loop.run_in_executor(
                None, lambda: join_short_parts(encode_answer(message, version))
            )
            encoding.add_done_callback(send_encoded)
        else:
            assert not isinstance(answer, DeferredResponse)
            response.complete(answer)

    def _send_late_response(self, request: Request, response: DeferredResponse) -> None:
        """Send a response that was pending, and continue with the next request."""
        if self._pending_response is not response:
            return
        self._pending_response = None
        if isinstance(response.error, CloseConnection):
            self._drop_connection(str(response.error))
            return
        if response.error is not None:
            _LOGGER.error("a handler failed", exc_info=response.error)
            self.close()
            return
        if request.has_long_answer and isinstance(response.answer, Message):
            self._pending_response = encoded_response = DeferredResponse()
            encoded_response.call_when_complete(lambda done: self._send_late_response(request, done))
            self._encode_in_thread(request, encoded_response, response.answer)
            return
        out: Buffers = []
        self._send_answer(request, response.answer, out)
        self._send(out)
        self._server.loop.call_soon(self._handle_buffer)

    def _pause_requests(self, milliseconds: int) -> None:
        """Delay the next request, because a quota is exceeded."""
        self._is_muted = True

        def resume_handling() -> None:
            """Continue with the next request after the delay."""
            self._is_muted = False
            self._handle_buffer()

        self._server.loop.call_later(milliseconds / 1000, resume_handling)

    def _send_answer(self, request: Request, answer: Answer, out: Buffers) -> None:
        """Send the response, or throttle or close the connection."""
        if request.throttle_ms:
            self._pause_requests(request.throttle_ms)
        if answer is None:
            return
        assert isinstance(answer, Message | EncodedResponse)
        self._send_response(self._dispatcher.encode(request, answer), out)
        if request.session.closes_after_response:
            request.session.closes_after_response = False
            self._server.loop.call_soon(self.close)

    def _send_response(self, buffers: Buffers, out: Buffers) -> None:
        """Send a response; with ``fsync``, after the records are flushed."""
        if not self._server.commit.is_needed:
            out.extend(buffers)
            if len(buffers) > 1 or len(buffers[0]) > _LONG_RESPONSE_BYTES:  # shorter responses are sent together
                self._send(out)
                out.clear()
            return
        self._send(out)
        out.clear()
        self._is_held = True

        def resume_handling() -> None:
            """Send the response, and continue with the next request."""
            self._send(buffers)
            self._resume_handling()

        self._server.commit.call_when_flushed(resume_handling, self.abort)

    def _send(self, buffers: Buffers) -> None:
        if buffers and self._outbox is not None and self.transport is not None:
            self._outbox.send(buffers)

    def _balance_reading(self) -> None:
        """Pause or resume reading from the socket, depending on the size of the unhandled frames."""
        if self.transport is None:
            return
        waiting = self._frames.waiting_bytes
        if not waiting and not self._is_paused:
            self.frame_began = None
            return
        self.frame_began = None if not waiting else self.frame_began or self._server.loop.time()
        must_wait = self._pending_response or self._is_held or self._is_muted or self._is_blocked
        is_full = waiting >= _READ_AHEAD_BYTES and bool(must_wait)
        if is_full != self._is_paused:
            self._is_paused = is_full
            (self.transport.pause_reading if is_full else self.transport.resume_reading)()

    def _drop_connection(self, reason: str) -> None:
        """Log the reason, and close the connection."""
        self._server.log_closed(self.session, reason)
        self.close()

    def close(self) -> None:
        """Close the connection after all responses are sent."""
        if self.transport is not None and self._outbox is not None:
            self._outbox.end()

    def abort(self) -> None:
        """Close the connection immediately."""
        if self.transport is not None:
            self.transport.abort()

    def free_memory(self) -> None:
        """Free the memory that only large requests need."""
        self._frames.shrink()
        if self.holds_memory:
            self._server.note_frame_memory(self, self._frames.capacity_bytes)

    def drop_frames(self) -> None:
        """Free all buffers of received bytes. The caller closes the connection."""
        self._frames = FrameBuffer(self._frames.max_bytes)
        self._server.note_frame_memory(self, 0)

    @property
    def is_ending(self) -> bool:
        """Whether the connection closes after all responses are sent."""
        return self._outbox is not None and self._outbox.is_ending

    @property
    def unsent_bytes(self) -> int:
        """The bytes of responses that are not yet passed to the operating system."""
        return 0 if self.transport is None or self._outbox is None else self._outbox.unsent_bytes

    @property
    def is_waiting(self) -> bool:
        """Whether a response is pending."""
        return self._pending_response is not None or self._is_held


class TimerAlarm:
    """Runs the due timers of a clock on an event loop."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._wake: asyncio.TimerHandle | None = None
        clock.on_change = self._schedule_alarm
        self._schedule_alarm()

    def _schedule_alarm(self) -> None:
        """Schedule a wake-up for the next due timer."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        due_ms = self._clock.next_due_ms
        if due_ms is not None and not self._clock.is_frozen:
            self._wake = self._loop.call_later(max(due_ms - self._clock.monotonic_ms, 0) / 1000, self._run_due_timers)

    def _run_due_timers(self) -> None:
        """Run the due timers, and schedule the next wake-up."""
        self._wake = None
        try:
            self._clock.run_due()
        except KafkaframesError:
            _LOGGER.exception("the callback of a timer failed")
        self._schedule_alarm()

    def stop(self) -> None:
        """Stop running timers."""
        self._clock.on_change = None
        if self._wake is not None:
            self._wake.cancel()


@dataclass(eq=False)
class Server:
    """The listeners of one broker and their connections.

    Attributes:
        clock: clock whose due timers the server runs.
        max_queued_bytes: ``queued.max.request.bytes`` (KIP-72), the total memory limit of frames above 1 MiB; -1 for no
            limit.
        fast: fast path, which answers ordinary requests without the dispatcher, and returns None for other requests.
    """

    dispatcher: Dispatcher
    clock: Clock
    max_request_bytes: int = 104_857_600
    max_sasl_bytes: int = 524_288
    max_queued_bytes: int = -1
    max_connections: int = MAX_INT32
    max_idle_seconds: float = 600.0
    fast: Callable[[memoryview, Session], Buffers | UnfinishedResponse | None] | None = None
    connections: set[Connection] = field(default_factory=set)
    numbers: count[int] = field(default_factory=lambda: count(1))
    _listening: list[tuple[Listener, Acceptor]] = field(default_factory=list)
    # Connection -> bytes of unread responses; the connection that has waited longest is first.
    _unread_bytes: dict[Connection, int] = field(default_factory=dict)
    _idle_check: asyncio.TimerHandle | None = None
    _frame_memory: dict[Connection, int] = field(default_factory=dict)  # connection -> size of its large buffers
    _frame_memory_bytes: int = 0
    _closing: list[Acceptor] = field(default_factory=list)  # closed acceptors that may still establish connections

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        state = self.dispatcher.broker
        in_files = state.store is None and not isinstance(state.logs.disk.inner, MemoryDisk)
        self.sends_files = CAN_SEND_FILES and in_files and not self.dispatcher.hooks
        self.commit = GroupCommit(self.dispatcher.broker, self.loop)
        self._budget = DescriptorBudget(state.logs.disk.shrink_pool)
        self._alarms = [TimerAlarm(clock, self.loop) for clock in (self.clock, self.dispatcher.broker.waits)]
        self._idle_check = self.loop.call_later(_IDLE_CHECK_INTERVAL_SECONDS, self._close_idle)

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
        """Close the listeners and connections of one node, or of all nodes."""
        for listener, acceptor in tuple(self._listening):
            if node_id in (None, listener.node_id):
                acceptor.close()
                self._closing.append(acceptor)
                self._listening.remove((listener, acceptor))
        for connection in tuple(self.connections):
            if node_id in (None, connection.session.node_id):
                connection.abort()

    async def wait_closed(self) -> None:
        """Wait until the ports and connections that ``stop_listening`` closes are closed."""
        for turn in range(_MAX_CLOSING_TURNS):
            await asyncio.sleep(0)
            nodes = {listener.node_id for listener, _ in self._listening}
            self._closing = [acceptor for acceptor in self._closing if acceptor.opening]
            is_closed = not self._closing and all(
                connection.session.node_id in nodes for connection in self.connections
            )
            if turn >= _MIN_CLOSING_TURNS and is_closed:
                return

    def admit(self, connection: Connection) -> bool:
        """Register a new connection. Return False if there are too many connections, or if the port has been closed."""
        is_open = any(listener is connection.listener for listener, _ in self._listening)
        if not is_open or len(self.connections) >= self.max_connections:
            return False
        self.connections.add(connection)
        return True

    def note_unread_responses(self, connection: Connection, size_bytes: int) -> None:
        """Record how many bytes of responses a client has not read.

        If the total exceeds the limit, close the connections that have been waiting longest.
        """
        self._unread_bytes[connection] = size_bytes
        while sum(self._unread_bytes.values()) > _MAX_UNSENT_BYTES:
            oldest = next(iter(self._unread_bytes))
            del self._unread_bytes[oldest]
            self.log_closed(oldest.session, "the client does not read its responses, and too many bytes are unsent")
            oldest.abort()

    def note_read_responses(self, connection: Connection) -> None:
        """Record that a client reads its responses again, or has closed its connection."""
        self._unread_bytes.pop(connection, None)

    def note_frame_memory(self, connection: Connection, size_bytes: int) -> None:
        """Record the size of a connection's buffer. Buffers up to 1 MiB are not counted."""
        connection.holds_memory = size_bytes > _UNCOUNTED_FRAME_BYTES
        self._frame_memory_bytes += size_bytes * connection.holds_memory - self._frame_memory.pop(connection, 0)
        if connection.holds_memory:
            self._frame_memory[connection] = size_bytes

    def limit_frame_memory(self) -> None:
        """While large buffers exceed ``max_queued_bytes``, close the connection with the oldest incomplete frame."""
        if not 0 <= self.max_queued_bytes < self._frame_memory_bytes:
            return
        for connection in tuple(self._frame_memory):
            connection.free_memory()  # a buffer without an incomplete frame is freed
        unfinished_frames = {
            connection: connection.frame_began
            for connection in self._frame_memory
            if connection.frame_began is not None
        }
        for connection, _ in sorted(unfinished_frames.items(), key=lambda item: item[1]):
            if self._frame_memory_bytes <= self.max_queued_bytes:
                return
            limit_text = f"queued.max.request.bytes, {self.max_queued_bytes},"
            reason = f"{limit_text} is exhausted, and this connection has the oldest incomplete request"
            self.log_closed(connection.session, reason)
            connection.drop_frames()
            connection.abort()

    def remove_connection(self, connection: Connection) -> None:
        """Remove a closed connection. Acceptors that wait for a file descriptor then continue."""
        self.note_frame_memory(connection, 0)
        self.connections.discard(connection)
        self.note_read_responses(connection)
        for _, acceptor in self._listening:
            if acceptor.is_waiting:
                self.loop.call_soon(acceptor.resume)  # called after asyncio has closed the socket

    def log_closed(self, session: Session, reason: str) -> None:
        """Log why a connection was closed."""
        _LOGGER.debug("connection %s (%s) closed: %s", session.number, session.peer, reason)

    def _close_idle(self) -> None:
        """Close idle connections, and connections that do not complete a frame in time."""
        now = self.loop.time()
        for connection in tuple(self.connections):
            if connection.is_waiting:
                continue
            if now - connection.last_active > _FREE_MEMORY_AFTER_SECONDS:
                connection.free_memory()
            frame_start = connection.frame_began
            if frame_start is not None and now - frame_start > _MAX_FRAME_SECONDS:
                self.log_closed(connection.session, "a request was not completed in time")
                connection.abort()
            elif now - connection.last_active > self.max_idle_seconds:
                self.log_closed(connection.session, "idle")
                (connection.abort if connection.is_ending else connection.close)()
        self._idle_check = self.loop.call_later(_IDLE_CHECK_INTERVAL_SECONDS, self._close_idle)

    async def close(self) -> None:
        """Close all listeners and connections."""
        self.stop_listening()
        for alarm in self._alarms:
            alarm.stop()
        if self._idle_check is not None:
            self._idle_check.cancel()
        await self.wait_closed()
        await self.commit.close()
