"""Draw charts as HTML and SVG without a script: horizontal bars, columns, shares of a whole, sparklines.

A drawing has the width of the page. All text next to it is HTML, so it is readable on a phone and on paper. Colours are
classes of the style sheet. The meaning of a mark is its ``title``, which the page's script shows without delay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkaframes.jobs.report.tables import Markup, join, tag
from kafkaframes.jobs.report.words import share_text, short_text, steps

CHART_HEIGHT = 100  # height of a drawing, in SVG units
_COLUMN_GAP = 0.12  # part of a column's width
_SPARK_COLUMNS = 40


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
    """A column. ``tip`` is its full description."""

    parts: Sequence[ChartPart]
    tip: str


class ColumnTick(NamedTuple):
    """A label below the columns. ``at`` is its position in columns. A minor label is hidden on a phone."""

    position: float
    label: str
    is_minor: bool = False


Text = Callable[[float], str]


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Return a legend of (colour, text) entries."""
    return tag("ul", (tag("li", tag("i", class_=color), words) for color, words in entries), class_="legend")


def bars(rows: Sequence[Bar], *, axis: Text, name: str, binary: bool = False) -> Markup:
    """Return horizontal bars over an axis from zero with the title ``name``. ``binary`` rounds its steps in KiB."""
    largest = max((sum(part.value for part in row.parts) for row in rows), default=0)
    marks = steps(largest, binary=binary)
    end = marks[-1]
    lines = f"--step:{_percent(marks[1], end)}"
    bar_rows = [
        tag(
            "div",
            tag(
                "div",
                tag("span", row.label, title=row.label),
                tag("small", row.remark) if row.remark else None,
                class_="label",
            ),
            tag("div", (_part(part, end) for part in row.parts if part.value), class_="track", style=lines),
            tag("div", row.text, class_="value"),
            class_="bar",
        )
        for row in rows
    ]
    scale = tag(
        "div",
        tag("div", name, class_="label axis-name"),
        tag("div", (_mark(mark, end, axis) for mark in marks), class_="scale"),
        class_="bar axis",
    )
    return tag("div", bar_rows, scale, class_="bars")


def _part(part: ChartPart, end: float) -> Markup:
    return tag("span", class_=f"part {part.color}", style=f"width:{_percent(part.value, end)}", title=part.tip)


def _mark(mark: float, end: float, axis: Text) -> Markup:
    return tag("span", axis(mark), style=f"left:{_percent(mark, end)}")


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3f}".rstrip("0").rstrip(".") + "%" if whole else "0%"


def columns(
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
    marks = steps(max((sum(part.value for part in one.parts) for one in columns), default=0))
    lines = [
        tag("line", x1=0, x2=count, y1=_y(mark, marks[-1]), y2=_y(mark, marks[-1]), class_="grid") for mark in marks[1:]
    ]
    groups = [tag("g", _stack(index, one, marks[-1]), tag("title", one.tip)) for index, one in enumerate(columns)]
    svg = tag(
        "svg", lines, groups,
        viewBox=f"0 0 {count} {CHART_HEIGHT}", preserveAspectRatio="none", role="img", aria_label=label,
    )  # fmt: skip
    axis = tag(
        "div",
        (tag("span", short_text(mark), style=f"bottom:{_percent(mark, marks[-1])}") for mark in marks),
        class_="y",
    )
    below = tag(
        "div", (_tick(one, count) for one in ticks), class_="x two" if any("\n" in one.label for one in ticks) else "x"
    )
    return tag(
        "div", tag("div", y_name, class_="y-name"), axis, tag("div", svg, class_="plot"), below,
        tag("div", x_name, class_="x-name"), class_="columns",
    )  # fmt: skip


def _tick(entry: ColumnTick, count: int) -> Markup:
    share = entry.position / count
    edge = " first" if share < 0.04 else " last" if share > 0.96 else ""
    name = ("minor" if entry.is_minor else "") + edge
    return tag("span", entry.label, style=f"left:{_percent(entry.position, count)}", class_=name.strip() or None)


def _y(value: float, end: float) -> str:
    return f"{CHART_HEIGHT - CHART_HEIGHT * value / end:.2f}".rstrip("0").rstrip(".")


def _stack(index: int, column: ChartColumn, end: float) -> list[Markup]:
    """Draw a column's parts from the bottom, and a transparent area over the whole height that shows its tip."""
    rectangles, below = [], 0.0
    for part in column.parts:
        if part.value:
            top = below + max(part.value, end / CHART_HEIGHT / 2)  # keeps one record among millions visible
            height = CHART_HEIGHT * (top - below) / end
            x, y = index + _COLUMN_GAP / 2, CHART_HEIGHT - CHART_HEIGHT * top / end
            rectangles.append(
                tag(
                    "rect",
                    x=f"{x:.2f}",
                    y=f"{y:.2f}",
                    width=f"{1 - _COLUMN_GAP:.2f}",
                    height=f"{height:.2f}",
                    class_=part.color,
                )
            )
            below = top
    return [tag("rect", x=index, y=0, width=1, height=CHART_HEIGHT, class_="pane"), *rectangles]


def share(parts: Sequence[ChartPart], *, text: Text) -> Markup:
    """Return a bar of the whole, and a legend with the share of each part."""
    whole = sum(part.value for part in parts)
    chunks = [_part(part, whole) for part in parts if part.value]
    words = [
        tag(
            "li", tag("i", class_=part.color), tag("b", part.tip.split("\n")[0]), " ",
            tag("span", f"{share_text(part.value, whole)} · {text(part.value)}", class_="soft"),
        )
        for part in parts
    ]  # fmt: skip
    return join([tag("div", chunks, class_="share"), tag("ul", words, class_="legend")])


def spark(counts: Sequence[int], *, tip: str) -> Markup:
    """Return a small chart of counts over time. Adjacent counts are added if there are too many."""
    every = -(-len(counts) // _SPARK_COLUMNS) or 1
    counts = [sum(counts[index : index + every]) for index in range(0, len(counts), every)]
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
    return tag(
        "svg", tag("title", tip), tag("path", d="".join(path)),
        class_="spark", viewBox=f"0 0 {len(counts)} {tall}", preserveAspectRatio="none",
    )  # fmt: skip
