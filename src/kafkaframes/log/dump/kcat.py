"""kcat's vocabulary over segments: ``-f`` format strings and ``-o`` offsets.

``%s`` the value, ``%S`` its size (-1 for null), ``%R`` its size as a big-endian int32, ``%k`` and ``%K`` the key and
its size, ``%t`` topic, ``%p`` partition, ``%o`` offset, ``%T`` timestamp in milliseconds, ``%h`` headers as
``name=value,name=value`` (``NULL`` for a null value), ``%%`` a per cent sign. Escapes are ``\\n``, ``\\r``, ``\\t``,
``\\\\`` and ``\\xHH``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kafkaframes.errors import OptionError
from kafkaframes.log.dump.lines import Line, Number, Part, Raw, Text, plan_line

# letter -> the part; the columns are those of ``records_text.py``.
FORMAT_PARTS: dict[str, Part] = {
    "s": Raw("value"),
    "S": Number("value_size"),
    "R": Raw("value_size_bytes"),
    "k": Raw("key"),
    "K": Number("key_size"),
    "t": Raw("topic"),
    "p": Number("partition"),
    "o": Number("offset"),
    "T": Number("timestamp"),
    "h": Raw("headers_text"),
    "%": Text(b"%"),
}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)


def plan_format(text: str) -> Line:
    """Return the plan of a format string; nothing is added at the end of a line.

    >>> plan_format("%o %k\\\\n").bytes_columns
    ('key',)

    Raises:
        OptionError: a ``%`` is followed by no known letter, or a backslash by none.
    """
    return plan_line(*_parts(text))


def _parts(text: str) -> Iterator[Part]:
    for token in _TOKEN.finditer(text):
        letter, hexadecimal, escaped, plain, lone = token.groups()
        if letter in FORMAT_PARTS:
            yield FORMAT_PARTS[letter]
        elif hexadecimal:
            yield Text(bytes.fromhex(hexadecimal))
        elif escaped in _ESCAPES:
            yield Text(_ESCAPES[escaped])
        elif plain:
            yield Text(plain.encode())
        else:
            known = " ".join(f"%{letter}" for letter in FORMAT_PARTS)
            raise OptionError(f"unknown {token[0] or lone!r} in the format {text!r} (known: {known} \\n \\r \\t \\xHH)")


@dataclass(frozen=True, slots=True)
class Range:
    """Which records ``-o`` asks for; None is no limit.

    Attributes:
        start_offset: the first offset wanted; negative: so many before the end of the partition.
        end_offset: the first offset not wanted.
        start_timestamp, end_timestamp: milliseconds; the first wanted, the first not wanted.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None


def parse_offsets(texts: tuple[str, ...]) -> Range:
    """Take kcat's ``-o`` values apart: ``beginning``, ``end``, an offset, ``-N``, ``s@MS``, ``e@MS``.

    >>> parse_offsets(("s@1760000000000", "e@1760000060000")).end_timestamp
    1760000060000
    >>> parse_offsets(("-5",)).start_offset
    -5

    Raises:
        OptionError: a value is none of these.
    """
    found = Range()
    for text in texts:
        match = re.fullmatch(r"(?:([se])@)?(-?\d{1,19})", text)
        if text in ("beginning", "end"):
            found = Range(None if text == "beginning" else 2**63 - 1, None, found.start_timestamp, found.end_timestamp)
        elif match is None or (match[1] and match[2].startswith("-")):
            raise OptionError(f"no offset: {text!r} (known: beginning, end, N, -N, s@MS, e@MS)")
        elif match[1] == "s":
            found = Range(found.start_offset, None, int(match[2]), found.end_timestamp)
        elif match[1] == "e":
            found = Range(found.start_offset, None, found.start_timestamp, int(match[2]))
        else:
            found = Range(int(match[2]), None, found.start_timestamp, found.end_timestamp)
    return found
