"""Strings for which a backtracking regular expression matcher may be slow, derived from an expression's parse tree.

A matcher backtracks if it can split the same characters in several ways: inside a repetition, between two adjacent
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


def sample_text(items: Any, groups: dict[int, str] | None = None) -> str:
    """Return a short text that a parsed expression matches, as far as that is possible without backtracking."""
    groups = {} if groups is None else groups
    return "".join(_sample_item(kind, value, groups) for kind, value in items)


def _sample_item(kind: Any, value: Any, groups: dict[int, str]) -> str:
    make = _SAMPLES.get(kind)  # AT, ASSERT and ASSERT_NOT have an empty sample
    return "" if make is None else make(value, groups)


def _sample_group(value: Any, groups: dict[int, str]) -> str:
    number, _, _, items = value
    text = sample_text(items, groups)
    if number is not None:
        groups[number] = text
    return text


def _sample_repeat(value: Any, groups: dict[int, str]) -> str:
    low, high, items = value
    return sample_text(items, groups) * max(low, min(high, 1))


_SAMPLES: dict[Any, Callable[[Any, dict[int, str]], str]] = {
    op.LITERAL: lambda value, _: chr(value),
    op.NOT_LITERAL: lambda value, _: "x" if value != ord("x") else "y",
    op.ANY: lambda _, __: "x",
    op.IN: lambda value, _: next(_characters(value), ""),
    op.BRANCH: lambda value, groups: sample_text(value[1][0], groups),
    op.SUBPATTERN: _sample_group,
    op.ATOMIC_GROUP: sample_text,
    op.GROUPREF: lambda value, groups: groups.get(value, ""),
    op.GROUPREF_EXISTS: lambda value, groups: sample_text(value[1], groups),
    **dict.fromkeys(_REPEATS, _sample_repeat),
}


def _characters(members: Any) -> Iterator[str]:
    """Yield one character for each part of a character class."""
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


def iterate_parts(items: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (sample of the preceding text, items) for an expression and each of its parts."""
    yield before, items
    for index, (kind, value) in enumerate(items):
        start = before + sample_text(list(items)[:index])
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
            yield from iterate_parts(one, start)


def merge_literals(items: Any) -> list[Any]:
    """Return the items of an expression, with adjacent literals merged into segments."""
    segment_list: list[Any] = []
    for item in items:
        if item[0] is op.LITERAL and segment_list and segment_list[-1][-1][0] is op.LITERAL:
            segment_list[-1].append(item)
        else:
            segment_list.append([item])
    return segment_list


def iterate_runs(items: Any) -> Iterator[str]:
    """Yield samples of adjacent parts of an expression, for each start and each end."""
    pieces = merge_literals(items)
    for start in range(len(pieces)):
        for end in range(start + 1, len(pieces) + 1):
            yield sample_text([item for piece in pieces[start:end] for item in piece])


def pumping_texts(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Return (prefix, text to repeat, suffix) for an expression, without duplicates."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    prefixes: dict[str, None] = {"": None}
    pumps: dict[str, None] = {}
    for before, items in iterate_parts(tree):
        prefixes[before] = None
        text = sample_text(items)
        pumps[text] = None
        for kind, value in items:
            if kind is op.IN:
                pumps.update(dict.fromkeys(_characters(value)))
    pumps.update(dict.fromkeys(_COMMON))
    pumps.update(dict.fromkeys(sorted(iterate_runs(tree), key=len)))
    pumps.pop("", None)
    step = max(len(pumps) / MAX_PUMPS, 1.0)
    texts = list(pumps)
    chosen_texts = [texts[int(number * step)] for number in range(min(len(texts), MAX_PUMPS))]
    starts = sorted(prefixes, key=len)
    step = max(len(starts) / MAX_PREFIXES, 1.0)
    starts = [starts[int(number * step)] for number in range(min(len(starts), MAX_PREFIXES))]
    return [(start, text, end) for start in starts for text in chosen_texts for end in _SUFFIXES]


MIN_TEXT_CHARACTERS = 12_000
_SUSPICIOUS_SECONDS = 0.003  # for ``MIN_TEXT_CHARACTERS`` characters; a linear matcher needs a fifth of that time
_SURE_SECONDS = 0.02
_GROWTH = 16  # growth of the text; quadratic time grows by 256, linear time by 16, and by up to 50 if memory is scarce
_MAX_RATIO = 90


def grows_faster_than_linear(match: Callable[[str], object], text_of: Callable[[int], str]) -> bool:
    """Return whether a text that is 16 times as long takes clearly more than 16 times the CPU time.

    Unless the first measurement is clear, the minimum of several is used: a matcher with its stack on the heap takes
    three times as long per character once the stack exceeds the cache, and other processes can slow down a measurement.
    """
    if _is_slow_on_short_text(match, text_of):
        return True
    text = text_of(MIN_TEXT_CHARACTERS)
    seconds = _cpu_seconds(match, text)
    if seconds < _SUSPICIOUS_SECONDS:
        return False
    part_seconds = _least_seconds(match, text_of(MIN_TEXT_CHARACTERS // _GROWTH))
    if seconds > 2 * _MAX_RATIO * part_seconds:
        return True
    return min(seconds, _least_seconds(match, text)) > max(_MAX_RATIO * part_seconds, _SUSPICIOUS_SECONDS)


def _is_slow_on_short_text(match: Callable[[str], object], text_of: Callable[[int], str]) -> bool:
    """Return whether texts of up to 28 or of 1,000 characters are already slow, as with exponential or cubic time."""
    return any(
        _cpu_seconds(match, text_of(size)) > _SURE_SECONDS and _least_seconds(match, text_of(size)) > _SURE_SECONDS
        for size in (22, 400)
    )


def _cpu_seconds(match: Callable[[str], object], text: str) -> float:
    start = time.thread_time()
    match(text)
    return time.thread_time() - start


def _least_seconds(match: Callable[[str], object], text: str) -> float:
    return min(_cpu_seconds(match, text) for _ in range(3))
