"""What the bytes of real responses would be otherwise: the responses of captures and request logs, measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.capture.bodies import RESPONSE, Decoded, is_known
from kafkaframes.capture.calls import CallMaker, Calls
from kafkaframes.capture.columns import choose
from kafkaframes.capture.packets import Ints, PacketReader
from kafkaframes.capture.request_log import log_rows
from kafkaframes.capture.request_log_bodies import with_records
from kafkaframes.capture.streams import Streams
from kafkaframes.capture.traffic import is_request_log
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.analyze.kip_636 import FLEXIBLE, INFLEXIBLE, Cost, Costs, Group, measure, own_plan
from kafkaframes.protocol.messages.headers import body_class

_FLEXIBLE_HEADER, _HEADER = 5, 4  # correlation id, and an empty tag section


class Task(NamedTuple):
    """What one process or Spark task measures: some of the connections of some files."""

    files: tuple[str, ...]
    share: int = 0
    shares: int = 1
    ports: tuple[int, ...] = ()


def measure_kip_636(task: Task) -> list[tuple[Group, Cost]]:
    """Measure the responses of a task's share."""
    costs = Costs()
    for calls in captured_calls(task):
        _measure_pass(calls, costs)
    for path in logs_of(task):
        _measure_log(path, costs)
    return list(costs.groups.items())


def captured_calls(task: Task) -> Iterator[Calls]:
    """Yield the calls in the captures of a task's share, pass by pass."""
    captures = [path for path in task.files if not is_request_log(path)]
    if captures:
        maker = CallMaker(choose("calls", ("clientId",)), captures)
        for made in Streams(PacketReader(captures, share=task.share, shares=task.shares), ports=task.ports):
            yield Calls(maker, made)


def logs_of(task: Task) -> list[str]:
    """Return the request logs of a task's share."""
    return [path for path in task.files if is_request_log(path)][task.share :: task.shares]


def _measure_pass(calls: Calls, costs: Costs) -> None:
    clients = calls.client_ids().fill_null("").dictionary_encode()
    names, numbers = clients.dictionary.to_pylist(), clients.indices.to_numpy()
    for key, version, rows in calls.groups(RESPONSE):
        if is_known(key, version, RESPONSE):
            _measure_group(calls, key, version, rows, numbers[rows].astype(np.int64), names, costs)


def _measure_group(
    calls: Calls, key: int, version: int, rows: Ints, clients: Ints, names: list[str], costs: Costs
) -> None:
    raw, starts = calls.bytes_of(RESPONSE, rows)
    decoded = Decoded(raw, starts, key, version, RESPONSE)
    good = np.ones(len(rows), bool)
    good[decoded.bad] = False
    header = _HEADER if body_class(key, RESPONSE).spec.header_version(version) == 0 else _FLEXIBLE_HEADER
    sizes = np.diff(starts) - header
    body = decoded.body if good.all() else decoded.body.filter(pa.array(good))
    try:
        found = measure(body, sizes[good], key, version, clients[good])
        unread = clients[~good]
    except KafkaframesError:
        found, unread = {}, clients
    for (client, kind), cost in found.items():
        costs.add(Group(key, version, names[client], kind), cost)
    kind = FLEXIBLE if own_plan(key, version).flexible or not found else INFLEXIBLE
    for client, count in enumerate(np.bincount(unread).tolist()):
        if count:
            costs.add(Group(key, version, names[client], kind), Cost(unmeasured=count))


def _measure_log(path: str, costs: Costs) -> None:
    """Measure the responses that a request log holds as JSON; the records in them are not there."""
    for row in log_rows(path, secrets=True):
        key, version = row["apiKey"], row["apiVersion"]
        if row["response"] is None or key is None or not is_known(key, version, RESPONSE):
            continue
        client = row["clientId"] or ""
        cls = body_class(key, RESPONSE)
        try:
            body = cls.from_json(with_records(json.loads(row["response"])), version)
            columns = cls.decode_columns([body.encode(version)], version)
            found = measure(columns, None, key, version)
        except (KafkaframesError, pa.ArrowInvalid, TypeError):
            found = {(0, FLEXIBLE): Cost(unmeasured=1)}
        for (_, kind), cost in found.items():
            costs.add(Group(key, version, client, kind), cost)
