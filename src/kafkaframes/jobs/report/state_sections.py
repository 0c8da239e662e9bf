"""What the page shows of copies, damage and partitions, and what it is a report of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafkaframes.jobs.report import charts, copies
from kafkaframes.jobs.report.charts import Part
from kafkaframes.jobs.report.copies import CopyReport
from kafkaframes.jobs.report.measure import Loss
from kafkaframes.jobs.report.model import Report
from kafkaframes.jobs.report.sections import MOST_ROWS, card, empty, shown_text
from kafkaframes.jobs.report.tables import Field, Markup, join, number, path_code, table, tag
from kafkaframes.jobs.report.words import NONE, count_text, minute_text, size_text
from kafkaframes.storage.files.findings import Finding, Severity

MOST_OF_A_CHECK = 20
MOST_PARTITIONS = 300
_VERDICTS = {  # verdict -> colour, words
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


def replicas(report: Report) -> Markup:
    """List the copies of partitions of which not all are the same, and what was decided."""
    title = "Copies"
    if not report.copies:
        return card("copies", title, empty("Every partition was found once."), wide=True)
    groups: dict[tuple[str, int], list[CopyReport]] = {}
    for entry in report.copies:
        groups.setdefault((entry.topic, entry.partition), []).append(entry)
    rest = [one for group in groups.values() if any(copy.verdict != copies.SAME for copy in group) for one in group]
    counted = Counter(one.verdict for one in report.copies)
    parts = [Part(color, counted[verdict], words) for verdict, (color, words) in _VERDICTS.items() if counted[verdict]]
    fields = [
        Field("Partition", lambda entry: tag("b", f"{entry.topic}-{entry.partition}")),
        Field("Verdict", _verdict),
        Field("Directory", lambda entry: path_code(entry.directory.rpartition("/")[0] or entry.directory), wide=True),
        number("Starts at", "start_offset"),
        number("Ends at", "end_offset"),
        number("Errors", "errors", none=0),
        Field("Decided", lambda entry: [tag("div", words) for words in entry.decided[:MOST_OF_A_CHECK]], wide=True),
    ]
    shown = rest[:MOST_ROWS]
    several = count_text(len(groups), "partition")
    note = f"{several} found more than once; the numbers of this page are those of the one log that their copies make."
    body = empty("All copies are the same.")
    if shown:
        body = table(shown, fields, name="copies that differ", stacked=True)
    whole = charts.share(parts, text=lambda value: count_text(int(value), "copy", "copies"))
    return card("copies", title, whole, body, note=note + shown_text(len(shown), len(rest), "copies"), wide=True)


def _verdict(entry: CopyReport) -> Markup:
    color, words = _VERDICTS[entry.verdict]
    leads = tag("span", "leads", class_="badge", title="its history is the one that counts") if entry.leads else None
    return join([tag("span", words, class_=f"badge {color}"), leads])


def damage(report: Report) -> Markup:
    """List what verification found, the gravest first, and what was lost."""
    title = "Damage"
    if not report.findings:
        said = "Every CRC, offset, index and checkpoint is as a broker would have it."
        return card("damage", title, tag("p", tag("b", "Sound. "), said, class_="all-good"), wide=True)
    counts = [(severity, report.errors(severity)) for severity in sorted(Severity, reverse=True)]
    badges = [
        tag("span", count_text(count, severity.name.lower()), class_=f"badge {_SEVERITIES[severity]}")
        for severity, count in counts
        if count
    ]
    checks = Counter(one.check for one in report.findings)
    kinds = " · ".join(f"{check} {count:,}" for check, count in checks.most_common())
    lost = {(one.file, one.position): one for one in report.losses}
    fields = [
        Field("Severity", _severity),
        Field("Check", lambda entry: entry.check),
        Field(
            "What", lambda entry: join([entry.message, _loss_text(lost.get((entry.file, entry.position)))]), wide=True
        ),
        Field("File", lambda entry: path_code(entry.file), wide=True),
        number("Byte", "position"),
        number("Offset", "offset"),
    ]
    shown = _first_of_each(report.findings)
    note = "Errors are about records; a broker rebuilds what warnings are about; notes are what brokers leave behind."
    note += shown_text(len(shown), len(report.findings), "findings")
    words = tag("p", badges, lost_text(report)), tag("p", kinds, class_="soft")
    return card("damage", title, words, table(shown, fields, name="findings", stacked=True), note=note, wide=True)


def _first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what repeats: hundreds of one check would hide the others."""
    seen: Counter[str] = Counter()
    shown: list[Finding] = []
    for finding in findings:
        seen[finding.check] += 1
        if seen[finding.check] <= MOST_OF_A_CHECK and len(shown) < MOST_ROWS:
            shown.append(finding)
    return shown


def _severity(entry: Finding) -> Markup:
    return tag("span", entry.severity.name.lower(), class_=f"badge {_SEVERITIES[entry.severity]}")


def _loss_text(loss: Loss | None) -> Markup | None:
    if loss is None:
        return None
    records = f"{loss.declared:,} records declared, " if loss.declared >= 0 else ""
    where = f"{size_text(loss.size_bytes)}, offsets {loss.base_offset:,} to {loss.last_offset:,}"
    return tag("span", f" ({where}: {records}{loss.readable:,} readable before the damage)", class_="soft")


def lost_text(report: Report) -> str | None:
    """Say what the damaged batches held."""
    if not report.losses:
        return None
    records = sum(max(one.declared, 0) for one in report.losses)
    size = size_text(sum(one.size_bytes for one in report.losses))
    batches = count_text(len(report.losses), "damaged batch", "damaged batches")
    held = f", {count_text(records, 'record')} by their headers" if records else ""
    return f" {batches} ({size}{held}) not among the numbers above."


def partitions(report: Report) -> Markup:
    """List partitions, folded away."""
    order = sorted(
        report.partitions, key=lambda entry: (-entry.errors, -entry.size_bytes, entry.topic, entry.partition)
    )
    shown = sorted(order[:MOST_PARTITIONS], key=lambda entry: (entry.topic, entry.partition))
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
    listed = table(shown, fields, name="partitions", searchable=len(shown) > 10)
    note = "Offsets without a record: holes that compaction or damage left."
    note += shown_text(len(shown), len(report.partitions), "partitions")
    folded = tag("details", tag("summary", count_text(len(report.partitions), "partition")), listed)
    return card("partitions", "Partitions", folded, note=note, wide=True)


def source(report: Report) -> Markup:
    """Say what was read, and what was not."""
    fields = [
        Field("Directory", lambda entry: path_code(entry.path), wide=True),
        number("Broker", "node_id", str),
        Field("Cluster", lambda entry: entry.cluster_id or NONE, is_minor=True),
        Field("Stopped cleanly", lambda entry: "yes" if entry.clean_shutdown else "no, or running", is_minor=True),
        number("Partitions", "partitions", is_minor=True),
        number("Size", "size_bytes", size_text),
    ]
    left = [
        Field("Not among the numbers", lambda entry: path_code(entry.what), wide=True),
        Field("Why", lambda entry: entry.why, wide=True),
        number("Size", "size_bytes", size_text),
    ]
    shown = report.not_read[:MOST_ROWS]
    read = table(report.directories[:MOST_ROWS], fields, name="directories")
    rest = table(shown, left, name="what was not measured", stacked=True) if shown else empty("Nothing was left out.")
    note = shown_text(len(shown), len(report.not_read), "files").strip() or None
    return card("source", "What was read", read, rest, note=note, wide=True)
