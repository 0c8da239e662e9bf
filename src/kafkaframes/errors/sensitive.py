"""Redaction of secrets in settings, texts and Kafka's messages.

This redaction is used for request logs, journals, captures, errors, reprs and Spark plans. A setting, option, query
parameter or header is secret if its name contains a word such as ``password``, in any spelling (``ssl.key.password``,
``clientSecret``). The rule also covers the settings of object stores, schema registries and connectors. Names with an
ending such as ``token.endpoint.url`` or ``private.key.file`` are not secret.

Kafka's request log omits SASL exchanges and the values of password settings. This module also redacts SCRAM's salted
passwords, HMACs of delegation tokens, and secret requests in an Envelope.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

REDACTED_TEXT: Final = "(redacted)"
REQUEST, RESPONSE = "request", "response"

_SECRET_WORDS: Final = (
    r"pass(?:word|phrase|wd)|(?<![a-z])pwd(?![a-z])|secret(?!s$)|jaas|credential|token|hmac|signature|cookie|"
    r"authorization|assertion(?!\.)|(?:private|access|account|api|master|shared|keystore)[._-]?key|"
    r"certificate[._-]?chain|truststore[._-]?certificates|user[._-]?info|connection[._-]?string"
)
_SECRET_NAME_PATTERN: Final = re.compile(
    rf"{_SECRET_WORDS}|(?:^|[._-])key$|^(?:sig|sas|storage_?options)$", re.IGNORECASE
)
_HARMLESS_NAME_PATTERN: Final = re.compile(
    r"(?:[._-](?:ms|url|file|provider|source|class|type|location|algorithm|iterations|length|client[._-]id)|[a-z]Url)$"
    r"|^tokens?[._-]?id$|(?:^|[._-])tokenauth$",  # a flag: whether the client uses a delegation token
    re.IGNORECASE,
)
_QUOTED_STRING: Final = r"\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?"
_NAME_VALUE_PATTERN: Final = re.compile(
    rf"(?<![\w.-])(?P<name>[\w.-]{{0,200}}?(?:{_SECRET_WORDS})[\w.-]{{0,200}})(?P<equals>\\?[\"']?\s{{0,9}}[=:]\s{{0,9}})"
    rf"(?P<value>b?(?:{_QUOTED_STRING})|[^\s,;&{{}}\[\]()]+)",
    re.IGNORECASE,
)
_API_KEY_PATTERN: Final = re.compile(
    r"\w*api_?key\W{1,12}-?\d{1,5}", re.IGNORECASE
)  # the numeric key of a Kafka API is not secret
_AUTHORIZATION_PATTERN: Final = re.compile(r"\b(Bearer|Basic)\s+[^\s\"',;]+", re.IGNORECASE)
_URL_USER_PATTERN: Final = re.compile(r"(?<=://)[^/?#\s\"']*@")
_URL_PARAMETER_PATTERN: Final = re.compile(r"(?<=[?&])(?P<name>[^=?&#\s]{1,200})=(?P<value>[^&#\s\"']*)")

# (API key, direction) -> JSON paths of secret fields. A path continues in each element of an array.
SECRET_FIELDS: Final[Mapping[tuple[int, str], tuple[tuple[str, ...], ...]]] = {
    (36, REQUEST): (("authBytes",),),
    (36, RESPONSE): (("authBytes",),),
    (38, RESPONSE): (("hmac",),),
    (39, REQUEST): (("hmac",),),
    (40, REQUEST): (("hmac",),),
    (41, RESPONSE): (("tokens", "hmac"),),
    (51, REQUEST): (("upsertions", "salt"), ("upsertions", "saltedPassword")),
}
# (API key, direction) -> JSON paths of settings. A setting's value is secret if its name is.
CONFIG_FIELDS: Final[Mapping[tuple[int, str], tuple[tuple[str, ...], ...]]] = {
    (19, REQUEST): (("topics", "configs"),),
    (19, RESPONSE): (("topics", "configs"),),
    (32, RESPONSE): (("results", "configs"), ("results", "configs", "synonyms")),
    (33, REQUEST): (("resources", "configs"),),
    (44, REQUEST): (("resources", "configs"),),
    (88, REQUEST): (
        ("topology", "subtopologies", "repartitionSourceTopics", "topicConfigs"),
        ("topology", "subtopologies", "stateChangelogTopics", "topicConfigs"),
    ),
}
CONFIG_NAME_FIELDS: Final = ("name", "key")  # fields that contain the name of a setting, next to ``value``
_ENVELOPE_API_KEY: Final = 58
_ENVELOPE_FIELDS: Final = {(_ENVELOPE_API_KEY, REQUEST): "requestData", (_ENVELOPE_API_KEY, RESPONSE): "responseData"}
_REDACTED_API_KEYS: Final = frozenset(key for key, _ in (*SECRET_FIELDS, *CONFIG_FIELDS, *_ENVELOPE_FIELDS))


def is_secret(name: str) -> bool:
    """Return whether the value of a setting, option, query parameter or header is secret.

    >>> [is_secret(name) for name in ("listener.name.x.ssl.key.password", "sasl_password", "clientSecret")]
    [True, True, True]
    >>> [is_secret(name) for name in ("retention.ms", "sasl.oauthbearer.token.endpoint.url", "secrets")]
    [False, False, False]
    """
    return _SECRET_NAME_PATTERN.search(name) is not None and _HARMLESS_NAME_PATTERN.search(name) is None


def redact_value(name: str, value: Any) -> Any:
    """Return a setting's value for display: ``(redacted)`` if it is secret, else with redacted parts of its text.

    >>> redact_value("ssl.key.password", "x"), redact_value("retention.ms", 5)
    ('(redacted)', 5)
    >>> redact_value("url", "http://me:pw@host/?token=x&v=1")
    'http://(redacted)@host/?token=(redacted)&v=1'
    """
    if value is not None and is_secret(name):
        return REDACTED_TEXT
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """Redact the values of secret names, the user info of URLs, and bearer and basic tokens in a text.

    >>> redact_text('PlainLoginModule required username="a" password="b \\\\" c"; {"hmac": "x"}')
    'PlainLoginModule required username="a" password=(redacted); {"hmac": (redacted)}'
    >>> redact_text("https://a:b@host/x?sig=1&se=2 Authorization: Bearer eyJ.x")
    'https://(redacted)@host/x?sig=(redacted)&se=2 Authorization: (redacted)'
    """
    text = _URL_USER_PATTERN.sub(f"{REDACTED_TEXT}@", text)
    text = _URL_PARAMETER_PATTERN.sub(_create_match_redactor("="), text)
    text = _AUTHORIZATION_PATTERN.sub(REDACTED_TEXT, text)
    return _NAME_VALUE_PATTERN.sub(_create_match_redactor(None), text)


def _create_match_redactor(equals: str | None) -> Callable[[re.Match[str]], str]:
    """Return a function that replaces the secret value of a match. ``equals`` replaces the matched separator."""

    def redact_match(match: re.Match[str]) -> str:
        if not is_secret(match["name"]) or _API_KEY_PATTERN.fullmatch(match[0]) is not None:
            return match[0]
        return f"{match['name']}{equals or match['equals']}{REDACTED_TEXT}"

    return redact_match


def has_secrets(api_key: int) -> bool:
    """Return whether messages of an API may contain secrets."""
    return api_key in _REDACTED_API_KEYS


def find_envelope_field(api_key: int, direction: str) -> str | None:
    """Return the field of an Envelope that contains the forwarded message; None for other APIs."""
    return _ENVELOPE_FIELDS.get((api_key, direction))


def redact_json(api_key: int, direction: str, body: dict[str, Any]) -> dict[str, Any]:
    """Redact the secrets in a message's JSON form in place, and return the JSON form.

    >>> redact_json(36, "request", {"authBytes": "AGFsaWNl"})
    {'authBytes': '(redacted)'}
    """
    for path in SECRET_FIELDS.get((api_key, direction), ()):
        for holder in _iterate_objects_at(body, path[:-1]):
            if isinstance(holder, dict) and holder.get(path[-1]):
                holder[path[-1]] = REDACTED_TEXT
    for path in CONFIG_FIELDS.get((api_key, direction), ()):
        for config in _iterate_objects_at(body, path):
            if isinstance(config, dict) and config.get("value") is not None and is_secret(_config_name(config)):
                config["value"] = REDACTED_TEXT
    name = find_envelope_field(api_key, direction)
    if name is not None and body.get(name) and _is_forwarded_secret(direction, body[name]):
        body[name] = REDACTED_TEXT
    return body


def redact_message(api_key: int, direction: str, message: Any) -> Any:
    """Return a redacted copy of a message object, or the object itself if its API has no secrets."""
    if not has_secrets(api_key):
        return message
    message = copy.deepcopy(message)
    field = find_envelope_field(api_key, direction)
    paths = SECRET_FIELDS.get((api_key, direction), ()) + (((field,),) if field is not None else ())
    for path in paths:
        for holder in _iterate_objects_at(message, path[:-1]):
            _redact_attribute(holder, path[-1])
    for path in CONFIG_FIELDS.get((api_key, direction), ()):
        for config in _iterate_objects_at(message, path):
            if is_secret(next((getattr(config, name) for name in CONFIG_NAME_FIELDS if hasattr(config, name)), "")):
                _redact_attribute(config, "value")
    return message


def _redact_attribute(holder: Any, field: str) -> None:
    name = _attribute_name(field)
    value = getattr(holder, name, None)
    if value:
        setattr(holder, name, REDACTED_TEXT.encode() if isinstance(value, bytes) else REDACTED_TEXT)


def _attribute_name(field: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", field).lower()


def _config_name(config: Mapping[str, Any]) -> str:
    return next((str(config[name]) for name in CONFIG_NAME_FIELDS if name in config), "")


def _is_forwarded_secret(direction: str, data: str) -> bool:
    """Return whether a forwarded message may contain secrets.

    A request starts with its API key. A response does not specify its API, so any response may contain secrets.
    """
    if direction == RESPONSE:
        return True
    try:
        key = int.from_bytes(base64.b64decode(data[:4])[:2], "big")
    except ValueError:
        return True
    return has_secrets(key)


def _iterate_objects_at(body: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the JSON or message objects at a path. The path continues in each element of a list."""
    if isinstance(body, list):
        for element in body:
            yield from _iterate_objects_at(element, path)
    elif body is not None and not path:
        yield body
    elif body is not None:
        child = body.get(path[0]) if isinstance(body, dict) else getattr(body, _attribute_name(path[0]), None)
        yield from _iterate_objects_at(child, path[1:])
