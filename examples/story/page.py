"""The page of the story: results, a timeline, the airlines, and links to both reports."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#182030, #e5e9f1); --soft: light-dark(#5d6980, #98a4b8);
  --card: light-dark(#fff, #171c25); --back: light-dark(#f5f6f8, #0f131a); --line: light-dark(#d9dee6, #2a3240);
  --blue: light-dark(#2b62d9, #5b93f5); --red: light-dark(#c23030, #ee6b6b); --green: light-dark(#12764f, #41bd8b); }
*, ::before { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 60rem; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 0 0 .8rem; }
p { margin: 0; color: var(--soft); } a { color: var(--blue); }
.tiles { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: .7rem; margin: 1.2rem 0; }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: .8rem 1.1rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .85rem; } .tile.good b { color: var(--green); }
section { margin: 1rem 0; padding: 1.1rem 1.3rem; } ol { margin: 0; padding-left: 1.4rem; }
.time { display: grid; grid-template-columns: 4rem 1fr; column-gap: 1rem; margin: 0; }
.time dt { text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; }
.time dd { margin: 0; padding: 0 0 .45rem 1.1rem; border-left: 2px solid var(--line); position: relative; }
.time dd::before { content: ""; position: absolute; left: -.41rem; top: .5rem; width: .7rem; height: .7rem;
  border-radius: 50%; background: var(--blue); }
.time .kill::before { background: var(--red); } .time .kill { color: var(--red); font-weight: 650; }
.time .batch::before { background: var(--card); border: 2px solid var(--blue); } .time .batch { color: var(--soft); }
.bar { display: grid; grid-template-columns: 12rem 1fr 10.5rem; gap: .7rem; align-items: center; font-size: .9rem; }
.bar i { display: block; height: .95rem; border-radius: 3px; background: var(--blue); min-width: 2px; }
.bar small { color: var(--soft); font-variant-numeric: tabular-nums; }
li + li { margin-top: .2rem; }
@media (max-width: 50rem) { .tiles { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .bar { grid-template-columns: 1fr auto; gap: 0 .7rem; padding-bottom: .45rem; }
  .bar i { grid-row: 2; grid-column: 1 / -1; } }
@media (max-width: 28rem) { .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media print { html { font-size: 11px; } body { max-width: none; padding: 0; font-size: 1rem; background: none; }
  * { print-color-adjust: exact; } section, .tile { break-inside: avoid; } .tile { padding: .5rem .7rem; }
  .tiles { grid-template-columns: repeat(6, minmax(0, 1fr)); }
  .bar { grid-template-columns: 12rem 1fr 10.5rem; }
  .bar i { grid-row: auto; grid-column: auto; } }
"""


def write(
    out: Path,
    *,
    tiles: Mapping[str, str],
    lines: Sequence[str],
    events: Sequence[tuple[float, str, str]],
    airlines: Mapping[str, tuple[int, int]],
    reports: Mapping[str, tuple[Path, str]],
) -> Path:
    """Write ``report.html`` into ``out``.

    Args:
        out: directory of the page; links to the reports are relative to it.
        tiles: description of each number -> the number.
        lines: the story in sentences.
        events: (seconds since the start, kind, text); the kind is ``step``, ``batch`` or ``kill``.
        airlines: flights and total delay in minutes, by the airline's name.
        reports: title -> (page, description).
    """
    links = "".join(
        f'<li><a href="{_text(path.name)}">{_text(title)}</a>: {_text(shows)}</li>'
        for title, (path, shows) in reports.items()
    )
    body = [
        "<h1>Flights through Kafka</h1>",
        "<p>A year of flights from New York City. The broker was killed in the middle; nothing was lost.</p>",
        f'<div class="tiles">{"".join(_format_tile(name, number) for name, number in tiles.items())}</div>',
        _section("What happened", f"<ol>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ol>"),
        _section("When", f'<dl class="time">{"".join(_event(*event) for event in events)}</dl>'),
        _section("Flights by airline, and minutes late on average", _format_bars(airlines)),
        _section("The reports", f"<ul>{links}</ul>"),
    ]
    page = out / "report.html"
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Flights through Kafka</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style>'
        f"<main>{''.join(body)}</main></html>\n",
        encoding="utf-8",
    )
    return page


def _text(text: str) -> str:
    return html.escape(text)


def _format_tile(name: str, number: str) -> str:
    """Return the HTML of a box with a number and its name."""
    state = " good" if number == "0" else ""
    return f'<div class="tile{state}"><b>{_text(number)}</b><span>{_text(name)}</span></div>'


def _section(title: str, content: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{content}</section>"


def _event(seconds: float, sort: str, words: str) -> str:
    return f'<dt>{seconds:.1f} s</dt><dd class="{sort}">{_text(words)}</dd>'


def _format_bars(airlines: Mapping[str, tuple[int, int]]) -> str:
    """Return the HTML of a bar for each airline."""
    most = max((count for count, _ in airlines.values()), default=1)
    rows = sorted(airlines.items(), key=lambda item: -item[1][0])
    return "".join(
        f'<div class="bar"><b>{_text(name)}</b><i style="width: {100 * count / most:.1f}%"></i>'
        f"<small>{count:,} flights, {minutes / count:.0f} min</small></div>"
        for name, (count, minutes) in rows
    )
