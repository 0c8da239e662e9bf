"""An interpreter of plans, which reads and writes a message field by field, and knows each value's path and position.

The interpreter defines the results of the generated functions (``_source.py``); a test compares their results on
arbitrary bytes. The interpreter also handles the input that the generated functions do not support: data that is not
canonical, and all errors, which contain the path of the field. Modes:

* ``reference``: accepts exactly what Kafka's generated readers accept: overlong varints, any non-zero bool, malformed
  UTF-8, any negative length as null, and tags in any order. If a known tag is repeated, the last occurrence applies.
  The size of a known tag is not checked.
* ``strict``: accepts only bytes that Kafka's writers produce, so that encoding the value again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError
from kafkaframes.protocol.messages.plan import AbsentField, FieldPlan, MessagePlan, MutableDefault, StructPlan
from kafkaframes.wire import primitives as wire
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import DeferredBytes
from kafkaframes.wire.varint import TAG_HEADERS, read_unsigned_varint, size_of_unsigned_varint, write_unsigned_varint

Classes: TypeAlias = dict[str, Any]  # struct name -> its class (objects.py); Any, because specs define the attributes
Trace: TypeAlias = Callable[
    [int, int, tuple[str | int, ...], str, Any], None
]  # arguments: start, end, path, label, value


def make_default(field: FieldPlan | AbsentField, classes: Classes) -> Any:
    """Return a field's default. A mutable default is a new object."""
    if field.default is MutableDefault.ARRAY:
        return []
    if field.default is MutableDefault.STRUCT:
        name = field.struct.name if isinstance(field.struct, StructPlan) else field.struct
        return classes[str(name)]()
    return field.default


def is_default(field: FieldPlan | AbsentField, value: Any, classes: Classes) -> bool:
    """Return whether a value equals the default for Kafka.

    A tagged field with its default is not written, and a field that the version lacks must have it. NaN is never the
    default, and -0.0 equals 0.0. Structs are compared with all their fields and unknown tags.
    """
    if field.default is None:
        return value is None
    if value is None:
        return False
    if field.default is MutableDefault.STRUCT:
        return bool(value == make_default(field, classes))
    if field.default is MutableDefault.ARRAY or field.type == "bytes":
        return len(value) == 0
    return bool(value == field.default)


class PlanReader:
    """Decodes one buffer according to a plan (a message spec compiled for one version).

    ``trace`` is called for each run of bytes that belongs to one value.
    """

    def __init__(
        self, buf: bytes, classes: Classes, *, strict: bool, trace: Trace | None = None, tag_header: str = "adopted"
    ) -> None:
        self.buf = buf
        self.classes = classes
        self.strict = strict
        self.trace = trace
        self.tag_header = TAG_HEADERS[tag_header]
        self.path: list[str | int] = []

    def read_message(self, plan: MessagePlan, position: int) -> tuple[Any, int]:
        """Decode the message at ``position``, and return it and its end.

        Raises:
            DecodeError: the data is invalid; the error has the path of the field and the position.
        """
        try:
            return self.read_struct(plan.root, position)
        except DecodeError as error:
            error.path = (*self.path, *error.path)
            raise

    def read_struct(self, plan: StructPlan, position: int) -> tuple[Any, int]:
        """Decode a struct."""
        value = object.__new__(self.classes[plan.name])
        for absent in plan.absent:
            setattr(value, absent.attribute, make_default(absent, self.classes))
        for field in plan.tagged_fields:
            setattr(value, field.attribute, make_default(field, self.classes))
        value._tags = None
        for field in plan.fields:
            self.path.append(field.name)
            item, position = self.read_field(field, position, is_tag=False)
            setattr(value, field.attribute, item)
            self.path.pop()
        if plan.flexible:
            position = self.read_tags(plan, value, position)
        return value, position

    def read_tags(self, plan: StructPlan, value: Any, position: int) -> int:
        """Decode the tag section of a struct into ``value``, and return its end."""
        fields = {field.tag: field for field in plan.tagged_fields}
        start = position
        count, position = self.read_varint(start, "number of tagged fields")
        if count < 0:  # Kafka's readers before 4.4 treat a negative count as 0; later ones reject it
            raise DecodeError(f"negative number of tagged fields: {count}", position=start)
        last = -1
        for _ in range(count):
            tag, size, start = self.read_tag_header(position)
            if self.strict and tag <= last:
                raise DecodeError(f"tag {tag} follows tag {last}; tags must be in ascending order", position=position)
            last = tag
            if tag in plan.refused_tags:
                raise DecodeError(f"tag {tag} of {plan.name} is not valid at this version", position=position)
            if tag in fields:
                position = self.read_known_tag(fields[tag], value, start, size)
            else:
                position = self.read_unknown_tag(tag, value, start, size)
        return position

    def read_tag_header(self, position: int) -> tuple[int, int, int]:
        """Decode a tag's header, and return the tag, the size and the start of its payload."""
        if self.tag_header.name == "adopted":
            tag, start = self.read_varint(position, "tag")
            return tag, *self.read_varint(start, f"size of tag {tag}")
        tag, size, start = self.tag_header.read(self.buf, position)
        self.trace_run(position, start, f"header of tag {tag}", size)
        if self.strict and start - position != self.tag_header.size(tag, size):
            raise DecodeError("varlong longer than necessary", position=position)
        return tag, size, start

    def read_known_tag(self, field: FieldPlan, value: Any, position: int, size: int) -> int:
        self.path.append(field.name)
        item, end = self.read_field(field, position, is_tag=True)
        if self.strict and end - position != size:
            raise DecodeError(f"tag {field.tag} has size {size}, but {end - position} bytes", position=position)
        if self.strict and is_default(field, item, self.classes):
            raise DecodeError(f"tag {field.tag} has its default value, which is never written", position=position)
        setattr(value, field.attribute, item)
        self.path.pop()
        return end

    def read_unknown_tag(self, tag: int, value: Any, position: int, size: int) -> int:
        if size < 0:
            raise DecodeError(f"negative size {size} of tag {tag}", position=position)
        payload, end = wire.read_raw(self.buf, position, size, f"tag {tag}")
        value.unknown_tags.append((tag, payload))
        self.trace_run(position, end, f"tag {tag} (unknown)", payload)
        return end

    def read_field(self, field: FieldPlan, position: int, *, is_tag: bool) -> tuple[Any, int]:
        """Decode a field's value: an array, a struct or a primitive."""
        if field.array:
            value, end = self.read_array(field, position)
        elif field.struct is not None:
            value, end = self.read_single_struct(field, field.struct, position, is_tag=is_tag)
        else:
            value, end = self.read_primitive(field, position)
        if value is None and not field.nullable:
            raise DecodeError("null in a field that is not nullable", position=position)
        return value, end

    def read_array(self, field: FieldPlan, position: int) -> tuple[Any, int]:
        count, start = self.read_length(position, field.compact)
        self.trace_run(position, start, "count", count)
        if count < 0:
            return None, start
        # Kafka has the same check: an element has at least one byte, even an empty struct.
        if count > len(self.buf) - start:
            raise TruncatedError(
                f"the array has {count} elements, but only {len(self.buf) - start} bytes remain", position=position
            )
        items = []
        position = start
        for index in range(count):
            self.path.append(index)
            if field.struct is not None:
                item, position = self.read_struct(field.struct, position)
            else:
                start = position
                item, position = self.read_primitive(field, position)
                if item is None:
                    raise DecodeError("an array element is null", position=start)
            items.append(item)
            self.path.pop()
        return items, position

    def read_single_struct(self, field: FieldPlan, plan: StructPlan, position: int, *, is_tag: bool) -> tuple[Any, int]:
        if not field.nullable:
            return self.read_struct(plan, position)
        if is_tag:
            marker, start = self.read_varint(position, "null marker")
            is_present, is_canonical = marker > 0, marker in (0, 1)
        else:
            marker, start = wire.read_int8(self.buf, position)
            self.trace_run(position, start, "null marker", marker)
            is_present, is_canonical = marker >= 0, marker in (-1, 1)
        if self.strict and not is_canonical:
            raise DecodeError(f"invalid null marker {marker} of a struct", position=position)
        return self.read_struct(plan, start) if is_present else (None, start)

    def read_primitive(self, field: FieldPlan, position: int) -> tuple[Any, int]:
        compact = field.compact
        read, _ = (wire.COMPACT_PRIMITIVE_CODECS if compact else wire.PRIMITIVE_CODECS)[field.type]
        value, end = read(self.buf, position)
        if self.strict:
            self.check_canonical(field, position, end)
        self.trace_run(position, end, field.type, value)
        return value, end

    def check_canonical(self, field: FieldPlan, position: int, end: int) -> None:
        if field.type == "bool" and self.buf[position] > 1:
            raise DecodeError(f"invalid bool {self.buf[position]}", position=position)
        if field.type not in ("string", "bytes", "records"):
            return
        if field.compact:
            _, start = self.read_length(position, compact=True)
        else:
            read_length = wire.read_int16 if field.type == "string" else wire.read_int32
            length, start = read_length(self.buf, position)
            if length < -1:
                raise DecodeError(f"the length is {length}; expected -1 for null", position=position)
        if field.type == "string":
            try:
                self.buf[start:end].decode()
            except UnicodeDecodeError as error:
                raise DecodeError(f"not UTF-8: {error.reason}", position=start + error.start) from None

    def read_length(self, position: int, compact: bool) -> tuple[int, int]:
        length, end = (wire.read_compact_length if compact else wire.read_int32)(self.buf, position)
        if self.strict and length < -1:
            raise DecodeError(f"invalid length {length}", position=position)
        if self.strict and compact and not self.is_canonical(position, end, length + 1):
            raise DecodeError("varint is not canonical", position=position)
        return length, end

    def read_varint(self, position: int, label: str) -> tuple[int, int]:
        value, end = read_unsigned_varint(self.buf, position)
        if self.strict and not self.is_canonical(position, end, value):
            raise DecodeError(f"{label}: varint is not canonical", position=position)
        self.trace_run(position, end, label, value)
        return value, end

    def is_canonical(self, position: int, end: int, value: int) -> bool:
        """Return whether a varint is below 2^31, as short as possible, and without bits that decoding discards."""
        size = end - position
        return value >= 0 and size == size_of_unsigned_varint(value) and (size < 5 or self.buf[end - 1] < 8)

    def trace_run(self, start: int, end: int, label: str, value: Any) -> None:
        if self.trace is not None:
            self.trace(start, end, tuple(self.path), label, value)


class PlanWriter:
    """Encodes a value according to a plan, like Kafka's generated writers."""

    def __init__(self, classes: Classes, *, tag_header: str = "adopted") -> None:
        self.classes = classes
        self.tag_header = TAG_HEADERS[tag_header]
        self.path: list[str | int] = []

    def write_message(self, plan: MessagePlan, value: Any) -> bytes:
        """Encode a message.

        Raises:
            EncodeError: the value cannot be encoded; the error has the path of the field.
        """
        out = bytearray()
        try:
            self.write_struct(plan.root, value, out, plan.version)
        except EncodeError as error:
            error.path = (*self.path, *error.path)
            raise
        return bytes(out)

    def write_struct(self, plan: StructPlan, value: Any, out: bytearray, version: int) -> None:
        """Append a struct."""
        if not isinstance(value, self.classes[plan.name]):
            raise EncodeError(f"expected a {plan.name}, not {type(value).__name__}")
        for absent in plan.absent:
            self.check_absent(absent, getattr(value, absent.attribute), version)
        for field in plan.fields:
            self.path.append(field.name)
            self.write_field(field, getattr(value, field.attribute), out, version, is_tag=False)
            self.path.pop()
        if plan.flexible:
            self.write_tags(plan, value, out, version)
        elif value._tags:
            raise EncodeError(f"tagged fields are set, but version {version} of this message does not support them")

    def check_absent(self, field: AbsentField, value: Any, version: int) -> None:
        if field.ignorable or is_default(field, value, self.classes):
            return
        self.path.append(field.name)
        raise EncodeError(describe_missing_field(field, version))

    def write_tags(self, plan: StructPlan, value: Any, out: bytearray, version: int) -> None:
        section: list[tuple[int, bytes]] = []
        for field in plan.tagged_fields:
            item = getattr(value, field.attribute)
            if not is_default(field, item, self.classes):
                self.path.append(field.name)
                payload = bytearray()
                self.write_field(field, item, payload, version, is_tag=True)
                section.append((field.tag or 0, bytes(payload)))
                self.path.pop()
        raw = check_tags(value._tags or (), plan)
        write_unsigned_varint(out, len(section) + len(raw))
        for tag, data in (*section, *raw):  # Kafka writes unknown tags last, even if their numbers are lower
            self.tag_header.write(out, tag, len(data))
            out += data

    def write_field(self, field: FieldPlan, value: Any, out: bytearray, version: int, *, is_tag: bool) -> None:
        """Append a field's value."""
        if value is None and not field.nullable:
            raise EncodeError("null in a field that is not nullable")
        if field.array:
            self.write_array(field, value, out, version)
        elif field.struct is not None:
            if field.nullable and is_tag:
                write_unsigned_varint(out, 0 if value is None else 1)
            elif field.nullable:
                wire.write_int8(out, -1 if value is None else 1)
            if value is not None:
                self.write_struct(field.struct, value, out, version)
        else:
            data = bytes(value) if isinstance(value, DeferredBytes) else value
            (wire.COMPACT_PRIMITIVE_CODECS if field.compact else wire.PRIMITIVE_CODECS)[field.type][1](out, data)

    def write_array(self, field: FieldPlan, value: Any, out: bytearray, version: int) -> None:
        write_length = wire.write_compact_length if field.compact else wire.write_int32
        if value is None:
            write_length(out, -1)
            return
        if not isinstance(value, list | tuple):
            raise EncodeError(f"expected a list, not {type(value).__name__}")
        write_length(out, len(value))
        _, write = (wire.COMPACT_PRIMITIVE_CODECS if field.compact else wire.PRIMITIVE_CODECS).get(
            field.type, (None, None)
        )
        for index, item in enumerate(value):
            self.path.append(index)
            if item is None:
                raise EncodeError("an array element is null")
            if field.struct is not None:
                self.write_struct(field.struct, item, out, version)
            elif write is not None:
                write(out, item)
            self.path.pop()


def describe_missing_field(field: AbsentField, version: int) -> str:
    """Return the reason why a field cannot be encoded at a version that lacks it."""
    if field.first_version is None or field.last_version is None:
        bound = "no valid version has it"
    elif version > field.last_version:
        bound = f"its last version is {field.last_version}"
    else:
        bound = f"its first version is {field.first_version}"
    return f"the value is not the default, but version {version} lacks this field; {bound}"


def describe_tag_conflict(tag: int, plan: StructPlan) -> str:
    """Return the reason why an unknown tag cannot have the number of a known tag of its struct."""
    name = plan.declared_tags[tag]
    if name is None:
        return f"unknown tag {tag} has the number of a tag of {plan.name} in other versions"
    return f"unknown tag {tag} has the number of the tagged field {name}; a tag cannot be written twice"


def check_tags(tags: list[tuple[int, bytes]] | tuple[()], plan: StructPlan) -> list[tuple[int, bytes]]:
    """Return the unknown tags of a struct in the form in which they are written.

    Kafka's writers do not compare unknown tags with known tags. The output of Kafka's writers can therefore contain a
    tag twice, and Kafka's readers use the last one without an error.

    Raises:
        EncodeError: the tags are not strictly ascending, a tag is not an int or its value not bytes, a tag is the
            largest int32 (Kafka's end marker), or a tag is in the spec.
    """
    known_tags = plan.declared_tags
    last = -1
    result: list[tuple[int, bytes]] = []
    for tag, data in tags:
        if not isinstance(tag, int) or not last < tag < MAX_INT32:
            raise EncodeError(f"unknown tag {tag!r} follows tag {last}; expected ascending tags from 0 to 2147483646")
        if tag in known_tags:
            raise EncodeError(describe_tag_conflict(tag, plan))
        if not isinstance(data, bytes | bytearray | memoryview):
            raise EncodeError(f"unknown tag {tag} has a value of type {type(data).__name__}, not bytes")
        result.append((tag, bytes(data)))
        last = tag
    return result
