"""Admin methods for SCRAM credentials (KIP-554) and client quotas (KIP-546)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from kafkaframes.client.administration.base import (
    AdminRequests,
    get_row_error,
    to_list,
    to_protocol_name,
    to_protocol_number,
)
from kafkaframes.client.response_rows import require_success
from kafkaframes.errors import BrokerError, OptionError

SCRAM_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASH_BY_MECHANISM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SALT_BYTES: Final = 32
DEFAULT_SCRAM_ITERATIONS: Final = 4096  # Kafka's minimum for both mechanisms


class ScramCredentialInfo(NamedTuple):
    """A user's SCRAM credential as brokers report it, without salt and hash.

    Attributes:
        mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        iterations: number of hash iterations.
    """

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A SCRAM credential to create or replace. Brokers store a salted hash, never the password.

    Attributes:
        user: user name, without ``User:``.
        password: password of the user. The password is not sent to brokers.
        mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        iterations: number of hash iterations. Brokers require 4,096 to 16,384.
        salt: salt of the hash; if it is empty, random bytes are used.
    """

    user: str
    password: str = field(repr=False)
    mechanism: str = "SCRAM-SHA-512"
    iterations: int = DEFAULT_SCRAM_ITERATIONS
    salt: bytes = field(default=b"", repr=False)


class QuotaMatch(Enum):
    """A placeholder for a name in a quota entity or in a quota filter."""

    DEFAULT = "<default>"  # the default entity: its quota applies to every name without its own quota
    ANY = "<any>"  # in filters: every name and the default entity


DEFAULT_ENTITY: Final = QuotaMatch.DEFAULT
"""Placeholder for the default entity: its quota applies to every name that has no quota of its own."""
ANY_ENTITY: Final = QuotaMatch.ANY
"""Placeholder that matches every name in the filter of ``describe_client_quotas``."""


class QuotaEntity(NamedTuple):
    """The clients that a quota applies to. ``DEFAULT_ENTITY`` in place of a name is the default for all names.

    Attributes:
        user: user name; None if the quota does not depend on the user.
        client_id: client id; None if the quota does not depend on the client id.
        ip: client address; None if the quota does not depend on the address. An entity with an address has neither
            ``user`` nor ``client_id``.
    """

    user: str | QuotaMatch | None = None
    client_id: str | QuotaMatch | None = None
    ip: str | QuotaMatch | None = None

    def __str__(self) -> str:
        """Return the entity as one phrase.

        >>> str(QuotaEntity("alice", DEFAULT_ENTITY))
        'user alice, client-id <default>'
        """
        names = {_ENTITY_TYPE_BY_FIELD[kind]: name for kind, name in self._asdict().items() if name is not None}
        return ", ".join(
            f"{kind} {name.value if isinstance(name, QuotaMatch) else name}" for kind, name in names.items()
        )


_ENTITY_TYPE_BY_FIELD: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}
_EXACT_MATCH: Final = 0  # match types of DescribeClientQuotas
_MATCH_TYPES: Final = {QuotaMatch.DEFAULT: 1, QuotaMatch.ANY: 2}


class UserMethods(AdminRequests):
    """Admin methods for SCRAM credentials and client quotas."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """Return the SCRAM credentials of users.

        Args:
            users: user names; None selects every user with a credential.

        Raises:
            BrokerError: a user has no credential (RESOURCE_NOT_FOUND), or the principal may not describe the cluster.
        """
        cls = self.settings.message_class("DescribeUserScramCredentialsRequest")
        names = None if users is None else to_list("users", users)
        if names == []:
            return {}  # brokers would return every user
        body = cls(users=None if names is None else [cls.UserName(name=name) for name in names])
        response = await self._send_to_any_broker(body, "SCRAM credentials")
        return require_success(
            {
                row.user: get_row_error(row, f"SCRAM credentials of {row.user!r}")
                or tuple(
                    ScramCredentialInfo(to_protocol_name(credential.mechanism, SCRAM_MECHANISMS), credential.iterations)
                    for credential in row.credential_infos
                )
                for row in response.results
            },
            names or (),
        )

    async def alter_user_scram_credentials(
        self, credentials: Iterable[ScramCredential] = (), *, delete: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Create, replace or delete SCRAM credentials.

        KRaft controllers accept only one change per user in a request. Set two mechanisms of a user in two calls.

        Args:
            credentials: credentials to create or replace.
            delete: (user, mechanism) pairs of credentials to delete.

        Raises:
            OptionError: a mechanism is unknown. If this error is raised, no credential is changed.
            BrokerError: a broker rejected the changes to a user, for example several changes to one user
                (DUPLICATE_RESOURCE).
        """
        cls = self.settings.message_class("AlterUserScramCredentialsRequest")
        body = cls(
            upsertions=[cls.ScramCredentialUpsertion(**_to_upsertion_fields(entry)) for entry in credentials],
            deletions=[
                cls.ScramCredentialDeletion(
                    name=user, mechanism=to_protocol_number("mechanism", mechanism, SCRAM_MECHANISMS)
                )
                for user, mechanism in delete
            ],
        )
        response = await self._send_to_controller(body, "SCRAM credentials", lambda response: response.results)
        require_success(
            {row.user: get_row_error(row, f"SCRAM credentials of {row.user!r}") for row in response.results},
            dict.fromkeys(row.name for row in [*body.upsertions, *body.deletions]),
        )

    async def describe_client_quotas(
        self,
        *,
        user: str | QuotaMatch | None = None,
        client_id: str | QuotaMatch | None = None,
        ip: str | QuotaMatch | None = None,
        strict: bool = False,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match a filter, by entity and setting (``producer_byte_rate``, ...).

        Args:
            user: user name, ``DEFAULT_ENTITY`` or ``ANY_ENTITY``; None does not filter by user.
            client_id: client id, ``DEFAULT_ENTITY`` or ``ANY_ENTITY``; None does not filter by client id.
            ip: client address, ``DEFAULT_ENTITY`` or ``ANY_ENTITY``; None does not filter by address.
            strict: whether entities are excluded if they have components that the filter does not name.

        Raises:
            BrokerError: the principal may not describe the cluster's configuration.
        """
        cls = self.settings.message_class("DescribeClientQuotasRequest")
        components = []
        for name, value in zip(_ENTITY_TYPE_BY_FIELD.values(), (user, client_id, ip), strict=True):
            if value is not None:
                match_type = _MATCH_TYPES[value] if isinstance(value, QuotaMatch) else _EXACT_MATCH
                match = value if match_type == _EXACT_MATCH else None
                components.append(cls.ComponentData(entity_type=name, match_type=match_type, match=match))
        response = await self._send_to_any_broker(cls(components=components, strict=strict), "client quotas")
        return {
            _to_quota_entity(entry.entity): {value.key: value.value for value in entry.values}
            for entry in response.entries or ()
        }

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set or remove client quotas.

        Args:
            changes: new quotas by entity and setting (``producer_byte_rate``, ``consumer_byte_rate``,
                ``request_percentage``, ``controller_mutation_rate``, ``connection_creation_rate``). None removes a
                quota.
            validate_only: check the changes without applying them.

        Raises:
            OptionError: an entity is empty or has ``ANY_ENTITY``. If this error is raised, no quota is changed.
            BrokerError: a broker rejected the changes to an entity.
        """
        cls = self.settings.message_class("AlterClientQuotasRequest")
        entries = [
            cls.EntryData(
                entity=[cls.EntityData(**row) for row in _to_entity_rows(entity)],
                ops=[
                    cls.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in settings.items()
                ],
            )
            for entity, settings in changes.items()
        ]
        body = cls(entries=entries, validate_only=validate_only)
        response = await self._send_to_controller(body, "client quotas", lambda response: response.entries)
        results: dict[QuotaEntity, BrokerError | None] = {}
        for row in response.entries:
            entity = _to_quota_entity(row.entity)
            results[entity] = get_row_error(row, f"quotas of {entity}")
        require_success(results, changes)


def _to_upsertion_fields(credential: ScramCredential) -> dict[str, Any]:
    mechanism = to_protocol_number("mechanism", credential.mechanism, SCRAM_MECHANISMS)
    salt = credential.salt or secrets.token_bytes(_SALT_BYTES)
    if not isinstance(credential.password, str):
        raise OptionError(f"password of user {credential.user!r} is not text; decode bytes first")
    if credential.iterations < 1:
        raise OptionError(f"iterations {credential.iterations} is not positive; brokers require at least 4096")
    password = hashlib.pbkdf2_hmac(
        _HASH_BY_MECHANISM[credential.mechanism], credential.password.encode(), salt, credential.iterations
    )
    return {
        "name": credential.user,
        "mechanism": mechanism,
        "iterations": credential.iterations,
        "salt": salt,
        "salted_password": password,
    }


def _to_entity_rows(entity: QuotaEntity) -> list[dict[str, Any]]:
    rows = []
    for name, value in zip(_ENTITY_TYPE_BY_FIELD.values(), entity, strict=True):
        if value is QuotaMatch.ANY:
            raise OptionError(f"{name}: ANY_ENTITY is only valid in filters; specify one name, or DEFAULT_ENTITY")
        if value is not None:
            rows.append({"entity_type": name, "entity_name": None if value is QuotaMatch.DEFAULT else value})
    if not rows:
        raise OptionError("a quota entity needs a user, a client id or an ip")
    return rows


def _to_quota_entity(rows: Iterable[Any]) -> QuotaEntity:
    names = {row.entity_type: DEFAULT_ENTITY if row.entity_name is None else row.entity_name for row in rows}
    return QuotaEntity(*(names.get(name) for name in _ENTITY_TYPE_BY_FIELD.values()))
