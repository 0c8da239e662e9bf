"""The topics that the patterns of consumer groups stand for (KIP-848), resolved apart from the heartbeats.

RE2 takes linear time, but ``(.?){998}`` takes 60 ms for one long name. A pattern is therefore resolved in a thread
after the heartbeat that brings it is answered, as in Kafka (GroupMetadataManager), once for all groups and only for
names that it has not seen. A few names are matched at a time, so that a slow pattern leaves turns to others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from kafkaframes.coordination.groups.subscriptions import matching

RunApart = Callable[[Callable[[], None], Callable[[], None]], object]
_NAMES_AT_ONCE: Final = 16
_MAX_PATTERNS: Final = 1_000


class TopicNames(Protocol):
    """The topics of the broker."""

    @property
    def version(self) -> int:
        """Another number whenever a topic has been created, grown or deleted."""

    def names(self) -> Iterable[str]:
        """Return all names that a pattern can stand for."""


class _Resolution(NamedTuple):
    version: int
    names: frozenset[str]
    matches: frozenset[str]


class TopicPatterns:
    """The patterns of one broker.

    Args:
        topics: the topics.
        run_apart: runs its first argument in a thread, and then its second on the caller's.
    """

    def __init__(self, topics: TopicNames, run_apart: RunApart) -> None:
        self.run_apart = run_apart
        self._topics = topics
        self._resolved: OrderedDict[str, _Resolution] = OrderedDict()
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def find(self, pattern: str, when_resolved: Callable[[], None]) -> frozenset[str] | None:
        """Return the topics of a pattern; None if it has to be resolved first: ``when_resolved`` is called then."""
        resolution = self._resolved.get(pattern)
        if resolution is not None and resolution.version == self._topics.version:
            return resolution.matches
        if pattern in self._waiting:
            self._waiting[pattern].append(when_resolved)
            return None
        version, names = self._topics.version, frozenset(self._topics.names())
        known = resolution or _Resolution(version, frozenset(), frozenset())
        new_names = sorted(names - known.names)
        if not new_names:
            return self._keep(pattern, _Resolution(version, names, known.matches & names))
        self._waiting[pattern] = []
        self._match(pattern, _Resolution(version, names, known.matches & names), new_names)
        if pattern in self._waiting:
            self._waiting[pattern].append(when_resolved)
            return None
        finished = self._resolved.get(pattern)  # the work was not run apart
        return None if finished is None else finished.matches

    def _match(self, pattern: str, resolution: _Resolution, new_names: list[str]) -> None:
        results: list[frozenset[str]] = []

        def finish() -> None:
            if not results:  # the broker has stopped
                self._waiting.pop(pattern, None)
                return
            matches = resolution._replace(matches=resolution.matches | results[0])
            if len(new_names) > _NAMES_AT_ONCE:
                self._match(pattern, matches, new_names[_NAMES_AT_ONCE:])
                return
            self._keep(pattern, matches)
            for call in self._waiting.pop(pattern, ()):
                call()

        self.run_apart(lambda: results.append(matching(pattern, new_names[:_NAMES_AT_ONCE])), finish)

    def _keep(self, pattern: str, resolution: _Resolution) -> frozenset[str]:
        self._resolved[pattern] = resolution
        self._resolved.move_to_end(pattern)
        if len(self._resolved) > _MAX_PATTERNS:
            self._resolved.popitem(last=False)
        return resolution.matches
