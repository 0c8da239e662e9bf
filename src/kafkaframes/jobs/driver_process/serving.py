"""Serve requests at a Unix socket, in a process that ``control.py`` has started."""

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
from kafkaframes.jobs.driver_process.control import READY_LINE, hold_lock, make_lock_path

CHECK_INTERVAL_S: Final = 1.0
log = logging.getLogger("kafkaframes.jobs")


class RequestHandler(Protocol):
    """Interface of an object that answers the requests of other processes."""

    def handle_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a request.

        Raises:
            KafkaframesError: the operation failed.
            KeyError, TypeError, ValueError: the request is invalid for this process.
        """

    def should_exit(self) -> bool:
        """Return whether the process has no more work."""

    def close(self) -> None:
        """Release the resources of the process."""


class _RequestConnection(socketserver.StreamRequestHandler):
    """A connection on which one request is answered. The connection is closed after the response."""

    server: _SocketServer

    def handle(self) -> None:
        """Serve one request. Until the response is ready, send spaces to show that this process runs."""
        result: Future[dict[str, Any]] = Future()
        line = self.rfile.readline()
        threading.Thread(target=self._send_answer, args=(line, result), name="kafkaframes answer", daemon=True).start()
        with suppress(OSError):  # the caller has disconnected
            while True:
                try:
                    answer = result.result(control.HEARTBEAT_INTERVAL_S)
                except TimeoutError:
                    self.wfile.write(b" ")
                else:
                    break
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    def _send_answer(self, line: bytes, result: Future[dict[str, Any]]) -> None:
        try:
            result.set_result(self.server.handler.handle_request(json.loads(line)))
        except KafkaframesError as error:
            result.set_result({"failed": str(error)})
        except (ValueError, KeyError, TypeError) as error:
            result.set_result({"failed": f"unknown or invalid request: {error!r}"})
        except Exception as error:
            log.exception("a request failed")
            result.set_result({"failed": repr(error)})


class _SocketServer(socketserver.ThreadingUnixStreamServer):
    """A Unix socket server with a thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, handler: RequestHandler) -> None:
        self.handler = handler
        super().__init__(str(path), _RequestConnection)


def serve(path: Path, handler: RequestHandler, ready: Callable[[], None] = lambda: None) -> None:
    """Serve requests until the handler has no more work or the socket's file is removed.

    Args:
        path: path of the socket.
        handler: object that answers the requests.
        ready: function that is called when clients can connect.
    """
    path.unlink(missing_ok=True)  # a process that was killed left this file
    with _SocketServer(path, handler) as sockets:
        identity = _read_file_identity(path)
        threading.Thread(target=sockets.serve_forever, name="kafkaframes control", daemon=True).start()
        ready()
        while True:
            time.sleep(CHECK_INTERVAL_S)
            # The file was removed or replaced: callers cannot find this process any more.
            if _read_file_identity(path) != identity:
                handler.close()
                break
            if not handler.should_exit():
                continue
            # If another process holds the lock, a caller is sending a request.
            with hold_lock(path, waits=False) as is_ours:
                if is_ours and handler.should_exit():
                    handler.close()
                    path.unlink(missing_ok=True)
                    make_lock_path(path).unlink()
                    break
        sockets.shutdown()


def _read_file_identity(path: Path) -> tuple[int, int, int] | None:
    """Return the identity of a file: device, inode number and ctime; None if it does not exist."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns  # the ctime is necessary because inode numbers are reused


def announce_ready() -> None:
    """Report to the parent process that this process listens, and close the pipe to it."""
    os.write(1, READY_LINE)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)


def is_process_running(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
