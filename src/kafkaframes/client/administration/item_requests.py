"""Requests with several items, such as partitions or groups. Each item has a result of its own, as in Java's Admin.

A lookup returns the node of each item: its leader, its coordinator, the controller or a given broker. Items of one node
share a request, and the nodes are asked concurrently. An item with a retriable error is looked up and sent again until
it succeeds or ``default_api_timeout_ms`` has passed. The errors of other items neither stop nor repeat this item.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, Protocol, TypeVar

from kafkaframes.client.cluster import GROUP, UNKNOWN_TOPIC_TIMEOUT_MS, ClusterClient, is_retriable
from kafkaframes.client.metadata import Node, TopicPartition
from kafkaframes.client.response_rows import ItemError, create_missing_row_error
from kafkaframes.errors import (
    BrokerError,
    ErrorCode,
    NetworkError,
    QuotaExceededError,
    UnknownTopicError,
    to_broker_error,
)

Item = TypeVar("Item")
Value = TypeVar("Value")

RETRIABLE_CODES: Final = frozenset(code for code in ErrorCode if code.is_retriable)
RETRIABLE_CONTROLLER_CODES: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Retriable error codes of changes. After any other code, the change may have taken effect."""


class NodeLookup(Protocol[Item]):
    """Looks up the nodes that serve the items of a request."""

    async def find_nodes(self, items: Sequence[Item]) -> Mapping[Item, Node | ItemError]:
        """Return the node of each item, or the reason why it has none at the moment."""

    def forget_node(self, item: Item) -> None:
        """Look an item's node up again next time, because the node has returned a retriable error or no response."""


class LeaderLookup:
    """Looks up the leaders of partitions. Unknown topics share one Metadata request."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def find_nodes(self, items: Sequence[TopicPartition]) -> Mapping[TopicPartition, Node | ItemError]:
        """Return the leader of each partition."""
        return await self._cluster.find_leaders(items)

    def forget_node(self, item: TopicPartition) -> None:
        """Refresh the metadata of the partition's topic before the next look-up."""
        self._cluster.cluster.expire(item.topic)


class CoordinatorLookup:
    """Looks up the coordinators of groups or transactional ids.

    Attributes:
        kind: key type of FindCoordinator.
        key: group id of all items; None if the items themselves are the keys.
    """

    def __init__(self, cluster: ClusterClient, kind: int = GROUP, key: str | None = None) -> None:
        self._cluster = cluster
        self.kind = kind
        self.key = key

    async def find_nodes(self, items: Sequence[Any]) -> Mapping[Any, Node | ItemError]:
        """Return the coordinator of each item."""
        if self.key is None:
            return await self._cluster.find_coordinators(items, self.kind)
        coordinators = await self._cluster.find_coordinators([self.key], self.kind)
        return dict.fromkeys(items, coordinators[self.key])

    def forget_node(self, item: Any) -> None:
        """Send FindCoordinator again before the next request."""
        self._cluster.forget_coordinator(item if self.key is None else self.key, self.kind)


class BrokerLookup:
    """Looks up the addresses of brokers that a request names.

    Attributes:
        get_id: function that returns the node id of an item's broker.
    """

    def __init__(self, cluster: ClusterClient, get_id: Callable[[Any], int]) -> None:
        self._cluster = cluster
        self.get_id = get_id

    async def find_nodes(self, items: Sequence[Any]) -> Mapping[Any, Node | ItemError]:
        """Return the broker of each item."""
        node_ids = {item: self.get_id(item) for item in items}
        if not self._cluster.cluster.brokers.keys() >= set(node_ids.values()):
            await self._cluster.refresh_metadata([])
        brokers = self._cluster.cluster.brokers
        return {
            item: brokers.get(node_id) or to_broker_error(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {node_id}")
            for item, node_id in node_ids.items()
        }

    def forget_node(self, item: Any) -> None:
        """Look up the broker before the next request: it may have a new address, or no longer be registered."""
        self._cluster.cluster.brokers.pop(self.get_id(item), None)


class ControllerLookup:
    """Looks up the controller.

    With KRaft, the result is any broker, which forwards the request to the active controller.
    """

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def find_nodes(self, items: Sequence[Any]) -> Mapping[Any, Node | ItemError]:
        """Return the controller for each item."""
        return dict.fromkeys(items, await self._cluster.find_controller())

    def forget_node(self, item: Any) -> None:
        """Refresh the metadata before the next request."""
        self._cluster.cluster.updated_at = None


def create_no_response_error(cluster: ClusterClient) -> NetworkError:
    """Return the error for a request to which no broker responded in time."""
    return NetworkError(f"no broker responded within default_api_timeout_ms={cluster.settings.default_api_timeout_ms}")


async def request_items(
    cluster: ClusterClient,
    items: Iterable[Item],
    lookup: NodeLookup[Item],
    send: Callable[[Node, list[Item]], Awaitable[Mapping[Item, Value | ItemError]]],
    retriable: Collection[ErrorCode],
) -> dict[Item, Value | ItemError]:
    """Return the result of each item: a value, or the error with which it failed.

    Args:
        cluster: client of the cluster.
        items: partitions, groups or other items that the request is about. Equal items are sent once.
        lookup: look-up of the items' nodes.
        send: function that sends a request with some items to a node, and returns their results. If the function raises
            an error, the error is the result of each of these items.
        retriable: error codes after which an item is sent again. Items without a response are always sent again.
    """
    pending = list(dict.fromkeys(items))
    results: dict[Item, Value | ItemError] = dict.fromkeys(pending, create_no_response_error(cluster))
    start = time.monotonic()
    deadline = start + cluster.settings.default_api_timeout_ms / 1000
    for attempt in count():
        nodes = await _find_nodes(lookup, pending, deadline) if pending else {}
        errors = {item: node for item, node in nodes.items() if not isinstance(node, Node)}
        results.update(errors)
        groups: dict[Node, list[Item]] = {}
        for item, node in nodes.items():
            if isinstance(node, Node):
                groups.setdefault(node, []).append(item)
        for node_results in await asyncio.gather(
            *(_request_from_node(send, *group, deadline) for group in groups.items())
        ):
            results.update(node_results)
        now = time.monotonic()
        retries_unknown_topics = now - start < UNKNOWN_TOPIC_TIMEOUT_MS / 1000
        pending = [
            item
            for item in pending
            if (
                _is_temporary(errors[item], retries_unknown_topics)
                if item in errors
                else _can_retry(results[item], retriable)
            )
        ]
        for item in pending:
            lookup.forget_node(item)
        quota_errors = [error for error in map(results.get, pending) if isinstance(error, QuotaExceededError)]
        delay_s = max([cluster.backoff_s(attempt), *(error.throttle_time_ms / 1000 for error in quota_errors)])
        if not pending or cluster.is_closed or attempt >= cluster.settings.retries or now + delay_s >= deadline:
            return results
        await asyncio.sleep(delay_s)
    raise AssertionError  # count() is infinite


async def _find_nodes(
    lookup: NodeLookup[Item], items: Sequence[Item], deadline: float
) -> Mapping[Item, Node | ItemError]:
    try:
        async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
            return await lookup.find_nodes(items)
    except TimeoutError:
        return {}
    except (BrokerError, NetworkError) as error:
        return dict.fromkeys(items, error)


async def _request_from_node(
    send: Callable[[Node, list[Item]], Awaitable[Mapping[Item, Value | ItemError]]],
    node: Node,
    items: list[Item],
    deadline: float,
) -> Mapping[Item, Value | ItemError]:
    """Return the results for the items on one node; none if the node does not respond before the deadline."""
    try:
        async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
            results = await send(node, items)
    except TimeoutError:
        return {}
    except (BrokerError, NetworkError) as error:
        return dict.fromkeys(items, error)
    subject = f"broker {node.node_id}"
    return {item: results[item] if item in results else create_missing_row_error([item], subject) for item in items}


def _can_retry(result: object, retriable: Collection[ErrorCode]) -> bool:
    if isinstance(result, NetworkError):
        return True
    return isinstance(result, BrokerError) and result.code in retriable


def _is_temporary(error: ItemError, retries_unknown_topics: bool) -> bool:
    """Return whether a look-up can succeed later. Brokers learn of a new topic one after the other."""
    return is_retriable(error) and (retries_unknown_topics or not isinstance(error, UnknownTopicError))
