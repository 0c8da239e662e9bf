"""Define the settings of a restore: its records, their offsets and topic names, and the kind of node."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import (
    BATCH_BYTES,
    INDEX_INTERVAL_BYTES,
    STORED_MODE,
    CodecName,
    RangeSettings,
    setting,
    to_stored_limit,
)
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    Bound,
    Name,
    TimeBound,
    expand_bound,
    get_common_offset,
    get_common_time,
    restrict_bound,
)
from kafkaframes.wire.integers import MAX_INT32

KEEP_OFFSETS: Final = "keep"  # value of `offsets` and `open_transactions`
REASSIGN: Final = "reassign"  # value of `offsets`
ABORT: Final = "abort"  # value of `open_transactions`
KRAFT: Final = "kraft"  # value of `bootstrap`: a new single-node cluster
NO_BOOTSTRAP: Final = "none"  # value of `bootstrap`: partitions for an existing cluster
# The feature levels that ``kafka-storage format --release-version`` writes, by release. A newer broker accepts the
# levels of an older release, and ``kafka-features upgrade`` raises them. eligible.leader.replicas.version is omitted:
# with it, a controller treats a broker that it does not know as uncleanly stopped, and no partition gets a
# leader (KIP-966).
FEATURE_LEVELS_BY_RELEASE: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
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


class Limits(NamedTuple):
    """The limits of the range to restore from one source partition.

    Start and end are each specified by an offset, by a time, or not at all (None). The end is exclusive.

    Attributes:
        first_offset, end_offset: offsets in the source partition.
        start_time, end_time: times in milliseconds since 1970. A time selects the first record at or after it.
    """

    first_offset: int | None = None
    end_offset: int | None = None
    start_time: int | None = None
    end_time: int | None = None


NO_LIMITS: Final = Limits()  # selects all records of a partition


def _resolve_bound(setting: str, limit: Bound, name: Name) -> tuple[int | None, int | None]:
    """Return the offset and the time of a partition's bound; at most one of them is not None."""
    value = expand_bound(setting, restrict_bound(limit, {name}), {name})[name]
    if isinstance(limit, TimeBound):
        return None, value
    if value == EARLIEST and setting == "end":
        return 0, None
    return (value if value >= 0 else None), None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSettings(RangeSettings):
    """Settings of ``restore_log``. The settings are picklable, because they are sent to worker processes.

    ``record_format``, ``codec``, ``level`` and ``batch_bytes`` apply to batches that are built from rows (Parquet,
    DataFrames).
    """

    topic_map: Pairs = setting((), "Give a topic another name.", default_text="OLD=NEW")
    topic_ids: Pairs = setting(
        (), "Give a topic this id, instead of the source's or a new one.", flag="--topic-id", default_text="TOPIC=ID"
    )
    topic_configs: Pairs = setting(
        (),
        "Setting of all topics, or of a single topic; repeatable.",
        flag="--config",
        default_text="[TOPIC:]NAME=VALUE",
    )
    keep_retention: bool = setting(
        False, "Keep the retention settings. Default: retention.ms is -1, so that the broker deletes nothing."
    )
    offsets: Literal["keep", "reassign"] = setting(KEEP_OFFSETS, "Keep the offsets, or assign new ones without gaps.")
    start_offset: int = setting(0, "First offset, with --offsets reassign.", minimum=0)
    on_damage: Literal["fail", "drop"] = setting(
        "fail", "At a damaged batch: stop, or omit the batch and report it.", stored_as=STORED_MODE
    )
    open_transactions: Literal["keep", "abort"] = setting(
        KEEP_OFFSETS, "Keep open transactions open, or abort them with a marker at the end of the log."
    )
    leader_epoch: int | None = setting(
        None, "Write this epoch into every batch of format 2. Use 0 for an existing cluster.", minimum=0
    )
    segment_bytes: int | None = setting(
        None, "Size of new segments, in bytes. Default: the segments of the source.", minimum=1
    )
    index_interval_bytes: int = setting(
        INDEX_INTERVAL_BYTES, "Bytes between two entries of the new indexes.", minimum=0
    )
    groups: bool = setting(True, "Also copy the committed offsets of groups.")
    offsets_partitions: int | None = setting(
        None, "Number of partitions of __consumer_offsets. Default: as in the source.", minimum=1
    )
    keep_commit_times: bool = setting(
        False,
        "Keep the commit timestamps of offsets. Default: the time of the restore, so that they do not "
        "expire immediately.",
    )
    record_format: Literal[0, 1, 2] = setting(2, "From Parquet.")
    codec: CodecName = setting("none", "Codec of the new batches, for Parquet sources.")
    level: int | None = setting(None, "Compression level. Default: Kafka's.")
    batch_bytes: int = setting(BATCH_BYTES, "Size of a batch in bytes, for Parquet sources.", minimum=1)
    bootstrap: Literal["kraft", "none"] = setting(
        KRAFT,
        "Write the metadata of a new single-node cluster (kraft), or only partition directories for an "
        "existing cluster (none).",
    )
    node_id: int = setting(1, "Node id of the new single node.", minimum=0)
    cluster_id: str | None = setting(None, "Cluster id of the new single node. Default: a new id.")
    release: str = setting(
        DEFAULT_RELEASE, "Kafka release of the new single node.", choices=tuple(FEATURE_LEVELS_BY_RELEASE)
    )

    def _reject_conflicts(self) -> None:
        RangeSettings._reject_conflicts(self)  # slots=True creates the class again, so super() would fail
        if self.start_offset and self.offsets != REASSIGN:
            raise OptionError("`start_offset` requires `offsets`=reassign")
        if self.segment_bytes is not None and self.segment_bytes > MAX_INT32:
            raise OptionError(f"`segment_bytes` must be 1 to 2^31 - 1, not {self.segment_bytes}")
        old_names, new_names = (
            [old_name for old_name, _ in self.topic_map],
            [new_name for _, new_name in self.topic_map],
        )
        if len(set(old_names)) != len(old_names) or len(set(new_names)) != len(new_names):
            raise OptionError("`topic_map` contains a topic twice")
        for _, text in self.topic_ids:
            parse_uuid(text)

    def get_limits(self, topic: str, partition: int) -> Limits:
        """Return the range of a source partition.

        Raises:
            OptionError: the range is specified by partition and does not name this one.
        """
        (first_offset, start_time), (end_offset, end_time) = (
            _resolve_bound(setting, limit, (topic, partition))
            for setting, limit in zip(("start", "end"), self.selection.log_range, strict=True)
        )
        return Limits(first_offset, end_offset, start_time, end_time)

    @property
    def has_offset_range(self) -> bool:
        """Whether the range starts or ends at an offset."""
        return any(limit not in (EARLIEST, LATEST) and not isinstance(limit, TimeBound) for limit in self._bounds)

    @property
    def has_time_range(self) -> bool:
        """Whether the range starts or ends at a time."""
        return any(isinstance(limit, TimeBound) for limit in self._bounds)

    @property
    def _bounds(self) -> tuple[Bound, Bound]:
        return self.selection.log_range

    def to_stored_values(self) -> dict[str, Any]:
        """Return the range as JSON values, under the keys that the reports of all releases use.

        A range that differs by partition adds two keys.
        """
        start, end = self._bounds
        values: dict[str, Any] = {
            "from_offset": get_common_offset(start),
            "until_offset": get_common_offset(end),
            "from_timestamp_ms": get_common_time(start),
            "until_timestamp_ms": get_common_time(end),
        }
        if isinstance(self.start, Mapping) or isinstance(self.end, Mapping):
            values |= {"start": to_stored_limit(start), "end": to_stored_limit(end)}
        elif end == EARLIEST:
            values["until_offset"] = EARLIEST
        return values

    @property
    def moves_offsets(self) -> bool:
        """Whether records get new offsets."""
        return self.offsets == REASSIGN

    def selects_topic(self, topic: str, *, is_internal: bool) -> bool:
        """Return whether to restore a topic.

        An internal topic is only selected by a pattern that starts with two underscores.
        """
        if not self.topics:
            return not is_internal
        return any(
            fnmatchcase(topic, pattern) and (not is_internal or pattern.startswith("__")) for pattern in self.topics
        )

    def rename_topic(self, topic: str) -> str:
        """Return the name of a topic after the restore."""
        return dict(self.topic_map).get(topic, topic)


def parse_uuid(topic_id: str) -> uuid.UUID:
    """Return the UUID of a topic or directory id.

    >>> parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ").int
    1

    Raises:
        OptionError: the text is not an id.
    """
    try:
        return uuid.UUID(bytes=base64.b64decode(topic_id + "==", altchars=b"-_", validate=True))
    except ValueError:
        raise OptionError(f"{topic_id!r} is not a topic id; expected 22 characters of URL-safe base64") from None
