"""Define the contents of a report as plain values. The page is drawn from these values, and ``--json`` prints them.

Sizes are in bytes, and times in milliseconds since 1970 (-1 for none). End offsets are exclusive. If a partition has
several copies, its numbers are those of the merged log, and only ``disk_bytes`` includes all copies.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kafkaframes.jobs.report.copies import CopyReport
from kafkaframes.jobs.report.histograms import SizeHistogram
from kafkaframes.jobs.report.measure import DamagedBatch, FormatCounts, LogCounts
from kafkaframes.jobs.report.metadata import OpenTransaction, TransactionCounts
from kafkaframes.storage.files.findings import Finding, Severity, describe_caveats

REPORT_FORMAT_VERSION = 2  # version of the JSON form


@dataclass(slots=True)
class SizeReport:
    """A histogram of sizes or durations.

    ``bins`` are tuples (low, high, count), where ``high`` is exclusive. The relative error of quantiles is at most
    1/16.
    """

    count: int = 0
    total: int = 0
    smallest: int = 0
    largest: int = 0
    median: int = 0
    p90: int = 0
    p99: int = 0
    bins: list[tuple[int, int, int]] = field(default_factory=list)

    @classmethod
    def from_histogram(cls, sizes: SizeHistogram) -> SizeReport:
        """Create the report of a histogram."""
        median, p90, p99 = (sizes.estimate_quantile(share) for share in (0.5, 0.9, 0.99))
        bins = [(histogram_bin.low, histogram_bin.high, histogram_bin.count) for histogram_bin in sizes.list_octaves()]
        return cls(len(sizes), sizes.total, sizes.smallest, sizes.largest, median, p90, p99, bins)


@dataclass(slots=True)
class TimeReport:
    """Records over time.

    Attributes:
        unit: width of a bucket, in words.
        edges: bounds of the buckets, one more than there are counts.
        before, after: number of records outside of the edges.
        without: number of records without a timestamp.
    """

    first: int = -1
    last: int = -1
    unit: str = ""
    edges: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    before: int = 0
    after: int = 0
    without: int = 0
    append_time: int = 0


@dataclass(slots=True)
class KeyReport:
    """The keys of a topic.

    Attributes:
        compacted: evidence that the topic is compacted; "" if it is not.
        standard_error: relative standard error of ``distinct``; 0 if it is exact.
    """

    compacted: str = ""
    keyed: int = 0
    without_key: int = 0
    distinct: int = 0
    standard_error: float = 0.0
    tombstones: int = 0


@dataclass(slots=True)
class TransactionReport:
    """Transactions by outcome. A transaction counts once in each of its partitions."""

    committed: int = 0
    aborted: int = 0
    open: int = 0
    empty_markers: int = 0
    durations: SizeReport = field(default_factory=SizeReport)
    oldest_open: list[OpenTransaction] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of committed, aborted and open transactions."""
        return self.committed + self.aborted + self.open


@dataclass(slots=True)
class TopicReport:
    """One topic.

    Attributes:
        size_bytes: size of the topic's batches, with each log counted once even if it has several copies.
        disk_bytes: size of the ``.log`` files of all copies.
        raw_bytes: uncompressed size of the undamaged batches.
        log_bytes: size of the undamaged batches in the log.
        activity: number of records in each bucket of the report's ``times``.
    """

    name: str
    is_internal: bool
    partitions: int = 0
    copies: int = 0
    segments: int = 0
    size_bytes: int = 0
    disk_bytes: int = 0
    log_bytes: int = 0
    raw_bytes: int = 0
    batches: int = 0
    records: int = 0
    control_records: int = 0
    with_headers: int = 0
    record_sizes: SizeReport = field(default_factory=SizeReport)
    first: int = -1
    last: int = -1
    activity: list[int] = field(default_factory=list)
    cells: list[FormatCounts] = field(default_factory=list)
    keys: KeyReport = field(default_factory=KeyReport)
    transactions: TransactionReport = field(default_factory=TransactionReport)
    errors: int = 0


@dataclass(slots=True)
class PartitionReport:
    """One partition. ``missing_offsets`` is the number of offsets without a record between first and last batch."""

    topic: str
    partition: int
    directories: list[str]
    start_offset: int
    end_offset: int
    high_watermark: int | None
    segments: int
    size_bytes: int
    batches: int
    records: int
    missing_offsets: int
    leader_epochs: int
    first: int
    last: int
    errors: int


@dataclass(slots=True)
class ProducerReport:
    """The batches of one producer id. The id -1 collects all batches without a producer id.

    ``name`` is the transactional id if the log directory contains ``__transaction_state``, which stores these ids.
    """

    producer_id: int
    name: str
    epoch: int
    batches: int
    records: int
    log_bytes: int
    first: int
    last: int
    topics: list[str]


@dataclass(slots=True)
class DirectoryReport:
    """A directory that was read."""

    path: str
    node_id: int | None
    cluster_id: str | None
    clean_shutdown: bool
    partitions: int
    size_bytes: int


@dataclass(slots=True)
class UnreadFile:
    """A file or directory that was not measured, and the reason."""

    what: str
    why: str
    size_bytes: int | None = None


@dataclass(slots=True)
class LogReport:
    """The whole report. Topics are sorted by size, the largest first. ``findings`` also include the ``losses``."""

    version: str
    paths: list[str]
    generated_at: int
    directories: list[DirectoryReport]
    topics: list[TopicReport]
    partitions: list[PartitionReport]
    times: TimeReport
    record_sizes: SizeReport
    batch_sizes: SizeReport
    producers: list[ProducerReport]
    transactions: TransactionReport
    copies: list[CopyReport]
    findings: list[Finding]
    losses: list[DamagedBatch]
    not_read: list[UnreadFile]

    @property
    def is_sound(self) -> bool:
        """Whether no records are damaged, missing or out of order."""
        return not self.errors()

    @property
    def caveats(self) -> tuple[str, ...]:
        """Properties of an undamaged log that would surprise consumers if a broker served it."""
        return describe_caveats(self.findings)

    def errors(self, severity: Severity = Severity.ERROR) -> int:
        """Return the number of findings with a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def total(self, name: str) -> int:
        """Return the sum of an attribute, such as ``records``, over all topics."""
        return sum(getattr(topic, name) for topic in self.topics)

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        values = _add_units(asdict(self))
        values["findings"] = [finding.as_json() for finding in self.findings]
        return {
            "report_version": REPORT_FORMAT_VERSION,
            "sound": self.is_sound,
            "caveats": list(self.caveats),
            **values,
        }


_NAME_WITH_UNIT_BY_FIELD = {
    "first": "first_timestamp_ms",
    "last": "last_timestamp_ms",
    "generated_at": "generated_at_ms",
}
_FIELDS_WITH_UNKNOWN_VALUE = frozenset((*_NAME_WITH_UNIT_BY_FIELD, "producer_id", "epoch"))  # -1 means unknown


def _add_units(value: Any) -> Any:
    """Add units to the names of JSON values, and replace a missing timestamp or producer id (-1) with None."""
    if isinstance(value, list | tuple):
        return [_add_units(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        _NAME_WITH_UNIT_BY_FIELD.get(name, name): None
        if entry == -1 and name in _FIELDS_WITH_UNKNOWN_VALUE
        else _add_units(entry)
        for name, entry in value.items()
    }


@dataclass(slots=True)
class TopicTotals:
    """The running totals of a topic, to which each measured segment is added."""

    measure: LogCounts = field(default_factory=LogCounts)
    segments: int = 0
    size_bytes: int = 0
    disk_bytes: int = 0
    copies: int = 0
    directories: list[str] = field(default_factory=list)
    partitions: list[PartitionReport] = field(default_factory=list)
    transactions: list[TransactionCounts] = field(default_factory=list)
    lossless: bool = True
