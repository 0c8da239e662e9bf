"""The bodies of captures and request logs laid out otherwise: without flexible versions, and with other tag headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from kafkaframes.analysis import tag_sections
from kafkaframes.analysis.flexible import Layouts, measure
from kafkaframes.analysis.tag_sections import TagSections
from kafkaframes.capture.bodies import REQUEST, RESPONSE, Decoded, is_known
from kafkaframes.capture.request_log import log_rows
from kafkaframes.capture.wire_cost import Task, captured_calls, logs_of, with_records
from kafkaframes.errors import KafkaframesError
from kafkaframes.messages.headers import body_class
from kafkaframes.messages.plan import MessagePlan


class Group(NamedTuple):
    """What is counted together; ``direction`` is request or response."""

    api_key: int
    api_version: int
    direction: str


def measure_flexible(task: Task) -> list[tuple[Group, Layouts]]:
    """Measure the requests and responses of a task's share."""
    found: dict[Group, Layouts] = {}
    for group, body, unreadable in bodies_of(task):
        layouts = measure(body, plan_of(group))
        layouts.unmeasured += unreadable
        layouts.messages += unreadable
        found.setdefault(group, Layouts()).add(layouts)
    return list(found.items())


def measure_tag_sections(task: Task) -> list[tuple[Group, TagSections]]:
    """Measure the tag sections of the requests and responses of a task's share."""
    found: dict[Group, TagSections] = {}
    for group, body, unreadable in bodies_of(task):
        sections = tag_sections.measure(body, plan_of(group))
        sections.unmeasured += unreadable
        found.setdefault(group, TagSections()).add(sections)
    return list(found.items())


def plan_of(group: Group) -> MessagePlan:
    """Return the plan of a group's bodies."""
    return body_class(group.api_key, group.direction).codec(group.api_version).plan


def bodies_of(task: Task) -> Iterator[tuple[Group, pa.StructArray, int]]:
    """Yield the bodies of a task's share, many of one kind together, and how many more cannot be read."""
    for calls in captured_calls(task):
        for direction in (REQUEST, RESPONSE):
            for key, version, rows in calls.groups(direction):
                if is_known(key, version, direction):
                    raw, starts = calls.bytes_of(direction, rows)
                    decoded = Decoded(raw, starts, key, version, direction)
                    body = decoded.body.filter(decoded.errors.is_null())
                    yield Group(key, version, direction), body, len(rows) - len(body)
    for path in logs_of(task):
        yield from _logged_bodies(path)


def _logged_bodies(path: str) -> Iterator[tuple[Group, pa.StructArray, int]]:
    """Yield what a request log holds as JSON; the records in it are not there."""
    for row in log_rows(path, secrets=True):
        for direction in (REQUEST, RESPONSE):
            key, version = row["apiKey"], row["apiVersion"]
            if row[direction] is None or key is None or not is_known(key, version, direction):
                continue
            cls = body_class(key, direction)
            try:
                data = [cls.from_json(with_records(json.loads(row[direction])), version).encode(version)]
            except (KafkaframesError, TypeError):
                data = []
            yield Group(key, version, direction), cls.decode_columns(data, version), 1 - len(data)
