"""Generate encoder source: fixed-size fields, lengths and number arrays in a row are one ``struct`` call.

Names in the source: ``o`` the object, ``v`` a value, ``put`` appends bytes. See ``_source.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkaframes.protocol.messages._runtime import make_run_format
from kafkaframes.protocol.messages._source import SourceText, is_fixed, list_uses, write_default_check
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan
from kafkaframes.wire.primitives import SIZE_BY_FIXED_TYPE, STRUCT_FORMATS


def encoder_source(plan: MessagePlan) -> SourceText:
    """Return the source of ``write_<Message>(o, put)``, which passes an object's bytes to ``put`` in parts."""
    text = SourceText()
    for struct, is_array in list_uses(plan):
        _EncoderWriter(struct, text).write_function(is_array)
    for struct in plan.structs:
        if struct.tagged_fields:
            _EncoderWriter(struct, text).write_tags_function()
    return text


@dataclass(frozen=True, slots=True)
class PackedShape:
    """Adjacent fixed-size fields and arrays of numbers that one ``struct.pack`` call writes."""

    before: list[str]
    elements: list[str]
    after: str
    compact: bool
    values: tuple[str, ...]
    variables: tuple[str, ...]

    def make_source(self, counts: tuple[int, ...]) -> SourceText:
        """Return the source of a packer for a run with these array counts."""
        text = SourceText()
        names = {
            f"*{variable}": [f"{variable}_{i}" for i in range(n)]
            for variable, n in zip(self.variables, counts, strict=True)
        }
        count_literals = {f"len({variable})": str(n) for variable, n in zip(self.variables, counts, strict=True)}
        count_literals |= {
            f"len({variable}) + 1": str(n + 1) for variable, n in zip(self.variables, counts, strict=True)
        }
        values = [name for value in self.values for name in names.get(value, [count_literals.get(value, value)])]
        fmt = make_run_format(self.before, self.elements, self.after, counts, compact=self.compact)
        with text.open_block(f"def pack_shape(o, {', '.join(self.variables)}):"):
            for variable in self.variables:
                if names[f"*{variable}"]:
                    text.add(f"{', '.join(names[f'*{variable}'])}, = {variable}")
            text.add(f"return {text.add_constant('pack', 'run', fmt)}({', '.join(values)})")
        return text


class _EncoderWriter:
    """Generates the source of the functions that encode one struct."""

    def __init__(self, plan: StructPlan, text: SourceText) -> None:
        self.plan = plan
        self.text = text
        # Values that no statement writes yet: formats and values up to each array of numbers, and the arrays (variable,
        # format).
        self.formats: list[list[str]] = [[]]
        self.values: list[str] = []
        self.arrays: list[tuple[str, str]] = []
        self.compact = plan.flexible

    def write_function(self, is_array: bool) -> None:
        name = self.plan.name
        if is_array:
            with self.text.open_block(f"def write_{name}_array(items, put):"), self.text.open_block("for o in items:"):
                self.write_body()
        else:
            with self.text.open_block(f"def write_{name}(o, put):"):
                self.write_body()
        self.text.add("")

    def write_body(self) -> None:
        """Write code that writes the fields of the struct."""
        add, block = self.text.add, self.text.open_block
        with block(f"if o.__class__ is not {self.plan.name}:"):
            add("raise malformed")
        for absent in self.plan.absent:
            if not absent.ignorable:
                with block(f"if {write_default_check(absent, f'o.{absent.attribute}', self.text)}:"):
                    add("raise malformed")
        for field in self.plan.fields:
            self.write_field(field, f"o.{field.attribute}")
        if not self.plan.flexible:
            self.flush_run()
            with block("if o._tags:"):
                add("raise malformed")
            return
        conditions = [
            write_default_check(field, f"o.{field.attribute}", self.text) for field in self.plan.tagged_fields
        ]
        waiting = (self.formats, self.values, self.arrays)
        with block("if " + " or ".join(["o._tags", *conditions]) + ":"):
            self.flush_run()
            add(f"write_{self.plan.name}_tags(o, put)" if self.plan.tagged_fields else self.write_tags_call("()"))
        self.formats, self.values, self.arrays = waiting
        with block("else:"):
            self.add_number("B", "0")
            self.flush_run()

    def add_number(self, fmt: str, value: str) -> None:
        """Add a fixed-size value to the pending run."""
        self.formats = [*self.formats[:-1], [*self.formats[-1], fmt]]
        self.values = [*self.values, value]

    def flush_run(self) -> None:
        """Write code that packs the pending run of fixed-size values with one call."""
        if self.values:
            self.text.add(f"put({self.write_run()})")
        self.formats, self.values, self.arrays = [[]], [], []

    def write_run(self) -> str:
        values = ", ".join(self.values)
        formats = ["".join(parts) for parts in self.formats]
        if self.arrays:
            key = "_".join(f"{fmt}_n{element}" for fmt, (_, element) in zip(formats, self.arrays, strict=False))
            counts = ", ".join(f"len({variable})" for variable, _ in self.arrays)
            shapes = (formats[:-1], [element for _, element in self.arrays], formats[-1], self.compact)
            name = self.text.add_constant("shapes", f"{key}_{formats[-1]}", shapes)
            general = f"{name}[{counts}]({values})"
            if any("(v)" in value for value in self.values):
                return general
            # A frequent shape's packer takes its values from `o` and the arrays, without building a list of them.
            variables = tuple(variable for variable, _ in self.arrays)
            shape = PackedShape(*shapes, tuple(self.values), variables)
            hot = self.text.add_constant("packers", f"{self.plan.name}_{len(self.text.constants)}", shape)
            # In brackets, because the caller may append "+ ...", which would otherwise belong to the last branch only.
            return f"(w(o, {', '.join(variables)}) if (w := {hot}[{counts}]) is not None else {general})"
        if formats == ["B"]:
            return rf'b"\x{int(self.values[0]):02x}"' if self.values[0].isdigit() else f"bytes(({values},))"
        return f"{self.text.add_constant('pack', formats[0], formats[0])}({values})"

    def write_field(self, field: FieldPlan, value: str, *, is_tag: bool = False) -> None:
        if is_fixed(field):
            self.add_number(STRUCT_FORMATS[field.type], f"{value}.bytes" if field.type == "uuid" else value)
        elif field.struct is not None and not field.array:
            self.write_single_struct(field, field.struct, value, is_tag=is_tag)
        elif (
            field.array
            and field.type in SIZE_BY_FIXED_TYPE
            and field.type not in ("bool", "uuid")
            and not field.nullable
        ):
            self.add_numbers(field, value)
        else:
            self.write_variable_size(field, value)

    def add_numbers(self, field: FieldPlan, value: str) -> None:
        """Add an array of numbers to the pending run, which one ``struct`` call packs."""
        variable = f"a{len(self.arrays)}"
        self.text.add(f"{variable} = {value}")
        with self.text.open_block(f"if {variable}.__class__ is not list:"):
            # The class is checked inline, because a call for each array would cost 10 % of the time.
            self.text.add(f"list_of({variable})")
        self.formats = [*self.formats, []]
        self.values = [*self.values, f"len({variable}){' + 1' * field.compact}", f"*{variable}"]
        self.arrays = [*self.arrays, (variable, STRUCT_FORMATS[field.type])]

    def write_variable_size(self, field: FieldPlan, value: str) -> None:
        add, block = self.text.add, self.text.open_block
        add(f"v = {value}")
        if not field.nullable:
            self.write_present_value(field)
            return
        waiting = (self.formats, self.values, self.arrays)
        with block("if v is None:"):
            self.add_number("B" if field.compact else _length_format(field), "0" if field.compact else "-1")
            self.flush_run()
        self.formats, self.values, self.arrays = waiting
        with block("else:"):
            self.write_present_value(field)

    def write_present_value(self, field: FieldPlan) -> None:
        """Write code that writes the length of ``v`` after the pending run, then the content of ``v``."""
        add = self.text.add
        if field.array:
            add("v = list_of(v)")
        else:
            add("v = utf8_of(v)" if field.type == "string" else "v = bytes_of(v)")
        if field.compact:
            waiting = (self.formats, self.values, self.arrays)
            self.add_number("B", "len(v) + 1")
            short = self.write_run()
            self.formats, self.values, self.arrays = waiting
            before = f"{self.write_run()} + " if self.values else ""
            add(f"put({short} if len(v) < 127 else {before}encode_varint(len(v) + 1))")
            self.formats, self.values, self.arrays = [[]], [], []
        else:
            self.add_number(_length_format(field), "len(v)")
            self.flush_run()
        self.write_elements(field)

    def write_elements(self, field: FieldPlan) -> None:
        add, kind = self.text.add, field.type
        if not field.array:
            add("put(v)")
        elif field.struct is not None:
            add(f"write_{field.struct.name}_array(v, put)")
        elif kind in ("string", "bytes", "records"):
            size = 2 if kind == "string" else 4
            raw = f"[{'utf8_of' if kind == 'string' else 'bytes_of'}(one) for one in v]"
            add(f"write_blobs({raw}, put, compact={field.compact}, size={size})")
        elif kind == "uuid":
            add('put(b"".join([one.bytes for one in v]))')
        else:
            add(f'put(pack(f">{{len(v)}}{STRUCT_FORMATS[kind]}", *v))')

    def write_single_struct(self, field: FieldPlan, struct: StructPlan, value: str, *, is_tag: bool) -> None:
        call = f"write_{struct.name}({value}, put)"
        if not field.nullable:
            self.flush_run()
            self.text.add(call)
            return
        waiting = (self.formats, self.values, self.arrays)
        with self.text.open_block(f"if {value} is None:"):
            self.add_number("B" if is_tag else "b", "0" if is_tag else "-1")
            self.flush_run()
        self.formats, self.values, self.arrays = waiting
        with self.text.open_block("else:"):
            self.add_number("B" if is_tag else "b", "1")
            self.flush_run()
            self.text.add(call)

    def write_tags_function(self) -> None:
        add, block = self.text.add, self.text.open_block
        with block(f"def write_{self.plan.name}_tags(o, put):"):
            add("known = []")
            for field in self.plan.tagged_fields:
                with block(f"if {write_default_check(field, f'o.{field.attribute}', self.text)}:"):
                    add("payload = []")
                    writer = _EncoderWriter(self.plan, self.text)
                    add("outer, put = put, payload.append")
                    writer.write_field(field, f"o.{field.attribute}", is_tag=True)
                    writer.flush_run()
                    add("put = outer")
                    add(f'known.append(({field.tag}, b"".join(payload)))')
            add(self.write_tags_call("known"))
        add("")

    def write_tags_call(self, tag_list: str) -> str:
        reserved_argument = f", {set(self.plan.declared_tags)}" if self.plan.declared_tags else ""
        return f"write_tags({tag_list}, o._tags or (), put{reserved_argument})"


def _length_format(field: FieldPlan) -> str:
    return "h" if field.type == "string" and not field.array else "i"
