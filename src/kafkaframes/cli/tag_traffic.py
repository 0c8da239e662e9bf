"""The part of ``kafkaframes analyze tag-header`` that measures real traffic."""

from __future__ import annotations

import dataclasses
import json

from kafkaframes.cli.tables import print_table
from kafkaframes.cli.text import say
from kafkaframes.cli.traffic_tasks import measured, traffic_tasks
from kafkaframes.jobs.analyze.flexible_cost import Group, measure_tag_sections, summed
from kafkaframes.jobs.analyze.tag_sections import TagSections
from kafkaframes.jobs.audit.audit import api_name

_HEADS = ("count", "sections", "empty", "fields", "adopted", "interleaved", "typed")


def print_tag_traffic(paths: tuple[str, ...], *, ports: str, on_spark: bool, jobs: int | None, as_json: bool) -> None:
    """Measure captures and request logs, and print a row for each API, version and direction.

    Raises:
        OptionError: a path cannot be read, or ``ports`` are no numbers.
    """
    tasks, share_bytes = traffic_tasks(paths, ports, jobs)
    parts = measured(measure_tag_sections, tasks, share_bytes, on_spark=on_spark, jobs=jobs)
    found = summed((one for part in parts for one in part.items()), TagSections)
    if as_json:
        for group, sections in sorted(found.items()):
            row = {"kind": "traffic", "api": api_name(group.api_key), **group._asdict()}
            say(json.dumps(row | dataclasses.asdict(sections)))
        return
    _print(found)


def _print(found: dict[Group, TagSections]) -> None:
    total = TagSections()
    rows = []
    for group, sections in sorted(found.items()):
        total.add(sections)
        if sections.messages:
            rows.append([f"{api_name(group.api_key)} {group.api_version} {group.direction}", *_cells(sections)])
    print_table(["message", *_HEADS], [*rows, ["all", *_cells(total)]])
    for name, size in (("interleaved draft", total.interleaved), ("tag and a type", total.typed)):
        share = f" ({100 * (size - total.adopted) / total.adopted:+.2f} %)" if total.adopted else ""
        say(f"{name}: {size - total.adopted:+} bytes against the adopted header{share}")
    say(f"{total.inflexible} messages have no tag sections, {total.unmeasured} could not be measured")


def _cells(one: TagSections) -> list[str]:
    numbers = (one.messages, one.sections, one.empty, one.tagged_fields, one.adopted, one.interleaved, one.typed)
    return list(map(str, numbers))
