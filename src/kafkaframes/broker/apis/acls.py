"""Access rules: DescribeAcls, CreateAcls, DeleteAcls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.failures import failed
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.security.acls import Acl, AclAccess, acl_of, check_elements, filter_of, mistake_in
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _DescribeAcls: TypeAlias = RequestOf[kafka.DescribeAclsRequest, kafka.DescribeAclsResponse]
    _CreateAcls: TypeAlias = RequestOf[kafka.CreateAclsRequest, kafka.CreateAclsResponse]
    _DeleteAcls: TypeAlias = RequestOf[kafka.DeleteAclsRequest, kafka.DeleteAclsResponse]

_RULES_OF_A_ROW = 40  # cost as much as a row of other APIs


@Api(
    name="DescribeAcls",
    tier="T4",
    behaviour="The rules that fit; SECURITY_DISABLED without an authorizer.",
    notes={
        "v0": "literal names only",
        "v1+": "prefixed patterns",
    },
    rights=(Right("DESCRIBE", "CLUSTER"),),
)
def _describe_acls(request: _DescribeAcls, broker: BrokerState) -> Answer:
    access, types, acl_filter = broker.access, request.response, filter_of(request.body)
    check_elements([acl_filter])
    if not isinstance(access, AclAccess):
        return request.response(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    by_resource: dict[Any, list[Acl]] = {}
    for acl in access:
        if acl_filter.takes(acl):
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


@Api(
    name="CreateAcls",
    tier="T4",
    behaviour="Rules are stored, and in force at once; SECURITY_DISABLED without an authorizer.",
    notes={"v1+": "prefixed patterns"},
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=failed,
)
def _create_acls(request: _CreateAcls, broker: BrokerState) -> Answer:
    check_elements(acl_of(creation) for creation in request.body.creations)

    def row(creation: kafka.CreateAclsRequest.AclCreation) -> kafka.CreateAclsResponse.AclCreationResult:
        code, message = _create(broker, creation)
        return request.response.AclCreationResult(error_code=code, error_message=message)

    def answer(rows: list[kafka.CreateAclsResponse.AclCreationResult]) -> Answer:
        broker.save_acls()
        return request.response(results=rows)

    return broker.changes.rows(request.body.creations, row, answer, is_change=True)


def _create(broker: BrokerState, creation: kafka.CreateAclsRequest.AclCreation) -> tuple[int, str | None]:
    access = broker.access
    if not isinstance(access, AclAccess):
        return ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
    acl = acl_of(creation)
    mistake = mistake_in(acl)
    if mistake is not None:
        return ErrorCode.INVALID_REQUEST, mistake
    access.add(acl)
    return ErrorCode.NONE, None


@Api(
    name="DeleteAcls",
    tier="T4",
    behaviour="Removes what fits; SECURITY_DISABLED without an authorizer.",
    notes={"v1+": "prefixed patterns"},
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=failed,
)
def _delete_acls(request: _DeleteAcls, broker: BrokerState) -> Answer:
    check_elements(filter_of(one) for one in request.body.filters)
    rules = broker.access.rule_count if isinstance(broker.access, AclAccess) else 0

    def answer(rows: list[kafka.DeleteAclsResponse.DeleteAclsFilterResult]) -> Answer:
        broker.save_acls()
        return request.response(filter_results=rows)

    return broker.changes.rows(
        request.body.filters,
        partial(_delete, request, broker),
        answer,
        is_change=True,
        size=lambda _: 1 + rules // _RULES_OF_A_ROW,  # a filter looks at each
    )


def _delete(
    request: _DeleteAcls, broker: BrokerState, row: kafka.DeleteAclsRequest.DeleteAclsFilter
) -> kafka.DeleteAclsResponse.DeleteAclsFilterResult:
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
        for acl in access.remove(filter_of(row))
    ]
    return types.DeleteAclsFilterResult(error_message=None, matching_acls=matching)
