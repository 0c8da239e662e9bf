"""What decides how rows are written: the same for all workers and for the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.build import DEFAULT_BATCH_BYTES
from kafkaframes.records.codecs import Codec, codec_of
from kafkaframes.storage.files import names
from kafkaframes.storage.log.rebuild import INDEX_INTERVAL_BYTES
from kafkaframes.storage.log.segment_writer import DEFAULT_SEGMENT_BYTES, SegmentSettings

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588  # message.max.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """How rows become batches and segments; picklable.

    Attributes:
        now_ms: the clock, in milliseconds: the timestamp of rows without one.
        topic: of all rows; stronger than their column.
        partitions: how many partitions each topic has that is known before.
        num_partitions: how many every other topic has; ``None``: one, or as many as the rows' own numbers ask for.
        record_format, codec, level: the format of the batches.
        batch_bytes, batch_records: a batch ends before it would be larger.
        max_message_bytes: the largest batch, so also the largest record.
        keep_offsets: rows have offsets, and keep them.
        segment_bytes, index_interval_bytes: as for a broker.
        topic_ids: the ids of new topics; others get new ones.
        node_id, cluster_id: of the node that a new directory is for; ``None``: a new cluster's.
    """

    now_ms: int
    topic: str | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    num_partitions: int | None = None
    record_format: int = 2
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    batch_records: int | None = None
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    keep_offsets: bool = False
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    node_id: int = 1
    cluster_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no format can say.

        Raises:
            OptionError, EncodeError: name the setting.
        """
        if self.record_format not in (0, 1, 2):
            raise OptionError(f"no record format {self.record_format!r}; there are 0, 1 and 2")
        if codec_of(self.codec) is Codec.ZSTD and self.record_format < 2:
            raise EncodeError(f"zstd needs format 2, not {self.record_format}").within("codec")
        if self.topic is not None:
            names.check_topic(self.topic)
        _ = self.segments

    @property
    def segments(self) -> SegmentSettings:
        """How partitions are cut and indexed."""
        return SegmentSettings(segment_bytes=self.segment_bytes, index_interval_bytes=self.index_interval_bytes)

    @property
    def compresses_late(self) -> bool:
        """Whether offsets stand inside what is compressed (format 0), so that only the commit can compress."""
        return self.record_format == 0 and codec_of(self.codec) is not Codec.NONE
