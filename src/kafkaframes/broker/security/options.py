"""``Security``, the security options of a broker, and the SASL mechanisms.

The mechanisms are PLAIN (RFC 4616), SCRAM, OAUTHBEARER (RFC 7628) and GSSAPI.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.broker.requests.login import SaslExchange
from kafkaframes.broker.security.access import AllowAllAuthorizer, Authorizer
from kafkaframes.broker.security.acls import Acl, AclAuthorizer
from kafkaframes.broker.security.kerberos import Kerberos, KerberosExchange, PrincipalRules
from kafkaframes.broker.security.scram import (
    HASH_BY_MECHANISM,
    MIN_SCRAM_ITERATIONS,
    SCRAM_SALT_BYTES,
    AuthenticationError,
    DelegationTokens,
    ScramCredential,
    ScramExchange,
    credential_from_password,
)
from kafkaframes.broker.security.tokens import read_token_expiry_ms
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.errors import OptionError

PLAIN, OAUTHBEARER, GSSAPI = "PLAIN", "OAUTHBEARER", "GSSAPI"
PASSWORD_MECHANISMS = (PLAIN, *HASH_BY_MECHANISM)
MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER, GSSAPI)
_GS2_HEADER_PATTERN = re.compile(r"[ny],(?:a=(?P<authzid>[^,]*))?,")
_KEY_VALUE_PATTERN = re.compile(r"[A-Za-z]+=.*", re.DOTALL)
_BEARER_PATTERN = re.compile(r"auth=Bearer +(?P<token>\S+)")
# Arguments: token, time in milliseconds; returns the user, or raises AuthenticationError.
CheckToken = Callable[[str, int], str]


class PlainExchange(SaslExchange):
    """A PLAIN authentication: user name and password in one message."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def respond(self, message: bytes) -> bytes:
        """Return an empty response if the password is correct."""
        parts = message.split(b"\0")
        if len(parts) != 3:
            raise AuthenticationError("a PLAIN message must have three parts: authorization id, user and password")
        authorization_id, user, password = (part.decode("utf-8", "replace") for part in parts)
        if not user or not password:
            raise AuthenticationError("Authentication failed: username or password not specified")
        if authorization_id not in ("", user):
            raise AuthenticationError("Authentication failed: Client requested an authorization id that is different")
        stored_credential = self._passwords.get(user)
        is_right = hmac.compare_digest(*(_hash_password(text) for text in (stored_credential or "", password)))
        if stored_credential is None or not is_right:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        self.user = user
        return b""


def _hash_password(text: str) -> bytes:
    """Return a hash of a password, because comparing hashes does not reveal the password's length."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class BearerExchange(SaslExchange):
    """An OAUTHBEARER authentication. A rejected client first receives the error as JSON (RFC 7628)."""

    def __init__(self, check: CheckToken, now_ms: Callable[[], int]) -> None:
        self._check = check
        self._now_ms = now_ms
        self._refusal: str | None = None

    def respond(self, message: bytes) -> bytes:
        """Return an empty response for a valid token, else the error.

        Raise an ``AuthenticationError`` after the error.
        """
        if self._refusal is not None:
            raise AuthenticationError(self._refusal)
        authzid, token = _parse_initial_response(message.decode("utf-8", "replace"))
        try:
            user = self._check(token, self._now_ms())
            if authzid not in ("", user):
                raise AuthenticationError("authorization as another user (authzid) is not supported")
            self.user, self.expires_ms = user, read_token_expiry_ms(token)
        except AuthenticationError as error:
            self._refusal = str(error)
            return b'{"status":"invalid_token"}'
        return b""


def _parse_initial_response(text: str) -> tuple[str, str]:
    """Return the authorization id and the token of a client's initial response (RFC 7628, section 3.1).

    Raises:
        AuthenticationError: the text is not an initial response.
    """
    header, *pairs = text.split("\x01")
    gs2 = _GS2_HEADER_PATTERN.fullmatch(header)
    if gs2 is not None and len(pairs) > 1 and not pairs[-1]:
        for pair in pairs[:-1]:
            bearer = _BEARER_PATTERN.fullmatch(pair)
            if bearer is not None:
                return gs2["authzid"] or "", bearer["token"]
            if _KEY_VALUE_PATTERN.fullmatch(pair) is None:
                break
    raise AuthenticationError("the message is not an OAUTHBEARER initial response")


@dataclass(slots=True)
class Credentials:
    """The users of a broker, and their credentials.

    Responses do not reveal whether a user exists. A login of an unknown user takes as long as one with a wrong
    password. For SCRAM, an unknown user gets a plausible salt and iteration count, which are derived from a secret.

    Attributes:
        passwords: passwords by user, for PLAIN and SCRAM.
        scram: SCRAM credentials that clients have set, by (user, mechanism).
        kerberos: for GSSAPI, the keytab's options and the mapping of principals to users.
        in_thread: runs a function that may wait for files or other hosts in a thread, and completes its result on the
            event loop; None to run the function in the caller.
        tokens: delegation tokens, which are valid for SCRAM.
        secret: secret from which salts are derived: stored in the data directory, or random without a data directory.
    """

    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    scram: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)
    mechanisms: tuple[str, ...] = PASSWORD_MECHANISMS
    check_token: CheckToken | None = field(default=None, repr=False)
    kerberos: tuple[Kerberos, PrincipalRules] | None = None
    in_thread: Callable[[Callable[[], None]], DeferredResponse] | None = field(default=None, repr=False)
    tokens: DelegationTokens = field(default_factory=DelegationTokens, repr=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _derived_credentials: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)

    def start_exchange(self, mechanism: str, now_ms: Callable[[], int]) -> SaslExchange:
        """Start an authentication with an enabled mechanism."""
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

    def prepare_credentials(self) -> None:
        """Compute the SCRAM credentials of all passwords in advance, so that all logins take the same time."""
        for mechanism in (name for name in self.mechanisms if name in HASH_BY_MECHANISM):
            for user, password in self.passwords.items():
                salt = self._derive_credential(user, mechanism)[:SCRAM_SALT_BYTES]
                self._derived_credentials[user, mechanism] = credential_from_password(mechanism, password, salt=salt)

    def find_scram(self, user: str, mechanism: str) -> ScramCredential:
        """Return a user's SCRAM credential. For an unknown user, return a credential that no password matches."""
        if self.passwords and not self._derived_credentials:
            self.prepare_credentials()
        key = (user, mechanism)
        return (
            self.scram.get(key) or self._derived_credentials.get(key) or self._create_decoy_credential(user, mechanism)
        )

    def _find_token(self, token_id: str, mechanism: str, now_ms: int) -> tuple[ScramCredential, str, int | None]:
        """Return the credential, owner and expiry time of a delegation token."""
        stored_credential = self.tokens.find_credential(token_id, mechanism, now_ms)
        if stored_credential is None:
            return self._create_decoy_credential(token_id, mechanism), "", None
        credential, token = stored_credential
        return credential, token.owner.partition(":")[2], token.expires_ms

    def _create_decoy_credential(self, user: str, mechanism: str) -> ScramCredential:
        """Return a credential that looks like the credential of an existing user.

        The same user name always gets the same salt and iteration count.
        """
        seed = self._derive_credential(user, mechanism)
        existing_credentials = [
            credential
            for (_, name), credential in (*self.scram.items(), *self._derived_credentials.items())
            if name == mechanism
        ]
        shapes = sorted((len(credential.salt), credential.iterations) for credential in existing_credentials) or [
            (SCRAM_SALT_BYTES, MIN_SCRAM_ITERATIONS)
        ]
        size, iterations = shapes[int.from_bytes(seed[-8:], "big") % len(shapes)]
        salt = hashlib.shake_256(seed).digest(size) if size != SCRAM_SALT_BYTES else seed[:SCRAM_SALT_BYTES]
        random_key = secrets.token_bytes(hashlib.new(HASH_BY_MECHANISM[mechanism]).digest_size)
        return ScramCredential(salt, iterations, random_key, random_key)

    def _derive_credential(self, user: str, mechanism: str) -> bytes:
        return hmac.digest(self.secret, f"{mechanism} {user}".encode("utf-8", "surrogatepass"), "sha512")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """SASL, TLS and ACLs of a broker.

    Attributes:
        users: passwords by user. If there are users, clients must authenticate with SASL (PLAIN, or SCRAM with the same
            passwords).
        mechanisms: enabled SASL mechanisms. By default, all mechanisms that use passwords are enabled.
        needs_sasl: whether clients must authenticate; always True if there are users.
        check_token: required for OAUTHBEARER: a function of a token and the time in milliseconds that returns the user
            or raises an ``AuthenticationError``. ``tokens.SignedTokens`` verifies signatures.
            ``tokens.unsecured_token`` accepts unsigned tokens, for tests.
        kerberos: required for GSSAPI: the keytab, and rules that map principals to users.
        tls: server-side ``ssl.SSLContext``, such as the result of ``security.tls.create_server_context``.
        authorizer: whether operations without an allowing ACL are rejected. By default, operations on resources without
            ACLs are allowed. The setting ``authorizer.class.name`` has the same effect. If the setting is empty, ACLs
            are disabled, and requests for ACLs get SECURITY_DISABLED.
        acls: initial ACLs.
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
            raise OptionError(f"unknown SASL mechanism {', '.join(unknown)}; expected one of {', '.join(MECHANISMS)}")
        if (OAUTHBEARER in self.mechanisms) != (self.check_token is not None):
            raise OptionError(
                "OAUTHBEARER and a token check require each other. For signed tokens, set "
                "sasl.oauthbearer.jwks.endpoint.url. For unsecured tokens, which any client can create, set "
                "kafkaframes.sasl.oauthbearer.allow.unsecured=true. In Python, pass check_token."
            )
        if (GSSAPI in self.mechanisms) != (self.kerberos is not None):
            raise OptionError(
                "GSSAPI and a Kerberos login require each other. Set "
                "listener.name.NAME.gssapi.sasl.jaas.config with Krb5LoginModule. In Python, pass "
                "kerberos=Kerberos(...)."
            )
        if self.users:
            object.__setattr__(self, "needs_sasl", True)

    @property
    def listener_name(self) -> str:
        """The name of the security protocol, which is also the default listener's name."""
        return ("SASL_" if self.needs_sasl else "") + ("SSL" if self.tls is not None else "PLAINTEXT")

    def credentials(self) -> Credentials:
        """Return the users of a broker. Raise the same errors as ``Kerberos.parse_rules``."""
        kerberos = None if self.kerberos is None else (self.kerberos, self.kerberos.parse_rules())
        return Credentials(dict(self.users), {}, tuple(self.mechanisms), self.check_token, kerberos)

    def access(self, settings: BrokerSettings) -> Authorizer:
        """Return the authorizer."""
        authorizer_class = settings.explicit.get("authorizer.class.name")
        if authorizer_class is not None and not authorizer_class.strip():
            return AllowAllAuthorizer()
        has_authorizer = self.authorizer or bool(tuple(self.acls)) or authorizer_class is not None
        return AclAuthorizer(
            self.acls,
            super_users=[name for name in settings.get_text("super.users").split(";") if name],
            allows_unruled=not has_authorizer or settings.get_flag("allow.everyone.if.no.acl.found"),
        )
