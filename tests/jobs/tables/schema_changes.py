"""Changes of a value schema, and their effect on a table: each change in each format.

Run python -m tests.jobs.tables.schema_changes to update the table of ``docs/reference/schema-changes.md``.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "schema-changes.md"
FORMATS = ("delta", "iceberg", "parquet")
MARK = re.compile(r"(<!-- schema-changes: [^\n]*-->\n).*?(<!-- end of schema-changes -->)", re.DOTALL)
TEXT = ["null", "string"]


@dataclass(frozen=True)
class Change:
    """Two schemas, with a value of each.

    Attributes:
        rows: the columns of both values in the resulting table.
        refusing_forms: formats that reject the change.
    """

    name: str
    mode: str
    schemas: tuple[bytes, bytes]
    values: tuple[bytes, bytes]
    rows: tuple[dict[str, Any], dict[str, Any]]
    refusing_forms: tuple[str, ...] = ()


def record(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    rows = [
        {"name": field[0], "type": field[1], **({"default": field[2]} if len(field) > 2 else {})} for field in fields
    ]
    return {"type": "record", "name": name, "fields": rows}


def decimal(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


def avro(name, old, old_value, new, new_value, rows, refusing_forms=()) -> Change:
    import fastavro

    values = []
    for schema, value in ((old, old_value), (new, new_value)):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
        values.append(out.getvalue())
    return Change(name, "avro", (_text(old), _text(new)), tuple(values), rows, refusing_forms)


def json_change(name, old, old_value, new, new_value, rows, refusing_forms=()) -> Change:
    schemas = tuple(_text({"type": "object", "properties": one}) for one in (old, new))
    return Change(name, "json", schemas, (_text(old_value), _text(new_value)), rows, refusing_forms)


def protobuf(name, old, old_value, new, new_value, rows, refusing_forms=()) -> Change:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    schemas, values = [], []
    for fields, value in ((old, old_value), (new, new_value)):
        file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
        message = file.message_type.add(name="M")
        for number, (field, kind) in enumerate(fields, 1):
            message.field.add(name=field, number=number, type=kind, label=1)
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(file.SerializeToString())
        encoded_message = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))(**value)
        schemas.append(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
        values.append(b"\0" + encoded_message.SerializeToString())
    return Change(name, "protobuf", tuple(schemas), tuple(values), rows, refusing_forms)


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()


def changes() -> Iterator[Change]:
    """Yield the changes, in the order of the page."""
    small, large = record(("a", "int"), name="In"), record(("a", "int"), ("b", TEXT, None), name="In")
    old, new = {"a": 1, "b": None}, {"a": 2, "b": "x"}
    yield avro("Avro: a field added", record(("n", "int")), {"n": 1}, record(("n", "int"), ("m", TEXT, None)),
               {"n": 2, "m": "x"}, ({"n": 1, "m": None}, {"n": 2, "m": "x"}))  # fmt: skip
    yield avro("a field removed", record(("n", "int"), ("m", "int")), {"n": 1, "m": 5}, record(("n", "int")), {"n": 2},
               ({"n": 1, "m": 5}, {"n": 2, "m": None}))  # fmt: skip
    renamed_record = record(("new", "int"))
    renamed_record["fields"][0]["aliases"] = ["old"]
    yield avro("a field renamed, with an alias: a new column", record(("old", "int")), {"old": 1}, renamed_record,
               {"new": 2},
               ({"old": 1, "new": None}, {"old": None, "new": 2}))  # fmt: skip
    yield avro("a field added inside a record", record(("c", small)), {"c": {"a": 1}}, record(("c", large)), {"c": new},
               ({"c": old}, {"c": new}))  # fmt: skip
    yield avro("inside the records of an array", record(("c", {"type": "array", "items": small})), {"c": [{"a": 1}]},
               record(("c", {"type": "array", "items": large})), {"c": [new]},
               ({"c": [old]}, {"c": [new]}))  # fmt: skip
    yield avro("inside the records of a map", record(("c", {"type": "map", "values": small})), {"c": {"k": {"a": 1}}},
               record(("c", {"type": "map", "values": large})), {"c": {"k": new}},
               ({"c": [("k", old)]}, {"c": [("k", new)]}))  # fmt: skip
    widening = ("delta", "parquet")
    yield avro("`int` to `long`", record(("n", "int")), {"n": 1}, record(("n", "long")), {"n": 5_000_000_000},
               ({"n": 1}, {"n": 5_000_000_000}), widening)  # fmt: skip
    yield avro("`float` to `double`", record(("n", "float")), {"n": 1.5}, record(("n", "double")), {"n": 0.1},
               ({"n": 1.5}, {"n": 0.1}), widening)  # fmt: skip
    yield avro("`int` to `long` inside a record", record(("c", record(("n", "int"), name="In"))), {"c": {"n": 1}},
               record(("c", record(("n", "long"), name="In"))), {"c": {"n": 2**40}},
               ({"c": {"n": 1}}, {"c": {"n": 2**40}}), widening)  # fmt: skip
    cents, large_cents = Decimal("12.34"), Decimal("12345678.90")
    yield avro("a decimal of more digits", record(("n", decimal(6))), {"n": cents}, record(("n", decimal(10))),
               {"n": large_cents}, ({"n": cents}, {"n": large_cents}), widening)  # fmt: skip
    optional = ["null", "int"]
    yield avro("a type to a union with null", record(("n", "int")), {"n": 1}, record(("n", optional)), {"n": None},
               ({"n": 1}, {"n": None}))  # fmt: skip
    several = ["null", "int", "string"]
    yield avro("another type into a union", record(("n", optional)), {"n": 1}, record(("n", several)),
               {"n": "x"}, ({}, {}), FORMATS)  # fmt: skip
    yield avro("`int` to `string`, in another field's place", record(("n", "int")), {"n": 1}, record(("n", "string")),
               {"n": "x"}, ({}, {}), FORMATS)  # fmt: skip
    symbols = {"type": "enum", "name": "E", "symbols": ["A"]}
    more = {**symbols, "symbols": ["A", "B"]}
    yield avro("a symbol added to an enum", record(("e", symbols)), {"e": "A"}, record(("e", more)),
               {"e": "B"}, ({"e": "A"}, {"e": "B"}))  # fmt: skip
    integer, text, number = {"type": "integer"}, {"type": "string"}, {"type": "number"}
    nullable = {"oneOf": [{"type": "null"}, integer]}
    yield json_change("JSON Schema: a property added", {"n": integer}, {"n": 1}, {"n": integer, "m": text},
                      {"n": 2, "m": "x"},
                      ({"n": 1, "m": None}, {"n": 2, "m": "x"}))  # fmt: skip
    one, two = (
        {"type": "object", "properties": {"a": integer}},
        {"type": "object", "properties": {"a": integer, "b": text}},
    )
    yield json_change("a property added inside an object", {"o": one}, {"o": {"a": 1}}, {"o": two}, {"o": new},
                      ({"o": old}, {"o": new}))  # fmt: skip
    yield json_change("a type to `oneOf` with null", {"n": integer}, {"n": 1}, {"n": nullable},
                      {"n": None}, ({"n": 1}, {"n": None}))  # fmt: skip
    yield json_change("`integer` to `number`", {"n": integer}, {"n": 1}, {"n": number}, {"n": 1.5}, ({}, {}), FORMATS)
    yield protobuf("Protobuf: a field added", [("n", 5)], {"n": 1}, [("n", 5), ("m", 9)], {"n": 2, "m": "x"},
                   ({"n": 1, "m": None}, {"n": 2, "m": "x"}))  # fmt: skip
    yield protobuf(
        "`int32` to `int64`", [("n", 5)], {"n": 1}, [("n", 3)], {"n": 2**40}, ({"n": 1}, {"n": 2**40}), widening
    )


def run(change: Change, form: str, place: Path) -> str | list[dict[str, Any]]:
    """Fill a table with the first schema and continue with the second one. Return the table's rows, or the reason why
    the second schema is rejected.
    """
    directory = place / "logs" / "orders-0"
    directory.mkdir(parents=True)
    arguments = ["table", place / "logs", "--topic", "orders", "--to", form, place / "t", "--mode", change.mode]
    for number, (schema, value) in enumerate(zip(change.schemas, change.values, strict=True), 1):
        (place / f"{number}.schema").write_bytes(schema)
        arguments += ["--schema", f"{number}={place / f'{number}.schema'}"]
        rows = [{"value": b"\0" + number.to_bytes(4, "big") + value}]
        data = kafkaframes.build_records(rows, base_offset=number - 1)
        (directory / f"{number - 1:020}.log").write_bytes(data)
        try:
            result = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
        except OptionError as error:
            if number == 1:
                raise
            return str(error)
        assert result.exit_code == 0, result.output
    table = read(form, place / "t").sort_by("offset")
    names = [name for name in change.rows[0] if name in table.schema.names]
    return table.select(names).to_pylist()


def read(form: str, place: Path) -> pa.Table:
    """Return a table's rows."""
    if form == "delta":
        from deltalake import DeltaTable

        return DeltaTable(place).to_pyarrow_table()
    if form == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        return (
            SqlCatalog("kafkaframes", uri=f"sqlite:///{place}/catalog.db").load_table("kafka.records").scan().to_arrow()
        )
    import duckdb

    files = sorted(map(str, place.rglob("topic=*/**/*.parquet")))
    assert all(pq.read_schema(file) for file in files)
    return duckdb.connect().read_parquet(files, union_by_name=True).to_arrow_table()


def comparable(value: Any) -> Any:
    """Return a value with maps as lists of pairs, since readers return either."""
    if isinstance(value, dict):
        return {key: comparable(one) for key, one in value.items()}
    if isinstance(value, list):
        pairs = [
            tuple(one.values()) if isinstance(one, dict) and one.keys() == {"key", "value"} else one for one in value
        ]
        return [tuple(map(comparable, pair)) if isinstance(pair, tuple) else comparable(pair) for pair in pairs]
    return value


def _pair(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"key", "value"}:
        value = tuple(value.values())
    return tuple(map(comparable, value)) if isinstance(value, tuple) else comparable(value)


def outcome(change: Change, form: str, place: Path) -> str:
    """Return the text of a cell of the page's table, after a check of the rows."""
    result = run(change, form, place)
    if isinstance(result, str):
        assert form in change.refusing_forms, result
        reason = " ".join(result.split()).rpartition(": ")[2]
        return f"refused: {reason}"
    assert form not in change.refusing_forms, result
    assert [comparable(row) for row in result] == [comparable(row) for row in change.rows]
    return "done"


def page_table(cells: Callable[[Change, str], str]) -> str:
    """Return the table of the page."""
    lines = ["| change | " + " | ".join(map(str.capitalize, FORMATS)) + " |", "|---" * (len(FORMATS) + 1) + "|"]
    for change in changes():
        lines.append(f"| {change.name} | " + " | ".join(cells(change, form) for form in FORMATS) + " |")
    return "\n".join(lines)


def write() -> None:
    """Try all changes, and write the page."""

    def cell(change: Change, form: str) -> str:
        with tempfile.TemporaryDirectory() as place:
            return outcome(change, form, Path(place))

    text, count = MARK.subn(lambda match: f"{match[1]}{page_table(cell)}\n{match[2]}", PAGE.read_text())
    assert count == 1
    PAGE.write_text(text)


if __name__ == "__main__":
    write()
