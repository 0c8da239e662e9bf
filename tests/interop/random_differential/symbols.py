"""Names for values that differ between two brokers: topic ids, producer ids, member ids, epochs and sessions.

A request is JSON in which ``{"@": [kind, ...]}`` represents a value of an earlier response, and ``~`` in a text the
episode's prefix. Each broker has a ``BrokerMemory``, which puts the broker's values into requests, and names into its
responses.
"""

from __future__ import annotations

import base64
import random
import re
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from kafkaframes.records.build import build_records

SYMBOL = "@"
NIL_ID_TEXT = str(uuid.UUID(int=0))
UNKNOWN_PRODUCER = 987_654_321
_EPISODE_TOPIC_PATTERN = re.compile(
    r"^(r\d+x\d+|zz-barrier)-"
)  # topics of all episodes, and topics that runs use to wait


def symbol(*words: Any) -> dict[str, Any]:
    """Return the symbol of a broker's own value."""
    return {SYMBOL: list(words)}


def uuid_text(text: str) -> str:
    """Return an id in the form of Kafka's JSON: 22 characters of base64.

    >>> uuid_text("00000000-0000-0000-0000-000000000000")
    'AAAAAAAAAAAAAAAAAAAAAA'
    """
    return base64.urlsafe_b64encode(uuid.UUID(text).bytes).decode().rstrip("=")


def unknown_id(topic: str) -> str:
    """Return a symbol for the id of a missing topic, different for each topic, so that a request has no duplicates."""
    return str(uuid.UUID(int=7 + sum(topic.encode())))


_GENERATED_MEMBER_ID = re.compile(r"^(\w+-)?[0-9a-f]{8}-[0-9a-f]{4}-")


class BrokerMemory:
    """Values from one broker's answers in an episode.

    Attributes:
        prefix: prefix of the names in the episode, so that many episodes can run on one broker.
        latest: last value by kind and owner, such as ``("producer", "~t")``.
        names: name that replaces a value in answers, by kind and value as text.
        named_symbols: the shared topics of coordinators that the request contains.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.latest: dict[tuple[Any, ...], Any] = {}
        self.names: dict[tuple[str, str], str] = {}
        self.named_symbols: set[str] = set()
        self._counts: Counter[tuple[str, str | None]] = Counter()

    def fill_symbols(self, value: Any) -> Any:
        """Return a request in which symbols are replaced by this broker's values."""
        if isinstance(value, list):
            return [self.fill_symbols(one) for one in value]
        if isinstance(value, str):
            return value.replace("~", self.prefix)
        if isinstance(value, dict):
            if SYMBOL in value:
                return self._value(*value[SYMBOL])
            return {key: self.fill_symbols(one) for key, one in value.items()}
        return value

    def _value(self, kind: str, *words: Any) -> Any:
        if kind == "records":
            return self._records(words[0])
        if kind == "topic":
            return uuid_text(str(self.latest.get(("topic", words[0])) or unknown_id(words[0])))
        if kind == "words":
            return self._words(*words)
        owner, *rest = words
        default = {"producer": UNKNOWN_PRODUCER, "member": "nobody"}.get(kind, 0)
        value = self.latest.get((kind, owner), default)
        return value + rest[0] if rest else value

    def _words(self, member: str, topic: str, index: int, seed: int, types: list[int]) -> list[dict[str, Any]]:
        """Return acknowledgements of some acquired records of a partition, in the order of offsets."""
        rng = random.Random(seed)
        runs = self.latest.get(("acquired", member, topic, index), [])[-4:]
        batches = []
        for first, last in sorted({run for run in runs if rng.random() < 0.7}):
            if rng.random() < 0.4:
                first, last = sorted((rng.randint(first, last), rng.randint(first, last)))
            count = last - first + 1 if rng.random() < 0.3 else 1
            words = [rng.choice(types) for _ in range(count)]
            batches.append({"firstOffset": first, "lastOffset": last, "acknowledgeTypes": words})
        return batches

    def _records(self, fields: dict[str, Any]) -> str:
        fields = dict(self.fill_symbols(fields))
        wrong = fields.pop("wrong", None)
        fields["columns"]["value"] = [field.encode() for field in fields["columns"]["value"]]
        fields["columns"]["key"] = [None if field is None else field.encode() for field in fields["columns"]["key"]]
        data = build_records(fields.pop("columns"), **fields)
        return base64.b64encode(_DAMAGE[wrong](data)).decode()

    def learn(self, kind: str, owner: str | None, value: Any, *, is_named: bool = True) -> None:
        """Record a value. ``is_named``: also assign a name to the value."""
        owner = None if owner is None else owner.replace(self.prefix, "~")
        self.latest[kind, owner] = value
        if is_named and (kind, str(value)) not in self.names:
            self._counts[kind, owner] += 1
            self.names[kind, str(value)] = f"<{kind} {owner} {self._counts[kind, owner]}>"

    def name_values(self, value: Any, key: str = "") -> Any:
        """Return a response as JSON, with names instead of this broker's values, without rows of other episodes."""
        if isinstance(value, list):
            return [self.name_values(one, key) for one in value if not self._is_foreign(one)]
        if isinstance(value, dict):
            return {name: self.name_values(one, name) for name, one in value.items()}
        kind = _NAMED.get(key)
        if kind is not None and (kind, str(value)) in self.names:
            return self.names[kind, str(value)]
        if kind == "member" and _GENERATED_MEMBER_ID.match(str(value)):
            return "<member>"  # the member's own response is still pending
        return value.replace(self.prefix, "~") if isinstance(value, str) else value

    def _is_foreign(self, row: Any) -> bool:
        keys = ("name", "topic", "topicName", "resourceName")
        if isinstance(row, dict) and any(str(row.get(key)).startswith("__") for key in keys):
            return not any(row.get(key) in self.named_symbols for key in keys)
        if isinstance(row, dict) and any(map(self._is_foreign, row.get("entity") or ())):
            return True  # quotas of another episode
        texts = [row] if isinstance(row, str) else row.values() if isinstance(row, dict) else ()
        texts = [text for text in texts if isinstance(text, str) and _EPISODE_TOPIC_PATTERN.match(text)]
        return bool(texts) and not any(text.startswith(self.prefix) for text in texts)


_MEMBER_ID_REQUIRED = 79
_NAMED = {  # kinds of the fields with a broker's own values
    "producerId": "producer",
    "topicId": "topic",
    "memberId": "member",
    "leader": "member",
    "sessionId": "session",
}
_DAMAGE: dict[str | None, Callable[[bytes], bytes]] = {
    None: lambda data: data,
    "crc": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "torn": lambda data: data[:-3],
    "short": lambda data: data[:9],
    "empty": lambda data: b"",
    "twice": lambda data: data + data,
}


def learn_values(memory: BrokerMemory, api: str, request: Any, answer: Any) -> None:
    """Record the values of a response that later requests need."""
    teacher = _TEACHERS.get(api)
    if teacher is not None:
        teacher(memory, request, answer)


def _metadata(memory: BrokerMemory, request: Any, answer: Any) -> None:
    for topic in answer.topics:
        if topic.name and topic.topic_id is not None and topic.topic_id.int and not topic.error_code:
            owner = topic.name.replace(memory.prefix, "~")
            if memory.latest.get(("topic", owner)) != topic.topic_id:
                memory.learn("topic", topic.name, topic.topic_id)
                memory.names["topic", uuid_text(str(topic.topic_id))] = memory.names["topic", str(topic.topic_id)]


def _producer(memory: BrokerMemory, request: Any, answer: Any) -> None:
    if not answer.error_code and answer.producer_id >= 0:
        memory.learn("producer", request.transactional_id, answer.producer_id)
        memory.learn("epoch", request.transactional_id, answer.producer_epoch, is_named=False)


def _remember_member(memory: BrokerMemory, request: Any, answer: Any) -> None:
    if answer.member_id and answer.error_code in (0, _MEMBER_ID_REQUIRED):
        memory.learn("member", request.group_id, answer.member_id)
    if not answer.error_code:
        memory.learn("generation", request.group_id, answer.generation_id, is_named=False)


def _share_session(memory: BrokerMemory, request: Any, answer: Any) -> None:
    if answer.error_code:
        return
    key, member = ("share-epoch", request.member_id), request.member_id
    memory.latest[key] = 1 if request.share_session_epoch == 0 else memory.latest.get(key, 0) + 1
    names = {topic_id: owner for (kind, owner, *_), topic_id in memory.latest.items() if kind == "topic"}
    for topic in answer.responses:
        for row in topic.partitions:
            runs = [(one.first_offset, one.last_offset) for one in getattr(row, "acquired_records", ())]
            if runs:
                place = ("acquired", member, names.get(topic.topic_id), row.partition_index)
                memory.latest[place] = memory.latest.get(place, []) + runs


def _remember_share_member(memory: BrokerMemory, request: Any, answer: Any) -> None:
    _remember_member_epoch(memory, request, answer)
    if answer.member_id and not answer.error_code:
        memory.latest["generation", request.member_id] = answer.member_epoch


def _remember_member_epoch(memory: BrokerMemory, request: Any, answer: Any) -> None:
    if answer.member_id and not answer.error_code:
        memory.learn("member", request.group_id, answer.member_id)
        memory.learn("generation", request.group_id, answer.member_epoch, is_named=False)


def _remember_session(memory: BrokerMemory, request: Any, answer: Any) -> None:
    if getattr(answer, "session_id", 0):
        memory.learn("session", "", answer.session_id)
        memory.latest["session-epoch", ""] = 1 if request.session_epoch == 0 else request.session_epoch + 1


_TEACHERS: dict[str, Callable[[BrokerMemory, Any, Any], None]] = {
    "Metadata": _metadata,
    "InitProducerId": _producer,
    "EndTxn": _producer,
    "JoinGroup": _remember_member,
    "ConsumerGroupHeartbeat": _remember_member_epoch,
    "ShareGroupHeartbeat": _remember_share_member,
    "ShareFetch": _share_session,
    "ShareAcknowledge": _share_session,
    "Fetch": _remember_session,
}
