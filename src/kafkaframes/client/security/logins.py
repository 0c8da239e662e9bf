"""From what Java's clients are told about a login to a name and password, or to what gives bearer tokens."""

from __future__ import annotations

import time
from typing import Any, Final

from kafkaframes.client.sasl import unsecured_token
from kafkaframes.client.security import jaas
from kafkaframes.client.security.msk import iam_token, is_iam
from kafkaframes.errors import OptionError

_CLAIM: Final = "unsecuredLoginStringClaim_"
_HANDLERS: Final = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")
KERBEROS: Final = (
    "GSSAPI (Kerberos) is not supported; PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER are. Brokers can have a "
    "listener for one of these beside the one for Kerberos"
)


def resolved(settings: Any) -> dict[str, Any]:
    """Return the fields of settings that ``sasl.jaas.config`` and the options of OpenID Connect decide.

    Raises:
        OptionError: they do not fit each other; no secret is shown.
    """
    if settings.sasl_mechanism == "GSSAPI" or settings.sasl_kerberos_service_name is not None:
        raise OptionError(f"sasl.mechanism: {KERBEROS}")
    if not is_iam(settings):
        _check_handler(settings.sasl_login_callback_handler_class)
    login = None if settings.sasl_jaas_config is None else jaas.parse(settings.sasl_jaas_config)
    if login is not None and settings.uses_sasl and settings.sasl_mechanism not in login.mechanisms:
        requested = " or ".join(login.mechanisms)
        raise OptionError(f"sasl.mechanism is {settings.sasl_mechanism}; {login.module} wants {requested}")
    options = {} if login is None else dict(login.options)
    if is_iam(settings):
        token = iam_token([host for host, _ in settings.servers], options)
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": token}
    if settings.sasl_mechanism == "OAUTHBEARER":
        provider = _token_provider(settings, options)
        return {} if provider is None else {"sasl_oauthbearer_token": provider}
    if login is None:
        return {}
    if options.get("tokenauth", "false").lower() == "true":
        raise OptionError("sasl.jaas.config: delegation tokens (tokenauth) are not supported")
    result = {f"sasl_{name}": options[name] for name in ("username", "password") if name in options}
    if len(result) < 2:
        raise OptionError(f"sasl.jaas.config: {login.module} needs username and password")
    return result


def _token_provider(settings: Any, options: dict[str, str]) -> Any:
    """Return what gives tokens; None where a token itself, or nothing, is given."""
    from kafkaframes.client.security.tokens import ClientCredentials, named_provider

    if settings.sasl_oauthbearer_token_provider is not None:
        return named_provider(settings.sasl_oauthbearer_token_provider)
    url = settings.sasl_oauthbearer_token_endpoint_url
    if url is not None:
        own = "sasl_oauthbearer_client_credentials_client_"
        client_id = options.get("clientId") or getattr(settings, f"{own}id")
        secret = options.get("clientSecret") or getattr(settings, f"{own}secret")
        if not client_id or not secret:
            raise OptionError(
                "sasl.oauthbearer.token.endpoint.url needs clientId and clientSecret in sasl.jaas.config, or "
                "sasl.oauthbearer.client.credentials.client.id and .secret"
            )
        scope = options.get("scope") or settings.sasl_oauthbearer_scope
        return ClientCredentials(
            url, client_id, secret, scope, settings.sasl_oauthbearer_header_urlencode, _endpoint_authorities(options)
        )
    if f"{_CLAIM}sub" in options:
        return UnsecuredToken(options[f"{_CLAIM}sub"])
    return None


def _endpoint_authorities(options: dict[str, str]) -> str | None:
    """Return what the token endpoint's certificate may come from: the login module's own ``ssl.truststore``."""
    from kafkaframes.client.security import stores

    store = stores.Store(
        "sasl.jaas.config ssl.truststore",
        location=options.get("ssl.truststore.location"),
        kind=options.get("ssl.truststore.type", "JKS"),
        password=options.get("ssl.truststore.password"),
        text=options.get("ssl.truststore.certificates"),
    )
    return stores.trusted(store) if store.is_present else None


def _check_handler(name: str | None) -> None:
    if name is not None and name.rpartition(".")[2] not in _HANDLERS:
        raise OptionError(
            f"sasl.login.callback.handler.class={name}: Java classes are not run; "
            "sasl.oauthbearer.token.provider=module:function names a function in Python that gives tokens"
        )


class UnsecuredToken:
    """Gives unsigned tokens, for brokers in development."""

    def __init__(self, principal: str) -> None:
        self.principal = principal

    def __call__(self) -> str:
        """Return a token that is valid for an hour."""
        return unsecured_token(self.principal, now_s=time.time())


__all__ = ["KERBEROS", "UnsecuredToken", "resolved"]
