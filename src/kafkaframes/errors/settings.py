"""Names of settings in messages: below Spark and the command line they stand in backticks, under Python's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkaframes.errors.exceptions import KafkaframesError

_NAME: Final = re.compile(r"`([a-z_]+)`")


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a message with the reader's names of settings: an option of Spark's, or a flag.

    >>> with_names("`start`: no such offset; see `kafkaframes info`", {"start": "startingOffsets"})
    'startingOffsets: no such offset; see `kafkaframes info`'
    """
    return _NAME.sub(lambda match: names.get(match[1], match[0]), text)


def rename_settings(error: KafkaframesError, names: Mapping[str, str]) -> None:
    """Have an error speak the reader's names of settings; one without a position keeps its message in ``args``."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        error.reason = with_names(reason, names)  # type: ignore[attr-defined]
    error.args = tuple(with_names(one, names) if isinstance(one, str) else one for one in error.args)
