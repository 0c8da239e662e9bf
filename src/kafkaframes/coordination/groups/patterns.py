"""Regular expressions of requests (KIP-848, KIP-1152): RE2's language, in linear time, by the package ``google-re2``.

Kafka reads them with RE2/J. Without the package, the extra ``re2``, every expression is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode, MissingExtraError


def compile_pattern(text: str) -> Callable[[str], bool]:
    """Return what says whether an expression matches the whole of a text.

    Raises:
        RefusedError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError:
        raise _refused(text, f"the package google-re2 is missing: {MissingExtraError('it', 're2')}") from None
    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        raise _refused(text, error.args[0].decode(errors="replace")) from None
    finally:
        re2.purge()  # it would keep 128 of them, of up to 8 MiB each
    return lambda name: compiled.fullmatch(name) is not None


def _refused(text: str, reason: str) -> RefusedError:
    words = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}."
    return RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, words)
