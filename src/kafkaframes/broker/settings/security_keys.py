"""The keys of ``server.properties`` that configure authentication and TLS."""

from __future__ import annotations

import re
from typing import Final

KERBEROS_RULES: Final = "sasl.kerberos.principal.to.local.rules"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
ALLOW_UNSECURED: Final = "kafkaframes.sasl.oauthbearer.allow.unsecured"
TOKEN_KEYS: Final = frozenset(
    {
        JWKS_URL,
        ALLOW_UNSECURED,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.scope.claim.name",
        "kafkaframes.sasl.oauthbearer.required.scopes",
    }
)
KERBEROS_SERVICE_NAME: Final = "sasl.kerberos.service.name"
GSSAPI_LOGIN_PATTERN: Final = re.compile(r"listener\.name\.[^.]+\.gssapi\.sasl\.jaas\.config")
# Supported keys of server.properties; key stores and trust stores are PEM files (KIP-651).
SECURITY_KEYS = frozenset(
    {
        "sasl.enabled.mechanisms",
        *TOKEN_KEYS,
        KERBEROS_RULES,
        KERBEROS_SERVICE_NAME,
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.client.auth",
        "ssl.key.password",
    }
)
