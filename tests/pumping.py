"""Strings that make a backtracking matcher slow, derived from the parse tree of an expression.

A matcher backtracks if it can split the same characters in several ways: inside a repetition, between two neighbouring
repetitions, or between the starting points of a search. The strings therefore consist of a prefix (a sample of the text
before a part of the expression), a long repetition of a short text (a sample of a part, or one character of each class
that the expression distinguishes), and a suffix that prevents the match.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
_CATEGORY_SAMPLES = {
    op.CATEGORY_DIGIT: "7",
    op.CATEGORY_NOT_DIGIT: "x",
    op.CATEGORY_SPACE: " ",
    op.CATEGORY_NOT_SPACE: "x",
    op.CATEGORY_WORD: "w",
    op.CATEGORY_NOT_WORD: "-",
}
_COMMON = 'aZ7 -.,"\\/'
MAX_PUMPS, MAX_PREFIXES = 60, 10
_SUFFIXES = ("", "\x00!")


def sample(items: Any, groups: dict[int, str] | None = None) -> str:
    """Return a short text that a parsed expression matches, as far as that is possible without backtracking."""
    groups = {} if groups is None else groups
    return "".join(_sample_item(kind, value, groups) for kind, value in items)


def _sample_item(kind: Any, value: Any, groups: dict[int, str]) -> str:
    make = _SAMPLES.get(kind)  # nothing for AT, ASSERT, ASSERT_NOT
    return "" if make is None else make(value, groups)


def _sample_group(value: Any, groups: dict[int, str]) -> str:
    number, _, _, items = value
    text = sample(items, groups)
    if number is not None:
        groups[number] = text
    return text


def _sample_repeat(value: Any, groups: dict[int, str]) -> str:
    low, high, items = value
    return sample(items, groups) * max(low, min(high, 1))


_SAMPLES: dict[Any, Callable[[Any, dict[int, str]], str]] = {
    op.LITERAL: lambda value, _: chr(value),
    op.NOT_LITERAL: lambda value, _: "x" if value != ord("x") else "y",
    op.ANY: lambda _, __: "x",
    op.IN: lambda value, _: next(_characters(value), ""),
    op.BRANCH: lambda value, groups: sample(value[1][0], groups),
    op.SUBPATTERN: _sample_group,
    op.ATOMIC_GROUP: sample,
    op.GROUPREF: lambda value, groups: groups.get(value, ""),
    op.GROUPREF_EXISTS: lambda value, groups: sample(value[1], groups),
    **dict.fromkeys(_REPEATS, _sample_repeat),
}


def _characters(members: Any) -> Iterator[str]:
    """Yield characters of a class, one for each of its parts."""
    if members and members[0][0] is op.NEGATE:
        fits = re.compile("[" + re.escape("".join(_members(members[1:]))) + "]") if _members(members[1:]) else None
        yield from (letter for letter in "xw7 -~\u00e9" if fits is None or not fits.match(letter))
    else:
        yield from _members(members)


def _members(members: Any) -> list[str]:
    characters = []
    for kind, value in members:
        if kind is op.LITERAL:
            characters.append(chr(value))
        elif kind is op.RANGE:
            characters += [chr(value[0]), chr(value[1])]
        elif kind is op.CATEGORY:
            characters.append(_CATEGORY_SAMPLES[value])
    return characters


def parts(items: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (sample of the preceding text, items) for an expression and each of its parts."""
    yield before, items
    for index, (kind, value) in enumerate(items):
        start = before + sample(list(items)[:index])
        inner: list[Any] = []
        if kind is op.BRANCH:
            inner = list(value[1])
        elif kind is op.SUBPATTERN:
            inner = [value[3]]
        elif kind in _REPEATS:
            inner = [value[2]]
            yield start, [(kind, value)]
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            inner = [value[1]]
        elif kind is op.ATOMIC_GROUP:
            inner = [value]
        elif kind in (op.IN, op.LITERAL, op.NOT_LITERAL, op.ANY):
            yield start, [(kind, value)]
        for one in inner:
            yield from parts(one, start)


def segments(items: Any) -> list[Any]:
    """Return the items of an expression with neighbouring literals as one segment each."""
    segment_list: list[Any] = []
    for item in items:
        if item[0] is op.LITERAL and segment_list and segment_list[-1][-1][0] is op.LITERAL:
            segment_list[-1].append(item)
        else:
            segment_list.append([item])
    return segment_list


def runs(items: Any) -> Iterator[str]:
    """Yield samples of neighbouring parts of an expression: each beginning with each end."""
    pieces = segments(items)
    for start in range(len(pieces)):
        for end in range(start + 1, len(pieces) + 1):
            yield sample([item for piece in pieces[start:end] for item in piece])


def pumping_texts(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Return (prefix, text to repeat, suffix) for an expression, without duplicates."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    prefixes: dict[str, None] = {"": None}
    pumps: dict[str, None] = {}
    for before, items in parts(tree):
        prefixes[before] = None
        text = sample(items)
        pumps[text] = None
        for kind, value in items:
            if kind is op.IN:
                pumps.update(dict.fromkeys(_characters(value)))
    pumps.update(dict.fromkeys(_COMMON))
    pumps.update(dict.fromkeys(sorted(runs(tree), key=len)))
    pumps.pop("", None)
    step = max(len(pumps) / MAX_PUMPS, 1.0)
    texts = list(pumps)
    chosen_texts = [texts[int(number * step)] for number in range(min(len(texts), MAX_PUMPS))]
    starts = sorted(prefixes, key=len)
    step = max(len(starts) / MAX_PREFIXES, 1.0)
    starts = [starts[int(number * step)] for number in range(min(len(starts), MAX_PREFIXES))]
    return [(start, text, end) for start in starts for text in chosen_texts for end in _SUFFIXES]


MIN_CHARACTERS = 12_000
_SUSPICIOUS_SECONDS = 0.003  # of so many characters: a linear matcher needs a fifth of that
_SURE_SECONDS = 0.02
_GROWTH = 16  # of the text; quadratic time grows by 256, linear time by 16, and by up to 50 where memory gets scarce
_MAX_RATIO = 90


def grows_faster_than_linear(match: Callable[[str], object], text_of: Callable[[int], str]) -> bool:
    """Return whether 16 times the text takes clearly more than 16 times the CPU time.

    Unless the first measurement is clear, a time is the minimum of several: a matcher with its stack on the heap takes
    three times as long per character once the stack exceeds the cache, and another process can slow down a measurement.
    """
    if _lasts_long(match, text_of):
        return True
    text = text_of(MIN_CHARACTERS)
    seconds = _seconds(match, text)
    if seconds < _SUSPICIOUS_SECONDS:
        return False
    part_seconds = _least_seconds(match, text_of(MIN_CHARACTERS // _GROWTH))
    if seconds > 2 * _MAX_RATIO * part_seconds:
        return True
    return min(seconds, _least_seconds(match, text)) > max(_MAX_RATIO * part_seconds, _SUSPICIOUS_SECONDS)


def _lasts_long(match: Callable[[str], object], text_of: Callable[[int], str]) -> bool:
    """Return whether a text of up to 28 characters, or of 1,000, already takes long: exponential or cubic time."""
    return any(
        _seconds(match, text_of(size)) > _SURE_SECONDS and _least_seconds(match, text_of(size)) > _SURE_SECONDS
        for size in (22, 400)
    )


def _seconds(match: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    match(text)
    return time.thread_time() - began


def _least_seconds(match: Callable[[str], object], text: str) -> float:
    return min(_seconds(match, text) for _ in range(3))
