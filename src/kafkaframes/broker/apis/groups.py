"""Handlers for coordinators and for groups of all types: FindCoordinator, ListGroups, DeleteGroups.

This module also contains functions with which all group and transaction APIs check permissions and the coordinator, and
map exceptions to error codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from kafkaframes.broker.requests.api import OMIT_FROM_RESPONSE, Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import Request, TypedRequest
from kafkaframes.broker.security.access import CLUSTER_RESOURCE_NAME, check_denied, is_allowed, operation_bits
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.coordination.groups.commits import OffsetToCommit
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError, get_reason, to_error_code
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _FindCoordinator: TypeAlias = TypedRequest[kafka.FindCoordinatorRequest, kafka.FindCoordinatorResponse]
    _ListGroups: TypeAlias = TypedRequest[kafka.ListGroupsRequest, kafka.ListGroupsResponse]
    _DeleteGroups: TypeAlias = TypedRequest[kafka.DeleteGroupsRequest, kafka.DeleteGroupsResponse]


GROUP, TRANSACTION = 0, 1
_OPERATIONS_NOT_REQUESTED: Final = -(2**31)
_CONFIG_OPERATION_BITS: Final = operation_bits(("DESCRIBE_CONFIGS", "ALTER_CONFIGS"))
_RESOURCE_TYPES = {GROUP: "GROUP", TRANSACTION: "TRANSACTIONAL_ID"}


def check_rights(request: Request, broker: BrokerState, kind: int, key: str) -> int:
    """Return the error code if the client lacks permission or another node is the coordinator, else 0."""
    return check_denied(request, broker.access, _RESOURCE_TYPES[kind], key) or find_coordinator_error(
        request, broker, kind, key
    )


def find_coordinator_error(request: Request, broker: BrokerState, kind: int, key: str) -> ErrorCode:
    """Return NOT_COORDINATOR if this node is not the coordinator of a group or transactional id, else 0."""
    node = broker.nodes.coordinator_of(kind, key)
    if node is None or node.node_id != request.session.node_id:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.NONE


def find_transaction_error(request: Request, broker: BrokerState, kind: int, key: str) -> ErrorCode:
    """Return the error code for a request that adds partitions or offsets to a transaction; 0 if it is allowed.

    POLICY_VIOLATION: the broker is read-only. NOT_COORDINATOR: this node does not coordinate the key.
    """
    return ErrorCode.POLICY_VIOLATION if broker.is_read_only else find_coordinator_error(request, broker, kind, key)


def get_error_code(error: KafkaframesError) -> ErrorCode:
    """Return the error code of a coordinator's exception. The error code of a storage error is NOT_COORDINATOR."""
    code = to_error_code(error)
    return ErrorCode.NOT_COORDINATOR if code == ErrorCode.KAFKA_STORAGE_ERROR else code


def build_error_response(request: Request, error: KafkaframesError) -> Answer:
    """Return the response to a rejected heartbeat. As in Kafka, an unexpected error has no message."""
    reason = error.reason if isinstance(error, RefusedError) and error.code > 0 else None
    answer: Answer = request.response(error_code=get_error_code(error), error_message=reason)
    return answer


def format_client_host(request: Request) -> str:
    """Return the client's address as Kafka reports it: a slash and the IP address.

    In Java, the slash follows the host name.
    """
    return "/" + request.session.peer.rpartition(":")[0]


def list_authorized_operations(request: Request, broker: BrokerState, group_id: str) -> int:
    """Return the client's permitted operations on a group as bits, if the request asks for them."""
    if not request.body.include_authorized_operations:
        return _OPERATIONS_NOT_REQUESTED
    may = broker.access.allowed_operations(request.session, "GROUP", group_id)
    return may if broker.settings.groups_have_settings else may & ~_CONFIG_OPERATION_BITS


class ValidatedOffsets:
    """The validated offsets of a commit request: valid ``offsets``, and error ``codes`` of rejected partitions."""

    def __init__(self, request: Request, broker: BrokerState, *, by_id_since: int) -> None:
        self._request = request
        self._broker = broker
        self._by_id = request.version >= by_id_since
        self.offsets: dict[TopicPartition, OffsetToCommit] = {}
        self.codes: dict[tuple[str | UUID, int], int] = {}
        self._names: dict[UUID, str] = {}

    def validate_then_answer(self, answer: Callable[[], Answer]) -> Answer:
        """Validate the offsets in steps, because there may be many; then call ``answer``."""
        return self._broker.changes.answer_rows(
            self._iterate_rows(), lambda row: self._validate_row(*row), lambda _: answer()
        )

    def _iterate_rows(self) -> Iterator[tuple[Any, str, int, Any]]:
        """Yield topic, topic name, error code and row of each requested partition."""
        for topic in self._request.body.topics:
            name = topic.name
            if self._by_id:
                topic_with_id = self._broker.topics_by_id.get(topic.topic_id)
                name = "" if topic_with_id is None else topic_with_id.name
                self._names[topic.topic_id] = name
            code = self._check_topic(self._broker, name)
            for row in topic.partitions:
                yield topic, name, code, row

    def _validate_row(self, topic: Any, name: str, code: int, row: Any) -> None:
        """Store the offset of a partition, or the error code if it is invalid."""
        if code == ErrorCode.NONE and self._broker.partition(name, row.partition_index) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code != ErrorCode.NONE:
            self.codes[self._get_topic_key(topic), row.partition_index] = code
        else:
            topic_partition = TopicPartition(name, row.partition_index)
            self.offsets[topic_partition] = OffsetToCommit(
                row.committed_offset, row.committed_leader_epoch, row.committed_metadata
            )

    def _get_topic_key(self, topic: Any) -> str | UUID:
        key: str | UUID = topic.topic_id if self._by_id else topic.name
        return key

    def _check_topic(self, broker: BrokerState, name: str) -> int:
        """Return the error code of a topic in a commit request."""
        if self._by_id and not name:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return check_denied(self._request, broker.access, "TOPIC", name)

    def build_topic_rows(
        self, topic_type: Any, partition_type: Any, codes: dict[TopicPartition, int] | int
    ) -> list[Any]:
        """Return the topics of the response. As in Kafka, rejected partitions precede accepted partitions.

        Args:
            codes: one error code for each valid offset, or a single error code for all of them.
        """
        topics: list[Any] = []
        for topic in self._request.body.topics:
            name = self._names[topic.topic_id] if self._by_id else topic.name
            if not topic.partitions and name in self._broker.topics:
                continue  # as in Kafka, a known topic without partitions is omitted from the response
            rejected_rows: list[Any] = []
            accepted_rows: list[Any] = []
            for row in topic.partitions:
                code = self.codes.get((self._get_topic_key(topic), row.partition_index))
                rows = accepted_rows if code is None else rejected_rows
                if code is None:
                    code = codes if isinstance(codes, int) else codes[TopicPartition(name, row.partition_index)]
                rows.append(partition_type(partition_index=row.partition_index, error_code=code))
            answer = topic_type(name=topic.name, topic_id=topic.topic_id, partitions=rejected_rows + accepted_rows)
            topics.append((not rejected_rows, answer))
        return [topic_row for _, topic_row in sorted(topics, key=lambda pair: pair[0])]


SHARE_COORDINATOR = 2
_STATES_PER_WORK_UNIT = 200  # comparing 200 states takes as long as a response row of other APIs
_FIRST_VERSION_WITH_KEY_LIST = 4
_FIRST_VERSION_WITH_SHARE_GROUPS = 6
_COORDINATOR_RESOURCE_TYPES = {GROUP: "GROUP", TRANSACTION: "TRANSACTIONAL_ID", SHARE_COORDINATOR: "CLUSTER"}


@Api(
    name="FindCoordinator",
    tier="T0",
    behaviour="Returns one of the broker's own nodes, chosen by the key; never COORDINATOR_NOT_AVAILABLE "
    "while a node is running.",
    notes={
        "v0": "groups only",
        "v1+": "transactional ids",
        "v4+": "the request has a list of keys (KIP-699)",
        "v6+": "share groups",
    },
    rights=(
        RequiredPermission("DESCRIBE", "GROUP", each="each group"),
        RequiredPermission("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id"),
        RequiredPermission("CLUSTER_ACTION", "CLUSTER", each="each partition of a share group", first_version=6),
    ),
)
def _find_coordinator(request: _FindCoordinator, broker: BrokerState) -> Answer:
    body = request.body
    if request.version < _FIRST_VERSION_WITH_KEY_LIST:
        code, node_id, host, port = _locate_coordinator(request, broker, body.key)
        return request.response(error_code=code, error_message=None, node_id=node_id, host=host, port=port)

    def build_row(key: str) -> kafka.FindCoordinatorResponse.Coordinator:
        code, node_id, host, port = _locate_coordinator(request, broker, key)
        return request.response.Coordinator(
            key=key, error_code=code, error_message=None, node_id=node_id, host=host, port=port
        )

    return broker.changes.answer_rows(
        body.coordinator_keys, build_row, lambda rows: request.response(coordinators=rows)
    )


def _locate_coordinator(request: _FindCoordinator, broker: BrokerState, key: str) -> tuple[int, int, str, int]:
    """Return the error code of a FindCoordinator key and the coordinator's node id, host and port."""
    kind = request.body.key_type
    if kind not in _COORDINATOR_RESOURCE_TYPES or (
        kind == SHARE_COORDINATOR and request.version < _FIRST_VERSION_WITH_SHARE_GROUPS
    ):
        return ErrorCode.INVALID_REQUEST, -1, "", -1
    code = check_denied(
        request,
        broker.access,
        _COORDINATOR_RESOURCE_TYPES[kind],
        CLUSTER_RESOURCE_NAME if kind == SHARE_COORDINATOR else key,
    )
    if code != ErrorCode.NONE:
        return code, -1, "", -1
    if kind == SHARE_COORDINATOR and not _is_share_partition(key):
        return ErrorCode.INVALID_REQUEST, -1, "", -1
    node = broker.nodes.coordinator_of(kind, key)
    if node is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
    endpoint = broker.nodes.get_endpoint(node, request.session.listener)
    return ErrorCode.NONE, node.node_id, endpoint.host, endpoint.port


def _is_share_partition(key: str) -> bool:
    """Return whether a key is ``group:topic id:partition``, the form of a share coordinator's key.

    >>> _is_share_partition("g:AAAAAAAAAAAAAAAAAAAAAA:0"), _is_share_partition("g")
    (True, False)
    """
    return re.fullmatch(r"[^:]+:[A-Za-z0-9_-]{22}:[0-9]{1,10}", key) is not None


@Api(
    name="ListGroups",
    tier="T1",
    behaviour="Lists every group that this node coordinates: classic, consumer, share and streams groups.",
    notes={
        "v4+": "by state (KIP-518)",
        "v5+": "groups can be filtered by type, in any letter case (KIP-848)",
    },
    rights=(
        RequiredPermission("DESCRIBE", "GROUP", each="each group", denied=OMIT_FROM_RESPONSE, or_cluster="DESCRIBE"),
    ),
)
def _list_groups(request: _ListGroups, broker: BrokerState) -> Answer:
    body = request.body
    rows = []
    for group in broker.groups.list_groups(states=body.states_filter, types=body.types_filter):
        node = broker.nodes.coordinator_of(GROUP, group.group_id)
        has_permission = node is not None and node.node_id == request.session.node_id
        if has_permission and is_allowed(request, broker.access, "GROUP", group.group_id):
            rows.append(
                request.response.ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type_name,
                    group_state=group.state_name,
                    group_type=group.type,
                )
            )
    return request.response(groups=rows)


@Api(
    name="DeleteGroups",
    tier="T1",
    behaviour="Deletes groups without members, with their offsets.",
    notes={"v3+": "each error has a message"},
    rights=(RequiredPermission("DELETE", "GROUP", each="each group"),),
)
def _delete_groups(request: _DeleteGroups, broker: BrokerState) -> Answer:
    states = len(broker.share_groups.stored_states)
    return broker.changes.answer_rows(
        dict.fromkeys(request.body.groups_names),
        partial(_delete_group, request, broker),
        lambda rows: request.response(results=rows),
        # A group's states are found by a scan of the states of all groups.
        size=lambda _: 1 + states // _STATES_PER_WORK_UNIT,
    )


def _delete_group(
    request: _DeleteGroups, broker: BrokerState, name: str
) -> kafka.DeleteGroupsResponse.DeletableGroupResult:
    code, reason = check_rights(request, broker, GROUP, name), None
    if code == ErrorCode.NONE:
        try:
            broker.groups.delete_group(name)
            broker.share_groups.delete_states(group_id=name)
        except KafkaframesError as error:
            code, reason = get_error_code(error), get_reason(error)
    return request.response.DeletableGroupResult(group_id=name, error_code=code, error_message=reason)
