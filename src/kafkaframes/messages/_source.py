"""The one module that makes source text: plans in, straight-line Python functions out.

``decoder_source`` and ``encoder_source`` return the text for one message at one version, a function or two for each of
its structs; ``codec.py`` compiles it, and ``kafkaframes spec show-codec`` prints it. What the text does:

* Fixed-size fields that follow each other, and the length that follows them, are one ``struct`` call.
* A compact length is one byte nearly always: more only in a branch.
* An array of structs is one function with the loop inside, so no call is paid per element.
* Nothing is checked that the caller's last comparison (position beyond the end?) or ``struct`` itself notices.
* Only canonical bytes and well-typed values are handled; all else raises one of ``_runtime.ODD`` and is done again by
  the plain interpreter (``_reference.py``), which a test holds equal to these functions on any bytes.

Names in the text: ``o`` the object, ``p`` the position, ``n`` a length as it stands on the wire, ``put`` appends bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkaframes.messages._runtime import FORMATS
from kafkaframes.messages.plan import AbsentField, Empty, FieldPlan, MessagePlan, StructPlan
from kafkaframes.wire.primitives import FIXED_SIZE, ZERO_UUID

_SIZES = {"B": 1, "b": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


class Text:
    """Lines of source with their indentation, and the constants that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.constants: dict[str, Any] = {}

    def add(self, line: str) -> None:
        """Add a line at the depth of now."""
        self.lines.append("    " * self.depth + line if line else "")

    def block(self, line: str) -> _Block:
        """Add a line that opens a block; use as a context manager."""
        self.add(line)
        return _Block(self)

    def constant(self, prefix: str, key: str, value: Any) -> str:
        """Return the name under which the text finds ``value``."""
        name = f"{prefix}_{key}".replace("?", "t")
        self.constants.setdefault(name, value)
        return name

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


class _Block:
    def __init__(self, text: Text) -> None:
        self.text = text

    def __enter__(self) -> None:
        self.text.depth += 1

    def __exit__(self, *_: object) -> None:
        self.text.depth -= 1


def uses(plan: MessagePlan) -> Iterator[tuple[StructPlan, bool]]:
    """Yield each (struct plan, used as an array's element) that the message needs a function for, children first."""
    seen: set[tuple[str, bool]] = set()
    for struct in plan.structs:
        for field in (*struct.fields, *struct.tagged):
            if field.struct is not None and (field.struct.name, field.array) not in seen:
                seen.add((field.struct.name, field.array))
                yield field.struct, field.array
    yield plan.root, False


def default_text(field: FieldPlan | AbsentField, text: Text) -> str:
    """Return an expression that makes a field's default."""
    if field.default is Empty.ARRAY:
        return "[]"
    if field.default is Empty.STRUCT:
        return f"{field.struct.name if isinstance(field.struct, StructPlan) else field.struct}()"
    return constant_text(field.default, text)


def constant_text(value: Any, text: Text) -> str:
    """Return an expression for an immutable value."""
    if value == ZERO_UUID:
        return text.constant("uuid", "zero", value)
    if isinstance(value, float) and repr(value) in ("nan", "inf", "-inf"):
        return f'float("{value!r}")'
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    return text.constant("uuid", str(value).replace("-", ""), value)


def is_fixed(field: FieldPlan) -> bool:
    """Return whether the field has the same size in every message."""
    return not field.array and field.type in FIXED_SIZE


# ---------------------------------------------------------------------------------------------------- reading


def decoder_source(plan: MessagePlan) -> Text:
    """Return the text whose ``read_<Message>(buf, p, end)`` gives ``(object, position)``."""
    text = Text()
    for struct, repeated in uses(plan):
        _Reader(struct, text).function(repeated)
    for struct in plan.structs:
        if struct.tagged or struct.refused_tags:
            _Reader(struct, text).tags_function()
    return text


def has_shapes(plan: StructPlan) -> bool:
    """Return whether elements with as many numbers in each of their arrays have the same size and layout."""
    arrays = [field for field in plan.fields if not is_fixed(field)]
    numbers = all(
        one.array and one.compact and not one.nullable and one.type in FIXED_SIZE and one.type not in ("bool", "uuid")
        for one in arrays
    )
    return plan.flexible and numbers and 1 <= len(arrays) <= 8


def shape_source(plan: StructPlan, counts: tuple[int, ...]) -> Text:
    """Return the text that reads elements of one shape, each with one ``struct`` call, until one differs.

    ``counts`` are as they stand on the wire (n + 1). A partition of three replicas, all in sync, is such a shape.
    """
    text, reader = Text(), _Reader(plan, Text())
    checks: list[str] = []
    lists: list[str] = []
    for field in plan.fields:
        if is_fixed(field):
            reader.fixed(field, f"o.{field.attribute}")
            continue
        index = len(checks)
        checks.append(f"n{index} == {counts[index]}")
        reader.number("B", f"n{index}")
        names = [f"v{index}_{one}" for one in range(counts[index] - 1)]
        for name in names:
            reader.number(FORMATS[field.type], name)
        lists.append(f"o.{field.attribute} = [{', '.join(names)}]")
    reader.number("B", "n")
    size = sum(_SIZES[one] for one in reader.formats)
    text.constant("unpack", "shape", "".join(reader.formats))
    with text.block("def read_shape(items, i, buf, p):"):
        with text.block("for o in islice(items, i, None):"):
            with text.block(f"if p + {size} > len(buf):"):
                text.add("break")
            text.add(f"{', '.join(reader.targets)} = unpack_shape(buf, p)")
            with text.block(f"if not ({' and '.join(checks)} and n == 0):"):
                text.add("break")
            for line in (*reader.after, *lists, "o._tags = None"):
                text.add(line)
            reader.text = text
            reader.defaults()
            text.add(f"p += {size}")
            text.add("i += 1")
        text.add("return i, p")
    return text


class _Reader:
    """Writes the functions that read one struct."""

    def __init__(self, plan: StructPlan, text: Text) -> None:
        self.plan = plan
        self.text = text
        self.formats: list[str] = []  # the run of fixed-size values that waits to be read, and where each goes
        self.targets: list[str] = []
        self.after: list[str] = []

    def function(self, repeated: bool) -> None:
        name, add = self.plan.name, self.text.add
        if repeated:
            with self.text.block(f"def read_{name}_array(buf, p, end, count):"):
                with self.text.block(f"if count * {max(1, self.plan.min_size)} > end - p:"):
                    add("raise odd")
                add(f"items = [*map(new, repeat({name}, count))]")
                if has_shapes(self.plan):
                    self.shaped_loop()
                else:
                    with self.text.block("for o in items:"):
                        self.body()
                add("return items, p")
        else:
            with self.text.block(f"def read_{name}(buf, p, end):"):
                add(f"o = new({name})")
                self.body()
                add("return o, p")
        add("")

    def body(self) -> None:
        self.defaults()
        self.text.add("o._tags = None")
        for field in self.plan.fields:
            self.field(field, f"o.{field.attribute}")
        if not self.plan.flexible:
            self.flush()
            return
        self.number("B", "n")
        self.flush()
        with self.text.block("if n:"):
            declared = self.plan.tagged or self.plan.refused_tags
            reader = f"read_{self.plan.name}_tags" if declared else "unknown_tags"
            self.text.add(f"p = {reader}(o, buf, p - 1, end)")

    def defaults(self) -> None:
        """Set what this version lacks, and what only a tag would say."""
        others: tuple[FieldPlan | AbsentField, ...] = (*self.plan.absent, *self.plan.tagged)
        for field in others:
            self.text.add(f"o.{field.attribute} = {default_text(field, self.text)}")

    def shaped_loop(self) -> None:
        """Look at the counts of the next element's arrays; let the reader of that shape, if there is one, go first."""
        add = self.text.add
        add("i = 0")
        with self.text.block("while i < count:"):
            offset, before = 0, ""
            counts: list[str] = []
            for field in self.plan.fields:
                offset += FIXED_SIZE[field.type] if is_fixed(field) else 1
                if not is_fixed(field):
                    counts.append(f"n{len(counts)}")
                    add(f"{counts[-1]} = buf[p + {offset - 1}{before}]")
                    offset -= FIXED_SIZE[field.type]  # a count is on the wire as n + 1
                    before += f" + {counts[-1]} * {FIXED_SIZE[field.type]}"
            name = self.text.constant("hot", self.plan.name, self.plan)
            add(f"reader = {name}[{', '.join(counts)}]")
            with self.text.block("if reader is not None:"):
                add("i, p = reader(items, i, buf, p)")
                with self.text.block("if i == count:"):
                    add("break")
            add("o = items[i]")
            add("i += 1")
            self.body()

    def number(self, fmt: str, target: str) -> None:
        self.formats.append(fmt)
        self.targets.append(target)

    def flush(self) -> None:
        """Read the waiting run with one call."""
        if not self.formats:
            return
        fmt = "".join(self.formats)
        if fmt == "B":
            self.text.add(f"{self.targets[0]} = buf[p]")
        else:
            comma = "," if len(self.targets) == 1 else ""
            self.text.add(f"{', '.join(self.targets)}{comma} = {self.text.constant('unpack', fmt, fmt)}(buf, p)")
        self.text.add(f"p += {sum(_SIZES[one] for one in self.formats)}")
        for line in self.after:
            self.text.add(line)
        self.formats, self.targets, self.after = [], [], []

    def field(self, field: FieldPlan, target: str, *, tagged: bool = False) -> None:
        if is_fixed(field):
            self.fixed(field, target)
        elif field.struct is not None and not field.array:
            self.one_struct(field, field.struct, target, tagged=tagged)
        else:
            self.length(field)
            self.sized(field, target)

    def fixed(self, field: FieldPlan, target: str) -> None:
        if field.type in ("bool", "uuid"):
            temporary = f"x{len(self.after)}"
            self.number("B" if field.type == "bool" else "16s", temporary)
            make = f"bools[{temporary}]" if field.type == "bool" else f"uuid({temporary})"
            self.after.append(f"{target} = {make}")
        else:
            self.number(FORMATS[field.type], target)

    def length(self, field: FieldPlan) -> None:
        """Read a length or count into ``n``: compact as it is (n + 1), otherwise as n."""
        self.number("B" if field.compact else "h" if field.type == "string" and not field.array else "i", "n")
        self.flush()
        if field.compact:
            with self.text.block("if n > 127:"):
                self.text.add("n, p = varint(buf, p - 1)")
                if field.type == "string" and not field.array:
                    with self.text.block("if n > 32768:"):
                        self.text.add("raise odd")

    def sized(self, field: FieldPlan, target: str) -> None:
        """Read what ``n`` announces."""
        add = self.text.add
        with self.text.block("if n > 0:" if field.compact else "if n >= 0:"):
            if field.array:
                self.array(field, target)
            else:
                add(f"x = p + n{' - 1' * field.compact}")
                add(f"{target} = buf[p:x]{'.decode()' * (field.type == 'string')}")
                add("p = x")
        if field.nullable:
            with self.text.block("elif n == 0:" if field.compact else "elif n == -1:"):
                add(f"{target} = None")
        with self.text.block("else:"):
            add("raise odd")

    def array(self, field: FieldPlan, target: str) -> None:
        add, count, kind = self.text.add, "n - 1" if field.compact else "n", field.type
        if field.struct is not None:
            add(f"{target}, p = read_{field.struct.name}_array(buf, p, end, {count})")
        elif kind in ("string", "bytes", "records"):
            reader = ("compact_" if field.compact else "plain_") + ("strings" if kind == "string" else "blobs")
            add(f"{target}, p = {reader}(buf, p, {count})")
        elif kind in ("bool", "uuid"):
            add(f"{target} = many_{kind}s(buf, p, {count})")
            add(f"p += ({count}) * {FIXED_SIZE[kind]}")
            with self.text.block("if p > end:"):
                add("raise odd")
        else:
            if field.compact:
                add("n -= 1")
            table = self.text.constant("unpack", kind, kind)
            add(f'{target} = [*{table}[n](buf, p)] if n < 64 else [*many_numbers(buf, p, n, "{kind}")]')
            add(f"p += n * {FIXED_SIZE[kind]}" if FIXED_SIZE[kind] > 1 else "p += n")

    def one_struct(self, field: FieldPlan, struct: StructPlan, target: str, *, tagged: bool) -> None:
        call = f"{target}, p = read_{struct.name}(buf, p, end)"
        if not field.nullable:
            self.flush()
            self.text.add(call)
            return
        self.number("B" if tagged else "b", "n")
        self.flush()
        with self.text.block("if n == 1:"):
            self.text.add(call)
        with self.text.block(f"elif n == {0 if tagged else -1}:"):
            self.text.add(f"{target} = None")
        with self.text.block("else:"):
            self.text.add("raise odd")

    def tags_function(self) -> None:
        add, block = self.text.add, self.text.block
        with block(f"def read_{self.plan.name}_tags(o, buf, p, end):"):
            self.varint("count")
            add("last = -1")
            with block("for _ in repeat(None, count):"):
                self.varint("tag")
                self.varint("size")
                with block("if tag <= last:"):
                    add("raise odd")
                add("last = tag")
                add("start = p")
                for index, field in enumerate(self.plan.tagged):
                    with block(f"{'el' if index else ''}if tag == {field.tag}:"):
                        self.field(field, "x1" if is_fixed(field) else "value", tagged=True)
                        self.known(field)
                if self.plan.refused_tags:
                    with block(f"{'el' if self.plan.tagged else ''}if tag in {set(self.plan.refused_tags)}:"):
                        add("raise odd")
                with block("else:"):
                    add("p += size")
                    add("o.unknown_tags.append((tag, buf[start:p]))")
                with block("if p - start != size or p > end:"):
                    add("raise odd")
            add("return p")
        add("")

    def varint(self, name: str) -> None:
        self.text.add(f"{name} = buf[p]")
        with self.text.block(f"if {name} > 127:"):
            self.text.add(f"{name}, p = varint(buf, p)")
        with self.text.block("else:"):
            self.text.add("p += 1")

    def known(self, field: FieldPlan) -> None:
        self.flush()
        value = "x1" if is_fixed(field) else "value"
        with self.text.block(f"if not ({not_default(field, value, self.text)}):"):
            self.text.add("raise odd")
        self.text.add(f"o.{field.attribute} = {value}")


def not_default(field: FieldPlan | AbsentField, value: str, text: Text) -> str:
    """Return an expression: is ``value`` anything but the field's default? (``_reference.is_default`` says how.)"""
    if field.default is None:
        return f"{value} is not None"
    if field.default is Empty.ARRAY or field.type == "bytes":
        return f"{value} is None or len({value})"
    if field.default is Empty.STRUCT:
        name = field.struct.name if isinstance(field.struct, StructPlan) else field.struct
        return f"{value} != {text.constant('default', str(name), str(name))}"
    return f"{value} != {constant_text(field.default, text)}"


# ---------------------------------------------------------------------------------------------------- writing


def encoder_source(plan: MessagePlan) -> Text:
    """Return the text whose ``write_<Message>(o, put)`` puts the bytes of an object, piece by piece."""
    text = Text()
    for struct, repeated in uses(plan):
        _Writer(struct, text).function(repeated)
    for struct in plan.structs:
        if struct.tagged:
            _Writer(struct, text).tags_function()
    return text


class _Writer:
    """Writes the functions that write one struct."""

    def __init__(self, plan: StructPlan, text: Text) -> None:
        self.plan = plan
        self.text = text
        # The waiting run: formats and values up to each array of numbers in it, and the arrays (variable, format).
        self.formats: list[list[str]] = [[]]
        self.values: list[str] = []
        self.arrays: list[tuple[str, str]] = []
        self.compact = plan.flexible

    def function(self, repeated: bool) -> None:
        name = self.plan.name
        if repeated:
            with self.text.block(f"def write_{name}_array(items, put):"), self.text.block("for o in items:"):
                self.body()
        else:
            with self.text.block(f"def write_{name}(o, put):"):
                self.body()
        self.text.add("")

    def body(self) -> None:
        add, block = self.text.add, self.text.block
        with block(f"if o.__class__ is not {self.plan.name}:"):
            add("raise odd")
        for absent in self.plan.absent:
            if not absent.ignorable:
                with block(f"if {not_default(absent, f'o.{absent.attribute}', self.text)}:"):
                    add("raise odd")
        for field in self.plan.fields:
            self.field(field, f"o.{field.attribute}")
        if not self.plan.flexible:
            self.flush()
            with block("if o._tags:"):
                add("raise odd")
            return
        conditions = [not_default(field, f"o.{field.attribute}", self.text) for field in self.plan.tagged]
        waiting = (self.formats, self.values, self.arrays)
        with block("if " + " or ".join(["o._tags", *conditions]) + ":"):
            self.flush()
            add(f"write_{self.plan.name}_tags(o, put)" if self.plan.tagged else "put_tags((), o._tags, put)")
        self.formats, self.values, self.arrays = waiting
        with block("else:"):
            self.number("B", "0")
            self.flush()

    def number(self, fmt: str, value: str) -> None:
        self.formats = [*self.formats[:-1], [*self.formats[-1], fmt]]
        self.values = [*self.values, value]

    def flush(self) -> None:
        """Put the waiting run with one call."""
        if self.values:
            self.text.add(f"put({self.run()})")
        self.formats, self.values, self.arrays = [[]], [], []

    def run(self) -> str:
        values = ", ".join(self.values)
        formats = ["".join(one) for one in self.formats]
        if self.arrays:
            key = "_".join(f"{one}_n{element}" for one, (_, element) in zip(formats, self.arrays, strict=False))
            counts = ", ".join(f"len({variable})" for variable, _ in self.arrays)
            shapes = (formats[:-1], [element for _, element in self.arrays], formats[-1], self.compact)
            name = self.text.constant("shapes", f"{key}_{formats[-1]}", shapes)
            return f"{name}[{counts}]({values})"
        if formats == ["B"]:
            return rf'b"\x{int(self.values[0]):02x}"' if self.values[0].isdigit() else f"bytes(({values},))"
        return f"{self.text.constant('pack', formats[0], formats[0])}({values})"

    def field(self, field: FieldPlan, value: str, *, tagged: bool = False) -> None:
        if is_fixed(field):
            self.number(FORMATS[field.type], f"{value}.bytes" if field.type == "uuid" else value)
        elif field.struct is not None and not field.array:
            self.one_struct(field, field.struct, value, tagged=tagged)
        elif field.array and field.type in FIXED_SIZE and field.type not in ("bool", "uuid") and not field.nullable:
            self.numbers(field, value)
        else:
            self.sized(field, value)

    def numbers(self, field: FieldPlan, value: str) -> None:
        """Let an array of numbers join the run."""
        variable = f"a{len(self.arrays)}"
        self.text.add(f"{variable} = {value}")
        self.formats = [*self.formats, []]
        self.values = [*self.values, f"len({variable}){' + 1' * field.compact}", f"*{variable}"]
        self.arrays = [*self.arrays, (variable, FORMATS[field.type])]

    def sized(self, field: FieldPlan, value: str) -> None:
        add, block = self.text.add, self.text.block
        add(f"v = {value}")
        if not field.nullable:
            self.present(field)
            return
        waiting = (self.formats, self.values, self.arrays)
        with block("if v is None:"):
            self.number("B" if field.compact else _length_format(field), "0" if field.compact else "-1")
            self.flush()
        self.formats, self.values, self.arrays = waiting
        with block("else:"):
            self.present(field)

    def present(self, field: FieldPlan) -> None:
        """Put the length of ``v``, behind the waiting run, and what it holds."""
        add = self.text.add
        if field.array:
            add("v = list_of(v)")
        else:
            add("v = utf8_of(v)" if field.type == "string" else "v = bytes_of(v)")
        if field.compact:
            waiting = (self.formats, self.values, self.arrays)
            self.number("B", "len(v) + 1")
            short = self.run()
            self.formats, self.values, self.arrays = waiting
            before = f"{self.run()} + " if self.values else ""
            add(f"put({short} if len(v) < 127 else {before}put_varint(len(v) + 1))")
            self.formats, self.values, self.arrays = [[]], [], []
        else:
            self.number(_length_format(field), "len(v)")
            self.flush()
        self.elements(field)

    def elements(self, field: FieldPlan) -> None:
        add, kind = self.text.add, field.type
        if not field.array:
            add("put(v)")
        elif field.struct is not None:
            add(f"write_{field.struct.name}_array(v, put)")
        elif kind in ("string", "bytes", "records"):
            size = 2 if kind == "string" else 4
            raw = f"[{'utf8_of' if kind == 'string' else 'bytes_of'}(one) for one in v]"
            add(f"put_blobs({raw}, put, compact={field.compact}, size={size})")
        elif kind == "uuid":
            add('put(b"".join([one.bytes for one in v]))')
        else:
            add(f'put(pack(f">{{len(v)}}{FORMATS[kind]}", *v))')

    def one_struct(self, field: FieldPlan, struct: StructPlan, value: str, *, tagged: bool) -> None:
        call = f"write_{struct.name}({value}, put)"
        if not field.nullable:
            self.flush()
            self.text.add(call)
            return
        waiting = (self.formats, self.values, self.arrays)
        with self.text.block(f"if {value} is None:"):
            self.number("B" if tagged else "b", "0" if tagged else "-1")
            self.flush()
        self.formats, self.values, self.arrays = waiting
        with self.text.block("else:"):
            self.number("B" if tagged else "b", "1")
            self.flush()
            self.text.add(call)

    def tags_function(self) -> None:
        add, block = self.text.add, self.text.block
        with block(f"def write_{self.plan.name}_tags(o, put):"):
            add("known = []")
            for field in self.plan.tagged:
                with block(f"if {not_default(field, f'o.{field.attribute}', self.text)}:"):
                    add("payload = []")
                    writer = _Writer(self.plan, self.text)
                    add("outer, put = put, payload.append")
                    writer.field(field, f"o.{field.attribute}", tagged=True)
                    writer.flush()
                    add("put = outer")
                    add(f'known.append(({field.tag}, b"".join(payload)))')
            add("put_tags(known, o._tags or (), put)")
        add("")


def _length_format(field: FieldPlan) -> str:
    return "h" if field.type == "string" and not field.array else "i"
