"""Draw a report as one HTML page without network access. The page is readable without its script, and reproducible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkaframes.errors.words import count_text
from kafkaframes.jobs.report import sections, state_sections
from kafkaframes.jobs.report.model import LogReport
from kafkaframes.jobs.report.tables import Markup, build_html_page, format_paths
from kafkaframes.jobs.report.words import NO_VALUE_TEXT, format_minute, format_ratio, format_size, format_time

_MAX_LISTED_PATHS = 4  # number of paths in the head of the page
# Largest numbers of topics, and of entries in other lists, in the JSON data of the page.
_KEPT_TOPICS, _KEPT = 2000, 200


def build_report_page(report: LogReport) -> str:
    """Return the report as HTML."""
    return build_html_page(
        "Kafka log report: " + ", ".join(report.paths[:2]),
        heading="Kafka log report",
        location=format_paths(report.paths, _MAX_LISTED_PATHS),
        footer=f"Read {format_minute(report.generated_at)} UTC by kafkaframes {report.version}",
        tiles=_build_tiles(report),
        cards=_build_cards(report),
        sections=_TITLE_BY_CARD,
        data=_build_page_data(report),
        version=report.version,
    )


_TITLE_BY_CARD = {
    "size": "Size",
    "times": "Time",
    "formats": "Formats",
    "compression": "Compression",
    "producers": "Producers",
    "records": "Record sizes",
    "transactions": "Transactions",
    "keys": "Keys",
    "copies": "Copies",
    "damage": "Damage",
    "topics": "Topics",
    "partitions": "Partitions",
    "source": "Source",
}


def _build_cards(report: LogReport) -> list[Markup]:
    return [
        sections.draw_sizes(report),
        sections.draw_times(report),
        sections.draw_formats(report),
        sections.draw_compression(report),
        state_sections.draw_producers(report),
        sections.draw_size_histogram(
            "records", "Record sizes", report.record_sizes, noun="record", empty_words="The log has no records.",
            note="Size of key and value before compression, without headers. The error of quantiles is at most 6 %.",
        ),
        sections.draw_size_histogram(
            "batches", "Batch sizes", report.batch_sizes, noun="batch", empty_words="The log has no batches.",
            note="Size in the log, after compression. Small batches compress badly, and each has a header of its own.",
        ),
        state_sections.draw_transactions(report),
        state_sections.draw_keys(report),
        state_sections.draw_replicas(report),
        state_sections.draw_findings(report),
        sections.draw_topics(report),
        state_sections.draw_partitions(report),
        state_sections.draw_sources(report),
    ]  # fmt: skip


def _build_tiles(report: LogReport) -> tuple[tuple[str, str, str, str], ...]:
    errors, warnings = report.errors(), sum(finding.severity.name == "WARNING" for finding in report.findings)
    total = report.total
    log, raw_bytes, size, disk_bytes = (total(name) for name in ("log_bytes", "raw_bytes", "size_bytes", "disk_bytes"))
    total_text = (
        f"{format_size(disk_bytes)} with all copies" if disk_bytes > size else count_text(total("segments"), "segment")
    )
    first, last = (
        sections.choose_chart_range(report.times) if report.times.edges else (report.times.first, report.times.last)
    )
    state = "bad" if errors else "" if report.caveats else "good"
    verdict = count_text(errors, "error") if errors else "Sound, but" if report.caveats else "Sound"
    warnings_text = count_text(warnings, "warning") if warnings else "no warnings"
    return (
        ("Records", f"{total('records'):,}", f"in {count_text(total('batches'), 'batch', 'batches')}", ""),
        ("Topics", f"{len(report.topics):,}", count_text(total("partitions"), "partition"), ""),
        ("Size", format_size(size), total_text, ""),
        ("Compression", format_ratio(raw_bytes, log), f"{format_size(raw_bytes)} without", ""),
        ("Time", _format_day(first), f"to {_format_day(last)}" if last >= 0 else "no timestamps", ""),
        ("Damage", verdict, " · ".join(report.caveats) or warnings_text, state),
    )


def _format_day(timestamp_ms: int) -> str:
    text = format_time(timestamp_ms)
    return text if text == NO_VALUE_TEXT or text.endswith("ms") else text[:10]


def _build_page_data(report: LogReport) -> dict[str, Any]:
    """Return the JSON data of the page. Long lists are truncated; ``left_out`` has the number of omitted entries."""
    max_lengths = {"topics": _KEPT_TOPICS} | dict.fromkeys(_SHORTENED_LISTS, _KEPT)
    omitted_counts = {
        name: len(getattr(report, name)) - count
        for name, count in max_lengths.items()
        if len(getattr(report, name)) > count
    }
    short_report = replace(report, **{name: getattr(report, name)[: max_lengths[name]] for name in omitted_counts})
    values = short_report.as_json() | {"left_out": omitted_counts}
    values["topics"] = [_shorten_topic(topic) for topic in values["topics"]]
    return values


# Lists of which the page only has the first entries.
_SHORTENED_LISTS = ("partitions", "producers", "copies", "findings", "losses", "not_read")


def _shorten_topic(topic: dict[str, Any]) -> dict[str, Any]:
    """Remove a topic's histogram bins, and its transaction counts if it has no transactions."""
    result = {name: value for name, value in topic.items() if name != "activity"}
    result["record_sizes"] = {name: topic["record_sizes"][name] for name in ("total", "median", "p99", "largest")}
    if not any(topic["transactions"][name] for name in ("committed", "aborted", "open", "empty_markers")):
        del result["transactions"]
    return result
