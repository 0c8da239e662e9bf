"""Read and write consumer subscriptions and assignments (ConsumerProtocol), and match topic names to patterns.

Subscriptions and assignments start with a version of two bytes. Each version starts with the fields of the version
before it, so an unknown version is read as the newest known version.

The patterns of requests (KIP-848, KIP-1152) are RE2 expressions, which pyarrow's RE2 matches in linear time. Kafka
uses RE2/J; ``docs/broker-groups.md`` lists the few differences.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkaframes.errors import DecodeError, ErrorCode, RefusedError
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.names import TopicPartition, group_by_topic

if TYPE_CHECKING:
    import pyarrow as pa


_LATEST_SUBSCRIPTION_VERSION: Final = 3
_VERSION_BYTES: Final = 2


class Subscription(NamedTuple):
    """A consumer's subscription.

    Attributes:
        owned_partitions: partitions that the consumer owns; empty in version 0.
    """

    version: int
    topics: tuple[str, ...]
    owned_partitions: frozenset[TopicPartition] = frozenset()
    rack_id: str | None = None


def read_subscription(data: bytes) -> Subscription:
    """Read a subscription. Raise ``DecodeError`` if the bytes are not a subscription."""
    version, body = _decode_body(data, "ConsumerProtocolSubscription")
    owned_rows = body.owned_partitions if version >= 1 else ()
    rack_id = body.rack_id if version >= _LATEST_SUBSCRIPTION_VERSION else None
    return Subscription(version, tuple(body.topics), _partitions(owned_rows), rack_id)


def read_subscribed_topics(data: bytes) -> list[str]:
    """Read only the topics of a subscription.

    The topics are in the fields of version 0, with which all versions start.
    """
    topics: list[str] = _decode_body(data, "ConsumerProtocolSubscription", latest_version=0)[1].topics
    return topics


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Read an assignment; empty bytes are an empty assignment."""
    return _partitions(_decode_body(data, "ConsumerProtocolAssignment")[1].assigned_partitions) if data else frozenset()


def has_user_data(data: bytes) -> bool:
    """Return whether an assignment has user data of a custom assignor."""
    return bool(data) and bool(_decode_body(data, "ConsumerProtocolAssignment")[1].user_data)


def write_assignment(partitions: Iterable[TopicPartition], version: int) -> bytes:
    """Write an assignment for a consumer with this ``version`` of the subscription."""
    assignment_class: Any = message("ConsumerProtocolAssignment")
    topics = group_by_topic(sorted(partitions))
    rows = [assignment_class.TopicPartition(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    data: bytes = assignment_class(assigned_partitions=rows, user_data=None).encode(version)
    return version.to_bytes(_VERSION_BYTES, "big") + data


def _decode_body(data: bytes, name: str, *, latest_version: int = _LATEST_SUBSCRIPTION_VERSION) -> tuple[int, Any]:
    if len(data) < _VERSION_BYTES or data[0] & 0x80:
        raise DecodeError(f"{name} is {len(data)} bytes long; expected a version of two bytes first", position=0)
    version = min(int.from_bytes(data[:_VERSION_BYTES], "big"), latest_version)
    body, _ = message(name).decode_prefix(data, version, position=_VERSION_BYTES)
    return version, body


def _partitions(rows: Any) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(row.topic, index) for row in rows for index in row.partitions)


def validate_pattern(text: str) -> None:
    """Reject an invalid regular expression with INVALID_REGULAR_EXPRESSION."""
    match_names(text, ())


def match_names(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that match a pattern completely. Raise INVALID_REGULAR_EXPRESSION if the pattern is invalid."""
    import pyarrow as pa  # imported here, since the first requests to a broker do not need it
    import pyarrow.compute as pc

    names = ["", *names]  # without a name, pyarrow would not compile the pattern
    column = _create_string_column(names)
    try:
        # Matched once without the parentheses of the next call, which would make `a)|(b` valid.
        pc.match_substring_regex(column, text)
        matches = _match_whole(column, text)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        message = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}."
        raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
    return frozenset(compress(names[1:], matches[1:].to_pylist()))


def _create_string_column(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow column. ``pyarrow.array`` would import pandas, which takes a second of CPU time."""
    import pyarrow as pa

    values = [text.encode() for text in texts]
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(values)))


def _match_whole(column: pa.Array, text: str) -> pa.Array:
    """Return for each text of the column whether the pattern matches it completely."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.match_substring_regex(column, rf"\A(?:{text})\z")
    except pa.ArrowInvalid:  # an open quotation (\Q) would include the closing bracket
        return pc.match_substring_regex(column, rf"\A(?:{text}\E)\z")
