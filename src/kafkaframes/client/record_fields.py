"""What ``send`` takes, checked: a wrong type is an error that names the argument, before anything is queued. Pure."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from time import time
from typing import Any, Final

from kafkaframes.errors import EncodeError

Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_LARGEST_PARTITION: Final = 2**31 - 1
_OVERHEAD_BYTES: Final = 21  # of a record, at most, beside key, value and headers: Kafka's MAX_RECORD_OVERHEAD


# topic, key, value, headers, partition, timestamp in ms, and about how many bytes it takes in a batch: a plain
# tuple, as one is made for every record
CheckedRecord = tuple[str, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int | None, int, int]


def checked_record(
    topic: str,
    value: bytes | str | None,
    key: bytes | str | None,
    headers: Headers | None,
    partition: int | None,
    timestamp_ms: int | None,
    largest: int,
) -> CheckedRecord:
    """Check the arguments of ``send``.

    Raises:
        EncodeError: one is of a wrong type, or the record is larger than ``largest`` bytes.
    """
    if type(topic) is not str or not topic:
        topic_of(topic)
    size = _OVERHEAD_BYTES
    if value is not None:
        value = value if type(value) is bytes else bytes_of("value", value) or b""
        size += len(value)
    if key is not None:
        key = key if type(key) is bytes else bytes_of("key", key) or b""
        size += len(key)
    pairs: Sequence[tuple[str, bytes | None]] = ()
    if headers is not None:
        pairs = headers_of(headers)
        size += sum(2 * len(name) + len(content or b"") for name, content in pairs)
    if partition is not None:
        partition = partition_number(partition)
    timestamp = int(time() * 1000) if timestamp_ms is None else timestamp_of(timestamp_ms)
    if size > largest:
        raise EncodeError(f"a record of about {size} bytes; max_request_size is {largest}")
    return topic, key, value, pairs, partition, timestamp, size


def bytes_of(name: str, value: object) -> bytes | None:
    """Return a key or value as bytes.

    >>> bytes_of("key", "é"), bytes_of("key", bytearray(b"a")), bytes_of("key", None)
    (b'\\xc3\\xa9', b'a', None)

    Raises:
        EncodeError: it is none of bytes, text and None.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f"{name} is no text that UTF-8 has: {error}") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise EncodeError(f"{name} is {_kind(value)}; it has to be bytes, text or None")


def headers_of(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return headers as pairs of name and bytes.

    >>> headers_of({"a": "1", "b": None}), headers_of([("a", b"1"), ("a", b"2")]), headers_of(None)
    ([('a', b'1'), ('b', None)], [('a', b'1'), ('a', b'2')], [])

    Raises:
        EncodeError: they are neither a mapping nor pairs, or hold what is no header.
    """
    if headers is None:
        return []
    if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
        raise EncodeError(f"headers is {_kind(headers)}; it has to be a dict, or pairs of name and bytes")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [_header(pair) for pair in pairs]


def _header(pair: object) -> tuple[str, bytes | None]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
        raise EncodeError(f"headers has {pair!r:.80}, which is no pair of a text and bytes")
    return pair[0], bytes_of(f"the value of {pair[0]!r:.80} in headers", pair[1])


def topic_of(topic: Any) -> str:
    """Return a topic's name.

    Raises:
        EncodeError: it is no text.
    """
    if not isinstance(topic, str) or not topic:
        raise EncodeError(f"topic is {_kind(topic) if topic != '' else 'empty'}; it has to be a topic's name")
    return topic


def timestamp_of(timestamp_ms: Any) -> int:
    """Return milliseconds since 1970.

    Raises:
        EncodeError: it is no whole number, or needs more than 64 bits.
    """
    return _whole("timestamp_ms", timestamp_ms, "milliseconds since 1970", _SMALLEST, _LARGEST)


def partition_number(partition: Any) -> int:
    """Return a partition's number.

    Raises:
        EncodeError: it is no whole number from 0 on.
    """
    return _whole("partition", partition, "a partition's number", 0, _LARGEST_PARTITION)


def _whole(name: str, value: Any, what: str, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise EncodeError(f"{name} is {_kind(value)}; it has to be a whole number: {what}") from None
    if isinstance(value, bool) or not least <= number <= most:
        raise EncodeError(f"{name} is {value}; it has to be {what}")
    return number


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
