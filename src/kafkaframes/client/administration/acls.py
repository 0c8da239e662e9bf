"""Access rules (ACLs: KIP-140, KIP-290), and the operations that a principal is authorized for (KIP-430)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kafkaframes.client.administration.base import (
    OPERATIONS_NOT_REQUESTED,
    AdminRequests,
    get_row_error,
    raise_response_error,
    to_protocol_name,
    to_protocol_number,
)
from kafkaframes.client.response_rows import require_one_row, require_success
from kafkaframes.errors import BrokerError, OptionError

RESOURCE_TYPES: Final = {
    "any": 1, "topic": 2, "group": 3, "cluster": 4, "transactional_id": 5, "delegation_token": 6, "user": 7,
}  # fmt: skip
PATTERN_TYPES: Final = {"any": 1, "match": 2, "literal": 3, "prefixed": 4}
ACL_OPERATIONS: Final = {
    "any": 1, "all": 2, "read": 3, "write": 4, "create": 5, "delete": 6, "alter": 7, "describe": 8,
    "cluster_action": 9, "describe_configs": 10, "alter_configs": 11, "idempotent_write": 12, "create_tokens": 13,
    "describe_tokens": 14, "two_phase_commit": 15,
}  # fmt: skip
PERMISSION_TYPES: Final = {"any": 1, "deny": 2, "allow": 3}
CLUSTER_RESOURCE_NAME: Final = "kafka-cluster"  # the name of the only resource of type cluster


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An access rule (ACL): it allows or denies a principal an operation on a resource.

    Attributes:
        resource_type: ``topic``, ``group``, ``cluster``, ``transactional_id``, ``delegation_token`` or ``user``.
        resource_name: name of the resource, or a prefix of names. ``*`` matches every resource of the type. The name of
            a ``cluster`` is ``kafka-cluster``.
        principal: principal to which the rule applies, such as ``User:alice``. ``User:*`` matches every principal.
        operation: key of ``ACL_OPERATIONS``, such as ``read``, ``write``, ``create`` or ``all``.
        permission: ``allow`` or ``deny``.
        host: address that the principal connects from. ``*`` matches every address.
        pattern_type: ``literal`` or ``prefixed``.
    """

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission: str = "allow"
    host: str = "*"
    pattern_type: str = "literal"

    def __str__(self) -> str:
        """Return the rule as one phrase.

        >>> str(AclBinding("topic", "orders", "User:alice", "read"))
        'allow read on topic orders for User:alice from host *'
        """
        kind = f"{self.pattern_type} {self.resource_type}" if self.pattern_type != "literal" else self.resource_type
        action = f"{self.permission} {self.operation} on {kind} {self.resource_name}"
        return f"{action} for {self.principal} from host {self.host}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter for access rules. None and ``any`` match everything.

    Attributes:
        resource_type: resource type of the rules, as in ``AclBinding``.
        resource_name: exact name of the resource or prefix in the rules; with ``match``, the name of a resource.
        principal: exact principal of the rules, such as ``User:alice``.
        operation: exact operation of the rules.
        permission: ``allow`` or ``deny``.
        host: exact host of the rules.
        pattern_type: ``literal``, ``prefixed``, ``any`` or ``match``. ``match`` selects the rules of every pattern type
            that apply to the resource ``resource_name``.
    """

    resource_type: str = "any"
    resource_name: str | None = None
    principal: str | None = None
    operation: str = "any"
    permission: str = "any"
    host: str | None = None
    pattern_type: str = "any"

    def __str__(self) -> str:
        """Return the conditions as a list.

        >>> str(AclFilter("topic", "orders", operation="read"))
        'resource_type=topic, resource_name=orders, operation=read'
        """
        values = {name: getattr(self, name) for name in self.__slots__}
        return ", ".join(f"{name}={value}" for name, value in values.items() if value not in (None, "any")) or "all"


class AclMethods(AdminRequests):
    """Admin methods for access rules."""

    async def describe_acls(self, condition: AclFilter = AclFilter()) -> list[AclBinding]:
        """Return the access rules that match a filter.

        Args:
            condition: filter for the rules; the default filter matches every rule.

        Raises:
            OptionError: the filter has an unknown type, operation or permission.
            BrokerError: the principal may not describe the cluster, or the brokers have no authorizer
                (SECURITY_DISABLED).
        """
        body = self.settings.message_class("DescribeAclsRequest")(**_to_filter_fields(condition))
        response = await self._send_to_any_broker(body, "access rules")
        bindings = [_to_binding(row, resource) for resource in response.resources for row in resource.acls]
        return sorted(
            bindings, key=lambda entry: (entry.resource_type, entry.resource_name, entry.principal, entry.operation)
        )

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Create access rules. A rule that already exists is not an error.

        Args:
            bindings: rules to create.

        Raises:
            OptionError: a rule has an unknown type, operation or permission. If this error is raised, no rule is
                created.
            BrokerError: a broker rejected a rule. The error is a ``PartialFailureError`` if several rules were sent.
        """
        distinct_bindings = list(dict.fromkeys(bindings))
        cls = self.settings.message_class("CreateAclsRequest")
        body = cls(creations=[cls.AclCreation(**_to_creation_fields(binding)) for binding in distinct_bindings])
        response = await self._send_to_controller(body, "access rules", lambda response: response.results)
        require_success(
            {
                binding: get_row_error(row, f"access rule {binding}")
                for binding, row in zip(distinct_bindings, response.results, strict=False)
            },
            distinct_bindings,
        )

    async def delete_acls(self, conditions: Iterable[AclFilter]) -> dict[AclFilter, list[AclBinding]]:
        """Delete the access rules that match filters, and return the deleted rules of each filter.

        Args:
            conditions: filters. A rule is deleted if any of the filters matches.

        Raises:
            OptionError: a filter has an unknown type, operation or permission. If this error is raised, no rule is
                deleted.
            BrokerError: a broker rejected a filter, or could not delete a rule.
        """
        distinct_conditions = list(dict.fromkeys(conditions))
        cls = self.settings.message_class("DeleteAclsRequest")
        body = cls(filters=[cls.DeleteAclsFilter(**_to_filter_fields(condition)) for condition in distinct_conditions])
        response = await self._send_to_controller(body, "access rules", lambda response: response.filter_results)
        results: dict[AclFilter, list[AclBinding] | BrokerError] = {}
        for condition, row in zip(distinct_conditions, response.filter_results, strict=False):
            errors = [get_row_error(row, f"access rules ({condition})")]
            errors += [get_row_error(match, f"access rule {_to_binding(match, match)}") for match in row.matching_acls]
            first_error = next((error for error in errors if error is not None), None)
            results[condition] = first_error or [_to_binding(match, match) for match in row.matching_acls]
        return require_success(results, distinct_conditions)

    async def authorized_operations(self, resource_type: str, name: str = CLUSTER_RESOURCE_NAME) -> frozenset[str]:
        """Return the operations that this client's principal may execute (KIP-430).

        Args:
            resource_type: ``cluster``, ``topic`` or ``group``.
            name: name of the topic or group.

        Raises:
            OptionError: the resource type is not one that has a list of authorized operations.
            BrokerError: the resource does not exist, or the principal may not describe it.
        """
        if resource_type == "cluster":
            body = self.settings.message_class("DescribeClusterRequest")(include_cluster_authorized_operations=True)
            return _decode_operations((await self._send_to_any_broker(body, "cluster")).cluster_authorized_operations)
        if resource_type == "topic":
            cls = self.settings.message_class("MetadataRequest")
            body = cls(topics=[cls.MetadataRequestTopic(name=name)], include_topic_authorized_operations=True)
            body.allow_auto_topic_creation = False
            row = require_one_row((await self._send_to_any_broker(body, f"topic {name}")).topics, f"topic {name}")
        elif resource_type == "group":
            cls = self.settings.message_class("DescribeGroupsRequest")
            body = cls(groups=[name], include_authorized_operations=True)
            row = await self._request_group_row(name, body)
        else:
            raise OptionError(f"resource type {resource_type!r} has no operations; expected cluster, topic or group")
        raise_response_error(row, f"{resource_type} {name}")
        bits = row.topic_authorized_operations if resource_type == "topic" else row.authorized_operations
        return _decode_operations(bits)


def _decode_operations(bits: int) -> frozenset[str]:
    """Return the names of the operations with a set bit. Bit N represents the operation with number N."""
    if bits == OPERATIONS_NOT_REQUESTED:
        return frozenset()
    return frozenset(name for name, number in ACL_OPERATIONS.items() if bits >> number & 1)


def _to_creation_fields(binding: AclBinding) -> dict[str, Any]:
    for setting, value in (("resource type", binding.resource_type), ("pattern type", binding.pattern_type)):
        if value in ("any", "match"):
            raise OptionError(f"{setting} {value!r} is only valid in filters; an access rule specifies one {setting}")
    if "any" in (binding.operation, binding.permission):
        raise OptionError("'any' is only valid in filters; an access rule specifies one operation and one permission")
    return {
        "resource_type": to_protocol_number("resource type", binding.resource_type, RESOURCE_TYPES),
        "resource_name": binding.resource_name,
        "resource_pattern_type": to_protocol_number("pattern type", binding.pattern_type, PATTERN_TYPES),
        "principal": binding.principal,
        "host": binding.host,
        "operation": to_protocol_number("operation", binding.operation, ACL_OPERATIONS),
        "permission_type": to_protocol_number("permission", binding.permission, PERMISSION_TYPES),
    }


def _to_filter_fields(condition: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": to_protocol_number("resource type", condition.resource_type, RESOURCE_TYPES),
        "resource_name_filter": condition.resource_name,
        "pattern_type_filter": to_protocol_number("pattern type", condition.pattern_type, PATTERN_TYPES),
        "principal_filter": condition.principal,
        "host_filter": condition.host,
        "operation": to_protocol_number("operation", condition.operation, ACL_OPERATIONS),
        "permission_type": to_protocol_number("permission", condition.permission, PERMISSION_TYPES),
    }


def _to_binding(row: Any, resource: Any) -> AclBinding:
    return AclBinding(
        resource_type=to_protocol_name(resource.resource_type, RESOURCE_TYPES),
        resource_name=resource.resource_name,
        principal=row.principal,
        operation=to_protocol_name(row.operation, ACL_OPERATIONS),
        permission=to_protocol_name(row.permission_type, PERMISSION_TYPES),
        host=row.host,
        pattern_type=to_protocol_name(resource.pattern_type, PATTERN_TYPES),
    )
