"""Converts the login settings of Java's clients to a name and password, a token provider, or a Kerberos principal."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkaframes.client.security.sasl import (
    Exchange,
    authenticate_gssapi,
    authenticate_oauthbearer,
    authenticate_plain,
    authenticate_scram,
    create_unsecured_token,
)
from kafkaframes.errors import OptionError
from kafkaframes.protocol import jaas

_DEFAULT_MECHANISM: Final = "PLAIN"
# JAAS options of unsecured tokens (KIP-255) and of extensions (KIP-342)
_UNSECURED_PREFIX: Final = "unsecuredLogin"
_STRING_CLAIM_PREFIX, _NUMBER_CLAIM_PREFIX, _LIST_CLAIM_PREFIX = (
    f"{_UNSECURED_PREFIX}{kind}Claim_" for kind in ("String", "Number", "List")
)
_EXTENSION_PREFIXES: Final = ("extension_", f"{_UNSECURED_PREFIX}Extension_")
_EXTENSION_NAME_PATTERN: Final = re.compile(r"(?!auth$)[A-Za-z]+")
_EXTENSION_VALUE_PATTERN: Final = re.compile(r"[!-~ \t\r\n]+")
_UNSECURED_LIFETIME_S: Final = 3600
_IAM_MECHANISM: Final = "AWS_MSK_IAM"
_IAM_HANDLERS: Final = ("IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler")
_OAUTH_HANDLERS: Final = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")


def resolve_logins(settings: Any) -> dict[str, Any]:
    """Return the settings' fields that ``sasl.jaas.config`` and the OpenID Connect options determine.

    Raises:
        OptionError: the settings contradict each other. The message contains no secret.
    """
    is_iam = _is_iam(settings)
    if not is_iam:
        _check_handler(settings.sasl_login_callback_handler_class)
    login = None if settings.sasl_jaas_config is None else jaas.parse(settings.sasl_jaas_config)
    if _is_kerberos(settings, login):
        return _resolve_kerberos(settings, login)
    if login is not None and settings.uses_sasl and settings.sasl_mechanism not in login.mechanisms:
        mechanisms = " or ".join(login.mechanisms)
        raise OptionError(f"sasl.mechanism is {settings.sasl_mechanism}; {login.module} requires {mechanisms}")
    options = {} if login is None else dict(login.options)
    if is_iam:
        from kafkaframes.client.security.tokens import create_iam_provider

        token = create_iam_provider([host for host, _ in settings.servers], options)
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": token}
    if settings.sasl_mechanism == "OAUTHBEARER":
        provider = _create_token_provider(settings, options)
        extensions = {"sasl_oauthbearer_extensions": _resolve_extensions(settings, options)}
        return extensions if provider is None else {**extensions, "sasl_oauthbearer_token": provider}
    if login is None:
        return {}
    if any(name not in options for name in ("username", "password")):
        raise OptionError(f"sasl.jaas.config: {login.module} needs username and password")
    is_token = login.has_option("tokenauth") or settings.sasl_tokenauth
    return {"sasl_username": options["username"], "sasl_password": options["password"], "sasl_tokenauth": is_token}


def _is_iam(settings: Any) -> bool:
    """Return whether settings select the login of Amazon MSK, by mechanism or callback handler."""
    handler = (settings.sasl_login_callback_handler_class or "").rpartition(".")[2]
    return settings.sasl_mechanism == _IAM_MECHANISM or handler in _IAM_HANDLERS


def _is_kerberos(settings: Any, login: jaas.JaasLogin | None) -> bool:
    """Return whether settings select GSSAPI, which is also the default mechanism of Java's clients."""
    if settings.sasl_mechanism != _DEFAULT_MECHANISM or settings.sasl_username is not None:
        return bool(settings.sasl_mechanism == "GSSAPI")
    return settings.sasl_kerberos_service_name is not None if login is None else login.module == jaas.KERBEROS_MODULE


def _resolve_kerberos(settings: Any, login: jaas.JaasLogin | None) -> dict[str, Any]:
    if login is None:
        login = jaas.JaasLogin(jaas.KERBEROS_MODULE, {})
    if login.module != jaas.KERBEROS_MODULE:
        raise OptionError(f"sasl.mechanism is GSSAPI; {login.module} requires {' or '.join(login.mechanisms)}")
    service = login.service_name(settings.sasl_kerberos_service_name)
    if service is None and settings.uses_sasl:
        raise OptionError("GSSAPI needs sasl.kerberos.service.name, or serviceName in sasl.jaas.config")
    return {
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": service,
        "sasl_kerberos_principal": login.options.get("principal") or settings.sasl_kerberos_principal,
        "sasl_kerberos_keytab": login.keytab or settings.sasl_kerberos_keytab,
        "sasl_kerberos_ticket_cache": login.options.get("ticketCache") or settings.sasl_kerberos_ticket_cache,
    }


def create_exchange(settings: Any, host: str, token: str) -> Exchange:
    """Return a SASL exchange with the mechanism and the credentials of resolved settings.

    Args:
        host: broker's host name, used by GSSAPI only.
        token: bearer token, used by OAUTHBEARER only.
    """
    mechanism, name, password = settings.sasl_mechanism, settings.sasl_username or "", settings.sasl_password or ""
    if mechanism == "GSSAPI":
        return authenticate_gssapi(settings, host)
    if mechanism == "OAUTHBEARER":
        return authenticate_oauthbearer(token, settings.sasl_oauthbearer_extensions or {})
    if mechanism == _DEFAULT_MECHANISM:
        return authenticate_plain(name, password)
    return authenticate_scram(
        mechanism, name, password, nonce=secrets.token_urlsafe(24), is_token=settings.sasl_tokenauth
    )


def _create_token_provider(settings: Any, options: dict[str, str]) -> Any:
    """Return a provider of tokens; None if the settings have a token itself or no login for OAUTHBEARER."""
    from kafkaframes.client.security.tokens import ClientCredentialsProvider, load_provider, open_token_file

    if settings.sasl_oauthbearer_token_provider is not None:
        return load_provider(settings.sasl_oauthbearer_token_provider)
    url = settings.sasl_oauthbearer_token_endpoint_url
    if url is not None and url.startswith("file:"):
        return open_token_file(url)
    if url is not None:
        own_token = "sasl_oauthbearer_client_credentials_client_"
        client_id = options.get("clientId") or getattr(settings, f"{own_token}id")
        secret = options.get("clientSecret") or getattr(settings, f"{own_token}secret")
        if not client_id or not secret:
            raise OptionError(
                "sasl.oauthbearer.token.endpoint.url needs clientId and clientSecret in sasl.jaas.config, or "
                "sasl.oauthbearer.client.credentials.client.id and .secret"
            )
        scope = options.get("scope") or settings.sasl_oauthbearer_scope
        return ClientCredentialsProvider(
            url,
            client_id,
            secret,
            scope,
            settings.sasl_oauthbearer_header_urlencode,
            _load_endpoint_certificates(options),
        )
    return _create_unsecured_provider(options)


def _create_unsecured_provider(options: Mapping[str, str]) -> UnsecuredTokenProvider | None:
    """Return a provider of unsigned tokens with the claims of JAAS options, as Java's login handler issues them."""
    claims: dict[str, Any] = {}
    for option, value in options.items():
        if option.startswith(_STRING_CLAIM_PREFIX):
            claims[option.removeprefix(_STRING_CLAIM_PREFIX)] = value
        elif option.startswith(_NUMBER_CLAIM_PREFIX):
            claims[option.removeprefix(_NUMBER_CLAIM_PREFIX)] = _parse_number(option, value, float)
        elif option.startswith(_LIST_CLAIM_PREFIX):  # the first character separates the elements
            claims[option.removeprefix(_LIST_CLAIM_PREFIX)] = value[1:].split(value[0]) if len(value) > 1 else []
    lifetime = f"{_UNSECURED_PREFIX}LifetimeSeconds"
    lifetime_s = _parse_number(lifetime, options.get(lifetime, str(_UNSECURED_LIFETIME_S)), int)
    principal = options.get(f"{_UNSECURED_PREFIX}PrincipalClaimName", "sub")
    if principal in claims:
        return UnsecuredTokenProvider(claims, lifetime_s)
    if any(option.startswith(_UNSECURED_PREFIX) for option in options):
        raise OptionError(f"sasl.jaas.config: unsecured tokens need {_STRING_CLAIM_PREFIX}{principal}")
    return None


def _parse_number(option: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise OptionError(f"sasl.jaas.config: {option} is not a number") from None


def _resolve_extensions(settings: Any, options: Mapping[str, str]) -> dict[str, str]:
    """Return the extensions that are sent with tokens, from ``sasl_oauthbearer_extensions`` and JAAS options.

    Raises:
        OptionError: a name or a value has characters that brokers reject.
    """
    extensions = settings.sasl_oauthbearer_extensions or {}
    if isinstance(extensions, str):
        pairs = [pair.partition("=") for pair in extensions.split(",") if pair.strip()]
        extensions = {name.strip(): value for name, _, value in pairs}
    result = {
        option.removeprefix(prefix): value
        for prefix in _EXTENSION_PREFIXES
        for option, value in options.items()
        if option.startswith(prefix)
    } | dict(extensions)
    for name, value in result.items():
        if _EXTENSION_NAME_PATTERN.fullmatch(name) is None:
            raise OptionError(f"sasl_oauthbearer_extensions: invalid name {name!r}; expected letters, except auth")
        if _EXTENSION_VALUE_PATTERN.fullmatch(value) is None:
            raise OptionError(f"sasl_oauthbearer_extensions: the value of {name} is empty or not ASCII text")
    return result


def _load_endpoint_certificates(options: dict[str, str]) -> str | None:
    """Return the certificates, as PEM, of the login module's ``ssl.truststore``, which the token endpoint needs."""
    from kafkaframes.client.security import tls

    store = tls.StoreSettings(
        "sasl.jaas.config ssl.truststore",
        location=options.get("ssl.truststore.location"),
        kind=options.get("ssl.truststore.type", "JKS"),
        password=options.get("ssl.truststore.password"),
        text=options.get("ssl.truststore.certificates"),
    )
    return tls.load_trusted_certificates(store) if store.is_present else None


def _check_handler(name: str | None) -> None:
    """Reject a login callback handler other than those of Kafka that have a replacement here."""
    if name is not None and name.rpartition(".")[2] not in _OAUTH_HANDLERS:
        raise OptionError(
            f"sasl.login.callback.handler.class={name}: Java classes are not run; "
            "sasl.oauthbearer.token.provider=module:function names a Python function that returns tokens"
        )


@dataclass(frozen=True)
class UnsecuredTokenProvider:
    """Provides unsigned tokens, for brokers in development.

    Attributes:
        claims: claims of the tokens, one of which names the user.
        lifetime_s: time until a token expires, in seconds.
    """

    claims: Mapping[str, Any]
    lifetime_s: float

    def __call__(self) -> str:
        """Return a new token."""
        return create_unsecured_token(None, now_s=time.time(), lifetime_s=int(self.lifetime_s), claims=self.claims)
