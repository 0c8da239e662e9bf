"""What a mirror is to do, and which of its two ends are log directories. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import check, setting

_SERVERS: Final = re.compile(r"[^/\\\s,]+:\d+(,[^/\\\s,]+:\d+)*")
KEEP: Final = "keep"
REASSIGN: Final = "reassign"
KEEP_SETTING: Final = "kafkaframes.on.noncontiguous"  # what our broker has for mirrors (KIP-31)


@dataclass(frozen=True, kw_only=True)
class MirrorSettings:
    """How topics are mirrored. Settings of clients are under Kafka's names; intervals count with ``follow``."""

    topics: tuple[str, ...] = setting(
        (), "Only this topic: a name or pattern; repeatable. Default: all but Kafka's own.", flag="-t --topic"
    )
    groups: bool = setting(True, "Also copy the committed offsets of groups.")
    follow: bool = setting(False, "Keep copying what arrives, new topics too, until Ctrl-C.")
    dry_run: bool = setting(False, "Print what would be copied, and from which offset; write nothing.")
    keep_retention: bool = setting(False, "Let the target delete records by the source's retention settings.")
    offsets: Literal["keep", "reassign"] | None = setting(
        None, "Keep the offsets, or let the target assign new ones. Default: keep, where the target can."
    )
    skip_damaged: bool = setting(False, "Leave out batches with a wrong CRC instead of stopping.")
    state_dir: str | None = setting(
        None, "Where to keep the mapping of offsets, if they change.", flag="--state", shown="DIR"
    )
    source_properties: Mapping[str, Any] = setting({}, "Of the source's client.")
    target_properties: Mapping[str, Any] = setting({}, "Of the target's client.")
    timeout_s: float = setting(5.0, "How many seconds to wait until a broker of each cluster answers at first.")
    group_interval_s: float = setting(5.0, "How often committed offsets are copied.")
    topic_interval_s: float = setting(10.0, "How often new topics and partitions are looked for.")

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            OptionError: names the setting.
        """
        check(self)
        if self.follow and self.dry_run:
            raise OptionError("`dry_run` looks once: not together with `follow`")


def check_ends(source: str, target: str) -> None:
    """Refuse two ends that are none, or the same.

    Raises:
        OptionError: names the end.
    """
    for name, value in (("source", source), ("target", target)):
        if not value.strip():
            raise OptionError(f"`{name}` is empty: expected bootstrap servers or a log directory")
    if source == target:
        raise OptionError(f"`source` and `target` are the same: {source}")


def is_directory(endpoint: str) -> bool:
    """Say whether one end of a mirror is a log directory, and not bootstrap servers.

    >>> [is_directory(one) for one in ("a:9092,b:9092", "[::1]:9092", "/backup/kafka-logs", "copy", "./a:1")]
    [False, False, True, True, True]
    """
    return _SERVERS.fullmatch(endpoint.strip()) is None
