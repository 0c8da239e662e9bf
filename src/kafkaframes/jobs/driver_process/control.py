"""Start a helper process on the driver's machine, find it by its name, and send it requests with a timeout.

Spark has no Python process that lives as long as a query or a session. If a process is needed, the first caller starts
it, and later callers find it through a Unix socket in a folder that only this user can enter. The name of the socket is
a hash of the process's identity. A lock file next to the socket prevents two callers from starting the process
concurrently.

Request and response are one line of JSON each. While the process computes an answer, it sends a space every
``HEARTBEAT_INTERVAL_S`` seconds. If the process sends nothing for ``MAX_SILENCE_S``, it is considered stopped or hung.
The caller kills it, and the next caller starts a new one.

The code that uses this module starts anew for each micro-batch, so this module does not import the client.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from kafkaframes.errors import KafkaframesError

READY_LINE: Final = b"ready\n"  # first output line of a process that listens
HEARTBEAT_INTERVAL_S: Final = 2.0  # interval of the spaces that a process sends until its response is ready
MAX_SILENCE_S: Final = 20.0  # a process that sends nothing for this time is killed
START_TIMEOUT_S: Final = 120.0  # time limit for a new process to listen on its socket
LOCK_TIMEOUT_S: Final = 180.0  # time limit for acquiring the lock of a socket
_RETRY_INTERVAL_S: Final = 0.1  # time between two attempts to acquire a lock or to send a request
_PORT_RETRY_TIMEOUT_S: Final = 15.0  # time for which a start is retried while another process still uses the port
_FOLDER_COUNT: Final = 10  # number of folder names that are tried
_OTHER_USERS_ACCESS: Final = stat.S_IRWXG | stat.S_IRWXO  # permission bits of the group and of other users
_SOCKET_NAME_LENGTH: Final = 24  # hex digits of the digest in a socket name
_MAX_SOCKET_PATH_BYTES: Final = 103  # limit on macOS; Linux allows 107
_STARTED_PROCESSES: Final[
    list[subprocess.Popen[bytes]]
] = []  # these processes outlive this one; the references prevent ResourceWarnings


class SilentProcessError(OSError):
    """A process listens but does not answer, because it is stopped or hangs."""


def make_socket_path(*identity: object) -> Path:
    """Return the path of a process's socket.

    Args:
        identity: JSON values that identify the process.

    Raises:
        KafkaframesError: no folder for the socket can be used. The message names TMPDIR.
    """
    name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:_SOCKET_NAME_LENGTH]
    return _find_private_folder() / name


def _find_private_folder() -> Path:
    """Return a folder that only this user can enter. Folders of other users are skipped."""
    temporary_directory = Path(tempfile.gettempdir())
    names = [
        f"kafkaframes-{os.getuid()}",
        *(f"kafkaframes-{os.getuid()}-{folder_number}" for folder_number in range(1, _FOLDER_COUNT)),
    ]
    length = len(os.fsencode(temporary_directory / names[-1])) + 1 + _SOCKET_NAME_LENGTH
    if length > _MAX_SOCKET_PATH_BYTES:
        raise KafkaframesError(
            f"TMPDIR={temporary_directory} is too long: the path of a Unix socket in it would have {length} bytes, the "
            f"limit is {_MAX_SOCKET_PATH_BYTES} bytes; set TMPDIR to a shorter path for Spark's driver"
        )
    for name in names:
        folder = temporary_directory / name
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
        except FileExistsError:  # the path is a file or a dangling link
            continue
        except OSError as error:
            raise KafkaframesError(
                f"{folder} cannot be created: {error}; set TMPDIR to a writable directory"
            ) from error
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & _OTHER_USERS_ACCESS:
            return folder
    raise KafkaframesError(
        f"none of {temporary_directory / names[0]} to {temporary_directory / names[-1]} is a directory that only user "
        f"{os.getuid()} can enter; remove them, or set TMPDIR to another directory for Spark's driver"
    )


@contextmanager
def hold_lock(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Hold the lock for starting or ending the process of a socket, and yield whether it was acquired.

    Args:
        path: the socket's path.
        waits: whether to wait for the lock. If False, a lock that another process holds is not awaited, and the context
            manager yields False.

    Raises:
        KafkaframesError: another process has held the lock for ``LOCK_TIMEOUT_S``.
    """
    name, deadline = make_lock_path(path), time.monotonic() + LOCK_TIMEOUT_S
    while True:
        with name.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waits:
                    yield False
                    return
                if time.monotonic() > deadline:
                    holder = name.read_text(errors="replace") or "unknown"
                    raise KafkaframesError(
                        f"process {holder} has held the lock {name} for {LOCK_TIMEOUT_S:.0f} s; kill this process if "
                        "it hangs"
                    ) from None
            else:
                if _is_same_file(file.fileno(), name):  # otherwise the process has ended and removed the file
                    file.truncate(0)
                    file.write(str(os.getpid()).encode())
                    file.flush()
                    yield True
                    return
        time.sleep(_RETRY_INTERVAL_S)


def make_lock_path(path: Path) -> Path:
    """Return the lock file of a socket.

    Each process has its own lock file, so a slow process does not delay the other processes.
    """
    return path.with_suffix(".lock")


def _is_same_file(descriptor: int, name: Path) -> bool:
    """Return whether an open file is still the file with this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), name.stat())
    except FileNotFoundError:
        return False


def send_request(path: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request to the process at ``path`` and return the response.

    Raises:
        SilentProcessError: the process listens but is stopped or hangs. It was killed.
        OSError: no process listens at ``path``, or it ended before it answered.
        KafkaframesError: the process reports a failure.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(MAX_SILENCE_S)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
        except TimeoutError as error:
            pid = _kill_peer(connection)
            raise SilentProcessError(
                f"process {pid or '(unknown)'} has not answered for {MAX_SILENCE_S:.0f} s and was killed"
            ) from error
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the process ended before it sent an answer")
    answer: dict[str, Any] = json.loads(line)
    if "failed" in answer:
        raise KafkaframesError(answer["failed"])
    return answer


def _kill_peer(connection: socket.socket) -> int | None:
    """Kill the process at the other end of a Unix connection, and return its id.

    Return None if the id is unknown or if it is this process.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    size = struct.calcsize("3i")
    with suppress(OSError):
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if pid > 0 and pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
            return int(pid)
    return None


def send_request_or_start(path: Path, request: Mapping[str, Any], start: Callable[[], None]) -> dict[str, Any]:
    """Return the response to a request. Start the process if it does not run or does not answer.

    Args:
        path: path of the process's socket.
        request: request that a new process can answer too.
        start: function that starts the process and returns when it listens. The function is called while the lock is
            held.

    Raises:
        KafkaframesError: the process does not start, or reports a failure.
    """
    while True:
        with hold_lock(path):
            try:
                answer = send_request(path, request)
            except OSError:
                path.unlink(missing_ok=True)  # a process that was killed left this file
                start()
                answer = send_request(path, request)
        if "ends" not in answer:
            return answer
        time.sleep(_RETRY_INTERVAL_S)  # the process is ending, and needs the lock to do so


def start_process(module: str, path: Path, payload: bytes, *, purpose: str) -> None:
    """Start ``python -m module path`` with ``payload`` as its input, and wait until it listens.

    If a previous process without a socket still uses the port, the start is retried for ``_PORT_RETRY_TIMEOUT_S``.

    Raises:
        KafkaframesError: the process does not start. The message contains the reason.
    """
    deadline = time.monotonic() + _PORT_RETRY_TIMEOUT_S
    while (answer := _try_to_start(module, path, payload)) != READY_LINE:
        if _PORT_IN_USE_TEXT not in answer or time.monotonic() > deadline:
            reason = (
                answer.decode(errors="replace").strip() or "the process printed no error; see the log of Spark's driver"
            )
            raise KafkaframesError(f"the process that {purpose} did not start: {reason}")
        time.sleep(_RETRY_INTERVAL_S)


_PORT_IN_USE_TEXT: Final = b"address already in use"


def _try_to_start(module: str, path: Path, payload: bytes) -> bytes:
    """Start the process, and return its first output line or an error.

    A process whose first line is not ``READY_LINE`` is killed.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    _STARTED_PROCESSES.append(process)
    assert process.stdin is not None
    assert process.stdout is not None
    answer = b""
    with process.stdout as answers:
        try:
            with process.stdin as stdin:
                stdin.write(payload)
            if select.select([answers], [], [], START_TIMEOUT_S)[0]:
                answer = answers.readline()
            else:
                answer = f"the process did not listen on its socket within {START_TIMEOUT_S:.0f} s".encode()
        except OSError as error:
            answer = str(error).encode()
    if answer != READY_LINE:
        process.kill()
        process.wait()
        _STARTED_PROCESSES.remove(process)
    return answer
