"""Regular expressions of requests (KIP-848, KIP-1152), in RE2's language and, as RE2, in linear time.

Kafka reads them with RE2/J. Python's engine backtracks: a short pattern of a stranger can keep it busy for years. So
Python only parses them here; matching is a walk over all the states that the pattern can be in, character by character
(Thompson's construction). What RE2 has not, look-around and back references, is refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaframes.broker.groups import refusal
from kafkaframes.broker.groups.refusal import RefusedError

MOST_CHARACTERS: Final = 1_000
MOST_STATES: Final = 10_000
_MOST_NESTED = 50

_Accepts = Callable[[str], bool]
_CATEGORIES: Final[dict[str, _Accepts]] = {
    "CATEGORY_DIGIT": lambda char: "0" <= char <= "9",
    "CATEGORY_SPACE": lambda char: char in "\t\n\f\r ",
    "CATEGORY_WORD": lambda char: char.isascii() and (char.isalnum() or char == "_"),
}


@dataclass(slots=True)
class _State:
    """One state: a character to take, or a place to look at, and what may come then."""

    accepts: _Accepts | None = None
    place: str = ""
    targets: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern.

    >>> [bool(compile_pattern("orders-[0-9]+|pay.*").matches(name)) for name in ("orders-7", "orders-", "payments")]
    [True, False, True]
    """

    text: str
    states: tuple[_State, ...]
    start: int
    end: int

    def matches(self, text: str) -> bool:
        """Return whether the whole of ``text`` matches."""
        current = self._closure([self.start], text, 0)
        for position, char in enumerate(text):
            taken = [
                target
                for number in current
                if (accepts := self.states[number].accepts) is not None and accepts(char)
                for target in self.states[number].targets
            ]
            if not taken:
                return False
            current = self._closure(taken, text, position + 1)
        return self.end in current

    def _closure(self, numbers: Iterable[int], text: str, position: int) -> set[int]:
        """Return all states that are reached without a character."""
        seen: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            state = self.states[number]
            if state.accepts is None and (not state.place or _is_at(state.place, text, position)):
                waiting += state.targets
        return seen


def _is_at(place: str, text: str, position: int) -> bool:
    if place in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return position == 0
    if place in ("AT_END", "AT_END_STRING"):
        return position == len(text)
    word = _CATEGORIES["CATEGORY_WORD"]
    before = position > 0 and word(text[position - 1])
    after = position < len(text) and word(text[position])
    return (before != after) == (place == "AT_BOUNDARY")


def compile_pattern(text: str) -> Pattern:
    """Return a pattern.

    Raises:
        RefusedError: INVALID_REGULAR_EXPRESSION.
    """
    if len(text) > MOST_CHARACTERS:
        raise _refused(text[:50] + "...", f"it is longer than {MOST_CHARACTERS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parsed: Any = re._parser.parse(text)  # type: ignore[attr-defined]
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise _refused(text, str(error)) from None
    maker = _Maker(text, flags=parsed.state.flags)
    start = maker.add()
    end = maker.sequence(parsed, start, maker.flags, 0)
    return Pattern(text, tuple(maker.states), start, end)


def _refused(text: str, reason: str) -> RefusedError:
    words = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}."
    return RefusedError(refusal.INVALID_REGULAR_EXPRESSION, words)


@dataclass(slots=True)
class _Maker:
    """Makes states of what Python has parsed; every method returns the state behind its part."""

    text: str
    flags: int
    states: list[_State] = field(default_factory=list)

    def add(self) -> int:
        """Return a new state."""
        if len(self.states) >= MOST_STATES:
            raise _refused(self.text, "it is too large")
        self.states.append(_State())
        return len(self.states) - 1

    def sequence(self, parsed: Any, at: int, flags: int, depth: int) -> int:
        """Return where a sequence of parts leads."""
        if depth > _MOST_NESTED:
            raise _refused(self.text, "it is nested too deeply")
        for operation, argument in parsed:
            at = self._part(str(operation), argument, at, flags, depth)
        return at

    def _part(self, name: str, argument: Any, at: int, flags: int, depth: int) -> int:
        if name == "AT":
            return self._step(at, place=str(argument))
        if name == "SUBPATTERN":
            _, added, removed, inner = argument
            return self.sequence(inner, at, (flags | added) & ~removed, depth + 1)
        if name == "BRANCH":
            ends = [self.sequence(one, self._step(at), flags, depth + 1) for one in argument[1]]
            return self._join(ends)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(argument, at, flags, depth)
        return self._step(at, accepts=self._one_character(name, argument, flags))

    def _step(self, at: int, *, accepts: _Accepts | None = None, place: str = "") -> int:
        """Lead from a state over a new one with this condition."""
        condition, behind = self.add(), self.add()
        self.states[at].targets.append(condition)
        self.states[condition] = _State(accepts, place, [behind])
        return behind

    def _join(self, ends: Iterable[int]) -> int:
        behind = self.add()
        for end in ends:
            self.states[end].targets.append(behind)
        return behind

    def _repeat(self, argument: Any, at: int, flags: int, depth: int) -> int:
        least, most, inner = argument
        for _ in range(least):
            at = self.sequence(inner, at, flags, depth + 1)
        if most == re._parser.MAXREPEAT:  # type: ignore[attr-defined]
            loop = self._join([at])
            end = self.sequence(inner, self._step(loop), flags, depth + 1)
            self.states[end].targets.append(loop)
            return self._join([loop])
        ends = [at]
        for _ in range(most - least):
            at = self.sequence(inner, at, flags, depth + 1)
            ends.append(at)
        return self._join(ends)

    def _one_character(self, name: str, argument: Any, flags: int) -> _Accepts:
        if name == "ANY":
            return (lambda char: True) if flags & re.DOTALL else (lambda char: char != "\n")
        if name == "IN":
            accepts = _any_of(argument)
        elif name in ("LITERAL", "NOT_LITERAL"):
            wanted = chr(argument)
            accepts = lambda char: char == wanted  # noqa: E731
        else:
            raise _refused(self.text, f"{name.lower().replace('_', ' ')} is not supported")
        if flags & re.IGNORECASE:
            exact = accepts
            accepts = lambda char: exact(char.lower()) or exact(char.upper())  # noqa: E731
        if name == "NOT_LITERAL":
            same = accepts
            return lambda char: not same(char)
        return accepts


def _any_of(items: Any) -> _Accepts:
    """Return what a character class takes."""
    accepts = [_item(str(name), argument) for name, argument in items if str(name) != "NEGATE"]
    if any(str(name) == "NEGATE" for name, _ in items):
        return lambda char: not any(one(char) for one in accepts)
    return lambda char: any(one(char) for one in accepts)


def _item(name: str, argument: Any) -> _Accepts:
    if name == "LITERAL":
        wanted = chr(argument)
        return lambda char: char == wanted
    if name == "RANGE":
        low, high = chr(argument[0]), chr(argument[1])
        return lambda char: low <= char <= high
    category = str(argument)
    positive = _CATEGORIES[category.replace("_NOT_", "_")]
    return positive if "_NOT_" not in category else lambda char: not positive(char)
