"""The base class of request rules and disk rules, which limits and counts the occurrences of a fault."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from kafkaframes.errors.words import count_text

_PACKAGE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(slots=True, eq=False)
class RuleHistory:
    """All rules of a broker in order of their creation, including removed rules.

    Attributes:
        is_strict: whether a rule's ``with`` block fails if its fault never happened. The pytest fixtures set
            ``is_strict``. If False, ``Broker.unused_rules`` lists the rules whose fault never happened.
    """

    rules: list[RuleBase] = field(default_factory=list)
    is_strict: bool = False

    def list_unused(self) -> list[RuleBase]:
        """Return the rules with a fault that never happened. Optional rules and reported rules are excluded."""
        return [rule for rule in self.rules if rule.is_unused and not rule.is_reported]


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class RuleBase:
    """The base class of rules, which counts matches and faults.

    A rule is a context manager: the rule is removed at the end of the ``with`` block.

    Attributes:
        skip: number of matches without a fault at the beginning.
        left: remaining number of faults; None for no limit.
        is_removed: whether the rule was removed.
        is_optional: whether a test may pass although the fault never happens (``optional=True``).
        occurrences: number of faults that have happened.
        origin: file and line of the call that created the rule.
        is_reported: whether a ``with`` block has failed because the fault never happened.
        history: all rules of the broker.
    """

    skip: int = 0
    left: int | None = None
    is_removed: bool = False
    is_optional: bool = False
    occurrences: int = 0
    origin: str = ""
    is_reported: bool = False
    history: RuleHistory = field(default_factory=RuleHistory)
    _calls: list[str] = field(default_factory=list)

    def times(self, count: int) -> Self:
        """Limit the fault to the first ``count`` matches."""
        self.left = count
        return self._record_call("once" if count == 1 else "times", *(() if count == 1 else (count,)))

    def once(self) -> Self:
        """Limit the fault to one match."""
        return self.times(1)

    def after(self, count: int) -> Self:
        """Skip the first ``count`` matches."""
        self.skip = count
        return self._record_call("after", count)

    def remove(self) -> None:
        """Stop matching."""
        self.is_removed = True

    @property
    def is_over(self) -> bool:
        """Whether the rule cannot match any more."""
        return self.is_removed or self.left == 0

    @property
    def has_action(self) -> bool:
        """Whether the rule causes a fault; otherwise it only counts matches."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """The number of matches, including those that ``after`` skips."""
        raise NotImplementedError

    @property
    def is_unused(self) -> bool:
        """Whether the rule has a required fault that never happened."""
        return self.has_action and not self.occurrences and not self.is_optional

    def describe(self) -> str:
        """Return the calls that created the rule: ``on("Produce", topic="orders").once().drop_reply()``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return one line with the calls that created the rule, its matches and its faults."""
        count_text = {0: "never happened", 1: "happened once"}.get(
            self.occurrences, f"happened {self.occurrences} times"
        )
        ending = ", removed" if self.is_removed else ""
        return f"<{self.describe()}: {self.count} matched, {count_text if self.has_action else 'only watches'}{ending}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        __tracebackhide__ = True
        self.remove()
        if kind is None and self.history.is_strict and self.is_unused:
            self.is_reported = True
            raise AssertionError(describe_unused([self]))

    def _record_call(self, method: str, *arguments: object) -> Self:
        """Add a method call to the rule's description."""
        self._calls.append(f"{method}({', '.join(map(format_argument, arguments))})")
        return self

    def _chain(self, first: str) -> str:
        return ".".join((first, *self._calls))


def describe_unused(rules: Sequence[RuleBase], count_requests: Callable[[str | None], int] | None = None) -> str:
    """Return a failure message for faults that never happened.

    Args:
        rules: rules with a fault that never happened.
        count_requests: returns the number of requests of an API that the broker has received.
    """
    subject = "a fault" if len(rules) == 1 else f"{len(rules)} faults"
    lines = [f"{subject} never happened; pass optional=True to on() or on_disk() if it need not happen"]
    for rule in rules:
        lines.append(f"  {rule.origin}: {rule.describe()}")
        api = getattr(rule, "api", None)
        if rule.count:
            lines.append(f"    matched {count_text(rule.count, 'time')}, without a fault")
        elif count_requests is not None and api is not None:
            lines.append(f"    none of {count_text(count_requests(api), f'{api} request')} matched")
    return "\n".join(lines)


def format_argument(value: object) -> str:
    """Return an argument as short text.

    >>> format_argument("orders"), format_argument(2), format_argument(len)
    ('"orders"', '2', '<len>')
    """
    if isinstance(value, str):
        return f'"{value}"'
    if callable(value):
        code = getattr(value, "__code__", None)
        name = getattr(value, "__name__", type(value).__name__)
        return f"<{name}>" if code is None else f"<{name} at {_shorten_path(code.co_filename)}:{code.co_firstlineno}>"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def format_call(name: str, *arguments: object, **keywords: object) -> str:
    """Return a call as text. Arguments that are None or False are omitted.

    >>> format_call("on", "Produce", topic="orders", version=None)
    'on("Produce", topic="orders")'
    """
    texts = [format_argument(argument) for argument in arguments if argument is not None]
    texts += [
        f"{key}={format_argument(argument)}"
        for key, argument in keywords.items()
        if argument is not None and argument is not False
    ]
    return f"{name}({', '.join(texts)})"


def find_caller_line() -> str:
    """Return the file and line of the nearest caller outside this package."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_DIRECTORY + os.sep):
        frame = frame.f_back
    return "" if frame is None else f"{_shorten_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def _shorten_path(path: str) -> str:
    """Return a path relative to the working directory if the path is below that directory."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative
