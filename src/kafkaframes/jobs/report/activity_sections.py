"""What the page shows of producers, transactions and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkaframes.jobs.report import charts
from kafkaframes.jobs.report.charts import Bar, Part
from kafkaframes.jobs.report.markup import Markup, tag
from kafkaframes.jobs.report.measure import NO_PRODUCER
from kafkaframes.jobs.report.model import ProducerReport, Report, TopicReport
from kafkaframes.jobs.report.sections import MOST_BARS, MOST_ROWS, card, durations, empty, shown_text
from kafkaframes.jobs.report.tables import Field, number, table
from kafkaframes.jobs.report.totals import OTHERS
from kafkaframes.jobs.report.words import NONE, count_text, share_text, short_text, size_text, time_text


def producers(report: Report) -> Markup:
    """Draw who wrote most."""
    title = "Producers"
    known = [one for one in report.producers if one.producer_id >= 0]
    if not report.producers:
        return card("producers", title, empty("There is no record."))
    shown = sorted(report.producers, key=lambda one: (one.producer_id == OTHERS, -one.records))[:MOST_BARS]
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


def _producer_name(one: ProducerReport) -> str:
    if one.producer_id == NO_PRODUCER:
        return "without a producer id"
    return one.name or f"producer {one.producer_id}"


def _topics_text(topics: Sequence[str]) -> str:
    return ", ".join(topics[:2]) + (f" and {len(topics) - 2:,} more" if len(topics) > 2 else "")


def _producer_tip(one: ProducerReport) -> str:
    epoch = f"producer id {one.producer_id}, epoch {one.epoch}\n" if one.producer_id >= 0 else ""
    times = f"{time_text(one.first)} to {time_text(one.last)}"
    batches = count_text(one.batches, "batch", "batches")
    size = f"{count_text(one.records, 'record')} in {batches}, {size_text(one.log_bytes)}"
    return f"{_producer_name(one)}\n{epoch}{size}\n{times}"


def transactions(report: Report) -> Markup:
    """Draw how transactions ended, how long they took, and list the open ones."""
    found, title = report.transactions, "Transactions"
    if not found.count:
        return card("transactions", title, empty("No batch belongs to a transaction."))
    topics = sorted(
        (one for one in report.topics if one.transactions.count), key=lambda one: (-one.transactions.count, one.name)
    )
    kinds = (("committed", "good"), ("aborted", "warn"), ("open", "bad"))
    rows = [_transaction_bar(topic, kinds) for topic in topics[:MOST_BARS]]
    parts = [Part(color, getattr(found, kind), f"{kind}") for kind, color in kinds]
    took = durations(found.durations) if found.durations.count else empty("No transaction has both its ends here.")
    left: list[Any] = [
        charts.share(parts, text=lambda value: f"{value:,.0f}"),
        charts.bars(rows, axis=short_text, name="transactions"),
    ]
    if found.oldest_open:
        fields = [
            Field("Partition", lambda one: f"{one.topic}-{one.partition}", wide=True),
            number("Producer", "producer_id", str),
            number("Epoch", "producer_epoch", str, is_minor=True),
            number("First offset", "first_offset"),
            number("Since, UTC", "since", time_text),
        ]
        said = "Open: consumers with read_committed wait at the first of them" + _of(len(found.oldest_open), found.open)
        left += [tag("h3", said), table(found.oldest_open, fields, name="open transactions")]
    note = "Each counts once in each partition that it wrote to."
    right = tag("div", tag("h3", "How long they took"), took)
    return card("transactions", title, tag("div", tag("div", left), right, class_="split"), note=note, wide=True)


def _transaction_bar(topic: TopicReport, kinds: Sequence[tuple[str, str]]) -> Bar:
    found = topic.transactions
    parts = [
        Part(color, getattr(found, kind), f"{topic.name}\n{kind}: {getattr(found, kind):,}") for kind, color in kinds
    ]
    return Bar(topic.name, "", parts, f"{found.count:,}")


def _of(shown: int, whole: int) -> str:
    return f" ({shown:,} of {whole:,} shown)" if shown < whole else ""


def keys(report: Report) -> Markup:
    """Draw how many distinct keys compacted topics have beside their records; list the others with keys."""
    title = "Keys of compacted topics"
    keyed = [one for one in report.topics if one.keys.keyed]
    compacted = sorted((one for one in keyed if one.keys.compacted), key=lambda one: (-one.keys.keyed, one.name))
    if not keyed:
        return card("keys", title, empty("No record has a key."))
    drawn: list[Any] = []
    if compacted:
        rows = [_key_bar(one) for one in compacted[:MOST_BARS]]
        names = [("c0", "latest record of a key"), ("pale", "older records: what a full compaction would drop")]
        drawn = [charts.legend(names), charts.bars(rows, axis=short_text, name="records with a key")]
    listed = [*compacted, *(one for one in keyed if not one.keys.compacted)]
    fields = [
        Field("Topic", lambda one: one.name, wide=True),
        Field("Distinct keys", _distinct_text, lambda one: one.keys.distinct),
        Field("Per key", lambda one: f"{_per_key(one):,.1f}", _per_key),
        number("Tombstones", "keys.tombstones", is_minor=True, none=0),
        number("Keyless", "keys.without_key", is_minor=True, none=0),
        Field("Compacted", lambda one: one.keys.compacted or NONE, is_minor=True, wide=True),
    ]
    shown = listed[:MOST_ROWS]
    listing = table(shown, fields, name="keys")
    note = "Distinct keys are exact up to 16,384 of a topic; above (≈) the standard error is 0.8 %."
    body: Any = tag("div", tag("div", drawn), listing, class_="split")
    if not compacted:
        body = [tag("p", "No topic is known to be compacted. These have keys:"), listing]
    return card("keys", title, body, note=note + shown_text(len(shown), len(listed), "topics"), wide=True)


def _per_key(one: TopicReport) -> float:
    return one.keys.keyed / one.keys.distinct


def _distinct_text(one: TopicReport) -> str:
    return ("≈ " if one.keys.standard_error else "") + f"{one.keys.distinct:,}"


def _key_bar(one: TopicReport) -> Bar:
    found = one.keys
    older = found.keyed - found.distinct
    tip = f"{one.name}\n{_distinct_text(one)} distinct keys in {found.keyed:,} records"
    parts = [Part("c0", found.distinct, tip), Part("pale", older, f"{tip}\n{share_text(older, found.keyed)} are older")]
    return Bar(one.name, f"{_distinct_text(one)} keys", parts, f"{found.keyed:,}")
