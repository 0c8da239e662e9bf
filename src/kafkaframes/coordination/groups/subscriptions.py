"""What consumers put into JoinGroup and SyncGroup (ConsumerProtocol), and expressions that match names of topics.

A version of two bytes goes before a subscription or an assignment. Each begins as the one before it: a newer one is
read as the newest that is known.

Expressions of requests (KIP-848, KIP-1152) are RE2's language, in linear time, by the RE2 that pyarrow carries. Kafka
reads them with RE2/J, which differs in a few: ``docs/broker.md`` names them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkaframes.errors import DecodeError, ErrorCode, RefusedError
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.names import TopicPartition, by_topic

if TYPE_CHECKING:
    import pyarrow as pa


_NEWEST: Final = 3
_VERSION_SIZE: Final = 2


class Subscription(NamedTuple):
    """A consumer's subscription.

    Attributes:
        owned: the partitions that it has; of version 0, none.
    """

    version: int
    topics: tuple[str, ...]
    owned: frozenset[TopicPartition] = frozenset()
    rack_id: str | None = None


def read_subscription(data: bytes) -> Subscription:
    """Read a subscription; a ``DecodeError`` where it is none."""
    version, body = _body(data, "ConsumerProtocolSubscription")
    owned = body.owned_partitions if version >= 1 else ()
    rack_id = body.rack_id if version >= _NEWEST else None
    return Subscription(version, tuple(body.topics), _partitions(owned), rack_id)


def read_subscribed_topics(data: bytes) -> list[str]:
    """Read the topics of a subscription alone: version 0 is the beginning of every version, whatever follows it."""
    topics: list[str] = _body(data, "ConsumerProtocolSubscription", newest=0)[1].topics
    return topics


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Read an assignment; that of a member without one is empty."""
    return _partitions(_body(data, "ConsumerProtocolAssignment")[1].assigned_partitions) if data else frozenset()


def has_user_data(data: bytes) -> bool:
    """Return whether an assignment holds data of a custom assignor."""
    return bool(data) and bool(_body(data, "ConsumerProtocolAssignment")[1].user_data)


def write_assignment(partitions: Iterable[TopicPartition], version: int) -> bytes:
    """Write an assignment for a consumer with a subscription of ``version``."""
    made: Any = message("ConsumerProtocolAssignment")
    topics = by_topic(sorted(partitions))
    rows = [made.TopicPartition(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    data: bytes = made(assigned_partitions=rows, user_data=None).encode(version)
    return version.to_bytes(_VERSION_SIZE, "big") + data


def _body(data: bytes, name: str, *, newest: int = _NEWEST) -> tuple[int, Any]:
    if len(data) < _VERSION_SIZE or data[0] & 0x80:
        raise DecodeError("what a consumer says begins with its version", position=0)
    version = min(int.from_bytes(data[:_VERSION_SIZE], "big"), newest)
    body, _ = message(name).decode_prefix(data, version, position=_VERSION_SIZE)
    return version, body


def _partitions(rows: Any) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(row.topic, index) for row in rows for index in row.partitions)


def check_expression(text: str) -> None:
    """Refuse an expression that is not one: INVALID_REGULAR_EXPRESSION."""
    matching(text, ())


def matching(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that an expression matches as a whole; INVALID_REGULAR_EXPRESSION where it is none."""
    import pyarrow as pa  # here: a broker answers its first requests without
    import pyarrow.compute as pc

    names = ["", *names]  # an expression is not even read for no names
    column = _string_column(names)
    try:
        pc.match_substring_regex(column, text)  # alone, so that `a)|(b` stays wrong
        matches = _whole(column, text)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        words = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}."
        raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, words) from None
    return frozenset(compress(names[1:], matches[1:].to_pylist()))


def _string_column(texts: Sequence[str]) -> pa.Array:
    """Return texts as a column. ``pyarrow.array`` would import pandas, which takes a second of CPU time."""
    import pyarrow as pa

    values = [text.encode() for text in texts]
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(values)))


def _whole(column: pa.Array, text: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.match_substring_regex(column, rf"\A(?:{text})\z")
    except pa.ArrowInvalid:  # a quotation that the text leaves open reaches to its end
        return pc.match_substring_regex(column, rf"\A(?:{text}\E)\z")
