"""Readers of Avro numbers, text and bytes, with promotions and conversions between units. Pure.

``create_scalar_reader`` compiles a reader. Its argument ``finish`` returns the conversion to a column's value or to
JSON text.

If both schemas specify a unit (``timestamp-millis``, ``date``) or a decimal scale, the value is converted. If only the
reader schema specifies a unit, the number is in this unit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np

from kafkaframes.scan.values.avro_binary import (
    PRIMITIVE_READERS,
    Convert,
    Read,
    create_converting_reader,
    create_failing_reader,
    create_fixed_reader,
    create_mismatch_reader,
    decode_text,
    read_bytes,
    read_long,
)
from kafkaframes.scan.values.avro_schema import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    STRING,
    AvroType,
    DecimalDigits,
    TimeUnit,
)
from kafkaframes.scan.values.instants import format_date, format_instant, format_local
from kafkaframes.scan.values.registry import BadValueError
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

NANOSECONDS_PER_MICROSECOND: Final = 1_000
_EXACT_DECIMAL_CONTEXT: Final = Context(prec=10_000)
TYPE_PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    INT: frozenset({LONG, FLOAT, DOUBLE}),
    LONG: frozenset({FLOAT, DOUBLE}),
    FLOAT: frozenset({DOUBLE}),
    STRING: frozenset({BYTES}),
    BYTES: frozenset({STRING}),
}


Finish = Callable[[AvroType, TimeUnit | None, int], Convert | None]


def create_scalar_reader(writer: AvroType, reader: AvroType, finish: Finish) -> Read:
    """Return a reader of a number, text or bytes.

    Args:
        writer: written type.
        reader: type to which values are resolved.
        finish: returns a function that converts the value to the result, or None if the value is the result. The
            arguments of ``finish`` are the reader's type, the unit of the number and the scale of the decimal.
    """
    unit, scale = _find_unit(writer, reader), 0
    if isinstance(unit, str):
        return create_failing_reader(unit)
    if reader.digits is not None:
        scale = (writer.digits or reader.digits).scale
    convert = finish(reader, unit, scale)
    if writer.kind == ENUM:
        return _create_enum_reader(writer, reader, convert)
    if writer.kind == FIXED:
        if reader.kind != FIXED or writer.size != reader.size or not has_same_name(writer, reader):
            return create_mismatch_reader(writer, reader)
        return create_converting_reader(create_fixed_reader(writer.size), convert)
    is_promoted = reader.kind in TYPE_PROMOTIONS.get(writer.kind, frozenset())
    if writer.kind not in PRIMITIVE_READERS or not (is_promoted or writer.kind == reader.kind):
        return create_mismatch_reader(writer, reader)
    read = read_bytes if (writer.kind, reader.kind) == (STRING, BYTES) else PRIMITIVE_READERS[writer.kind]
    return create_converting_reader(create_converting_reader(read, _find_promotion(writer, reader)), convert)


def _create_enum_reader(writer: AvroType, reader: AvroType, convert: Convert | None) -> Read:
    """Return a reader of an enum's symbol, or the reader schema's default for an unknown symbol."""
    if reader.kind != ENUM or not has_same_name(writer, reader):
        return create_mismatch_reader(writer, reader)
    reader_symbols = frozenset(reader.symbols)
    symbols = [symbol if symbol in reader_symbols else reader.default for symbol in writer.symbols]
    results = [symbol if symbol is None or convert is None else convert(symbol) for symbol in symbols]

    def read_enum(data: bytes, position: int) -> tuple[Any, int]:
        """Read the symbol's index, and return the symbol."""
        index, position = read_long(data, position)
        if not 0 <= index < len(results):
            raise BadValueError(f"{writer.label} has {len(results)} symbols, but no symbol {index}")
        if results[index] is None:
            raise BadValueError(f"symbol {writer.symbols[index]} of {writer.label} is not in the table's schema")
        return results[index], position

    return read_enum


def _find_promotion(writer: AvroType, reader: AvroType) -> Convert | None:
    """Return the conversion from a written type to a wider type, such as int to float; None if none is needed."""
    if writer.kind == BYTES and reader.kind == STRING:
        return decode_text
    if reader.kind == FLOAT and writer.kind in (INT, LONG):
        return lambda value: float(np.int64(value).astype(np.float32))  # round once, as Java does
    if reader.kind == DOUBLE and writer.kind in (INT, LONG):
        return float
    return None


def _find_unit(writer: AvroType, reader: AvroType) -> TimeUnit | str | None:
    """Return the unit of written numbers, None if the reader has no unit, or an error text if both are incompatible."""
    if reader.unit is None or writer.unit is None:
        return reader.unit
    moments = ("instant", "local", "date")
    if writer.unit.dimension != reader.unit.dimension and not (
        writer.unit.dimension in moments and reader.unit.dimension in moments
    ):
        return f"the value was written as {writer.unit.name}, which cannot be read as {reader.unit.name}"
    return writer.unit


def create_column_conversion(reader: AvroType, unit: TimeUnit | None, scale: int) -> Convert | None:
    """Return a conversion of a scalar to a column's value (a ``Finish``)."""
    if reader.digits is not None:
        return _create_decimal_conversion(reader.digits, scale)
    if reader.unit is None or unit is None:
        return None
    name = reader.unit.name
    is_moment = reader.unit.dimension in ("instant", "local")
    target = NANOSECONDS_PER_MICROSECOND if is_moment and not name.endswith("nanos") else reader.unit.nanoseconds
    if unit.nanoseconds == target:
        return None
    limit = MAX_INT32 if reader.kind == INT else MAX_INT64
    from_nanoseconds, source = unit.nanoseconds, unit.name

    def convert_number(value: int) -> int:
        result = value * from_nanoseconds // target
        if not -limit - 1 <= result <= limit:
            raise BadValueError(f"{value} ({source}) is beyond the range of its column")
        return result

    return convert_number


def _create_decimal_conversion(digits: DecimalDigits, scale: int) -> Convert:
    """Return a conversion of an unscaled number to a decimal with another scale."""
    shift, limit = digits.scale - scale, 10**digits.precision

    def convert_decimal(value: bytes) -> Decimal:
        number = int.from_bytes(value, "big", signed=True)
        if shift >= 0:
            number *= 10**shift
        else:
            number, remainder = divmod(number, 10**-shift)
            if remainder:
                raise BadValueError(
                    f"the decimal of scale {scale} cannot be converted to scale {digits.scale} without a loss of digits"
                )
        if not -limit < number < limit:
            raise BadValueError(f"the decimal has more than {digits.precision} digits")
        return Decimal(number).scaleb(-digits.scale, _EXACT_DECIMAL_CONTEXT)

    return convert_decimal


def create_text_conversion(reader: AvroType, unit: TimeUnit | None, scale: int) -> Convert | None:
    """Return a conversion of a value to JSON text (a ``Finish``)."""
    if reader.digits is not None:
        to_decimal = _create_decimal_conversion(reader.digits, scale)
        return lambda value: format(to_decimal(value), "f")
    if reader.unit is not None and unit is not None and reader.unit.dimension != "time":
        return _create_moment_formatter(reader.unit, unit)
    if reader.unit is not None and unit is not None and unit.nanoseconds != reader.unit.nanoseconds:
        ratio = unit.nanoseconds, reader.unit.nanoseconds
        return lambda value: str(value * ratio[0] // ratio[1])
    if reader.kind in (INT, LONG):
        return str
    if reader.kind in (FLOAT, DOUBLE):
        return _float_text if reader.kind == FLOAT else _double_text
    if reader.kind == BOOLEAN:
        return lambda value: "true" if value else "false"
    if reader.kind in (BYTES, FIXED):  # Avro's JSON encoding also writes each byte as a code point from 0 to 255
        return lambda value: quote_json_text(value.decode("latin-1"))
    return quote_json_text


def quote_json_text(value: str) -> str:
    """Return text as a JSON string."""
    return json.dumps(value, ensure_ascii=False)


def _double_text(value: float) -> str:
    return repr(value) if value - value == 0 else quote_json_text(str(value))  # JSON has no NaN or infinity


def _float_text(value: float) -> str:
    return str(np.float32(value)) if value - value == 0 else quote_json_text(str(value))


def _create_moment_formatter(reader: TimeUnit, unit: TimeUnit) -> Convert:
    """Return a function that formats a date or timestamp as JSON text."""
    to_text = {"date": format_date, "instant": format_instant, "local": format_local}[reader.dimension]
    nanoseconds = unit.nanoseconds

    def format_moment(value: int) -> str:
        """Return the date or timestamp as JSON text."""
        text = to_text(value * nanoseconds)
        return text if text.lstrip("-").isdecimal() else f'"{text}"'

    return format_moment


def has_same_name(writer: AvroType, reader: AvroType) -> bool:
    """Return whether two named types match, by an alias of the reader's type or by name without namespace."""
    if writer.name in reader.aliases:
        return True
    return writer.name.rpartition(".")[2] == reader.name.rpartition(".")[2]
