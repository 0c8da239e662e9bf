"""Who may do what: the question that every handler asks, and the answer of a broker without an authorizer: all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafkaframes.broker.request import Session

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
    "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE"),
}
CLUSTER_NAME = "kafka-cluster"


class Access(Protocol):
    """An authorizer, as handlers ask it."""

    def allows(self, session: Session, operation: str, resource: str, name: str) -> bool:
        """Return whether the client may do ``operation`` (``READ``) on a resource (``TOPIC``, its name)."""

    def may_create_topic(self, session: Session, name: str) -> bool:
        """Return whether the client may create a topic of this name."""

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

    def allows(self, session: Session, operation: str, resource: str, name: str) -> bool:
        """Return True."""
        return True

    def may_create_topic(self, session: Session, name: str) -> bool:
        """Return True."""
        return True

    def may_write_idempotently(self, session: Session) -> bool:
        """Return True."""
        return True

    def operations(self, session: Session, resource: str, name: str) -> int:
        """Return all bits of the kind of resource."""
        return bits_of(OF_RESOURCE[resource])
