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
from kafkaframes.jobs.dump.chunks import SegmentOrigin, get_keys, get_values
from kafkaframes.jobs.dump.columns import build_record_columns, index_headers, render_header_pairs
from kafkaframes.jobs.dump.lines import (
    BytesPart,
    BytesSlices,
    CompiledLine,
    NumberPart,
    Part,
    TextPart,
    WordPart,
    plan_line,
)
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.wire.primitives import decode_java_text

Meaning = TypeVar("Meaning")
_ORIGIN_PARTS_BY_LETTER: dict[str, Callable[[SegmentOrigin], Part]] = {
    "t": lambda origin: TextPart((origin.topic or "").encode()),
    "p": lambda origin: TextPart(str(-1 if origin.partition is None else origin.partition).encode()),
}
_PARTS_BY_LETTER: dict[str, Part] = {
    "s": BytesPart("value"),
    "S": NumberPart("value_size"),
    "R": BytesPart("value_size_bytes"),
    "k": BytesPart("key"),
    "K": NumberPart("key_size"),
    "o": NumberPart("offset"),
    "T": NumberPart("timestamp"),
    "h": BytesPart("header_pairs"),
    "%": TextPart(b"%"),
}
FORMAT_LETTERS = (*_ORIGIN_PARTS_BY_LETTER, *_PARTS_BY_LETTER)
_BYTES_BY_ESCAPE_LETTER = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_FORMAT_TOKEN_PATTERN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_END_OF_LOG = 2**63 - 1  # start offset for ``--offset end``: no record is selected


def plan_format(text: str, origin: SegmentOrigin) -> CompiledLine:
    """Return the plan of a format string for the records of one segment.

    >>> plan_format("%o %k\\\\n", SegmentOrigin("t", 0, "t-0", "0.log")).bytes_columns
    ('key',)
    """
    return plan_line(*_plan_parts(text, origin))


def _plan_parts(text: str, origin: SegmentOrigin) -> Iterator[Part]:
    """Yield the parts of a line in kcat's format ``text``."""
    letters = {letter: make_part(origin) for letter, make_part in _ORIGIN_PARTS_BY_LETTER.items()} | _PARTS_BY_LETTER
    for part in parse_format(text, letters):
        yield TextPart(part) if isinstance(part, bytes) else part


def parse_format(text: str, letters: Mapping[str, Meaning]) -> Iterator[bytes | Meaning]:
    """Parse a format string. Yield the meaning of each letter after a ``%``, and the bytes in between.

    Raises:
        OptionError: a ``%`` or a backslash is followed by an unknown letter.
    """
    for token in _FORMAT_TOKEN_PATTERN.finditer(text):
        letter, hexadecimal, escape, plain_text, _ = token.groups()
        if letter in letters:
            yield letters[letter]
        elif hexadecimal:
            yield bytes.fromhex(hexadecimal)
        elif escape in _BYTES_BY_ESCAPE_LETTER:
            yield _BYTES_BY_ESCAPE_LETTER[escape]
        elif plain_text:
            yield plain_text.encode()
        else:
            letter_list = " ".join(f"%{letter}" for letter in FORMAT_LETTERS)
            raise OptionError(
                f"unknown {token[0]!r} in the format {text!r}; expected {letter_list} \\n \\r \\t \\0 \\\\ \\xHH"
            )


def render_records(chunk: DecodedBatches, line: CompiledLine) -> memoryview:
    """Return a chunk's records in a planned format."""
    columns = build_record_columns(chunk)
    if "value_size_bytes" in line.bytes_columns:
        columns["value_size_bytes"] = _to_int32_bytes(columns["value_size"])
    if "header_pairs" in line.bytes_columns:
        columns["header_pairs"] = render_header_pairs(chunk)
    return line.render_lines(columns, len(chunk.index.offsets)).data.data


def _to_int32_bytes(numbers: Any) -> BytesSlices:
    """Return numbers as a bytes column of big-endian 32-bit integers."""
    data = numbers.astype(">i4").view(np.uint8)
    return BytesSlices(data, np.arange(0, len(data), 4), np.full(len(numbers), 4, np.int32))


def plan_envelope(origin: SegmentOrigin) -> CompiledLine:
    """Return the plan of kcat's JSON envelope (``-J``) for the records of one segment."""
    topic = json.dumps({"topic": origin.topic, "partition": origin.partition}, separators=(",", ":")).encode()
    return plan_line(
        *(TextPart(topic[:-1] + b',"offset":'), NumberPart("offset")),
        *(TextPart(b',"tstype":"'), WordPart("ts_type", (b"unknown", b"create", b"logappend"))),
        *(TextPart(b'","ts":'), NumberPart("timestamp"), TextPart(b',"broker":-1'), BytesPart("headers_json")),
        *(
            TextPart(b',"key":'),
            BytesPart("key_json"),
            TextPart(b',"payload":'),
            BytesPart("value_json"),
            TextPart(b"}\n"),
        ),
    )


def render_envelopes(chunk: DecodedBatches, line: CompiledLine) -> memoryview:
    """Return a chunk's records in JSON envelopes. Invalid UTF-8 is replaced, as in kcat."""
    columns = build_record_columns(chunk)
    columns["key_json"] = _to_json_column(get_keys(chunk))
    columns["value_json"] = _to_json_column(get_values(chunk))
    columns["headers_json"] = _build_header_members(chunk)
    return line.render_lines(columns, len(chunk.index.offsets)).data.data


def _json_text(raw: bytes | None) -> str | None:
    return None if raw is None else decode_java_text(raw)


def _to_json_column(values: BytesSlices) -> pa.Array:
    """Return a bytes column with each value as a JSON string, or null."""
    return pa.array([json.dumps(_json_text(values.value_at(row))).encode() for row in range(len(values))], pa.binary())


def _build_header_members(chunk: DecodedBatches) -> pa.Array:
    """Return a ``headers`` member for each record with headers: alternating names and values, as in kcat."""
    if not chunk.index.header_counts.any():
        return pa.array([b""] * len(chunk.index.offsets), pa.binary())
    headers = index_headers(chunk)
    texts = []
    for first, stop in zip(headers.lists[:-1].tolist(), headers.lists[1:].tolist(), strict=True):
        alternating_texts = [
            _json_text(column.value_at(row)) for row in range(first, stop) for column in (headers.keys, headers.values)
        ]
        texts.append(b',"headers":' + json.dumps(alternating_texts).encode() if alternating_texts else b"")
    return pa.array(texts, pa.binary())


@dataclass(frozen=True, slots=True)
class KcatOffsetRange:
    """The records that ``--offset`` selects. None means no limit.

    A negative ``start_offset`` counts back from the partition's end. Timestamps are in milliseconds, and the end is
    exclusive.
    """

    start_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None


def parse_offsets(texts: tuple[str, ...]) -> KcatOffsetRange:
    """Parse the values of ``--offset`` as kcat does: ``beginning``, ``end``, an offset, ``-N``, ``s@MS``, ``e@MS``.

    >>> parse_offsets(("s@1760000000000", "e@1760000060000")).end_timestamp
    1760000060000
    >>> parse_offsets(("-5",)).start_offset
    -5

    Raises:
        OptionError: a value has none of these forms.
    """
    result = KcatOffsetRange()
    for text in texts:
        match = re.fullmatch(r"([se]@)?(-?\d{1,18})", text)
        if text == "beginning":
            result = replace(result, start_offset=None)
        elif text == "end":
            result = replace(result, start_offset=_END_OF_LOG)
        elif match is None or (match[1] and match[2].startswith("-")):
            raise OptionError(f"invalid offset {text!r}; expected beginning, end, N, -N, s@MS or e@MS")
        else:
            name = {"s@": "start_timestamp", "e@": "end_timestamp"}.get(match[1] or "", "start_offset")
            result = replace(result, **{name: int(match[2])})
    return result
