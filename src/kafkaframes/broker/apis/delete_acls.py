"""DeleteAcls: remove the access rules that fit filters (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.security.acls import AclAccess, check_elements, filter_of
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DeleteAclsRequest, DeleteAclsResponse

    Request: TypeAlias = RequestOf[DeleteAclsRequest, DeleteAclsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Remove what fits each filter."""
    check_elements(filter_of(one) for one in request.body.filters)
    rows = [_delete(request, broker, asked) for asked in request.body.filters]
    broker.save_acls()
    return request.response(filter_results=rows)


def _delete(
    request: Request, broker: BrokerState, asked: DeleteAclsRequest.DeleteAclsFilter
) -> DeleteAclsResponse.DeleteAclsFilterResult:
    access, types = broker.access, request.response
    if not isinstance(access, AclAccess):
        return types.DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
        )
    matching = [
        types.DeleteAclsMatchingAcl(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in access.remove(filter_of(asked))
    ]
    return types.DeleteAclsFilterResult(error_message=None, matching_acls=matching)


def _refuse(request: Request, code: int) -> Answer:
    row = request.response.DeleteAclsFilterResult
    return request.response(filter_results=[row(error_code=code) for _ in request.body.filters])


API = Api(
    name="DeleteAcls",
    handle=handle,
    tier="T4",
    behaviour="Removes what fits; SECURITY_DISABLED without an authorizer.",
    notes={"v1+": "prefixed patterns"},
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=_refuse,
)
