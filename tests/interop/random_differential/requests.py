"""Build random requests from the specs: any API and version, with values drawn from a pool by field name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.interop.random_differential.pools import (
    BROKER_SETTINGS,
    BY_API,
    BY_NAME,
    ODD_BROKER_SETTINGS,
    ODD_SETTINGS,
    SETTINGS,
    TOPICS,
    RequestDraw,
    topic_name,
)
from tests.interop.random_differential.symbols import NIL_ID_TEXT, uuid_text

from kafkaframes.protocol.messages import message
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec


class RandomRequest(NamedTuple):
    """A request whose body is Kafka's JSON, with symbols for values of earlier responses."""

    api: str
    version: int
    body: dict[str, Any]


RECONNECT = "reconnect"  # not an API: closes both connections
WAIT = "wait"  # not an API: pauses for some milliseconds

# Requests that are drawn more often than others, because they create state or read it.
WEIGHTS = {
    "Produce": 8,
    "Fetch": 8,
    "ListOffsets": 4,
    "Metadata": 4,
    "CreateTopics": 4,
    "DeleteTopics": 3,
    "JoinGroup": 5,
    "SyncGroup": 4,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "InitProducerId": 5,
    "AddPartitionsToTxn": 4,
    "AddOffsetsToTxn": 3,
    "TxnOffsetCommit": 4,
    "EndTxn": 4,
    "ConsumerGroupHeartbeat": 5,
    "DescribeGroups": 2,
}
# APIs for which Kafka's response to a duplicate name does not depend on its hash tables.
_MAY_REPEAT = frozenset(
    {
        *("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs", "Metadata"),
        *("DescribeTopicPartitions", "ListOffsets", "AlterUserScramCredentials", "DescribeUserScramCredentials"),
        *("Produce", "Fetch", "DeleteRecords", "AlterClientQuotas"),
    }
)
_RARE_PROBABILITY = 0.3
_ODDNESS_LEVELS = (0.0, 0.05, 0.05, 0.15, 0.4)
_COUNTS = (1, 1, 1, 1, 1, 1, 2, 2, 3, 0)
_PLAIN_COUNTS = (1, 1, 1, 1, 2)


def draw_request(rng: random.Random, served_ranges: Mapping[str, tuple[int, int]]) -> RandomRequest:
    """Draw a request that both brokers serve."""
    names = sorted(served_ranges)
    api = rng.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]
    version = rng.randint(*served_ranges[api])
    return draw_body(RequestDraw(rng, api, version, rng.choice(_ODDNESS_LEVELS)))


def draw_body(draw: RequestDraw) -> RandomRequest:
    """Draw the body of a request."""
    spec = message(f"{draw.api}Request").spec
    body = _struct(draw, spec, spec.struct)
    repair = _REPAIRS.get(draw.api)
    if repair is not None:
        repair(draw, body)
    return RandomRequest(draw.api, draw.version, body)


def _struct(draw: RequestDraw, spec: MessageSpec, struct: StructSpec) -> dict[str, Any]:
    fields = {}
    for field in struct.fields:
        if not field.is_present(draw.version):
            continue
        if field.is_tagged(draw.version) and draw.random.random() < 0.5:
            continue
        fields[field.json_name] = _field(draw, spec, field)
    return fields


def _field(draw: RequestDraw, spec: MessageSpec, field: FieldSpec) -> Any:
    can_be_null = field.is_nullable(draw.version)
    if field.type.is_array:
        if can_be_null and draw.random.random() < 0.15:
            return None
        count = draw.random.choice(_PLAIN_COUNTS if draw.oddness < 0.1 else _COUNTS)
        rows = [_element(draw, spec, field) for _ in range(count)]
        return rows if draw.api in _MAY_REPEAT and draw.oddness > _RARE_PROBABILITY else _distinct(rows)
    if field.type.is_struct:
        if can_be_null and draw.random.random() < 0.8:
            return None
        return _struct(draw, spec, spec.structs[field.type.name])
    value = _element(draw, spec, field)
    if value is None and not can_be_null:
        return "" if field.type.name in ("string", "bytes", "records") else 0
    return value


def _distinct(rows: list[Any]) -> list[Any]:
    """Return rows without duplicate names: Kafka's responses to them depend on its hash tables."""
    rows_by_name: dict[str, Any] = {}
    for row in rows:
        rows_by_name.setdefault(
            str([row[key] for key in _KEYS if key in row] or row) if isinstance(row, dict) else str(row), row
        )
    return list(rows_by_name.values())


_KEYS = (
    *("name", "topic", "topicName", "topicId", "partition", "partitionIndex", "index", "groupId", "memberId"),
    *("transactionalId", "producerId", "resourceName", "entityType", "path", "firstOffset", "feature", "entity"),
)


def _element(draw: RequestDraw, spec: MessageSpec, field: FieldSpec) -> Any:
    if field.type.is_struct:
        return _struct(draw, spec, spec.structs[field.type.name])
    name = field.json_name
    maker = BY_API.get(draw.api, {}).get(name) or BY_NAME.get(name)
    if maker is None and name == "name":
        maker = topic_name
    if maker is None and name == "topics" and field.type.name == "string":
        maker = topic_name
    value = maker(draw) if maker is not None else _any(draw, field.type.name)
    if isinstance(value, bool) and field.type.name != "bool":
        return int(value)
    if field.type.name.startswith("int") and isinstance(value, int):
        bits = int(field.type.name[3:])
        return max(-(2 ** (bits - 1)), min(value, 2 ** (bits - 1) - 1))
    if value is None and field.type.is_array:
        return ""
    return value


def _any(draw: RequestDraw, kind: str) -> Any:
    values: dict[str, tuple[Any, ...]] = {
        "bool": (False, True),
        "string": ("", "x"),
        "bytes": ("", "AQI="),
        "uuid": (uuid_text(NIL_ID_TEXT),),
        "float64": (0.0, 1.5),
        "uint16": (0, 1, 65_535),
        "uint32": (0, 1),
    }
    return draw.random.choice(values.get(kind, (0, 1, -1)))


# ------------------------------------------------------------------------------------- what one field says of another


def _configs(draw: RequestDraw, body: dict[str, Any]) -> None:
    """Give most settings valid values, and do not change resources that all episodes share."""
    for row in body.get("resources", body.get("topics", [])):
        pools = (BROKER_SETTINGS, ODD_BROKER_SETTINGS) if row.get("resourceType") == 4 else (SETTINGS, ODD_SETTINGS)
        for config in row.get("configs", ()):
            config["name"], config["value"] = draw.odd_or(*pools)
        if "configs" in row:
            row["configs"] = _distinct(row["configs"])
        if row.get("resourceType") in (4, 8):
            body["validateOnly"] = True
            # AlterConfigs of all brokers must not remove min.insync.replicas (KIP-966).
            row["resourceName"] = draw.pick("1", "1", "2" if draw.api == "AlterConfigs" else "", "2", "x")
        elif row.get("resourceType") == 32:
            row["resourceName"] = draw.group
    if draw.api == "CreateTopics":
        for row in body["topics"]:
            row["configs"] = row["configs"] if draw.random.random() < 0.3 else []
            if draw.random.random() >= draw.oddness:
                row["assignments"] = []
    if any(row.get("configs") == [] for row in body.get("resources", [])) and draw.version == 0:
        body.setdefault("validateOnly", False)


def _names_and_ids(draw: RequestDraw, body: dict[str, Any]) -> None:
    for row in body.get("topics") or ():
        if row.get("topicId") not in (None, uuid_text(NIL_ID_TEXT)) and draw.random.random() >= draw.oddness:
            row["name"] = None
    if body.get("topics"):
        body["topics"] = _distinct(body["topics"])
        if draw.api == "Metadata" and draw.version < 10 and row.get("name") is None:
            row["name"] = "~a"
    if draw.api == "Metadata" and body.get("topics", ()) is None and draw.version == 0:
        body["topics"] = []


def _joins(draw: RequestDraw, body: dict[str, Any]) -> None:
    if draw.random.random() >= draw.oddness:
        body["memberId"] = body["memberId"] if draw.random.random() < 0.7 else ""


def _epochs(draw: RequestDraw, body: dict[str, Any]) -> None:
    """Draw the joining epoch about as often as other epochs.

    A joining heartbeat does not report owned partitions.
    """
    if draw.random.random() < 0.4:
        body["memberEpoch"] = 0
        body["topicPartitions"] = []
        if draw.version == 0 or draw.api == "ShareGroupHeartbeat":
            body["memberId"] = "" if draw.version == 0 else "AAAAAAAAAAAAAAAAAAAAAA"
        elif draw.random.random() >= draw.oddness:
            body["memberId"] = "member-1"
    if body["memberEpoch"] == 0 and body.get("subscribedTopicNames") is None:
        body["subscribedTopicNames"] = ["~a"]


def _inits(draw: RequestDraw, body: dict[str, Any]) -> None:
    if draw.random.random() < 0.2:
        body["transactionalId"] = None
    if draw.random.random() < 0.7 and "producerId" in body:
        body["producerId"], body["producerEpoch"] = -1, -1


def _transaction(draw: RequestDraw) -> dict[str, Any]:
    """Draw one transaction of AddPartitionsToTxn."""
    spec = message("AddPartitionsToTxnRequest").spec
    return _struct(draw, spec, spec.structs["AddPartitionsToTxnTransaction"])


def _additions(draw: RequestDraw, body: dict[str, Any]) -> None:
    """Remove duplicate transactions and topics without partitions, for which Kafka's response depends on its hash
    tables.

    Add a transaction if there is none, because Kafka would never respond.
    """
    if body.get("transactions") == []:
        body["transactions"] = [_transaction(draw)]
    rows = {row["transactionalId"]: row for row in body.get("transactions", ())}
    if rows:
        body["transactions"] = list(rows.values())
    for topics in [body.get("v3AndBelowTopics", ()), *(row["topics"] for row in rows.values())]:
        for row in topics:
            row["partitions"] = row["partitions"] or [0]


def _markers(draw: RequestDraw, body: dict[str, Any]) -> None:
    for marker in body["markers"]:
        marker["topics"] = [row for row in marker["topics"] if row["partitionIndexes"]] or [
            {"name": "~a", "partitionIndexes": [0]}
        ]


def _pages(draw: RequestDraw, body: dict[str, Any]) -> None:
    """Add topic names, because a request for all topics would include those of other episodes."""
    body["topics"] = body["topics"] or [{"name": "~a"}]


_REPAIRS = {
    "DescribeTopicPartitions": _pages,
    "AddPartitionsToTxn": _additions,
    "WriteTxnMarkers": _markers,
    "CreateTopics": _configs,
    "AlterConfigs": _configs,
    "IncrementalAlterConfigs": _configs,
    "DescribeConfigs": _configs,
    "Metadata": _names_and_ids,
    "DeleteTopics": _names_and_ids,
    "JoinGroup": _joins,
    "ConsumerGroupHeartbeat": _epochs,
    "ShareGroupHeartbeat": _epochs,
    "InitProducerId": _inits,
}


def draw_opening(rng: random.Random, served_ranges: Mapping[str, tuple[int, int]]) -> list[RandomRequest]:
    """Return the first requests of an episode, which create its topics, some records and two producers."""
    rows = [
        {
            "name": name,
            "numPartitions": 2 if name == "~a" else 1,
            "replicationFactor": 1,
            "assignments": [],
            "configs": [{"name": "cleanup.policy", "value": "compact"}] if name == "~c" else [],
        }
        for name in TOPICS
    ]
    requests = [RandomRequest("CreateTopics", 5, {"topics": rows, "timeoutMs": 20_000, "validateOnly": False})]
    for _ in range(rng.randint(0, 4)):
        requests.append(draw_body(RequestDraw(rng, "Produce", rng.randint(*served_ranges["Produce"]), 0.0)))
    for _ in range(rng.randint(0, 2)):
        requests.append(
            draw_body(RequestDraw(rng, "InitProducerId", rng.randint(*served_ranges["InitProducerId"]), 0.0))
        )
    return requests
