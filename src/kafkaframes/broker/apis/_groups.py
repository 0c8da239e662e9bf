"""What the APIs of groups and transactions share: who may, which node answers, what an exception is answered as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from kafkaframes.broker.access import bits_of, denied
from kafkaframes.broker.api import Answer
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.commits import Offset
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError, code_of
from kafkaframes.storage.files.names import TopicPartition

GROUP, TRANSACTION = 0, 1
_NOT_REQUESTED: Final = -(2**31)
_ON_SETTINGS: Final = bits_of(("DESCRIBE_CONFIGS", "ALTER_CONFIGS"))
_RESOURCE = {GROUP: "GROUP", TRANSACTION: "TRANSACTIONAL_ID"}


def refused(request: Request, broker: BrokerState, kind: int, key: str) -> int:
    """Return why a group or transactional id, as part of a request, is not served here for this client; 0 if it is."""
    return denied(request, broker.access, _RESOURCE[kind], key) or elsewhere(request, broker, kind, key)


def elsewhere(request: Request, broker: BrokerState, kind: int, key: str) -> ErrorCode:
    """Return NOT_COORDINATOR if this node does not coordinate a group or transactional id; 0 if it does."""
    node = broker.nodes.coordinator_of(kind, key)
    if node is None or node.node_id != request.session.node_id:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.NONE


def error_of(error: KafkaframesError) -> ErrorCode:
    """Return the code of a coordinator's refusal, or of a log that did not take its records."""
    code = code_of(error)
    return ErrorCode.NOT_COORDINATOR if code == ErrorCode.KAFKA_STORAGE_ERROR else code


def refusal_of(request: Request, error: KafkaframesError) -> Answer:
    """Answer a heartbeat that a coordinator refuses; an error that Kafka did not expect has no reason."""
    reason = error.reason if isinstance(error, RefusedError) and error.code > 0 else None
    answer: Answer = request.response(error_code=error_of(error), error_message=reason)
    return answer


def client_host(request: Request) -> str:
    """Return the client's address as Kafka stores it: Java's text of an address without a name."""
    return "/" + request.session.peer.rpartition(":")[0]


def authorized_operations(request: Request, broker: BrokerState, group_id: str) -> int:
    """Return what the client may do with a group, one bit for each operation, if the request is to have it."""
    if not request.body.include_authorized_operations:
        return _NOT_REQUESTED
    may = broker.access.operations(request.session, "GROUP", group_id)
    return may if broker.settings.groups_have_settings else may & ~_ON_SETTINGS


class OffsetRows:
    """The offsets of a commit request, apart: those that can be committed, and those that are refused already.

    Attributes:
        offsets: of partitions that there are.
        codes: of the others.
    """

    def __init__(self, request: Request, broker: BrokerState, *, by_id_since: int) -> None:
        self._request = request
        self._broker = broker
        self._by_id = request.version >= by_id_since
        self.offsets: dict[TopicPartition, Offset] = {}
        self.codes: dict[tuple[str | UUID, int], int] = {}
        self._names: dict[UUID, str] = {}

    def answered(self, answer: Callable[[], Answer]) -> Answer:
        """Tell the offsets apart, with turns for others where there are many; then answer."""
        return self._broker.changes.rows(self._requested(), lambda row: self._read(*row), lambda _: answer())

    def _requested(self) -> Iterator[tuple[Any, str, int, Any]]:
        """Yield each partition that is asked for: topic, its name, the error of it, and the row."""
        for topic in self._request.body.topics:
            name = topic.name
            if self._by_id:
                known = self._broker.topics_by_id.get(topic.topic_id)
                name = "" if known is None else known.name
                self._names[topic.topic_id] = name
            code = self._code(self._broker, name)
            for row in topic.partitions:
                yield topic, name, code, row

    def _read(self, topic: Any, name: str, code: int, row: Any) -> None:
        if code == ErrorCode.NONE and self._broker.partition(name, row.partition_index) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code != ErrorCode.NONE:
            self.codes[self._key(topic), row.partition_index] = code
        else:
            where = TopicPartition(name, row.partition_index)
            self.offsets[where] = Offset(row.committed_offset, row.committed_leader_epoch, row.committed_metadata)

    def _key(self, topic: Any) -> str | UUID:
        key: str | UUID = topic.topic_id if self._by_id else topic.name
        return key

    def _code(self, broker: BrokerState, name: str) -> int:
        if self._by_id and not name:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return denied(self._request, broker.access, "TOPIC", name)

    def answer(self, topic_type: Any, partition_type: Any, done: dict[TopicPartition, int] | int) -> list[Any]:
        """Return the answer's topics; those that were refused at once come first, as in Kafka's answers.

        Args:
            topic_type, partition_type: the structs.
            done: the code of each offset that could be committed, or one for all.
        """
        topics: list[Any] = []
        for topic in self._request.body.topics:
            name = self._names[topic.topic_id] if self._by_id else topic.name
            if not topic.partitions and name in self._broker.topics:
                continue  # Kafka answers partition by partition, and an unknown topic as a whole
            wrong: list[Any] = []
            right: list[Any] = []
            for row in topic.partitions:
                code = self.codes.get((self._key(topic), row.partition_index))
                rows = right if code is None else wrong
                if code is None:
                    code = done if isinstance(done, int) else done[TopicPartition(name, row.partition_index)]
                rows.append(partition_type(partition_index=row.partition_index, error_code=code))
            answer = topic_type(name=topic.name, topic_id=topic.topic_id, partitions=wrong + right)
            topics.append((not wrong, answer))
        return [one for _, one in sorted(topics, key=lambda pair: pair[0])]


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[int]]]:
    """Yield topics, each with its partitions, in the order of their first."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    yield from topics.items()
