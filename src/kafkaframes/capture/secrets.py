"""Credentials in messages: which fields hold them, and how they are taken out of the JSON form.

Kafka's own request log leaves out SASL exchanges and the values of password configs; here SCRAM's salted passwords,
the HMACs of delegation tokens, and requests forwarded in an Envelope are left out too.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

REDACTED: Final = "(redacted)"
REQUEST, RESPONSE = "request", "response"
_ENVELOPE: Final = 58
# API key and direction -> fields, by their path in JSON; arrays on the way are gone into.
FIELDS: Final[Mapping[tuple[int, str], tuple[tuple[str, ...], ...]]] = {
    (36, REQUEST): (("authBytes",),),
    (36, RESPONSE): (("authBytes",),),
    (38, RESPONSE): (("hmac",),),
    (39, REQUEST): (("hmac",),),
    (40, REQUEST): (("hmac",),),
    (41, RESPONSE): (("tokens", "hmac"),),
    (51, REQUEST): (("upsertions", "salt"), ("upsertions", "saltedPassword")),
}
# Where configurations stand: a value is a secret if its name is.
CONFIGS: Final[Mapping[tuple[int, str], tuple[tuple[str, ...], ...]]] = {
    (19, REQUEST): (("topics", "configs"),),
    (19, RESPONSE): (("topics", "configs"),),
    (32, RESPONSE): (("results", "configs"), ("results", "configs", "synonyms")),
    (33, REQUEST): (("resources", "configs"),),
    (44, REQUEST): (("resources", "configs"),),
}
SECRET_CONFIG: Final = re.compile(
    r"password|secret|jaas|credential|private|token|keystore\.key|certificate\.chain", re.IGNORECASE
)
_FORWARDED: Final = {(_ENVELOPE, REQUEST): "requestData", (_ENVELOPE, RESPONSE): "responseData"}
_APIS: Final = frozenset(key for key, _ in FIELDS) | {19, 32, 33, 44}


def has_secrets(api_key: int) -> bool:
    """Tell whether messages of an API may hold credentials."""
    return api_key in _APIS or api_key == _ENVELOPE


def forwarded_field(api_key: int, direction: str) -> str | None:
    """Return the field of an Envelope that carries another message; None for other APIs."""
    return _FORWARDED.get((api_key, direction))


def without_secrets(api_key: int, direction: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON form of a message with ``(redacted)`` in place of credentials; the same object, changed.

    >>> without_secrets(36, "request", {"authBytes": "AGFsaWNl"})
    {'authBytes': '(redacted)'}
    """
    for path in FIELDS.get((api_key, direction), ()):
        for holder in _holders(body, path[:-1]):
            if holder.get(path[-1]):
                holder[path[-1]] = REDACTED
    for path in CONFIGS.get((api_key, direction), ()):
        for config in _holders(body, path):
            if config.get("value") is not None and SECRET_CONFIG.search(str(config.get("name", ""))):
                config["value"] = REDACTED
    name = _FORWARDED.get((api_key, direction))
    if name is not None and body.get(name) and _is_forwarded_secret(direction, body[name]):
        body[name] = REDACTED
    return body


def _is_forwarded_secret(direction: str, data: str) -> bool:
    """Tell whether what an Envelope carries may hold credentials: a request says its API; a response does not."""
    if direction == RESPONSE:
        return True
    try:
        key = int.from_bytes(base64.b64decode(data[:4])[:2], "big")
    except ValueError:
        return True
    return has_secrets(key)


def _holders(body: Any, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the objects at a path; a list on the way is each of its elements."""
    if isinstance(body, list):
        for one in body:
            yield from _holders(one, path)
    elif isinstance(body, dict):
        if not path:
            yield body
        else:
            yield from _holders(body.get(path[0]), path[1:])
