"""Encoding and decoding of one message at one version, by generated functions or, for unusual input, an interpreter.

The functions are generated from the plan on first use. Tracebacks and profilers show the functions' source, which is
registered with ``linecache``, and :func:`show_codec` prints it.
"""

from __future__ import annotations

import linecache
import struct
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from itertools import islice, repeat
from typing import Any, Final

from kafkaframes.errors import DecodeError, OptionError
from kafkaframes.protocol.messages import _runtime as runtime
from kafkaframes.protocol.messages._reference import Classes, PlanReader, PlanWriter, Trace
from kafkaframes.protocol.messages._source import SourceText
from kafkaframes.protocol.messages._source_read import decoder_source, generate_shape_reader
from kafkaframes.protocol.messages._source_write import PackedShape, encoder_source
from kafkaframes.protocol.messages.plan import MessagePlan, StructPlan
from kafkaframes.wire.primitives import STRUCT_FORMATS, DeferredBytes
from kafkaframes.wire.varint import TAG_HEADERS

DECODE_MODES: Final = ("reference", "strict")
_GENERATED_CODE_GLOBALS: Final = {  # names that generated source can use
    "bools": runtime.BOOL_VALUES,
    "bytes_of": runtime.require_bytes,
    "compact_blobs": runtime.read_compact_blobs,
    "compact_strings": runtime.read_compact_strings,
    "islice": islice,
    "list_of": runtime.require_list,
    "many_bools": runtime.read_bools,
    "many_numbers": runtime.read_numbers,
    "many_uuids": runtime.read_uuids,
    "new": runtime.new,
    "malformed": runtime.NotCanonicalError,
    "pack": struct.pack,
    "plain_blobs": runtime.read_plain_blobs,
    "plain_strings": runtime.read_plain_strings,
    "write_blobs": runtime.write_blobs,
    "write_tags": runtime.write_tags,
    "encode_varint": runtime.encode_varint,
    "repeat": repeat,
    "unknown_tags": runtime.read_unknown_tags,
    "utf8_of": runtime.encode_utf8,
    "uuid": runtime.make_uuid,
    "varint": runtime.read_varint,
}


def is_strict_mode(mode: str) -> bool:
    """Return whether a decoding mode is ``strict``; reject an unknown mode.

    Raises:
        OptionError: the mode is unknown.
    """
    if mode not in DECODE_MODES:
        raise OptionError(f"unknown mode {mode!r}; expected {' or '.join(DECODE_MODES)}")
    return mode == "strict"


def is_adopted_tag_header(tag_header: str) -> bool:
    """Return whether a tag header has the form that KIP-482 adopted; reject an unknown form.

    Raises:
        OptionError: the tag header is unknown.
    """
    if tag_header not in TAG_HEADERS:
        raise OptionError(f"unknown tag_header {tag_header!r}; expected {' or '.join(TAG_HEADERS)}")
    return tag_header == "adopted"


class Codec:
    """Encoder and decoder of one message at one version, with the classes of its structs."""

    def __init__(self, plan: MessagePlan, classes: Classes) -> None:
        self.plan = plan
        self.classes = classes

    @cached_property
    def _read(self) -> Any:
        return self._compile(decoder_source(self.plan), "read")

    @cached_property
    def _read_view(self) -> Any:
        return self._compile(decoder_source(self.plan, views=True), "read", " as a view")

    @cached_property
    def _write(self) -> Any:
        return self._compile(encoder_source(self.plan), "write")

    def _compile(self, text: SourceText, verb: str, suffix: str = "") -> Any:
        """Compile generated source and return its function."""
        title = f"{self.plan.name} v{self.plan.version} {verb}{suffix}"
        return compile_text(text, title, self.classes)[f"{verb}_{self.plan.root.name}"]

    def decode(self, buf: bytes | memoryview, position: int, *, strict: bool) -> tuple[Any, int]:
        """Decode the value at ``position``, and return the value and its end.

        If the buffer is a memoryview, fields of type records are views, or copies if the interpreter decodes the value.

        Raises:
            DecodeError: the bytes are invalid in this mode; the error has the field's path and position.
        """
        end = len(buf)
        try:
            value, last = (self._read if isinstance(buf, bytes) else self._read_view)(buf, position, end)
            if last <= end:
                return value, last
        except runtime.MALFORMED_ERRORS:
            pass
        return self.decode_interpreted(bytes(buf), position, strict=strict)

    def decode_interpreted(
        self, buf: bytes, position: int, *, strict: bool, trace: Trace | None = None, tag_header: str = "adopted"
    ) -> tuple[Any, int]:
        """Decode like :meth:`decode`, with the interpreter. ``trace`` receives each run of bytes."""
        reader = PlanReader(buf, self.classes, strict=strict, trace=trace, tag_header=tag_header)
        return reader.read_message(self.plan, position)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of ``value``.

        Raises:
            EncodeError: the value cannot be encoded at this version; the error has the field's path.
        """
        parts: list[Any] = self.encode_parts(value)
        try:
            return b"".join(parts)
        except TypeError:  # a part is a ``DeferredBytes``
            return b"".join(map(bytes, parts))

    def encode_parts(self, value: Any) -> list[bytes | DeferredBytes]:
        """Return the bytes of ``encode`` as a list. Each ``DeferredBytes`` in the value is an item of the list."""
        parts: list[bytes | DeferredBytes] = []
        try:
            self._write(value, parts.append)
        except runtime.MALFORMED_ERRORS:
            return [self.encode_interpreted(value)]
        return parts

    def encode_interpreted(self, value: Any, *, tag_header: str = "adopted") -> bytes:
        """Encode like :meth:`encode`, with the interpreter."""
        return PlanWriter(self.classes, tag_header=tag_header).write_message(self.plan, value)

    def source_text(self) -> str:
        """Return the source of the generated functions."""
        return f"{decoder_source(self.plan)}\n{encoder_source(self.plan)}"


def compile_text(text: SourceText, title: str, classes: Classes) -> dict[str, Any]:
    """Run generated source, register it with ``linecache``, and return its namespace."""
    source, file = str(text), f"<kafkaframes {title}>"
    constants = {name: _make_constant(name, value, classes) for name, value in text.constants.items()}
    names = _GENERATED_CODE_GLOBALS | classes | constants
    exec(compile(source, file, "exec"), names)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return names


class HotShapes(dict[Any, Any]):
    """Generated functions for elements of frequent shapes. A shape is the number of items in each array of an element.

    Shapes depend on the data, and a compilation takes a millisecond. The number of shapes with a function is therefore
    limited, and the function of a shape is generated when the shape has occurred a few times. Other shapes map to None.
    """

    MIN_OCCURRENCES: Final = 4
    MAX_SHAPES: Final = 32
    MAX_NUMBERS: Final = 64

    def __init__(self, make: Callable[[tuple[int, ...]], Any], *, lowest: int) -> None:
        self.make = make
        self.lowest = lowest
        self.occurrences: Counter[Any] = Counter()

    def __missing__(self, key: Any) -> Any:
        counts = key if isinstance(key, tuple) else (key,)
        is_full = len(self) >= self.MAX_SHAPES or len(self.occurrences) > 1024
        if is_full or min(counts) < self.lowest or sum(counts) > self.MAX_NUMBERS:
            return None
        self.occurrences[key] += 1
        if self.occurrences[key] < self.MIN_OCCURRENCES:
            return None
        self[key] = self.make(counts)
        return self[key]


def _make_shape_readers(plan: StructPlan, classes: Classes) -> HotShapes:
    """Return generated functions that read array elements, by shape."""

    def make(counts: tuple[int, ...]) -> Any:
        return compile_text(generate_shape_reader(plan, counts), f"read {plan.name} of {counts}", classes)["read_shape"]

    return HotShapes(make, lowest=1)  # the counts are in their encoded form, in which 0 means null


def _make_shape_packer(shape: PackedShape, classes: Classes) -> HotShapes:
    """Return generated functions that pack fields and arrays, by shape."""

    def make(counts: tuple[int, ...]) -> Any:
        return compile_text(shape.make_source(counts), f"pack {shape.values} of {counts}", classes)["pack_shape"]

    return HotShapes(make, lowest=0)


def _make_constant(name: str, value: Any, classes: Classes) -> Any:
    """Return the value of a constant in generated source."""
    prefix = name.split("_", 1)[0]
    if prefix == "unpack":
        return runtime.make_number_readers(value) if value in STRUCT_FORMATS else struct.Struct(f">{value}").unpack_from
    if prefix == "pack":
        return struct.Struct(f">{value}").pack
    if prefix == "default":
        return classes[value]()
    if prefix == "hot":
        return _make_shape_readers(value, classes)
    if prefix == "packers":
        return _make_shape_packer(value, classes)
    if prefix == "shapes":
        before, elements, after, compact = value
        return runtime.ShapePackers(before, elements, after, compact=compact)
    return value


def reject_surplus(buf: bytes | memoryview, value: Any, position: int) -> Any:
    """Return ``value`` if no bytes follow it in ``buf``; otherwise raise an error.

    Raises:
        DecodeError: bytes remain.
    """
    if position != len(buf):
        raise DecodeError(f"{len(buf) - position} bytes remain after the message", position=position)
    return value
