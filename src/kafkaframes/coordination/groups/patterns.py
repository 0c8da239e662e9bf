"""Regular expressions of requests (KIP-848, KIP-1152): RE2's language, in linear time, by the RE2 that pyarrow carries.

Kafka reads them with RE2/J, which differs in a few expressions: ``docs/broker.md`` names them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkaframes.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    import pyarrow as pa


def matching(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that an expression matches as a whole.

    Raises:
        RefusedError: INVALID_REGULAR_EXPRESSION.
    """
    import pyarrow as pa  # here: a broker answers its first requests without
    import pyarrow.compute as pc

    column = pa.array(["", *names], pa.string())  # an expression is not even read for no names
    try:
        pc.match_substring_regex(column, text)  # alone, so that `a)|(b` stays wrong
        matches = _whole(column, text)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        words = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}."
        raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, words) from None
    return frozenset(column[1:].filter(matches[1:]).to_pylist())


def _whole(column: pa.Array, text: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.match_substring_regex(column, rf"\A(?:{text})\z")
    except pa.ArrowInvalid:  # a quotation that the text leaves open reaches to its end
        return pc.match_substring_regex(column, rf"\A(?:{text}\E)\z")
