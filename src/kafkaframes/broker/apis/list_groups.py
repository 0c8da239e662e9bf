"""ListGroups: the groups of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import may
from kafkaframes.broker.api import LEFT_OUT, Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ListGroupsRequest, ListGroupsResponse

    Request: TypeAlias = RequestOf[ListGroupsRequest, ListGroupsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """List what the client may see, of the groups that this node coordinates."""
    body = request.body
    rows = []
    for one in broker.groups.listed(states=body.states_filter, types=body.types_filter):
        node = broker.nodes.coordinator_of(GROUP, one.group_id)
        is_ours = node is not None and node.node_id == request.session.node_id
        if is_ours and may(request, broker.access, "GROUP", one.group_id):
            rows.append(
                request.response.ListedGroup(
                    group_id=one.group_id,
                    protocol_type=one.protocol_type_name,
                    group_state=one.state_name,
                    group_type=one.type,
                )
            )
    return request.response(groups=rows)


API = Api(
    name="ListGroups",
    handle=handle,
    tier="T1",
    behaviour="Every group that this node coordinates: classic, consumer and share groups.",
    notes={
        "v4+": "by state (KIP-518)",
        "v5+": "by type (KIP-848), in any letter case",
    },
    rights=(Right("DESCRIBE", "GROUP", each="each group", denied=LEFT_OUT, or_cluster="DESCRIBE"),),
)
