"""Serve Spark's tasks over TCP on the driver's machine, and connect tasks to this server.

Server and task prove to each other that they have the secret. It is pickled with the task's function and never sent
over this connection: the server sends a nonce, the task responds with ``HMAC(nonce)`` and its own nonce, and the server
responds with ``HMAC(nonce)``. After the proofs, the task sends requests and the server sends answers, one JSON object
per line. The connections are not encrypted, like those between Spark's processes without
``spark.network.crypto.enabled``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, BinaryIO, Final

from kafkaframes.client.loop import LoopThread
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.driver_process.address import TaskServerAddress

GREETING_TIMEOUT_S: Final = 20.0  # time limit for the connection and for authentication
SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 32
_MAX_LINE_BYTES: Final = 64 << 20  # largest size of a request, which is one line
_DRIVER, _TASK = b"driver", b"task"
CONNECTION_ERRORS: Final = (OSError, EOFError, ValueError)  # the peer has disconnected, or is another program
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TaskServer:
    """Listens on an address, and serves the connections of tasks that have the secret.

    Args:
        loop: event loop thread that runs the server.
        serve: coroutine function that serves a connection until it ends. The connection is closed afterwards.
        secret: secret that the server shares with the tasks.
    """

    def __init__(self, loop: LoopThread, serve: Serve, secret: bytes) -> None:
        self._loop = loop
        self._serve = serve
        self._secret = secret
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[Any]] = set()

    def open(self, listen: str, port: int) -> int:
        """Listen on a port, or on a free port if it is 0, and return the port.

        Raises:
            KafkaframesError: the system rejects the address or the port.
        """
        return self._loop.call(self._start_listening(listen, port))

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._loop.call(self._close_connections())

    async def _start_listening(self, listen: str, port: int) -> int:
        try:
            self._server = await asyncio.start_server(self._serve_connection, listen, port, limit=_MAX_LINE_BYTES)
        except OSError as error:
            name = f"{listen}:{port or 'any port'}"
            raise KafkaframesError(f"the driver cannot listen on {name} for its tasks: {error}") from error
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    async def _close_connections(self) -> None:
        if self._server is None:
            return
        self._server.close()
        open_connections = list(self._connections)
        for connection in open_connections:
            connection.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Authenticate a task, and serve its connection until it ends."""
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                await _authenticate_task(reader, writer, self._secret)
            await self._serve(reader, writer)
        except (*CONNECTION_ERRORS, KeyError, TypeError, asyncio.CancelledError):
            pass  # the peer has disconnected or is another program, or this server closes
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._connections.discard(connection)


async def send_answer(writer: asyncio.StreamWriter, answer: Mapping[str, Any]) -> None:
    """Send one answer."""
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()


async def send_last_answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Mapping[str, Any]
) -> None:
    """Send an answer, and wait until the task closes the connection."""
    await send_answer(writer, answer)
    await reader.read(1)


async def _authenticate_task(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes) -> None:
    """Check that a task has the secret, and prove to the task that this server has it too."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    writer.write(nonce)
    await writer.drain()
    answer = await reader.readexactly(2 * _NONCE_BYTES)
    if not hmac.compare_digest(answer[:_NONCE_BYTES], _compute_proof(secret, _TASK, nonce)):
        raise EOFError("the peer does not have the secret")
    writer.write(_compute_proof(secret, _DRIVER, answer[_NONCE_BYTES:]))


class TaskConnection:
    """A task's connection to a server. All methods raise ``CONNECTION_ERRORS``.

    Args:
        address: host, port and secret of the server.
    """

    def __init__(self, address: TaskServerAddress) -> None:
        self._secret = address.secret
        self._socket = socket.create_connection((address.host, address.port), timeout=GREETING_TIMEOUT_S)
        self._stream: BinaryIO = self._socket.makefile("rb")

    def authenticate(self, *, answer_timeout_s: float) -> None:
        """Prove to the server that this task has the secret, and check the server's proof. Later reads time out."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        self._socket.sendall(_compute_proof(self._secret, _TASK, self._read_exactly(_NONCE_BYTES)) + nonce)
        if not hmac.compare_digest(self._read_exactly(_NONCE_BYTES), _compute_proof(self._secret, _DRIVER, nonce)):
            raise EOFError("another program listens on the driver's port")
        self._socket.settimeout(answer_timeout_s)

    def send_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the response."""
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the connection was closed")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self._socket.close()

    def _read_exactly(self, size: int) -> bytes:
        """Return the next ``size`` bytes from the server."""
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError("the connection was closed")
        return data


def _compute_proof(secret: bytes, name: bytes, nonce: bytes) -> bytes:
    """Return the proof that one side has the secret, for a nonce of the other side."""
    return hmac.digest(secret, name + nonce, "sha256")
