"""What a restore is to do: which records, under which offsets and names, and for what kind of node."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from kafkaframes.errors import OptionError
from kafkaframes.jobs.restore.kraft import uuid_of
from kafkaframes.jobs.restore.names import ABORT, DEFAULT_RELEASE, KEEP, KRAFT, NO_BOOTSTRAP, REASSIGN, RELEASES
from kafkaframes.records.build import DEFAULT_BATCH_BYTES
from kafkaframes.records.codecs import codec_of
from kafkaframes.records.reasons import DROPMALFORMED, FAILFAST
from kafkaframes.storage.log.rebuild import INDEX_INTERVAL_BYTES
from kafkaframes.storage.log.segment_writer import LARGEST_SEGMENT

_CHOICES = {
    "offsets": (KEEP, REASSIGN),
    "mode": (FAILFAST, DROPMALFORMED),
    "open_transactions": (KEEP, ABORT),
    "bootstrap": (KRAFT, NO_BOOTSTRAP),
    "release": tuple(RELEASES),
}
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSettings:
    """The settings of a restore; picklable, for it travels to other processes.

    Attributes:
        topics: names or patterns (``orders``, ``shop.*``); none is every topic of users'.
        partitions: numbers; none is every one.
        topic_map: pairs of an old name and a new one.
        topic_ids: pairs of a (new) name and an id, before what the sources say.
        topic_configs: pairs of ``topic:name``, or ``name`` for every topic, and a value.
        keep_retention: leave ``retention.ms`` as the source's or the broker's; otherwise nothing expires.
        offsets: ``keep``, or ``reassign``: contiguous from ``start_offset`` on, in each partition.
        from_offset, until_offset: the first offset that is restored, and the first that is not, as the source has them.
        from_timestamp_ms, until_timestamp_ms: likewise the first record that reaches a time; milliseconds.
        mode: ``FAILFAST`` stops at the first damaged batch, ``DROPMALFORMED`` leaves it out and says so.
        open_transactions: ``keep`` those without a marker open, or ``abort`` them with a marker at the log's end.
        leader_epoch: into every batch of format 2: an existing cluster's, which must not be below a log's.
        segment_bytes: cut segments anew; by default they are cut as the source's are.
        groups: whether committed offsets are restored.
        offsets_partitions: how many partitions ``__consumer_offsets`` gets; by default as many as the source's.
        keep_commit_times: leave the times of commits; otherwise they are the restore's, so that none expires at once.
        record_format, codec, level, batch_bytes: of the batches that are built of rows (Parquet, DataFrames).
        bootstrap: ``kraft``: also what a new single node starts from; ``none``: partitions for an existing cluster.
        node_id, cluster_id, release: of the new node; an id is generated where none is given.
    """

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    topic_map: Pairs = ()
    topic_ids: Pairs = ()
    topic_configs: Pairs = ()
    keep_retention: bool = False
    offsets: str = KEEP
    start_offset: int = 0
    from_offset: int | None = None
    until_offset: int | None = None
    from_timestamp_ms: int | None = None
    until_timestamp_ms: int | None = None
    mode: str = FAILFAST
    open_transactions: str = KEEP
    leader_epoch: int | None = None
    segment_bytes: int | None = None
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    groups: bool = True
    offsets_partitions: int | None = None
    keep_commit_times: bool = False
    record_format: int = 2
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    bootstrap: str = KRAFT
    node_id: int = 1
    cluster_id: str | None = None
    release: str = DEFAULT_RELEASE

    def __post_init__(self) -> None:
        """Refuse what cannot be done with any source.

        Raises:
            OptionError: names the setting.
        """
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        if self.start_offset and self.offsets != REASSIGN:
            raise OptionError("start_offset is for offsets that are reassigned")
        if self.start_offset < 0 or (self.leader_epoch or 0) < 0 or self.node_id < 0:
            raise OptionError("start_offset, leader_epoch and node_id are 0 or more")
        if self.segment_bytes is not None and not 1 <= self.segment_bytes <= LARGEST_SEGMENT:
            raise OptionError(f"segment_bytes is 1 to 2^31 - 1, not {self.segment_bytes}")
        if self.offsets_partitions is not None and self.offsets_partitions < 1:
            raise OptionError("offsets_partitions is at least 1")
        if self.record_format not in (0, 1, 2):
            raise OptionError(f"no record format {self.record_format!r}; there are 0, 1 and 2")
        codec_of(self.codec)
        self._check_names()

    def _check_names(self) -> None:
        olds, news = [old for old, _ in self.topic_map], [new for _, new in self.topic_map]
        if len(set(olds)) != len(olds) or len(set(news)) != len(news):
            raise OptionError("a topic map names a topic twice")
        for _, text in self.topic_ids:
            uuid_of(text)

    @property
    def moves_offsets(self) -> bool:
        """Whether a record may get another offset than it had."""
        return self.offsets == REASSIGN

    def wants_topic(self, topic: str, *, is_internal: bool) -> bool:
        """Say whether a topic of the source is requested; an internal one has to be named in full or by its start."""
        if not self.topics:
            return not is_internal
        return any(
            fnmatchcase(topic, pattern) and (not is_internal or pattern.startswith("__")) for pattern in self.topics
        )

    def new_name(self, topic: str) -> str:
        """Return what a topic is called afterwards."""
        return dict(self.topic_map).get(topic, topic)
