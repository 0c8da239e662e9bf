"""``AclAuthorizer``, an authorizer with ACLs, like Kafka's StandardAuthorizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from kafkaframes.broker.requests.api import CloseConnection
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.security.access import CLUSTER_RESOURCE_NAME, OPERATIONS, OPERATIONS_BY_RESOURCE_TYPE

ANY, ALL = 1, 2
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3
WILDCARD_NAME = "*"
_ANY_TOPIC_NAME = "hardcode"  # the topic name with which Kafka checks for permissions on all topics
RESOURCE_TYPES = {"TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5, "DELEGATION_TOKEN": 6, "USER": 7}
_DESCRIBE, _DESCRIBE_CONFIGS = OPERATIONS["DESCRIBE"], OPERATIONS["DESCRIBE_CONFIGS"]
# Operation -> the operations that imply it (AclEntry, StandardAuthorizerData).
_IMPLYING_OPERATIONS = {
    _DESCRIBE: {OPERATIONS[name] for name in ("READ", "WRITE", "DELETE", "ALTER")},
    _DESCRIBE_CONFIGS: {OPERATIONS["ALTER_CONFIGS"]},
}

_Pattern = tuple[int, bool, str]  # resource type, whether the pattern is prefixed, resource name


class Acl(NamedTuple):
    """An ACL, with Kafka's numbers for types, operation and permission."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def matches_resource(self, resource_type: int, name: str) -> bool:
        """Return whether the ACL's pattern matches a resource."""
        if self.resource_type != resource_type:
            return False
        if self.pattern_type == PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD_NAME)

    def covers(self, other: Acl) -> bool:
        """Return whether this pattern matches every name that the other ACL's pattern matches."""
        if self.pattern_type == LITERAL and self.resource_name != WILDCARD_NAME:
            return other.pattern_type == LITERAL and other.resource_name == self.resource_name
        return self.pattern_type == LITERAL or other.resource_name.startswith(self.resource_name)

    def applies_to(self, principal: str, host: str) -> bool:
        """Return whether the ACL applies to a client."""
        return self.principal in (principal, "User:*") and self.host in (host, WILDCARD_NAME)


class AclFilter(NamedTuple):
    """A filter for ACLs. None and ANY (1) match every value."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter matches an ACL."""
        if self.principal not in (None, acl.principal) or self.host not in (None, acl.host):
            return False
        numbers = (
            (self.resource_type, acl.resource_type),
            (self.operation, acl.operation),
            (self.permission, acl.permission),
        )
        return all(
            expected_value in (ANY, actual_value) for expected_value, actual_value in numbers
        ) and self._matches_name(acl)

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type == MATCH:
            return self.resource_name is None or acl.matches_resource(acl.resource_type, self.resource_name)
        return self.pattern_type in (ANY, acl.pattern_type) and self.resource_name in (None, acl.resource_name)


class AclAuthorizer:
    """An authorizer with ACLs.

    Args:
        acls: initial ACLs.
        super_users: principals that may execute every operation.
        allows_unruled: whether operations on resources without ACLs are allowed
            (``allow.everyone.if.no.acl.found``).
    """

    def __init__(
        self, acls: Iterable[Acl] = (), *, super_users: Iterable[str] = (), allows_unruled: bool = False
    ) -> None:
        self._acls: dict[Acl, None] = {}
        self._by_pattern: dict[_Pattern, dict[Acl, None]] = {}
        self._prefix_lengths: Counter[int] = Counter()  # length of a prefix -> number of prefixed patterns
        self._super_users = frozenset(super_users)
        self._allows_unruled = allows_unruled
        self.version = 0
        for acl in acls:
            self.add(acl)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    @property
    def rule_count(self) -> int:
        """The number of ACLs.

        The class does not define ``__len__``, because an authorizer without ACLs would then be falsy.
        """
        return len(self._acls)

    def add(self, acl: Acl) -> None:
        """Add an ACL, unless it exists."""
        pattern = _pattern(acl)
        if pattern not in self._by_pattern and acl.pattern_type == PREFIXED:
            self._prefix_lengths[len(acl.resource_name)] += 1
        self._by_pattern.setdefault(pattern, {})[acl] = self._acls[acl] = None
        self.version += 1

    def remove(self, acl_filter: AclFilter) -> list[Acl]:
        """Remove the ACLs that match a filter; return them."""
        removed_acls = [acl for acl in self._acls if acl_filter.matches(acl)]
        for acl in removed_acls:
            self._remove_acl(acl)
        self.version += 1
        return removed_acls

    def _remove_acl(self, acl: Acl) -> None:
        pattern = _pattern(acl)
        del self._acls[acl], self._by_pattern[pattern][acl]
        if self._by_pattern[pattern]:
            return
        del self._by_pattern[pattern]
        if acl.pattern_type == PREFIXED:
            length = len(acl.resource_name)
            self._prefix_lengths[length] -= 1
            if not self._prefix_lengths[length]:
                del self._prefix_lengths[length]

    def _find_matching_acls(self, kind: int, name: str) -> list[Acl]:
        """Return the ACLs of a resource: by its name, by the wildcard, and by each prefix of its name."""
        prefixes = [(kind, True, name[:length]) for length in self._prefix_lengths if length <= len(name)]
        patterns = [(kind, False, name), (kind, False, WILDCARD_NAME), *prefixes]
        return [acl for pattern in patterns for acl in self._by_pattern.get(pattern, ())]

    def allows(self, session: Session, operation: str, resource: str, name: str) -> bool:
        """Return whether the client may execute an operation: an ACL allows it, and none denies it."""
        if (self._allows_unruled and not self._acls) or session.principal in self._super_users:
            return True
        kind, number = RESOURCE_TYPES[resource], OPERATIONS[operation]
        resource_acls = self._find_matching_acls(kind, name)
        if not resource_acls:
            return self._allows_unruled
        host = session.peer.rpartition(":")[0]
        applicable_acls = [acl for acl in resource_acls if acl.applies_to(session.principal, host)]
        if any(acl.permission == DENY and acl.operation in (ALL, number) for acl in applicable_acls):
            return False
        sufficient_operations = {ALL, number} | _IMPLYING_OPERATIONS.get(number, set())
        return any(acl.permission == ALLOW and acl.operation in sufficient_operations for acl in applicable_acls)

    def may_write_idempotently(self, session: Session) -> bool:
        """Return whether the client may get a producer id: IDEMPOTENT_WRITE, or WRITE to any topic (KIP-679).

        WRITE to a topic is sufficient if an ACL allows a topic pattern, and no ACL denies a pattern that includes it.
        """
        if self.allows(session, "IDEMPOTENT_WRITE", "CLUSTER", CLUSTER_RESOURCE_NAME):
            return True
        if self.allows(session, "WRITE", "TOPIC", _ANY_TOPIC_NAME):
            return True
        host, kind = session.peer.rpartition(":")[0], RESOURCE_TYPES["TOPIC"]
        applicable_acls = [
            acl for acl in self._acls if acl.resource_type == kind and acl.applies_to(session.principal, host)
        ]
        write_acls = [acl for acl in applicable_acls if acl.operation in (ALL, OPERATIONS["WRITE"])]
        denying_acls = [acl for acl in write_acls if acl.permission == DENY]
        return any(
            acl.permission == ALLOW and not any(denying_acl.covers(acl) for denying_acl in denying_acls)
            for acl in write_acls
        )

    def allowed_operations(self, session: Session, resource: str, name: str) -> int:
        """Return the client's permitted operations as a bit field; 0 if the client may not describe the resource."""
        if not self.allows(session, "DESCRIBE", resource, name):
            return 0
        allowed_operations = (
            operation
            for operation in OPERATIONS_BY_RESOURCE_TYPE[resource]
            if self.allows(session, operation, resource, name)
        )
        return sum(1 << OPERATIONS[operation] for operation in allowed_operations)


def _pattern(acl: Acl) -> _Pattern:
    return acl.resource_type, acl.pattern_type == PREFIXED, acl.resource_name


_ACL_FIELDS = attrgetter(
    *("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
)
_FILTER_FIELDS = attrgetter(
    *("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter"),
    *("operation", "permission_type"),
)


def build_acl(row: Any) -> Acl:
    """Return the ACL of a CreateAcls row."""
    return Acl(*_ACL_FIELDS(row))


def build_acl_filter(row: Any) -> AclFilter:
    """Return the filter of a DescribeAcls request or DeleteAcls row."""
    return AclFilter(*_FILTER_FIELDS(row))


def check_acl_rows(rows: Iterable[Acl | AclFilter]) -> None:
    """Close the connection if a type, operation or permission is UNKNOWN (0): Kafka cannot decode such a request."""
    for row in rows:
        if 0 in (row.resource_type, row.pattern_type, row.operation, row.permission):
            raise CloseConnection("an ACL or filter has an unknown type, operation or permission")


def find_acl_error(acl: Acl) -> str | None:
    """Return why a new ACL is invalid; None if it is valid."""
    if acl.resource_type not in RESOURCE_TYPES.values():
        return f"unknown resource type {acl.resource_type}"
    if acl.pattern_type not in (LITERAL, PREFIXED):
        return f"pattern type {acl.pattern_type} is invalid; expected LITERAL or PREFIXED"
    if acl.permission not in (DENY, ALLOW):
        return f"permission type {acl.permission} is invalid; expected ALLOW or DENY"
    if acl.operation != ALL and acl.operation not in OPERATIONS.values():
        return f"unknown operation {acl.operation}"
    if ":" not in acl.principal:
        return f"principal {acl.principal!r} is invalid; expected Type:name"
    if not acl.resource_name:
        return "the resource has no name"
    if acl.resource_type == RESOURCE_TYPES["CLUSTER"] and acl.resource_name != CLUSTER_RESOURCE_NAME:
        return f"the resource name of the cluster must be {CLUSTER_RESOURCE_NAME}"
    return None
