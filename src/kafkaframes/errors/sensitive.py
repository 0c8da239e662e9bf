"""What is secret: names of settings, options, query parameters and headers, and the fields of Kafka's messages.

The one list for request logs, journals, captures, errors, reprs and Spark's plans. Names are judged by what they say,
so that settings of other systems (stores, registries, connectors) are covered in every spelling: ``ssl.key.password``,
``sasl_password``, ``clientSecret``. A name that ends as ``token.endpoint.url`` or ``private.key.file`` do is none.
Kafka's request log leaves out SASL exchanges and values of password settings; here SCRAM's salted passwords, HMACs of
delegation tokens, and secret requests that an Envelope forwards are left out, too.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

REDACTED: Final = "(redacted)"
REQUEST, RESPONSE = "request", "response"

_WORDS: Final = (
    r"pass(?:word|phrase|wd)|(?<![a-z])pwd(?![a-z])|secret(?!s$)|jaas|credential|token|hmac|signature|cookie|"
    r"authorization|assertion(?!\.)|(?:private|access|account|api|master|shared|keystore)[._-]?key|"
    r"certificate[._-]?chain|truststore[._-]?certificates|user[._-]?info|connection[._-]?string"
)
_SECRET_NAME: Final = re.compile(rf"{_WORDS}|(?:^|[._-])key$|^(?:sig|sas|storage_?options)$", re.IGNORECASE)
_NO_SECRET: Final = re.compile(
    r"(?:[._-](?:ms|url|file|provider|source|class|type|location|algorithm|iterations|length|client[._-]id)|[a-z]Url)$"
    r"|^tokens?[._-]?id$|(?:^|[._-])tokenauth$",  # whether a delegation token comes in: true or false
    re.IGNORECASE,
)
_QUOTED: Final = r"\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?"
_PAIR: Final = re.compile(
    rf"(?<![\w.-])(?P<name>[\w.-]{{0,200}}?(?:{_WORDS})[\w.-]{{0,200}})(?P<equals>\\?[\"']?\s{{0,9}}[=:]\s{{0,9}})"
    rf"(?P<value>b?(?:{_QUOTED})|[^\s,;&{{}}\[\]()]+)",
    re.IGNORECASE,
)
_API_KEY: Final = re.compile(r"\w*api_?key\W{1,12}-?\d{1,5}", re.IGNORECASE)  # Kafka's number of an API
_SCHEME: Final = re.compile(r"\b(Bearer|Basic)\s+[^\s\"',;]+", re.IGNORECASE)
_USER_INFO: Final = re.compile(r"(?<=://)[^/?#\s\"']*@")
_PARAMETER: Final = re.compile(r"(?<=[?&])(?P<name>[^=?&#\s]{1,200})=(?P<value>[^&#\s\"']*)")

# API key and direction -> secret fields, by their path in JSON; arrays on the path are entered.
FIELDS: Final[Mapping[tuple[int, str], tuple[tuple[str, ...], ...]]] = {
    (36, REQUEST): (("authBytes",),),
    (36, RESPONSE): (("authBytes",),),
    (38, RESPONSE): (("hmac",),),
    (39, REQUEST): (("hmac",),),
    (40, REQUEST): (("hmac",),),
    (41, RESPONSE): (("tokens", "hmac"),),
    (51, REQUEST): (("upsertions", "salt"), ("upsertions", "saltedPassword")),
}
# Where settings stand in messages: a value is secret if its name is.
CONFIGS: Final[Mapping[tuple[int, str], tuple[tuple[str, ...], ...]]] = {
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
CONFIG_NAMES: Final = ("name", "key")  # the field that names a setting, beside ``value``
_ENVELOPE: Final = 58
_FORWARDED: Final = {(_ENVELOPE, REQUEST): "requestData", (_ENVELOPE, RESPONSE): "responseData"}
_APIS: Final = frozenset(key for key, _ in (*FIELDS, *CONFIGS, *_FORWARDED))


def is_secret(name: str) -> bool:
    """Return whether what has this name (a setting, option, query parameter, header) is a secret.

    >>> [is_secret(name) for name in ("listener.name.x.ssl.key.password", "sasl_password", "clientSecret")]
    [True, True, True]
    >>> [is_secret(name) for name in ("retention.ms", "sasl.oauthbearer.token.endpoint.url", "secrets")]
    [False, False, False]
    """
    return _SECRET_NAME.search(name) is not None and _NO_SECRET.search(name) is None


def shown(name: str, value: Any) -> Any:
    """Return a value as it may be shown: ``(redacted)`` for a secret, texts without the secrets inside them.

    >>> shown("ssl.key.password", "x"), shown("retention.ms", 5), shown("url", "http://me:pw@host/?token=x&v=1")
    ('(redacted)', 5, 'http://(redacted)@host/?token=(redacted)&v=1')
    """
    if value is not None and is_secret(name):
        return REDACTED
    return without_secrets_in_text(value) if isinstance(value, str) else value


def without_secrets_in_text(text: str) -> str:
    """Return a message, repr or URL without values behind secret names, users in URLs, bearer and basic tokens.

    >>> without_secrets_in_text('PlainLoginModule required username="a" password="b \\\\" c"; {"hmac": "x"}')
    'PlainLoginModule required username="a" password=(redacted); {"hmac": (redacted)}'
    >>> without_secrets_in_text("https://a:b@host/x?sig=1&se=2 Authorization: Bearer eyJ.x")
    'https://(redacted)@host/x?sig=(redacted)&se=2 Authorization: (redacted)'
    """
    text = _USER_INFO.sub(f"{REDACTED}@", text)
    text = _PARAMETER.sub(_hidden_value("="), text)
    text = _SCHEME.sub(REDACTED, text)
    return _PAIR.sub(_hidden_value(None), text)


def _hidden_value(equals: str | None) -> Callable[[re.Match[str]], str]:
    def hidden(match: re.Match[str]) -> str:
        if not is_secret(match["name"]) or _API_KEY.fullmatch(match[0]) is not None:
            return match[0]
        return f"{match['name']}{equals or match['equals']}{REDACTED}"

    return hidden


def has_secrets(api_key: int) -> bool:
    """Return whether messages of an API may hold secrets."""
    return api_key in _APIS


def forwarded_field(api_key: int, direction: str) -> str | None:
    """Return the field of an Envelope that carries another message; None for other APIs."""
    return _FORWARDED.get((api_key, direction))


def without_secrets(api_key: int, direction: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON form of a message with ``(redacted)`` in place of secrets; the same object, changed.

    >>> without_secrets(36, "request", {"authBytes": "AGFsaWNl"})
    {'authBytes': '(redacted)'}
    """
    for path in FIELDS.get((api_key, direction), ()):
        for holder in _holders(body, path[:-1]):
            if isinstance(holder, dict) and holder.get(path[-1]):
                holder[path[-1]] = REDACTED
    for path in CONFIGS.get((api_key, direction), ()):
        for config in _holders(body, path):
            if isinstance(config, dict) and config.get("value") is not None and is_secret(_name_of(config)):
                config["value"] = REDACTED
    name = forwarded_field(api_key, direction)
    if name is not None and body.get(name) and _is_forwarded_secret(direction, body[name]):
        body[name] = REDACTED
    return body


def message_without_secrets(api_key: int, direction: str, message: Any) -> Any:
    """Return a message's object as ``without_secrets`` its JSON; the message itself, where its API has no secrets."""
    if not has_secrets(api_key):
        return message
    message = copy.deepcopy(message)
    forwarded = forwarded_field(api_key, direction)
    paths = FIELDS.get((api_key, direction), ()) + (((forwarded,),) if forwarded is not None else ())
    for path in paths:
        for holder in _holders(message, path[:-1]):
            _blank(holder, path[-1])
    for path in CONFIGS.get((api_key, direction), ()):
        for config in _holders(message, path):
            if is_secret(next((getattr(config, name) for name in CONFIG_NAMES if hasattr(config, name)), "")):
                _blank(config, "value")
    return message


def _blank(holder: Any, field: str) -> None:
    name = _attribute(field)
    value = getattr(holder, name, None)
    if value:
        setattr(holder, name, REDACTED.encode() if isinstance(value, bytes) else REDACTED)


def _attribute(field: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", field).lower()


def _name_of(config: Mapping[str, Any]) -> str:
    return next((str(config[name]) for name in CONFIG_NAMES if name in config), "")


def _is_forwarded_secret(direction: str, data: str) -> bool:
    """Return whether what an Envelope carries may hold secrets: a request says its API, a response does not."""
    if direction == RESPONSE:
        return True
    try:
        key = int.from_bytes(base64.b64decode(data[:4])[:2], "big")
    except ValueError:
        return True
    return has_secrets(key)


def _holders(body: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the objects at a path, of JSON or of messages; a list on the path stands for each of its elements."""
    if isinstance(body, list):
        for element in body:
            yield from _holders(element, path)
    elif body is not None and not path:
        yield body
    elif body is not None:
        below = body.get(path[0]) if isinstance(body, dict) else getattr(body, _attribute(path[0]), None)
        yield from _holders(below, path[1:])
