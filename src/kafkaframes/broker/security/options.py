"""What secures a broker's listener, as its maker says it, and the mechanisms of SASL.

These are PLAIN (RFC 4616), SCRAM, OAUTHBEARER (RFC 7628) and GSSAPI.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafkaframes.broker.access import Access, EverybodyMay
from kafkaframes.broker.api import Later
from kafkaframes.broker.security.acls import Acl, AclAccess
from kafkaframes.broker.security.kerberos import Kerberos, KerberosExchange, LocalNames
from kafkaframes.broker.security.scram import (
    HASHES,
    LEAST_ITERATIONS,
    SALT_BYTES,
    AuthenticationError,
    DelegationTokens,
    Exchange,
    ScramCredential,
    ScramExchange,
    credential_of_password,
)
from kafkaframes.broker.security.tokens import expiry_ms
from kafkaframes.broker.settings import BrokerSettings
from kafkaframes.errors import OptionError

PLAIN, OAUTHBEARER, GSSAPI = "PLAIN", "OAUTHBEARER", "GSSAPI"
PASSWORD_MECHANISMS = (PLAIN, *HASHES)
MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER, GSSAPI)
_GS2_HEADER = re.compile(r"[ny],(?:a=(?P<authzid>[^,]*))?,")
_KEY_VALUE = re.compile(r"[A-Za-z]+=.*", re.DOTALL)
_BEARER = re.compile(r"auth=Bearer +(?P<token>\S+)")
CheckToken = Callable[[str, int], str]  # a token and the time in milliseconds -> the user; AuthenticationError


class PlainExchange(Exchange):
    """A user's name and password in one message."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def respond(self, message: bytes) -> bytes:
        """Return nothing, if the password is right."""
        parts = message.split(b"\0")
        if len(parts) != 3:
            raise AuthenticationError("PLAIN has three parts: whom to act for, the user, the password")
        acting_for, user, password = (part.decode("utf-8", "replace") for part in parts)
        if not user or not password:
            raise AuthenticationError("Authentication failed: username or password not specified")
        if acting_for not in ("", user):
            raise AuthenticationError("Authentication failed: Client requested an authorization id that is different")
        known = self._passwords.get(user)
        is_right = hmac.compare_digest(*(_digest(text) for text in (known or "", password)))
        if known is None or not is_right:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        self.user = user
        return b""


def _digest(text: str) -> bytes:
    """Return a password as a number of bytes that tells nothing of its length."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class BearerExchange(Exchange):
    """A token; a wrong one is answered as JSON first, and refused when the client has seen it (RFC 7628)."""

    def __init__(self, check: CheckToken, now_ms: Callable[[], int]) -> None:
        self._check = check
        self._now_ms = now_ms
        self._refusal: str | None = None

    def respond(self, message: bytes) -> bytes:
        """Return nothing for a right token; an ``AuthenticationError`` once the client knows that it is wrong."""
        if self._refusal is not None:
            raise AuthenticationError(self._refusal)
        authzid, token = _parse_initial_response(message.decode("utf-8", "replace"))
        try:
            user = self._check(token, self._now_ms())
            if authzid not in ("", user):
                raise AuthenticationError("authorization as another user (authzid) is not supported")
            self.user, self.expires_ms = user, expiry_ms(token)
        except AuthenticationError as error:
            self._refusal = str(error)
            return b'{"status":"invalid_token"}'
        return b""


def _parse_initial_response(text: str) -> tuple[str, str]:
    """Return the authorization id and the token of a client's initial response (RFC 7628, section 3.1).

    Raises:
        AuthenticationError: the text is not such a response.
    """
    header, *pairs = text.split("\x01")
    gs2 = _GS2_HEADER.fullmatch(header)
    if gs2 is not None and len(pairs) > 1 and not pairs[-1]:
        for pair in pairs[:-1]:
            bearer = _BEARER.fullmatch(pair)
            if bearer is not None:
                return gs2["authzid"] or "", bearer["token"]
            if _KEY_VALUE.fullmatch(pair) is None:
                break
    raise AuthenticationError("the message is not an OAUTHBEARER initial response")


@dataclass(slots=True)
class Credentials:
    """The users of a broker.

    An unknown user is answered as a known one with a wrong password: in the same time, and by SCRAM with a salt and a
    number of iterations that real users have, which follow from a secret.

    Attributes:
        passwords: for PLAIN; SCRAM knows the same users.
        scram: credentials by (user, mechanism) that clients have set.
        kerberos: for GSSAPI: how tickets are taken, and users' names.
        in_thread: does what may wait for files and other machines in a thread, and completes an answer on the loop when
            it is done; None: it is done here.
        tokens: delegation tokens, which SCRAM takes.
        secret: what salts follow from; of a data directory, or of this process.
    """

    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    scram: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)
    mechanisms: tuple[str, ...] = PASSWORD_MECHANISMS
    check_token: CheckToken | None = field(default=None, repr=False)
    kerberos: tuple[Kerberos, LocalNames] | None = None
    in_thread: Callable[[Callable[[], None]], Later] | None = field(default=None, repr=False)
    tokens: DelegationTokens = field(default_factory=DelegationTokens, repr=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _made: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)

    def exchange(self, mechanism: str, now_ms: Callable[[], int]) -> Exchange:
        """Begin an authentication by a mechanism that is offered."""
        if mechanism == PLAIN:
            return PlainExchange(self.passwords)
        if mechanism == OAUTHBEARER:
            assert self.check_token is not None
            return BearerExchange(self.check_token, now_ms)
        if mechanism == GSSAPI:
            assert self.kerberos is not None
            return KerberosExchange(*self.kerberos)
        return ScramExchange(
            mechanism,
            lambda user: self.find_scram(user, mechanism),
            find_token=lambda token_id: self._find_token(token_id, mechanism, now_ms()),
        )

    def prepare(self) -> None:
        """Make the SCRAM credentials of all passwords: nobody's first attempt takes longer than another's."""
        for mechanism in (name for name in self.mechanisms if name in HASHES):
            for user, password in self.passwords.items():
                salt = self._derived(user, mechanism)[:SALT_BYTES]
                self._made[user, mechanism] = credential_of_password(mechanism, password, salt=salt)

    def find_scram(self, user: str, mechanism: str) -> ScramCredential:
        """Return a user's SCRAM credential; one that no password fits, for an unknown user."""
        if self.passwords and not self._made:
            self.prepare()
        key = (user, mechanism)
        return self.scram.get(key) or self._made.get(key) or self._unknown(user, mechanism)

    def _find_token(self, token_id: str, mechanism: str, now_ms: int) -> tuple[ScramCredential, str, int | None]:
        known = self.tokens.credential(token_id, mechanism, now_ms)
        if known is None:
            return self._unknown(token_id, mechanism), "", None
        credential, token = known
        return credential, token.owner.partition(":")[2], token.expires_ms

    def _unknown(self, user: str, mechanism: str) -> ScramCredential:
        """Return a credential that looks as one of the real users' does, always the same for a name."""
        seed = self._derived(user, mechanism)
        real = [one for (_, name), one in (*self.scram.items(), *self._made.items()) if name == mechanism]
        shapes = sorted((len(one.salt), one.iterations) for one in real) or [(SALT_BYTES, LEAST_ITERATIONS)]
        size, iterations = shapes[int.from_bytes(seed[-8:], "big") % len(shapes)]
        salt = hashlib.shake_256(seed).digest(size) if size != SALT_BYTES else seed[:SALT_BYTES]
        nothing = secrets.token_bytes(hashlib.new(HASHES[mechanism]).digest_size)
        return ScramCredential(salt, iterations, nothing, nothing)

    def _derived(self, user: str, mechanism: str) -> bytes:
        return hmac.digest(self.secret, f"{mechanism} {user}".encode("utf-8", "surrogatepass"), "sha512")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """SASL, TLS and access rules of a broker.

    Attributes:
        users: passwords by user; with any, clients authenticate by SASL (PLAIN, and SCRAM with the same passwords).
        mechanisms: that are offered: those with passwords by default.
        needs_sasl: clients authenticate; True by itself where there are users.
        check_token: for OAUTHBEARER, which needs it: a token and the time in milliseconds to a user, or an
            ``AuthenticationError``. ``tokens.SignedTokens`` verifies signatures; ``tokens.unsecured_token`` takes what
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
        """Return the users, as a broker keeps them; refused as by ``Kerberos.names``."""
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
