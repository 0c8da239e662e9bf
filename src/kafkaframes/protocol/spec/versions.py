"""Version ranges in message specs: ``0-5``, ``3+``, ``7``, ``none``.

Whitespace and digits are interpreted as in Kafka's generator, which is written in Java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from kafkaframes.errors import SpecError

_BLANK_CHARACTERS: Final = "".join(map(chr, range(33)))  # String.trim removes the space and control characters only
_DECIMAL_PATTERN: Final = re.compile(r"[+-]?\d+")
_HEX_PATTERN: Final = re.compile(r"[+-]?[\da-fA-F]+")
_LAST_CHAR: Final = "\uffff"  # Integer.parseInt processes UTF-16 code units
MAX_INTEGER_LENGTH: Final = 30  # characters; a longer number fits no type


def trim(text: str) -> str:
    """Strip whitespace like Java's ``String.trim``.

    >>> trim("\\t0+ "), trim("\\u00a00+")
    ('0+', '\\xa00+')
    """
    return text.strip(_BLANK_CHARACTERS)


def parse_integer(text: str, *, base: int = 10) -> int | None:
    """Parse an integer like Java's ``Integer.parseInt``, with digits of any script; None if the text is not one.

    The result is also None if the text has more than ``MAX_INTEGER_LENGTH`` characters, because no integer type can
    hold such a number.

    >>> parse_integer("+5"), parse_integer("٣"), parse_integer(" 5"), parse_integer("1.0")
    (5, 3, None, None)
    """
    shape = _DECIMAL_PATTERN if base == 10 else _HEX_PATTERN
    if len(text) > MAX_INTEGER_LENGTH or not shape.fullmatch(text) or max(text) > _LAST_CHAR:
        return None
    return int(text, base)


MAX_VERSION = 32767  # an int16; a range that ends with it is open ("3+")
_MAX_VERSION_DIGITS = 6  # numbers with more digits are larger than MAX_VERSION
_RANGE_PATTERN = re.compile(r"([+-]?\d+)(?:(\+)|-([+-]?\d+))?")  # digits of any script, like Short.parseShort


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of int16 versions, empty if ``lowest > highest``.

    >>> Versions.parse("3+").contains(12), Versions.parse("none").contains(0)
    (True, False)
    >>> str(Versions.parse("0-5").intersect(Versions.parse("3+")))
    '3-5'
    """

    lowest: int
    highest: int

    NONE: ClassVar[Versions]
    ALL: ClassVar[Versions]

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse a range like Kafka's generator. Surrounding whitespace is removed; ``""`` and ``none`` are empty.

        Raises:
            SpecError: the text is not a range, or a bound is not in 0..32767.
        """
        bare = trim(text)
        if bare in ("", "none"):
            return cls.NONE
        match = _RANGE_PATTERN.fullmatch(bare)
        if match is None or max(bare) > "\uffff":
            raise SpecError(f"{text!r} is not a range of versions; expected a form such as 3, 0-5, 3+ or none")
        low = _parse_number(match[1])
        high = MAX_VERSION if match[2] else _parse_number(match[3]) if match[3] else low
        if not (0 <= low <= MAX_VERSION and 0 <= high <= MAX_VERSION):
            raise SpecError(f"{_short(text)!r} is outside of the range of versions, 0 to {MAX_VERSION}")
        return cls(low, high) if low <= high else cls.NONE

    def contains(self, version: int) -> bool:
        """Return whether ``version`` is in the range."""
        return self.lowest <= version <= self.highest

    def covers(self, other: Versions) -> bool:
        """Return whether every version of ``other`` is in this range."""
        return other.is_empty or (self.lowest <= other.lowest and other.highest <= self.highest)

    def intersect(self, other: Versions) -> Versions:
        """Return the versions that are in both ranges."""
        low, high = max(self.lowest, other.lowest), min(self.highest, other.highest)
        return Versions(low, high) if low <= high else Versions.NONE

    @property
    def is_empty(self) -> bool:
        """Whether the range contains no version."""
        return self.lowest > self.highest

    @property
    def is_open(self) -> bool:
        """Whether the range has no end (``3+``)."""
        return self.highest == MAX_VERSION and not self.is_empty

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __str__(self) -> str:
        if self.is_empty:
            return "none"
        if self.is_open:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


def _parse_number(text: str) -> int:
    """Parse an integer.

    A long number is replaced by a shorter one above all versions, because Python limits the digits of ``int``.
    """
    sign, digits = text[: text[0] in "+-"], text.lstrip("+-").lstrip("0") or "0"
    return int(sign + digits[:_MAX_VERSION_DIGITS])


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:30]}..."


Versions.NONE = Versions(0, -1)
Versions.ALL = Versions(0, MAX_VERSION)
