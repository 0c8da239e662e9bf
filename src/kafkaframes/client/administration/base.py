"""What the groups of admin methods share: which node a request goes to, and results for each item of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from kafkaframes.client.cluster import GROUP, ClusterClient
from kafkaframes.client.metadata import Broker, TopicPartition
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import (
    COORDINATOR_MOVED,
    LEADER_MOVED,
    BrokerError,
    ErrorCode,
    OptionError,
    PartialFailureError,
    broker_error,
)
from kafkaframes.protocol.messages.objects import Message

Item = TypeVar("Item")
Value = TypeVar("Value")

OPERATIONS_NOT_REQUESTED: Final = -(2**31)  # a response's authorized operations where the request did not ask for them


class AdminRequests:
    """Sends a request to the node that answers it, and repeats it while the error is retriable.

    Attributes:
        settings: settings of the client.
    """

    settings: ClientSettings
    _cluster: ClusterClient

    async def _ask_any(self, body: Message, what: str) -> Any:
        """Return the answer of any broker; in a KRaft cluster it forwards to the controller.

        Raises:
            BrokerError: the response has an error code at its top level.
        """

        async def step() -> Any:
            answer = await self._cluster.request(None, body)
            raise_for_code(answer, what)
            return answer

        return await self._cluster.retried(step)

    async def _ask_controller(
        self, body: Message, what: str, rows: Callable[[Any], Iterable[Any]] | None = None
    ) -> Any:
        """Return the answer of the controller.

        Args:
            body: the request.
            what: subject of an error at the response's top level.
            rows: from the answer to its rows with error codes. NOT_CONTROLLER in one of them repeats the request.
        """

        async def step() -> Any:
            if self._cluster.cluster.updated_at is None:
                await self._cluster.refresh()
            controller = self._cluster.cluster.brokers.get(self._cluster.cluster.controller)
            answer = await self._cluster.request(controller, body)
            codes = {getattr(answer, "error_code", 0), *(row.error_code for row in (rows(answer) if rows else ()))}
            if ErrorCode.NOT_CONTROLLER in codes:
                self._cluster.cluster.updated_at = None
                raise broker_error(ErrorCode.NOT_CONTROLLER, what)
            raise_for_code(answer, what)
            return answer

        return await self._cluster.retried(step)

    async def _ask_coordinator(
        self, key: str, body: Message, what: str, code: Callable[[Any], int], kind: int = GROUP
    ) -> Any:
        """Return the answer of a coordinator; look it up again if it has moved.

        Args:
            key: group id or transactional id.
            body: the request.
            what: subject of errors.
            code: from the answer to the error code that tells whether the coordinator has moved.
            kind: key type of FindCoordinator.
        """

        async def step() -> Any:
            answer = await self._cluster.ask_coordinator(key, body, kind)
            if code(answer) in COORDINATOR_MOVED:
                self._cluster.check_coordinator(code(answer), what, key, kind)
            return answer

        return await self._cluster.retried(step)

    async def _ask_leader(
        self, partition: TopicPartition, body: Message, row: Callable[[Any], Any], broker_id: int | None = None
    ) -> Any:
        """Return one row of the answer of a partition's leader, or of the broker with this id.

        Args:
            partition: topic and partition that the request names.
            body: the request.
            row: from the answer to the partition's row, which has an error code.
            broker_id: node to ask; None is the leader.
        """

        await self._require_partition(partition)

        async def step() -> Any:
            broker = await self._broker(broker_id) if broker_id is not None else None
            broker = broker or await self._cluster.leader_of(partition)
            answer = row(await self._cluster.request(broker, body))
            if answer.error_code in LEADER_MOVED and broker_id is None:
                self._cluster.cluster.topics.pop(partition.topic, None)
                raise broker_error(answer.error_code, f"partition {partition}")
            return answer

        return await self._cluster.retried(step)

    async def _require_partition(self, partition: TopicPartition) -> None:
        """Raise at once for a partition that fresh metadata does not list: it does not appear by itself."""
        await self._cluster.topic(partition.topic)
        if self._cluster.cluster.partition(partition) is None:
            await self._cluster.refresh([partition.topic])
        if self._cluster.cluster.partition(partition) is None:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}")

    async def _ask_broker(self, node_id: int, body: Message, what: str) -> Any:
        """Return the answer of one broker."""

        async def step() -> Any:
            answer = await self._cluster.request(await self._broker(node_id), body)
            raise_for_code(answer, what)
            return answer

        return await self._cluster.retried(step)

    async def _broker(self, node_id: int) -> Broker:
        """Return the broker with this id.

        Raises:
            BrokerError: metadata does not list it.
        """
        broker = self._cluster.cluster.brokers.get(node_id)
        if broker is None:
            await self._cluster.refresh()
            broker = self._cluster.cluster.brokers.get(node_id)
        if broker is None:
            raise broker_error(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {node_id}")
        return broker

    async def _broker_ids(self, requested: Iterable[int] | None = None) -> list[int]:
        """Return these ids, or those of all brokers that metadata lists."""
        if requested is not None:
            return list(requested)
        await self._cluster.retried(self._cluster.refresh)
        return sorted(self._cluster.cluster.brokers)

    async def _for_each(
        self, items: Iterable[Item], call: Callable[[Item], Awaitable[Value]]
    ) -> dict[Item, Value | BrokerError]:
        """Return for each item the result of ``call``, or the error that it raised."""
        results: dict[Item, Value | BrokerError] = {}
        for item in items:
            try:
                results[item] = await call(item)
            except BrokerError as error:
                results[item] = error
        return results


def raise_for_code(answer: Any, what: str) -> None:
    """Raise the error at the top level of a response, if it has one."""
    if number := getattr(answer, "error_code", 0):
        raise broker_error(number, what, getattr(answer, "error_message", None))


def error_of(row: Any, what: str) -> BrokerError | None:
    """Return the error of a row of a response; None if the row succeeded."""
    if not row.error_code:
        return None
    return broker_error(row.error_code, what, getattr(row, "error_message", None))


def require_success(results: Mapping[Item, Value | BrokerError]) -> dict[Item, Value]:
    """Return the values of all items.

    Raises:
        BrokerError: an item failed. If it was the only item, its own error; else a ``PartialFailureError`` with the
            results of all items.
    """
    errors = [result for result in results.values() if isinstance(result, BrokerError)]
    if errors and len(results) == 1:
        raise errors[0]
    if errors:
        raise PartialFailureError(results)
    return {item: result for item, result in results.items() if not isinstance(result, BrokerError)}


def number_of(setting: str, name: str, numbers: Mapping[str, int]) -> int:
    """Return the protocol's number of a name.

    Raises:
        OptionError: the name does not exist; the error lists those that do.
    """
    if name not in numbers:
        raise OptionError(f"{setting} {name!r} does not exist; expected one of {', '.join(numbers)}")
    return numbers[name]


def name_of(number: int, numbers: Mapping[str, int]) -> str:
    """Return the name of a number of the protocol; ``unknown(N)`` for a number that this version does not know."""
    return next((name for name, known in numbers.items() if known == number), f"unknown({number})")
