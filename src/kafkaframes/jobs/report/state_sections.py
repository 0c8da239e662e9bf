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
from kafkaframes.jobs.report.sections import (
    MAX_BARS,
    MAX_TABLE_ROWS,
    build_card,
    describe_limit,
    draw_durations,
    format_empty_text,
)
from kafkaframes.jobs.report.survey import OTHER_PRODUCERS
from kafkaframes.jobs.report.tables import (
    Markup,
    TableColumn,
    format_path,
    join_html,
    make_number_column,
    make_table,
    make_tag,
)
from kafkaframes.jobs.report.words import (
    NO_VALUE_TEXT,
    format_count_tick,
    format_minute,
    format_share,
    format_size,
    format_time,
)
from kafkaframes.storage.files.findings import Finding, Severity


def draw_producers(report: LogReport) -> Markup:
    """Draw the producers with the most data."""
    title = "Producers"
    identified_producers = [producer for producer in report.producers if producer.producer_id >= 0]
    if not report.producers:
        return build_card("producers", title, format_empty_text("The log has no records."))
    largest_producers = sorted(
        report.producers, key=lambda entry: (entry.producer_id == OTHER_PRODUCERS, -entry.records)
    )[:MAX_BARS]
    rows = [
        Bar(
            _name_producer(producer),
            _format_topics(producer.topics),
            [ChartPart("rest" if producer.producer_id < 0 else "c0", producer.records, _describe_producer(producer))],
            f"{producer.records:,}",
        )
        for producer in largest_producers
    ]
    producer_count = count_text(len(identified_producers), "producer id")
    note = f"{producer_count} of idempotent or transactional producers. The log does not identify other producers."
    bar_chart = charts.draw_bars(rows, axis=format_count_tick, name="records")
    return build_card("producers", title, bar_chart, note=note)


def _name_producer(entry: ProducerReport) -> str:
    if entry.producer_id == NO_PRODUCER:
        return "without a producer id"
    return entry.name or f"producer {entry.producer_id}"


def _format_topics(topics: Sequence[str]) -> str:
    return ", ".join(topics[:2]) + (f" and {len(topics) - 2:,} more" if len(topics) > 2 else "")


def _describe_producer(entry: ProducerReport) -> str:
    """Return a producer's ids, times and amounts as the text of a tooltip."""
    epoch = f"producer id {entry.producer_id}, epoch {entry.epoch}\n" if entry.producer_id >= 0 else ""
    times = f"{format_time(entry.first)} to {format_time(entry.last)}"
    batches = count_text(entry.batches, "batch", "batches")
    size = f"{count_text(entry.records, 'record')} in {batches}, {format_size(entry.log_bytes)}"
    return f"{_name_producer(entry)}\n{epoch}{size}\n{times}"


def draw_transactions(report: LogReport) -> Markup:
    """Draw the outcomes and durations of transactions, and list the open ones."""
    result, title = report.transactions, "Transactions"
    if not result.count:
        return build_card("transactions", title, format_empty_text("No batch belongs to a transaction."), wide=True)
    topics = sorted(
        (topic_report for topic_report in report.topics if topic_report.transactions.count),
        key=lambda entry: (-entry.transactions.count, entry.name),
    )
    kinds = (("committed", "good"), ("aborted", "warn"), ("open", "bad"))
    rows = [_draw_transaction_bar(topic, kinds) for topic in topics[:MAX_BARS]]
    parts = [ChartPart(color, getattr(result, kind), f"{kind}") for kind, color in kinds]
    took = (
        draw_durations(result.durations)
        if result.durations.count
        else format_empty_text("No transaction starts and ends in this log.")
    )
    open_cards: list[Any] = [
        charts.draw_share_bar(parts, text=lambda value: f"{value:,.0f}"),
        charts.draw_bars(rows, axis=format_count_tick, name="transactions"),
    ]
    if result.oldest_open:
        fields = [
            TableColumn("Partition", lambda entry: f"{entry.topic}-{entry.partition}", wide=True),
            make_number_column("Producer", "producer_id", str),
            make_number_column("Epoch", "producer_epoch", str, is_minor=True),
            make_number_column("First offset", "first_offset"),
            make_number_column("Since, UTC", "since", format_time),
        ]
        heading = "Open transactions: read_committed consumers wait at the first one" + _format_shown_rows(
            len(result.oldest_open), result.open
        )
        open_cards += [make_tag("h3", heading), make_table(result.oldest_open, fields, name="open transactions")]
    note = "A transaction counts once in each partition that it wrote to."
    right = make_tag("div", make_tag("h3", "Durations"), took)
    return build_card(
        "transactions", title, make_tag("div", make_tag("div", open_cards), right, class_="split"), note=note, wide=True
    )


def _draw_transaction_bar(topic: TopicReport, kinds: Sequence[tuple[str, str]]) -> Bar:
    result = topic.transactions
    parts = [
        ChartPart(color, getattr(result, kind), f"{topic.name}\n{kind}: {getattr(result, kind):,}")
        for kind, color in kinds
    ]
    return Bar(topic.name, "", parts, f"{result.count:,}")


def _format_shown_rows(row_count: int, total_count: int) -> str:
    """Return the number of shown rows of a truncated table, "" if all rows are shown."""
    return f" ({row_count:,} of {total_count:,} shown)" if row_count < total_count else ""


def draw_keys(report: LogReport) -> Markup:
    """Draw the numbers of distinct keys and of records of compacted topics, and list other topics with keys."""
    title = "Keys of compacted topics"
    keyed_topics = [topic for topic in report.topics if topic.keys.keyed]
    compacted_topics = sorted(
        (topic for topic in keyed_topics if topic.keys.compacted), key=lambda entry: (-entry.keys.keyed, entry.name)
    )
    if not keyed_topics:
        return build_card("keys", title, format_empty_text("No record has a key."))
    charts_of_keys: list[Any] = []
    if compacted_topics:
        rows = [_draw_key_bar(topic) for topic in compacted_topics[:MAX_BARS]]
        names = [("c0", "latest record of a key"), ("pale", "older records, which a full compaction would remove")]
        charts_of_keys = [
            charts.draw_legend(names),
            charts.draw_bars(rows, axis=format_count_tick, name="records with a key"),
        ]
    ordered_topics = [*compacted_topics, *(topic for topic in keyed_topics if not topic.keys.compacted)]
    fields = [
        TableColumn("Topic", lambda entry: entry.name, wide=True),
        TableColumn("Distinct keys", _format_distinct_keys, lambda entry: entry.keys.distinct),
        TableColumn("Per key", lambda entry: f"{_records_per_key(entry):,.1f}", _records_per_key),
        make_number_column("Tombstones", "keys.tombstones", is_minor=True, none=0),
        make_number_column("Keyless", "keys.without_key", is_minor=True, none=0),
        TableColumn("Compacted", lambda entry: entry.keys.compacted or NO_VALUE_TEXT, is_minor=True, wide=True),
    ]
    table_rows = ordered_topics[:MAX_TABLE_ROWS]
    listing = make_table(table_rows, fields, name="keys")
    note = (
        "Up to 16,384 distinct keys of a topic are counted exactly; larger numbers (≈) have a standard error of 0.8 %."
    )
    body: Any = make_tag("div", make_tag("div", charts_of_keys), listing, class_="split")
    if not compacted_topics:
        body = [make_tag("p", "No topic is known to be compacted. Topics with keys:"), listing]
    return build_card(
        "keys", title, body, note=note + describe_limit(len(table_rows), len(ordered_topics), "topics"), wide=True
    )


def _records_per_key(entry: TopicReport) -> float:
    return entry.keys.keyed / entry.keys.distinct


def _format_distinct_keys(entry: TopicReport) -> str:
    return ("≈ " if entry.keys.standard_error else "") + f"{entry.keys.distinct:,}"


def _draw_key_bar(entry: TopicReport) -> Bar:
    result = entry.keys
    older = result.keyed - result.distinct
    tip = f"{entry.name}\n{_format_distinct_keys(entry)} distinct keys in {count_text(result.keyed, 'record')}"
    parts = [
        ChartPart("c0", result.distinct, tip),
        ChartPart("pale", older, f"{tip}\n{format_share(older, result.keyed)} are older"),
    ]
    return Bar(entry.name, f"{_format_distinct_keys(entry)} keys", parts, f"{result.keyed:,}")


MAX_FINDINGS_PER_CHECK = 20  # more findings of a check are not listed
MAX_LISTED_PARTITIONS = 300  # rows of the table of partitions
_VERDICT_BADGES = {  # colour and text by verdict
    copies.SAME: ("good", "same"),
    copies.LATER: ("soft", "starts later"),
    copies.BEHIND: ("soft", "behind"),
    copies.CLEANED: ("soft", "compacted up to another offset"),
    copies.INCOMPLETE: ("warn", "incomplete"),
    copies.DAMAGED: ("bad", "damaged"),
    copies.DIFFERS: ("bad", "differs"),
    copies.UNREADABLE: ("bad", "not merged"),
    copies.OTHER_TOPIC: ("bad", "another topic id"),
    copies.OTHER_CLUSTER: ("warn", "another cluster"),
}
_SEVERITY_COLORS = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "soft"}


def draw_replicas(report: LogReport) -> Markup:
    """List the copies of each partition whose copies differ, with the decisions of the merge."""
    title = "Copies"
    if not report.copies:
        return build_card("copies", title, format_empty_text("Each partition has one copy."), wide=True)
    groups: dict[tuple[str, int], list[CopyReport]] = {}
    for entry in report.copies:
        groups.setdefault((entry.topic, entry.partition), []).append(entry)
    shown_copies = [
        copy_report
        for group in groups.values()
        if any(copy.verdict != copies.SAME for copy in group)
        for copy_report in group
    ]
    verdict_counts = Counter(copy_report.verdict for copy_report in report.copies)
    parts = [
        ChartPart(color, verdict_counts[verdict], words)
        for verdict, (color, words) in _VERDICT_BADGES.items()
        if verdict_counts[verdict]
    ]
    fields = [
        TableColumn("Partition", lambda entry: make_tag("b", f"{entry.topic}-{entry.partition}")),
        TableColumn("Verdict", _draw_verdict),
        TableColumn(
            "Directory", lambda entry: format_path(entry.directory.rpartition("/")[0] or entry.directory), wide=True
        ),
        make_number_column("Starts at", "start_offset"),
        make_number_column("Ends at", "end_offset"),
        make_number_column("Errors", "errors", none=0),
        TableColumn(
            "Decided",
            lambda entry: [make_tag("div", words) for words in entry.decided[:MAX_FINDINGS_PER_CHECK]],
            wide=True,
        ),
    ]
    table_rows = shown_copies[:MAX_TABLE_ROWS]
    several = count_text(len(groups), "partition")
    note = f"{several} found more than once; this page counts the log that results from merging the copies."
    body = format_empty_text("All copies are equal.")
    if table_rows:
        body = make_table(table_rows, fields, name="copies that differ", is_stacked=True)
    whole = charts.draw_share_bar(parts, text=lambda value: count_text(int(value), "copy", "copies"))
    return build_card(
        "copies",
        title,
        whole,
        body,
        note=note + describe_limit(len(table_rows), len(shown_copies), "copies"),
        wide=True,
    )


def _draw_verdict(entry: CopyReport) -> Markup:
    """Return the verdict on a copy as a badge."""
    color, words = _VERDICT_BADGES[entry.verdict]
    leads = make_tag("span", "leads", class_="badge", title="the merged log follows this copy") if entry.leads else None
    return join_html([make_tag("span", words, class_=f"badge {color}"), leads])


def draw_findings(report: LogReport) -> Markup:
    """List the findings of the verification, the most severe first, and the lost records."""
    title = "Damage"
    if not report.findings:
        sound_text = "All CRCs, offsets, indexes and checkpoints are valid."
        return build_card(
            "damage", title, make_tag("p", make_tag("b", "Sound. "), sound_text, class_="all-good"), wide=True
        )
    counts = [(severity, report.errors(severity)) for severity in sorted(Severity, reverse=True)]
    badges = [
        make_tag("span", count_text(count, severity.name.lower()), class_=f"badge {_SEVERITY_COLORS[severity]}")
        for severity, count in counts
        if count
    ]
    checks = Counter(finding.check for finding in report.findings)
    kinds = " · ".join(f"{check} {count:,}" for check, count in checks.most_common())
    losses_by_place = {(finding.file, finding.position): finding for finding in report.losses}
    fields = [
        TableColumn("Severity", _draw_severity),
        TableColumn("Check", lambda entry: entry.check),
        TableColumn(
            "What",
            lambda entry: join_html([entry.message, _describe_loss(losses_by_place.get((entry.file, entry.position)))]),
            wide=True,
        ),
        TableColumn("File", lambda entry: format_path(entry.file), wide=True),
        make_number_column("Byte", "position"),
        make_number_column("Offset", "offset"),
    ]
    table_rows = _limit_by_check(report.findings)
    note = (
        "Errors affect records. Warnings affect files that a broker rebuilds. Notes are normal remains of a "
        "broker's work."
    )
    note += describe_limit(len(table_rows), len(report.findings), "findings")
    words = make_tag("p", badges, describe_losses(report)), make_tag("p", kinds, class_="soft")
    return build_card(
        "damage", title, words, make_table(table_rows, fields, name="findings", is_stacked=True), note=note, wide=True
    )


def _limit_by_check(findings: Sequence[Finding]) -> list[Finding]:
    """Return a few findings of each check, because hundreds of one check would hide the others."""
    counts_by_check: Counter[str] = Counter()
    first_findings: list[Finding] = []
    for finding in findings:
        counts_by_check[finding.check] += 1
        if counts_by_check[finding.check] <= MAX_FINDINGS_PER_CHECK and len(first_findings) < MAX_TABLE_ROWS:
            first_findings.append(finding)
    return first_findings


def _draw_severity(entry: Finding) -> Markup:
    return make_tag("span", entry.severity.name.lower(), class_=f"badge {_SEVERITY_COLORS[entry.severity]}")


def _describe_loss(loss: DamagedBatch | None) -> Markup | None:
    """Return the size and the records of a damaged batch; None if there is none."""
    if loss is None:
        return None
    records = f"{count_text(loss.declared, 'record')} declared, " if loss.declared >= 0 else ""
    range_text = f"{format_size(loss.size_bytes)}, offsets {loss.base_offset:,} to {loss.last_offset:,}"
    return make_tag("span", f" ({range_text}: {records}{loss.readable:,} readable before the damage)", class_="soft")


def describe_losses(report: LogReport) -> str | None:
    """Return how many records the damaged batches have; None without damage."""
    if not report.losses:
        return None
    records = sum(max(loss.declared, 0) for loss in report.losses)
    size = format_size(sum(loss.size_bytes for loss in report.losses))
    batches = count_text(len(report.losses), "damaged batch", "damaged batches")
    record_text = f", {count_text(records, 'record')} by their headers" if records else ""
    return f" {batches} ({size}{record_text}) not among the numbers above."


def draw_partitions(report: LogReport) -> Markup:
    """Draw the collapsed table of partitions."""
    order = sorted(
        report.partitions, key=lambda entry: (-entry.errors, -entry.size_bytes, entry.topic, entry.partition)
    )
    table_rows = sorted(order[:MAX_LISTED_PARTITIONS], key=lambda entry: (entry.topic, entry.partition))
    fields = [
        TableColumn("Partition", lambda entry: make_tag("b", f"{entry.topic}-{entry.partition}"), wide=True),
        make_number_column("Segments", "segments", is_minor=True),
        make_number_column("Size", "size_bytes", format_size),
        make_number_column("Start", "start_offset", is_minor=True),
        make_number_column("End", "end_offset"),
        make_number_column("High watermark", "high_watermark", is_minor=True),
        make_number_column("Records", "records"),
        make_number_column("Offsets without a record", "missing_offsets", is_minor=True, none=0),
        make_number_column("Leader epochs", "leader_epochs", is_minor=True, none=0),
        make_number_column("Last record", "last", format_minute, is_minor=True),
        TableColumn(
            "Copies", lambda entry: f"{len(entry.directories):,}", lambda entry: len(entry.directories), is_minor=True
        ),
        make_number_column("Errors", "errors", none=0),
    ]
    partition_table = make_table(table_rows, fields, name="partitions", searchable=len(table_rows) > 10)
    note = "Offsets without a record are gaps that result from compaction or damage."
    note += describe_limit(len(table_rows), len(report.partitions), "partitions")
    details = make_tag("details", make_tag("summary", count_text(len(report.partitions), "partition")), partition_table)
    return build_card("partitions", "Partitions", details, note=note, wide=True)


def draw_sources(report: LogReport) -> Markup:
    """List the directories that were read, and the files that were not measured."""
    fields = [
        TableColumn("Directory", lambda entry: format_path(entry.path), wide=True),
        make_number_column("Broker", "node_id", str),
        TableColumn("Cluster", lambda entry: entry.cluster_id or NO_VALUE_TEXT, is_minor=True),
        TableColumn(
            "Stopped cleanly", lambda entry: "yes" if entry.clean_shutdown else "no, or running", is_minor=True
        ),
        make_number_column("Partitions", "partitions", is_minor=True),
        make_number_column("Size", "size_bytes", format_size),
    ]
    not_read_rows = [
        TableColumn("Not included", lambda entry: format_path(entry.what), wide=True),
        TableColumn("Why", lambda entry: entry.why, wide=True),
        make_number_column("Size", "size_bytes", format_size),
    ]
    table_rows = report.not_read[:MAX_TABLE_ROWS]
    read_directories = make_table(report.directories[:MAX_TABLE_ROWS], fields, name="directories")
    remark = (
        make_table(table_rows, not_read_rows, name="files that were not measured", is_stacked=True)
        if table_rows
        else format_empty_text("All files were measured.")
    )
    note = describe_limit(len(table_rows), len(report.not_read), "files").strip() or None
    return build_card("source", "What was read", read_directories, remark, note=note, wide=True)
