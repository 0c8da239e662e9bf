"""Measure recorded traffic in one pass: calls by API and version, latency, errors, clients and connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.capture.coverage import Coverage, entry_to_json, summarize_entries
from kafkaframes.capture.reader import CaptureBatches, CaptureOptions, read_traffic, split_traffic
from kafkaframes.errors import ErrorCode
from kafkaframes.jobs.analyze.outcome import SizeComparison
from kafkaframes.jobs.analyze.proposals import ProposalSettings
from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
from kafkaframes.jobs.analyze.traffic import TrafficTask
from kafkaframes.jobs.audit.audit import ALL, NOTHING, PART, Audit, UsageSummary, audit_uses
from kafkaframes.jobs.audit.uses import count_uses
from kafkaframes.protocol.messages.registry import Specs, specs_by_name
from kafkaframes.protocol.spec.releases import find_release

_CALL_COLUMNS: Final = (
    "requestTime",
    "latencyMs",
    "apiName",
    "apiKey",
    "apiVersion",
    "requestSizeBytes",
    "responseSizeBytes",
    "errors",
    "_error",
)
_BINS_PER_OCTAVE: Final = 8  # latency bins per power of two
_BIN_COUNT: Final = 40 * _BINS_PER_OCTAVE  # the bins cover 40 doublings of the shortest latency
_MIN_LATENCY_MS: Final = 0.001  # lower bound of the first latency bin


@dataclass
class ApiTraffic:
    """Counts of the calls of one version of one API."""

    api: str
    version: int
    calls: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    errors: int = 0
    latency: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BIN_COUNT, np.int64))

    def find_latency_quantile(self, share: float) -> float | None:
        """Return a quantile of the latency in ms, with an error of at most 9 %; None if no calls were answered.

        >>> ApiTraffic("Metadata", 12).find_latency_quantile(0.5) is None
        True
        """
        total = int(self.latency.sum())
        if not total:
            return None
        index = int(np.searchsorted(np.cumsum(self.latency), share * total))
        return float(_MIN_LATENCY_MS * 2 ** ((index + 0.5) / _BINS_PER_OCTAVE))


@dataclass
class TrafficReport:
    """The numbers on the traffic page."""

    paths: tuple[str, ...]
    apis: dict[tuple[str, int], ApiTraffic] = field(default_factory=dict)
    error_codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    minutes: Counter[int] = field(default_factory=Counter)
    connections: Counter[str] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    incomplete: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    kip_636: SizeComparison = field(default_factory=SizeComparison)
    audit: Audit | None = None

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(api.calls for api in self.apis.values())

    @property
    def judged(self) -> str:
        """How much of the input was measured: ``all``, ``part`` or ``nothing``."""
        if not self.calls:
            return NOTHING
        return PART if self.coverage.unread else ALL

    @property
    def judged_text(self) -> str:
        """The measured part of the input as a sentence, with a summary of unread parts; "" if everything was read."""
        unread = summarize_entries(self.coverage.unread)
        if self.judged == NOTHING:
            return f"Nothing was checked: no call in the input could be read{' (' + unread + ')' if unread else ''}."
        return f"Part of the input was checked. Not read: {unread}." if self.judged == PART else ""

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        return {
            "judged": self.judged,
            "paths": list(self.paths),
            "calls": self.calls,
            "apis": [
                {
                    "api": api_traffic.api,
                    "version": api_traffic.version,
                    "calls": api_traffic.calls,
                    "requestBytes": api_traffic.request_bytes,
                    "responseBytes": api_traffic.response_bytes,
                    "errors": api_traffic.errors,
                    "latencyMsMedian": api_traffic.find_latency_quantile(0.5),
                    "latencyMsP99": api_traffic.find_latency_quantile(0.99),
                }
                for api_traffic in self.apis.values()
            ],
            "errorCodes": [
                {"api": api, "code": code, "name": ErrorCode(code).name, "count": count}
                for (api, code), count in self.error_codes.most_common()
            ],
            "connections": dict(self.connections),
            "gaps": dict(self.gaps),
            "unread": [entry_to_json(entry) for entry in self.coverage.unread],
            "harmless": [entry_to_json(entry) for entry in self.coverage.harmless],
            "incompleteCalls": self.incomplete,
            "kip636": {
                kind: {"before": size_totals.before, "after": size_totals.after}
                for (kind,), size_totals in self.kip_636.sum_totals_by("kind").items()
                if size_totals.messages
            },
        }


def make_traffic_report(
    files: Sequence[str], *, ports: Sequence[int] = (), target: str = "4.0.1", specs: Specs | None = None
) -> TrafficReport:
    """Measure captures and request logs.

    Args:
        ports: ports on which the captured brokers listen; empty to recognize brokers by their traffic.
        target: release for the audit of the clients.
        specs: user-defined message specs. All other messages use the specs in the catalog.

    Raises:
        DecodeError: the only file is neither a capture nor a request log.
    """
    report = TrafficReport(tuple(files))
    settings = ProposalSettings("kip-636", before=None if specs is None else specs_by_name(specs))
    options = CaptureOptions(columns=_CALL_COLUMNS, ports=tuple(ports), apis=settings.apis)
    for batch in read_traffic(files, options, report.coverage):
        _count_calls(report, batch)
    captures, _ = split_traffic(files)
    for table, column, counter in (("connections", "protocol", report.connections), ("gaps", "reason", report.gaps)):
        columns = ("connection", column)
        options = CaptureOptions(table=table, columns=columns, ports=tuple(ports), apis=settings.apis)
        for batch in CaptureBatches(captures, options, is_alone=len(files) == 1) if captures else ():
            counter.update(batch.column(1).filter(batch.column(0).is_valid()).to_pylist())
    report.kip_636 = run_comparison_task(ComparisonTask(TrafficTask(tuple(files), ports=tuple(ports)), settings))
    uses = UsageSummary()
    count_uses(files, find_release(target), uses, ports=ports, apis=settings.apis)
    report.audit = audit_uses(uses, find_release(target), settings.apis)
    return report


def _count_calls(report: TrafficReport, batch: pa.RecordBatch) -> None:
    """Add the calls in a batch to the report."""
    table = pa.Table.from_batches([batch])
    report.incomplete += len(table) - table.column("_error").null_count
    names = table.column("apiName").fill_null("unknown").to_pylist()
    versions = table.column("apiVersion").fill_null(-1).to_pylist()
    sizes = [table.column(f"{side}SizeBytes").fill_null(0).to_pylist() for side in ("request", "response")]
    bins = _find_bins(table.column("latencyMs").to_numpy())
    errors = table.column("errors").to_pylist()
    times = table.column("requestTime").cast(pa.int64()).to_pylist()
    for index, key in enumerate(zip(names, versions, strict=True)):
        entry = report.apis.setdefault(key, ApiTraffic(*key))
        entry.calls += 1
        entry.request_bytes += sizes[0][index]
        entry.response_bytes += sizes[1][index]
        if bins[index] >= 0:
            entry.latency[bins[index]] += 1
        if errors[index]:
            entry.errors += 1
            report.error_codes.update((key[0], result["code"]) for result in errors[index])
        if times[index] is not None:
            report.minutes[times[index] // 1_000_000] += 1


def _find_bins(latency: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the bin of each latency; -1 for a call without a latency."""
    has_latency = ~np.isnan(latency)
    result = np.full(len(latency), -1, np.int64)
    bin_numbers = np.log2(np.maximum(latency[has_latency], _MIN_LATENCY_MS) / _MIN_LATENCY_MS) * _BINS_PER_OCTAVE
    result[has_latency] = np.clip(bin_numbers.astype(np.int64), 0, _BIN_COUNT - 1)
    return result
