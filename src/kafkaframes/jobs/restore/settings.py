"""The settings of a restore: which records, with which offsets and topic names, and for which kind of node."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Literal

from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import (
    BATCH_BYTES,
    INDEX_INTERVAL_BYTES,
    POSITION,
    STORED_MODE,
    Checked,
    CodecName,
    PartitionSettings,
    setting,
)
from kafkaframes.scan.ranges import EARLIEST, LATEST, Limit, log_bound, offset_of_bound, time_of_bound
from kafkaframes.wire.integers import MAX_INT32

KEEP: Final = "keep"
REASSIGN: Final = "reassign"
ABORT: Final = "abort"
KRAFT: Final = "kraft"
NO_BOOTSTRAP: Final = "none"
# The feature levels that ``kafka-storage format --release-version`` writes, by release. A newer broker accepts the
# levels of an older release, and ``kafka-features upgrade`` raises them. eligible.leader.replicas.version is omitted:
# with it, a controller treats a broker that it does not know as uncleanly stopped, and no partition gets a
# leader (KIP-966).
RELEASES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "3.9": {"metadata.version": 21},
        "4.3": {
            "metadata.version": 30,
            "group.version": 1,
            "share.version": 1,
            "streams.version": 1,
            "transaction.version": 2,
        },
    }
)
DEFAULT_RELEASE: Final = "3.9"
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSettings(PartitionSettings, Checked):
    """Settings of ``restore_log``. They are picklable, because they are sent to worker processes.

    ``record_format``, ``codec``, ``level`` and ``batch_bytes`` apply to batches that are built from rows (Parquet,
    DataFrames).
    """

    topic_map: Pairs = setting((), "Give a topic another name.", shown="OLD=NEW")
    topic_ids: Pairs = setting(
        (), "Give a topic this id, instead of the source's or a new one.", flag="--topic-id", shown="TOPIC=ID"
    )
    topic_configs: Pairs = setting(
        (), "A setting for all topics, or for one; repeatable.", flag="--config", shown="[TOPIC:]NAME=VALUE"
    )
    keep_retention: bool = setting(
        False, "Keep the retention settings. Default: retention.ms is -1, so that the broker deletes nothing."
    )
    offsets: Literal["keep", "reassign"] = setting(
        KEEP, "Keep the offsets, or number the records of each partition anew, without holes."
    )
    start_offset: int = setting(0, "With --offsets reassign: the first offset.", least=0)
    start: Limit = setting(
        None, "Where to begin in each partition: an offset of the source or a time.", shown=POSITION, recorded=False
    )
    end: Limit = setting(
        None, "Where to end in each partition; the end itself is not restored.", shown=POSITION, recorded=False
    )
    on_damage: Literal["fail", "drop"] = setting(
        "fail", "At a damaged batch: stop, or leave it out and report it.", stored=STORED_MODE
    )
    open_transactions: Literal["keep", "abort"] = setting(
        KEEP, "Leave open transactions open, or abort them with a marker at the log's end."
    )
    leader_epoch: int | None = setting(
        None, "Write this epoch into every batch of format 2. Use 0 for an existing cluster.", least=0
    )
    segment_bytes: int | None = setting(
        None, "Cut the log into segments of this size. Default: keep the segments.", least=1
    )
    index_interval_bytes: int = setting(INDEX_INTERVAL_BYTES, "Bytes between two entries of the new indexes.", least=0)
    groups: bool = setting(True, "Also copy the committed offsets of groups.")
    offsets_partitions: int | None = setting(
        None, "Partitions of __consumer_offsets. Default: as in the source.", least=1
    )
    keep_commit_times: bool = setting(
        False, "Keep the times of commits. Default: the time of the restore, so that they do not expire at once."
    )
    record_format: Literal[0, 1, 2] = setting(2, "From Parquet.")
    codec: CodecName = setting("none", "From Parquet: the codec of the new batches.")
    level: int | None = setting(None, "Compression level. Default: Kafka's.")
    batch_bytes: int = setting(BATCH_BYTES, "From Parquet: the size of a batch.", least=1)
    bootstrap: Literal["kraft", "none"] = setting(
        KRAFT,
        "Write what a new single node needs to start (kraft), or only partitions, for an existing cluster (none).",
    )
    node_id: int = setting(1, "The node id of the new single node.", least=0)
    cluster_id: str | None = setting(None, "The cluster id of the new single node. Default: a new one.")
    release: str = setting(
        DEFAULT_RELEASE, "The release of Kafka that the new single node runs.", choices=tuple(RELEASES)
    )

    def _refuse(self) -> None:
        if self.start_offset and self.offsets != REASSIGN:
            raise OptionError("`start_offset` is for offsets that are reassigned")
        if self.segment_bytes is not None and self.segment_bytes > MAX_INT32:
            raise OptionError(f"`segment_bytes` is 1 to 2^31 - 1, not {self.segment_bytes}")
        olds, news = [old for old, _ in self.topic_map], [new for _, new in self.topic_map]
        if len(set(olds)) != len(olds) or len(set(news)) != len(news):
            raise OptionError("a topic map names a topic twice")
        for _, text in self.topic_ids:
            uuid_of(text)
        for name, limit in (("start", self.start), ("end", self.end)):
            if isinstance(limit, Mapping):
                raise OptionError(f"`{name}` is one offset or time; restore partitions with other ranges separately")
            log_bound(name, limit, unset=EARLIEST)
        if log_bound("start", self.start, unset=EARLIEST) == LATEST:
            raise OptionError("`start`: a restore cannot start at latest")

    @property
    def from_offset(self) -> int | None:
        """The first offset to restore; None if ``start`` is not an offset."""
        return offset_of_bound(log_bound("start", self.start, unset=EARLIEST))

    @property
    def until_offset(self) -> int | None:
        """The end offset of the restore (exclusive); None if ``end`` is not an offset."""
        return offset_of_bound(log_bound("end", self.end, unset=LATEST))

    @property
    def from_timestamp_ms(self) -> int | None:
        """The timestamp at which the restore starts, in milliseconds; None if ``start`` is not a time."""
        return time_of_bound(log_bound("start", self.start, unset=EARLIEST))

    @property
    def until_timestamp_ms(self) -> int | None:
        """The timestamp at which the restore ends (exclusive), in milliseconds; None if ``end`` is not a time."""
        return time_of_bound(log_bound("end", self.end, unset=LATEST))

    def stored_values(self) -> dict[str, Any]:
        """Return the range under the keys that reports of all releases use."""
        names = ("from_offset", "until_offset", "from_timestamp_ms", "until_timestamp_ms")
        return {name: getattr(self, name) for name in names}

    @property
    def moves_offsets(self) -> bool:
        """Whether records get new offsets."""
        return self.offsets == REASSIGN

    def wants_topic(self, topic: str, *, is_internal: bool) -> bool:
        """Return whether to restore a topic. An internal topic needs a pattern that starts with two underscores."""
        if not self.topics:
            return not is_internal
        return any(
            fnmatchcase(topic, pattern) and (not is_internal or pattern.startswith("__")) for pattern in self.topics
        )

    def new_name(self, topic: str) -> str:
        """Return the name of a topic after the restore."""
        return dict(self.topic_map).get(topic, topic)


def uuid_of(topic_id: str) -> uuid.UUID:
    """Return the UUID of a topic or directory id.

    >>> uuid_of("AAAAAAAAAAAAAAAAAAAAAQ").int
    1

    Raises:
        OptionError: the text is not an id.
    """
    try:
        return uuid.UUID(bytes=base64.b64decode(topic_id + "==", altchars=b"-_", validate=True))
    except ValueError:
        raise OptionError(f"{topic_id!r} is no id: 22 characters of URL-safe base64") from None
