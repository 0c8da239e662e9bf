"""Resolve placeholders in settings, so that secrets stay out of command lines and settings files.

Placeholders have the syntax of Kafka's config providers (KIP-297, KIP-421, KIP-887). ``${env:NAME}`` is an environment
variable, ``${file:PATH:KEY}`` a key of a properties file, and ``${directory:DIR:FILE}`` the content of a file. Kafka
needs ``config.providers`` for them; here they always work.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from kafkaframes.errors import OptionError

PLACEHOLDER_HELP: Final = "Take secrets from ${file:PATH:KEY} or ${env:NAME}."
_PLACEHOLDER: Final = re.compile(r"\$\{(env|file|directory):([^{}]*)\}")


def resolve_placeholders(settings: Mapping[str, str]) -> dict[str, str]:
    """Replace the placeholders in settings with their values. Placeholders inside these values are not replaced.

    Raises:
        OptionError: a variable is not set, a file cannot be read or can be read by other users, or a key is missing.
            The message does not contain secret values.
    """
    return {name: _PLACEHOLDER.sub(partial(_resolve_placeholder, name), text) for name, text in settings.items()}


def _resolve_placeholder(setting: str, match: re.Match[str]) -> str:
    """Return the value of a placeholder: an environment variable, a key of a file, or a whole file."""
    provider, reference = match[1], match[2]
    if provider == "env":
        if reference not in os.environ:
            raise OptionError(f"{setting}: the environment variable {reference} is not set")
        return os.environ[reference]
    path, separator, key = reference.rpartition(":")
    if not path or not separator or not key:
        placeholder_form = "${file:PATH:KEY}" if provider == "file" else "${directory:DIR:FILE}"
        raise OptionError(f"{setting}: {match[0]} is not of the form {placeholder_form}")
    return _read_key(setting, path, key) if provider == "file" else _read_file(os.path.join(path, key))


def _read_file(path: str) -> str:
    from kafkaframes.broker.security.from_settings import read_private_file

    return read_private_file(path).removesuffix("\n")


def _read_key(setting: str, path: str, key: str) -> str:
    """Return the value of a key in a properties file. A missing key is an error."""

    from kafkaframes.broker.security.from_settings import read_private_file
    from kafkaframes.broker.settings.properties import parse_properties

    values = parse_properties(read_private_file(path).encode(), file=path)
    if key not in values:
        raise OptionError(f"{setting}: {path} has no key {key}")
    return values[key]
