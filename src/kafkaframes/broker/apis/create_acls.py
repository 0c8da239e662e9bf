"""CreateAcls: make access rules (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.security.acls import AclAccess, acl_of, check_elements, mistake_in
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import CreateAclsRequest, CreateAclsResponse

    Request: TypeAlias = RequestOf[CreateAclsRequest, CreateAclsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Make each rule."""
    check_elements(acl_of(one) for one in request.body.creations)
    rows = []
    for asked in request.body.creations:
        code, message = _create(request, broker, asked)
        rows.append(request.response.AclCreationResult(error_code=code, error_message=message))
    broker.save_acls()
    return request.response(results=rows)


def _create(request: Request, broker: BrokerState, asked: CreateAclsRequest.AclCreation) -> tuple[int, str | None]:
    access = broker.access
    if not isinstance(access, AclAccess):
        return ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
    acl = acl_of(asked)
    mistake = mistake_in(acl)
    if mistake is not None:
        return ErrorCode.INVALID_REQUEST, mistake
    access.add(acl)
    return ErrorCode.NONE, None


def _refuse(request: Request, code: int) -> Answer:
    return request.response(
        results=[request.response.AclCreationResult(error_code=code) for _ in request.body.creations]
    )


API = Api(
    name="CreateAcls",
    handle=handle,
    tier="T4",
    behaviour="Rules are stored, and in force at once; SECURITY_DISABLED without an authorizer.",
    notes={"v1+": "prefixed patterns"},
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=_refuse,
)
