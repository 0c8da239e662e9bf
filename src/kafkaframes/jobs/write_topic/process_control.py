"""The process that holds the transactions of a stream, as Spark's processes on the driver's machine see it.

Those run for each micro-batch: nothing here imports the client.

``writeStream.format("kafka-topic")`` has no process of Spark's that lives from the first row of a micro-batch to its
commit. So the first ``streamWriter()`` starts one of our own (``transaction_process.py``), and the later ones find it:
it listens on a socket in a folder of this user's that nobody else can enter, under a name made of the checkpoint. It
ends by itself: when Spark's process that asked it last is gone, after a minute with nothing to do, and when the query
is started with other options, before another takes its place: it may hold the port that these ask for.

What is said there are JSON objects, one for each connection, and one answer:

=============================================================== ======================================================
``{"announce": attempt, "watch": pid, "options": digest}``      ``{"host", "port", "secret"}``: of the lease server,
                                                                to which tasks may come with this attempt;
                                                                ``{"ends": true}``: it has other options
``{"commit": attempt, "batch": N, "counts": [[topic, partition, ``{}``: it is committed
records]]}``
``{"abort": attempt}``                                          ``{}``
any                                                             ``{"failed": why}``
=============================================================== ======================================================

An *attempt* is one try to write a micro-batch. Its name is made before anybody knows the micro-batch's number.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.write_topic.address import Address
from kafkaframes.scan.topic.options import TopicWriteOptions

READY: Final = b"ready\n"
_MODULE: Final = "kafkaframes.jobs.write_topic.transaction_process"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LOOK_S: Final = 0.1
_started: Final[list[subprocess.Popen[bytes]]] = []  # they outlive this process, as is intended


@dataclass(frozen=True, slots=True)
class TransactionProcess:
    """How to reach the process of a sink, on its machine.

    Attributes:
        checkpoint: the path of the stream's.
    """

    options: TopicWriteOptions
    checkpoint: str

    def announce(self, attempt: str) -> Address:
        """Tell that tasks of a micro-batch will come; start the process unless it is there.

        Returns:
            Where tasks lease sequences.

        Raises:
            KafkaframesError: it cannot be started, or a port that was asked for is taken.
        """
        path = socket_path(self.checkpoint)
        question = {"announce": attempt, "watch": os.getppid(), "options": digest_of(self.options)}
        while True:
            with locked(path):
                try:
                    answer = _ask(path, question)
                except OSError:
                    self._start(path)
                    answer = _ask(path, question)
            if "ends" not in answer:
                break
            time.sleep(_LOOK_S)  # it needs the lock to end
        return Address(answer["host"], answer["port"], bytes.fromhex(answer["secret"]))

    def commit(self, attempt: str, batch_id: int, counts: Mapping[tuple[str, int], int]) -> None:
        """Commit the transaction of an attempt.

        Args:
            attempt: one that was announced.
            batch_id: the micro-batch's number.
            counts: the records in each topic partition by the tasks that Spark takes as successful.

        Raises:
            KafkaframesError: it is not committed, or nobody knows; the micro-batch must be written again.
        """
        self._tell(
            {
                "commit": attempt,
                "batch": batch_id,
                "counts": [[topic, partition, records] for (topic, partition), records in counts.items()],
            }
        )

    def abort(self, attempt: str) -> None:
        """Abort the transaction of an attempt, or of whichever is under way where the name is not known (``""``)."""
        self._tell({"abort": attempt})

    def _tell(self, question: Mapping[str, Any]) -> None:
        try:
            _ask(socket_path(self.checkpoint), question)
        except OSError as error:
            raise KafkaframesError(
                f"the process that held the transaction of this micro-batch is gone: {error}"
            ) from error

    def _start(self, path: Path) -> None:
        """Start the process, and wait until it listens."""
        command = [sys.executable, "-m", _MODULE, str(path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        _started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin as to, process.stdout as answers:
            try:
                to.write(pickle.dumps(self))
                to.close()
                answer = answers.readline()
            except OSError as error:
                answer = str(error).encode()
        if answer != READY:
            process.kill()
            process.wait()
            reason = answer.decode(errors="replace").strip() or "it says nothing; see Spark's log"
            raise KafkaframesError(f"the process that is to hold this sink's transactions does not start: {reason}")


def digest_of(options: TopicWriteOptions) -> str:
    """Return what tells a sink's options from others, and does not tell the secrets in them."""
    return hashlib.sha256(json.dumps(asdict(options), sort_keys=True, default=str).encode()).hexdigest()


def socket_path(checkpoint: str) -> Path:
    """Return where the process of a checkpoint's sink listens.

    Raises:
        KafkaframesError: others could get at what is in the folder.
    """
    folder = Path(tempfile.gettempdir()) / f"kafkaframes-tx-{os.getuid()}"  # a socket's path may have 100 characters
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & _OTHERS:
        raise KafkaframesError(f"{folder} must be a folder of this user's that nobody else can enter")
    version = [__file__, Path(__file__).stat().st_mtime_ns]
    known = json.dumps([version, checkpoint])
    return folder / hashlib.sha256(known.encode()).hexdigest()[:24]


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Keep others from starting the process of a path, or from ending it; say whether that could be had."""
    name = lock_path(path)
    while True:
        with name.open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            if _is_there(file.fileno(), name):  # else the process has ended meanwhile, and another lock counts
                yield True
                return


def lock_path(path: Path) -> Path:
    """Return the file of a path's lock: a sink that waits for its cluster holds up no other."""
    return path.with_suffix(".lock")


def _is_there(opened: int, name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), name.stat())
    except FileNotFoundError:
        return False


def _ask(path: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a question.

    Raises:
        OSError: nobody listens there, or it ended before it answered.
        KafkaframesError: the answer is that it failed.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(json.dumps(question).encode() + b"\n")
        with connection.makefile("rb") as answers:
            line = answers.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("it ended before it answered")
    answer: dict[str, Any] = json.loads(line)
    if "failed" in answer:
        raise KafkaframesError(answer["failed"])
    return answer
