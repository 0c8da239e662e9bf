"""The keys of ``server.properties`` that configure authentication and TLS."""

from __future__ import annotations

import re
from typing import Final

KERBEROS_RULES_KEY: Final = "sasl.kerberos.principal.to.local.rules"
JWKS_URL_KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"
ALLOW_UNSECURED_KEY: Final = "kafkaframes.sasl.oauthbearer.allow.unsecured"
OAUTHBEARER_KEYS: Final = frozenset(
    {
        JWKS_URL_KEY,
        ALLOW_UNSECURED_KEY,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.scope.claim.name",
        "kafkaframes.sasl.oauthbearer.required.scopes",
    }
)
KERBEROS_SERVICE_NAME_KEY: Final = "sasl.kerberos.service.name"
GSSAPI_LOGIN_PATTERN: Final = re.compile(r"listener\.name\.[^.]+\.gssapi\.sasl\.jaas\.config")
# Names of the supported security settings in server.properties; key stores and trust stores are PEM files (KIP-651).
SECURITY_SETTING_NAMES = frozenset(
    {
        "sasl.enabled.mechanisms",
        *OAUTHBEARER_KEYS,
        KERBEROS_RULES_KEY,
        KERBEROS_SERVICE_NAME_KEY,
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.client.auth",
        "ssl.key.password",
    }
)
