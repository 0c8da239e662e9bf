"""Define the settings and the report of a mirror. The report can be converted to text and JSON. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.job import JsonDataclass, ReprAsText, format_counts
from kafkaframes.jobs.row_counts import check_row_counts
from kafkaframes.jobs.settings import END_HELP, POSITION_METAVAR, START_HELP, ValidatedSettings, setting
from kafkaframes.scan.ranges import Limit, check_batch_start
from kafkaframes.scan.selection import Selection

_BOOTSTRAP_SERVERS_PATTERN: Final = re.compile(r"[^/\\\s,]+:\d+(,[^/\\\s,]+:\d+)*")
KEEP_OFFSETS: Final = "keep"  # value of `offsets`
REASSIGN: Final = "reassign"  # value of `offsets`
GAPS_SETTING: Final = "kafkaframes.on.noncontiguous"  # topic setting of kafkaframes brokers, for mirrors


@dataclass(frozen=True, kw_only=True)
class MirrorSettings(ValidatedSettings):
    """Settings of ``mirror_topics``. Client properties have Kafka's names. Intervals only apply with ``follow``."""

    topics: str | Sequence[str] = setting(
        (),
        "Topic to select: a name or pattern; repeatable. Default: all topics except Kafka's internal ones.",
        flag="-t --topic",
    )
    partitions: int | Sequence[int] = setting(
        (), "Partition of these topics to select; repeatable.", minimum=0, flag="-p --partition"
    )
    start: Limit = setting(
        None, f"{START_HELP} It applies to partitions without a copy.", default_text=POSITION_METAVAR
    )
    end: Limit = setting(None, END_HELP, default_text=POSITION_METAVAR)
    groups: bool = setting(True, "Also copy the committed offsets of groups.")
    follow: bool = setting(False, "Copy new records and new topics until Ctrl-C.")
    dry_run: bool = setting(False, "Print the partitions and offsets to copy, and write nothing.")
    keep_retention: bool = setting(
        False, "Copy the retention settings of the source, so that the target deletes records by them."
    )
    offsets: Literal["keep", "reassign"] | None = setting(
        None, "Keep the offsets, or let the target assign new ones. Default: keep, if the target supports it."
    )
    on_damage: Literal["fail", "drop"] = setting("fail", "At a batch with a wrong CRC: stop, or omit it.")
    unverified: bool = setting(
        False, "Resume even if source and copy have no common record that proves that they belong together."
    )
    compare: Literal["all", "samples"] | None = setting(
        None,
        "Common records to compare before resuming. Default: all between two directories, otherwise samples.",
    )
    state_dir: str | None = setting(
        None,
        "Directory for the mapping of offsets, if the target assigns new ones.",
        flag="--state",
        default_text="DIR",
    )
    source_properties: Mapping[str, Any] = setting({}, "Client properties for the source.")
    target_properties: Mapping[str, Any] = setting({}, "Client properties for the target.")
    timeout_s: float = setting(5.0, "Maximum wait for the first response of each cluster, in seconds.")
    group_interval_s: float = setting(5.0, "Interval between copies of committed offsets.")
    topic_interval_s: float = setting(10.0, "Interval between searches for new topics and partitions.")

    def _reject_conflicts(self) -> None:
        if self.follow and self.dry_run:
            raise OptionError("`dry_run` and `follow` cannot be combined")
        if self.follow and self.end is not None:
            raise OptionError("`end` and `follow` cannot be combined")
        if isinstance(start := self.selection.live_range[0], int | Mapping):
            check_batch_start(start)

    @property
    def selection(self) -> Selection:
        """The topics, partitions and offsets that the settings select.

        Raises:
            OptionError: a value is invalid.
        """
        return Selection(topics=self.topics, partitions=self.partitions, start=self.start, end=self.end)


def check_endpoints(source: str, target: str) -> None:
    """Reject an empty source or target, and a source that equals the target.

    Raises:
        OptionError: an argument is rejected; the message names it.
    """
    for name, value in (("source", source), ("target", target)):
        if not value.strip():
            raise OptionError(f"`{name}` is empty; expected bootstrap servers or a log directory")
    if source == target:
        raise OptionError(f"`source` and `target` are the same: {source}")


def is_directory(endpoint: str) -> bool:
    """Return whether the source or target of a mirror is a log directory instead of bootstrap servers.

    >>> [is_directory(one) for one in ("a:9092,b:9092", "[::1]:9092", "/backup/kafka-logs", "copy", "./a:1")]
    [False, False, True, True, True]
    """
    return _BOOTSTRAP_SERVERS_PATTERN.fullmatch(endpoint.strip()) is None


@dataclass(slots=True)
class MirroredPartition(JsonDataclass):
    """The report of one partition.

    Attributes:
        from_offset: first source offset of this run.
        resumed: whether this run continued the copy of an earlier run.
        compared: number of offsets at which source and copy held the same record, compared before resuming.
        until_offset: first source offset that was not copied.
        target_end: log end offset of the copy.
        batches_read, batches_written: batches read from the source, and batches acknowledged by the target.
        bytes_read, bytes_written: sizes of the batches read and of the batches written, in bytes.
        records_read, records_written: records of data batches, counted from their headers or their contents.
        unopened: number of messages and message sets of formats 0 and 1 that were copied without parsing them. The
            records in them are not counted.
        left_out: number of records that were read but not written, by reason.
        batches_left_out: number of batches that were omitted as a whole, by reason.
        opened: number of batches with records that were decoded and written in new batches, by reason.
        rebuilt: number of new batches that replaced the ``opened`` ones.
        gone: number of offsets that the source deleted before they were read.
    """

    topic: str
    partition: int
    from_offset: int = 0
    resumed: bool = False
    until_offset: int = 0
    target_end: int = 0
    batches_read: int = 0
    batches_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    unopened: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    batches_left_out: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    rebuilt: int = 0
    gone: int = 0
    compared: int = 0

    def check_counts(self) -> None:
        """Check that the counts of read and written records and batches match.

        Raises:
            LogDirError: the counts do not match.
        """
        partition = f"{self.topic}-{self.partition}"
        check_row_counts(self.records_read, self.records_written, self.left_out, where=partition)
        explained_batches = sum(self.batches_left_out.values()) + sum(self.opened.values())
        if self.batches_read != self.batches_written - self.rebuilt + explained_batches:
            reason = (
                f"{count_text(self.batches_read, 'batch', 'batches')} "
                f"{verb_text(self.batches_read, 'was', 'were')} read, "
                f"{self.batches_written:,} written"
            )
            raise LogDirError(f"{reason}, which does not add up; please report this", file=partition)


@dataclass(slots=True, repr=False)
class MirrorReport(ReprAsText, JsonDataclass):
    """The report of a mirror. With ``is_dry_run`` it describes what the mirror would do.

    Attributes:
        source, target: as the caller specified them.
        keeps_offsets: whether the copy has the source's offsets.
        created: topics that were created in the target.
        configs_left: settings that the target does not accept, by topic.
        groups: number of groups with copied offsets.
        commits: number of committed offsets that were copied.
        commits_left: number of committed offsets that were not copied, by reason.
        was_stopped: whether the mirror was stopped before it was complete.
        not_read: files and directories of the source directory that could not be read, one line each.
    """

    source: str
    target: str
    keeps_offsets: bool = True
    is_dry_run: bool = False
    partitions: list[MirroredPartition] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    configs_left: dict[str, list[str]] = field(default_factory=dict)
    groups: int = 0
    commits: int = 0
    commits_left: Counter[str] = field(default_factory=Counter)
    was_stopped: bool = False
    not_read: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.build_summary_lines())

    def build_summary_lines(self) -> list[str]:
        """Return the lines of the summary."""
        destination_text = "offsets kept" if self.keeps_offsets else "new offsets, which are stored in a mapping"
        lines = [f"{self.source} to {self.target}: {destination_text}"]
        if self.created:
            lines.append(f"created: {', '.join(self.created)}")
        lines += [
            f"{topic}: the target does not accept the settings {', '.join(names)}"
            for topic, names in self.configs_left.items()
        ]
        lines += [line for partition in self.partitions for line in _format_partition_lines(partition, self.is_dry_run)]
        if not self.partitions and not self.created and not self.not_read:
            lines.append("no topics: the source has no topics that this user is allowed to see")
        lines += self.not_read
        if self.groups or self.commits_left:
            left_out_text = "".join(
                f", {number:,} left out ({reason})" for reason, number in sorted(self.commits_left.items())
            )
            lines.append(f"groups: {self.groups:,}, committed offsets: {self.commits:,}{left_out_text}")
        if self.is_dry_run:
            return [*lines, "dry run: nothing was written"]
        return [*lines, *self._build_total_lines()]

    def _build_total_lines(self) -> list[str]:
        """Return the lines with the totals of all partitions."""
        parts = self.partitions
        opened_batches = sum((report.opened for report in parts), Counter[str]())
        batches, sent_batches = (
            sum(report.batches_read for report in parts),
            sum(report.batches_written for report in parts),
        )
        records = format_counts(parts, "records_read", "records_written", "left_out")
        lines = [records, f"{count_text(batches, 'batch', 'batches')} read, {sent_batches:,} written"]
        if unopened_batches := sum(report.unopened for report in parts):
            kinds = "messages of formats 0 and 1 that were not decompressed"
            lines.append(f"{unopened_batches:,} of them are {kinds}, whose records are not counted")
        lines += [
            f"opened: {count_text(number, 'batch', 'batches')} ({reason})"
            for reason, number in sorted(opened_batches.items())
        ]
        return lines + (["stopped before the end; run the command again to continue"] if self.was_stopped else [])


def _format_partition_lines(report: MirroredPartition, is_dry_run: bool) -> list[str]:
    """Return the summary lines of one partition."""
    partition = f"{report.topic}-{report.partition}"
    verb = "would copy" if is_dry_run else "copied"
    is_continued = f"resumed at {report.from_offset:,}, " if report.resumed else ""
    if report.from_offset == report.until_offset:
        lines = [f"{partition}: {is_continued}nothing new at {report.until_offset:,}"]
    else:
        lines = [f"{partition}: {is_continued}{verb} offsets {report.from_offset:,} to {report.until_offset:,}"]
    return lines + (
        [f"{partition}: the source no longer had {count_text(report.gone, 'offset')}"] if report.gone else []
    )
