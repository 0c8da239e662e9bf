"""Providers of bearer tokens: OpenID Connect (KIP-768), a function of the user, and Amazon's credentials.

The IAM login of Amazon MSK uses a SigV4 token (with the extra ``msk``). Java's clients have Amazon's own mechanism. All
other clients, including this one, use OAUTHBEARER at the same port, with a token that is valid for 15 minutes.

A token is cached for all connections of a process, for four fifths of its lifetime. Providers block, so
``request_token`` calls them in a thread.
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafkaframes.client.configured_objects import load_object
from kafkaframes.client.loop import run_in_thread
from kafkaframes.errors import KafkaframesError, NetworkError, OptionError, import_extra
from kafkaframes.errors.sensitive import redact_text
from kafkaframes.storage.files.http_client import open_url

_RESPONSE_TIMEOUT_S: Final = 10.0
_MAX_RESPONSE_BYTES: Final = 1 << 20
_MAX_ATTEMPTS: Final = 3
_TOKEN_REUSE_FRACTION: Final = 0.8  # fraction of its lifetime for which a token is reused
_UNKNOWN_LIFETIME_S: Final = 60.0  # assumed if the token response has no expires_in
_REGION_PATTERN: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SIGNER_NAME: Final = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"
_DEFAULT_SESSION_NAME: Final = "MSKSASLDefaultSession"


@dataclass(frozen=True)
class ClientCredentialsProvider:
    """Fetches tokens from an endpoint with a client's id and secret (RFC 6749, 4.4).

    Attributes:
        url: URL of the token endpoint, https or http.
        scope: requested scope; None requests no scope.
        encodes: whether id and secret are URL-encoded first (``sasl.oauthbearer.header.urlencode``).
        authorities: trusted PEM certificates for the endpoint; None for the system's trusted certificates.
    """

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    encodes: bool = False
    authorities: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise OptionError("sasl.oauthbearer.token.endpoint.url is not an http or https URL")

    def __call__(self) -> str:
        """Return a valid token.

        Raises:
            NetworkError: the endpoint does not respond or returns no token. The error has the endpoint's message
                without secrets.
        """
        with _lock:
            cached_token = _tokens.get(self)
            if cached_token is not None and time.monotonic() < cached_token[1]:
                return cached_token[0]
            token, life = self._fetch_token()
            _tokens[self] = token, time.monotonic() + life * _TOKEN_REUSE_FRACTION
            return token

    def discard(self, token: str) -> None:
        """Do not reuse a token that a broker has rejected, for example after the keys of its issuer have changed."""
        with _lock:
            if _tokens.get(self, ("", 0.0))[0] == token:
                del _tokens[self]

    @property
    def _shown(self) -> str:
        return redact_text(self.url)

    def _fetch_token(self) -> tuple[str, float]:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                return self._request_token()
            except urllib.error.HTTPError as error:
                with error:
                    reason = redact_text(error.read(500).decode(errors="replace"))
                if error.code < 500 or attempt == _MAX_ATTEMPTS - 1:
                    raise NetworkError(
                        f"{self._shown} returned no token: {error.code} {error.reason} {reason}"
                    ) from None
            except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError) as error:
                if attempt == _MAX_ATTEMPTS - 1:
                    raise NetworkError(f"{self._shown} returned no token: {error!r}") from None
            time.sleep(0.2 * 2**attempt)
        raise AssertionError("unreachable")

    def _request_token(self) -> tuple[str, float]:
        credentials = (self.client_id, self.client_secret)
        quoted_credentials = [urllib.parse.quote_plus(entry) for entry in credentials] if self.encodes else credentials
        secret = base64.b64encode(":".join(quoted_credentials).encode()).decode()
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        request = urllib.request.Request(
            self.url,
            urllib.parse.urlencode(form).encode(),
            {
                "Authorization": f"Basic {secret}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        context = ssl.create_default_context(cadata=self.authorities) if self.url.startswith("https") else None
        with open_url(request, timeout_seconds=_RESPONSE_TIMEOUT_S, context=context) as answer:
            fields: Any = json.loads(answer.read(_MAX_RESPONSE_BYTES))
        token = fields["access_token"]
        if not isinstance(token, str) or not token:
            raise ValueError("access_token is not text")
        return token, float(fields.get("expires_in") or _UNKNOWN_LIFETIME_S)


_tokens: dict[ClientCredentialsProvider, tuple[str, float]] = {}
_lock = threading.Lock()


async def request_token(source: str | Callable[[], Any]) -> str:
    """Return a token from a setting: the token itself, or the result of a function, which is called in a thread.

    Surrounding whitespace is removed: tokens from files often end with a newline, which brokers reject.

    Raises:
        NetworkError: the function failed or returned no token. A later call may succeed, so clients retry.
    """
    token: Any = source
    if callable(source):
        try:
            token = await run_in_thread(source)
            token = await token if inspect.isawaitable(token) else token
        except KafkaframesError:
            raise
        except Exception as error:
            reason = redact_text(f"{type(error).__name__}: {error}")
            raise NetworkError(f"the function in sasl_oauthbearer_token failed: {reason}") from error
    if isinstance(token, bytes):
        token = token.decode("ascii", "replace")
    if not isinstance(token, str) or not token.strip():
        kind = "empty text" if isinstance(token, str) else f"a value of type {type(token).__name__}"
        raise NetworkError(f"sasl_oauthbearer_token returned {kind}; expected an access token as text")
    return token.strip()


def open_token_file(url: str) -> Callable[[], str]:
    """Return a function that reads a token from a file, as Java's clients do for a token endpoint ``file:///...``.

    The file is read for each connection, because another program may replace an expired token.
    """
    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))

    def read_token_file() -> str:
        try:
            return path.read_text()
        except (OSError, ValueError) as error:
            raise NetworkError(f"sasl.oauthbearer.token.endpoint.url: {path} cannot be read: {error}") from None

    return read_token_file


def load_provider(name: str) -> Callable[[], Any]:
    """Return the function ``module:function``, which returns a token without arguments.

    Raises:
        OptionError: the function does not exist.
    """
    result = load_object("sasl.oauthbearer.token.provider", name)
    if not callable(result):
        raise OptionError(f"sasl.oauthbearer.token.provider={name}: expected a function")
    provider: Callable[[], Any] = result
    return provider


@dataclass
class IamTokenProvider:
    """Provides tokens for a region. Any thread may call the provider.

    Attributes:
        region: AWS region of the cluster, such as ``eu-west-1``.
        profile: profile in ``~/.aws``; None for the default chain of credentials.
        role: ARN of the role to assume; None for no role.
        session: session name for the role.
    """

    region: str
    profile: str | None = None
    role: str | None = None
    session: str = _DEFAULT_SESSION_NAME
    _token: str = field(default="", repr=False)
    _fresh_until: float = field(default=0.0, repr=False)

    def __call__(self) -> str:
        """Return a valid token.

        Raises:
            MissingExtraError: Amazon's signer is not installed.
        """
        if time.time() >= self._fresh_until:
            self._token, expires_ms = self._sign_token()
            self._fresh_until = time.time() + (expires_ms / 1000 - time.time()) * _TOKEN_REUSE_FRACTION
        return self._token

    def _sign_token(self) -> tuple[str, int]:
        signer = import_extra("sasl.mechanism AWS_MSK_IAM", "msk", _SIGNER_NAME)
        signed_token: tuple[str, int]
        if self.role is not None:
            signed_token = signer.generate_auth_token_from_role_arn(self.region, self.role, self.session)
        elif self.profile is not None:
            signed_token = signer.generate_auth_token_from_profile(self.region, self.profile)
        else:
            signed_token = signer.generate_auth_token(self.region)
        return signed_token


def create_iam_provider(
    hosts: list[str], options: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> IamTokenProvider:
    """Return a provider of IAM tokens for the region of a cluster of Amazon MSK.

    Args:
        hosts: host names of the bootstrap servers. The host names of MSK contain the region.
        options: options of Amazon's login module: ``awsProfileName``, ``awsRoleArn``, ``awsRoleSessionName``.
        environ: environment, which has the region if no host name has it.

    Raises:
        OptionError: the region is unknown.
    """
    regions = [match[1] for host in hosts if (match := _REGION_PATTERN.search(host)) is not None]
    regions += [environ[name] for name in _REGION_VARIABLES if environ.get(name)]
    if not regions:
        raise OptionError(
            "sasl.mechanism AWS_MSK_IAM needs a region: the names of the bootstrap servers contain none, and "
            f"{' and '.join(_REGION_VARIABLES)} are not set"
        )
    profile, role = options.get("awsProfileName"), options.get("awsRoleArn")
    return IamTokenProvider(regions[0], profile, role, options.get("awsRoleSessionName", _DEFAULT_SESSION_NAME))
