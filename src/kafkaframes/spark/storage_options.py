"""Options of a store (``s3://``, ``gs://``, ...): Spark's and fsspec's names in, what fsspec's constructor takes out.

Spark's names are those of Hadoop's S3A, with or without ``spark.hadoop.`` before them. What has no name here can be
given as one JSON object, ``storageOptions``, which goes to fsspec as it is and is stronger than the single names.
No pyspark, no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.spark.option_values import boolean

_HADOOP = "spark.hadoop."
WHOLE = "storageoptions"


def _endpoint(text: str) -> str:
    return text if "://" in text else f"https://{text}"


def _addressing(text: str) -> str:
    return "path" if boolean(text) else "auto"


# Spark's or fsspec's name -> the place in fsspec's keyword arguments, and how the text is read.
NAMES: Mapping[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "endpoint_url": (("endpoint_url",), _endpoint),
    "region": (("client_kwargs", "region_name"), str),
    "key": (("key",), str),
    "secret": (("secret",), str),
    "token": (("token",), str),
    "anon": (("anon",), boolean),
    "profile": (("profile",), str),
    "project": (("project",), str),
    "fs.s3a.endpoint": (("endpoint_url",), _endpoint),
    "fs.s3a.endpoint.region": (("client_kwargs", "region_name"), str),
    "fs.s3a.access.key": (("key",), str),
    "fs.s3a.secret.key": (("secret",), str),
    "fs.s3a.session.token": (("token",), str),
    "fs.s3a.path.style.access": (("config_kwargs", "s3", "addressing_style"), _addressing),
    "fs.s3a.connection.ssl.enabled": (("use_ssl",), boolean),
}


def split_storage(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Split options into those of the source and the keyword arguments for fsspec.

    >>> split_storage({"path": "s3://b/logs", "fs.s3a.endpoint": "http://127.0.0.1:9000", "key": "k"})
    ({'path': 's3://b/logs'}, {'endpoint_url': 'http://127.0.0.1:9000', 'key': 'k'})

    Raises:
        OptionError: a value cannot be read.
    """
    others: dict[str, str] = {}
    storage: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    for name, text in options.items():
        lower = name.lower().removeprefix(_HADOOP)
        if lower == WHOLE:
            whole = _whole(text)
        elif lower in NAMES:
            path, parse = NAMES[lower]
            try:
                _put(storage, path, parse(text))
            except ValueError as error:
                raise OptionError(f"option {name}: {error}") from None  # the value may be a secret
        else:
            others[name] = text
    return others, {**storage, **whole}


def _put(storage: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        storage = storage.setdefault(step, {})
    storage[path[-1]] = value


def _whole(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError('option storageOptions: must be JSON such as {"anon": true}')
    return value
