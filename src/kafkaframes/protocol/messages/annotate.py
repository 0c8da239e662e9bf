"""Explain each byte of a message as a list of runs, for ``kafkaframes decode`` and ``diff``. No printing.

A run contains the bytes of one read operation: a number, a text with its length, a count, or a tag. Invalid bytes yield
    the runs
up to the error, and the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final
from uuid import UUID

from kafkaframes.errors import DecodeError, SpecError
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.codec import is_strict_mode
from kafkaframes.protocol.messages.headers import peek_request, request_header_class, response_header_class
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.wire.primitives import uuid_to_text

_SIZE_PREFIX_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class AnnotatedRange:
    """Bytes ``start`` to ``end`` and their meaning: a field's path and value, or a count, a tag, a size."""

    start: int
    end: int
    path: str
    what: str
    value: Any

    def text(self) -> str:
        """Return the value in readable form, at most about 60 characters long."""
        if isinstance(self.value, UUID):
            return uuid_to_text(self.value)
        if isinstance(self.value, bytes):
            short = self.value[:16].hex()
            return f"{len(self.value)} bytes{': ' + short if short else ''}{'...' if len(self.value) > 16 else ''}"
        if self.value is None:
            return "null"
        text = repr(self.value)
        return text if len(text) <= 60 else f"{text[:56]}... ({len(self.value)} characters)"


@dataclass(slots=True)
class AnnotatedMessage:
    """The runs of a message's bytes; if they end before ``size_bytes``, ``error`` is the reason, otherwise None."""

    size_bytes: int
    runs: list[AnnotatedRange] = field(default_factory=list)
    values: list[tuple[str, int, Any]] = field(default_factory=list)  # message, version, value
    error: DecodeError | None = None

    @property
    def position(self) -> int:
        """End of the last run."""
        return self.runs[-1].end if self.runs else 0


class _Annotator:
    """A builder of an ``AnnotatedMessage``, which decodes the message."""

    def __init__(self, data: bytes, mode: str) -> None:
        self.data = data
        self.strict = is_strict_mode(mode)
        self.result = AnnotatedMessage(len(data))
        self.position = 0

    def make_trace(self, title: str) -> Callable[[int, int, tuple[str | int, ...], str, Any], None]:
        """Return a function that adds a run; its path starts with ``title``."""

        def trace(start: int, end: int, path: tuple[str | int, ...], what: str, value: Any) -> None:
            steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
            self.result.runs.append(AnnotatedRange(start, end, f"{title}{steps}", what, value))

        return trace

    def read_size_prefix(self, apis: ApiRegistry = CATALOG, *, is_request: bool = False) -> None:
        """Read a size prefix if its value matches, or if only the bytes after it start a request."""
        if len(self.data) <= _SIZE_PREFIX_BYTES:
            return
        size = int.from_bytes(self.data[:_SIZE_PREFIX_BYTES], signed=True)
        is_prefix_of_request = (
            is_request
            and _starts_with_request(self.data[_SIZE_PREFIX_BYTES:], apis)
            and not _starts_with_request(self.data, apis)
        )
        if size == len(self.data) - _SIZE_PREFIX_BYTES or is_prefix_of_request:
            self.result.runs.append(AnnotatedRange(0, _SIZE_PREFIX_BYTES, "Size", "int32", size))
            self.position = _SIZE_PREFIX_BYTES

    def read_message(self, cls: type[Message], version: int) -> Any:
        """Decode the message at the current position, and add its runs."""
        name = cls.spec.name
        codec = cls._codec(version, DecodeError)
        try:
            trace = self.make_trace(name)
            value, self.position = codec.decode_interpreted(self.data, self.position, strict=self.strict, trace=trace)
        except DecodeError as error:
            raise error.within(name) from None
        self.result.values.append((name, version, value))
        return value

    def finish(self) -> AnnotatedMessage:
        """Return the result; bytes after the message are an error."""
        if self.result.error is None and self.position < len(self.data):
            reason = f"{len(self.data) - self.position} bytes remain after the message"
            self.result.error = DecodeError(reason, position=self.position)
        return self.result


def annotate_request(data: bytes, *, mode: str = "reference", apis: ApiRegistry = CATALOG) -> AnnotatedMessage:
    """Return the runs of a request with its header, with or without size prefix; the header specifies the API."""
    work = _Annotator(data, mode)
    work.read_size_prefix(apis, is_request=True)
    try:
        key, version, _ = peek_request(data[work.position :])
        cls = _find_body_class(key, "request", version, apis)
        valid = cls.spec.valid_versions
        is_supported = valid.contains(version)
        work.read_message(request_header_class(), cls.spec.header_version(version if is_supported else valid.highest))
        if is_supported or key != API_VERSIONS:
            work.read_message(cls, version)
    except DecodeError as error:
        work.result.error = error
    return work.finish()


def annotate_response(
    data: bytes, api_key: int, version: int, *, mode: str = "reference", apis: ApiRegistry = CATALOG
) -> AnnotatedMessage:
    """Return the runs of a response with its header, with or without size prefix."""
    work = _Annotator(data, mode)
    work.read_size_prefix()
    try:
        cls = _find_body_class(api_key, "response", version, apis)
        work.read_message(response_header_class(), cls.spec.header_version(version))
        work.read_message(cls, version)
    except DecodeError as error:
        work.result.error = error
    return work.finish()


def annotate_body(data: bytes, cls: type[Message], version: int, *, mode: str = "reference") -> AnnotatedMessage:
    """Return the runs of a message body without size prefix and header."""
    work = _Annotator(data, mode)
    try:
        work.read_message(cls, version)
    except DecodeError as error:
        work.result.error = error
    return work.finish()


def _starts_with_request(data: bytes, apis: ApiRegistry) -> bool:
    """Return whether the bytes start with the header of a request in ``apis``."""
    try:
        key, version, _ = peek_request(data)
        return _find_body_class(key, "request", version, apis).spec.valid_versions.contains(version)
    except DecodeError:
        return False


def _find_body_class(key: int, type_: str, version: int, apis: ApiRegistry) -> type[Message]:
    """Return the class of a message body; raise ``DecodeError`` if it does not exist."""
    try:
        return apis.message_class(key, type_, version)
    except SpecError as error:
        raise DecodeError(str(error), position=0) from None


def pair_runs(
    first: AnnotatedMessage, second: AnnotatedMessage
) -> Iterator[tuple[AnnotatedRange | None, AnnotatedRange | None]]:
    """Yield the runs of two encodings in pairs, matched by field; a field that one side lacks is paired with None."""
    fields = [(run.path, run.what.split()[0]) for run in first.runs]
    other = [(run.path, run.what.split()[0]) for run in second.runs]
    for kind, i, i_end, j, j_end in SequenceMatcher(None, fields, other, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(first.runs[i:i_end], second.runs[j:j_end], strict=True)
            continue
        yield from ((run, None) for run in first.runs[i:i_end])
        yield from ((None, run) for run in second.runs[j:j_end])
