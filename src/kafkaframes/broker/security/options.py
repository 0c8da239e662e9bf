"""What secures a broker's listener, as its maker says it."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkaframes.broker.access import Access, EverybodyMay
from kafkaframes.broker.security.acls import Acl, AclAccess
from kafkaframes.broker.security.kerberos import Kerberos
from kafkaframes.broker.security.mechanisms import (
    GSSAPI,
    MECHANISMS,
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    CheckToken,
    Credentials,
)
from kafkaframes.broker.settings import BrokerSettings
from kafkaframes.errors import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """SASL, TLS and access rules of a broker.

    Attributes:
        users: passwords by user; with any, clients authenticate by SASL (PLAIN, and SCRAM with the same passwords).
        mechanisms: that are offered: those with passwords by default.
        needs_sasl: clients authenticate; True by itself where there are users.
        check_token: for OAUTHBEARER, which needs it: a token and the time in milliseconds to a user, or an
            ``AuthenticationError``. ``jwks.SignedTokens`` verifies signatures; ``tokens.unsecured_token`` takes what
            anybody can write, for tests.
        kerberos: for GSSAPI, which needs it: the keytab, and rules from principals to users.
        tls: a server's ``ssl.SSLContext``, see ``security.tls.server_context``.
        authorizer: refuse what no rule allows; by default what no rule is about is allowed. A setting
            ``authorizer.class.name`` means the same; empty, it switches rules off: SECURITY_DISABLED.
        acls: the rules to begin with.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanisms: tuple[str, ...] = PASSWORD_MECHANISMS
    needs_sasl: bool = False
    check_token: CheckToken | None = field(default=None, repr=False)
    kerberos: Kerberos | None = None
    tls: ssl.SSLContext | None = None
    authorizer: bool = False
    acls: Iterable[Acl] = ()

    def __post_init__(self) -> None:
        unknown = [name for name in self.mechanisms if name not in MECHANISMS]
        if unknown:
            raise OptionError(f"no SASL mechanism {', '.join(unknown)}; there are {', '.join(MECHANISMS)}")
        if (OAUTHBEARER in self.mechanisms) != (self.check_token is not None):
            raise OptionError(
                "OAUTHBEARER among the mechanisms and a check of its tokens go together: of signed ones by "
                "sasl.oauthbearer.jwks.endpoint.url, of unsecured ones, which anybody can write, by "
                "kafkaframes.sasl.oauthbearer.allow.unsecured=true; in Python by check_token"
            )
        if (GSSAPI in self.mechanisms) != (self.kerberos is not None):
            raise OptionError(
                "GSSAPI among the mechanisms and a login by Kerberos go together: "
                "listener.name.NAME.gssapi.sasl.jaas.config with Krb5LoginModule; in Python kerberos=Kerberos(...)"
            )
        if self.users:
            object.__setattr__(self, "needs_sasl", True)

    @property
    def listener_name(self) -> str:
        """The security protocol's name, which is the listener's, too."""
        return ("SASL_" if self.needs_sasl else "") + ("SSL" if self.tls is not None else "PLAINTEXT")

    def credentials(self) -> Credentials:
        """Return the users, as a broker keeps them.

        Raises:
            OptionError, MissingExtraError: as of ``Kerberos.names``.
        """
        kerberos = None if self.kerberos is None else (self.kerberos, self.kerberos.names())
        return Credentials(dict(self.users), {}, tuple(self.mechanisms), self.check_token, kerberos)

    def access(self, settings: BrokerSettings) -> Access:
        """Return the authorizer."""
        named = settings.explicit.get("authorizer.class.name")
        if named is not None and not named.strip():
            return EverybodyMay()
        has_authorizer = self.authorizer or bool(tuple(self.acls)) or named is not None
        return AclAccess(
            self.acls,
            super_users=[name for name in settings.text("super.users").split(";") if name],
            allows_unruled=not has_authorizer or settings.flag("allow.everyone.if.no.acl.found"),
        )
