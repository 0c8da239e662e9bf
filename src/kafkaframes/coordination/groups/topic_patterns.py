"""Find the topics that match the regular expressions of consumer groups (KIP-848), outside the heartbeat handler.

RE2 matches in linear time, but the pattern ``(.?){998}`` takes 60 ms for one long name. As in Kafka
(GroupMetadataManager), a pattern is therefore matched in a thread after the response to the heartbeat. A pattern is
matched once for all groups, and only against names that are new. A call matches only a few names, so a slow pattern
does not delay other work in the thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from kafkaframes.coordination.groups.subscriptions import match_names

RunInThread = Callable[[Callable[[], None], Callable[[], None]], object]
_MAX_NAMES_PER_CALL: Final = 16
_MAX_CACHED_PATTERNS: Final = 1_000


class TopicNames(Protocol):
    """The topic names of a broker."""

    @property
    def version(self) -> int:
        """A number that changes when a topic is created or deleted, or gets new partitions."""

    def names(self) -> Iterable[str]:
        """Return all names that a pattern can match."""


class _PatternMatches(NamedTuple):
    """The topics that match a pattern, and all names with which the pattern was compared."""

    version: int
    names: frozenset[str]
    matches: frozenset[str]


class TopicPatterns:
    """The matches of all patterns on one broker.

    Args:
        topics: topic names of the broker.
        run_in_thread: runs its first argument in a worker thread, and then its second argument in the calling thread.
    """

    def __init__(self, topics: TopicNames, run_in_thread: RunInThread) -> None:
        self.run_in_thread = run_in_thread
        self._topics = topics
        self._resolutions: OrderedDict[str, _PatternMatches] = OrderedDict()
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def find_names(self, pattern: str, when_resolved: Callable[[], None]) -> frozenset[str] | None:
        """Return the topics that match a pattern.

        If the pattern must be matched in a thread first, return None and call ``when_resolved`` later.
        """
        resolution = self._resolutions.get(pattern)
        if resolution is not None and resolution.version == self._topics.version:
            return resolution.matches
        if pattern in self._waiting:
            self._waiting[pattern].append(when_resolved)
            return None
        version, names = self._topics.version, frozenset(self._topics.names())
        previous = resolution or _PatternMatches(version, frozenset(), frozenset())
        new_names = sorted(names - previous.names)
        if not new_names and resolution is not None:
            return self._store_matches(pattern, _PatternMatches(version, names, previous.matches & names))
        self._waiting[pattern] = []
        self._match_names(pattern, _PatternMatches(version, names, previous.matches & names), new_names)
        if pattern in self._waiting:
            self._waiting[pattern].append(when_resolved)
            return None
        resolution = self._resolutions.get(pattern)  # run_in_thread may have run the work immediately
        return None if resolution is None else resolution.matches

    def _match_names(self, pattern: str, resolution: _PatternMatches, new_names: list[str]) -> None:
        results: list[frozenset[str]] = []

        def store_matches() -> None:
            if not results:  # the broker is stopping
                self._waiting.pop(pattern, None)
                return
            matches = resolution._replace(matches=resolution.matches | results[0])
            if len(new_names) > _MAX_NAMES_PER_CALL:
                self._match_names(pattern, matches, new_names[_MAX_NAMES_PER_CALL:])
                return
            self._store_matches(pattern, matches)
            for call in self._waiting.pop(pattern, ()):
                call()

        self.run_in_thread(lambda: results.append(match_names(pattern, new_names[:_MAX_NAMES_PER_CALL])), store_matches)

    def _store_matches(self, pattern: str, resolution: _PatternMatches) -> frozenset[str]:
        self._resolutions[pattern] = resolution
        self._resolutions.move_to_end(pattern)
        if len(self._resolutions) > _MAX_CACHED_PATTERNS:
            self._resolutions.popitem(last=False)
        return resolution.matches
