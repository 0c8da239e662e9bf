"""Access control lists: describe, create, delete (KIP-140, KIP-290); the operations that a principal may execute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kafkaframes.client.administration.base import (
    OPERATIONS_NOT_REQUESTED,
    AdminRequests,
    error_of,
    name_of,
    number_of,
    require_success,
)
from kafkaframes.errors import BrokerError, OptionError

RESOURCE_TYPES: Final = {
    "any": 1, "topic": 2, "group": 3, "cluster": 4, "transactional_id": 5, "delegation_token": 6, "user": 7,
}  # fmt: skip
PATTERN_TYPES: Final = {"any": 1, "match": 2, "literal": 3, "prefixed": 4}
OPERATIONS: Final = {
    "any": 1, "all": 2, "read": 3, "write": 4, "create": 5, "delete": 6, "alter": 7, "describe": 8,
    "cluster_action": 9, "describe_configs": 10, "alter_configs": 11, "idempotent_write": 12, "create_tokens": 13,
    "describe_tokens": 14, "two_phase_commit": 15,
}  # fmt: skip
PERMISSIONS: Final = {"any": 1, "deny": 2, "allow": 3}
CLUSTER_NAME: Final = "kafka-cluster"  # the name of the only resource of type cluster


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An access rule: who may or may not execute an operation on which resources.

    Attributes:
        resource_type: ``topic``, ``group``, ``cluster``, ``transactional_id``, ``delegation_token`` or ``user``.
        resource_name: name, or prefix of names; ``*`` is every resource of the type. ``kafka-cluster`` for ``cluster``.
        principal: such as ``User:alice``; ``User:*`` is everyone.
        operation: ``read``, ``write``, ``create``, ``all``, ...: a key of ``OPERATIONS``.
        permission: ``allow`` or ``deny``.
        host: address that the principal connects from; ``*`` is every address.
        pattern_type: ``literal`` or ``prefixed``.
    """

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission: str = "allow"
    host: str = "*"
    pattern_type: str = "literal"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A condition on access rules; None and ``any`` match everything.

    Attributes:
        pattern_type: ``literal``, ``prefixed``, ``any``, or ``match``: the rules of any pattern type that apply to the
            resource ``resource_name``.
    """

    resource_type: str = "any"
    resource_name: str | None = None
    principal: str | None = None
    operation: str = "any"
    permission: str = "any"
    host: str | None = None
    pattern_type: str = "any"


class AclMethods(AdminRequests):
    """Methods on access rules."""

    async def describe_acls(self, condition: AclFilter = AclFilter()) -> list[AclBinding]:
        """Return the access rules that match a condition.

        Raises:
            OptionError: the condition has an unknown type, operation or permission.
            BrokerError: the principal may not describe the cluster; brokers have no authorizer (SECURITY_DISABLED).
        """
        body = self.settings.message("DescribeAclsRequest")(**_filter_fields(condition))
        answer = await self._ask_any(body, "access rules")
        bindings = [_binding(row, resource) for resource in answer.resources for row in resource.acls]
        return sorted(
            bindings, key=lambda entry: (entry.resource_type, entry.resource_name, entry.principal, entry.operation)
        )

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Create access rules; a rule that exists already is not an error.

        Raises:
            OptionError: a rule has an unknown type, operation or permission. Nothing was created.
            BrokerError: a broker rejected a rule: a ``PartialFailureError`` if there are several.
        """
        requested = list(dict.fromkeys(bindings))
        cls = self.settings.message("CreateAclsRequest")
        body = cls(creations=[cls.AclCreation(**_creation_fields(binding)) for binding in requested])
        answer = await self._ask_controller(body, "access rules", lambda answer: answer.results)
        require_success(
            {
                binding: error_of(row, f"access rule {binding}")
                for binding, row in zip(requested, answer.results, strict=True)
            }
        )

    async def delete_acls(self, conditions: Iterable[AclFilter]) -> dict[AclFilter, list[AclBinding]]:
        """Delete the access rules that match conditions; return for each condition the rules that it deleted.

        Raises:
            OptionError: a condition has an unknown type, operation or permission. Nothing was deleted.
            BrokerError: a broker rejected a condition, or could not delete a rule.
        """
        requested = list(dict.fromkeys(conditions))
        cls = self.settings.message("DeleteAclsRequest")
        body = cls(filters=[cls.DeleteAclsFilter(**_filter_fields(condition)) for condition in requested])
        answer = await self._ask_controller(body, "access rules", lambda answer: answer.filter_results)
        results: dict[AclFilter, list[AclBinding] | BrokerError] = {}
        for condition, row in zip(requested, answer.filter_results, strict=True):
            errors = [error_of(row, f"access rules of {condition}")]
            errors += [error_of(match, f"access rule {_binding(match, match)}") for match in row.matching_acls]
            first = next((error for error in errors if error is not None), None)
            results[condition] = first or [_binding(match, match) for match in row.matching_acls]
        return require_success(results)

    async def authorized_operations(self, resource_type: str, name: str = CLUSTER_NAME) -> frozenset[str]:
        """Return the operations that this client's principal may execute (KIP-430).

        Args:
            resource_type: ``cluster``, ``topic`` or ``group``.
            name: name of the topic or group.

        Raises:
            OptionError: another resource type.
            BrokerError: the resource does not exist, or the principal may not describe it.
        """
        if resource_type == "cluster":
            body = self.settings.message("DescribeClusterRequest")(include_cluster_authorized_operations=True)
            return _operations((await self._ask_any(body, "cluster")).cluster_authorized_operations)
        if resource_type == "topic":
            cls = self.settings.message("MetadataRequest")
            body = cls(topics=[cls.MetadataRequestTopic(name=name)], include_topic_authorized_operations=True)
            body.allow_auto_topic_creation = False
            (row,) = (await self._ask_any(body, f"topic {name}")).topics
        elif resource_type == "group":
            cls = self.settings.message("DescribeGroupsRequest")
            body = cls(groups=[name], include_authorized_operations=True)
            answer = await self._ask_coordinator(
                name, body, f"group {name}", lambda entry: int(entry.groups[0].error_code)
            )
            (row,) = answer.groups
        else:
            raise OptionError(f"resource type {resource_type!r} has no operations; expected cluster, topic or group")
        if (error := error_of(row, f"{resource_type} {name}")) is not None:
            raise error
        return _operations(row.topic_authorized_operations if resource_type == "topic" else row.authorized_operations)


def _operations(bits: int) -> frozenset[str]:
    """Return the operations of a bit field: bit 3 is operation 3, read."""
    if bits == OPERATIONS_NOT_REQUESTED:
        return frozenset()
    return frozenset(name for name, number in OPERATIONS.items() if bits >> number & 1)


def _creation_fields(binding: AclBinding) -> dict[str, Any]:
    for setting, value in (("resource type", binding.resource_type), ("pattern type", binding.pattern_type)):
        if value in ("any", "match"):
            raise OptionError(f"{setting} {value!r} is for filters; an access rule names one {setting}")
    if "any" in (binding.operation, binding.permission):
        raise OptionError("'any' is for filters; an access rule names one operation and one permission")
    return {
        "resource_type": number_of("resource type", binding.resource_type, RESOURCE_TYPES),
        "resource_name": binding.resource_name,
        "resource_pattern_type": number_of("pattern type", binding.pattern_type, PATTERN_TYPES),
        "principal": binding.principal,
        "host": binding.host,
        "operation": number_of("operation", binding.operation, OPERATIONS),
        "permission_type": number_of("permission", binding.permission, PERMISSIONS),
    }


def _filter_fields(condition: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": number_of("resource type", condition.resource_type, RESOURCE_TYPES),
        "resource_name_filter": condition.resource_name,
        "pattern_type_filter": number_of("pattern type", condition.pattern_type, PATTERN_TYPES),
        "principal_filter": condition.principal,
        "host_filter": condition.host,
        "operation": number_of("operation", condition.operation, OPERATIONS),
        "permission_type": number_of("permission", condition.permission, PERMISSIONS),
    }


def _binding(row: Any, resource: Any) -> AclBinding:
    return AclBinding(
        resource_type=name_of(resource.resource_type, RESOURCE_TYPES),
        resource_name=resource.resource_name,
        principal=row.principal,
        operation=name_of(row.operation, OPERATIONS),
        permission=name_of(row.permission_type, PERMISSIONS),
        host=row.host,
        pattern_type=name_of(resource.pattern_type, PATTERN_TYPES),
    )
