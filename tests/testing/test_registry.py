"""The schema registry in memory responds as serializers expect."""

from __future__ import annotations

import pytest
from tests.testing.test_control import ControlClient

AVRO_SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
COMPACT_AVRO_SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'


@pytest.fixture
def call(schema_registry):
    return ControlClient(schema_registry.url)


def test_a_schema_gets_an_id_and_a_version_once(call, schema_registry):
    assert call("POST", "/subjects/orders-value/versions", {"schema": AVRO_SCHEMA}) == {"id": 1}
    assert call("POST", "/subjects/orders-value/versions", {"schema": COMPACT_AVRO_SCHEMA}) == {"id": 1}
    assert call("POST", "/subjects/orders-value/versions", {"schema": '"string"'}) == {"id": 2}
    assert call("POST", "/subjects/orders-key/versions", {"schema": AVRO_SCHEMA}) == {"id": 1}
    assert call("GET", "/subjects") == ["orders-key", "orders-value"]
    assert call("GET", "/subjects/orders-value/versions") == [1, 2]
    assert call("GET", "/schemas/ids/1") == {"schema": COMPACT_AVRO_SCHEMA}
    assert call("GET", "/schemas/ids/1/schema")["name"] == "R"
    assert call("GET", "/schemas/ids/1/versions") == [
        {"subject": "orders-value", "version": 1},
        {"subject": "orders-key", "version": 1},
    ]
    latest = call("GET", "/subjects/orders-value/versions/latest")
    assert latest == {"subject": "orders-value", "version": 2, "id": 2, "schema": '"string"'}
    assert call("POST", "/subjects/orders-value", {"schema": AVRO_SCHEMA})["version"] == 1
    assert schema_registry.register("orders-value", AVRO_SCHEMA) == 1
    assert schema_registry.subjects()["orders-key"][1].text == COMPACT_AVRO_SCHEMA


def test_other_schema_types_have_a_type_and_references(call):
    references = [{"name": "a.proto", "subject": "a", "version": 1}]
    body = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF", "references": references}
    call("POST", "/subjects/p/versions", body)
    assert call("GET", "/schemas/ids/1") == body
    assert call("GET", "/subjects/p/versions/1/schema") == 'syntax = "proto3";'


def test_versions_and_subjects_are_deleted(call):
    for schema in ('"int"', '"long"'):
        call("POST", "/subjects/a/versions", {"schema": schema})
    assert call("DELETE", "/subjects/a/versions/1") == 1
    assert call("GET", "/subjects/a/versions") == [2]
    assert call("DELETE", "/subjects/a") == [2]
    assert call("GET", "/subjects/a/versions")[0] == 404
    assert call("GET", "/schemas/ids/2") == {"schema": '"long"'}  # ids never change


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/subjects/none/versions", None, 404),
        ("GET", "/schemas/ids/9", None, 404),
        ("GET", "/schemas/ids/x", None, 404),
        ("POST", "/subjects/a/versions", {"schema": "{"}, 422),
        ("POST", "/subjects/a/versions", {"schema": " "}, 422),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "XML"}, 422),
        ("POST", "/subjects/a/versions", {}, 400),
        ("PUT", "/config", {"compatibility": "FULL"}, 422),
    ],
)
def test_what_is_wrong_is_told(call, method, path, body, status):
    assert call(method, path, body)[0] == status


def test_the_compatibility_level_is_none(call):
    assert call("GET", "/config") == {"compatibilityLevel": "NONE"}
    assert call("PUT", "/config/a", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    call("POST", "/subjects/a/versions", {"schema": '"int"'})
    assert call("POST", "/compatibility/subjects/a/versions/latest", {"schema": '"long"'}) == {"is_compatible": True}
    assert call("GET", "/subjects/a/versions/5")[0] == 404
    assert call("GET", "/subjects/a/versions/zero")[0] == 422
