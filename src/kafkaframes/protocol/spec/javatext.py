"""Texts as the Java of Kafka's generator reads them: which blanks it trims, which digits it takes. No I/O."""

from __future__ import annotations

import re
from typing import Final

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
