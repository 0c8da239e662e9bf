"""HTTP requests to registries, token endpoints and key issuers. Passwords are never sent to another server."""

from __future__ import annotations

import ipaddress
import ssl
import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class _SameOriginRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that follows redirects within a server. A redirect to another server is returned as an error."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the next request, or None."""
        if _origin(newurl) != _origin(req.full_url):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(request: urllib.request.Request, *, timeout_seconds: float, context: ssl.SSLContext | None = None) -> Any:
    """Send a request and return the response, which the caller closes. Loopback addresses are accessed without a proxy.

    Raises:
        OSError: the server did not respond, or it responded with an error or a redirect to another server
            (``urllib.error.HTTPError``).
        ValueError: the URL is invalid.
    """
    handlers: list[Any] = [_SameOriginRedirects]
    if is_loopback(urlsplit(request.full_url).hostname or ""):
        handlers.append(urllib.request.ProxyHandler({}))
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers).open(request, timeout=timeout_seconds)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is a loopback address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "127.0.0.1.example", "10.0.0.1")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
