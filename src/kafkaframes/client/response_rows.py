"""Read the rows of responses, and check that each item of a request has a row.

An item without a row has no result. A client that only checks error codes would regard the item as successful: a
partition that is not in a transaction, an offset that is not committed, or a group without committed offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError, PartialFailureError
from kafkaframes.errors.words import count_text

Item = TypeVar("Item")
Value = TypeVar("Value")
ItemError = BrokerError | NetworkError


def iterate_partition_rows(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield each partition of a response's topics with its row."""
    for topic in topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row


def require_rows(keys: Iterable[Any], rows: Collection[Any], subject: str) -> None:
    """Raise an error if a response lacks the row of a requested item.

    Args:
        keys: items of the request, such as partitions.
        rows: items of the response.
        subject: subject of the error message.

    Raises:
        BrokerError: an item has no row. The error is not retriable, and the outcome for the item is unknown.
    """
    missing = [item for item in keys if item not in rows]
    if missing:
        raise create_missing_row_error(missing, subject)


def create_missing_row_error(missing: Sequence[Any], subject: str) -> BrokerError:
    """Return the error for items without a row in the response."""
    count = len(missing) - 1
    others_text = f" and {count_text(count, 'other')}" if count else ""
    return BrokerError(f"{subject}: the response has no result for {missing[0]}{others_text}", ErrorCode.NONE)


def require_one_row(rows: Sequence[Any] | None, subject: str) -> Any:
    """Return the only row of a response to a request with one item.

    Raises:
        BrokerError: the response does not have exactly one row.
    """
    count = len(rows or ())
    if not rows or count != 1:
        raise BrokerError(f"{subject}: the response has {count} results, expected 1", ErrorCode.NONE)
    return rows[0]


def require_success(results: Mapping[Item, Value | ItemError], items: Iterable[Item] = ()) -> dict[Item, Value]:
    """Return the values of all items.

    Args:
        results: values and errors in the response.
        items: items that the response must have. An item without a result has failed.

    Raises:
        BrokerError, NetworkError: an item failed. The error is the item's own error if there is only one item,
            otherwise a ``PartialFailureError`` with all results.
    """
    missing = [item for item in items if item not in results]
    results = {**results, **{item: create_missing_row_error([item], "the request") for item in missing}}
    errors = [result for result in results.values() if isinstance(result, BrokerError | NetworkError)]
    if errors and len(results) == 1:
        raise errors[0]
    if errors:
        raise PartialFailureError(results)
    return {item: result for item, result in results.items() if not isinstance(result, BrokerError | NetworkError)}
