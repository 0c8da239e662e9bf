"""Start a process on the driver's machine, find it by its name, and ask it questions, each within a time limit.

Spark has no Python process that lives as long as a query or a session. Where one is needed, the first caller starts it,
and later callers find it through a Unix socket in a folder that only this user can enter. The socket's name is a hash
of what identifies the process. A lock file next to it keeps two callers from starting the process at the same time.

A question is a line of JSON, and so is the answer. While the answer is being computed, the process sends a space now
and then (``PULSE_S``). A process that sends nothing for ``SILENCE_S`` is stopped or hangs: it is killed, and the next
caller starts another one.

Callers run for every micro-batch, therefore nothing here imports the client.
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

READY: Final = b"ready\n"
PULSE_S: Final = 2.0
SILENCE_S: Final = 20.0
START_S: Final = 120.0
LOCK_S: Final = 180.0
_RETRY_S: Final = 0.1
_PORT_RETRY_S: Final = 15.0
_FOLDER_COUNT: Final = 10
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_NAME_LENGTH: Final = 24
_MAX_PATH_BYTES: Final = 103  # macOS; Linux has 107
_started: Final[list[subprocess.Popen[bytes]]] = []  # they outlive this process; the list keeps them from warning


class SilentProcessError(OSError):
    """A process that listens and does not answer: it was stopped, or it hangs."""


def socket_path(*identity: object) -> Path:
    """Return the path of the socket of a process.

    Args:
        identity: what distinguishes it from others, as values of JSON.

    Raises:
        KafkaframesError: no folder for it can be used; the message names TMPDIR.
    """
    name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:_NAME_LENGTH]
    return _private_folder() / name


def _private_folder() -> Path:
    """Return a folder that only this user can enter; one that belongs to another user is passed over."""
    top = Path(tempfile.gettempdir())
    names = [f"kafkaframes-{os.getuid()}", *(f"kafkaframes-{os.getuid()}-{n}" for n in range(1, _FOLDER_COUNT))]
    length = len(os.fsencode(top / names[-1])) + 1 + _NAME_LENGTH
    if length > _MAX_PATH_BYTES:
        raise KafkaframesError(
            f"TMPDIR={top} is too long: the path of a Unix socket in it would have {length} bytes, at most "
            f"{_MAX_PATH_BYTES} are possible; set TMPDIR to a shorter path for Spark's driver"
        )
    for name in names:
        folder = top / name
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
        except FileExistsError:  # a file, or a link that leads nowhere
            continue
        except OSError as error:
            raise KafkaframesError(
                f"{folder} cannot be created: {error}; set TMPDIR to a writable directory"
            ) from error
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & _OTHERS:
            return folder
    raise KafkaframesError(
        f"none of {top / names[0]} to {top / names[-1]} is a directory that only user {os.getuid()} can enter; remove "
        "them, or set TMPDIR to another directory for Spark's driver"
    )


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Hold the lock of a socket's process, which is needed to start or to end it; yield whether it was acquired.

    Raises:
        KafkaframesError: another process has held it for ``LOCK_S``.
    """
    name, deadline = lock_path(path), time.monotonic() + LOCK_S
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
                        f"process {holder} has held the lock {name} for {LOCK_S:.0f} s; end it if it is stopped"
                    ) from None
            else:
                if _is_at(file.fileno(), name):  # otherwise the process has ended in the meantime and removed the file
                    file.truncate(0)
                    file.write(str(os.getpid()).encode())
                    file.flush()
                    yield True
                    return
        time.sleep(_RETRY_S)


def lock_path(path: Path) -> Path:
    """Return the lock file of a socket: each process has its own, so that a slow one does not delay the others."""
    return path.with_suffix(".lock")


def _is_at(opened: int, name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), name.stat())
    except FileNotFoundError:
        return False


def ask(path: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a question.

    Raises:
        SilentProcessError: the process listens, but is stopped or hangs; it was killed.
        OSError: no process listens at ``path``, or it ended before it answered.
        KafkaframesError: the process reports a failure.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SILENCE_S)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
        except TimeoutError as error:
            pid = _kill_peer(connection)
            raise SilentProcessError(
                f"process {pid or '(unknown)'} has not answered for {SILENCE_S:.0f} s and was killed"
            ) from error
    if not line.endswith(b"\n"):
        raise ConnectionResetError("it ended before it answered")
    answer: dict[str, Any] = json.loads(line)
    if "failed" in answer:
        raise KafkaframesError(answer["failed"])
    return answer


def _kill_peer(connection: socket.socket) -> int | None:
    """Kill the process at the other end of a Unix connection, if the system knows it and it is not this one."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    size = struct.calcsize("3i")
    with suppress(OSError):
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if pid > 0 and pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
            return int(pid)
    return None


def ask_or_start(path: Path, question: Mapping[str, Any], start: Callable[[], None]) -> dict[str, Any]:
    """Return the answer to a question; start the process if it does not run, or does not answer.

    Args:
        path: of the process's socket.
        question: one that a new process answers as well.
        start: called under the lock; returns when the process listens.

    Raises:
        KafkaframesError: it does not start, or reports a failure.
    """
    while True:
        with locked(path):
            try:
                answer = ask(path, question)
            except OSError:
                path.unlink(missing_ok=True)  # of a process that was killed
                start()
                answer = ask(path, question)
        if "ends" not in answer:
            return answer
        time.sleep(_RETRY_S)  # it needs the lock to end


def start_process(module: str, path: Path, payload: bytes, *, purpose: str) -> None:
    """Start ``python -m module path`` with ``payload`` as its input, and wait until it listens.

    A port that the process of a vanished socket still holds is free again a little later, therefore a process that
    reports a taken port is started again for ``_PORT_RETRY_S``.

    Raises:
        KafkaframesError: it does not start; the reason.
    """
    deadline = time.monotonic() + _PORT_RETRY_S
    while (answer := _try_to_start(module, path, payload)) != READY:
        if _PORT_IS_TAKEN not in answer or time.monotonic() > deadline:
            reason = answer.decode(errors="replace").strip() or "it printed nothing; see Spark's log"
            raise KafkaframesError(f"the process that {purpose} does not start: {reason}")
        time.sleep(_RETRY_S)


_PORT_IS_TAKEN: Final = b"address already in use"


def _try_to_start(module: str, path: Path, payload: bytes) -> bytes:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    _started.append(process)
    assert process.stdin is not None
    assert process.stdout is not None
    answer = b""
    with process.stdout as answers:
        try:
            with process.stdin as to:
                to.write(payload)
            if select.select([answers], [], [], START_S)[0]:
                answer = answers.readline()
            else:
                answer = f"it has not listened within {START_S:.0f} s".encode()
        except OSError as error:
            answer = str(error).encode()
    if answer != READY:
        process.kill()
        process.wait()
        _started.remove(process)
    return answer
