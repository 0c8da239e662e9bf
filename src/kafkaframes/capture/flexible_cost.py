"""What flexible versions save on real traffic: the messages of captures and request logs, laid out both ways."""

from __future__ import annotations

import json
from typing import NamedTuple

import pyarrow as pa

from kafkaframes.analysis.flexible import Layouts, measure
from kafkaframes.capture.bodies import REQUEST, RESPONSE, Decoded, is_known
from kafkaframes.capture.request_log import log_rows
from kafkaframes.capture.wire_cost import Task, captured_calls, logs_of, with_records
from kafkaframes.errors import KafkaframesError
from kafkaframes.messages.headers import body_class


class Group(NamedTuple):
    """What is counted together; ``direction`` is request or response."""

    api_key: int
    api_version: int
    direction: str


def measure_flexible(task: Task) -> list[tuple[Group, Layouts]]:
    """Measure the requests and responses of a task's share."""
    found: dict[Group, Layouts] = {}
    for calls in captured_calls(task):
        for direction in (REQUEST, RESPONSE):
            for key, version, rows in calls.groups(direction):
                if is_known(key, version, direction):
                    raw, starts = calls.bytes_of(direction, rows)
                    decoded = Decoded(raw, starts, key, version, direction)
                    good = decoded.errors.is_null()
                    _add(found, Group(key, version, direction), decoded.body.filter(good), len(rows))
    for path in logs_of(task):
        _measure_log(path, found)
    return list(found.items())


def _measure_log(path: str, found: dict[Group, Layouts]) -> None:
    """Measure what a request log holds as JSON; the records in it are not there."""
    for row in log_rows(path, secrets=True):
        for direction in (REQUEST, RESPONSE):
            key, version = row["apiKey"], row["apiVersion"]
            if row[direction] is None or key is None or not is_known(key, version, direction):
                continue
            cls = body_class(key, direction)
            group = Group(key, version, direction)
            try:
                body = cls.from_json(with_records(json.loads(row[direction])), version)
                _add(found, group, cls.decode_columns([body.encode(version)], version), 1)
            except (KafkaframesError, TypeError):
                found.setdefault(group, Layouts()).add(Layouts(1, unmeasured=1))


def _add(found: dict[Group, Layouts], group: Group, body: pa.StructArray, count: int) -> None:
    plan = body_class(group.api_key, group.direction).codec(group.api_version).plan
    layouts = measure(body, plan)
    layouts.unmeasured += count - len(body)
    layouts.messages += count - len(body)
    found.setdefault(group, Layouts()).add(layouts)
