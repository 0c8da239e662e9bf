"""Choose topics and partitions of a log by names, shell patterns and numbers."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from kafkaframes.errors import OptionError
from kafkaframes.storage.files.directory import LogDirectory


def is_selected(topic: str, patterns: Collection[str]) -> bool:
    """Say whether a topic matches one of the names and patterns; without any, every topic does.

    >>> is_selected("orders", ()), is_selected("orders", ("ord*",)), is_selected("orders", ("users",))
    (True, True, False)
    """
    return not patterns or topic in patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


def check_topics(patterns: Iterable[str], have: Iterable[str]) -> None:
    """Raise if a name or pattern matches no topic.

    Raises:
        OptionError: names it, and the nearest topic.
    """
    topics = sorted(set(have))
    for name in patterns:
        if not any(is_selected(topic, (name,)) for topic in topics):
            near = difflib.get_close_matches(name, topics, n=1)
            listed = ", ".join(topics[:10]) + (", ..." if len(topics) > 10 else "")
            hint = f"did you mean {near[0]}?" if near else f"there are {listed}" if topics else "there is none"
            raise OptionError(f"no topic {name}: {hint}")


def selected(
    directories: Sequence[LogDirectory], topics: Collection[str] = (), partitions: Collection[int] = ()
) -> tuple[LogDirectory, ...]:
    """Return directories with the selected partitions.

    Args:
        directories: from the discovery.
        topics: names or patterns; none are all.
        partitions: numbers; none are all.

    Raises:
        OptionError: there is no such topic, or none of its partitions has such a number.
    """
    check_topics(topics, (one.topic for directory in directories for one in directory.partitions))
    chosen = tuple(
        replace(
            directory,
            partitions=tuple(
                one
                for one in directory.partitions
                if is_selected(one.topic, topics) and (not partitions or one.partition in partitions)
            ),
        )
        for directory in directories
    )
    if partitions and not any(directory.partitions for directory in chosen):
        raise OptionError(f"no partition {', '.join(map(str, sorted(partitions)))} in the chosen topics")
    return chosen
