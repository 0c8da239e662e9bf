"""Version ranges as message specs write them: ``0-5``, ``3+``, ``7``, ``none``. Values only, no I/O.

Blanks and digits are those that the Java of Kafka's generator trims and takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from kafkaframes.errors import SpecError

_BLANKS: Final = "".join(map(chr, range(33)))  # String.trim: every control character and the space, and no other blank
_WHOLE: Final = re.compile(r"[+-]?\d+")
_HEX: Final = re.compile(r"[+-]?[\da-fA-F]+")
_LAST_CHAR: Final = "\uffff"  # a Java char; Integer.parseInt looks at one at a time
MOST_DIGITS: Final = 30


def trimmed(text: str) -> str:
    """Return the text as ``String.trim`` leaves it.

    >>> trimmed("\\t0+ "), trimmed("\\u00a00+")
    ('0+', '\\xa00+')
    """
    return text.strip(_BLANKS)


def whole(text: str, *, base: int = 10) -> int | None:
    """Return the number that ``Integer.parseInt`` reads, digits of any script included; ``None`` where it reads none.

    A number of more than ``MOST_DIGITS`` digits is none: it fits no type.

    >>> whole("+5"), whole("٣"), whole(" 5"), whole("1.0")
    (5, 3, None, None)
    """
    shape = _WHOLE if base == 10 else _HEX
    if len(text) > MOST_DIGITS or not shape.fullmatch(text) or max(text) > _LAST_CHAR:
        return None
    return int(text, base)


MAX_VERSION = 32767  # an int16; a range that reaches it is open ("3+")
_DIGITS = 6  # enough to be more than MAX_VERSION
_RANGE = re.compile(r"([+-]?\d+)(?:(\+)|-([+-]?\d+))?")  # digits of any script, as Short.parseShort


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of int16 versions; empty when ``lowest > highest``.

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
        """Parse a range as Kafka's generator does; blanks around it are trimmed, ``""`` and ``none`` are empty.

        Raises:
            SpecError: the text is no range, or a bound is not in 0..32767.
        """
        bare = trimmed(text)
        if bare in ("", "none"):
            return cls.NONE
        match = _RANGE.fullmatch(bare)
        if match is None or max(bare) > "\uffff":
            raise SpecError(f"{text!r} is no range of versions: write it as 3, 0-5, 3+ or none")
        low = _number(match[1])
        high = MAX_VERSION if match[2] else _number(match[3]) if match[3] else low
        if not (0 <= low <= MAX_VERSION and 0 <= high <= MAX_VERSION):
            raise SpecError(f"{_short(text)!r} leaves the range of versions, 0 to {MAX_VERSION}")
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
        """Whether no version is in the range."""
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


def _number(text: str) -> int:
    """Return a whole number, or one beyond every version: Python refuses to read numbers of thousands of digits."""
    sign, digits = text[: text[0] in "+-"], text.lstrip("+-").lstrip("0") or "0"
    return int(sign + digits[:_DIGITS])


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:30]}..."


Versions.NONE = Versions(0, -1)
Versions.ALL = Versions(0, MAX_VERSION)
