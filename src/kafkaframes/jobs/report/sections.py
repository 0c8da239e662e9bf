"""Draw the report's cards on sizes, compression, formats, times and topics. Each function draws one card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from kafkaframes.errors.words import count_text
from kafkaframes.jobs.report import charts, histograms
from kafkaframes.jobs.report.charts import Bar, ChartColumn, ChartPart, ColumnTick
from kafkaframes.jobs.report.measure import Cell
from kafkaframes.jobs.report.model import LogReport, SizeReport, TimeReport, TopicReport
from kafkaframes.jobs.report.tables import Field, Markup, join, number, table, tag
from kafkaframes.jobs.report.words import (
    duration_mark,
    duration_text,
    minute_text,
    ratio_text,
    share_text,
    short_text,
    size_mark,
    size_text,
    time_text,
)
from kafkaframes.records.layout import CODECS

MAX_BARS = 15
MAX_LAYERS = 5
MAX_TOPICS = 2000
MAX_ROWS = 200  # rows of other tables
_PLURALS = {"batch": "batches"}
_FORMATS = {"v0": "before 0.10", "v1": "0.10", "v2": "since 0.11"}


def card(name: str, title: str, *children: Any, note: Any = None, wide: bool = False) -> Markup:
    """Return a card with a heading and an explanation."""
    note_tag = tag("p", note, class_="note") if note else None
    return tag("section", tag("h2", title), note_tag, children, id=name, class_="card wide-card" if wide else "card")


def empty(words: str) -> Markup:
    """Return the text of a card without data."""
    return tag("p", words, class_="empty")


def limit_text(row_count: int, whole: int, noun: str) -> str:
    """Return how many entries of a cut list are shown; "" if all are."""
    return f" {row_count:,} of {whole:,} {noun} shown; --json has all." if row_count < whole else ""


def codec_legend(topics: Sequence[TopicReport]) -> Markup:
    """Return the legend of the codecs in the topics."""
    used_codecs = {cell.codec for topic in topics for cell in topic.cells}
    unread = any(topic.size_bytes > topic.log_bytes for topic in topics)
    entries = [(f"codec-{name}", name) for name in CODECS if name in used_codecs]
    return charts.legend(entries + [("bad", "damaged, or no batch")] * unread)


def sizes(report: LogReport) -> Markup:
    """Draw the size of each topic, by codec."""
    topics = [topic for topic in report.topics if topic.size_bytes]
    if not topics:
        return card("size", "Size by topic and codec", empty("No topic has a byte in it."), wide=True)
    largest_topics, other_topics = topics[:MAX_BARS], topics[MAX_BARS:]
    rows = [_size_bar(topic.name, count_text(topic.partitions, "partition"), [topic]) for topic in largest_topics]
    if other_topics:
        rows.append(_size_bar(count_text(len(other_topics), "other topic"), "", other_topics))
    bar_chart = charts.bars(rows, axis=size_mark, name="bytes in the log", binary=True)
    note = "Bytes of each log, once if there are copies. The largest topics first."
    return card("size", "Size by topic and codec", codec_legend(topics), bar_chart, note=note, wide=True)


def _size_bar(name: str, remark: str, topics: Sequence[TopicReport]) -> Bar:
    by_codec: dict[str, int] = defaultdict(int)
    for cell in (cell for topic in topics for cell in topic.cells):
        by_codec[cell.codec] += cell.log_bytes
    whole = sum(topic.size_bytes for topic in topics)
    parts = [
        ChartPart(f"codec-{one}", by_codec[one], f"{name}\n{one}: {size_text(by_codec[one])}")
        for one in CODECS
        if by_codec[one]
    ]
    other_bytes = whole - sum(by_codec.values())
    if other_bytes > 0:
        parts.append(ChartPart("bad", other_bytes, f"{name}\ndamaged, or no batch: {size_text(other_bytes)}"))
    return Bar(name, remark, parts, size_text(whole))


def compression(report: LogReport) -> Markup:
    """Draw the compression ratio of each compressed topic, and a table of codecs."""
    topics = [topic for topic in report.topics if any(cell.codec != "none" for cell in topic.cells)]
    codecs = _by(report.topics, "codec")
    rows = [
        Bar(
            topic.name,
            " ".join(sorted({cell.codec for cell in topic.cells} - {"none"})),
            [ChartPart("c0", topic.raw_bytes / topic.log_bytes, _ratio_tip(topic))],
            ratio_text(topic.raw_bytes, topic.log_bytes),
        )
        for topic in topics[:MAX_BARS]
    ]
    bar_chart = (
        charts.bars(rows, axis=lambda mark: f"{short_text(mark)}×", name="times smaller")
        if rows
        else empty("Nothing in this log is compressed.")
    )
    fields = [
        Field("Codec", lambda entry: join([tag("i", class_=f"dot codec-{entry.codec}"), entry.codec])),
        number("Batches", "batches", is_minor=True),
        number("Records", "records"),
        number("In the log", "log_bytes", size_text),
        number("Uncompressed", "raw_bytes", size_text, is_minor=True),
        Field("Ratio", lambda entry: ratio_text(entry.raw_bytes, entry.log_bytes), _ratio),
    ]
    note = "How many times larger the batches would be without compression, headers of the batches included."
    if len(topics) > MAX_BARS:
        note += f" The {MAX_BARS} largest of {count_text(len(topics), 'topic')}."
    return card("compression", "Compression", bar_chart, table(codecs, fields, name="codecs"), note=note)


def _ratio(entry: Cell | TopicReport) -> float:
    return entry.raw_bytes / entry.log_bytes if entry.log_bytes else 0


def _ratio_tip(topic: TopicReport) -> str:
    return f"{topic.name}\n{size_text(topic.log_bytes)} in the log, {size_text(topic.raw_bytes)} without compression"


def _by(topics: Iterable[TopicReport], name: str) -> list[Cell]:
    """Sum the cells of all topics by format or by codec, and sort them by size, the largest first."""
    result: dict[str, Cell] = {}
    for cell in (cell for topic in topics for cell in topic.cells):
        result.setdefault(getattr(cell, name), Cell(cell.format, cell.codec)).merge(cell)
    return sorted(result.values(), key=lambda entry: (-entry.log_bytes, entry.codec))


def formats(report: LogReport) -> Markup:
    """Draw the shares of the record formats, and list the topics with older formats."""
    result = sorted(_by(report.topics, "format"), key=lambda entry: entry.format)
    title = "Record formats"
    if not result:
        return card("formats", title, empty("The log has no batches."))
    parts = [
        ChartPart(
            f"format-{one.format}", one.log_bytes, f"{one.format} ({_FORMATS[one.format]})\n{size_text(one.log_bytes)}"
        )
        for one in result
    ]
    old = [topic.name for topic in report.topics if any(cell.format != "v2" for cell in topic.cells)]
    note = (
        tag("p", "Kafka 4 writes only v2. Topics with older batches: ", tag("b", _some(old)), ".")
        if old
        else tag("p", "All batches are in the format that Kafka 4 writes.", class_="soft")
    )
    return card("formats", title, charts.share(parts, text=size_text), note, note="By bytes in the log.", wide=True)


def _some(names: Sequence[str], max_names: int = 8) -> str:
    remark = f" and {len(names) - max_names:,} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + remark


def size_histogram(name: str, title: str, sizes: SizeReport, *, noun: str, note: str, empty_words: str) -> Markup:
    """Draw a histogram of sizes in bytes, with its quantiles."""
    if not sizes.count:
        return card(name, title, empty(empty_words))
    histogram = _octaves(sizes, text=size_mark, noun=noun, x_name=f"size of a {noun}, in powers of two")
    return card(name, title, quantiles(sizes, size_text), histogram, note=note)


def quantiles(sizes: SizeReport, text: charts.Text) -> Markup:
    """Return the quantiles of a histogram as figures."""
    mean = sizes.total / sizes.count if sizes.count else 0
    figures = (
        ("smallest", sizes.smallest), ("median", sizes.median), ("mean", mean),
        ("90 %", sizes.p90), ("99 %", sizes.p99), ("largest", sizes.largest),
    )  # fmt: skip
    return tag("dl", (tag("div", tag("dt", name), tag("dd", text(value))) for name, value in figures), class_="figures")


def _octaves(result: SizeReport, *, text: charts.Text, noun: str, x_name: str) -> Markup:
    y_name = _PLURALS.get(noun, f"{noun}s")
    columns = [
        ChartColumn(
            [ChartPart("c0", count, "")],
            f"{_range(low, high, text)}\n{count_text(count, noun, y_name)} ({share_text(count, result.count)})",
        )
        for low, high, count in result.bins
    ]
    every = max(-(-len(columns) // 8), 1)
    ticks = [
        ColumnTick(index, text(low), is_minor=index % (2 * every) != 0)
        for index, (low, _, _) in enumerate(result.bins)
        if index % every == 0
    ]
    return charts.columns(columns, ticks, x_name=x_name, y_name=y_name, label=f"Histogram: {y_name} by {x_name}")


def _range(low: int, high: int, text: charts.Text) -> str:
    return text(low) if high == low + 1 else f"{text(low)} to < {text(high)}"


def durations(sizes: SizeReport) -> Markup:
    """Draw a histogram of durations."""
    histogram = _octaves(
        sizes, text=duration_mark, noun="transaction", x_name="time from the first batch to the marker"
    )
    return join([quantiles(sizes, duration_text), histogram])


def times(report: LogReport) -> Markup:
    """Draw the records of the whole log over time. The most active topics have their own colours."""
    result, title = report.times, "Records over time"
    if not result.counts:
        return card("times", title, empty("No record has a timestamp that a calendar has."), wide=True)
    order = sorted(report.topics, key=lambda entry: (-sum(entry.activity), entry.name))
    layers = [topic for topic in order if sum(topic.activity)][:MAX_LAYERS]
    named_layers = [(f"c{index}", topic.name, topic.activity) for index, topic in enumerate(layers)]
    other_counts = [total - sum(one[index] for _, _, one in named_layers) for index, total in enumerate(result.counts)]
    if any(other_counts):
        named_layers.append(("rest", "other topics", other_counts))
    columns = [_time_column(result.edges, index, total, named_layers) for index, total in enumerate(result.counts)]
    column_chart = charts.columns(
        columns, time_ticks(result.edges), x_name="time of the record, UTC", y_name=f"records per {result.unit}",
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
    first, last = chart_range(result)
    note = f"From {time_text(first)} to {time_text(last)} UTC. " + "".join(f"{remark}. " for remark in remarks)
    return card(
        "times",
        title,
        charts.legend([(color, name) for color, name, _ in named_layers]),
        column_chart,
        note=note,
        wide=True,
    )


def chart_range(times: TimeReport) -> tuple[int, int]:
    """Return the time range of the chart, in milliseconds. Implausible times are outside."""
    nonempty_edges = [edge for edge, count in zip(times.edges, times.counts, strict=False) if count]
    return nonempty_edges[0] if times.before else times.first, nonempty_edges[-1] if times.after else times.last


def _time_column(
    edges: Sequence[int], index: int, total: int, named_layers: Sequence[tuple[str, str, Sequence[int]]]
) -> ChartColumn:
    parts = [ChartPart(color, counts[index], name) for color, name, counts in named_layers]
    lines = [f"{time_text(edges[index])}", count_text(total, "record")]
    lines += [f"{part.tip}: {part.value:,}" for part in parts if part.value] if len(named_layers) > 1 else []
    return ChartColumn(parts, "\n".join(lines))


def time_ticks(edges: Sequence[int]) -> list[ColumnTick]:
    """Return the ticks of a time axis."""
    result = histograms.ticks(list(edges))
    return [
        ColumnTick(_position(edges, one.position), one.label, is_minor=bool(number % 2) and not one.is_new)
        for number, one in enumerate(result)
    ]


def _position(edges: Sequence[int], time: int) -> float:
    """Return the position of a time, in columns. Columns may cover different durations (months)."""
    position = max(index for index, edge in enumerate(edges) if edge <= time)
    if position == len(edges) - 1:
        return position
    return position + (time - edges[position]) / (edges[position + 1] - edges[position])


def topics(report: LogReport) -> Markup:
    """Draw the table of all topics."""
    listed_topics = report.topics[:MAX_TOPICS]
    fields = [
        Field("Topic", lambda entry: tag("b", entry.name, class_="soft" if entry.is_internal else None), wide=True),
        number("Partitions", "partitions", is_minor=True),
        number("Records", "records"),
        number("Size", "size_bytes", size_text),
        Field("Ratio", lambda entry: ratio_text(entry.raw_bytes, entry.log_bytes), _ratio),
        number("Median record", "record_sizes.median", size_text, is_minor=True),
        number("First", "first", minute_text, is_minor=True),
        number("Last", "last", minute_text, is_minor=True),
        Field(
            "Over time",
            lambda entry: charts.spark(entry.activity, tip=f"{entry.name}: records over time"),
            is_minor=True,
        ),
        number("Errors", "errors", none=0),
    ]
    note = "Times are those of the records, UTC. Ratio: size without compression to size in the log."
    note += limit_text(len(listed_topics), len(report.topics), "topics")
    return card(
        "topics",
        "Topics",
        table(listed_topics, fields, name="topics", searchable=len(listed_topics) > 10),
        note=note,
        wide=True,
    )
