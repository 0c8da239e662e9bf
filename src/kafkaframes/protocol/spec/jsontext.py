"""Parse Kafka's JSON with comments to Python values, and find the line of a value on demand.

The parser accepts the same input as Jackson in Kafka's generator: UTF-8, or UTF-16 and UTF-32, detected by their first
bytes; ``//`` and ``/* */`` comments between tokens; repeated keys, of which the last is used. The parser does not
accept ``#`` comments, single quotes, trailing commas or NaN. Numbers keep their text (``JsonNumber``). Any input
results in a value or a SpecError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from kafkaframes.errors import SpecError

MAX_DEPTH = 100  # Kafka's specs have at most 12 levels
MAX_CHARS = 4 << 20  # Kafka's largest spec has 30,000 characters
_BLANK_CHARACTERS = " \t\r\n"
# An unterminated string or block comment matches the rest of the text, so that the scan stays linear.
_STRING_OR_COMMENT_PATTERN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TOKEN_PATTERN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_NON_NEWLINE_PATTERN = re.compile(r"[^\r\n]")
# As in Jackson: by the byte order mark, otherwise by the position of the zeros in the first character.
_ENCODINGS = (
    ("utf-32-be", 0, b"\0\0\xfe\xff"),
    ("utf-32-le", 0, b"\xff\xfe\0\0"),
    ("utf-16-be", 0, b"\xfe\xff"),
    ("utf-16-le", 0, b"\xff\xfe"),
    ("utf-32-be", 0, b"\0\0\0"),
    ("utf-32-le", 1, b"\0\0\0"),
    ("utf-16-be", 0, b"\0"),
    ("utf-16-le", 1, b"\0"),
    ("utf-8", 0, b""),
)


class JsonNumber(str):
    """A JSON number as written (``-1``, ``1.50``)."""

    __slots__ = ()


class JsonText:
    """A parsed document: its ``value``, its ``text`` without comments, and ``trailing``, the text after the value."""

    def __init__(self, source: str | bytes, *, file: str | None = None) -> None:
        text = _decode_source(source, file)
        self.text = _blank_comments(text, file)
        self._file = file
        start = len(self.text) - len(self.text.lstrip(_BLANK_CHARACTERS))
        if start == len(self.text):
            raise SpecError("the file does not contain JSON", file=file)
        _check_depth(self.text, file)
        try:
            self.value, end = _DECODER.raw_decode(self.text, start)
        except ValueError as error:
            position = getattr(error, "pos", start)
            reason = getattr(error, "msg", str(error))
            raise SpecError(f"invalid JSON: {reason}", file=format_file_line(file, self._find_line(position))) from None
        self.trailing = self.text[end:].strip(_BLANK_CHARACTERS)
        self.trailing_line = self._find_line(len(self.text) - len(self.text[end:].lstrip(_BLANK_CHARACTERS)))

    def line_of(self, path: Sequence[str | int]) -> int:
        """Return the line (from 1) of the value at a path of keys and indexes, or of its nearest existing parent."""
        steps = tuple(path)
        depth, line = -1, 1
        for value_path, position in _find_value_positions(self.text):
            if len(value_path) > depth and value_path == steps[: len(value_path)]:
                depth, line = len(value_path), self._find_line(position)
                if depth == len(steps):
                    break
        return line

    def _find_line(self, position: int) -> int:
        before = self.text[:position]
        return before.count("\n") + before.count("\r") - before.count("\r\n") + 1


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=_refuse_constant)


def _decode_source(source: str | bytes, file: str | None) -> str:
    if len(source) > MAX_CHARS:
        raise SpecError(f"the spec has {len(source)} bytes; the maximum is {MAX_CHARS}", file=file)
    if isinstance(source, str):
        return source
    encoding = next(name for name, at, sign in _ENCODINGS if source[at : at + len(sign)] == sign)
    try:
        return source.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        name = encoding.upper()
        raise SpecError(f"not {name}: {error.reason}", file=file, position=error.start) from None


def _blank_comments(text: str, file: str | None) -> str:
    """Replace comments with blanks, which keeps positions and lines."""

    def replace_with_blanks(match: re.Match[str]) -> str:
        text = match[0]
        if text.startswith('"'):
            return text
        if text.startswith("/*") and (len(text) < 4 or not text.endswith("*/")):
            raise SpecError("invalid JSON: a /* comment is not closed", file=file)
        return _NON_NEWLINE_PATTERN.sub(" ", text)

    return _STRING_OR_COMMENT_PATTERN.sub(replace_with_blanks, text)


def _check_depth(text: str, file: str | None) -> None:
    depth = 0
    for match in _TOKEN_PATTERN.finditer(text):
        token = match[0]
        if token in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise SpecError(f"the JSON has more than {MAX_DEPTH} levels", file=file)
        elif token in "}]":
            depth -= 1


def _find_value_positions(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield (path, position) of every value of a valid document."""
    path: list[Any] = []  # one step per open container: an index in a list, the current key (or None) in an object
    expects_key = False
    for match in _TOKEN_PATTERN.finditer(text):
        token, position = match[0], match.start()
        if token in ("}", "]"):
            path.pop()
            expects_key = False
        elif token == ",":
            if path and isinstance(path[-1], int):
                path[-1] += 1
            else:
                expects_key = True
        elif token == ":":
            expects_key = False
        elif expects_key:
            path[-1] = json.loads(token, strict=False)
        else:
            yield tuple(path), position
            if token in ("{", "["):
                path.append(None if token == "{" else 0)
                expects_key = token == "{"
        if not path and token in ("}", "]"):
            return


def format_file_line(file: str | None, line: int) -> str:
    """Return a file position for error messages: ``Foo.json:12``, or ``line 12`` without a file."""
    return f"{file}:{line}" if file else f"line {line}"
