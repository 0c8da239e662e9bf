"""Generate decoder source: one function per struct, and one function per array of structs, which contains the loop.

Names in the source: ``o`` the object, ``p`` the position, ``n`` an encoded length. See ``_source.py``.
"""

from __future__ import annotations

from struct import calcsize

from kafkaframes.protocol.messages._source import (
    SourceText,
    default_text,
    is_fixed,
    is_simple,
    list_uses,
    write_default_check,
)
from kafkaframes.protocol.messages.plan import AbsentField, FieldPlan, MessagePlan, MutableDefault, StructPlan
from kafkaframes.wire.primitives import SIZE_BY_FIXED_TYPE, STRUCT_FORMATS

# Expressions for the value between p and x: for a bytes buffer, and for a memoryview.
_SLICE_CODE = {"string": "buf[p:x].decode()", "bytes": "buf[p:x]", "records": "buf[p:x]"}
_VIEW_SLICE_CODE = {"string": 'str(buf[p:x], "utf-8")', "bytes": "bytes(buf[p:x])", "records": "buf[p:x]"}


def decoder_source(plan: MessagePlan, *, views: bool = False) -> SourceText:
    """Return the source of ``read_<Message>(buf, p, end)``, which returns ``(object, position)``.

    With ``views``, the function reads a memoryview, and record fields are views of it. Without ``views``, the function
    reads bytes.
    """
    text = SourceText()
    for struct, is_array in list_uses(plan):
        _DecoderWriter(struct, text, views=views).write_function(is_array)
    for struct in plan.structs:
        if struct.tagged_fields or struct.refused_tags:
            _DecoderWriter(struct, text, views=views).write_tags_function()
    return text


def has_shapes(plan: StructPlan) -> bool:
    """Return whether elements with equal array counts have the same size and layout."""
    arrays = [field for field in plan.fields if not is_fixed(field)]
    numbers = all(
        field.array
        and field.compact
        and not field.nullable
        and field.type in SIZE_BY_FIXED_TYPE
        and field.type not in ("bool", "uuid")
        for field in arrays
    )
    return plan.flexible and numbers and 1 <= len(arrays) <= 8


def generate_shape_reader(plan: StructPlan, counts: tuple[int, ...]) -> SourceText:
    """Return source that reads elements of one shape, each with one ``struct`` call, until an element's shape differs.

    ``counts`` are encoded counts (n + 1). For example, all partitions with three replicas, all in sync, have one shape.
    """
    text, reader = SourceText(), _DecoderWriter(plan, SourceText())
    checks: list[str] = []
    lists: list[str] = []
    for field in plan.fields:
        if is_fixed(field):
            reader.write_fixed_size(field, f"o.{field.attribute}")
            continue
        index = len(checks)
        checks.append(f"n{index} == {counts[index]}")
        reader.add_number("B", f"n{index}")
        names = [f"v{index}_{number}" for number in range(counts[index] - 1)]
        for name in names:
            reader.add_number(STRUCT_FORMATS[field.type], name)
        lists.append(f"o.{field.attribute} = [{', '.join(names)}]")
    reader.add_number("B", "n")
    layout = "".join(reader.formats)
    size = calcsize(f">{layout}")
    text.add_constant("unpack", "shape", layout)
    with text.open_block("def read_shape(items, i, buf, p):"):
        with text.open_block("for o in islice(items, i, None):"):
            with text.open_block(f"if p + {size} > len(buf):"):
                text.add("break")
            text.add(f"{', '.join(reader.targets)} = unpack_shape(buf, p)")
            with text.open_block(f"if not ({' and '.join(checks)} and n == 0):"):
                text.add("break")
            for line in (*reader.after, *lists, "o._tags = None"):
                text.add(line)
            reader.text = text
            reader.write_defaults()
            text.add(f"p += {size}")
            text.add("i += 1")
        text.add("return i, p")
    return text


class _DecoderWriter:
    """Generates the source of the functions that decode one struct."""

    def __init__(self, plan: StructPlan, text: SourceText, *, views: bool = False) -> None:
        self.plan = plan
        self.text = text
        self.slices = _VIEW_SLICE_CODE if views else _SLICE_CODE
        self.formats: list[str] = []  # formats of the pending run of fixed-size values; ``targets`` are its variables
        self.targets: list[str] = []
        self.after: list[str] = []

    def write_function(self, is_array: bool) -> None:
        name, add = self.plan.name, self.text.add
        if is_array:
            with self.text.open_block(f"def read_{name}_array(buf, p, end, count):"):
                with self.text.open_block(f"if count * {max(1, self.plan.min_size)} > end - p:"):
                    add("raise malformed")
                add(f"items = [*map(new, repeat({name}, count))]")
                if has_shapes(self.plan):
                    self.write_shape_loop()
                else:
                    with self.text.open_block("for o in items:"):
                        self.write_body()
                add("return items, p")
        else:
            with self.text.open_block(f"def read_{name}(buf, p, end):"):
                add(f"o = new({name})")
                self.write_body()
                add("return o, p")
        add("")

    def write_body(self) -> None:
        """Write code that reads the fields of the struct."""
        self.write_defaults()
        self.text.add("o._tags = None")
        for field in self.plan.fields:
            self.write_field(field, f"o.{field.attribute}")
        if not self.plan.flexible:
            self.flush_run()
            return
        self.add_number("B", "n")
        self.flush_run()
        with self.text.open_block("if n:"):
            has_declared_tags = self.plan.tagged_fields or self.plan.refused_tags
            reader = f"read_{self.plan.name}_tags" if has_declared_tags else "unknown_tags"
            self.text.add(f"p = {reader}(o, buf, p - 1, end)")

    def write_defaults(self) -> None:
        """Assign the defaults of the fields that this version lacks and of all tagged fields."""
        others: tuple[FieldPlan | AbsentField, ...] = (*self.plan.absent, *self.plan.tagged_fields)
        for field in others:
            if (
                field.default is MutableDefault.STRUCT
                and isinstance(field.struct, StructPlan)
                and is_simple(field.struct)
            ):
                self.write_default_struct(field.attribute, field.struct)
            else:
                self.text.add(f"o.{field.attribute} = {default_text(field, self.text)}")

    def write_default_struct(self, attribute: str, plan: StructPlan) -> None:
        """Write code that creates a struct of defaults inline, in half the time of a call (Fetch has many)."""
        self.text.add(f"o.{attribute} = d = new({plan.name})")
        parts: tuple[FieldPlan | AbsentField, ...] = (*plan.fields, *plan.tagged_fields, *plan.absent)
        for part in parts:
            self.text.add(f"d.{part.attribute} = {default_text(part, self.text)}")
        self.text.add("d._tags = None")

    def write_shape_loop(self) -> None:
        """Write code that compares the next element's array counts, and uses the reader of its shape, if any."""
        add = self.text.add
        add("i = 0")
        with self.text.open_block("while i < count:"):
            offset, before = 0, ""
            counts: list[str] = []
            for field in self.plan.fields:
                offset += SIZE_BY_FIXED_TYPE[field.type] if is_fixed(field) else 1
                if not is_fixed(field):
                    counts.append(f"n{len(counts)}")
                    add(f"{counts[-1]} = buf[p + {offset - 1}{before}]")
                    offset -= SIZE_BY_FIXED_TYPE[field.type]  # the encoded count is n + 1
                    before += f" + {counts[-1]} * {SIZE_BY_FIXED_TYPE[field.type]}"
            name = self.text.add_constant("hot", self.plan.name, self.plan)
            add(f"reader = {name}[{', '.join(counts)}]")
            with self.text.open_block("if reader is not None:"):
                add("i, p = reader(items, i, buf, p)")
                with self.text.open_block("if i == count:"):
                    add("break")
            add("o = items[i]")
            add("i += 1")
            self.write_body()

    def add_number(self, fmt: str, target: str) -> None:
        """Add a fixed-size value to the pending run."""
        self.formats.append(fmt)
        self.targets.append(target)

    def flush_run(self) -> None:
        """Write code that reads the pending run of fixed-size values with one call."""
        if not self.formats:
            return
        fmt = "".join(self.formats)
        if fmt == "B":
            self.text.add(f"{self.targets[0]} = buf[p]")
        else:
            comma = "," if len(self.targets) == 1 else ""
            self.text.add(f"{', '.join(self.targets)}{comma} = {self.text.add_constant('unpack', fmt, fmt)}(buf, p)")
        self.text.add(f"p += {calcsize(f'>{fmt}')}")
        for line in self.after:
            self.text.add(line)
        self.formats, self.targets, self.after = [], [], []

    def write_field(self, field: FieldPlan, target: str, *, is_tag: bool = False) -> None:
        if is_fixed(field):
            self.write_fixed_size(field, target)
        elif field.struct is not None and not field.array:
            self.write_single_struct(field, field.struct, target, is_tag=is_tag)
        else:
            self.write_length(field)
            self.write_variable_size(field, target)

    def write_fixed_size(self, field: FieldPlan, target: str) -> None:
        if field.type in ("bool", "uuid"):
            temporary = f"x{len(self.after)}"
            self.add_number("B" if field.type == "bool" else "16s", temporary)
            make = f"bools[{temporary}]" if field.type == "bool" else f"uuid({temporary})"
            self.after.append(f"{target} = {make}")
        else:
            self.add_number(STRUCT_FORMATS[field.type], target)

    def write_length(self, field: FieldPlan) -> None:
        """Write code that reads a length or count into ``n``; a compact length stays encoded, as length + 1."""
        self.add_number("B" if field.compact else "h" if field.type == "string" and not field.array else "i", "n")
        self.flush_run()
        if field.compact:
            with self.text.open_block("if n > 127:"):
                self.text.add("x = buf[p]")
                with self.text.open_block("if 0 < x < 128:"):
                    self.text.add("n += (x << 7) - 128")
                    self.text.add("p += 1")
                with self.text.open_block("else:"):
                    self.text.add("n, p = varint(buf, p - 1)")
                    if field.type == "string" and not field.array:
                        with self.text.open_block("if n > 32768:"):
                            self.text.add("raise malformed")

    def write_variable_size(self, field: FieldPlan, target: str) -> None:
        """Write code that reads the value with the length or count ``n``."""
        add, empty = self.text.add, 1 if field.compact else 0
        is_struct_array = field.array and field.struct is not None
        with self.text.open_block(f"if n > {empty}:" if is_struct_array else f"if n >= {empty}:"):
            if field.array:
                self.write_array(field, target)
            else:
                add(f"x = p + n{' - 1' * field.compact}")
                add(f"{target} = {self.slices[field.type]}")
                add("p = x")
        if is_struct_array:  # empty arrays are frequent, and a call for each takes longer than a small element
            with self.text.open_block(f"elif n == {empty}:"):
                add(f"{target} = []")
        if field.nullable:
            with self.text.open_block("elif n == 0:" if field.compact else "elif n == -1:"):
                add(f"{target} = None")
        with self.text.open_block("else:"):
            add("raise malformed")

    def write_array(self, field: FieldPlan, target: str) -> None:
        add, count, kind = self.text.add, "n - 1" if field.compact else "n", field.type
        if field.struct is not None:
            add(f"{target}, p = read_{field.struct.name}_array(buf, p, end, {count})")
        elif kind in ("string", "bytes", "records"):
            reader = ("compact_" if field.compact else "plain_") + ("strings" if kind == "string" else "blobs")
            add(f"{target}, p = {reader}(buf, p, {count})")
        elif kind in ("bool", "uuid"):
            add(f"{target} = many_{kind}s(buf, p, {count})")
            add(f"p += ({count}) * {SIZE_BY_FIXED_TYPE[kind]}")
            with self.text.open_block("if p > end:"):
                add("raise malformed")
        else:
            if field.compact:
                add("n -= 1")
            table = self.text.add_constant("unpack", kind, kind)
            add(f'{target} = [*{table}[n](buf, p)] if n < 64 else [*many_numbers(buf, p, n, "{kind}")]')
            add(f"p += n * {SIZE_BY_FIXED_TYPE[kind]}" if SIZE_BY_FIXED_TYPE[kind] > 1 else "p += n")

    def write_single_struct(self, field: FieldPlan, struct: StructPlan, target: str, *, is_tag: bool) -> None:
        call = f"{target}, p = read_{struct.name}(buf, p, end)"
        if not field.nullable:
            self.flush_run()
            self.text.add(call)
            return
        self.add_number("B" if is_tag else "b", "n")
        self.flush_run()
        with self.text.open_block("if n == 1:"):
            self.text.add(call)
        with self.text.open_block(f"elif n == {0 if is_tag else -1}:"):
            self.text.add(f"{target} = None")
        with self.text.open_block("else:"):
            self.text.add("raise malformed")

    def write_tags_function(self) -> None:
        add, block = self.text.add, self.text.open_block
        with block(f"def read_{self.plan.name}_tags(o, buf, p, end):"):
            self.write_varint("count")
            add("last = -1")
            with block("for _ in repeat(None, count):"):
                self.write_varint("tag")
                self.write_varint("size")
                with block("if tag <= last:"):
                    add("raise malformed")
                add("last = tag")
                add("start = p")
                for index, field in enumerate(self.plan.tagged_fields):
                    with block(f"{'el' if index else ''}if tag == {field.tag}:"):
                        self.write_field(field, "x1" if is_fixed(field) else "value", is_tag=True)
                        self.write_tag_assignment(field)
                if self.plan.refused_tags:
                    with block(f"{'el' if self.plan.tagged_fields else ''}if tag in {set(self.plan.refused_tags)}:"):
                        add("raise malformed")
                with block("else:"):
                    add("p += size")
                    add("o.unknown_tags.append((tag, bytes(buf[start:p])))")
                with block("if p - start != size or p > end:"):
                    add("raise malformed")
            add("return p")
        add("")

    def write_varint(self, name: str) -> None:
        self.text.add(f"{name} = buf[p]")
        with self.text.open_block(f"if {name} > 127:"):
            self.text.add(f"{name}, p = varint(buf, p)")
        with self.text.open_block("else:"):
            self.text.add("p += 1")

    def write_tag_assignment(self, field: FieldPlan) -> None:
        self.flush_run()
        value = "x1" if is_fixed(field) else "value"
        with self.text.open_block(f"if not ({write_default_check(field, value, self.text)}):"):
            self.text.add("raise malformed")
        self.text.add(f"o.{field.attribute} = {value}")
