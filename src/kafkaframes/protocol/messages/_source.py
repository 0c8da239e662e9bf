"""Generate Python source from plans: shared parts of ``_source_read.py`` and ``_source_write.py``.

``decoder_source`` and ``encoder_source`` return the source for one message at one version, with one or two functions
per struct. ``codec.py`` compiles the source, and ``kafkaframes spec show-codec`` prints it. The generated code has
these properties:

* Consecutive fixed-size fields, and the length after them, are one ``struct`` call.
* A compact length is nearly always one byte; only a branch handles longer ones.
* An array of structs is one function with the loop inside, so elements cost no calls.
* Conditions that ``struct`` or the caller's final check (position beyond the end?) detects are not checked again.
* Only canonical bytes and values of the right types are handled. Any other input raises one of
``_runtime.MALFORMED_ERRORS``, and the plain interpreter (``_reference.py``) repeats the work. A test verifies on
arbitrary bytes that generated code and interpreter agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkaframes.protocol.messages.plan import AbsentField, FieldPlan, MessagePlan, MutableDefault, StructPlan
from kafkaframes.wire.primitives import NIL_UUID, SIZE_BY_FIXED_TYPE


class SourceText:
    """Lines of source with their indentation, and the constants that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.constants: dict[str, Any] = {}

    def add(self, line: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.depth + line if line else "")

    @contextmanager
    def open_block(self, line: str) -> Iterator[None]:
        """Add a line that opens a block; lines added inside the context manager are indented."""
        self.add(line)
        self.depth += 1
        yield
        self.depth -= 1

    def add_constant(self, prefix: str, key: str, value: Any) -> str:
        """Return the name of the constant ``value`` in the source."""
        name = f"{prefix}_{key}".replace("?", "t")
        self.constants.setdefault(name, value)
        return name

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def list_uses(plan: MessagePlan) -> Iterator[tuple[StructPlan, bool]]:
    """Yield (struct plan, whether it is an array's element) for each function of the message, children first."""
    struct_uses: set[tuple[str, bool]] = set()
    for struct in plan.structs:
        for field in (*struct.fields, *struct.tagged_fields):
            if field.struct is not None and (field.struct.name, field.array) not in struct_uses:
                struct_uses.add((field.struct.name, field.array))
                yield field.struct, field.array
    yield plan.root, False


def default_text(field: FieldPlan | AbsentField, text: SourceText) -> str:
    """Return an expression for a field's default."""
    if field.default is MutableDefault.ARRAY:
        return "[]"
    if field.default is MutableDefault.STRUCT:
        return f"{field.struct.name if isinstance(field.struct, StructPlan) else field.struct}()"
    return format_constant(field.default, text)


def format_constant(value: Any, text: SourceText) -> str:
    """Return an expression for an immutable value."""
    if value == NIL_UUID:
        return text.add_constant("uuid", "zero", value)
    if isinstance(value, float) and repr(value) in ("nan", "inf", "-inf"):
        return f'float("{value!r}")'
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    return text.add_constant("uuid", str(value).replace("-", ""), value)


def is_fixed(field: FieldPlan) -> bool:
    """Return whether the field has the same size in every message."""
    return not field.array and field.type in SIZE_BY_FIXED_TYPE


def is_simple(plan: StructPlan) -> bool:
    """Return whether all defaults of the struct are immutable."""
    parts: tuple[FieldPlan | AbsentField, ...] = (*plan.fields, *plan.tagged_fields, *plan.absent)
    return not any(isinstance(part.default, MutableDefault) for part in parts)


def write_default_check(field: FieldPlan | AbsentField, value: str, text: SourceText) -> str:
    """Return an expression that is true if ``value`` is not the field's default, as in ``_reference.is_default``."""
    if field.default is None:
        return f"{value} is not None"
    if field.default is MutableDefault.ARRAY or field.type == "bytes":
        return f"{value} is None or len({value})"
    if field.default is MutableDefault.STRUCT:
        return _write_struct_comparison(field, value, text)
    return f"{value} != {format_constant(field.default, text)}"


def _write_struct_comparison(field: FieldPlan | AbsentField, value: str, text: SourceText) -> str:
    """Return an expression that compares a struct field by field, because a call of ``__eq__`` costs more."""
    plan = field.struct
    if not isinstance(plan, StructPlan):
        return f"{value} != {text.add_constant('default', str(plan), str(plan))}"
    parts: tuple[FieldPlan | AbsentField, ...] = (*plan.fields, *plan.tagged_fields, *plan.absent)
    if not is_simple(plan):
        return f"{value} != {text.add_constant('default', plan.name, plan.name)}"
    checks = [f"{value}.{part.attribute} != {format_constant(part.default, text)}" for part in parts]
    return " or ".join([f"{value} is None", *checks, f"{value}._tags"])
