"""Sum the sizes of messages in the old and the proposed layout by API, version, direction and kind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kafkaframes.capture.coverage import Coverage
from kafkaframes.jobs.analyze.sizes import GAINED, LEAD, LEAD_SET, NULL_LENGTH

NOT_READ: Final = "not read"  # kind of messages that could not be decoded
# Kind of messages that could not be raised to a newer version, such as messages that the new specs do not have.
NOT_RAISED: Final = "not raised"
_TAG_HEADER_BYTES: Final = 2.0  # size of a tag and of a length below 128


class SizeGroup(NamedTuple):
    """A group of messages.

    ``client``, ``connection`` and ``second`` are None unless sizes are grouped by them.
    """

    api_key: int
    api_version: int
    direction: str
    kind: str
    client: str | None = None
    connection: str | None = None
    second: int | None = None


@dataclass
class SizeTotals:
    """The total size of messages in the old and in the proposed layout.

    Messages that only one of the layouts can encode are omitted.

    Attributes:
        checked: number of messages with a known size on the wire.
        mismatched: number of checked messages whose size differs when they are encoded again.
        counts: other counts by name: moved fields, moved fields that are set (``sizes.py``), tag sections, blank bytes.
        reasons: number of omitted messages by reason.
        lengths: counts of arrays, strings, byte fields and record sets, by kind and length.
    """

    messages: int = 0
    before: int = 0
    after: int = 0
    checked: int = 0
    mismatched: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    lengths: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, other: SizeTotals) -> None:
        """Add the values of other totals to these."""
        for name in (entry.name for entry in fields(self)):
            own_value, other_value = getattr(self, name), getattr(other, name)
            if isinstance(own_value, Counter):
                own_value.update(other_value)
            else:
                setattr(self, name, own_value + other_value)

    @property
    def saved_bytes(self) -> int:
        """The number of bytes saved; negative if the proposal costs bytes."""
        return self.before - self.after

    @property
    def saved_share(self) -> float:
        """The saved bytes as a fraction of the size before the proposal; 0 without messages."""
        return self.saved_bytes / self.before if self.before else 0.0

    @property
    def omitted_count(self) -> int:
        """The number of messages that could not be decoded or converted to the newest version."""
        return sum(self.reasons.values())

    @property
    def break_even_share(self) -> float | None:
        """The share of moved fields that must be set for the savings to be zero; None without moved fields.

        The cost of a set field is its mean in these messages, or two bytes if no field is set.

        >>> SizeTotals(1, before=100, after=98, counts=Counter({"moved": 1, "bytes of unset": 2})).break_even_share
        0.5
        """
        total, is_set, gained_bytes = (self.counts[name] for name in (LEAD, LEAD_SET, GAINED))
        if not total:
            return None
        bytes_per_field = gained_bytes / (total - is_set) if total > is_set else _TAG_HEADER_BYTES
        cost = (gained_bytes - self.saved_bytes) / is_set if is_set else _TAG_HEADER_BYTES
        return bytes_per_field / (bytes_per_field + cost) if bytes_per_field + cost > 0 else None


@dataclass(frozen=True)
class LengthSummary:
    """The lengths of one kind of variable-length field.

    Attributes:
        kind: ``arrays`` (lengths are numbers of elements), ``strings``, ``bytes`` or ``records`` (bytes).
        count: number of fields, including null fields.
        nulls: number of null fields. A compact null length takes one byte.
        one_byte: number of fields whose compact length takes one byte, which are those with null or a length of up to
            126.
        hundred: number of fields that are null or have a length of at most 100.
        median, p90, p99, maximum: quantiles of the lengths, nulls excluded; None if all fields are null.
    """

    kind: str
    count: int
    nulls: int
    one_byte: int
    hundred: int
    median: int | None
    p90: int | None
    p99: int | None
    maximum: int | None


def summarize_lengths(size_totals: SizeTotals) -> list[LengthSummary]:
    """Return a summary of the field lengths for each kind of field, arrays first.

    >>> summarize_lengths(SizeTotals(lengths=Counter({("arrays", 1): 98, ("arrays", 127): 1, ("arrays", -1): 1})))
    [LengthSummary(kind='arrays', count=100, nulls=1, one_byte=99, hundred=99, median=1, p90=1, p99=127, maximum=127)]
    """
    return [
        _summarize_kind(kind, {length: count for (name, length), count in size_totals.lengths.items() if name == kind})
        for kind in _LENGTH_KINDS
        if any(name == kind for name, _ in size_totals.lengths)
    ]


_LENGTH_KINDS: Final = ("arrays", "strings", "bytes", "records")
_MAX_ONE_BYTE_LENGTH: Final = 126  # a compact length is a varint of the length plus one


def _summarize_kind(kind: str, counts: dict[int, int]) -> LengthSummary:
    """Return the summary of one kind of field. ``counts`` has the number of fields by length."""
    values = sorted(counts.items())
    total, nulls = sum(counts.values()), counts.get(NULL_LENGTH, 0)
    one_byte, percents = (
        sum(count for length, count in values if length <= quantile_share)
        for quantile_share in (_MAX_ONE_BYTE_LENGTH, 100)
    )
    quantiles = [_find_quantile(values, total - nulls, share) for share in (0.5, 0.9, 0.99, 1.0)]
    return LengthSummary(kind, total, nulls, one_byte, percents, *quantiles)


def _find_quantile(values: list[tuple[int, int]], total: int, share: float) -> int | None:
    """Return the smallest length such that at least this share of the fields is not longer."""
    count_so_far = 0
    for length, count in values:
        if length != NULL_LENGTH:
            count_so_far += count
            if count_so_far >= math.ceil(share * total):
                return length
    return None


@dataclass
class SizeComparison:
    """The sizes of messages in the old and the proposed layout.

    Attributes:
        totals_by_group: message sizes and counts, by group.
        span: times of the first and the last message, in microseconds; None if unknown.
        coverage: parts of the traffic that could not be read.
    """

    totals_by_group: dict[SizeGroup, SizeTotals] = field(default_factory=dict)
    span: tuple[int, int] | None = None
    coverage: Coverage = field(default_factory=Coverage, compare=False)

    def add(self, other: SizeComparison) -> None:
        """Add the outcome of another task."""
        for group, size_totals in other.totals_by_group.items():
            self.get_or_add_totals(group).add(size_totals)
        self.extend_span(other.span)
        self.coverage.update(other.coverage.entries)

    def get_or_add_totals(self, group: SizeGroup) -> SizeTotals:
        """Return the totals of a group; create them if they are missing."""
        return self.totals_by_group.setdefault(group, SizeTotals())

    def extend_span(self, span: tuple[int, int] | None) -> None:
        """Extend the time range to include ``span``."""
        if span is not None:
            spans = [span, *([] if self.span is None else [self.span])]
            self.span = min(first for first, _ in spans), max(last for _, last in spans)

    @property
    def duration_s(self) -> float | None:
        """The duration of the traffic in seconds; None if its messages have no times."""
        return None if self.span is None else max((self.span[1] - self.span[0]) / 1e6, 1e-6)

    def sum_totals_by(self, *names: str, **selection: Any) -> dict[tuple[Any, ...], SizeTotals]:
        """Return totals grouped by the named attributes, summed over the groups that match ``selection``."""
        sums: dict[tuple[Any, ...], SizeTotals] = {}
        for group, size_totals in self.totals_by_group.items():
            if all(getattr(group, name) == value for name, value in selection.items()):
                sums.setdefault(tuple(getattr(group, name) for name in names), SizeTotals()).add(size_totals)
        return sums


def format_label(label: str | int | None) -> str:
    """Return a client, connection or second as text: a dash for none, a second as its time in UTC.

    >>> format_label(0), format_label(""), format_label("app")
    ('1970-01-01 00:00:00', '-', 'app')
    """
    if isinstance(label, int):
        return datetime.fromtimestamp(label, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return label or "-"


def totals_to_json(size_totals: SizeTotals) -> dict[str, Any]:
    """Return totals as a JSON object."""
    return {
        "messages": size_totals.messages,
        "bytesBefore": size_totals.before,
        "bytesAfter": size_totals.after,
        "saved": size_totals.saved_bytes,
        "savedShare": round(size_totals.saved_share, 6),
        "breakEven": None if size_totals.break_even_share is None else round(size_totals.break_even_share, 4),
        "counts": dict(size_totals.counts),
        "wireChecked": size_totals.checked,
        "wireMismatched": size_totals.mismatched,
        "leftOut": dict(size_totals.reasons),
        **({"lengths": [asdict(summary) for summary in summarize_lengths(size_totals)]} if size_totals.lengths else {}),
    }


def merge_outcomes(outcomes: Iterable[SizeComparison]) -> SizeComparison:
    """Return the sum of the outcomes of tasks."""
    total = SizeComparison()
    for outcome in outcomes:
        total.add(outcome)
    return total
