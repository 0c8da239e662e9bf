"""Draw the report's cards on producers, transactions, keys, copies, damage, partitions and the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kafkaframes.errors.words import count_text
from kafkaframes.jobs.report import charts, copies
from kafkaframes.jobs.report.charts import Bar, ChartPart
from kafkaframes.jobs.report.copies import CopyReport
from kafkaframes.jobs.report.measure import NO_PRODUCER, DamagedBatch
from kafkaframes.jobs.report.model import LogReport, ProducerReport, TopicReport
from kafkaframes.jobs.report.sections import MAX_BARS, MAX_ROWS, card, durations, empty, limit_text
from kafkaframes.jobs.report.survey import OTHER_PRODUCERS
from kafkaframes.jobs.report.tables import Field, Markup, join, number, path_code, table, tag
from kafkaframes.jobs.report.words import NONE, minute_text, share_text, short_text, size_text, time_text
from kafkaframes.storage.files.findings import Finding, Severity


def producers(report: LogReport) -> Markup:
    """Draw the producers with the most data."""
    title = "Producers"
    identified_producers = [one for one in report.producers if one.producer_id >= 0]
    if not report.producers:
        return card("producers", title, empty("There is no record."))
    largest_producers = sorted(
        report.producers, key=lambda entry: (entry.producer_id == OTHER_PRODUCERS, -entry.records)
    )[:MAX_BARS]
    rows = [
        Bar(
            _producer_name(one),
            _topics_text(one.topics),
            [ChartPart("rest" if one.producer_id < 0 else "c0", one.records, _producer_tip(one))],
            f"{one.records:,}",
        )
        for one in largest_producers
    ]
    producer_count = count_text(len(identified_producers), "producer id")
    note = f"{producer_count} of idempotent or transactional producers. The log does not say who the others are."
    bar_chart = charts.bars(rows, axis=short_text, name="records")
    return card("producers", title, bar_chart, note=note)


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


def transactions(report: LogReport) -> Markup:
    """Draw the outcomes and durations of transactions, and list the open ones."""
    result, title = report.transactions, "Transactions"
    if not result.count:
        return card("transactions", title, empty("No batch belongs to a transaction."), wide=True)
    topics = sorted(
        (one for one in report.topics if one.transactions.count),
        key=lambda entry: (-entry.transactions.count, entry.name),
    )
    kinds = (("committed", "good"), ("aborted", "warn"), ("open", "bad"))
    rows = [_transaction_bar(topic, kinds) for topic in topics[:MAX_BARS]]
    parts = [ChartPart(color, getattr(result, kind), f"{kind}") for kind, color in kinds]
    took = durations(result.durations) if result.durations.count else empty("No transaction has both its ends here.")
    open_cards: list[Any] = [
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
        heading = "Open: consumers with read_committed wait at the first of them" + _of(
            len(result.oldest_open), result.open
        )
        open_cards += [tag("h3", heading), table(result.oldest_open, fields, name="open transactions")]
    note = "Each counts once in each partition that it wrote to."
    right = tag("div", tag("h3", "Durations"), took)
    return card("transactions", title, tag("div", tag("div", open_cards), right, class_="split"), note=note, wide=True)


def _transaction_bar(topic: TopicReport, kinds: Sequence[tuple[str, str]]) -> Bar:
    result = topic.transactions
    parts = [
        ChartPart(color, getattr(result, kind), f"{topic.name}\n{kind}: {getattr(result, kind):,}")
        for kind, color in kinds
    ]
    return Bar(topic.name, "", parts, f"{result.count:,}")


def _of(row_count: int, whole: int) -> str:
    return f" ({row_count:,} of {whole:,} shown)" if row_count < whole else ""


def keys(report: LogReport) -> Markup:
    """Draw the numbers of distinct keys and of records of compacted topics, and list other topics with keys."""
    title = "Keys of compacted topics"
    keyed_topics = [one for one in report.topics if one.keys.keyed]
    compacted_topics = sorted(
        (one for one in keyed_topics if one.keys.compacted), key=lambda entry: (-entry.keys.keyed, entry.name)
    )
    if not keyed_topics:
        return card("keys", title, empty("No record has a key."))
    charts_of_keys: list[Any] = []
    if compacted_topics:
        rows = [_key_bar(one) for one in compacted_topics[:MAX_BARS]]
        names = [("c0", "latest record of a key"), ("pale", "older records: what a full compaction would drop")]
        charts_of_keys = [charts.legend(names), charts.bars(rows, axis=short_text, name="records with a key")]
    ordered_topics = [*compacted_topics, *(one for one in keyed_topics if not one.keys.compacted)]
    fields = [
        Field("Topic", lambda entry: entry.name, wide=True),
        Field("Distinct keys", _distinct_text, lambda entry: entry.keys.distinct),
        Field("Per key", lambda entry: f"{_per_key(entry):,.1f}", _per_key),
        number("Tombstones", "keys.tombstones", is_minor=True, none=0),
        number("Keyless", "keys.without_key", is_minor=True, none=0),
        Field("Compacted", lambda entry: entry.keys.compacted or NONE, is_minor=True, wide=True),
    ]
    table_rows = ordered_topics[:MAX_ROWS]
    listing = table(table_rows, fields, name="keys")
    note = "Distinct keys are exact up to 16,384 of a topic; above (≈) the standard error is 0.8 %."
    body: Any = tag("div", tag("div", charts_of_keys), listing, class_="split")
    if not compacted_topics:
        body = [tag("p", "No topic is known to be compacted. These have keys:"), listing]
    return card("keys", title, body, note=note + limit_text(len(table_rows), len(ordered_topics), "topics"), wide=True)


def _per_key(entry: TopicReport) -> float:
    return entry.keys.keyed / entry.keys.distinct


def _distinct_text(entry: TopicReport) -> str:
    return ("≈ " if entry.keys.standard_error else "") + f"{entry.keys.distinct:,}"


def _key_bar(entry: TopicReport) -> Bar:
    result = entry.keys
    older = result.keyed - result.distinct
    tip = f"{entry.name}\n{_distinct_text(entry)} distinct keys in {count_text(result.keyed, 'record')}"
    parts = [
        ChartPart("c0", result.distinct, tip),
        ChartPart("pale", older, f"{tip}\n{share_text(older, result.keyed)} are older"),
    ]
    return Bar(entry.name, f"{_distinct_text(entry)} keys", parts, f"{result.keyed:,}")


MAX_FINDINGS_PER_CHECK = 20
MAX_PARTITIONS = 300
_VERDICT_BADGES = {  # verdict -> colour, words
    copies.SAME: ("good", "same"),
    copies.LATER: ("soft", "starts later"),
    copies.BEHIND: ("soft", "behind"),
    copies.CLEANED: ("soft", "compacted to another point"),
    copies.INCOMPLETE: ("warn", "incomplete"),
    copies.DAMAGED: ("bad", "damaged"),
    copies.DIFFERS: ("bad", "differs"),
    copies.UNREADABLE: ("bad", "not merged"),
    copies.OTHER_TOPIC: ("bad", "another topic id"),
    copies.OTHER_CLUSTER: ("warn", "another cluster"),
}
_SEVERITIES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "soft"}


def replicas(report: LogReport) -> Markup:
    """List the copies of partitions with different copies, with the decisions."""
    title = "Copies"
    if not report.copies:
        return card("copies", title, empty("Every partition was found once."), wide=True)
    groups: dict[tuple[str, int], list[CopyReport]] = {}
    for entry in report.copies:
        groups.setdefault((entry.topic, entry.partition), []).append(entry)
    shown_copies = [
        one for group in groups.values() if any(copy.verdict != copies.SAME for copy in group) for one in group
    ]
    verdict_counts = Counter(one.verdict for one in report.copies)
    parts = [
        ChartPart(color, verdict_counts[verdict], words)
        for verdict, (color, words) in _VERDICT_BADGES.items()
        if verdict_counts[verdict]
    ]
    fields = [
        Field("Partition", lambda entry: tag("b", f"{entry.topic}-{entry.partition}")),
        Field("Verdict", _verdict),
        Field("Directory", lambda entry: path_code(entry.directory.rpartition("/")[0] or entry.directory), wide=True),
        number("Starts at", "start_offset"),
        number("Ends at", "end_offset"),
        number("Errors", "errors", none=0),
        Field(
            "Decided", lambda entry: [tag("div", words) for words in entry.decided[:MAX_FINDINGS_PER_CHECK]], wide=True
        ),
    ]
    table_rows = shown_copies[:MAX_ROWS]
    several = count_text(len(groups), "partition")
    note = f"{several} found more than once; the numbers of this page are those of the one log that their copies make."
    body = empty("All copies are the same.")
    if table_rows:
        body = table(table_rows, fields, name="copies that differ", is_stacked=True)
    whole = charts.share(parts, text=lambda value: count_text(int(value), "copy", "copies"))
    return card(
        "copies", title, whole, body, note=note + limit_text(len(table_rows), len(shown_copies), "copies"), wide=True
    )


def _verdict(entry: CopyReport) -> Markup:
    color, words = _VERDICT_BADGES[entry.verdict]
    leads = tag("span", "leads", class_="badge", title="its history is the one that counts") if entry.leads else None
    return join([tag("span", words, class_=f"badge {color}"), leads])


def damage(report: LogReport) -> Markup:
    """List the findings of the verification, the most severe first, and the lost records."""
    title = "Damage"
    if not report.findings:
        sound_text = "Every CRC, offset, index and checkpoint is as a broker would have it."
        return card("damage", title, tag("p", tag("b", "Sound. "), sound_text, class_="all-good"), wide=True)
    counts = [(severity, report.errors(severity)) for severity in sorted(Severity, reverse=True)]
    badges = [
        tag("span", count_text(count, severity.name.lower()), class_=f"badge {_SEVERITIES[severity]}")
        for severity, count in counts
        if count
    ]
    checks = Counter(one.check for one in report.findings)
    kinds = " · ".join(f"{check} {count:,}" for check, count in checks.most_common())
    losses_by_place = {(one.file, one.position): one for one in report.losses}
    fields = [
        Field("Severity", _severity),
        Field("Check", lambda entry: entry.check),
        Field(
            "What",
            lambda entry: join([entry.message, _loss_text(losses_by_place.get((entry.file, entry.position)))]),
            wide=True,
        ),
        Field("File", lambda entry: path_code(entry.file), wide=True),
        number("Byte", "position"),
        number("Offset", "offset"),
    ]
    table_rows = _first_of_each(report.findings)
    note = "Errors are about records; a broker rebuilds what warnings are about; notes are what brokers leave behind."
    note += limit_text(len(table_rows), len(report.findings), "findings")
    words = tag("p", badges, loss_text(report)), tag("p", kinds, class_="soft")
    return card(
        "damage", title, words, table(table_rows, fields, name="findings", is_stacked=True), note=note, wide=True
    )


def _first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return a few findings of each check, because hundreds of one check would hide the others."""
    counts_by_check: Counter[str] = Counter()
    first_findings: list[Finding] = []
    for finding in findings:
        counts_by_check[finding.check] += 1
        if counts_by_check[finding.check] <= MAX_FINDINGS_PER_CHECK and len(first_findings) < MAX_ROWS:
            first_findings.append(finding)
    return first_findings


def _severity(entry: Finding) -> Markup:
    return tag("span", entry.severity.name.lower(), class_=f"badge {_SEVERITIES[entry.severity]}")


def _loss_text(loss: DamagedBatch | None) -> Markup | None:
    if loss is None:
        return None
    records = f"{count_text(loss.declared, 'record')} declared, " if loss.declared >= 0 else ""
    range_text = f"{size_text(loss.size_bytes)}, offsets {loss.base_offset:,} to {loss.last_offset:,}"
    return tag("span", f" ({range_text}: {records}{loss.readable:,} readable before the damage)", class_="soft")


def loss_text(report: LogReport) -> str | None:
    """Return how many records the damaged batches have; None without damage."""
    if not report.losses:
        return None
    records = sum(max(one.declared, 0) for one in report.losses)
    size = size_text(sum(one.size_bytes for one in report.losses))
    batches = count_text(len(report.losses), "damaged batch", "damaged batches")
    record_text = f", {count_text(records, 'record')} by their headers" if records else ""
    return f" {batches} ({size}{record_text}) not among the numbers above."


def partitions(report: LogReport) -> Markup:
    """Draw the collapsed table of partitions."""
    order = sorted(
        report.partitions, key=lambda entry: (-entry.errors, -entry.size_bytes, entry.topic, entry.partition)
    )
    table_rows = sorted(order[:MAX_PARTITIONS], key=lambda entry: (entry.topic, entry.partition))
    fields = [
        Field("Partition", lambda entry: tag("b", f"{entry.topic}-{entry.partition}"), wide=True),
        number("Segments", "segments", is_minor=True),
        number("Size", "size_bytes", size_text),
        number("Start", "start_offset", is_minor=True),
        number("End", "end_offset"),
        number("High watermark", "high_watermark", is_minor=True),
        number("Records", "records"),
        number("Offsets without a record", "missing_offsets", is_minor=True, none=0),
        number("Leader epochs", "leader_epochs", is_minor=True, none=0),
        number("Last record", "last", minute_text, is_minor=True),
        Field(
            "Copies", lambda entry: f"{len(entry.directories):,}", lambda entry: len(entry.directories), is_minor=True
        ),
        number("Errors", "errors", none=0),
    ]
    partition_table = table(table_rows, fields, name="partitions", searchable=len(table_rows) > 10)
    note = "Offsets without a record: holes that compaction or damage left."
    note += limit_text(len(table_rows), len(report.partitions), "partitions")
    details = tag("details", tag("summary", count_text(len(report.partitions), "partition")), partition_table)
    return card("partitions", "Partitions", details, note=note, wide=True)


def source(report: LogReport) -> Markup:
    """List the directories that were read, and the files that were not measured."""
    fields = [
        Field("Directory", lambda entry: path_code(entry.path), wide=True),
        number("Broker", "node_id", str),
        Field("Cluster", lambda entry: entry.cluster_id or NONE, is_minor=True),
        Field("Stopped cleanly", lambda entry: "yes" if entry.clean_shutdown else "no, or running", is_minor=True),
        number("Partitions", "partitions", is_minor=True),
        number("Size", "size_bytes", size_text),
    ]
    not_read_rows = [
        Field("Not included", lambda entry: path_code(entry.what), wide=True),
        Field("Why", lambda entry: entry.why, wide=True),
        number("Size", "size_bytes", size_text),
    ]
    table_rows = report.not_read[:MAX_ROWS]
    read = table(report.directories[:MAX_ROWS], fields, name="directories")
    remark = (
        table(table_rows, not_read_rows, name="what was not measured", is_stacked=True)
        if table_rows
        else empty("Nothing was left out.")
    )
    note = limit_text(len(table_rows), len(report.not_read), "files").strip() or None
    return card("source", "What was read", read, remark, note=note, wide=True)
