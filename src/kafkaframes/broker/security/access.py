"""``Authorizer``, the interface of an authorizer, and the checks of the permissions that APIs declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from kafkaframes.broker.requests.api import OMIT_FROM_RESPONSE, RequiredPermission
from kafkaframes.broker.requests.request import Request, Session
from kafkaframes.errors import ErrorCode

# Kafka's AclOperation numbers, and the operations of each resource type (AclEntry.supportedOperations).
OPERATIONS: Mapping[str, int] = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13,
    "DESCRIBE_TOKENS": 14,
    "TWO_PHASE_COMMIT": 15,
}
OPERATIONS_BY_RESOURCE_TYPE: Mapping[str, tuple[str, ...]] = {
    "TOPIC": ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "GROUP": ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "CLUSTER": (
        "CREATE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ),
    "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE", "TWO_PHASE_COMMIT"),
    "DELEGATION_TOKEN": ("DESCRIBE",),
    "USER": ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}
CLUSTER_RESOURCE_NAME: Final = "kafka-cluster"
_OMIT_RESPONSE_PART: Final = -1  # used instead of an error code if the response omits the topic or group


class Authorizer(Protocol):
    """The interface of an authorizer."""

    @property
    def version(self) -> int:
        """A number that changes whenever permissions may have changed."""

    def allows(self, session: Session, operation: str, resource: str, name: str) -> bool:
        """Return whether the client may execute an operation (``READ``) on a resource (type ``TOPIC`` and name)."""

    def may_write_idempotently(self, session: Session) -> bool:
        """Return whether the client may get a producer id: IDEMPOTENT_WRITE, or WRITE to any topic."""

    def allowed_operations(self, session: Session, resource: str, name: str) -> int:
        """Return the client's permitted operations as a bit field with Kafka's operation codes as bit numbers."""


def operation_bits(operations: tuple[str, ...]) -> int:
    """Return operations as a bit field.

    >>> operation_bits(("READ", "WRITE"))
    24
    """
    return sum(1 << OPERATIONS[name] for name in operations)


class AllowAllAuthorizer:
    """An authorizer that allows everything, like Kafka without ``authorizer.class.name``."""

    version = 0

    def allows(self, session: Session, operation: str, resource: str, name: str) -> bool:
        """Return True: every operation is allowed."""
        return True

    def may_write_idempotently(self, session: Session) -> bool:
        """Return True: every client may get a producer id."""
        return True

    def allowed_operations(self, session: Session, resource: str, name: str) -> int:
        """Return all operations of the resource type."""
        return operation_bits(OPERATIONS_BY_RESOURCE_TYPE[resource])


class MemberIdentity(NamedTuple):
    """A group member's identity, to check which topics its subscription pattern may match."""

    access: Authorizer
    principal: str
    host: str

    @property
    def version(self) -> int:
        """A number that changes whenever permissions may have changed."""
        return self.access.version

    def may_see(self, topic: str) -> bool:
        """Return whether the member may describe the topic."""
        session = Session(principal=self.principal, peer=f"{self.host}:0")
        return self.access.allows(session, "DESCRIBE", "TOPIC", topic)


def create_member_identity(session: Session, access: Authorizer) -> MemberIdentity:
    """Return the identity of a client."""
    return MemberIdentity(access, session.principal, session.peer.rpartition(":")[0])


def check_access(request: Request, access: Authorizer) -> int:
    """Return the error code if the client lacks a permission for the whole request, else 0."""
    for right in request.api.list_permissions(request.version, whole=True):
        name = getattr(request.body, right.field) if right.field else CLUSTER_RESOURCE_NAME
        if name is not None and not _is_granted(request, access, right, name):
            return right.error
    return ErrorCode.NONE


def check_denied(request: Request, access: Authorizer, resource: str, name: str, operation: str | None = None) -> int:
    """Return the error code if the client lacks the declared permission for a part of the request, else 0.

    Args:
        resource, name: type and name of the part's resource.
        operation: operation to check, if the API declares several permissions for a resource type.

    Raises:
        LookupError: the API does not declare this permission.
    """
    right = _find_permission(request, resource, operation)
    if _is_granted(request, access, right, name):
        return ErrorCode.NONE
    return right.error if right.denied != OMIT_FROM_RESPONSE else _OMIT_RESPONSE_PART


def is_allowed(request: Request, access: Authorizer, resource: str, name: str, operation: str | None = None) -> bool:
    """Return whether the client has the declared permission for a part of the request."""
    return check_denied(request, access, resource, name, operation) == ErrorCode.NONE


def find_first_denied_code(request: Request, access: Authorizer, resource: str, names: Iterable[str]) -> int:
    """Return the first error code of several parts, if the client lacks a permission for one of them, else 0."""
    return next((code for name in names if (code := check_denied(request, access, resource, name))), ErrorCode.NONE)


def _find_permission(request: Request, resource: str, operation: str | None) -> RequiredPermission:
    """Return the permission that an API declares for a resource type and operation."""
    for right in request.api.list_permissions(request.version, whole=False):
        if right.resource == resource and operation in (None, right.operation):
            return right
    raise LookupError(f"{request.api.name} {request.version} does not declare the permission {operation} on {resource}")


def _is_granted(request: Request, access: Authorizer, right: RequiredPermission, name: str) -> bool:
    """Return whether the client has a permission on the resource with this name."""
    if not right.is_needed:
        return True
    if right.or_cluster and access.allows(request.session, right.or_cluster, "CLUSTER", CLUSTER_RESOURCE_NAME):
        return True
    return access.allows(request.session, right.operation, right.resource, name)
