"""The side of a process on the driver's machine that answers questions at a Unix socket; see ``control.py``."""

from __future__ import annotations

import json
import logging
import os
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.driver_process import control
from kafkaframes.jobs.driver_process.control import READY, lock_path, locked

LOOK_S: Final = 1.0
log = logging.getLogger("kafkaframes.spark")


class Answering(Protocol):
    """What a process does."""

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a question.

        Raises:
            KafkaframesError: what was asked for failed.
            KeyError, TypeError, ValueError: it is not a question that this process knows.
        """

    def must_end(self) -> bool:
        """Return whether the process has nothing to do any more."""

    def end(self) -> None:
        """Release what the process holds."""


class _Connection(socketserver.StreamRequestHandler):
    server: _Sockets

    def handle(self) -> None:
        """Answer one question, and show in the meantime that this process runs."""
        result: Future[dict[str, Any]] = Future()
        line = self.rfile.readline()
        threading.Thread(target=self._answer, args=(line, result), name="kafkaframes answer", daemon=True).start()
        with suppress(OSError):  # the caller has ended
            while True:
                try:
                    answer = result.result(control.PULSE_S)
                except TimeoutError:
                    self.wfile.write(b" ")
                else:
                    break
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    def _answer(self, line: bytes, result: Future[dict[str, Any]]) -> None:
        try:
            result.set_result(self.server.answering.answer(json.loads(line)))
        except KafkaframesError as error:
            result.set_result({"failed": str(error)})
        except (ValueError, KeyError, TypeError) as error:
            result.set_result({"failed": f"not a question that this process knows: {error!r}"})
        except Exception as error:
            log.exception("a question failed")
            result.set_result({"failed": repr(error)})


class _Sockets(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, answering: Answering) -> None:
        self.answering = answering
        super().__init__(str(path), _Connection)


def serve(path: Path, answering: Answering, ready: Callable[[], None] = lambda: None) -> None:
    """Answer at a path until ``answering`` has nothing to do any more, or the socket's file is gone.

    Args:
        path: of the socket.
        answering: what answers.
        ready: called when the socket can be reached.
    """
    path.unlink(missing_ok=True)  # of a process that was killed
    with _Sockets(path, answering) as sockets:
        identity = _identity(path)
        threading.Thread(target=sockets.serve_forever, name="kafkaframes control", daemon=True).start()
        ready()
        while True:
            time.sleep(LOOK_S)
            if _identity(path) != identity:  # removed, perhaps replaced: no caller will find this process again
                answering.end()
                break
            if not answering.must_end():
                continue
            with locked(path, waits=False) as is_ours:  # otherwise a caller is asking just now
                if is_ours and answering.must_end():
                    answering.end()
                    path.unlink(missing_ok=True)
                    lock_path(path).unlink()
                    break
        sockets.shutdown()


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns  # a system may give the number of a file again


def announce_ready() -> None:
    """Report to the starter that this process listens, and give the pipe to it back."""
    os.write(1, READY)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)


def is_running(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
