"""The bodies of captures and request logs laid out otherwise: without flexible versions, and with other tag headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

from kafkaframes.capture.bodies import REQUEST, RESPONSE, Decoded, is_known
from kafkaframes.capture.request_log import log_rows
from kafkaframes.capture.request_log_bodies import with_records
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.analyze import tag_sections
from kafkaframes.jobs.analyze.flexible import Layouts, measure
from kafkaframes.jobs.analyze.tag_sections import TagSections
from kafkaframes.jobs.analyze.wire_cost import Task, captured_calls, logs_of
from kafkaframes.protocol.messages.framed import frame_plan, request_columns, response_columns
from kafkaframes.protocol.messages.headers import body_class, encode_request, encode_response
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.plan import MessagePlan

Sum = TypeVar("Sum", Layouts, TagSections)


class Group(NamedTuple):
    """What is counted together; ``direction`` is request or response."""

    api_key: int
    api_version: int
    direction: str


def measure_flexible(task: Task) -> dict[Group, Layouts]:
    """Measure the requests and responses of a task's share."""
    return summed(_layouts(task), Layouts)


def _layouts(task: Task) -> Iterator[tuple[Group, Layouts]]:
    for group, body, unreadable in bodies_of(task):
        layouts = measure(body, plan_of(group))
        layouts.unmeasured += unreadable
        layouts.messages += unreadable
        yield group, layouts


def measure_tag_sections(task: Task) -> dict[Group, TagSections]:
    """Measure the tag sections of the requests and responses of a task's share, those of their headers among them."""
    return summed(_tag_sections(task), TagSections)


def _tag_sections(task: Task) -> Iterator[tuple[Group, TagSections]]:
    for group, frames, unreadable in frames_of(task):
        sections = tag_sections.measure(frames, frame_plan(*group))
        sections.unmeasured += unreadable
        yield group, sections


def summed(found: Iterable[tuple[Group, Sum]], nothing: Callable[[], Sum]) -> dict[Group, Sum]:
    """Add up what was measured of each group; ``nothing`` makes the sum of none."""
    sums: dict[Group, Sum] = {}
    for group, one in found:
        sums.setdefault(group, nothing()).add(one)
    return sums


def plan_of(group: Group) -> MessagePlan:
    """Return the plan of a group's bodies."""
    return body_class(group.api_key, group.direction).codec(group.api_version).plan


def bodies_of(task: Task) -> Iterator[tuple[Group, pa.StructArray, int]]:
    """Yield the bodies of a task's share, many of one kind together, and how many more cannot be read."""
    for group, frames, unreadable in frames_of(task):
        yield group, frames.field("body"), unreadable


def frames_of(task: Task) -> Iterator[tuple[Group, pa.StructArray, int]]:
    """Yield headers and bodies likewise."""
    for calls in captured_calls(task):
        for direction in (REQUEST, RESPONSE):
            for key, version, rows in calls.groups(direction):
                if is_known(key, version, direction):
                    decoded = Decoded(*calls.bytes_of(direction, rows), key, version, direction)
                    frames = decoded.frames.filter(decoded.errors.is_null())
                    yield Group(key, version, direction), frames, len(rows) - len(frames)
    for path in logs_of(task):
        yield from _logged_frames(path)


def _logged_frames(path: str) -> Iterator[tuple[Group, pa.StructArray, int]]:
    """Yield what a request log holds as JSON; records, and tags of headers, are not in it."""
    for row in log_rows(path, secrets=True):
        for direction in (REQUEST, RESPONSE):
            key, version = row["apiKey"], row["apiVersion"]
            if row[direction] is None or key is None or not is_known(key, version, direction):
                continue
            columns = request_columns if direction == REQUEST else response_columns
            try:
                body = body_class(key, direction).from_json(with_records(json.loads(row[direction])), version)
                data = [_framed(body, version, direction, row["clientId"])]
            except (KafkaframesError, TypeError):
                data = []
            yield Group(key, version, direction), columns(data, key, version), 1 - len(data)


def _framed(body: Message, version: int, direction: str, client_id: str | None) -> bytes:
    if direction == REQUEST:
        return encode_request(body, version, client_id=client_id)
    return encode_response(body, version)
