"""Lint warnings one by one: the generator accepts each of these specs."""

import json

import pytest

from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.jsontext import JsonText
from kafkaframes.protocol.spec.lint import FIELD_LINTS, MESSAGE_LINTS, STRUCT_LINTS, lint_document, lint_set
from kafkaframes.protocol.spec.load import read_declaration

A = {"name": "A", "type": "int32", "versions": "0+"}
INNER = [{"name": "X", "type": "int8", "versions": "0+"}]
KEY = [{"name": "X", "type": "int8", "versions": "0+", "mapKey": True}]
COMMON = [{"name": "S", "versions": "0+", "fields": INNER}]


def text(*fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": "FooRequest", "validVersions": "0-3", "flexibleVersions": "2+"}
    return json.dumps({key: value for key, value in {**base, **top, "fields": list(fields)}.items() if value != "drop"})


WARNED = {
    "leftover-field": text({**A, "versions": "4+"}),
    "nullable-outside": text({**A, "type": "string", "versions": "1+", "nullableVersions": "0+"}),
    "fields-ignored": text({**A, "type": "[]int32", "fields": INNER}),
    "undefined-struct": text({**A, "type": "Foo"}),
    "tagged-zero-copy": text({**A, "type": "bytes", "zeroCopy": True, "tag": 0, "taggedVersions": "2+"}),
    "records-default": text({**A, "type": "records", "default": "x"}),
    "octal-default": text({**A, "default": "010"}),
    "odd-hex-default": text({**A, "default": "0x"}),
    "long-uuid-default": text({**A, "type": "uuid", "default": "00000000-0000-0000-0000-000000000000"}),
    "names-by-case": text(A, {**A, "name": "a"}),
    "api-key": text(A, apiKey="drop"),
    "name-suffix": text(A, name="Foo"),
    "unused-common-struct": text(A, commonStructs=COMMON),
    "key-of-no-array": text({**A, "type": "S", "fields": KEY}),
    "flexible-never": text(A, flexibleVersions="4+"),
    "key-twice": '{"apiKey": 1,' + text(A)[1:],
}


def warnings(spec):
    load_message(spec)
    document = JsonText(spec)
    return {one.rule for one in lint_document(document, read_declaration(document))}


@pytest.mark.parametrize("rule", WARNED)
def test_warned(rule):
    assert warnings(WARNED[rule]) == {rule}


def test_a_good_spec_has_no_warning():
    assert warnings(text(A, {**A, "name": "L", "type": "[]S", "fields": KEY})) == set()


def test_every_lint_is_tried():
    named_rules = {rule.name for table in (FIELD_LINTS, STRUCT_LINTS, MESSAGE_LINTS) for rule in table}
    assert named_rules <= WARNED.keys()


def test_a_set_has_each_key_once_and_both_halves():
    one, two = load_message(text(A)), load_message(text(A, name="BarRequest"))
    response = load_message(text(A, name="FooResponse", type="response"))
    assert [rule for rule, _, _ in lint_set([one, response])] == []
    assert {rule for rule, _, _ in lint_set([one, two])} == {"api-key-twice", "half-an-api"}
