"""Compare two responses field by field, and return the unnamed differences."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.interop.random_differential.named import NamedDifference, find_named, has_internal_failure
from tests.interop.random_differential.requests import RandomRequest
from tests.interop.random_differential.symbols import BrokerMemory

from kafkaframes.records.batch import read_batches

_KEYS = (
    *("name", "topic", "topicName", "topicId", "groupId", "transactionalId", "resourceName", "configName", "apiKey"),
    *("partitionIndex", "index", "partition", "producerId", "memberId", "feature", "nodeId", "brokerId", "key", "user"),
)


class AnswerDifference(NamedTuple):
    """One field in which two responses differ."""

    path: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.path}: ours {self.ours!r}, Kafka's {self.theirs!r}"


def plain_answer(memory: BrokerMemory, request: RandomRequest, answer: Any) -> Any:
    """Return a response as JSON without values that always differ between two brokers."""
    if isinstance(answer, str):
        return answer
    memory.named_symbols = set(re.findall(r'"(__\w+)"', json.dumps(request.body)))
    answer_json = memory.name_values(decode_records(answer.to_json(request.version, records="base64")))
    if request.api == "Fetch":
        answer_json["responses"] = _by_topic(answer_json["responses"])
    return answer_json


def _by_topic(rows: list[Any]) -> list[Any]:
    """Return the topics of a Fetch without duplicates; Kafka repeats a topic if its partition cache splits it."""
    rows_by_topic: dict[str, Any] = {}
    for row in rows:
        key = str(row.get("topic") or row.get("topicId"))
        rows_by_topic.setdefault(key, {**row, "partitions": []})["partitions"] += row["partitions"]
    return list(rows_by_topic.values())


def decode_records(value: Any) -> Any:
    """Return JSON with decoded records."""
    if isinstance(value, list):
        return [decode_records(one) for one in value]
    if isinstance(value, dict):
        return {key: _decode_batches(one) if key == "records" else decode_records(one) for key, one in value.items()}
    return value


def _decode_batches(text: str | None) -> Any:
    """Return batches without sizes and CRCs, because compression libraries write different bytes for the same
    content.
    """
    if not text:
        return text
    return [
        {
            "magic": batch.magic,
            "codec": batch.codec,
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "partitionLeaderEpoch": batch.leader_epoch,
            "maxTimestamp": "now" if batch.control else batch.max_timestamp,
            "timestampType": batch.timestamp_type,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "baseSequence": batch.base_sequence,
            "records": [str(tuple(record[:5])) for record in batch.records] if not batch.control else "control",
            "isWhole": batch.valid and batch.damage is None,
        }
        for batch in read_batches(base64.b64decode(text))
    ]


def differences(request: RandomRequest, ours: Any, theirs: Any) -> list[AnswerDifference]:
    """Return the unnamed differences."""
    return [difference for difference in _walk(ours, theirs, "$") if _name(request, difference) is None]


def has_diverged(request: RandomRequest, ours: Any, theirs: Any) -> bool:
    """Return whether a named difference means that the brokers' states have diverged."""
    if ours == theirs:
        return False
    names = (_name(request, one) for one in _walk(ours, theirs, "$"))
    return any(name is not None and name.parts for name in names)


def _name(request: RandomRequest, one: AnswerDifference) -> NamedDifference | None:
    return find_named(request.api, re.sub(r"\[\d+\]", "[]", one.path), one.ours, one.theirs)


def _walk(ours: Any, theirs: Any, path: str) -> Iterator[AnswerDifference]:
    if has_internal_failure(ours, theirs):
        yield AnswerDifference(path, ours, theirs)
    elif isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            yield from _walk(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield AnswerDifference(f"{path}.length", ours, theirs)
            return
        for position, (one, other) in enumerate(zip(_sort_rows(ours), _sort_rows(theirs), strict=True)):
            yield from _walk(one, other, f"{path}[{position}]")
    elif ours != theirs:
        yield AnswerDifference(path, ours, theirs)


def _sort_rows(rows: list[Any]) -> list[Any]:
    """Return rows in an order that does not depend on a hash table."""
    return sorted(rows, key=_place)


def _place(row: Any) -> str:
    if not isinstance(row, dict):
        return str(row)
    rest = {key: value for key, value in row.items() if not key.lower().endswith(("errorcode", "message"))}
    return str([row.get(key_field) for key_field in _KEYS]) + str([_stable(value) for _, value in sorted(rest.items())])


def _stable(value: Any) -> Any:
    return sorted(map(_place, value)) if isinstance(value, list) else value
