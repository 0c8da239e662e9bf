"""What to export, a segment as a task and what holds for all, and what became of it: values that travel to workers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from kafkaframes.jobs.dump.filters import Filter
from kafkaframes.storage.copies.healing import Alternate
from kafkaframes.storage.files.filesystem import split
from kafkaframes.storage.files.txn_index import AbortedTransaction


@dataclass(frozen=True, slots=True)
class ExportTask:
    """One segment.

    Attributes:
        path: of the ``.log``, on a disk or by URL.
        size_bytes: as it was listed; what a broker appends later is left for the next run.
        first_offset, end_offset: records outside are left out; None is no bound, the end is exclusive.
        start: the position of the batch to begin with.
        aborted: transactions whose batches are left out.
        label: what the output is called in place of the segment, where a part of it stands in a log merged from copies.
        source: the log directory, where each of several copies is exported.
        alternates: where other copies have the same offsets, for batches that turn out to be damaged.
    """

    path: str
    size_bytes: int
    base_offset: int
    topic: str
    partition: int
    first_offset: int | None = None
    end_offset: int | None = None
    start: int = 0
    aborted: tuple[AbortedTransaction, ...] = ()
    label: str = ""
    source: str = ""
    alternates: tuple[Alternate, ...] = ()

    @property
    def name(self) -> str:
        """Where the output lies below the destination, without its suffix."""
        copy = f"/source={quote(self.source, safe='')}" if self.source else ""
        label = self.label or split(self.path)[1].replace(".log", "")
        return f"topic={self.topic}/partition={self.partition}{copy}/{label}"


NO_CONTROL = Filter(control=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every segment of an export.

    Attributes:
        to: the destination, a directory that every worker can write.
        form: parquet, arrow, csv or json.
        keep: conditions on records; its offsets are not looked at (each task has its own).
        mode, verify_crc: as ``kafka-log`` has them.
        headers: whether the output has the column ``headers``.
        base64: csv and json: keys, values and header values in base64, so that no byte is lost.
        storage: options of the store, if the log lies in one, and the key files of encrypted tiered segments.
    """

    to: str
    form: str = "parquet"
    keep: Filter = NO_CONTROL
    mode: str = "PERMISSIVE"
    verify_crc: bool = True
    headers: bool = True
    base64: bool = False
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def fingerprint(self) -> dict[str, Any]:
        """Return what must be the same in every run into one destination, as JSON values."""
        values = asdict(self)
        del values["to"], values["storage"]
        return dict(json.loads(json.dumps(values, default=_as_json, sort_keys=True)))


def _as_json(value: Any) -> Any:
    if isinstance(value, re.Pattern):
        return value.pattern.decode("latin-1")
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return sorted(map(_as_json, value))


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic as it was written. Timestamps are None where no record has one; sizes are in bytes."""

    topic: str
    partitions: int
    records: int
    payload_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CodecSummary:
    """What one codec stored: ``log_bytes`` in segments for ``payload_bytes`` of keys, values and headers."""

    codec: str
    batches: int
    records: int
    log_bytes: int
    payload_bytes: int

    @property
    def ratio(self) -> float:
        """Payload bytes for each byte of log."""
        return self.payload_bytes / self.log_bytes if self.log_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is in the log and not in the output, and why. ``records`` is None where it cannot be known."""

    reason: str
    batches: int
    records: int | None
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a job. ``internal_topics`` were not asked for; ``records_read`` is how many the log gave."""

    topics: tuple[TopicSummary, ...]
    codecs: tuple[CodecSummary, ...]
    dropped: tuple[Dropped, ...]
    internal_topics: tuple[str, ...]
    output: str
    seconds: float
    records_read: int | None = None

    @property
    def records(self) -> int:
        """Records written."""
        return sum(topic.records for topic in self.topics)
