"""The process that holds the transactions of one stream's sink. ``process_control.py`` starts it.

    python -m kafkaframes.jobs.write_topic.transaction_process SOCKET        (a pickled TransactionProcess on stdin)

The first task with rows reports a micro-batch's query and number to the process. When the process receives this report,
it reads the batch's offsets from the checkpoint and begins the transaction (``sink.py``). Tasks write in it until
Spark's ``commit`` or ``abort`` is passed on, or until the first task of a newer attempt connects.

Spark writes a query's micro-batches one after the other, and calls ``streamWriter()`` again before each commit, after
all tasks have ended. Therefore tasks of two attempts are accepted: the one that was announced last, and the current
one. Tasks of other attempts are rejected.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import KafkaframesError, LostTaskError
from kafkaframes.jobs.driver_process.serving import announce_ready, is_process_running, serve
from kafkaframes.jobs.micro_batch import StreamBatch
from kafkaframes.jobs.write_topic.leases import LeaseServer, SharedTransaction
from kafkaframes.jobs.write_topic.process_control import TransactionProcess, compute_options_digest
from kafkaframes.jobs.write_topic.sequences import LeaseLedger
from kafkaframes.jobs.write_topic.sink import (
    TopicSink,
    TransactionRecords,
    current_time_ms,
    make_transactional_id,
    plan_batch,
)
from kafkaframes.storage.files.filesystem import get_store, join

MAX_IDLE_TIME_S: Final = 60.0  # a process without a micro-batch exits after this time
_ABORT_TIMEOUT_S: Final = 10.0  # time limit for the abort of an attempt when the process ends
_NEWER_ATTEMPT_TEXT: Final = "a newer attempt to write this micro-batch has begun"
_ATTEMPT_ENDED_TEXT: Final = "the attempt to write the micro-batch that this task belongs to has ended"
_QUERY_ENDS_TEXT: Final = "the query ends, or restarts with other options"


class WriteAttempt:
    """One try to write a micro-batch. A separate thread holds the transaction of each attempt."""

    def __init__(
        self, name: str, number: int, make_batch: Callable[[], StreamBatch], make_sink: Callable[[], TopicSink]
    ):
        """``make_batch`` reads the checkpoint, ``make_sink`` may query the cluster.

        Tasks receive the exceptions that these functions raise.
        """
        self.name = name
        self.number = number
        self.shared_transaction: Future[SharedTransaction | None] = (
            Future()
        )  # None: the micro-batch was committed before
        self.end: Future[None] = Future()
        self._counts: Future[Mapping[TopicPartition, int]] = Future()
        self._ledger = LeaseLedger(current_time_ms)
        self._make_batch, self._make_sink = make_batch, make_sink
        threading.Thread(target=self._write, name="kafkaframes transaction", daemon=True).start()

    def commit(self, counts: Mapping[TopicPartition, int]) -> None:
        """Commit the tasks' records unless the attempt was given up before, and wait for the end."""
        with suppress(InvalidStateError):
            self._counts.set_result(counts)
        self.end.result()

    def abort_unless_committing(self, reason: str, timeout: float | None = None) -> None:
        """Abort unless the commit was requested before, and wait for the end of either."""
        with suppress(InvalidStateError):
            self._counts.set_exception(LostTaskError(reason))
        with suppress(TimeoutError):
            self.end.exception(timeout)

    def _write(self) -> None:
        try:
            batch, sink = self._make_batch(), self._make_sink()
            sink.write_batch(batch, partial(self._share_with_tasks, sink))
        except Exception as error:
            failure = error if isinstance(error, KafkaframesError) else KafkaframesError(repr(error))
            if not self.shared_transaction.done():
                self.shared_transaction.set_exception(failure)
            self.end.set_exception(failure)
        else:
            if not self.shared_transaction.done():
                self.shared_transaction.set_result(None)
            self.end.set_result(None)

    def _share_with_tasks(self, sink: TopicSink, producer: Producer) -> TransactionRecords:
        """Let tasks write in the transaction until it is committed or given up."""
        self.shared_transaction.set_result(sink.share_transaction(producer, self._ledger))
        return TransactionRecords.from_reports(self._ledger, self._counts.result())


class AttemptRunner:
    """Runs the attempts of one sink, one after the other."""

    def __init__(self, process: TransactionProcess) -> None:
        self._of = process
        self._digest = compute_options_digest(process.options)
        self._lock = threading.Lock()
        self._announced_attempt = ""  # the attempt that the next new task may start
        self._attempt: WriteAttempt | None = None
        self._sink: TopicSink | None = None
        self._watched_pid = 0
        self._is_replaced = False
        self._has_ended = False
        self._since = time.monotonic()  # the last time at which there was work
        self._server = LeaseServer(
            self._find_transaction,
            listen=process.options.driver_host,
            host=process.options.driver_host,
            port=process.options.driver_port,
        )

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Abort the current attempt, and close the port. Repeated calls have no effect."""
        with self._lock:
            self._announced_attempt = ""
        if self._has_ended:
            return
        self._has_ended = True
        if self._attempt is not None:
            self._attempt.abort_unless_committing(_QUERY_ENDS_TEXT, _ABORT_TIMEOUT_S)
        self._server.__exit__(None, None, None)

    def handle_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of ``process_control.py``.

        Raises:
            KafkaframesError: the operation failed.
        """
        if "announce" in request:
            return self._announce(request["announce"], request["watch"], request["options"])
        if "commit" in request:
            counts = {TopicPartition(topic, partition): records for topic, partition, records in request["counts"]}
            self._commit_attempt(request["commit"], request["batch"], counts)
        else:
            self._abort_attempt(request["abort"])
        return {}

    def should_exit(self) -> bool:
        """Return whether the process was replaced, Spark's process has ended, or the process is idle for too long."""
        with self._lock:
            if self._is_replaced or (self._watched_pid and not is_process_running(self._watched_pid)):
                return True
            if self._announced_attempt or (self._attempt is not None and not self._attempt.end.done()):
                self._since = time.monotonic()
            return time.monotonic() - self._since > MAX_IDLE_TIME_S

    def _announce(self, name: str, watched_pid: int, options: str) -> dict[str, Any]:
        with self._lock:
            if self._is_replaced or options != self._digest:
                self._is_replaced = True
                return {"ends": True}
            self._announced_attempt = name
            self._watched_pid = watched_pid
        host, port, secret = self._server.address.host, self._server.address.port, self._server.address.secret
        return {"host": host, "port": port, "secret": secret.hex()}

    def _find_transaction(self, request: Mapping[str, Any]) -> SharedTransaction | None:
        """Return the transaction of a task's attempt. The attempt's first task begins it.

        Raises:
            KafkaframesError: the attempt has ended, or its transaction cannot begin.
        """
        name = request["attempt"]
        with self._lock:
            attempt = self._attempt
            if attempt is None or attempt.name != name:
                if name != self._announced_attempt:
                    raise LostTaskError(_ATTEMPT_ENDED_TEXT)
                self._announced_attempt = ""
                if attempt is not None:
                    attempt.abort_unless_committing(_NEWER_ATTEMPT_TEXT)
                query, number = request["query"], request["batch"]
                make_batch = partial(
                    plan_batch, self._of.options, query, number, self._of.checkpoint, self._read_checkpoint_file
                )
                attempt = self._attempt = WriteAttempt(name, number, make_batch, partial(self._make_sink, query))
        shared_producer = attempt.shared_transaction.result()
        if shared_producer is not None and attempt.end.done():
            attempt.end.result()
            raise LostTaskError(_ATTEMPT_ENDED_TEXT)
        return shared_producer

    def _read_checkpoint_file(self, name: str) -> str | None:
        checkpoint = self._of.checkpoint
        path = join(checkpoint.removeprefix("file:"), name)
        try:
            store = get_store(path)
            return None if store.stat(path) is None else store.read(path).decode()
        except Exception as error:  # includes exceptions of the object store's library
            reason = f"the checkpoint {checkpoint} cannot be read by a process on the driver's machine: {error}"
            raise KafkaframesError(reason) from error

    def _make_sink(self, query_id: str) -> TopicSink:
        transactional_id = make_transactional_id(self._of.options, query_id)
        if self._sink is None or self._sink.transactional_id != transactional_id:
            self._sink = TopicSink(self._of.options, transactional_id)
        return self._sink

    def _commit_attempt(self, name: str, number: int, counts: Mapping[TopicPartition, int]) -> None:
        """Commit an attempt.

        Raises:
            KafkaframesError: the attempt is not the current one, or the commit failed.
        """
        with self._lock:
            attempt = self._attempt
            self._announced_attempt = ""
        if attempt is not None and (attempt.name, attempt.number) == (name, number):
            attempt.commit(counts)
        elif counts:
            raise KafkaframesError(
                f"the transaction of micro-batch {number} no longer exists; the micro-batch must be written again"
            )

    def _abort_attempt(self, name: str) -> None:
        with self._lock:
            attempt = self._attempt
            self._announced_attempt = ""
        if attempt is not None and name in ("", attempt.name):
            attempt.abort_unless_committing("Spark has aborted the micro-batch")


def main() -> None:
    """Run the process."""
    (path,) = sys.argv[1:]

    try:
        with AttemptRunner(pickle.load(sys.stdin.buffer)) as holder:
            serve(Path(path), holder, announce_ready)
    except (KafkaframesError, OSError) as error:
        print(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
