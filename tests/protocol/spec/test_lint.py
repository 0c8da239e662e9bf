"""The lint warnings, each with specs that cause it and that Kafka's generator accepts."""

import json

import pytest

from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.jsontext import JsonText
from kafkaframes.protocol.spec.lint import FIELD_LINTS, MESSAGE_LINTS, STRUCT_LINTS, lint_document, lint_set
from kafkaframes.protocol.spec.load import read_declaration

FIELD_A = {"name": "A", "type": "int32", "versions": "0+"}
INNER_FIELDS = [{"name": "X", "type": "int8", "versions": "0+"}]
KEY_FIELDS = [{"name": "X", "type": "int8", "versions": "0+", "mapKey": True}]
COMMON_STRUCTS = [{"name": "S", "versions": "0+", "fields": INNER_FIELDS}]


def build_spec_text(*fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": "FooRequest", "validVersions": "0-3", "flexibleVersions": "2+"}
    return json.dumps({key: value for key, value in {**base, **top, "fields": list(fields)}.items() if value != "drop"})


SPECS_WITH_WARNINGS_BY_LINT = {
    "leftover-field": build_spec_text({**FIELD_A, "versions": "4+"}),
    "nullable-outside": build_spec_text({**FIELD_A, "type": "string", "versions": "1+", "nullableVersions": "0+"}),
    "fields-ignored": build_spec_text({**FIELD_A, "type": "[]int32", "fields": INNER_FIELDS}),
    "undefined-struct": build_spec_text({**FIELD_A, "type": "Foo"}),
    "tagged-zero-copy": build_spec_text(
        {**FIELD_A, "type": "bytes", "zeroCopy": True, "tag": 0, "taggedVersions": "2+"}
    ),
    "records-default": build_spec_text({**FIELD_A, "type": "records", "default": "x"}),
    "octal-default": build_spec_text({**FIELD_A, "default": "010"}),
    "odd-hex-default": build_spec_text({**FIELD_A, "default": "0x"}),
    "long-uuid-default": build_spec_text(
        {**FIELD_A, "type": "uuid", "default": "00000000-0000-0000-0000-000000000000"}
    ),
    "names-by-case": build_spec_text(FIELD_A, {**FIELD_A, "name": "a"}),
    "api-key": build_spec_text(FIELD_A, apiKey="drop"),
    "name-suffix": build_spec_text(FIELD_A, name="Foo"),
    "unused-common-struct": build_spec_text(FIELD_A, commonStructs=COMMON_STRUCTS),
    "key-of-no-array": build_spec_text({**FIELD_A, "type": "S", "fields": KEY_FIELDS}),
    "flexible-never": build_spec_text(FIELD_A, flexibleVersions="4+"),
    "key-twice": '{"apiKey": 1,' + build_spec_text(FIELD_A)[1:],
}


def warnings(spec):
    load_message(spec)
    document = JsonText(spec)
    return {one.rule for one in lint_document(document, read_declaration(document))}


@pytest.mark.parametrize("rule", SPECS_WITH_WARNINGS_BY_LINT)
def test_warned(rule):
    assert warnings(SPECS_WITH_WARNINGS_BY_LINT[rule]) == {rule}


def test_a_good_spec_has_no_warning():
    assert warnings(build_spec_text(FIELD_A, {**FIELD_A, "name": "L", "type": "[]S", "fields": KEY_FIELDS})) == set()


def test_every_lint_has_a_test_case():
    named_rules = {rule.name for table in (FIELD_LINTS, STRUCT_LINTS, MESSAGE_LINTS) for rule in table}
    assert named_rules <= SPECS_WITH_WARNINGS_BY_LINT.keys()


def test_a_set_must_have_unique_keys_and_complete_pairs():
    one, two = load_message(build_spec_text(FIELD_A)), load_message(build_spec_text(FIELD_A, name="BarRequest"))
    response = load_message(build_spec_text(FIELD_A, name="FooResponse", type="response"))
    assert [rule for rule, _, _ in lint_set([one, response])] == []
    assert {rule for rule, _, _ in lint_set([one, two])} == {"api-key-twice", "half-an-api"}
