"""``kafkaframes analyze flexible CAPTURE|REQUEST_LOG...``: what flexible versions and compact types save on traffic."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from kafkaframes.cli.options import json_option_of, ports_option, workers_option
from kafkaframes.cli.tables import print_table
from kafkaframes.cli.text import say
from kafkaframes.cli.traffic_tasks import measured, spark_option, traffic_tasks
from kafkaframes.jobs.audit.audit import api_name

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.flexible import Layouts
    from kafkaframes.jobs.analyze.flexible_cost import Group


@click.command("flexible")
@click.argument("paths", nargs=-1, required=True, metavar="INPUT...")
@ports_option
@json_option_of("One JSON object a line, by API, version and direction.")
@spark_option
@workers_option
def command(paths: tuple[str, ...], ports: str, as_json: bool, on_spark: bool, jobs: int | None) -> None:
    """Measure KIP-482 on real traffic: the same fields in flexible and in inflexible layout.

    INPUT is a capture or a broker's request log. Each message is encoded again, with compact lengths and tag sections,
    and with lengths of two and four bytes and every field in its place; one of the two is what was sent. Blank: bytes
    of authorized operations that were not requested, KIP-482's example.
    """
    from kafkaframes.jobs.analyze.flexible import Layouts
    from kafkaframes.jobs.analyze.flexible_cost import measure_flexible, summed

    tasks, share_bytes = traffic_tasks(paths, ports, jobs)
    parts = measured(measure_flexible, tasks, share_bytes, on_spark=on_spark, jobs=jobs)
    found = summed((one for part in parts for one in part.items()), Layouts)
    if as_json:
        for group, layouts in sorted(found.items()):
            row = {"api": api_name(group.api_key), **group._asdict(), **dataclasses.asdict(layouts)}
            say(json.dumps(row | {"saved": layouts.saved, "blank_bytes": layouts.blank_bytes}))
        return
    _print(found)


def _print(found: dict[Group, Layouts]) -> None:
    from kafkaframes.jobs.analyze.flexible import Layouts

    total = Layouts()
    rows = []
    for group, layouts in sorted(found.items()):
        total.add(layouts)
        rows.append([f"{api_name(group.api_key)} {group.api_version} {group.direction}", *_cells(layouts)])
    print_table(["message", "count", "inflexible", "flexible", "saved", "%", "blank"], [*rows, ["all", *_cells(total)]])
    say(f"{total.unmeasured} messages could not be measured")


def _cells(one: Layouts) -> list[str]:
    share = 100 * one.saved / one.inflexible if one.inflexible else 0.0
    numbers = (one.messages, one.inflexible, one.flexible, one.saved)
    return [*map(str, numbers), f"{share:.2f}", str(one.blank_bytes)]
