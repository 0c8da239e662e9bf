"""JSON values: numbers keep their text, schemas as written by serializers, names that differ only by case."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kafkaframes.errors import OptionError
from kafkaframes.scan.values.columns import MAX_COLUMNS, choose_column_names, decode_to_struct
from kafkaframes.scan.values.decoding import DecodingOptions
from kafkaframes.scan.values.json_values import JsonDecoder, infer_schema
from kafkaframes.scan.values.registry import RegisteredSchema


def decode_values(schema, *values, **options):
    decoder = JsonDecoder(schema, **options)
    struct, reasons = decode_to_struct(pa.array([value.encode() for value in values], pa.binary()), decoder)
    return struct.to_pylist(), reasons


def infer_type(schema, **options):
    """Return the type of the column ``a`` of an object with that property."""
    whole = {"type": "object", "properties": {"a": schema}, **options}
    return str(JsonDecoder(whole).fields[0].type)


NUMBERS = [
    "12345678901234567.891234", "1e400", "-1e999", "1.10", "0.1000000000000000055511151231257827", "1E5", "-0", "-0.0",
    "12345678901234567890123", "1" * 5_000, "1e-400", "0", "-7",
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_in_json_text_keep_their_form(number):
    schema = {"type": "object", "properties": {"any": {}}}
    value = f'{{"any":{number},"more":{{"deep":[{number}]}}}}'
    rows, reasons = decode_values(schema, value)
    assert reasons == {}
    assert rows == [{"any": number, "other_fields": f'{{"more":{{"deep":[{number}]}}}}'}]


def test_a_number_column_is_a_double_or_a_reason():
    schema = {"type": "object", "properties": {"n": {"type": "number"}, "i": {"type": "integer"}}}
    rows, reasons = decode_values(
        schema, '{"n":12345678901234567}', '{"n":0.1}', '{"n":1e400}', '{"i":3.0,"n":-0}', '{"i":1e400}', '{"i":1e2}'
    )
    assert [row and row["n"] for row in rows] == [12345678901234567.0, 0.1, None, -0.0, None, None]
    assert [rows[3]["i"], rows[5]["i"]] == [3, 100]
    assert reasons == {
        2: "$.n: expected a number, found 1e400, which is out of the range of a double",
        4: "$.i: expected a 64-bit integer, found 1e400, which is out of the range of a double",
    }


def test_a_lone_surrogate_keeps_its_escape():
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "any": {}}}
    text = '{"id":1,"any":"\\ud800","more":["\\udfff","é"],"\\udead":"\\ud83d\\ude00"}'
    rows, reasons = decode_values(schema, text)
    assert reasons == {}
    assert rows[0]["any"] == '"\\ud800"'
    assert json.loads(rows[0]["other_fields"]) == {"more": ["\udfff", "é"], "\udead": "\U0001f600"}
    assert '"é"' in rows[0]["other_fields"]
    pa.array([rows[0]["other_fields"]]).validate(full=True)
    inferred_schema = infer_schema([b'{"\\ud800":1,"a":"\\ud800","b":1e400,"c":1}'])
    assert inferred_schema["properties"] == {"a": {}, "b": {}, "c": {"type": "integer"}}


NULL, INTEGER, TEXT = {"type": "null"}, {"type": "integer"}, {"type": "string"}
REFERENCES = {
    "$defs": {
        "In": {"type": "object", "properties": {"x": INTEGER}},
        "Node": {"type": "object", "properties": {"n": INTEGER, "next": {"$ref": "#/$defs/Node"}}},
        "a/b~c": TEXT,
        "Loop": {"$ref": "#/$defs/Loop"},
        "named": {"$anchor": "there", "type": "boolean"},
        "Both": {"allOf": [{"$ref": "#/$defs/In"}, {"type": "object", "properties": {"me": {"$ref": "#/$defs/Both"}}}]},
    },
    "definitions": {"Old": INTEGER},
}


@pytest.mark.parametrize(
    ("schema", "expected_type"),
    [
        (
            {"oneOf": [{"type": "null", "title": "Not included"}, TEXT]},
            "string",
        ),  # Confluent's Java serializer
        ({"anyOf": [INTEGER, NULL], "default": None}, "int64"),  # of pydantic
        ({"oneOf": [{"const": None}, {"type": ["null", "boolean"]}]}, "bool"),
        ({"anyOf": [INTEGER, {"type": "number"}, NULL]}, "double"),
        ({"anyOf": [{**TEXT, "format": "date"}, {**TEXT, "format": "uuid"}]}, "string"),
        ({"anyOf": [INTEGER, TEXT]}, "string"),
        ({"type": ["integer", "number", "null"]}, "double"),
        ({"$ref": "#/$defs/In"}, "struct<x: int64>"),
        ({"anyOf": [{"$ref": "#/$defs/In"}, NULL]}, "struct<x: int64>"),
        ({"allOf": [{"$ref": "#/$defs/In"}], "description": "pydantic 1"}, "struct<x: int64>"),
        ({"allOf": [{"$ref": "#/$defs/In"}, {"properties": {"y": TEXT}}]}, "struct<x: int64, y: string>"),
        ({"$ref": "#/definitions/Old"}, "int64"),
        ({"$ref": "#/$defs/a~1b~0c"}, "string"),
        ({"$ref": "#there"}, "bool"),
        ({"$ref": "#/$defs/Loop"}, "string"),
        ({"$ref": "#/$defs/nowhere"}, "string"),
        ({"$ref": "https://elsewhere/x.json"}, "string"),
        ({"$ref": "#/$defs/Node"}, "struct<n: int64, next: string>"),
        ({"$ref": "#/$defs/Both"}, "struct<x: int64, me: string>"),
        ({"type": "array", "items": {"oneOf": [NULL, INTEGER]}}, "list<element: int64>"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": 5}, "int64"),
        ({"enum": [1, 2.5]}, "double"),
        ({"enum": [1, "a"]}, "string"),
    ],
)
def test_schemas_become_typed_columns(schema, expected_type):
    assert infer_type(schema, **REFERENCES) == expected_type


def test_nullable_values_of_javas_serializer_are_values():
    nullable = {"oneOf": [{"type": "null", "title": "Not included"}, TEXT]}
    schema = {"type": "object", "properties": {"id": INTEGER, "name": nullable, "note": {"anyOf": [INTEGER, TEXT]}}}
    rows, reasons = decode_values(
        schema, '{"id":1,"name":"abc","note":"x"}', '{"id":2,"name":null,"note":5}', '{"name":5}'
    )
    assert [(row["name"], row["note"]) for row in rows[:2]] == [("abc", '"x"'), (None, "5")]
    assert list(reasons) == [2]


def test_references_to_other_schemas_of_the_registry():
    schema = {"type": "object", "properties": {"in": {"$ref": "in.json"}, "part": {"$ref": "in.json#/$defs/P"}}}
    other = {"type": "object", "properties": {"x": {"$ref": "#/$defs/P"}}, "$defs": {"P": TEXT}}
    registered_schema = RegisteredSchema("JSON", json.dumps(schema), (("in.json", json.dumps(other)),))
    fields = (
        DecodingOptions("json", registry="http://localhost:1", registered_schema=registered_schema).get_decoder().fields
    )
    assert [str(field.type) for field in fields[:2]] == ["struct<x: string>", "string"]


def test_exponential_schemas_are_rejected_by_the_name_of_the_type():
    definitions = {"n0": {"title": "n0", "type": "object", "properties": {"a": INTEGER}}}
    for level in range(1, 23):
        inner = {"$ref": f"#/$defs/n{level - 1}"}
        fields = {"l": inner, "r": inner}
        definitions[f"n{level}"] = {"title": f"n{level}", "type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/n22"}}, "$defs": definitions}
    with pytest.raises(OptionError, match=rf"JSON Schema: type \w+, at \$\.x.*, has more than {MAX_COLUMNS} columns"):
        JsonDecoder(schema)


@pytest.mark.parametrize(
    ("fields", "expected_names"),
    [
        (["id", "ID", "Id"], None),
        (["ID", "id"], ["ID", "id_a561"]),
        (["Timestamp", "KEY", "timestampms"], ["value_Timestamp", "value_KEY", "value_timestampms"]),
        (["key", "value_key", "Value_KEY"], None),
        (["a.b", "A.B"], None),
        (["a", "a.b", "ab.c"], ["a", "a.b_2e73", "ab.c"]),
        (["a.b.c", "a.b"], None),
        (["", "x"], ["", "x"]),
        (["camelCase", "snake_case"], ["camelCase", "snake_case"]),
    ],
)
def test_column_names_are_distinct_in_every_engine(fields, expected_names):
    names = choose_column_names(fields)
    columns = list(names.values())
    assert len({name.lower() for name in columns}) == len(fields)
    assert choose_column_names([*fields, "later", "LATER"]) | names == choose_column_names([*fields, "later", "LATER"])
    if expected_names is not None:
        assert columns == expected_names


def test_names_inside_structs_and_lists_are_distinct_too():
    rows = [b'{"o":{"k":1,"K":2},"l":[{"m":1,"M":{"n":1,"N":2}}]}']
    rows, reasons = decode_values(infer_schema(rows), rows[0].decode())
    assert reasons == {}
    (row,) = rows
    assert row["o"]["k"] == 1 or row["o"]["K"] == 2
    assert sorted(row["o"].values()) == [1, 2]
    assert len({name.lower() for name in row["l"][0]}) == 2
    nested_struct = next(value for value in row["l"][0].values() if isinstance(value, dict))
    assert sorted(nested_struct.values()) == [1, 2]
    assert len({name.lower() for name in nested_struct}) == 2
