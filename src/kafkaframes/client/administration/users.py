"""SCRAM credentials of users (KIP-554) and client quotas (KIP-546)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from kafkaframes.client.administration.base import AdminRequests, error_of, name_of, number_of, require_success
from kafkaframes.errors import BrokerError, ErrorCode, OptionError

MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SALT_BYTES: Final = 32
DEFAULT_ITERATIONS: Final = 4096  # Kafka's least for both mechanisms


class ScramCredentialInfo(NamedTuple):
    """What brokers tell of a user's SCRAM credential: its mechanism and its number of iterations."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A SCRAM credential to create or replace. Brokers store a salted hash, never the password.

    Attributes:
        user: name of the user, without ``User:``.
        password: text that the user logs in with; it does not leave this process.
        mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        iterations: rounds of the hash; brokers require 4,096 to 16,384.
        salt: random bytes if empty.
    """

    user: str
    password: str = field(repr=False)
    mechanism: str = "SCRAM-SHA-512"
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes = field(default=b"", repr=False)


class QuotaMatch(Enum):
    """What stands for a name in a quota's entity or in a condition on quotas."""

    DEFAULT = "<default>"  # the entity that applies to every name without a quota of its own
    ANY = "<any>"  # in conditions: every name, and the default


DEFAULT_ENTITY: Final = QuotaMatch.DEFAULT
ANY_ENTITY: Final = QuotaMatch.ANY


class QuotaEntity(NamedTuple):
    """Whom a quota limits; ``DEFAULT_ENTITY`` in place of a name is the default for all names.

    Attributes:
        user, client_id, ip: None if the quota does not depend on it. ``ip`` stands alone.
    """

    user: str | QuotaMatch | None = None
    client_id: str | QuotaMatch | None = None
    ip: str | QuotaMatch | None = None


_ENTITY_TYPES: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}
_EXACT: Final = 0  # match types of DescribeClientQuotas
_MATCH_TYPES: Final = {QuotaMatch.DEFAULT: 1, QuotaMatch.ANY: 2}


class UserMethods(AdminRequests):
    """Methods on SCRAM credentials and quotas."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """Return the SCRAM credentials of users.

        Args:
            users: names; None is every user that has a credential.

        Raises:
            BrokerError: a user has no credential (RESOURCE_NOT_FOUND), or the principal may not describe the cluster.
        """
        cls = self.settings.message("DescribeUserScramCredentialsRequest")
        body = cls(users=None if users is None else [cls.UserName(name=name) for name in users])
        answer = await self._ask_any(body, "SCRAM credentials")
        return require_success(
            {
                row.user: error_of(row, f"SCRAM credentials of {row.user!r}")
                or tuple(
                    ScramCredentialInfo(name_of(info.mechanism, MECHANISMS), info.iterations)
                    for info in row.credential_infos
                )
                for row in answer.results
            }
        )

    async def alter_user_scram_credentials(
        self, credentials: Iterable[ScramCredential] = (), *, delete: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Create, replace or delete SCRAM credentials. The changes of one user succeed or fail together.

        Args:
            credentials: credentials to create or replace.
            delete: pairs of a user and a mechanism.

        Raises:
            OptionError: an unknown mechanism. Nothing was changed.
            BrokerError: a broker rejected the change of a user.
        """
        cls = self.settings.message("AlterUserScramCredentialsRequest")
        body = cls(
            upsertions=[cls.ScramCredentialUpsertion(**_upsertion_fields(entry)) for entry in credentials],
            deletions=[
                cls.ScramCredentialDeletion(name=user, mechanism=number_of("mechanism", mechanism, MECHANISMS))
                for user, mechanism in delete
            ],
        )
        answer = await self._ask_controller(body, "SCRAM credentials", lambda answer: answer.results)
        require_success({row.user: error_of(row, f"SCRAM credentials of {row.user!r}") for row in answer.results})

    async def describe_client_quotas(
        self,
        *,
        user: str | QuotaMatch | None = None,
        client_id: str | QuotaMatch | None = None,
        ip: str | QuotaMatch | None = None,
        strict: bool = False,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match a condition, by setting (``producer_byte_rate``, ...).

        Args:
            user, client_id, ip: a name, ``DEFAULT_ENTITY`` or ``ANY_ENTITY``; None sets no condition.
            strict: return only entities without other components than those in the condition.

        Raises:
            BrokerError: the principal may not describe the cluster's configuration.
        """
        cls = self.settings.message("DescribeClientQuotasRequest")
        components = []
        for name, value in zip(_ENTITY_TYPES.values(), (user, client_id, ip), strict=True):
            if value is not None:
                kind = _MATCH_TYPES[value] if isinstance(value, QuotaMatch) else _EXACT
                match = value if kind == _EXACT else None
                components.append(cls.ComponentData(entity_type=name, match_type=kind, match=match))
        answer = await self._ask_any(cls(components=components, strict=strict), "client quotas")
        return {
            _entity(entry.entity): {value.key: value.value for value in entry.values} for entry in answer.entries or ()
        }

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set or remove quotas.

        Args:
            changes: for each entity the settings to set (``producer_byte_rate``, ``consumer_byte_rate``,
                ``request_percentage``, ``controller_mutation_rate``, ``connection_creation_rate``); None removes one.
            validate_only: check the changes without applying them.

        Raises:
            OptionError: an entity without components, or with ``ANY_ENTITY``. Nothing was changed.
            BrokerError: a broker rejected the changes of an entity.
        """
        cls = self.settings.message("AlterClientQuotasRequest")
        entries = [
            cls.EntryData(
                entity=[cls.EntityData(**row) for row in _entity_rows(entity)],
                ops=[
                    cls.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in settings.items()
                ],
            )
            for entity, settings in changes.items()
        ]
        body = cls(entries=entries, validate_only=validate_only)
        answer = await self._ask_controller(body, "client quotas", lambda answer: answer.entries)
        results: dict[QuotaEntity, BrokerError | None] = {}
        for row in answer.entries:
            entity = _entity(row.entity)
            results[entity] = error_of(row, f"quotas of {entity}")
        for entity in changes.keys() - results.keys():
            results[entity] = BrokerError(f"quotas of {entity}: the response has no row for them", ErrorCode.NONE)
        require_success(results)


def _upsertion_fields(credential: ScramCredential) -> dict[str, Any]:
    mechanism = number_of("mechanism", credential.mechanism, MECHANISMS)
    salt = credential.salt or secrets.token_bytes(_SALT_BYTES)
    if credential.iterations < 1:
        raise OptionError(f"iterations {credential.iterations} is not positive; brokers require at least 4096")
    password = hashlib.pbkdf2_hmac(
        _HASHES[credential.mechanism], credential.password.encode(), salt, credential.iterations
    )
    return {
        "name": credential.user,
        "mechanism": mechanism,
        "iterations": credential.iterations,
        "salt": salt,
        "salted_password": password,
    }


def _entity_rows(entity: QuotaEntity) -> list[dict[str, Any]]:
    rows = []
    for name, value in zip(_ENTITY_TYPES.values(), entity, strict=True):
        if value is QuotaMatch.ANY:
            raise OptionError(f"{name}: ANY_ENTITY is for conditions; name one entity, or use DEFAULT_ENTITY")
        if value is not None:
            rows.append({"entity_type": name, "entity_name": None if value is QuotaMatch.DEFAULT else value})
    if not rows:
        raise OptionError("a quota's entity needs a user, a client id or an ip")
    return rows


def _entity(rows: Iterable[Any]) -> QuotaEntity:
    names = {row.entity_type: DEFAULT_ENTITY if row.entity_name is None else row.entity_name for row in rows}
    return QuotaEntity(*(names.get(name) for name in _ENTITY_TYPES.values()))
