"""Define the settings of exports to files: which records are read, and how they are written.

``ReadSettings`` are common to all jobs that export records to files or tables. A ``Selection`` is built from the
settings of the range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import (
    END_HELP,
    FOLLOW_LINKS_HELP,
    KEY_FILES_HELP,
    POSITION_METAVAR,
    START_HELP,
    ValidatedSettings,
    setting,
)
from kafkaframes.scan.ranges import Limit
from kafkaframes.scan.selection import Isolation, OnDamage, Selection
from kafkaframes.scan.where import TimeRange, create_row_filter
from kafkaframes.storage.files.filesystem import storage_options

if TYPE_CHECKING:
    from kafkaframes.jobs.export.task import ExportTaskSettings
    from kafkaframes.scan.log.options import ReadOptions
    from kafkaframes.scan.topic.options import TopicOptions


@dataclass(frozen=True, kw_only=True)
class ReadSettings(ValidatedSettings):
    """Settings that select topics and ranges of their records.

    The keywords of ``scan_log`` and ``scan_topic`` have the same names.
    """

    partitions: int | Sequence[int] = setting(
        (), "Partition of these topics to select; repeatable.", minimum=0, flag="-p --partition"
    )
    start: Limit = setting(None, START_HELP, default_text=POSITION_METAVAR)
    end: Limit = setting(None, END_HELP, default_text=POSITION_METAVAR)
    isolation: Isolation | None = setting(
        None, "read_committed omits records of aborted and open transactions. Default, except for single segments."
    )
    control_records: bool = setting(False, "Include transaction markers and other control records.")
    on_damage: OnDamage = setting(
        "keep", "At a damaged batch: read the records that Kafka would read, omit the batch, or stop."
    )
    fail_on_data_loss: bool = setting(True, "Fail if a log or topic no longer has an offset of the range.")
    headers: bool = setting(True, "Include the column headers.")
    verify_crc: bool = setting(True, "Treat a wrong CRC as damage.")

    def make_filter(self, topics: str | Sequence[str]) -> Selection:
        """Return the selection of records."""
        return Selection(
            topics=topics,
            partitions=self.partitions,
            start=self.start,
            end=self.end,
            isolation=self.isolation,
            control_records=self.control_records,
            on_damage=self.on_damage,
        )

    def make_topic_options(self, client: Mapping[str, Any], topics: str | Sequence[str]) -> TopicOptions:
        """Return the options for reading live topics.

        Args:
            client: consumer settings under Kafka's names, with the isolation level.
            topics: topic names or patterns.

        Raises:
            OptionError: a setting of the client is invalid, or no topic is selected.
        """
        from kafkaframes.scan.topic.options import select_from_topics

        return select_from_topics(
            client,
            self.make_filter(topics),
            fail_on_data_loss=self.fail_on_data_loss,
            include_headers=self.headers,
        )


@dataclass(frozen=True, kw_only=True)
class ConditionSettings(ReadSettings):
    """Settings that also select records in the range by conditions, such as a key."""

    timestamp: TimeRange | None = setting(None, "Range of record timestamps to select (from, to).")
    keys: Sequence[bytes] = setting((), "Keys of the records to select.")
    key_regex: str | None = setting(
        None, "Regular expression for the keys of the records to select.", default_text="REGEX"
    )

    def make_task_settings(self, to: str) -> ExportTaskSettings:
        """Return the settings that all tasks of a job with this destination share.

        The plan sets the isolation level.
        """
        from kafkaframes.jobs.dump.chunks import RecordFilter, compile_key_pattern
        from kafkaframes.jobs.export.task import ExportTaskSettings

        from_offset, until_offset = create_row_filter(timestamp=self.timestamp).timestamps_ms
        record_filter = RecordFilter(
            from_timestamp=from_offset,
            until_timestamp=until_offset,
            keys=frozenset(self.keys) or None,
            key_pattern=compile_key_pattern(self.key_regex) if self.key_regex else None,
            control=self.control_records,
        )
        return ExportTaskSettings(
            to,
            keep=record_filter,
            on_damage=self.on_damage,
            verify_crc=self.verify_crc,
            headers=self.headers,
        )


@dataclass(frozen=True, kw_only=True)
class LogSourceSettings(ReadSettings):
    """Settings that select logs and their files."""

    topics: str | Sequence[str] = setting(
        (),
        "Topic to select: a name or pattern; repeatable. Default: all topics except Kafka's internal ones.",
        flag="-t --topic",
    )
    internal_topics: bool = setting(False, "Include Kafka's internal topics.")
    key_files: Sequence[str] = setting(
        (),
        KEY_FILES_HELP,
        flag="--key-file",
        default_text="[ID=]FILE",
        is_recorded=False,
    )
    follow_links: bool = setting(False, FOLLOW_LINKS_HELP, is_recorded=False)
    storage: Mapping[str, Any] | None = setting(
        None, "Arguments for the fsspec file system of an object store.", secret=True
    )

    def make_read_options(self, paths: Sequence[str], *, replicas: str = "merge") -> ReadOptions:
        """Return the options for reading these paths."""
        from kafkaframes.scan.log.options import ReadOptions

        return ReadOptions(
            tuple(paths),
            **self.make_filter(self.topics).log_fields(),
            no_match="latest",
            fail_on_data_loss=self.fail_on_data_loss,
            include_headers=self.headers,
            include_internal=self.internal_topics,
            replicas=replicas,
            verify_crc=self.verify_crc,
            storage=storage_options(self.key_files, follow_links=self.follow_links, store=self.storage),
        )


@dataclass(frozen=True, kw_only=True)
class TopicExportSettings(ConditionSettings):
    """Settings of ``export_topics``."""

    isolation: Isolation = setting("read_committed", "read_committed omits records of aborted and open transactions.")
    format: Literal["parquet", "arrow", "csv", "json"] = setting("parquet", "Format of the files.")
    base64: bool = setting(False, "CSV: write keys, values and header values in base64, which preserves every byte.")
    overwrite: bool = setting(False, "Replace the output of an earlier export.")
    single_file: bool = setting(False, "Write one Parquet file, with topic and partition as columns.")

    def make_file_settings(self, to: str) -> ExportTaskSettings:
        """Return the settings that all tasks of an export to files share. The plan sets the isolation level."""
        return replace(self.make_task_settings(to), form=self.format, base64=self.base64)

    def _reject_conflicts(self) -> None:
        if self.base64 and self.format != "csv":
            raise OptionError(
                "`base64` requires `format`=csv; json writes bytes that are not UTF-8 as "
                '{"base64": "..."}, and other formats store bytes'
            )
        if self.single_file and self.format != "parquet":
            raise OptionError(f"`single_file` requires `format`=parquet, not {self.format}")


@dataclass(frozen=True, kw_only=True)
class ExportSettings(LogSourceSettings, TopicExportSettings):
    """Settings of ``export_log``."""

    isolation: Isolation | None = setting(  # type: ignore[assignment]
        None, "read_committed omits records of aborted and open transactions. Default, except for single segments."
    )
    replicas: Literal["merge", "all"] = setting(
        "merge", "Several copies of a partition (brokers, disks): merge them into one log, or export each copy."
    )
