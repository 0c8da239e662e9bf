"""Handlers for ACLs, and quotas of users, client ids and addresses (KIP-546): DescribeAcls, CreateAcls, DeleteAcls,
DescribeClientQuotas, AlterClientQuotas.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.failures import build_failure_response
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.acls import (
    Acl,
    AclAuthorizer,
    build_acl,
    build_acl_filter,
    check_acl_rows,
    find_acl_error,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _DescribeAcls: TypeAlias = TypedRequest[kafka.DescribeAclsRequest, kafka.DescribeAclsResponse]
    _CreateAcls: TypeAlias = TypedRequest[kafka.CreateAclsRequest, kafka.CreateAclsResponse]
    _DeleteAcls: TypeAlias = TypedRequest[kafka.DeleteAclsRequest, kafka.DeleteAclsResponse]
    _DescribeClientQuotas: TypeAlias = TypedRequest[
        kafka.DescribeClientQuotasRequest, kafka.DescribeClientQuotasResponse
    ]
    _AlterClientQuotas: TypeAlias = TypedRequest[kafka.AlterClientQuotasRequest, kafka.AlterClientQuotasResponse]


_ACLS_PER_WORK_UNIT = 40  # matching 40 ACLs takes as long as a response row of other APIs


@Api(
    name="DescribeAcls",
    tier="T4",
    behaviour="Returns the matching rules; SECURITY_DISABLED without an authorizer.",
    notes={
        "v0": "literal names only",
        "v1+": "prefixed patterns",
    },
    rights=(RequiredPermission("DESCRIBE", "CLUSTER"),),
)
def _describe_acls(request: _DescribeAcls, broker: BrokerState) -> Answer:
    access, types, acl_filter = broker.access, request.response, build_acl_filter(request.body)
    check_acl_rows([acl_filter])
    if not isinstance(access, AclAuthorizer):
        return request.response(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    by_resource: dict[Any, list[Acl]] = {}
    for acl in access:
        if acl_filter.matches(acl):
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
    behaviour="ACLs are stored and take effect immediately; SECURITY_DISABLED without an authorizer.",
    notes={"v1+": "prefixed patterns"},
    rights=(RequiredPermission("ALTER", "CLUSTER"),),
    refuse=build_failure_response,
)
def _create_acls(request: _CreateAcls, broker: BrokerState) -> Answer:
    check_acl_rows(build_acl(creation) for creation in request.body.creations)

    def create_row(creation: kafka.CreateAclsRequest.AclCreation) -> kafka.CreateAclsResponse.AclCreationResult:
        """Create one ACL, and return its response row."""
        code, message = _create_acl(broker, creation)
        return request.response.AclCreationResult(error_code=code, error_message=message)

    def build_response(rows: list[kafka.CreateAclsResponse.AclCreationResult]) -> Answer:
        broker.save_acls()
        return request.response(results=rows)

    return broker.changes.answer_rows(request.body.creations, create_row, build_response, is_change=True)


def _create_acl(broker: BrokerState, creation: kafka.CreateAclsRequest.AclCreation) -> tuple[int, str | None]:
    access = broker.access
    if not isinstance(access, AclAuthorizer):
        return ErrorCode.SECURITY_DISABLED, "No Authorizer is configured."
    acl = build_acl(creation)
    reason = find_acl_error(acl)
    if reason is not None:
        return ErrorCode.INVALID_REQUEST, reason
    access.add(acl)
    return ErrorCode.NONE, None


@Api(
    name="DeleteAcls",
    tier="T4",
    behaviour="Removes the matching rules; SECURITY_DISABLED without an authorizer.",
    notes={"v1+": "prefixed patterns"},
    rights=(RequiredPermission("ALTER", "CLUSTER"),),
    refuse=build_failure_response,
)
def _delete_acls(request: _DeleteAcls, broker: BrokerState) -> Answer:
    check_acl_rows(build_acl_filter(filter_row) for filter_row in request.body.filters)
    rules = broker.access.rule_count if isinstance(broker.access, AclAuthorizer) else 0

    def build_response(rows: list[kafka.DeleteAclsResponse.DeleteAclsFilterResult]) -> Answer:
        broker.save_acls()
        return request.response(filter_results=rows)

    return broker.changes.answer_rows(
        request.body.filters,
        partial(_delete_matching_acls, request, broker),
        build_response,
        is_change=True,
        size=lambda _: 1 + rules // _ACLS_PER_WORK_UNIT,  # a filter is compared with each ACL
    )


def _delete_matching_acls(
    request: _DeleteAcls, broker: BrokerState, row: kafka.DeleteAclsRequest.DeleteAclsFilter
) -> kafka.DeleteAclsResponse.DeleteAclsFilterResult:
    access, types = broker.access, request.response
    if not isinstance(access, AclAuthorizer):
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
        for acl in access.remove(build_acl_filter(row))
    ]
    return types.DeleteAclsFilterResult(error_message=None, matching_acls=matching)


EXACT, DEFAULT, ANY = range(3)
ENTITY_TYPES = ("user", "client-id", "ip")
Entity = dict[str, str | None]
# Quota keys of users and client ids, and of addresses -> whether the value is an integer.
_QUOTA_KEYS = {
    "producer_byte_rate": True,
    "consumer_byte_rate": True,
    "request_percentage": False,
    "controller_mutation_rate": False,
}
_Key: TypeAlias = frozenset[tuple[str, str | None]]
_Quotas: TypeAlias = dict[_Key, dict[str, Any]]
_ADDRESS_QUOTA_KEYS = {"connection_creation_rate": True}


def _refuse_description(request: _DescribeClientQuotas, code: int) -> Answer:
    return request.response(error_code=code, entries=None)


@Api(
    name="DescribeClientQuotas",
    tier="T3",
    behaviour="Returns all configured quotas.",
    rights=(RequiredPermission("DESCRIBE_CONFIGS", "CLUSTER"),),
    refuse=_refuse_description,
)
def _describe_client_quotas(request: _DescribeClientQuotas, broker: BrokerState) -> Answer:
    body, types = request.body, request.response
    try:
        _check_components(body.components)
    except RefusedError as error:
        return request.response(error_code=error.code, error_message=error.reason, entries=None)
    rows = []
    for stored_quota in broker.metadata.entities.get("quotas", []):
        entity: Entity = stored_quota["entity"]
        if _matches_components(entity, body.components, is_strict=body.strict):
            rows.append(
                types.EntryData(
                    entity=[types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                    values=[types.ValueData(key=key, value=value) for key, value in stored_quota["values"].items()],
                )
            )
    return request.response(error_message=None, entries=rows)


def _check_components(components: list[kafka.DescribeClientQuotasRequest.ComponentData]) -> None:
    """Reject the first invalid component, or components that exclude each other."""
    seen_types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if kind in ("", *seen_types):
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"an entity type is empty or repeated: {kind!r}")
        if kind not in ENTITY_TYPES:
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, f"unknown entity type {kind!r}")
        if component.match_type not in (EXACT, DEFAULT, ANY) or (component.match is None) == (
            component.match_type == EXACT
        ):
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"match type {component.match_type} does not fit the match value of {kind}"
            )
        seen_types.add(kind)
    if "ip" in seen_types and len(seen_types) > 1:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination: ip cannot be combined with user or client-id",
        )


def _matches_components(
    entity: Entity, components: list[kafka.DescribeClientQuotasRequest.ComponentData], *, is_strict: bool
) -> bool:
    """Return whether an entity matches the filter of a DescribeClientQuotas request."""
    for component in components:
        if component.entity_type not in entity:
            return False
        name = entity[component.entity_type]
        if component.match_type == EXACT and name != component.match:
            return False
        if component.match_type == DEFAULT and name is not None:
            return False
    return not is_strict or len(components) == len(entity)


def _reject_changes(request: _AlterClientQuotas, code: int) -> Answer:
    """Return a response that rejects all quota changes with the same error code."""
    return request.response(
        entries=[_build_quota_row(request, _build_entity(entry), code, None) for entry in request.body.entries]
    )


@Api(
    name="AlterClientQuotas",
    tier="T3",
    behaviour=(
        "Sets and removes quotas. If a client exceeds a quota, the broker does not read its requests "
        "for the throttle time of the response. A connection above connection_creation_rate is closed"
        " without being read, after a second at most."
    ),
    gaps=(
        "request_percentage counts the time of the handler, in one thread",
        "connection_creation_rate counts a connection with TLS after its handshake",
    ),
    rights=(RequiredPermission("ALTER_CONFIGS", "CLUSTER"),),
    refuse=_reject_changes,
)
def _alter_client_quotas(request: _AlterClientQuotas, broker: BrokerState) -> Answer:
    """As in Kafka, only the first change of a repeated entity is applied, and its response row contains an error."""
    quota_changes: list[_Quotas] = []  # filled with the first row, when changes by earlier requests are complete
    results: dict[_Key, kafka.AlterClientQuotasResponse.EntryData] = {}

    def alter_row(entry: kafka.AlterClientQuotasRequest.EntryData) -> None:
        """Change the quotas of one entity, and store its response row."""
        if not quota_changes:
            quota_changes.append(
                {
                    _build_key(stored_quota["entity"]): stored_quota
                    for stored_quota in broker.metadata.entities.get("quotas", ())
                }
            )
        entity = _build_entity(entry)
        key = _build_key(entity)
        repetition_error = (ErrorCode.INVALID_REQUEST, "an entity is repeated")
        results[key] = _build_quota_row(
            request,
            entity,
            *(repetition_error if key in results else _change_quotas(request, quota_changes[0], entity, entry)),
        )

    def build_response(_: list[None]) -> Answer:
        if not request.body.validate_only:
            if quota_changes:
                broker.metadata.entities["quotas"] = list(quota_changes[0].values())
                broker.quotas.load(broker.metadata.entities["quotas"])
            broker.save_metadata()
        return request.response(entries=list(results.values()))

    return broker.changes.answer_rows(request.body.entries, alter_row, build_response, is_change=True)


def _build_entity(entry: kafka.AlterClientQuotasRequest.EntryData) -> Entity:
    return {component.entity_type: component.entity_name for component in entry.entity}


def _build_key(entity: Mapping[str, str | None]) -> _Key:
    return frozenset(entity.items())


def _build_quota_row(
    request: _AlterClientQuotas, entity: Entity, code: int, message: str | None
) -> kafka.AlterClientQuotasResponse.EntryData:
    types = request.response
    rows = [types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return types.EntryData(error_code=code, error_message=message, entity=rows)


def _change_quotas(
    request: _AlterClientQuotas, quotas: _Quotas, entity: Entity, entry: kafka.AlterClientQuotasRequest.EntryData
) -> tuple[int, str | None]:
    """Change an entity's quotas, and return the error code and message."""
    quota_error = _find_quota_change_error(entity, entry.ops)
    if quota_error is not None:
        return ErrorCode.INVALID_REQUEST, quota_error
    if request.body.validate_only:
        return ErrorCode.NONE, None
    stored_quota = quotas.setdefault(_build_key(entity), {"entity": entity, "values": {}})
    for operation in entry.ops:
        if operation.remove:
            stored_quota["values"].pop(operation.key, None)
        else:
            stored_quota["values"][operation.key] = operation.value
    if not stored_quota["values"]:
        del quotas[_build_key(entity)]
    return ErrorCode.NONE, None


def _find_quota_change_error(entity: dict[str, str | None], ops: list[Any]) -> str | None:
    """Return why a change to an entity's quotas is invalid; None if it is valid."""
    if not entity or not set(entity).issubset(ENTITY_TYPES) or ("ip" in entity and len(entity) > 1):
        return f"Invalid quota entity combination: {', '.join(entity) or 'nobody'}"
    if "ip" in entity and not _is_ip_address(entity["ip"]):
        return f"{entity['ip']} is not a valid IP or resolvable host."
    if "" in entity.values():
        return "an entity requires a name, unless it is the default"
    if len({op.key for op in ops}) < len(ops):
        return "a quota is listed twice"
    return next(filter(None, (_find_quota_error(op, entity) for op in ops if not op.remove)), None)


def _is_ip_address(text: str | None) -> bool:
    """Return whether a text is an IP address. None, the default entity, is valid. Kafka also resolves host names."""
    try:
        return text is None or bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _find_quota_error(operation: Any, entity: dict[str, Any]) -> str | None:
    """Return Kafka's message about a quota that an entity cannot have; None if the quota is valid."""
    must_be_integer = (_ADDRESS_QUOTA_KEYS if "ip" in entity else _QUOTA_KEYS).get(operation.key)
    if must_be_integer is None:
        return f"Invalid configuration key {operation.key}"
    if not operation.value > 0:
        return f"Quota {operation.key} must be greater than 0"
    if must_be_integer and not operation.value.is_integer():
        return f"{operation.key} cannot be a fractional value."
    return None
