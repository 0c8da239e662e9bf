"""Draw charts as HTML and SVG without a script: horizontal bars, columns, shares of a whole, sparklines.

A drawing is as wide as the page. All text next to a drawing is HTML, which is readable on a phone and on paper.
Colours are classes of the style sheet. Each shape's ``title`` explains it, and the page's script shows this text
without delay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkaframes.jobs.report.tables import Markup, join_html, make_tag
from kafkaframes.jobs.report.words import choose_axis_ticks, format_count_tick, format_share

CHART_HEIGHT = 100  # height of a drawing, in SVG units
_COLUMN_GAP = 0.12  # gap between columns, as a fraction of a column's width
_SPARKLINE_COLUMNS = 40


class ChartPart(NamedTuple):
    """One coloured part of a bar or a column."""

    color: str
    value: float
    tip: str


class Bar(NamedTuple):
    """A horizontal bar: its label, a remark, its coloured parts, and the text at its end."""

    label: str
    remark: str
    parts: Sequence[ChartPart]
    text: str


class ChartColumn(NamedTuple):
    """A column of a chart. ``tip`` is its full description."""

    parts: Sequence[ChartPart]
    tip: str


class ColumnTick(NamedTuple):
    """A label below the columns.

    ``position`` is the horizontal position of the label, in columns from the left. A minor label is hidden on a phone.
    """

    position: float
    label: str
    is_minor: bool = False


Text = Callable[[float], str]


def draw_legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Return a legend of (colour, text) entries."""
    return make_tag(
        "ul", (make_tag("li", make_tag("i", class_=color), label) for color, label in entries), class_="legend"
    )


def draw_bars(rows: Sequence[Bar], *, axis: Text, name: str, binary: bool = False) -> Markup:
    """Return horizontal bars over an axis from zero with the title ``name``.

    If ``binary`` is set, the axis has round steps in KiB, MiB and so on.
    """
    largest = max((sum(part.value for part in row.parts) for row in rows), default=0)
    ticks = choose_axis_ticks(largest, binary=binary)
    end = ticks[-1]
    lines = f"--step:{_format_percent(ticks[1], end)}"
    bar_rows = [
        make_tag(
            "div",
            make_tag(
                "div",
                make_tag("span", row.label, title=row.label),
                make_tag("small", row.remark) if row.remark else None,
                class_="label",
            ),
            make_tag("div", (_draw_part(part, end) for part in row.parts if part.value), class_="track", style=lines),
            make_tag("div", row.text, class_="value"),
            class_="bar",
        )
        for row in rows
    ]
    scale = make_tag(
        "div",
        make_tag("div", name, class_="label axis-name"),
        make_tag("div", (_draw_mark(tick, end, axis) for tick in ticks), class_="scale"),
        class_="bar axis",
    )
    return make_tag("div", bar_rows, scale, class_="bars")


def _draw_part(part: ChartPart, end: float) -> Markup:
    return make_tag(
        "span", class_=f"part {part.color}", style=f"width:{_format_percent(part.value, end)}", title=part.tip
    )


def _draw_mark(mark: float, end: float, axis: Text) -> Markup:
    return make_tag("span", axis(mark), style=f"left:{_format_percent(mark, end)}")


def _format_percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3f}".rstrip("0").rstrip(".") + "%" if whole else "0%"


def draw_columns(
    columns: Sequence[ChartColumn],
    ticks: Sequence[ColumnTick],
    *,
    x_name: str,
    y_name: str,
    label: str,
) -> Markup:
    """Return columns of equal width over an axis of ``ticks``.

    ``label`` describes the chart to screen readers.
    """
    count = max(len(columns), 1)
    tick_values = choose_axis_ticks(max((sum(part.value for part in column.parts) for column in columns), default=0))
    lines = [
        make_tag(
            "line",
            x1=0,
            x2=count,
            y1=_format_y(tick_value, tick_values[-1]),
            y2=_format_y(tick_value, tick_values[-1]),
            class_="grid",
        )
        for tick_value in tick_values[1:]
    ]
    groups = [
        make_tag("g", _draw_stack(index, column, tick_values[-1]), make_tag("title", column.tip))
        for index, column in enumerate(columns)
    ]
    svg = make_tag(
        "svg", lines, groups,
        viewBox=f"0 0 {count} {CHART_HEIGHT}", preserveAspectRatio="none", role="img", aria_label=label,
    )  # fmt: skip
    axis = make_tag(
        "div",
        (
            make_tag(
                "span", format_count_tick(tick_value), style=f"bottom:{_format_percent(tick_value, tick_values[-1])}"
            )
            for tick_value in tick_values
        ),
        class_="y",
    )
    below = make_tag(
        "div",
        (_draw_tick(column, count) for column in ticks),
        class_="x two" if any("\n" in column.label for column in ticks) else "x",
    )
    return make_tag(
        "div", make_tag("div", y_name, class_="y-name"), axis, make_tag("div", svg, class_="plot"), below,
        make_tag("div", x_name, class_="x-name"), class_="columns",
    )  # fmt: skip


def _draw_tick(entry: ColumnTick, count: int) -> Markup:
    share = entry.position / count
    edge = " first" if share < 0.04 else " last" if share > 0.96 else ""
    name = ("minor" if entry.is_minor else "") + edge
    return make_tag(
        "span", entry.label, style=f"left:{_format_percent(entry.position, count)}", class_=name.strip() or None
    )


def _format_y(value: float, end: float) -> str:
    return f"{CHART_HEIGHT - CHART_HEIGHT * value / end:.2f}".rstrip("0").rstrip(".")


def _draw_stack(index: int, column: ChartColumn, end: float) -> list[Markup]:
    """Draw a column's parts from the bottom, and a transparent area over the whole height that shows its tip."""
    rectangles, base = [], 0.0
    for part in column.parts:
        if part.value:
            top = base + max(part.value, end / CHART_HEIGHT / 2)  # keeps one record among millions visible
            height = CHART_HEIGHT * (top - base) / end
            x, y = index + _COLUMN_GAP / 2, CHART_HEIGHT - CHART_HEIGHT * top / end
            rectangles.append(
                make_tag(
                    "rect",
                    x=f"{x:.2f}",
                    y=f"{y:.2f}",
                    width=f"{1 - _COLUMN_GAP:.2f}",
                    height=f"{height:.2f}",
                    class_=part.color,
                )
            )
            base = top
    return [make_tag("rect", x=index, y=0, width=1, height=CHART_HEIGHT, class_="pane"), *rectangles]


def draw_share_bar(parts: Sequence[ChartPart], *, text: Text) -> Markup:
    """Return a bar that consists of all parts, and a legend with the share of each part."""
    whole = sum(part.value for part in parts)
    chunks = [_draw_part(part, whole) for part in parts if part.value]
    label = [
        make_tag(
            "li", make_tag("i", class_=part.color), make_tag("b", part.tip.split("\n")[0]), " ",
            make_tag("span", f"{format_share(part.value, whole)} · {text(part.value)}", class_="soft"),
        )
        for part in parts
    ]  # fmt: skip
    return join_html([make_tag("div", chunks, class_="share"), make_tag("ul", label, class_="legend")])


def draw_sparkline(counts: Sequence[int], *, tip: str) -> Markup:
    """Return a small chart of counts over time. Adjacent counts are added if there are too many."""
    group_size = -(-len(counts) // _SPARKLINE_COLUMNS) or 1
    counts = [sum(counts[index : index + group_size]) for index in range(0, len(counts), group_size)]
    largest = max(counts, default=0)
    if not largest:
        return Markup("")
    tall = 20
    heights = [tall - (0 if not count else max(round(tall * count / largest), 1)) for count in counts]
    path, previous_height = [f"M0 {tall}"], tall
    for index, height in enumerate(heights):
        if height != previous_height:
            path.append(f"H{index}V{height}")
            previous_height = height
    path.append(f"H{len(counts)}V{tall}Z")
    return make_tag(
        "svg", make_tag("title", tip), make_tag("path", d="".join(path)),
        class_="spark", viewBox=f"0 0 {len(counts)} {tall}", preserveAspectRatio="none",
    )  # fmt: skip
