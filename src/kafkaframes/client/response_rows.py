"""Check that a response has a row for each item of its request.

An item without a row has no result. A client that only looks for error codes would take it for a success: a partition
that is not in a transaction, an offset that is not committed, or a group without committed offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kafkaframes.errors import BrokerError, ErrorCode


def require_rows(requested: Iterable[Any], rows: Collection[Any], subject: str) -> None:
    """Raise an error if a response lacks the row of a requested item.

    Args:
        requested: items of the request, such as partitions.
        rows: items of the response.
        subject: subject of the error message.

    Raises:
        BrokerError: an item has no row. The error is not retriable, and the outcome for the item is unknown.
    """
    missing = [item for item in requested if item not in rows]
    if missing:
        raise missing_row_error(missing, subject)


def missing_row_error(missing: Sequence[Any], subject: str) -> BrokerError:
    """Return the error for items without a row in the response."""
    others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
    return BrokerError(f"{subject}: the response has no result for {missing[0]}{others}", ErrorCode.NONE)


def require_one_row(rows: Sequence[Any] | None, subject: str) -> Any:
    """Return the only row of a response to a request with one item.

    Raises:
        BrokerError: the response has another number of rows.
    """
    count = len(rows or ())
    if not rows or count != 1:
        raise BrokerError(f"{subject}: the response has {count} results, expected 1", ErrorCode.NONE)
    return rows[0]
