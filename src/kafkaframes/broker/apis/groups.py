"""Coordinators, and groups of all types: FindCoordinator, ListGroups, DeleteGroups."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import CLUSTER_NAME, denied, may
from kafkaframes.broker.api import LEFT_OUT, Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, TRANSACTION, error_of, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _FindCoordinator: TypeAlias = RequestOf[kafka.FindCoordinatorRequest, kafka.FindCoordinatorResponse]
    _ListGroups: TypeAlias = RequestOf[kafka.ListGroupsRequest, kafka.ListGroupsResponse]
    _DeleteGroups: TypeAlias = RequestOf[kafka.DeleteGroupsRequest, kafka.DeleteGroupsResponse]

SHARE = 2
_STATES_OF_A_ROW = 200
_FIRST_WITH_LIST = 4
_FIRST_WITH_SHARE = 6
_RESOURCES = {GROUP: "GROUP", TRANSACTION: "TRANSACTIONAL_ID", SHARE: "CLUSTER"}


@Api(
    name="FindCoordinator",
    tier="T0",
    behaviour="One of the broker's own nodes, chosen by the key; never COORDINATOR_NOT_AVAILABLE while one is up.",
    notes={
        "v0": "groups only",
        "v1+": "transactional ids",
        "v4+": "a list of keys (KIP-699)",
        "v6+": "share groups",
    },
    rights=(
        Right("DESCRIBE", "GROUP", each="each group"),
        Right("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id"),
        Right("CLUSTER_ACTION", "CLUSTER", each="each partition of a share group", since=6),
    ),
)
def _find_coordinator(request: _FindCoordinator, broker: BrokerState) -> Answer:
    body = request.body
    if request.version < _FIRST_WITH_LIST:
        code, node_id, host, port = _find(request, broker, body.key)
        return request.response(error_code=code, error_message=None, node_id=node_id, host=host, port=port)

    def row(key: str) -> kafka.FindCoordinatorResponse.Coordinator:
        code, node_id, host, port = _find(request, broker, key)
        return request.response.Coordinator(
            key=key, error_code=code, error_message=None, node_id=node_id, host=host, port=port
        )

    return broker.changes.rows(body.coordinator_keys, row, lambda rows: request.response(coordinators=rows))


def _find(request: _FindCoordinator, broker: BrokerState, key: str) -> tuple[int, int, str, int]:
    kind = request.body.key_type
    if kind not in _RESOURCES or (kind == SHARE and request.version < _FIRST_WITH_SHARE):
        return ErrorCode.INVALID_REQUEST, -1, "", -1
    code = denied(request, broker.access, _RESOURCES[kind], CLUSTER_NAME if kind == SHARE else key)
    if code != ErrorCode.NONE:
        return code, -1, "", -1
    if kind == SHARE and not _is_share_partition(key):
        return ErrorCode.INVALID_REQUEST, -1, "", -1
    node = broker.nodes.coordinator_of(kind, key)
    if node is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
    at = broker.nodes.endpoint(node, request.session.listener)
    return ErrorCode.NONE, node.node_id, at.host, at.port


def _is_share_partition(key: str) -> bool:
    """Return whether a key is ``group:topic id:partition``, as share coordinators are found by.

    >>> _is_share_partition("g:AAAAAAAAAAAAAAAAAAAAAA:0"), _is_share_partition("g")
    (True, False)
    """
    return re.fullmatch(r"[^:]+:[A-Za-z0-9_-]{22}:[0-9]{1,10}", key) is not None


@Api(
    name="ListGroups",
    tier="T1",
    behaviour="Every group that this node coordinates: classic, consumer, share and streams groups.",
    notes={
        "v4+": "by state (KIP-518)",
        "v5+": "by type (KIP-848), in any letter case",
    },
    rights=(Right("DESCRIBE", "GROUP", each="each group", denied=LEFT_OUT, or_cluster="DESCRIBE"),),
)
def _list_groups(request: _ListGroups, broker: BrokerState) -> Answer:
    body = request.body
    rows = []
    for group in broker.groups.listed(states=body.states_filter, types=body.types_filter):
        node = broker.nodes.coordinator_of(GROUP, group.group_id)
        is_ours = node is not None and node.node_id == request.session.node_id
        if is_ours and may(request, broker.access, "GROUP", group.group_id):
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
    notes={"v3+": "a message beside an error"},
    rights=(Right("DELETE", "GROUP", each="each group"),),
)
def _delete_groups(request: _DeleteGroups, broker: BrokerState) -> Answer:
    states = len(broker.share_groups.states.stored)
    return broker.changes.rows(
        dict.fromkeys(request.body.groups_names),
        partial(_deleted, request, broker),
        lambda rows: request.response(results=rows),
        size=lambda _: 1 + states // _STATES_OF_A_ROW,  # a group's are looked for among all
    )


def _deleted(request: _DeleteGroups, broker: BrokerState, name: str) -> kafka.DeleteGroupsResponse.DeletableGroupResult:
    code, reason = refused(request, broker, GROUP, name), None
    if code == ErrorCode.NONE:
        try:
            broker.groups.delete_group(name)
            broker.share_groups.states.forget_all(group_id=name)
        except KafkaframesError as error:
            code, reason = error_of(error), str(error)
    return request.response.DeletableGroupResult(group_id=name, error_code=code, error_message=reason)
