"""Helpers of all admin methods: send a request to the right node, and check the response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from kafkaframes.client.administration.item_requests import (
    RETRIABLE_CODES,
    BrokerLookup,
    NodeLookup,
    create_no_response_error,
    request_items,
)
from kafkaframes.client.cluster import ClusterClient, is_retriable
from kafkaframes.client.metadata import Node
from kafkaframes.client.response_rows import ItemError, require_one_row
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import (
    COORDINATOR_MOVED_CODES,
    BrokerError,
    ErrorCode,
    NetworkError,
    OptionError,
    to_broker_error,
)
from kafkaframes.protocol.messages.objects import Message

Item = TypeVar("Item")
Value = TypeVar("Value")

_COORDINATOR_LOADING_ERRORS: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
OPERATIONS_NOT_REQUESTED: Final = -(2**31)  # authorized operations in a response if the request did not ask for them


class AdminRequests:
    """Sends each request to the node that serves it, and retries while the error is retriable.

    Attributes:
        settings: the client's validated settings.
    """

    settings: ClientSettings
    _cluster: ClusterClient

    async def _retry_step(self, step: Callable[[], Awaitable[Value]], retriable: Collection[ErrorCode] = ()) -> Value:
        """Run a step until it succeeds, for at most ``default_api_timeout_ms``, and return its result.

        Args:
            step: function to run. The step is run again after a retriable error.
            retriable: further error codes after which the step is run again.

        Raises:
            BrokerError, NetworkError: the last error in the step.
        """
        limit_ms = self.settings.default_api_timeout_ms
        error: ItemError = create_no_response_error(self._cluster)

        async def attempt_step() -> Value:
            nonlocal error
            try:
                return await step()
            except (BrokerError, NetworkError) as failure:
                error = failure
                raise

        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await self._cluster.retry_step(
                    attempt_step,
                    can_retry=lambda error: is_retriable(error) or getattr(error, "code", None) in retriable,
                )
        except TimeoutError:
            raise error from None

    async def _request_items(
        self,
        items: Iterable[Item],
        lookup: NodeLookup[Item],
        send: Callable[[Node, list[Item]], Awaitable[Mapping[Item, Value | ItemError]]],
        retriable: Collection[ErrorCode],
    ) -> dict[Item, Value | ItemError]:
        """Return the result of each item, as ``request_items`` does."""
        return await request_items(self._cluster, items, lookup, send, retriable)

    async def _send_to_any_broker(
        self,
        body: Message,
        subject: str,
        *,
        retriable: Collection[ErrorCode] = RETRIABLE_CODES,
        get_rows: Callable[[Any], Iterable[Any]] | None = None,
    ) -> Any:
        """Send a request to any broker and return the response.

        KRaft brokers forward the requests that only the controller can serve.

        Args:
            body: the request.
            subject: subject of the request, for error messages.
            retriable: error codes after which the request is sent again. For a change, specify only codes after which
                the change has certainly not taken effect, or can be applied twice without harm.
            get_rows: function that returns rows of the response, whose error codes are handled in the same way.

        Raises:
            BrokerError: the response or one of the rows has an error code.
        """

        async def send_once() -> Any:
            response = await self._cluster.request(None, body)
            rows = [response, *(get_rows(response) if get_rows else ())]
            for row in rows:
                if getattr(row, "error_code", 0) in retriable:
                    raise_response_error(row, subject)
            return response, rows

        response, rows = await self._retry_step(send_once)
        for row in rows:
            raise_response_error(row, subject)
        return response

    async def _send_to_every_broker(
        self, body: Message, subject: str, check_version: Callable[[Node, int], None]
    ) -> list[tuple[Node, Any]]:
        """Send a request to all brokers and return their responses.

        If a broker does not respond, or its coordinators are loading, all brokers are asked again: the partitions of
        the lost coordinator may have moved to a broker that has already responded.

        Args:
            body: the request.
            subject: subject of the request, for error messages.
            check_version: function that raises an error if a broker's version of the request lacks a field.
        """

        async def send_to_broker(broker: Node) -> Any:
            check_version(broker, (await self._cluster.get_connection(broker)).select_version(body))
            return await self._cluster.request(broker, body)

        async def send_to_all() -> list[tuple[Node, Any]]:
            await self._cluster.refresh_metadata([])
            brokers = [broker for _, broker in sorted(self._cluster.cluster.brokers.items())]
            results = await asyncio.gather(*map(send_to_broker, brokers), return_exceptions=True)
            failures = [result for result in results if isinstance(result, BaseException)]
            for failure in sorted(failures, key=is_retriable):
                raise failure
            responses: list[tuple[Node, Any]] = list(zip(brokers, results, strict=True))
            for broker, response in responses:
                if response.error_code in _COORDINATOR_LOADING_ERRORS:
                    raise_response_error(response, f"{subject} of broker {broker.node_id}")
            return responses

        responses = await self._retry_step(send_to_all)
        for broker, response in responses:
            raise_response_error(response, f"{subject} of broker {broker.node_id}")
        return responses

    async def _send_to_controller(
        self, body: Message, subject: str, get_rows: Callable[[Any], Iterable[Any]] | None = None
    ) -> Any:
        """Send a request to the controller and return the response.

        The request is sent again only if the controller has moved. After other errors the change may have taken effect.

        Args:
            body: the request.
            subject: subject of the error message if the response has a top-level error.
            get_rows: function that returns the rows of the response that have error codes. If a row has the error
                NOT_CONTROLLER, the request is sent again.
        """

        async def send_once() -> Any:
            response = await self._cluster.request(await self._cluster.find_controller(), body)
            rows = get_rows(response) if get_rows else ()
            codes = {getattr(response, "error_code", 0), *(row.error_code for row in rows)}
            if ErrorCode.NOT_CONTROLLER in codes:
                self._cluster.cluster.updated_at = None
                raise to_broker_error(ErrorCode.NOT_CONTROLLER, subject)
            return response

        response = await self._retry_step(send_once)
        raise_response_error(response, subject)
        return response

    async def _send_to_coordinator(
        self,
        key: str,
        body: Message,
        subject: str,
        get_error_code: Callable[[Any], int],
        *,
        retriable: Collection[ErrorCode] = COORDINATOR_MOVED_CODES,
    ) -> Any:
        """Send a request to a group coordinator and return the response.

        If the coordinator has moved, look it up again.

        Args:
            key: group id.
            body: the request.
            subject: subject of the request, for error messages.
            get_error_code: function that returns the error code of the response that reports a moved coordinator.
            retriable: error codes after which the request is sent again.
        """

        async def send_once() -> Any:
            response = await self._cluster.send_to_coordinator(key, body)
            code = get_error_code(response)
            if code in retriable:
                self._cluster.check_coordinator(code, subject, key)
            return response

        return await self._retry_step(send_once, retriable)

    async def _request_group_row(self, group_id: str, body: Message) -> Any:
        """Send a request that describes one group to its coordinator, and return the group's response row."""
        subject = f"group {group_id}"
        response = await self._send_to_coordinator(
            group_id, body, subject, lambda entry: int(require_one_row(entry.groups, subject).error_code)
        )
        return response.groups[0]

    async def _send_to_broker(self, node_id: int, body: Message, subject: str) -> Any:
        """Send a request to one broker and return the response."""

        async def send_once() -> Any:
            return await self._cluster.request(await self._find_broker(node_id), body)

        response = await self._retry_step(send_once)
        raise_response_error(response, subject)
        return response

    async def _find_broker(self, node_id: int) -> Node:
        """Return the broker with this id.

        Raises:
            BrokerError: the metadata has no broker with this id.
        """
        node = (await BrokerLookup(self._cluster, int).find_nodes([node_id]))[node_id]
        if not isinstance(node, Node):
            raise node
        return node

    async def _resolve_broker_ids(self, broker_ids: Iterable[int] | None = None) -> list[int]:
        """Return the given broker ids; for None, the ids of all brokers in the metadata."""
        if broker_ids is not None:
            return list(broker_ids)
        await self._retry_step(lambda: self._cluster.refresh_metadata([]))
        return sorted(self._cluster.cluster.brokers)

    async def _call_for_each(
        self, items: Iterable[Item], call: Callable[[Item], Awaitable[Value]]
    ) -> dict[Item, Value | ItemError]:
        """Call a function for all items concurrently. Return the result of each item, or the error that it raised."""

        async def catch_error(item: Item) -> Value | ItemError:
            try:
                async with asyncio.timeout(self.settings.default_api_timeout_ms / 1000):
                    return await call(item)
            except TimeoutError:
                return create_no_response_error(self._cluster)
            except (BrokerError, NetworkError) as error:
                return error

        item_list = list(items)
        return dict(zip(item_list, await asyncio.gather(*map(catch_error, item_list)), strict=True))


def to_list(setting: str, values: Iterable[Item]) -> list[Item]:
    """Return the items that a caller specifies as a list.

    Raises:
        OptionError: the items are a single text. Without this check, each character would become an item:
            ``delete_topics("ab")`` would delete the topics ``a`` and ``b``.
    """
    if isinstance(values, (str, bytes)):
        raise OptionError(f"{setting} is the text {values!r}; expected a list, such as [{values!r}]")
    return list(values)


def raise_response_error(response: Any, subject: str) -> None:
    """Raise the error in a response or in one of its rows, if it has an error code."""
    if number := getattr(response, "error_code", 0):
        raise to_broker_error(number, subject, getattr(response, "error_message", None))


def get_row_error(row: Any, subject: str) -> BrokerError | None:
    """Return the error in a row of a response; None if the row has no error."""
    if not row.error_code:
        return None
    return to_broker_error(row.error_code, subject, getattr(row, "error_message", None))


def to_protocol_number(setting: str, name: str, numbers: Mapping[str, int]) -> int:
    """Return the number that the protocol uses for a name.

    Raises:
        OptionError: the name is unknown. The error lists the valid names.
    """
    if name not in numbers:
        raise OptionError(f"{setting} {name!r} does not exist; expected one of {', '.join(numbers)}")
    return numbers[name]


def to_protocol_name(number: int, numbers: Mapping[str, int]) -> str:
    """Return the name of a protocol number, or ``unknown(N)`` if this version does not know the number."""
    return next((name for name, candidate in numbers.items() if candidate == number), f"unknown({number})")
