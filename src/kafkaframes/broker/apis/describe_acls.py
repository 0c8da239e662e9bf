"""DescribeAcls: the access rules that fit a filter (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.security.acls import Acl, AclAccess, check_elements, filter_of
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeAclsRequest, DescribeAclsResponse

    Request: TypeAlias = RequestOf[DescribeAclsRequest, DescribeAclsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with the rules, by resource."""
    access, types, wanted = broker.access, request.response, filter_of(request.body)
    check_elements([wanted])
    if not isinstance(access, AclAccess):
        return request.response(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    by_resource: dict[Any, list[Acl]] = {}
    for acl in access:
        if wanted.takes(acl):
            by_resource.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(acl)
    rows = [
        types.DescribeAclsResource(
            resource_type=kind,
            resource_name=name,
            pattern_type=pattern,
            acls=[
                types.AclDescription(
                    principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
                )
                for acl in acls
            ],
        )
        for (kind, name, pattern), acls in by_resource.items()
    ]
    return request.response(error_message=None, resources=rows)


API = Api(
    name="DescribeAcls",
    handle=handle,
    tier="T4",
    behaviour="The rules that fit; SECURITY_DISABLED without an authorizer.",
    notes={
        "v0": "literal names only",
        "v1+": "prefixed patterns",
    },
    rights=(Right("DESCRIBE", "CLUSTER"),),
)
