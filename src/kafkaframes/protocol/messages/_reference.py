"""The plain interpreter of plans: reads and writes any message field by field, and knows at every byte where it is.

It defines what the generated functions (``_source.py``) must do; one test runs both on any bytes. It also does what
they leave to it: whatever is not canonical, and every error, since only it knows the field path. Modes:

* ``reference``: what Kafka's generated readers accept, bit for bit. Longer varints than needed, any non-zero bool,
  broken UTF-8, any negative length as null, tags in any order, the last of repeated known tags, a known tag's size
  unchecked.
* ``strict``: only bytes that Kafka's writers produce, so that encoding the value again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError
from kafkaframes.protocol.messages.plan import AbsentField, Empty, FieldPlan, MessagePlan, StructPlan
from kafkaframes.wire import primitives as wire
from kafkaframes.wire.primitives import Part
from kafkaframes.wire.varint import TAG_HEADERS, read_unsigned_varint, size_of_unsigned_varint, write_unsigned_varint

Classes: TypeAlias = dict[str, Any]  # struct name -> its class (objects.py); Any: attributes come from the spec
Trace: TypeAlias = Callable[[int, int, tuple[str | int, ...], str, Any], None]  # start, end, path, what, value


def make_default(field: FieldPlan | AbsentField, classes: Classes) -> Any:
    """Return a field's default, made anew where it can be changed."""
    if field.default is Empty.ARRAY:
        return []
    if field.default is Empty.STRUCT:
        name = field.struct.name if isinstance(field.struct, StructPlan) else field.struct
        return classes[str(name)]()
    return field.default


def is_default(field: FieldPlan | AbsentField, value: Any, classes: Classes) -> bool:
    """Return whether Kafka takes a value for the default: such a tag is not written, such an absent field is no error.

    A NaN is never the default, -0.0 is that of 0.0; a struct is compared with all it holds, unknown tags included.
    """
    if field.default is None:
        return value is None
    if value is None:
        return False
    if field.default is Empty.STRUCT:
        return bool(value == make_default(field, classes))
    if field.default is Empty.ARRAY or field.type == "bytes":
        return len(value) == 0
    return bool(value == field.default)


class PlanReader:
    """Reads one buffer by a plan; ``trace`` gets every run of bytes that stands for one thing."""

    def __init__(
        self, buf: bytes, classes: Classes, *, strict: bool, trace: Trace | None = None, tag_header: str = "adopted"
    ) -> None:
        self.buf = buf
        self.classes = classes
        self.strict = strict
        self.trace = trace
        self.tag_header = TAG_HEADERS[tag_header]
        self.path: list[str | int] = []

    def message(self, plan: MessagePlan, position: int) -> tuple[Any, int]:
        """Read the message that starts at ``position``; return it and where it ends.

        Raises:
            DecodeError: with the path of the field and the position of the byte.
        """
        try:
            return self.struct(plan.root, position)
        except DecodeError as error:
            error.path = (*self.path, *error.path)
            raise

    def struct(self, plan: StructPlan, position: int) -> tuple[Any, int]:
        """Read one struct."""
        value = object.__new__(self.classes[plan.name])
        for absent in plan.absent:
            setattr(value, absent.attribute, make_default(absent, self.classes))
        for field in plan.tagged:
            setattr(value, field.attribute, make_default(field, self.classes))
        value._tags = None
        for field in plan.fields:
            self.path.append(field.name)
            item, position = self.field(field, position, tagged=False)
            setattr(value, field.attribute, item)
            self.path.pop()
        if plan.flexible:
            position = self.tags(plan, value, position)
        return value, position

    def tags(self, plan: StructPlan, value: Any, position: int) -> int:
        """Read the tag section of a struct into ``value``; return where it ends."""
        known = {field.tag: field for field in plan.tagged}
        start = position
        count, position = self.varint(start, "number of tagged fields")
        if count < 0:  # Kafka's readers take it for none before 4.4, and refuse it since
            raise DecodeError(f"a negative number of tagged fields, {count}", position=start)
        last = -1
        for _ in range(count):
            tag, size, start = self.header(position)
            if self.strict and tag <= last:
                raise DecodeError(f"tag {tag} follows tag {last}, tags must ascend", position=position)
            last = tag
            if tag in plan.refused_tags:
                raise DecodeError(f"tag {tag} of {plan.name} is not valid at this version", position=position)
            if tag in known:
                position = self.known_tag(known[tag], value, start, size)
            else:
                position = self.unknown_tag(tag, value, start, size)
        return position

    def header(self, position: int) -> tuple[int, int, int]:
        """Read a tag's header; return tag, size and where its payload starts."""
        if self.tag_header.name == "adopted":
            tag, start = self.varint(position, "tag")
            return tag, *self.varint(start, f"size of tag {tag}")
        tag, size, start = self.tag_header.read(self.buf, position)
        self.note(position, start, f"header of tag {tag}", size)
        if self.strict and start - position != self.tag_header.size(tag, size):
            raise DecodeError("a varlong that is longer than needed", position=position)
        return tag, size, start

    def known_tag(self, field: FieldPlan, value: Any, position: int, size: int) -> int:
        self.path.append(field.name)
        item, end = self.field(field, position, tagged=True)
        if self.strict and end - position != size:
            raise DecodeError(f"tag {field.tag} says {size} bytes and has {end - position}", position=position)
        if self.strict and is_default(field, item, self.classes):
            raise DecodeError(f"tag {field.tag} holds its default, which is never written", position=position)
        setattr(value, field.attribute, item)
        self.path.pop()
        return end

    def unknown_tag(self, tag: int, value: Any, position: int, size: int) -> int:
        if size < 0:
            raise DecodeError(f"tag {tag} of {size} bytes", position=position)
        payload, end = wire.read_raw(self.buf, position, size, f"tag {tag}")
        value.unknown_tags.append((tag, payload))
        self.note(position, end, f"tag {tag} (unknown)", payload)
        return end

    def field(self, field: FieldPlan, position: int, *, tagged: bool) -> tuple[Any, int]:
        """Read a field's value: an array, a struct or a primitive."""
        if field.array:
            value, end = self.array(field, position)
        elif field.struct is not None:
            value, end = self.one_struct(field, field.struct, position, tagged=tagged)
        else:
            value, end = self.primitive(field, position)
        if value is None and not field.nullable:
            raise DecodeError("null in a field that is not nullable", position=position)
        return value, end

    def array(self, field: FieldPlan, position: int) -> tuple[Any, int]:
        count, start = self.length(position, field.compact)
        self.note(position, start, "count", count)
        if count < 0:
            return None, start
        if count > len(self.buf) - start:  # an element has a byte at least: Kafka's guard, for empty structs too
            raise TruncatedError(f"array of {count} elements, {len(self.buf) - start} bytes left", position=position)
        items = []
        position = start
        for index in range(count):
            self.path.append(index)
            if field.struct is not None:
                item, position = self.struct(field.struct, position)
            else:
                here = position
                item, position = self.primitive(field, position)
                if item is None:
                    raise DecodeError("null as an element of an array", position=here)
            items.append(item)
            self.path.pop()
        return items, position

    def one_struct(self, field: FieldPlan, plan: StructPlan, position: int, *, tagged: bool) -> tuple[Any, int]:
        if not field.nullable:
            return self.struct(plan, position)
        if tagged:
            marker, start = self.varint(position, "null marker")
            present, unusual = marker > 0, marker not in (0, 1)
        else:
            marker, start = wire.read_int8(self.buf, position)
            self.note(position, start, "null marker", marker)
            present, unusual = marker >= 0, marker not in (-1, 1)
        if unusual and self.strict:
            raise DecodeError(f"{marker} as the null marker of a struct", position=position)
        return self.struct(plan, start) if present else (None, start)

    def primitive(self, field: FieldPlan, position: int) -> tuple[Any, int]:
        compact = field.compact
        read, _ = (wire.COMPACT_PRIMITIVES if compact else wire.PRIMITIVES)[field.type]
        value, end = read(self.buf, position)
        if self.strict:
            self.check_canonical(field, position, end)
        self.note(position, end, field.type, value)
        return value, end

    def check_canonical(self, field: FieldPlan, position: int, end: int) -> None:
        if field.type == "bool" and self.buf[position] > 1:
            raise DecodeError(f"{self.buf[position]} as a bool", position=position)
        if field.type not in ("string", "bytes", "records"):
            return
        if field.compact:
            _, start = self.length(position, compact=True)
        else:
            read_length = wire.read_int16 if field.type == "string" else wire.read_int32
            length, start = read_length(self.buf, position)
            if length < -1:
                raise DecodeError(f"{length} as the length of a null", position=position)
        if field.type == "string":
            try:
                self.buf[start:end].decode()
            except UnicodeDecodeError as error:
                raise DecodeError(f"not UTF-8: {error.reason}", position=start + error.start) from None

    def length(self, position: int, compact: bool) -> tuple[int, int]:
        length, end = (wire.read_compact_length if compact else wire.read_int32)(self.buf, position)
        if self.strict and length < -1:
            raise DecodeError(f"{length} as a length", position=position)
        if self.strict and compact and not self.is_canonical(position, end, length + 1):
            raise DecodeError("a varint that is not canonical", position=position)
        return length, end

    def varint(self, position: int, what: str) -> tuple[int, int]:
        value, end = read_unsigned_varint(self.buf, position)
        if self.strict and not self.is_canonical(position, end, value):
            raise DecodeError(f"{what}: a varint that is not canonical", position=position)
        self.note(position, end, what, value)
        return value, end

    def is_canonical(self, position: int, end: int, value: int) -> bool:
        """Whether a varint is below 2^31, no longer than needed, and without bits that reading drops."""
        size = end - position
        return value >= 0 and size == size_of_unsigned_varint(value) and (size < 5 or self.buf[end - 1] < 8)

    def note(self, start: int, end: int, what: str, value: Any) -> None:
        if self.trace is not None:
            self.trace(start, end, tuple(self.path), what, value)


class PlanWriter:
    """Writes one value by a plan, as Kafka's generated writers do."""

    def __init__(self, classes: Classes, *, tag_header: str = "adopted") -> None:
        self.classes = classes
        self.tag_header = TAG_HEADERS[tag_header]
        self.path: list[str | int] = []

    def message(self, plan: MessagePlan, value: Any) -> bytes:
        """Return the bytes of ``value``.

        Raises:
            EncodeError: with the path of the field that cannot be written.
        """
        out = bytearray()
        try:
            self.struct(plan.root, value, out, plan.version)
        except EncodeError as error:
            error.path = (*self.path, *error.path)
            raise
        return bytes(out)

    def struct(self, plan: StructPlan, value: Any, out: bytearray, version: int) -> None:
        """Append one struct."""
        if not isinstance(value, self.classes[plan.name]):
            raise EncodeError(f"{type(value).__name__} where a {plan.name} belongs")
        for absent in plan.absent:
            self.check_absent(absent, getattr(value, absent.attribute), version)
        for field in plan.fields:
            self.path.append(field.name)
            self.field(field, getattr(value, field.attribute), out, version, tagged=False)
            self.path.pop()
        if plan.flexible:
            self.tags(plan, value, out, version)
        elif value._tags:
            raise EncodeError(f"tagged fields are set, and version {version} of this message does not support them")

    def check_absent(self, field: AbsentField, value: Any, version: int) -> None:
        if field.ignorable or is_default(field, value, self.classes):
            return
        self.path.append(field.name)
        raise EncodeError(lacks(field, version))

    def tags(self, plan: StructPlan, value: Any, out: bytearray, version: int) -> None:
        section: list[tuple[int, bytes]] = []
        for field in plan.tagged:
            item = getattr(value, field.attribute)
            if not is_default(field, item, self.classes):
                self.path.append(field.name)
                payload = bytearray()
                self.field(field, item, payload, version, tagged=True)
                section.append((field.tag or 0, bytes(payload)))
                self.path.pop()
        raw = checked_tags(value._tags or (), plan)
        write_unsigned_varint(out, len(section) + len(raw))
        for tag, data in (*section, *raw):  # Kafka writes the raw ones last, whatever their numbers
            self.tag_header.write(out, tag, len(data))
            out += data

    def field(self, field: FieldPlan, value: Any, out: bytearray, version: int, *, tagged: bool) -> None:
        """Append a field's value."""
        if value is None and not field.nullable:
            raise EncodeError("null in a field that is not nullable")
        if field.array:
            self.array(field, value, out, version)
        elif field.struct is not None:
            if field.nullable and tagged:
                write_unsigned_varint(out, 0 if value is None else 1)
            elif field.nullable:
                wire.write_int8(out, -1 if value is None else 1)
            if value is not None:
                self.struct(field.struct, value, out, version)
        else:
            data = bytes(value) if isinstance(value, Part) else value
            (wire.COMPACT_PRIMITIVES if field.compact else wire.PRIMITIVES)[field.type][1](out, data)

    def array(self, field: FieldPlan, value: Any, out: bytearray, version: int) -> None:
        write_length = wire.write_compact_length if field.compact else wire.write_int32
        if value is None:
            write_length(out, -1)
            return
        if not isinstance(value, list | tuple):
            raise EncodeError(f"{type(value).__name__} where a list belongs")
        write_length(out, len(value))
        _, write = (wire.COMPACT_PRIMITIVES if field.compact else wire.PRIMITIVES).get(field.type, (None, None))
        for index, item in enumerate(value):
            self.path.append(index)
            if item is None:
                raise EncodeError("null as an element of an array")
            if field.struct is not None:
                self.struct(field.struct, item, out, version)
            elif write is not None:
                write(out, item)
            self.path.pop()


def lacks(field: AbsentField, version: int) -> str:
    """Say why a field cannot be written at a version that does not have it."""
    since = "no valid version has it" if field.first_version is None else f"the first is {field.first_version}"
    return f"not the default, and version {version} lacks this field; {since}"


def declared_tag(tag: int, plan: StructPlan) -> str:
    """Say why an unknown tag cannot have the number of a tag that its struct declares."""
    name = plan.declared_tags[tag]
    if name is None:
        return f"unknown tag {tag} has the number of a tag that {plan.name} declares for other versions"
    return f"unknown tag {tag} has the number of the tagged field {name}: one tag cannot be written twice"


def checked_tags(tags: list[tuple[int, bytes]] | tuple[()], plan: StructPlan) -> list[tuple[int, bytes]]:
    """Return the raw tags of a struct as they are written.

    Kafka's writers do not look for a declared tag among them: the bytes then hold one tag twice, and its readers take
    the last one without a word.

    Raises:
        EncodeError: they do not ascend strictly, one is no int or no bytes, is the largest int32 (Kafka's end mark),
            or is a tag that the spec declares.
    """
    declared = plan.declared_tags
    last = -1
    checked: list[tuple[int, bytes]] = []
    for tag, data in tags:
        if not isinstance(tag, int) or not last < tag < 0x7FFFFFFF:
            raise EncodeError(f"unknown tag {tag!r} follows tag {last}: tags must ascend, from 0 to 2147483646")
        if tag in declared:
            raise EncodeError(declared_tag(tag, plan))
        if not isinstance(data, bytes | bytearray | memoryview):
            raise EncodeError(f"unknown tag {tag} holds {type(data).__name__}, not bytes")
        checked.append((tag, bytes(data)))
        last = tag
    return checked
