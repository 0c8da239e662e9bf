"""Create ``Security`` from the options of a command and the settings in ``server.properties``.

Files with secrets are rejected if other users may read them. New files are readable only by their owner.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Final

from kafkaframes.broker.security.kerberos import Kerberos
from kafkaframes.broker.security.options import OAUTHBEARER, PASSWORD_MECHANISMS, CheckToken, Security
from kafkaframes.broker.security.tls import create_server_context
from kafkaframes.broker.security.tokens import ClaimRules, KeySet, SignedTokens, unsecured_token
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.broker.settings.security_keys import (
    ALLOW_UNSECURED_KEY,
    GSSAPI_LOGIN_PATTERN,
    JWKS_URL_KEY,
    KERBEROS_RULES_KEY,
    KERBEROS_SERVICE_NAME_KEY,
    OAUTHBEARER_KEYS,
    SECURITY_SETTING_NAMES,
)
from kafkaframes.errors import OptionError
from kafkaframes.protocol import jaas


def build_security(
    known_settings: MutableMapping[str, str],
    *,
    listeners: Sequence[ListenerOptions] = (),
    users: Iterable[str] = (),
    certificate: str | None = None,
    key: str | None = None,
    authorities: str | None = None,
) -> Security:
    """Return the ``Security`` for options and settings. Options have precedence.

    The settings that were used are removed from ``known_settings``.

    Args:
        known_settings: settings of ``server.properties``.
        users: users for SASL, as ``NAME=PASSWORD``.
        certificate, key, authorities: paths of PEM files, which are passed to ``create_server_context``.

    Raises:
        OptionError: a user has no password, a store is not a PEM file, or a setting does not fit the listeners.
    """
    texts = {name: known_settings.pop(name) for name in SECURITY_SETTING_NAMES & known_settings.keys()}
    for store in ("keystore", "truststore"):
        if f"ssl.{store}.location" in texts and texts.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
            raise OptionError(f"ssl.{store}.location requires ssl.{store}.type=PEM; Java key stores are not supported")
    certificate = certificate or texts.get("ssl.keystore.location")
    authorities = authorities or texts.get("ssl.truststore.location")
    if certificate is None and (key is not None or authorities is not None):
        raise OptionError(
            "TLS requires a certificate: set ssl.keystore.location with ssl.keystore.type=PEM, or `certificate`"
        )
    client_auth = texts.get("ssl.client.auth", "none")
    if client_auth not in ("none", "requested", "required") or (client_auth == "required" and authorities is None):
        raise OptionError(f"ssl.client.auth is {client_auth}; expected none, requested, or required with a truststore")
    known_clients = authorities if client_auth != "none" else None
    tls = certificate and create_server_context(
        certificate,
        key,
        key_password=texts.get("ssl.key.password"),
        authorities=known_clients,
        needs_client=client_auth == "required",
    )
    logins = {known_settings.pop(name) for name in [*filter(GSSAPI_LOGIN_PATTERN.fullmatch, known_settings)]}
    mechanisms = _list(texts.get("sasl.enabled.mechanisms", ",".join(PASSWORD_MECHANISMS)))
    security = Security(
        users=dict(map(_parse_user, users)),
        mechanisms=mechanisms,
        check_token=_build_token_check(
            {name: value for name, value in texts.items() if name in OAUTHBEARER_KEYS}, mechanisms
        ),
        kerberos=_build_kerberos(texts, logins),
        needs_sasl=any(listener.needs_sasl for listener in listeners)
        if listeners
        else "sasl.enabled.mechanisms" in texts,
        tls=tls or None,
    )
    if listeners:
        _check_security(security, listeners)
    return security


def _check_security(security: Security, listeners: Sequence[ListenerOptions]) -> None:
    """Reject security options that no listener uses, because the user would rely on them."""
    protocol_list = ", ".join(listener.protocol for listener in listeners)
    if security.tls is None and any(listener.needs_tls for listener in listeners):
        raise OptionError(f"an SSL listener requires a certificate; the listeners are {protocol_list}")
    if security.tls is not None and not any(listener.needs_tls for listener in listeners):
        raise OptionError(f"a certificate is set, but no listener uses TLS; the listeners are {protocol_list}")
    if (security.users or security.check_token or security.kerberos) and not any(
        listener.needs_sasl for listener in listeners
    ):
        raise OptionError(f"SASL is configured, but no listener uses it; the listeners are {protocol_list}")


def _build_kerberos(texts: Mapping[str, str], logins: Collection[str]) -> Kerberos | None:
    """Return the Kerberos options. Reject rules without a login, several logins, and logins of other modules."""
    if not logins:
        if KERBEROS_RULES_KEY in texts:
            raise OptionError(f"{KERBEROS_RULES_KEY} requires listener.name.NAME.gssapi.sasl.jaas.config")
        return None
    if len(logins) > 1:
        raise OptionError("listeners have different Kerberos logins; all listeners must have the same")
    login = jaas.parse(*logins)
    if login.module != jaas.KERBEROS_MODULE:
        raise OptionError(f"the sasl.jaas.config of GSSAPI must name {jaas.KERBEROS_MODULE}, not {login.module}")
    principal = login.options.get("principal", "*")
    return Kerberos(
        keytab=login.keytab,
        principal=None if principal == "*" else principal,
        service=login.service_name(texts.get(KERBEROS_SERVICE_NAME_KEY)),
        rules=_list(texts.get(KERBEROS_RULES_KEY, "")),
    )


def _build_token_check(texts: Mapping[str, str], mechanisms: Sequence[str]) -> CheckToken | None:
    """Return the token check. Reject OAUTHBEARER settings that have no effect or exclude each other."""
    if not texts or OAUTHBEARER not in mechanisms:
        if texts:
            raise OptionError(f"{min(texts)} requires OAUTHBEARER in sasl.enabled.mechanisms")
        return None
    is_unsecured = texts.get(ALLOW_UNSECURED_KEY, "false").strip().lower() == "true"
    if is_unsecured and len(texts) > 1:
        raise OptionError(
            f"{ALLOW_UNSECURED_KEY}=true cannot be combined with other token settings,"
            " because tokens are then not verified"
        )
    if is_unsecured:
        return unsecured_token
    if JWKS_URL_KEY not in texts:
        return None
    setting_prefix = "sasl.oauthbearer."
    rules = ClaimRules(
        issuer=texts.get(f"{setting_prefix}expected.issuer"),
        audiences=_list(texts.get(f"{setting_prefix}expected.audience", "")),
        clock_skew_seconds=_parse_number(texts, f"{setting_prefix}clock.skew.seconds", 30),
        sub_claim=texts.get(f"{setting_prefix}sub.claim.name", "sub"),
        scope_claim=texts.get(f"{setting_prefix}scope.claim.name", "scope"),
        scopes=_list(texts.get(f"kafkaframes.{setting_prefix}required.scopes", "")),
    )
    refresh_ms = _parse_number(texts, f"{setting_prefix}jwks.endpoint.refresh.ms", 3_600_000)
    return SignedTokens(KeySet(texts[JWKS_URL_KEY], refresh_seconds=refresh_ms / 1000), rules)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_number(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, str(default)).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise OptionError(f"{name} must be a number of at most nine digits")
    return int(text)


def parse_users(text: str, *, source: str) -> list[str]:
    """Return the lines ``NAME=PASSWORD`` of a file or a variable, without blank lines and lines that start with ``#``.

    Raises:
        OptionError: a line is invalid. The message contains the line's number, but never its text.
    """
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#") and not all(line.partition("=")):
            raise OptionError(f"{source}, line {number}: expected NAME=PASSWORD")
    return [line for line in lines if line and not line.startswith("#")]


def _parse_user(text: str) -> tuple[str, str]:
    name, equals, password = text.partition("=")
    if not (name and equals and password):
        raise OptionError("`sasl_user` takes NAME=PASSWORD")
    return name, password


_OTHER_USERS_MODE: Final = stat.S_IRWXG | stat.S_IRWXO  # file permissions of the group and of all other users
_MAX_SECRET_FILE_BYTES: Final = 1 << 20


def read_private_file(path: str) -> str:
    """Return the text of a file that only its owner may read.

    Raises:
        OptionError: the file cannot be read, is not text, or is accessible to other users.
    """
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(_MAX_SECRET_FILE_BYTES)
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from None
    if os.name == "posix" and mode & _OTHER_USERS_MODE:
        raise OptionError(
            f"{path} has mode {mode:04o}: other users may read or change its secrets; run chmod 600 {path}"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not UTF-8") from None


def read_or_create_token(path: str) -> str:
    """Return the token in a file. If the file does not exist, create it with a new token.

    Raises:
        OptionError: ``read_private_file`` rejects the file, the file has no valid token, or it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = read_private_file(path).strip()
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise OptionError(
                f"{path} does not contain a token; expected one word of ASCII letters, digits and punctuation"
            ) from None
        return token
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from None
    token = secrets.token_urlsafe(32)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token
