"""Draw the report's cards on sizes, compression, formats, times and topics. Each function draws one card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from kafkaframes.errors.words import count_text
from kafkaframes.jobs.report import charts, histograms
from kafkaframes.jobs.report.charts import Bar, ChartColumn, ChartPart, ColumnTick
from kafkaframes.jobs.report.measure import FormatCounts
from kafkaframes.jobs.report.model import LogReport, SizeReport, TimeReport, TopicReport
from kafkaframes.jobs.report.tables import Markup, TableColumn, join_html, make_number_column, make_table, make_tag
from kafkaframes.jobs.report.words import (
    format_count_tick,
    format_duration,
    format_duration_tick,
    format_minute,
    format_ratio,
    format_share,
    format_size,
    format_size_tick,
    format_time,
)
from kafkaframes.records.layout import CODECS

MAX_BARS = 15  # largest number of bars in a chart
MAX_COLORED_TOPICS = 5  # topics with their own colour in the chart over time
MAX_LISTED_TOPICS = 2000  # rows of the table of topics
MAX_TABLE_ROWS = 200  # largest number of rows in the other tables
_IRREGULAR_PLURALS = {"batch": "batches"}
# Kafka releases that write each record format.
_RELEASES_BY_FORMAT = {"v0": "before 0.10", "v1": "0.10", "v2": "since 0.11"}


def build_card(name: str, title: str, *children: Any, note: Any = None, wide: bool = False) -> Markup:
    """Return a card with a heading and an explanation."""
    note_tag = make_tag("p", note, class_="note") if note else None
    return make_tag(
        "section", make_tag("h2", title), note_tag, children, id=name, class_="card wide-card" if wide else "card"
    )


def format_empty_text(words: str) -> Markup:
    """Return the text of a card without data."""
    return make_tag("p", words, class_="empty")


def describe_limit(row_count: int, total_count: int, noun: str) -> str:
    """Return a sentence with the number of shown entries of a truncated list; "" if all are shown."""
    return f" {row_count:,} of {total_count:,} {noun} shown; --json has all." if row_count < total_count else ""


def draw_codec_legend(topics: Sequence[TopicReport]) -> Markup:
    """Return the legend of the codecs in the topics."""
    used_codecs = {cell.codec for topic in topics for cell in topic.cells}
    unread = any(topic.size_bytes > topic.log_bytes for topic in topics)
    entries = [(f"codec-{name}", name) for name in CODECS if name in used_codecs]
    return charts.draw_legend(entries + [("bad", "damaged, or not in a batch")] * unread)


def draw_sizes(report: LogReport) -> Markup:
    """Draw the size of each topic, by codec."""
    topics = [topic for topic in report.topics if topic.size_bytes]
    if not topics:
        return build_card("size", "Size by topic and codec", format_empty_text("All topics are empty."), wide=True)
    largest_topics, other_topics = topics[:MAX_BARS], topics[MAX_BARS:]
    rows = [_draw_size_bar(topic.name, count_text(topic.partitions, "partition"), [topic]) for topic in largest_topics]
    if other_topics:
        rows.append(_draw_size_bar(count_text(len(other_topics), "other topic"), "", other_topics))
    bar_chart = charts.draw_bars(rows, axis=format_size_tick, name="bytes in the log", binary=True)
    note = "Size of each log; copies count once. The largest topics are first."
    return build_card("size", "Size by topic and codec", draw_codec_legend(topics), bar_chart, note=note, wide=True)


def _draw_size_bar(name: str, remark: str, topics: Sequence[TopicReport]) -> Bar:
    by_codec: dict[str, int] = defaultdict(int)
    for cell in (cell for topic in topics for cell in topic.cells):
        by_codec[cell.codec] += cell.log_bytes
    total_bytes = sum(topic.size_bytes for topic in topics)
    parts = [
        ChartPart(f"codec-{codec}", by_codec[codec], f"{name}\n{codec}: {format_size(by_codec[codec])}")
        for codec in CODECS
        if by_codec[codec]
    ]
    other_bytes = total_bytes - sum(by_codec.values())
    if other_bytes > 0:
        parts.append(ChartPart("bad", other_bytes, f"{name}\ndamaged, or not in a batch: {format_size(other_bytes)}"))
    return Bar(name, remark, parts, format_size(total_bytes))


def draw_compression(report: LogReport) -> Markup:
    """Draw the compression ratio of each compressed topic, and a table of codecs."""
    topics = [topic for topic in report.topics if any(cell.codec != "none" for cell in topic.cells)]
    codecs = _sum_cells(report.topics, "codec")
    rows = [
        Bar(
            topic.name,
            " ".join(sorted({cell.codec for cell in topic.cells} - {"none"})),
            [ChartPart("c0", topic.raw_bytes / topic.log_bytes, _format_ratio_tip(topic))],
            format_ratio(topic.raw_bytes, topic.log_bytes),
        )
        for topic in topics[:MAX_BARS]
    ]
    bar_chart = (
        charts.draw_bars(rows, axis=lambda mark: f"{format_count_tick(mark)}×", name="times smaller")
        if rows
        else format_empty_text("Nothing in this log is compressed.")
    )
    fields = [
        TableColumn("Codec", lambda entry: join_html([make_tag("i", class_=f"dot codec-{entry.codec}"), entry.codec])),
        make_number_column("Batches", "batches", is_minor=True),
        make_number_column("Records", "records"),
        make_number_column("In the log", "log_bytes", format_size),
        make_number_column("Uncompressed", "raw_bytes", format_size, is_minor=True),
        TableColumn("Ratio", lambda entry: format_ratio(entry.raw_bytes, entry.log_bytes), _compute_compression_ratio),
    ]
    note = "Ratio of the size without compression to the size in the log, including batch headers."
    if len(topics) > MAX_BARS:
        note += f" The {MAX_BARS} largest of {count_text(len(topics), 'topic')}."
    return build_card("compression", "Compression", bar_chart, make_table(codecs, fields, name="codecs"), note=note)


def _compute_compression_ratio(entry: FormatCounts | TopicReport) -> float:
    """Return the ratio of uncompressed to compressed size, 0 without batches."""
    return entry.raw_bytes / entry.log_bytes if entry.log_bytes else 0


def _format_ratio_tip(topic: TopicReport) -> str:
    return (
        f"{topic.name}\n{format_size(topic.log_bytes)} in the log, {format_size(topic.raw_bytes)} without compression"
    )


def _sum_cells(topics: Iterable[TopicReport], name: str) -> list[FormatCounts]:
    """Sum the cells of all topics by format or by codec, and sort them by size, the largest first."""
    result: dict[str, FormatCounts] = {}
    for cell in (cell for topic in topics for cell in topic.cells):
        result.setdefault(getattr(cell, name), FormatCounts(cell.format, cell.codec)).merge(cell)
    return sorted(result.values(), key=lambda entry: (-entry.log_bytes, entry.codec))


def draw_formats(report: LogReport) -> Markup:
    """Draw the shares of the record formats, and list the topics with older formats."""
    result = sorted(_sum_cells(report.topics, "format"), key=lambda entry: entry.format)
    title = "Record formats"
    if not result:
        return build_card("formats", title, format_empty_text("The log has no batches."))
    parts = [
        ChartPart(
            f"format-{sums.format}",
            sums.log_bytes,
            f"{sums.format} ({_RELEASES_BY_FORMAT[sums.format]})\n{format_size(sums.log_bytes)}",
        )
        for sums in result
    ]
    old_format_topics = [topic.name for topic in report.topics if any(cell.format != "v2" for cell in topic.cells)]
    note = (
        make_tag(
            "p",
            "Kafka 4 writes only v2. Topics with older batches: ",
            make_tag("b", _limit_names(old_format_topics)),
            ".",
        )
        if old_format_topics
        else make_tag("p", "All batches are in the format that Kafka 4 writes.", class_="soft")
    )
    return build_card(
        "formats",
        title,
        charts.draw_share_bar(parts, text=format_size),
        note,
        note="Shares of the bytes in the log.",
        wide=True,
    )


def _limit_names(names: Sequence[str], max_names: int = 8) -> str:
    """Return the first names, and the number of other names."""
    remark = f" and {len(names) - max_names:,} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + remark


def draw_size_histogram(name: str, title: str, sizes: SizeReport, *, noun: str, note: str, empty_words: str) -> Markup:
    """Draw a histogram of sizes in bytes, with its quantiles."""
    if not sizes.count:
        return build_card(name, title, format_empty_text(empty_words))
    histogram = _draw_octaves(sizes, text=format_size_tick, noun=noun, x_name=f"size of a {noun}, in powers of two")
    return build_card(name, title, draw_quantiles(sizes, format_size), histogram, note=note)


def draw_quantiles(sizes: SizeReport, text: charts.Text) -> Markup:
    """Return the quantiles of a histogram as figures."""
    mean = sizes.total / sizes.count if sizes.count else 0
    figures = (
        ("smallest", sizes.smallest), ("median", sizes.median), ("mean", mean),
        ("90 %", sizes.p90), ("99 %", sizes.p99), ("largest", sizes.largest),
    )  # fmt: skip
    return make_tag(
        "dl",
        (make_tag("div", make_tag("dt", name), make_tag("dd", text(value))) for name, value in figures),
        class_="figures",
    )


def _draw_octaves(result: SizeReport, *, text: charts.Text, noun: str, x_name: str) -> Markup:
    """Draw the columns of a histogram whose bins double in width."""
    y_name = _IRREGULAR_PLURALS.get(noun, f"{noun}s")
    columns = [
        ChartColumn(
            [ChartPart("c0", count, "")],
            f"{_format_range(low, high, text)}\n"
            f"{count_text(count, noun, y_name)} ({format_share(count, result.count)})",
        )
        for low, high, count in result.bins
    ]
    label_interval = max(-(-len(columns) // 8), 1)
    ticks = [
        ColumnTick(index, text(low), is_minor=index % (2 * label_interval) != 0)
        for index, (low, _, _) in enumerate(result.bins)
        if index % label_interval == 0
    ]
    return charts.draw_columns(columns, ticks, x_name=x_name, y_name=y_name, label=f"Histogram: {y_name} by {x_name}")


def _format_range(low: int, high: int, text: charts.Text) -> str:
    """Return the values of a histogram's bin as text."""
    return text(low) if high == low + 1 else f"{text(low)} to < {text(high)}"


def draw_durations(sizes: SizeReport) -> Markup:
    """Draw a histogram of durations."""
    histogram = _draw_octaves(
        sizes, text=format_duration_tick, noun="transaction", x_name="time from the first batch to the marker"
    )
    return join_html([draw_quantiles(sizes, format_duration), histogram])


def draw_times(report: LogReport) -> Markup:
    """Draw the records of the whole log over time. The most active topics have their own colours."""
    result, title = report.times, "Records over time"
    if not result.counts:
        return build_card(
            "times", title, format_empty_text("No record has a timestamp between the years 1 and 9999."), wide=True
        )
    order = sorted(report.topics, key=lambda entry: (-sum(entry.activity), entry.name))
    layers = [topic for topic in order if sum(topic.activity)][:MAX_COLORED_TOPICS]
    named_layers = [(f"c{index}", topic.name, topic.activity) for index, topic in enumerate(layers)]
    other_counts = [total - sum(one[index] for _, _, one in named_layers) for index, total in enumerate(result.counts)]
    if any(other_counts):
        named_layers.append(("rest", "other topics", other_counts))
    columns = [_make_time_column(result.edges, index, total, named_layers) for index, total in enumerate(result.counts)]
    column_chart = charts.draw_columns(
        columns, make_time_ticks(result.edges), x_name="record timestamp, UTC", y_name=f"records per {result.unit}",
        label=f"Histogram: records per {result.unit}",
    )  # fmt: skip
    remarks = [
        f"{count_text(count, 'record')} {words}"
        for count, words in (
            (result.before + result.after, "with implausible times, not drawn"),
            (result.without, "without a timestamp"),
            (result.append_time, "with the broker's time (LogAppendTime)"),
        )
        if count
    ]
    first, last = choose_chart_range(result)
    note = f"From {format_time(first)} to {format_time(last)} UTC. " + "".join(f"{remark}. " for remark in remarks)
    return build_card(
        "times",
        title,
        charts.draw_legend([(color, name) for color, name, _ in named_layers]),
        column_chart,
        note=note,
        wide=True,
    )


def choose_chart_range(times: TimeReport) -> tuple[int, int]:
    """Return the time range of the chart, in milliseconds. Implausible times are outside."""
    nonempty_edges = [edge for edge, count in zip(times.edges, times.counts, strict=False) if count]
    return nonempty_edges[0] if times.before else times.first, nonempty_edges[-1] if times.after else times.last


def _make_time_column(
    edges: Sequence[int], index: int, total: int, named_layers: Sequence[tuple[str, str, Sequence[int]]]
) -> ChartColumn:
    """Return the chart column of one period, with the topics' counts as coloured parts."""
    parts = [ChartPart(color, counts[index], name) for color, name, counts in named_layers]
    lines = [f"{format_time(edges[index])}", count_text(total, "record")]
    lines += [f"{part.tip}: {part.value:,}" for part in parts if part.value] if len(named_layers) > 1 else []
    return ChartColumn(parts, "\n".join(lines))


def make_time_ticks(edges: Sequence[int]) -> list[ColumnTick]:
    """Return the ticks of a time axis."""
    result = histograms.choose_ticks(list(edges))
    return [
        ColumnTick(_find_position(edges, tick.position), tick.label, is_minor=bool(number % 2) and not tick.is_new)
        for number, tick in enumerate(result)
    ]


def _find_position(edges: Sequence[int], time: int) -> float:
    """Return the position of a time, in columns. Columns may cover different durations (months)."""
    position = max(index for index, edge in enumerate(edges) if edge <= time)
    if position == len(edges) - 1:
        return position
    return position + (time - edges[position]) / (edges[position + 1] - edges[position])


def draw_topics(report: LogReport) -> Markup:
    """Draw the table of all topics."""
    listed_topics = report.topics[:MAX_LISTED_TOPICS]
    fields = [
        TableColumn(
            "Topic", lambda entry: make_tag("b", entry.name, class_="soft" if entry.is_internal else None), wide=True
        ),
        make_number_column("Partitions", "partitions", is_minor=True),
        make_number_column("Records", "records"),
        make_number_column("Size", "size_bytes", format_size),
        TableColumn("Ratio", lambda entry: format_ratio(entry.raw_bytes, entry.log_bytes), _compute_compression_ratio),
        make_number_column("Median record", "record_sizes.median", format_size, is_minor=True),
        make_number_column("First", "first", format_minute, is_minor=True),
        make_number_column("Last", "last", format_minute, is_minor=True),
        TableColumn(
            "Over time",
            lambda entry: charts.draw_sparkline(entry.activity, tip=f"{entry.name}: records over time"),
            is_minor=True,
        ),
        make_number_column("Errors", "errors", none=0),
    ]
    note = (
        "Times are record timestamps in UTC. The ratio is the size without compression divided by the size in the log."
    )
    note += describe_limit(len(listed_topics), len(report.topics), "topics")
    return build_card(
        "topics",
        "Topics",
        make_table(listed_topics, fields, name="topics", searchable=len(listed_topics) > 10),
        note=note,
        wide=True,
    )
