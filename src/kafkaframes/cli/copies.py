"""What the commands that read logs share about copies of a partition: one log of them, or each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kafkaframes.cli.text import say

if TYPE_CHECKING:
    from kafkaframes.storage.copies.decisions import Decision
    from kafkaframes.storage.copies.one_log import OneLog
    from kafkaframes.storage.files.directory import LogDirectory

MOST_DECISIONS = 20  # of one check are printed


def _named(paths: Iterable[str]) -> set[str]:
    from kafkaframes.storage.files.filesystem import plain_path

    return {plain_path(path).rstrip("/") for path in paths}


def has_copies(directories: Iterable[LogDirectory], paths: Iterable[str]) -> bool:
    """Say whether a partition is there more than once; to merge costs the import of the readers of headers."""
    named = _named(paths)
    found = [
        one.topic_partition
        for directory in directories
        for one in directory.partitions
        if one.is_live or one.directory in named
    ]
    return len(set(found)) < len(found)


def one_log(
    directories: Sequence[LogDirectory], paths: Iterable[str], *, check: bool, options: dict[str, Any] | None = None
) -> OneLog:
    """Merge what is there more than once; renamed directories count where a path leads to them.

    Directories that are no copies of one log stay as they are; why is said on standard error.
    """
    from kafkaframes.storage.copies.one_log import OneLog, one_log_of, refusal

    named = _named(paths)
    reason = refusal(directories, named)
    if reason is not None:
        say(f"kafkaframes: not merged: {reason}", err=True)
        return OneLog(tuple(directories))
    return one_log_of(directories, named=named, options=options, check=check)


def decision_lines(decisions: Iterable[Decision]) -> list[str]:
    """Return decisions as lines, of each check some."""
    seen: dict[str, int] = {}
    lines = []
    for decision in decisions:
        seen[decision.check] = seen.get(decision.check, 0) + 1
        if seen[decision.check] <= MOST_DECISIONS:
            lines.append(str(decision))
    more = [f"{check}: and {count - MOST_DECISIONS:,} more" for check, count in seen.items() if count > MOST_DECISIONS]
    return lines + more
