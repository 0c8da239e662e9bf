"""FindCoordinator: which node coordinates a group, a transactional id or a share group's partition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import CLUSTER_NAME, denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import FindCoordinatorRequest, FindCoordinatorResponse

    Request: TypeAlias = RequestOf[FindCoordinatorRequest, FindCoordinatorResponse]

GROUP, TRANSACTION, SHARE = 0, 1, 2
_FIRST_WITH_LIST = 4
_FIRST_WITH_SHARE = 6
_RESOURCES = {GROUP: "GROUP", TRANSACTION: "TRANSACTIONAL_ID", SHARE: "CLUSTER"}


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with one of our own nodes."""
    body = request.body
    if request.version < _FIRST_WITH_LIST:
        code, node_id, host, port = _find(request, broker, body.key)
        return request.response(error_code=code, error_message=None, node_id=node_id, host=host, port=port)
    found = []
    for key in body.coordinator_keys:
        code, node_id, host, port = _find(request, broker, key)
        found.append(
            request.response.Coordinator(
                key=key, error_code=code, error_message=None, node_id=node_id, host=host, port=port
            )
        )
    return request.response(coordinators=found)


def _find(request: Request, broker: BrokerState, key: str) -> tuple[int, int, str, int]:
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


API = Api(
    name="FindCoordinator",
    handle=handle,
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
