"""Helpers of all admin methods: send a request to the right node, and check the response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from kafkaframes.client.cluster import GROUP, ClusterClient
from kafkaframes.client.metadata import Broker, TopicPartition
from kafkaframes.client.response_rows import require_one_row
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import (
    COORDINATOR_MOVED,
    LEADER_MOVED,
    BrokerError,
    ErrorCode,
    OptionError,
    broker_error,
)
from kafkaframes.protocol.messages.objects import Message

Item = TypeVar("Item")
Value = TypeVar("Value")

OPERATIONS_NOT_REQUESTED: Final = -(2**31)  # authorized operations in a response if the request did not ask for them


class AdminRequests:
    """Sends each request to the node that serves it, and retries while the error is retriable.

    Attributes:
        settings: settings of the client.
    """

    settings: ClientSettings
    _cluster: ClusterClient

    async def _send_to_any_broker(self, body: Message, subject: str, *, retry_error_codes: bool = True) -> Any:
        """Send a request to any broker and return the response.

        KRaft brokers forward the requests that only the controller can serve.

        Args:
            body: the request.
            subject: subject of the error message.
            retry_error_codes: whether a response with a retriable error code is retried. A request whose repetition
                could take effect twice sets it to False.

        Raises:
            BrokerError: the response has an error code at its top level.
        """

        async def step() -> Any:
            response = await self._cluster.request(None, body)
            if retry_error_codes:
                raise_response_error(response, subject)
            return response

        response = await self._cluster.retried(step)
        raise_response_error(response, subject)
        return response

    async def _send_to_controller(
        self, body: Message, subject: str, get_rows: Callable[[Any], Iterable[Any]] | None = None
    ) -> Any:
        """Send a request to the controller and return the response.

        Args:
            body: the request.
            subject: subject of the error message if the response has a top-level error.
            get_rows: returns the rows of the response that have error codes. If one has NOT_CONTROLLER, the request is
                sent again.
        """

        async def step() -> Any:
            if self._cluster.cluster.updated_at is None:
                await self._cluster.refresh()
            controller = self._cluster.cluster.brokers.get(self._cluster.cluster.controller)
            response = await self._cluster.request(controller, body)
            rows = get_rows(response) if get_rows else ()
            codes = {getattr(response, "error_code", 0), *(row.error_code for row in rows)}
            if ErrorCode.NOT_CONTROLLER in codes:
                self._cluster.cluster.updated_at = None
                raise broker_error(ErrorCode.NOT_CONTROLLER, subject)
            raise_response_error(response, subject)
            return response

        return await self._cluster.retried(step)

    async def _send_to_coordinator(
        self, key: str, body: Message, subject: str, get_error_code: Callable[[Any], int], kind: int = GROUP
    ) -> Any:
        """Send a request to a coordinator and return the response. If the coordinator has moved, look it up again.

        Args:
            key: group id or transactional id.
            body: the request.
            subject: subject of error messages.
            get_error_code: returns the error code of the response that reports a moved coordinator.
            kind: key type of FindCoordinator.
        """

        async def step() -> Any:
            response = await self._cluster.ask_coordinator(key, body, kind)
            code = get_error_code(response)
            if code in COORDINATOR_MOVED:
                self._cluster.check_coordinator(code, subject, key, kind)
            return response

        return await self._cluster.retried(step)

    async def _send_about_group(self, group_id: str, body: Message) -> Any:
        """Send a request that describes one group to its coordinator, and return the group's response row."""
        subject = f"group {group_id}"
        response = await self._send_to_coordinator(
            group_id, body, subject, lambda entry: int(require_one_row(entry.groups, subject).error_code)
        )
        return response.groups[0]

    async def _send_to_leader(
        self, partition: TopicPartition, body: Message, get_row: Callable[[Any], Any], broker_id: int | None = None
    ) -> Any:
        """Send a request to a partition's leader or to the given broker, and return the partition's response row.

        Args:
            partition: topic and partition that the request names.
            body: the request.
            get_row: returns the partition's row of the response. The row has an error code.
            broker_id: id of the broker that receives the request; None is the leader.
        """
        await self._require_partition(partition)

        async def step() -> Any:
            broker = await self._broker(broker_id) if broker_id is not None else None
            broker = broker or await self._cluster.leader_of(partition)
            row = get_row(await self._cluster.request(broker, body))
            if row.error_code in LEADER_MOVED and broker_id is None:
                self._cluster.cluster.topics.pop(partition.topic, None)
                raise broker_error(row.error_code, f"partition {partition}")
            return row

        return await self._cluster.retried(step)

    async def _require_partition(self, partition: TopicPartition) -> None:
        """Raise an error if fresh metadata does not list a partition: a retry would not make it appear."""
        await self._cluster.topic(partition.topic)
        if self._cluster.cluster.partition(partition) is None:
            await self._cluster.refresh([partition.topic])
        if self._cluster.cluster.partition(partition) is None:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}")

    async def _send_to_broker(self, node_id: int, body: Message, subject: str) -> Any:
        """Send a request to one broker and return the response."""

        async def step() -> Any:
            response = await self._cluster.request(await self._broker(node_id), body)
            raise_response_error(response, subject)
            return response

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

    async def _broker_ids(self, broker_ids: Iterable[int] | None = None) -> list[int]:
        """Return the given broker ids, or (None) the ids of all brokers in the metadata."""
        if broker_ids is not None:
            return list(broker_ids)
        await self._cluster.retried(self._cluster.refresh)
        return sorted(self._cluster.cluster.brokers)

    async def _call_for_each(
        self, items: Iterable[Item], call: Callable[[Item], Awaitable[Value]]
    ) -> dict[Item, Value | BrokerError]:
        """Return the result of ``call`` for each item, or the error that it raised."""
        results: dict[Item, Value | BrokerError] = {}
        for item in items:
            try:
                results[item] = await call(item)
            except BrokerError as error:
                results[item] = error
        return results


def raise_response_error(response: Any, subject: str) -> None:
    """Raise the error of a response, or of a row of it, if it has one."""
    if number := getattr(response, "error_code", 0):
        raise broker_error(number, subject, getattr(response, "error_message", None))


def row_error(row: Any, subject: str) -> BrokerError | None:
    """Return the error in a row of a response; None if the row has no error."""
    if not row.error_code:
        return None
    return broker_error(row.error_code, subject, getattr(row, "error_message", None))


def protocol_number(setting: str, name: str, numbers: Mapping[str, int]) -> int:
    """Return the number that the protocol uses for a name.

    Raises:
        OptionError: the name is unknown. The error lists the valid names.
    """
    if name not in numbers:
        raise OptionError(f"{setting} {name!r} does not exist; expected one of {', '.join(numbers)}")
    return numbers[name]


def protocol_name(number: int, numbers: Mapping[str, int]) -> str:
    """Return the name of a protocol number, or ``unknown(N)`` if this version does not know the number."""
    return next((name for name, candidate in numbers.items() if candidate == number), f"unknown({number})")
