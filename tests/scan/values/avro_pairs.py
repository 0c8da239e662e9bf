"""Random pairs of Avro schemas, a writer's and a reader's, with values, and the columns that correspond to Java's
results.

A reader's schema is the writer's with some changes: fields added with defaults or removed, numbers promoted, types
moved into and out of unions, renames with aliases, symbols and logical types added and removed. At least one schema of
a pair has no logical number type, because this package converts between different ones and Java does not.
"""

from __future__ import annotations

import json
import random
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
TEXTS = ("", "a", "id", "é", "ключ", "x" * 70)
LONGS = (0, 1, -1, 63, -64, 64, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 16_777_217, 2**63 - 1, -(2**63))
MOMENTS = (0, 1, -1, 1_700_000_000_123, -62_135_596_800_000, 253_402_300_799_999, 253_402_300_800_000)
DIGITS = (b"", b"a", b"id", "é".encode(), b"\x04\x52", b"x\0y")  # bytes, decimals and text: all are valid UTF-8
DOUBLES = (0.0, 0.1, -2.5, 1e300, 3.0)


@dataclass
class SchemaPair:
    """Two schemas, and values written with the first one."""

    writer: Any
    reader: Any
    values: list[bytes]


class PairMaker:
    """Generates random pairs of schemas from a seed."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._numbers = 0
        self._logical: dict[str, dict[str, Any]] = {}

    def pairs(self, count: int) -> list[SchemaPair]:
        return [self.build_pair() for _ in range(count)]

    def build_pair(self) -> SchemaPair:
        choose = self._choose
        self._numbers = 0
        self._logical = {"bytes": {"logicalType": "decimal", "precision": 9, "scale": 2}}
        kind, logical = choose.choice(
            [
                ("int", "date"), ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-millis"),
                ("long", "timestamp-micros"), ("long", "local-timestamp-millis"), ("long", "local-timestamp-micros"),
                ("long", "timestamp-nanos"), ("int", "none"),
            ]
        )  # fmt: skip
        if logical != "none":
            self._logical[kind] = {"logicalType": logical}
        writer = self._build_record(2)
        values = [self._encode_value(writer) for _ in range(choose.randint(1, 4))]
        return SchemaPair(writer, self._change_schema(writer), values)

    # ------------------------------------------------------------------------------------------------------ schemas

    def _choose_name(self, letter: str) -> str:
        self._numbers += 1
        return f"{letter}{self._numbers}"

    def _build_record(self, depth: int) -> dict[str, Any]:
        fields = [self._field(self._build_type(depth)) for _ in range(self._choose.randint(1, 4))]
        return {"type": "record", "name": self._choose_name("R"), "fields": fields}

    def _field(self, kind: Any) -> dict[str, Any]:
        return {"name": self._choose_name("f"), "type": kind}

    def _build_type(self, depth: int) -> Any:
        choice = self._choose.randrange(10 if depth else 6)
        if choice < 4:
            return self._build_primitive()
        if choice == 4:
            return {
                "type": "enum",
                "name": self._choose_name("E"),
                "symbols": ["A", "B", "C"][: self._choose.randint(1, 3)],
            }
        if choice == 5:
            return {"type": "fixed", "name": self._choose_name("F"), "size": self._choose.randint(1, 4)}
        if choice == 6:
            return {"type": "array", "items": self._require_bytes(self._build_type(depth - 1))}
        if choice == 7:
            return {"type": "map", "values": self._build_type(depth - 1)}
        if choice == 8:
            return self._build_union([self._build_type(depth - 1) for _ in range(self._choose.randint(1, 3))])
        return self._build_record(depth - 1)

    def _build_primitive(self, kind: str = "") -> Any:
        kind = kind or self._choose.choice(PRIMITIVES)
        if kind in self._logical and self._choose.random() < 0.5:
            return {"type": kind, **self._logical[kind]}
        return kind

    @staticmethod
    def _require_bytes(kind: Any) -> Any:
        """Return a type whose values have bytes, for elements of arrays."""
        if kind == "null":
            return "int"
        if isinstance(kind, dict) and kind["type"] == "record" and all(f["type"] == "null" for f in kind["fields"]):
            return {**kind, "fields": [*kind["fields"], {"name": "more", "type": "int", "default": 1}]}
        return kind

    def _build_union(self, kinds: list[Any]) -> Any:
        branches: dict[str, Any] = {}
        for kind in kinds + (["null"] if self._choose.random() < 0.6 else []):
            for one in kind if isinstance(kind, list) else [kind]:
                branches.setdefault(get_branch_name(one), one)
        result = list(branches.values())
        self._choose.shuffle(result)
        return result

    # ------------------------------------------------------------------------------------------------------ changes

    def _change_schema(self, schema: Any) -> Any:
        """Return the type that replaces a type in a later schema."""
        choose = self._choose
        if isinstance(schema, list):
            result = [self._change_schema(branch) for branch in schema if choose.random() < 0.9]
            result = [one for branch in result for one in (branch if isinstance(branch, list) else [branch])]
            if len(result) == 1 and choose.random() < 0.3:
                return result[0]
            return self._build_union([*result, *([self._build_primitive()] if choose.random() < 0.3 else [])])
        kind = schema if isinstance(schema, str) else schema["type"]
        if choose.random() < 0.12 and kind != "null":
            return self._build_union(
                [self._change_schema(schema), *([self._build_primitive()] if choose.random() < 0.4 else [])]
            )
        if kind in PRIMITIVES:
            if choose.random() < 0.3 and kind in PROMOTIONS:
                return self._build_primitive(choose.choice(PROMOTIONS[kind]))
            return self._build_primitive() if choose.random() < 0.04 else self._build_primitive(kind)
        return self._change_complex(schema, kind)

    def _change_complex(self, schema: Any, kind: str) -> Any:
        choose = self._choose
        if kind == "array":
            return {**schema, "items": self._require_bytes(self._change_schema(schema["items"]))}
        if kind == "map":
            return {**schema, "values": self._change_schema(schema["values"])}
        result = dict(schema)
        if choose.random() < 0.15:
            result |= {"name": self._choose_name("N"), "aliases": [schema["name"]]}
        if kind == "enum":
            result["symbols"] = choose.sample(["A", "B", "C", "D"], choose.randint(1, 4))
            if choose.random() < 0.5:
                result["default"] = choose.choice(result["symbols"])
        elif kind == "fixed":
            result["size"] = schema["size"] if choose.random() < 0.9 else 5
            if choose.random() < 0.2 and result["size"] == 4:
                result |= {"logicalType": "decimal", "precision": 9, "scale": 3}
        else:
            result["fields"] = [self._change_field(field) for field in schema["fields"] if choose.random() < 0.85]
            for _ in range(choose.choice([0, 0, 1, 2])):
                result["fields"].append(self._build_new_field())
            choose.shuffle(result["fields"])
            if not result["fields"]:
                result["fields"] = [{**self._field("int"), "default": 7}]
        return result

    def _change_field(self, field: dict[str, Any]) -> dict[str, Any]:
        result = {**field, "type": self._change_schema(field["type"])}
        if self._choose.random() < 0.1:
            result |= {"name": self._choose_name("g"), "aliases": [field["name"]]}
        return result

    def _build_new_field(self) -> dict[str, Any]:
        kind = self._build_type(1)
        result = self._field(kind)
        return result if self._choose.random() < 0.1 else {**result, "default": self._choose_default(kind)}

    def _choose_default(self, schema: Any) -> Any:
        choose = self._choose
        if isinstance(schema, list):
            return self._choose_default(schema[0])
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            for field in schema["fields"]:
                if choose.random() < 0.4:
                    field["default"] = self._choose_default(field["type"])
            return {
                field["name"]: self._choose_default(field["type"])
                for field in schema["fields"]
                if "default" not in field or choose.random() < 0.5
            }
        if kind == "array":
            return [self._choose_default(schema["items"]) for _ in range(choose.randrange(3))]
        if kind == "map":
            return {text: self._choose_default(schema["values"]) for text in choose.sample(TEXTS, choose.randrange(3))}
        if kind == "enum":
            return choose.choice(schema["symbols"])
        if kind == "fixed":
            return "".join(choose.choice("\u0000\u00ff\u0004A") for _ in range(schema["size"]))
        if kind == "bytes":
            return "".join(choose.choice("\u0000\u0001\u00d2A") for _ in range(choose.randint(1, 3)))
        return {
            "null": None,
            "boolean": choose.random() < 0.5,
            "int": choose.choice([0, -5, 19_675]),
            "long": choose.choice(MOMENTS),
            "float": choose.choice([0.1, -2.5, 3]),
            "double": choose.choice([0.1, 1e300, -4]),
            "string": choose.choice(TEXTS),
        }[kind]

    # ------------------------------------------------------------------------------------------------------- values

    def _encode_value(self, schema: Any) -> bytes:
        """Return a random value, encoded with its schema."""
        choose = self._choose
        if isinstance(schema, list):
            index = choose.randrange(len(schema))
            return encode_zigzag(index) + self._encode_value(schema[index])
        if isinstance(schema, dict) and schema["type"] not in PRIMITIVES:
            return self._encode_complex(schema)
        kind = schema if isinstance(schema, str) else schema["type"]
        has_moments = bool(self._logical.keys() & {"int", "long"})
        return {
            "null": lambda: b"",
            "boolean": lambda: choose.choice([b"\0", b"\1"]),
            "int": lambda: encode_zigzag(choose.choice([0, 5, -5, 19_675, 2**31 - 1, -(2**31), 16_777_217])),
            "long": lambda: encode_zigzag(choose.choice(MOMENTS if has_moments else LONGS)),
            "float": lambda: struct.pack("<f", choose.choice((0.1, -2.5, 3.0))),
            "double": lambda: struct.pack("<d", choose.choice(DOUBLES)),
            "bytes": lambda: sized_bytes(choose.choice(DIGITS)),
            "string": lambda: sized_bytes(choose.choice(DIGITS)),
        }[kind]()

    def _encode_complex(self, schema: dict[str, Any]) -> bytes:
        choose = self._choose
        if schema["type"] == "record":
            return b"".join(self._encode_value(field["type"]) for field in schema["fields"])
        if schema["type"] == "array":
            return self._encode_block([self._encode_value(schema["items"]) for _ in range(choose.randrange(4))])
        if schema["type"] == "map":
            keys = choose.sample(TEXTS, choose.randrange(3))
            return self._encode_block(
                [sized_bytes(key.encode()) + self._encode_value(schema["values"]) for key in keys]
            )
        if schema["type"] == "enum":
            return encode_zigzag(choose.randrange(len(schema["symbols"])))
        return choose.choice([b"\0", b"\xff"]) + choose.randbytes(schema["size"] - 1)  # a decimal with at most 9 digits

    def _encode_block(self, items: list[bytes]) -> bytes:
        if not items:
            return b"\0"
        body = b"".join(items)
        if self._choose.random() < 0.3:
            return encode_zigzag(-len(items)) + encode_zigzag(len(body)) + body + b"\0"
        return encode_zigzag(len(items)) + body + b"\0"


def get_branch_name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name") or schema["type"])


def encode_zigzag(value: int) -> bytes:
    rest, result = (value << 1) ^ (value >> 63), bytearray()
    while rest >= 0x80:
        result.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*result, rest])


def sized_bytes(value: bytes) -> bytes:
    return encode_zigzag(len(value)) + value


# ------------------------------------------------------------------------------------------------------ expectations


def to_column_value(schema: Any, datum: Any) -> Any:
    """Return a column's value for a Java datum, in the form of ``to_comparable``."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) > 1:
            return None if datum[0] == "null" else ("text", to_json_value(schema, datum))
        schema = others[0] if others else "null"
    if datum[0] == "null":
        return None
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {field["name"]: to_column_value(field["type"], datum[1][field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [to_column_value(schema["items"], item) for item in datum[1]]
    if kind == "map":
        return {key: to_column_value(schema["values"], item) for key, item in datum[1].items()}
    value = to_plain_value(datum)
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if logical == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-schema["scale"])
    if logical is not None and "timestamp" in logical:
        return value * 1000 if logical.endswith("millis") else value
    return value


def to_json_value(schema: Any, datum: Any) -> Any:
    """Return the value in the JSON text of a datum."""
    if datum[0] == "null":
        return None
    if isinstance(schema, list):
        schema = next(
            branch
            for branch in schema
            if (branch if isinstance(branch, str) else branch["type"]) == datum[0]
            and (datum[0] not in ("record", "fixed") or branch["name"] == datum[2])
        )
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {field["name"]: to_json_value(field["type"], datum[1][field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [to_json_value(schema["items"], item) for item in datum[1]]
    if kind == "map":
        return {key: to_json_value(schema["values"], item) for key, item in datum[1].items()}
    value = to_plain_value(datum)
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    if logical == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-schema["scale"])
    if logical == "date" or (logical and "timestamp" in logical):
        return format_moment(logical, value)
    return value.decode("latin-1") if isinstance(value, bytes) else value


def format_moment(logical: str, value: int) -> Any:
    if logical == "date":
        try:
            return str(date(1970, 1, 1) + timedelta(days=value))
        except OverflowError:
            return value
    each = {"millis": 10**6, "micros": 10**3, "nanos": 1}[logical.rpartition("-")[2]]
    seconds, rest = divmod(value * each, 10**9)
    try:
        moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).replace(tzinfo=None)
    except OverflowError:
        return value * each // 10**6
    digits = f".{rest:09}" if rest else ""
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{moment.isoformat()}{digits}{'' if logical.startswith('local') else 'Z'}"


def to_plain_value(datum: Any) -> Any:
    tag, value = datum[0], datum[1]
    if tag in ("int", "long"):
        return int(value)
    if tag == "float":
        return struct.unpack(">f", bytes.fromhex(value.zfill(8)))[0]
    if tag == "double":
        return struct.unpack(">d", bytes.fromhex(value.zfill(16)))[0]
    return bytes.fromhex(value) if tag in ("bytes", "fixed") else value


def to_comparable(schema: Any, value: Any) -> Any:
    """Return a column's value in the form of ``to_column_value``: maps as dictionaries, JSON text parsed."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) > 1:
            return None if value is None else ("text", json.loads(value, parse_float=Decimal))
        schema = others[0] if others else "null"
    if value is None or isinstance(schema, str):
        return value
    if schema["type"] == "record":
        return {field["name"]: to_comparable(field["type"], value[field["name"]]) for field in schema["fields"]}
    if schema["type"] == "array":
        return [to_comparable(schema["items"], item) for item in value]
    if schema["type"] == "map":
        return {key: to_comparable(schema["values"], item) for key, item in value}
    return value


def are_equal(ours: Any, javas: Any) -> bool:
    """Return whether two values are equal. Numbers in JSON text are compared in Java's type."""
    if isinstance(javas, dict) and isinstance(ours, dict):
        return ours.keys() == javas.keys() and all(are_equal(ours[key], javas[key]) for key in javas)
    if isinstance(javas, list | tuple) and isinstance(ours, list | tuple):
        return len(ours) == len(javas) and all(map(are_equal, ours, javas))
    if isinstance(javas, float) and isinstance(ours, Decimal):
        return float(ours) == javas or struct.pack("<f", ours) == struct.pack("<f", javas)
    if isinstance(javas, Decimal) and isinstance(ours, int):
        return ours == javas
    return type(ours) is type(javas) and bool(ours == javas)


def yield_differences(pair: SchemaPair, verdicts: list[dict[str, Any]]) -> list[str]:
    """Return the differences between this package's rows and Java's results for a pair's values."""
    import pyarrow as pa

    from kafkaframes.scan.values.avro_values import AvroDecoder
    from kafkaframes.scan.values.registry import BadValueError

    decoder = AvroDecoder(pair.reader, lambda value: (pair.writer, value))
    result = []
    for value, verdict in zip(pair.values, verdicts, strict=True):
        try:
            row = decoder.decode(value)
        except BadValueError as error:
            if "error" not in verdict:
                result.append(f"{value.hex()}: rejected ({error}); Java: {verdict['v']}")
            continue
        for field in decoder.fields:  # columns accept it
            pa.array([row[field.name]], field.type)
        if "error" in verdict:
            result.append(f"{value.hex()}: {row}; Java: {verdict['error']}")
            continue
        whole = row if isinstance(pair.reader, dict) else row["value"]
        ours, javas = to_comparable(pair.reader, whole), to_column_value(pair.reader, verdict["v"])
        if not are_equal(ours, javas):
            result.append(f"{value.hex()}: {ours}; Java: {javas}")
    return result
