"""What the page shows of producers, transactions and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkaframes.jobs.report import charts
from kafkaframes.jobs.report.charts import Bar, Part
from kafkaframes.jobs.report.measure import NO_PRODUCER
from kafkaframes.jobs.report.model import ProducerReport, Report, TopicReport
from kafkaframes.jobs.report.sections import MOST_BARS, MOST_ROWS, card, durations, empty, shown_text
from kafkaframes.jobs.report.tables import Field, Markup, number, table, tag
from kafkaframes.jobs.report.totals import OTHERS
from kafkaframes.jobs.report.words import NONE, count_text, share_text, short_text, size_text, time_text


def producers(report: Report) -> Markup:
    """Draw who wrote most."""
    title = "Producers"
    known = [one for one in report.producers if one.producer_id >= 0]
    if not report.producers:
        return card("producers", title, empty("There is no record."))
    shown = sorted(report.producers, key=lambda entry: (entry.producer_id == OTHERS, -entry.records))[:MOST_BARS]
    rows = [
        Bar(
            _producer_name(one),
            _topics_text(one.topics),
            [Part("rest" if one.producer_id < 0 else "c0", one.records, _producer_tip(one))],
            f"{one.records:,}",
        )
        for one in shown
    ]
    counted = count_text(len(known), "producer id")
    note = f"{counted} of idempotent or transactional producers. The log does not say who the others are."
    drawn = charts.bars(rows, axis=short_text, name="records")
    return card("producers", title, drawn, note=note)


def _producer_name(entry: ProducerReport) -> str:
    if entry.producer_id == NO_PRODUCER:
        return "without a producer id"
    return entry.name or f"producer {entry.producer_id}"


def _topics_text(topics: Sequence[str]) -> str:
    return ", ".join(topics[:2]) + (f" and {len(topics) - 2:,} more" if len(topics) > 2 else "")


def _producer_tip(entry: ProducerReport) -> str:
    epoch = f"producer id {entry.producer_id}, epoch {entry.epoch}\n" if entry.producer_id >= 0 else ""
    times = f"{time_text(entry.first)} to {time_text(entry.last)}"
    batches = count_text(entry.batches, "batch", "batches")
    size = f"{count_text(entry.records, 'record')} in {batches}, {size_text(entry.log_bytes)}"
    return f"{_producer_name(entry)}\n{epoch}{size}\n{times}"


def transactions(report: Report) -> Markup:
    """Draw how transactions ended, how long they took, and list the open ones."""
    result, title = report.transactions, "Transactions"
    if not result.count:
        return card("transactions", title, empty("No batch belongs to a transaction."), wide=True)
    topics = sorted(
        (one for one in report.topics if one.transactions.count),
        key=lambda entry: (-entry.transactions.count, entry.name),
    )
    kinds = (("committed", "good"), ("aborted", "warn"), ("open", "bad"))
    rows = [_transaction_bar(topic, kinds) for topic in topics[:MOST_BARS]]
    parts = [Part(color, getattr(result, kind), f"{kind}") for kind, color in kinds]
    took = durations(result.durations) if result.durations.count else empty("No transaction has both its ends here.")
    left: list[Any] = [
        charts.share(parts, text=lambda value: f"{value:,.0f}"),
        charts.bars(rows, axis=short_text, name="transactions"),
    ]
    if result.oldest_open:
        fields = [
            Field("Partition", lambda entry: f"{entry.topic}-{entry.partition}", wide=True),
            number("Producer", "producer_id", str),
            number("Epoch", "producer_epoch", str, is_minor=True),
            number("First offset", "first_offset"),
            number("Since, UTC", "since", time_text),
        ]
        said = "Open: consumers with read_committed wait at the first of them" + _of(
            len(result.oldest_open), result.open
        )
        left += [tag("h3", said), table(result.oldest_open, fields, name="open transactions")]
    note = "Each counts once in each partition that it wrote to."
    right = tag("div", tag("h3", "How long they took"), took)
    return card("transactions", title, tag("div", tag("div", left), right, class_="split"), note=note, wide=True)


def _transaction_bar(topic: TopicReport, kinds: Sequence[tuple[str, str]]) -> Bar:
    result = topic.transactions
    parts = [
        Part(color, getattr(result, kind), f"{topic.name}\n{kind}: {getattr(result, kind):,}") for kind, color in kinds
    ]
    return Bar(topic.name, "", parts, f"{result.count:,}")


def _of(shown: int, whole: int) -> str:
    return f" ({shown:,} of {whole:,} shown)" if shown < whole else ""


def keys(report: Report) -> Markup:
    """Draw how many distinct keys compacted topics have beside their records; list the others with keys."""
    title = "Keys of compacted topics"
    keyed = [one for one in report.topics if one.keys.keyed]
    compacted = sorted((one for one in keyed if one.keys.compacted), key=lambda entry: (-entry.keys.keyed, entry.name))
    if not keyed:
        return card("keys", title, empty("No record has a key."))
    drawn: list[Any] = []
    if compacted:
        rows = [_key_bar(one) for one in compacted[:MOST_BARS]]
        names = [("c0", "latest record of a key"), ("pale", "older records: what a full compaction would drop")]
        drawn = [charts.legend(names), charts.bars(rows, axis=short_text, name="records with a key")]
    listed = [*compacted, *(one for one in keyed if not one.keys.compacted)]
    fields = [
        Field("Topic", lambda entry: entry.name, wide=True),
        Field("Distinct keys", _distinct_text, lambda entry: entry.keys.distinct),
        Field("Per key", lambda entry: f"{_per_key(entry):,.1f}", _per_key),
        number("Tombstones", "keys.tombstones", is_minor=True, none=0),
        number("Keyless", "keys.without_key", is_minor=True, none=0),
        Field("Compacted", lambda entry: entry.keys.compacted or NONE, is_minor=True, wide=True),
    ]
    shown = listed[:MOST_ROWS]
    listing = table(shown, fields, name="keys")
    note = "Distinct keys are exact up to 16,384 of a topic; above (≈) the standard error is 0.8 %."
    body: Any = tag("div", tag("div", drawn), listing, class_="split")
    if not compacted:
        body = [tag("p", "No topic is known to be compacted. These have keys:"), listing]
    return card("keys", title, body, note=note + shown_text(len(shown), len(listed), "topics"), wide=True)


def _per_key(entry: TopicReport) -> float:
    return entry.keys.keyed / entry.keys.distinct


def _distinct_text(entry: TopicReport) -> str:
    return ("≈ " if entry.keys.standard_error else "") + f"{entry.keys.distinct:,}"


def _key_bar(entry: TopicReport) -> Bar:
    result = entry.keys
    older = result.keyed - result.distinct
    tip = f"{entry.name}\n{_distinct_text(entry)} distinct keys in {result.keyed:,} records"
    parts = [
        Part("c0", result.distinct, tip),
        Part("pale", older, f"{tip}\n{share_text(older, result.keyed)} are older"),
    ]
    return Bar(entry.name, f"{_distinct_text(entry)} keys", parts, f"{result.keyed:,}")
