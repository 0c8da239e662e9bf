"""Who may do what: the question that every handler asks, and the answer of a broker without an authorizer: all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from kafkaframes.broker.api import LEFT_OUT, Right
from kafkaframes.broker.request import Request, Session
from kafkaframes.errors import ErrorCode

# Kafka's AclOperation numbers; the operations of each kind of resource (AclEntry.supportedOperations).
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
OF_RESOURCE: Mapping[str, tuple[str, ...]] = {
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
CLUSTER_NAME: Final = "kafka-cluster"
_HIDDEN: Final = -1  # no error code: the part is left out


class Access(Protocol):
    """An authorizer, as handlers ask it."""

    @property
    def version(self) -> int:
        """Another number whenever an answer may be another."""

    def allows(self, session: Session, operation: str, resource: str, name: str) -> bool:
        """Return whether the client may do ``operation`` (``READ``) on a resource (``TOPIC``, its name)."""

    def may_write_idempotently(self, session: Session) -> bool:
        """Return whether the client may have a producer id: it may write idempotently, or to any topic at all."""

    def operations(self, session: Session, resource: str, name: str) -> int:
        """Return what the client may do, one bit for each operation's number."""


def bits_of(operations: tuple[str, ...]) -> int:
    """Return operations as bits.

    >>> bits_of(("READ", "WRITE"))
    24
    """
    return sum(1 << OPERATIONS[name] for name in operations)


class EverybodyMay:
    """No authorizer: everything is allowed, as in Kafka without ``authorizer.class.name``."""

    version = 0

    def allows(self, session: Session, operation: str, resource: str, name: str) -> bool:
        """Return True."""
        return True

    def may_write_idempotently(self, session: Session) -> bool:
        """Return True."""
        return True

    def operations(self, session: Session, resource: str, name: str) -> int:
        """Return all bits of the kind of resource."""
        return bits_of(OF_RESOURCE[resource])


class Viewer(NamedTuple):
    """Who a member of a group is, for the topics that a pattern shows it."""

    access: Access
    principal: str
    host: str

    @property
    def version(self) -> int:
        """Another number whenever rights may have changed."""
        return self.access.version

    def may_see(self, topic: str) -> bool:
        """Return whether the topic may be described to it."""
        session = Session(principal=self.principal, peer=f"{self.host}:0")
        return self.access.allows(session, "DESCRIBE", "TOPIC", topic)


def viewer_of(session: Session, access: Access) -> Viewer:
    """Return who a client is."""
    return Viewer(access, session.principal, session.peer.rpartition(":")[0])


def refused(request: Request, access: Access) -> int:
    """Return the error code of a request that the client may not send at all; 0 of any other."""
    for right in request.api.rights_at(request.version, whole=True):
        name = getattr(request.body, right.field) if right.field else CLUSTER_NAME
        if name is not None and not _has(request, access, right, name):
            return right.error
    return ErrorCode.NONE


def denied(request: Request, access: Access, resource: str, name: str, operation: str | None = None) -> int:
    """Return the error code of a part of a request, by the right that its API declares; 0 if the client has it.

    Args:
        resource, name: what the part is about.
        operation: where an API declares several rights for a resource.

    Raises:
        LookupError: the API declares no such right.
    """
    right = _declared(request, resource, operation)
    if _has(request, access, right, name):
        return ErrorCode.NONE
    return right.error if right.denied != LEFT_OUT else _HIDDEN


def may(request: Request, access: Access, resource: str, name: str, operation: str | None = None) -> bool:
    """Return whether the client has the right that the API declares for a part."""
    return denied(request, access, resource, name, operation) == ErrorCode.NONE


def all_denied(request: Request, access: Access, resource: str, names: Iterable[str]) -> int:
    """Return the error of parts that a client may have all or none of; 0 if it has the right to each."""
    return next((code for name in names if (code := denied(request, access, resource, name))), ErrorCode.NONE)


def _declared(request: Request, resource: str, operation: str | None) -> Right:
    for right in request.api.rights_at(request.version, whole=False):
        if right.resource == resource and operation in (None, right.operation):
            return right
    raise LookupError(f"{request.api.name} {request.version} declares no right to {operation or 'do'} a {resource}")


def _has(request: Request, access: Access, right: Right, name: str) -> bool:
    if not right.is_needed:
        return True
    if right.or_cluster and access.allows(request.session, right.or_cluster, "CLUSTER", CLUSTER_NAME):
        return True
    return access.allows(request.session, right.operation, right.resource, name)
