"""What a mirror is to do, and which of its two ends are log directories. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from kafkaframes.errors import OptionError

_SERVERS: Final = re.compile(r"[^/\\\s,]+:\d+(,[^/\\\s,]+:\d+)*")
KEEP, REASSIGN = "keep", "reassign"
KEEP_SETTING: Final = "kafkaframes.on.noncontiguous"  # what our broker has for mirrors (KIP-31)


@dataclass(frozen=True, kw_only=True)
class MirrorSettings:
    """One mirror.

    Attributes:
        source, target: bootstrap servers (``host:port``, several with commas) or a log directory.
        topics: names or patterns as a shell has them; none are all but Kafka's own.
        groups: copy the committed offsets of groups.
        follow: go on when the end is reached, until it is stopped.
        dry_run: say what would be done, and do nothing.
        keep_retention: let the copy of a directory's topics forget by the source's ``retention``; without it the copy
            keeps everything, because what is in a backup is old.
        offsets: ``keep`` or ``reassign``; None keeps them where the target is a broker of ours or a directory.
        skip_damaged: leave out batches that do not have the CRC of their bytes, instead of stopping.
        state_dir: where the mapping of offsets is kept, for a target that gives offsets of its own.
        source_properties, target_properties: of the clients, under Kafka's names.
        timeout_s: how many seconds to wait until a broker of each cluster answers at first.
        group_interval_s: with ``follow``, how often committed offsets are copied.
        topic_interval_s: with ``follow``, how often new topics and partitions are looked for.
    """

    source: str
    target: str
    topics: tuple[str, ...] = ()
    groups: bool = True
    follow: bool = False
    dry_run: bool = False
    keep_retention: bool = False
    offsets: str | None = None
    skip_damaged: bool = False
    state_dir: str | None = None
    source_properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    target_properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout_s: float = 5.0
    group_interval_s: float = 5.0
    topic_interval_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            OptionError: names the option.
        """
        for name, value in (("source", self.source), ("target", self.target)):
            if not value.strip():
                raise OptionError(f"`{name}` is empty: expected bootstrap servers or a log directory")
        if self.source == self.target:
            raise OptionError(f"`source` and `target` are the same: {self.source}")
        if self.offsets not in (None, KEEP, REASSIGN):
            raise OptionError(f"`offsets` is {KEEP} or {REASSIGN}, not {self.offsets}")
        if self.follow and self.dry_run:
            raise OptionError("`dry_run` looks once: not together with `follow`")


def settings_of(values: Mapping[str, Any]) -> MirrorSettings:
    """Make settings of names and values.

    Raises:
        OptionError: there is no such setting, or it does not fit.
    """
    names = [one.name for one in fields(MirrorSettings)]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise OptionError(f"a mirror has no setting {name!r}; {f'did you mean {near[0]}?' if near else names}")
    return MirrorSettings(**values)


def is_directory(endpoint: str) -> bool:
    """Say whether one end of a mirror is a log directory, and not bootstrap servers.

    >>> [is_directory(one) for one in ("a:9092,b:9092", "[::1]:9092", "/backup/kafka-logs", "copy", "./a:1")]
    [False, False, True, True, True]
    """
    return _SERVERS.fullmatch(endpoint.strip()) is None
