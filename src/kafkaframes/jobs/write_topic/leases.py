"""Lease sequence numbers to tasks: a server next to the driver grants the leases that tasks request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kafkaframes.client import TopicPartition
from kafkaframes.client.batches import ProducerIdentity
from kafkaframes.client.loop import LoopThread
from kafkaframes.errors import KafkaframesError, LostTaskError
from kafkaframes.jobs.driver_process.address import TaskServerAddress
from kafkaframes.jobs.driver_process.task_server import (
    CONNECTION_ERRORS,
    GREETING_TIMEOUT_S,
    SECRET_BYTES,
    TaskConnection,
    TaskServer,
    send_answer,
    send_last_answer,
)
from kafkaframes.jobs.write_topic.sequences import LeaseLedger

POLL_TIMEOUT_S: Final = 10.0  # time for which the server waits for a lease before it answers
_ANSWER_TIMEOUT_S: Final = (
    90.0  # time limit for a response: the server may take POLL_TIMEOUT_S, or longer on a busy driver
)
_SERVER_GONE_TEXT: Final = "is gone from"


class SharedTransaction(NamedTuple):
    """A transaction that several tasks write in.

    Attributes:
        add: function that adds partitions to the transaction. The server calls it before it answers with new leases.
        identity: producer id and epoch of the transaction.
    """

    ledger: LeaseLedger
    add: Callable[[Iterable[TopicPartition]], None]
    transactional_id: str
    identity: ProducerIdentity


class LeaseServer:
    """Answers tasks on its own thread, between ``__enter__`` and ``__exit__``.

    Args:
        find: function that returns the transaction for a task's description of its batch; None if the batch was
            committed before.
        listen: address to listen on.
        host: host name or address by which tasks reach the server.
        port: port to listen on; 0 for any free port.
    """

    def __init__(
        self,
        find: Callable[[Mapping[str, Any]], SharedTransaction | None],
        *,
        listen: str,
        host: str,
        port: int = 0,
    ) -> None:
        self._find = find
        self._listen = listen
        self._host = host
        self._port = port
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._loop = LoopThread("kafkaframes leases")
        self._server = TaskServer(self._loop, self._serve_requests, self._secret)
        self._change, self._adding = asyncio.Condition(), asyncio.Lock()
        self.address: TaskServerAddress

    def __enter__(self) -> Self:
        try:
            self.address = TaskServerAddress(self._host, self._server.open(self._listen, self._port), self._secret)
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._server.close()
        finally:
            self._loop.close()

    async def _serve_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of one connection until it ends."""
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            first_request = json.loads(await reader.readline())
        await self._serve_task(int(first_request["task"]), dict(first_request["batch"]), reader, writer)

    async def _serve_task(
        self, task: int, batch: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            shared_producer = await asyncio.to_thread(self._find, batch)
            if shared_producer is not None:
                shared_producer.ledger.register_task(task)
        except KafkaframesError as error:
            await send_last_answer(reader, writer, {"refused": str(error)})
            return
        if shared_producer is None:
            await send_last_answer(reader, writer, {"written": True})
            return
        try:
            await send_answer(
                writer, {"id": shared_producer.transactional_id, "producer": list(shared_producer.identity)}
            )
            while line := await reader.readline():
                await send_answer(writer, await self._answer_task(shared_producer, task, json.loads(line)))
        finally:
            shared_producer.ledger.lose_task(task)

    async def _answer_task(
        self, shared_producer: SharedTransaction, task: int, counts: Mapping[str, Any]
    ) -> dict[str, Any]:
        ledger = shared_producer.ledger
        try:
            if "wrote" in counts:
                ledger.note_written(
                    task, [TopicPartition(*partition_of_lease) for partition_of_lease in counts["wrote"]]
                )
                async with self._change:
                    self._change.notify_all()
            if counts.get("end"):
                ledger.finish_task(task)
            if "want" not in counts:
                return {}
            leases = await self._lease_for_task(
                shared_producer,
                task,
                {TopicPartition(name, partition): count for name, partition, count in counts["want"]},
            )
        except KafkaframesError as error:
            ledger.mark_failed(error)
            return {"refused": str(error)}
        return {"got": [[index.topic, index.partition, first_sequences] for index, first_sequences in leases.items()]}

    async def _lease_for_task(
        self, shared_producer: SharedTransaction, task: int, counts_by_partition: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        ledger = shared_producer.ledger
        leases = ledger.lease_partitions(task, counts_by_partition)
        if not leases:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_TIMEOUT_S), self._change:
                    while not (leases := ledger.lease_partitions(task, counts_by_partition)):
                        await self._change.wait()
        if not leases and ledger.is_blocked(counts_by_partition):
            raise ledger.mark_failed(
                "another task was lost while it wrote, so the whole batch fails and is written again"
            )
        if leases:
            async with self._adding:
                await asyncio.to_thread(shared_producer.add, list(leases))
        return leases


class TaskTransaction(NamedTuple):
    """The transaction that a task writes in."""

    transactional_id: str
    identity: ProducerIdentity


class LeaseConnection:
    """A task's connection to the lease server.

    Attributes:
        transaction: id and producer that the task uses; None if an earlier attempt committed the batch.

    Raises:
        KafkaframesError: raised by all methods if the server cannot be reached, has ended, or rejects the request.
    """

    def __init__(self, address: TaskServerAddress, task: int, batch: Mapping[str, Any]) -> None:
        """``batch`` describes the task's batch to the server."""
        self._name = f"{address.host}:{address.port}"
        with self._explain_errors("cannot be reached at"):
            self._connection = TaskConnection(address)
        try:
            with self._explain_errors("does not answer at"):
                self._connection.authenticate(answer_timeout_s=_ANSWER_TIMEOUT_S)
            answer = self._ask_server({"task": task, "batch": dict(batch)})
            self.transaction = (
                None if "written" in answer else TaskTransaction(answer["id"], ProducerIdentity(*answer["producer"]))
            )
        except BaseException:
            self.close()
            raise

    def take_leases(
        self, needed_counts: Mapping[TopicPartition, int], wrote: Iterable[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """Return finished leases, and wait until at least one of the requested partitions is leased.

        Args:
            needed_counts: number of records for each requested partition.
            wrote: leased partitions whose records the brokers have all acknowledged.

        Returns:
            The first sequence in each leased partition.
        """
        counts = {
            "wrote": _as_names(wrote),
            "want": [[index.topic, index.partition, count] for index, count in needed_counts.items()],
        }
        while not (answer := self._ask_server(counts)["got"]):
            counts.pop("wrote", None)
        return {TopicPartition(name, partition): first_sequence for name, partition, first_sequence in answer}

    def return_leases(self, wrote: Iterable[TopicPartition]) -> None:
        """Return leases of partitions whose records were all acknowledged."""
        self._ask_server({"wrote": _as_names(wrote)})

    def report_end(self) -> None:
        """Report that this task has written everything."""
        self._ask_server({"end": True})

    def close(self) -> None:
        """Close the connection. If ``report_end`` was not called before, the server counts the task as lost."""
        self._connection.close()

    def _ask_server(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        with self._explain_errors(_SERVER_GONE_TEXT):
            answer = self._connection.send_request(counts)
        if "refused" in answer:
            raise LostTaskError(answer["refused"])  # the ledger contains the reason for the failure
        return answer

    @contextlib.contextmanager
    def _explain_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except CONNECTION_ERRORS as error:
            raise (LostTaskError if action == _SERVER_GONE_TEXT else KafkaframesError)(
                f"the driver, which assigns the sequences of this micro-batch, {action} {self._name}: {error}; "
                "tasks must be able to connect to it (options driverHost and driverPort)"
            ) from error


def _as_names(indexes: Iterable[TopicPartition]) -> list[list[Any]]:
    return [[index.topic, index.partition] for index in indexes]
