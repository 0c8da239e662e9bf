"""The generator's rules one by one: the rejected spec, the rule, the line and the field; and its leniencies."""

import json
import math
import uuid

import pytest

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.declared import declare_message
from kafkaframes.protocol.spec.jsontext import JsonText
from kafkaframes.protocol.spec.load import KAFKA_3_9_DIALECT, NEWEST_DIALECT, find_problems
from kafkaframes.protocol.spec.rules import FIELD_RULES, MESSAGE_RULES, STRUCT_RULES

A = {"name": "A", "type": "int32", "versions": "0+"}
S = {"name": "S", "versions": "0+", "fields": [{"name": "X", "type": "int8", "versions": "0+"}]}
INNER = S["fields"]
TAG = {"tag": 0, "taggedVersions": "2+"}


def text(*fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": "FooRequest", "validVersions": "0-3", "flexibleVersions": "2+"}
    return json.dumps({key: value for key, value in {**base, **top, "fields": list(fields)}.items() if value != "drop"})


def a(**changes):
    return {**A, **changes}


# rule: specs that break it


def doubling_structs(depth):
    """Return structs of which each uses the next twice: 2^depth of the last one."""
    uses = [{"name": f"S{i}", "versions": "0+", "fields": [a(type=f"S{i + 1}"), a(name="B", type=f"S{i + 1}")]}
            for i in range(depth)]  # fmt: skip
    return [*uses, {"name": f"S{depth}", "versions": "0+", "fields": INNER}]


BROKEN = {
    "field-name": [text(a(name="1a")), text(a(name="a_b")), text(a(name=""))],
    "nullable-type": [text(a(nullableVersions="0+")), text(a(type="uuid", nullableVersions="1"))],
    "entity-type": [text(a(entityType="topicName")), text(a(type="[]S", entityType="brokerId", fields=INNER))],
    "fields-of-struct": [text(a(fields=INNER))],
    "own-flexible-type": [text(a(flexibleVersions="none")), text(a(type="[]string", flexibleVersions="none"))],
    "own-flexible-subset": [text(a(type="bytes", flexibleVersions="1+"))],
    "zero-copy-type": [text(a(zeroCopy=True)), text(a(type="[]bytes", zeroCopy=True))],
    "array-of-records": [text(a(type="[]records"))],
    "tag-and-tagged-versions": [text(a(tag=0)), text(a(taggedVersions="2+"))],
    "tag-not-key": [text(a(type="[]S", fields=[a(mapKey=True, **TAG)]))],
    "tag-not-negative": [text(a(tag=-1, taggedVersions="2+"))],
    "tag-nullable": [text(a(type="string", nullableVersions="3+", **TAG))],
    "tag-open": [text(a(tag=0, taggedVersions="2-3"))],
    "tag-subset": [text(a(versions="3+", **TAG)), text(a(versions="0-2", **TAG))],
    "tag-flexible": [text(a(tag=0, taggedVersions="1+")), text(a(type="string", flexibleVersions="none", **TAG))],
    "tag-not-records": [text(a(type="records", **TAG))],
    "default": [
        text(a(default="x")),
        text(a(default="2147483648")),
        text(a(type="bool", default="1")),
        text(a(type="float64", default="1,5")),
        text(a(type="uuid", default="AAAA")),
        text(a(type="bytes", default="x")),
        text(a(type="[]int8", default="[]")),
        text(a(type="S", default="{}", fields=INNER)),
        text(a(type="string", default="null")),
        text(a(type="string", default="null", nullableVersions="1+")),
    ],
    "unique-names": [text(A, a(versions="1+"))],
    "unique-tags": [text(a(**TAG), a(name="B", **TAG))],
    "contiguous-tags": [text(a(tag=1, taggedVersions="2+"))],
    "flexible-given": [text(A, flexibleVersions="drop")],
    "flexible-open": [text(A, flexibleVersions="2-3")],
    "listeners-of-request": [text(A, type="response", listeners=["broker"])],
    "unstable-of-request": [text(A, type="data", latestVersionUnstable=True)],
    "valid-bounded": [text(A, validVersions="0+")],
    "valid-not-empty": [text(A, validVersions="none"), text(A, validVersions="3-1")],
    "no-top-level-key": [text(a(mapKey=True))],
    "coordinator-record": [
        text(A, type="coordinator-key", validVersions="0"),
        text(A, type="coordinator-key", flexibleVersions="none"),
        text(A, type="coordinator-value", apiKey=None),
    ],
    "header-versions": [
        text(A, headerVersions={"1+": "1"}),
        text(A, headerVersions={"0-1": "1"}),
        text(A, headerVersions={"0-1": "1", "1+": "2"}),
        text(A, headerVersions={"0-1": "1", "2+": "x"}),
        text(A, headerVersions={"0-1": "2", "2+": "1"}),
        text(A, headerVersions={"0-3": "2", "4+": "3"}),
        text(A, headerVersions={"0+": "1"}),
        text(A, headerVersions={"nonsense": "1"}),
        text(A, type="data", headerVersions={"0+": "1"}),
        text(A, type="response", apiKey=18, headerVersions={"0-1": "0", "2+": "1"}),
    ],
    "inline-in-common": [
        text(
            a(type="S"),
            commonStructs=[{**S, "fields": [a(type="T", fields=INNER)]}],
        )
    ],
    "struct-versions": [
        text(a(type="S", versions="4+", fields=INNER)),
        text(a(type="S", versions="0-1", fields=[a(type="T", versions="2+", fields=INNER)])),
    ],
    "struct-covers-use": [
        text(a(type="S"), commonStructs=[{**S, "versions": "2+"}]),
        text(a(type="S"), commonStructs=[{**S, "fields": [a(type="S")]}]),
    ],
    "expansion": [
        text(a(type="S0"), commonStructs=doubling_structs(40)),
        text(a(type="S0"), commonStructs=doubling_structs(13)),
        text(a(type="S0"), commonStructs=doubling_structs(6), validVersions="0-32766"),
    ],
    "common-struct-capital": [text(A, commonStructs=[{**S, "name": "s"}])],
    "common-struct-once": [text(A, commonStructs=[S, S])],
    "common-struct-no-fields": [text(a(type="S", fields=INNER), commonStructs=[S])],
    "inline-struct-once": [text(a(type="S", fields=INNER), a(name="B", type="[]S", fields=INNER))],
    "json": [
        text(a(unknown=1)),
        text(a(type="int33")),
        text(a(type="[][]int8")),
        text(a(type="[]")),
        text(a(type=None)),
        text(a(versions=None)),
        text(a(versions="x")),
        text(a(tag=1.5e300)),
        text(a(tag=True)),
        text(a(tag=[])),
        text(a(ignorable="yes")),
        text(a(default=[])),
        text(a(entityType="foo")),
        text(A, type="REQUEST"),
        text(A, listeners=["Broker"]),
        text(A, validVersions="0-40000"),
        text(A, validVersions=None),
        text(A, name=None),
        text(A, apiKey=32768),
        text(A, headerVersions=[]),
        text(A, commonStructs=[{"name": "S"}]),
        text(None),
        text(A, commonStructs=[7]),
        "[]",
        "7",
    ],
    "one-object": [text(A) + "}"],
}
CASES = [
    pytest.param(rule, one, id=f"{rule}-{index}") for rule, all_ in BROKEN.items() for index, one in enumerate(all_)
]


@pytest.mark.parametrize(("rule", "spec"), CASES)
def test_refused(rule, spec):
    assert rule in {problem.rule for problem in find_problems(JsonText(spec), NEWEST_DIALECT)}
    with pytest.raises(SpecError):
        load_message(spec)


def test_structs_that_expand_to_less_than_the_limit_are_accepted():
    load_message(text(a(type="S0"), commonStructs=doubling_structs(11)))


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "0" * 5000 + "99999", "9" * 7])
@pytest.mark.parametrize("key", ["validVersions", "flexibleVersions", "apiKey"])
def test_a_number_of_thousands_of_digits_is_an_error_in_a_line(key, number):
    """Python itself refuses to read one of more than 4,300."""
    for value in (number, f"0-{number}", f"{number}+", {f"{number}+": "1"}):
        with pytest.raises(SpecError) as caught:
            load_message(text(A, **{key if isinstance(value, str) else "headerVersions": value}))
        assert len(str(caught.value)) < 300


def test_leading_zeros_are_read_as_kafka_reads_them():
    assert str(load_message(text(A, validVersions="0-" + "0" * 5000 + "3")).valid_versions) == "0-3"


def test_every_rule_is_tried():
    named_rules = {rule.name for table in (FIELD_RULES, STRUCT_RULES, MESSAGE_RULES) for rule in table}
    assert named_rules <= BROKEN.keys()


@pytest.mark.parametrize(
    "spec",
    [
        text(A, type="coordinator-value"),
        text(A, type="coordinator-key", validVersions="0", flexibleVersions="none"),
        text(validVersions="none", flexibleVersions="drop"),
        text(A, headerVersions={"0-1": "1", "2+": "2"}),
    ],
)
def test_newer_than_the_generator_of_3_9(spec):
    load_message(spec)
    with pytest.raises(SpecError):
        load_message(spec, dialect=KAFKA_3_9_DIALECT)


LENIENT = [
    a(type=" int32 "),
    a(type="[] int32"),
    a(type="[]bytes"),
    a(tag="0", taggedVersions="2+"),
    a(tag=0.0, taggedVersions="2+"),
    a(mapKey=0, about=5),
    a(ignorable="TRUE"),
    a(ignorable=""),
    a(default=-1),
    a(default="+5"),
    a(default="0x7fffffff"),
    a(default="0x"),
    a(type="bool", default=False),
    a(type="string", default=None),
    a(type="records", default="whatever"),
    a(type="float64", default="0x1p3"),
    a(type="Undeclared"),
    a(versions=" 0-3 "),
    a(versions=1),
    a(flexibleVersions=""),
    a(type="[]int32", fields=INNER),
    a(type="string", versions="2+", nullableVersions="0-1"),
    a(versions="7+"),
    a(versions="\u0663"),  # Java reads digits of any script
    a(default="\u0663"),
    a(type="int32\x01"),  # Java trims every control character
    a(entityType="5"),  # Jackson reads the number of a constant for its name
    a(entityType=5),
    a(type="[]records", versions="7+"),  # no version has it, so no code is generated for it
    a(type="[]int32", fields=[a(default="x", tag=0, taggedVersions="0+"), a(name="B", type="[]records")]),
    a(type="[]int32", fields=[a(name="B", type="string", flexibleVersions="0+")]),
]


@pytest.mark.parametrize(
    "top", [{"type": 0}, {"type": "0"}, {"listeners": [None]}, {"listeners": 1},
            {"commonStructs": [{**S, "versions": "4+"}]}], ids=str
)  # fmt: skip
def test_a_message_is_accepted(top):
    load_message(text(A, **top), dialect=KAFKA_3_9_DIALECT)


REFUSED = [
    text(a(type="\u00a0int32")),  # Java trims no blank above the space
    text(a(versions="\u00a00+")),
    text(a(versions="\U0001d7d8")),  # a digit of two chars is none
    text(a(type="string", flexibleVersions=" ")),
    text(a(taggedVersions="3-1")),
    text(a(type="[]int32", fields=[a(name="1a")])),  # the rules of single fields apply to these too
    text(a(entityType="6")),
    text(a(entityType=-1)),
    text(A, type=1.0),
    text(A, type="response", listeners=[None]),
    text(A, headerVersions=None),
]


@pytest.mark.parametrize("spec", REFUSED)
def test_a_spec_is_refused_as_the_generator_of_3_9_does(spec):
    with pytest.raises(SpecError):
        load_message(spec, dialect=KAFKA_3_9_DIALECT)


@pytest.mark.parametrize("field", LENIENT, ids=str)
def test_accepted(field):
    load_message(text(field))


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("int8", "0x7f", 127),
        ("int64", "-9223372036854775808", -(2**63)),
        ("uint16", "0xffff", 65535),
        ("float64", "1.5f", 1.5),
        ("float64", "1e400", math.inf),
        ("float64", "-Infinity", -math.inf),
        ("float64", "0x1p2000", math.inf),
        ("bool", "True", True),
        ("string", "a b", "a b"),
        ("uuid", "AAAAAAAAAAAAAAAAAAAAAQ", uuid.UUID(int=1)),
        ("bytes", "", b""),
        ("[]int8", "", ()),
        ("records", "", None),
    ],
)
def test_defaults_are_typed(kind, default, value):
    field = load_message(text(a(type=kind, default=default))).struct.field("A")
    assert (field.default, type(field.default)) == (value, type(value))


def test_a_single_value_stands_for_a_list():
    assert load_message(text(A, listeners="broker")).listeners == ("broker",)
    one = json.loads(text(A))
    one["fields"] = A
    assert load_message(json.dumps(one)).struct.field("A")


def test_the_place_is_the_line_of_the_key():
    spec = json.dumps(json.loads(text(A, a(name="B", default="x"))), indent=1)
    line = next(number for number, content in enumerate(spec.splitlines(), 1) if '"default"' in content)
    with pytest.raises(SpecError) as caught:
        load_message(spec, file="Foo.json")
    assert (caught.value.file, caught.value.path) == (f"Foo.json:{line}", ("B",))


def test_declared_paths_lead_to_lines():
    document = JsonText(json.dumps(json.loads(text(a(type="S", fields=INNER))), indent=1))
    inner = declare_message(document.value, NEWEST_DIALECT.types).struct.fields[0].fields[0]
    assert inner.path == ("A", "X")
    assert '"X"' in document.text.splitlines()[document.line_of((*inner.where, "name")) - 1]


@pytest.mark.parametrize("type_", ["S", "[]S"])
def test_a_common_struct_that_nobody_uses_may_hold_itself_from_a_later_version_on(type_):
    """Judged by the generator of 4.3.1, which then names the schema of the version before."""

    def holding(later, *fields, **struct):
        common = {"name": "S", "versions": "0+", "fields": [*INNER, a(name="Next", type=type_, versions=later)]}
        return text(A, *fields, commonStructs=[common | struct])

    assert load_message(holding("1+")).common_structs
    assert load_message(holding("2+", versions="1+"))
    for refused_spec in (holding("0+"), holding("1+", versions="1+"), holding("1+", a(name="B", type="S"))):
        with pytest.raises(SpecError, match="contains itself"):
            load_message(refused_spec)


def test_deep_chains_of_common_structs_are_no_crash():
    count = 3000
    chain = [
        {"name": f"S{i}", "versions": "0+", "fields": [{"name": "N", "type": f"S{i + 1}", "versions": "0+"}]}
        for i in range(count)
    ]
    last = {"name": f"S{count}", "versions": "0+", "fields": []}
    with pytest.raises(SpecError, match="too deep"):
        load_message(text(a(type="S0"), commonStructs=[*chain, last]))
