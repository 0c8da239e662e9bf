"""Print records in kcat's formats: format strings (``-f``), JSON envelopes (``-J``); parse its offsets (``-o``).

``%s`` is the value, ``%S`` its size (-1 for null), ``%R`` its size as a big-endian int32, ``%k`` and ``%K`` the key and
its size, ``%t`` the topic, ``%p`` the partition, ``%o`` the offset, ``%T`` the timestamp in milliseconds, ``%h`` the
headers as ``name=value,name=value`` (``NULL`` for a null value), ``%%`` a percent sign. Escapes are ``\\n``, ``\\r``,
``\\t``, ``\\0``, ``\\\\`` and ``\\xHH``. As in kcat, control records are omitted, and no line end is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.chunks import Origin, keys_of, values_of
from kafkaframes.jobs.dump.columns import header_pairs, index_headers, record_columns
from kafkaframes.jobs.dump.lines import Line, Number, Part, Raw, Slices, Text, Word, plan_line
from kafkaframes.records.decoded import Decoded
from kafkaframes.wire.primitives import decode_java_text

Meaning = TypeVar("Meaning")
_ORIGIN_PARTS: dict[str, Callable[[Origin], Part]] = {
    "t": lambda origin: Text((origin.topic or "").encode()),
    "p": lambda origin: Text(str(-1 if origin.partition is None else origin.partition).encode()),
}
_PARTS_BY_LETTER: dict[str, Part] = {
    "s": Raw("value"),
    "S": Number("value_size"),
    "R": Raw("value_size_bytes"),
    "k": Raw("key"),
    "K": Number("key_size"),
    "o": Number("offset"),
    "T": Number("timestamp"),
    "h": Raw("header_pairs"),
    "%": Text(b"%"),
}
LETTERS = (*_ORIGIN_PARTS, *_PARTS_BY_LETTER)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_MAX_OFFSET = 2**63 - 1


def plan_format(text: str, origin: Origin) -> Line:
    """Return the plan of a format string for the records of one segment.

    >>> plan_format("%o %k\\\\n", Origin("t", 0, "t-0", "0.log")).bytes_columns
    ('key',)
    """
    return plan_line(*_parts(text, origin))


def _parts(text: str, origin: Origin) -> Iterator[Part]:
    letters = {letter: make(origin) for letter, make in _ORIGIN_PARTS.items()} | _PARTS_BY_LETTER
    for part in format_parts(text, letters):
        yield Text(part) if isinstance(part, bytes) else part


def format_parts(text: str, letters: Mapping[str, Meaning]) -> Iterator[bytes | Meaning]:
    """Parse a format string. Yield the meaning of each letter after a ``%``, and the bytes in between.

    Raises:
        OptionError: a ``%`` or a backslash is followed by an unknown letter.
    """
    for token in _TOKEN.finditer(text):
        letter, hexadecimal, escape, plain, _ = token.groups()
        if letter in letters:
            yield letters[letter]
        elif hexadecimal:
            yield bytes.fromhex(hexadecimal)
        elif escape in _ESCAPES:
            yield _ESCAPES[escape]
        elif plain:
            yield plain.encode()
        else:
            letter_list = " ".join(f"%{letter}" for letter in LETTERS)
            raise OptionError(
                f"unknown {token[0]!r} in the format {text!r} (known: {letter_list} \\n \\r \\t \\0 \\\\ \\xHH)"
            )


def format_records(chunk: Decoded, line: Line) -> memoryview:
    """Return a chunk's records in a planned format."""
    columns = record_columns(chunk)
    if "value_size_bytes" in line.bytes_columns:
        columns["value_size_bytes"] = _int32_bytes(columns["value_size"])
    if "header_pairs" in line.bytes_columns:
        columns["header_pairs"] = header_pairs(chunk)
    return line.render(columns, len(chunk.index.offsets)).data.data


def _int32_bytes(numbers: Any) -> Slices:
    data = numbers.astype(">i4").view(np.uint8)
    return Slices(data, np.arange(0, len(data), 4), np.full(len(numbers), 4, np.int32))


def plan_envelope(origin: Origin) -> Line:
    """Return the plan of kcat's JSON envelope (``-J``) for the records of one segment."""
    topic = json.dumps({"topic": origin.topic, "partition": origin.partition}, separators=(",", ":")).encode()
    return plan_line(
        *(Text(topic[:-1] + b',"offset":'), Number("offset")),
        *(Text(b',"tstype":"'), Word("ts_type", (b"unknown", b"create", b"logappend"))),
        *(Text(b'","ts":'), Number("timestamp"), Text(b',"broker":-1'), Raw("headers_json")),
        *(Text(b',"key":'), Raw("key_json"), Text(b',"payload":'), Raw("value_json"), Text(b"}\n")),
    )


def format_envelopes(chunk: Decoded, line: Line) -> memoryview:
    """Return a chunk's records in JSON envelopes. Invalid UTF-8 is replaced, as in kcat."""
    columns = record_columns(chunk)
    columns["key_json"] = _json_column(keys_of(chunk))
    columns["value_json"] = _json_column(values_of(chunk))
    columns["headers_json"] = _json_headers(chunk)
    return line.render(columns, len(chunk.index.offsets)).data.data


def _json_text(raw: bytes | None) -> str | None:
    return None if raw is None else decode_java_text(raw)


def _json_column(values: Slices) -> pa.Array:
    return pa.array([json.dumps(_json_text(values.at(row))).encode() for row in range(len(values))], pa.binary())


def _json_headers(chunk: Decoded) -> pa.Array:
    """Return a ``headers`` member for each record with headers: alternating names and values, as in kcat."""
    if not chunk.index.header_counts.any():
        return pa.array([b""] * len(chunk.index.offsets), pa.binary())
    headers = index_headers(chunk)
    texts = []
    for first, stop in zip(headers.lists[:-1].tolist(), headers.lists[1:].tolist(), strict=True):
        turns = [_json_text(column.at(row)) for row in range(first, stop) for column in (headers.keys, headers.values)]
        texts.append(b',"headers":' + json.dumps(turns).encode() if turns else b"")
    return pa.array(texts, pa.binary())


@dataclass(frozen=True, slots=True)
class Range:
    """The records that ``--offset`` selects. None means no limit.

    A negative ``start_offset`` counts back from the partition's end. Timestamps are in milliseconds, and the end is
    exclusive.
    """

    start_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None


def parse_offsets(texts: tuple[str, ...]) -> Range:
    """Parse the values of ``--offset`` as kcat does: ``beginning``, ``end``, an offset, ``-N``, ``s@MS``, ``e@MS``.

    >>> parse_offsets(("s@1760000000000", "e@1760000060000")).end_timestamp
    1760000060000
    >>> parse_offsets(("-5",)).start_offset
    -5

    Raises:
        OptionError: a value has none of these forms.
    """
    result = Range()
    for text in texts:
        match = re.fullmatch(r"([se]@)?(-?\d{1,18})", text)
        if text == "beginning":
            result = replace(result, start_offset=None)
        elif text == "end":
            result = replace(result, start_offset=_MAX_OFFSET)
        elif match is None or (match[1] and match[2].startswith("-")):
            raise OptionError(f"no offset: {text!r} (known: beginning, end, N, -N, s@MS, e@MS)")
        else:
            name = {"s@": "start_timestamp", "e@": "end_timestamp"}.get(match[1] or "", "start_offset")
            result = replace(result, **{name: int(match[2])})
    return result
