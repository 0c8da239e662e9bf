"""The settings of an export, and their conversion to read options and to the settings of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import POSITION, Checked, setting
from kafkaframes.scan.ranges import Limit
from kafkaframes.scan.selection import Selection
from kafkaframes.scan.where import TimeRange, where_of

if TYPE_CHECKING:
    from kafkaframes.jobs.export.task import Settings
    from kafkaframes.scan.log.options import ReadOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings(Checked):
    """Settings of ``export_log``. Settings that ``read_records`` also has mean the same there."""

    format: Literal["parquet", "arrow", "csv", "json"] = setting("parquet", "Format of the files.")
    topics: Sequence[str] = setting(
        (),
        "Topic to select: a name or pattern; repeatable. Default: all topics except Kafka's internal ones.",
        flag="-t --topic",
    )
    partitions: Sequence[int] = setting(
        (), "Partition of these topics to select; repeatable.", least=0, flag="-p --partition"
    )
    start: Limit = setting(None, "First offset, or earliest time, to read in each partition.", shown=POSITION)
    end: Limit = setting(None, "End offset or end time in each partition, exclusive.", shown=POSITION)
    timestamp: TimeRange | None = setting(None, "Range of record timestamps to select (from, to).")
    keys: Sequence[bytes] = setting((), "Keys of the records to select.")
    key_regex: str | None = setting(None, "Regular expression for the keys of the records to select.", shown="REGEX")
    headers: bool = setting(True, "Whether headers are among the columns.")
    base64: bool = setting(False, "CSV: write keys, values and header values in base64, so that no byte is lost.")
    overwrite: bool = setting(False, "Replace the files of an earlier export.")
    on_damage: Literal["keep", "drop", "fail"] = setting(
        "keep", "At a damaged batch: read the records that Kafka would read, omit the batch, or stop."
    )
    verify_crc: bool = setting(True, "Treat a wrong CRC as damage.")
    control_records: bool = setting(False, "Also export transaction markers.")
    internal_topics: bool = setting(False, "Also export Kafka's internal topics.")
    replicas: Literal["merge", "all"] = setting(
        "merge", "Several copies of a partition (brokers, disks): merge them into one log, or export each copy."
    )
    storage: Mapping[str, Any] | None = setting(
        None, "Arguments for the fsspec file system of an object store.", secret=True
    )

    def _refuse(self) -> None:
        if self.base64 and self.format != "csv":
            raise OptionError(
                '`base64` is for csv: json writes bytes that are not UTF-8 as {"base64": "..."}, the rest keep bytes'
            )

    def read_fields(self) -> dict[str, Any]:
        """Return the fields of ``ReadOptions`` that these settings determine: all except the paths."""
        selection = Selection(
            topics=self.topics,
            partitions=self.partitions,
            start=self.start,
            end=self.end,
            isolation="read_uncommitted",
            control_records=self.control_records,
            on_damage=self.on_damage,
        )
        return {
            **selection.log_fields(),
            "include_headers": self.headers,
            "include_internal": self.internal_topics,
            "replicas": self.replicas,
            "verify_crc": self.verify_crc,
            "storage": self.storage or {},
        }

    def files(self, to: str, read: ReadOptions) -> Settings:
        """Return the settings that are common to all segments of an export with these read options."""
        from kafkaframes.jobs.dump.chunks import Filter, key_pattern
        from kafkaframes.jobs.export.task import Settings

        first, end = where_of(timestamp=self.timestamp).timestamps_ms
        keep = Filter(
            from_timestamp=first,
            until_timestamp=end,
            keys=frozenset(self.keys) or None,
            key_pattern=key_pattern(self.key_regex) if self.key_regex else None,
            control=read.include_control,
        )
        return Settings(
            to,
            self.format,
            keep,
            on_damage=read.on_damage,
            verify_crc=read.verify_crc,
            headers=read.include_headers,
            base64=self.base64,
            storage=read.storage,
        )
