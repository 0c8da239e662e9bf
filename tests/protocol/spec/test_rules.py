"""The generator's rules, each with rejected specs, line and field, and unusual specs that it accepts."""

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

FIELD_A = {"name": "A", "type": "int32", "versions": "0+"}
STRUCT_S = {"name": "S", "versions": "0+", "fields": [{"name": "X", "type": "int8", "versions": "0+"}]}
INNER_FIELDS = STRUCT_S["fields"]
TAG_ATTRIBUTES = {"tag": 0, "taggedVersions": "2+"}


def build_spec_text(*fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": "FooRequest", "validVersions": "0-3", "flexibleVersions": "2+"}
    return json.dumps({key: value for key, value in {**base, **top, "fields": list(fields)}.items() if value != "drop"})


def build_field(**changes):
    return {**FIELD_A, **changes}


# specs that break each rule, by rule


def doubling_structs(depth):
    """Return structs that each use the next one twice, so that the last one is used 2^depth times."""
    uses = [
        {
            "name": f"S{i}",
            "versions": "0+",
            "fields": [build_field(type=f"S{i + 1}"), build_field(name="B", type=f"S{i + 1}")],
        }
        for i in range(depth)
    ]
    return [*uses, {"name": f"S{depth}", "versions": "0+", "fields": INNER_FIELDS}]


BROKEN_SPECS_BY_RULE = {
    "field-name": [
        build_spec_text(build_field(name="1a")),
        build_spec_text(build_field(name="a_b")),
        build_spec_text(build_field(name="")),
    ],
    "nullable-type": [
        build_spec_text(build_field(nullableVersions="0+")),
        build_spec_text(build_field(type="uuid", nullableVersions="1")),
    ],
    "entity-type": [
        build_spec_text(build_field(entityType="topicName")),
        build_spec_text(build_field(type="[]S", entityType="brokerId", fields=INNER_FIELDS)),
    ],
    "fields-of-struct": [build_spec_text(build_field(fields=INNER_FIELDS))],
    "own-flexible-type": [
        build_spec_text(build_field(flexibleVersions="none")),
        build_spec_text(build_field(type="[]string", flexibleVersions="none")),
    ],
    "own-flexible-subset": [build_spec_text(build_field(type="bytes", flexibleVersions="1+"))],
    "zero-copy-type": [
        build_spec_text(build_field(zeroCopy=True)),
        build_spec_text(build_field(type="[]bytes", zeroCopy=True)),
    ],
    "array-of-records": [build_spec_text(build_field(type="[]records"))],
    "tag-and-tagged-versions": [build_spec_text(build_field(tag=0)), build_spec_text(build_field(taggedVersions="2+"))],
    "tag-not-key": [build_spec_text(build_field(type="[]S", fields=[build_field(mapKey=True, **TAG_ATTRIBUTES)]))],
    "tag-not-negative": [build_spec_text(build_field(tag=-1, taggedVersions="2+"))],
    "tag-nullable": [build_spec_text(build_field(type="string", nullableVersions="3+", **TAG_ATTRIBUTES))],
    "tag-open": [build_spec_text(build_field(tag=0, taggedVersions="2-3"))],
    "tag-subset": [
        build_spec_text(build_field(versions="3+", **TAG_ATTRIBUTES)),
        build_spec_text(build_field(versions="0-2", **TAG_ATTRIBUTES)),
    ],
    "tag-flexible": [
        build_spec_text(build_field(tag=0, taggedVersions="1+")),
        build_spec_text(build_field(type="string", flexibleVersions="none", **TAG_ATTRIBUTES)),
    ],
    "tag-not-records": [build_spec_text(build_field(type="records", **TAG_ATTRIBUTES))],
    "default": [
        build_spec_text(build_field(default="x")),
        build_spec_text(build_field(default="2147483648")),
        build_spec_text(build_field(type="bool", default="1")),
        build_spec_text(build_field(type="float64", default="1,5")),
        build_spec_text(build_field(type="uuid", default="AAAA")),
        build_spec_text(build_field(type="bytes", default="x")),
        build_spec_text(build_field(type="[]int8", default="[]")),
        build_spec_text(build_field(type="S", default="{}", fields=INNER_FIELDS)),
        build_spec_text(build_field(type="string", default="null")),
        build_spec_text(build_field(type="string", default="null", nullableVersions="1+")),
    ],
    "unique-names": [build_spec_text(FIELD_A, build_field(versions="1+"))],
    "unique-tags": [build_spec_text(build_field(**TAG_ATTRIBUTES), build_field(name="B", **TAG_ATTRIBUTES))],
    "contiguous-tags": [build_spec_text(build_field(tag=1, taggedVersions="2+"))],
    "flexible-given": [build_spec_text(FIELD_A, flexibleVersions="drop")],
    "flexible-open": [build_spec_text(FIELD_A, flexibleVersions="2-3")],
    "listeners-of-request": [build_spec_text(FIELD_A, type="response", listeners=["broker"])],
    "unstable-of-request": [build_spec_text(FIELD_A, type="data", latestVersionUnstable=True)],
    "valid-bounded": [build_spec_text(FIELD_A, validVersions="0+")],
    "valid-not-empty": [build_spec_text(FIELD_A, validVersions="none"), build_spec_text(FIELD_A, validVersions="3-1")],
    "no-top-level-key": [build_spec_text(build_field(mapKey=True))],
    "coordinator-record": [
        build_spec_text(FIELD_A, type="coordinator-key", validVersions="0"),
        build_spec_text(FIELD_A, type="coordinator-key", flexibleVersions="none"),
        build_spec_text(FIELD_A, type="coordinator-value", apiKey=None),
    ],
    "header-versions": [
        build_spec_text(FIELD_A, headerVersions={"1+": "1"}),
        build_spec_text(FIELD_A, headerVersions={"0-1": "1"}),
        build_spec_text(FIELD_A, headerVersions={"0-1": "1", "1+": "2"}),
        build_spec_text(FIELD_A, headerVersions={"0-1": "1", "2+": "x"}),
        build_spec_text(FIELD_A, headerVersions={"0-1": "2", "2+": "1"}),
        build_spec_text(FIELD_A, headerVersions={"0-3": "2", "4+": "3"}),
        build_spec_text(FIELD_A, headerVersions={"0+": "1"}),
        build_spec_text(FIELD_A, headerVersions={"nonsense": "1"}),
        build_spec_text(FIELD_A, type="data", headerVersions={"0+": "1"}),
        build_spec_text(FIELD_A, type="response", apiKey=18, headerVersions={"0-1": "0", "2+": "1"}),
    ],
    "inline-in-common": [
        build_spec_text(
            build_field(type="S"),
            commonStructs=[{**STRUCT_S, "fields": [build_field(type="T", fields=INNER_FIELDS)]}],
        )
    ],
    "struct-versions": [
        build_spec_text(build_field(type="S", versions="4+", fields=INNER_FIELDS)),
        build_spec_text(
            build_field(type="S", versions="0-1", fields=[build_field(type="T", versions="2+", fields=INNER_FIELDS)])
        ),
    ],
    "struct-covers-use": [
        build_spec_text(build_field(type="S"), commonStructs=[{**STRUCT_S, "versions": "2+"}]),
        build_spec_text(build_field(type="S"), commonStructs=[{**STRUCT_S, "fields": [build_field(type="S")]}]),
    ],
    "expansion": [
        build_spec_text(build_field(type="S0"), commonStructs=doubling_structs(40)),
        build_spec_text(build_field(type="S0"), commonStructs=doubling_structs(13)),
        build_spec_text(build_field(type="S0"), commonStructs=doubling_structs(6), validVersions="0-32766"),
    ],
    "common-struct-capital": [build_spec_text(FIELD_A, commonStructs=[{**STRUCT_S, "name": "s"}])],
    "common-struct-once": [build_spec_text(FIELD_A, commonStructs=[STRUCT_S, STRUCT_S])],
    "common-struct-no-fields": [build_spec_text(build_field(type="S", fields=INNER_FIELDS), commonStructs=[STRUCT_S])],
    "inline-struct-once": [
        build_spec_text(
            build_field(type="S", fields=INNER_FIELDS), build_field(name="B", type="[]S", fields=INNER_FIELDS)
        )
    ],
    "json": [
        build_spec_text(build_field(unknown=1)),
        build_spec_text(build_field(type="int33")),
        build_spec_text(build_field(type="[][]int8")),
        build_spec_text(build_field(type="[]")),
        build_spec_text(build_field(type=None)),
        build_spec_text(build_field(versions=None)),
        build_spec_text(build_field(versions="x")),
        build_spec_text(build_field(tag=1.5e300)),
        build_spec_text(build_field(tag=True)),
        build_spec_text(build_field(tag=[])),
        build_spec_text(build_field(ignorable="yes")),
        build_spec_text(build_field(default=[])),
        build_spec_text(build_field(entityType="foo")),
        build_spec_text(FIELD_A, type="REQUEST"),
        build_spec_text(FIELD_A, listeners=["Broker"]),
        build_spec_text(FIELD_A, validVersions="0-40000"),
        build_spec_text(FIELD_A, validVersions=None),
        build_spec_text(FIELD_A, name=None),
        build_spec_text(FIELD_A, apiKey=32768),
        build_spec_text(FIELD_A, headerVersions=[]),
        build_spec_text(FIELD_A, commonStructs=[{"name": "S"}]),
        build_spec_text(None),
        build_spec_text(FIELD_A, commonStructs=[7]),
        "[]",
        "7",
    ],
    "one-object": [build_spec_text(FIELD_A) + "}"],
}
CASES = [
    pytest.param(rule, one, id=f"{rule}-{index}")
    for rule, all_ in BROKEN_SPECS_BY_RULE.items()
    for index, one in enumerate(all_)
]


@pytest.mark.parametrize(("rule", "spec"), CASES)
def test_a_spec_that_breaks_a_rule_is_rejected(rule, spec):
    assert rule in {problem.rule for problem in find_problems(JsonText(spec), NEWEST_DIALECT)}
    with pytest.raises(SpecError):
        load_message(spec)


def test_structs_that_expand_to_less_than_the_limit_are_accepted():
    load_message(build_spec_text(build_field(type="S0"), commonStructs=doubling_structs(11)))


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "0" * 5000 + "99999", "9" * 7])
@pytest.mark.parametrize("key", ["validVersions", "flexibleVersions", "apiKey"])
def test_a_number_with_thousands_of_digits_is_a_short_error(key, number):
    """Python rejects numbers with more than 4,300 digits."""
    for value in (number, f"0-{number}", f"{number}+", {f"{number}+": "1"}):
        with pytest.raises(SpecError) as caught:
            load_message(build_spec_text(FIELD_A, **{key if isinstance(value, str) else "headerVersions": value}))
        assert len(str(caught.value)) < 300


def test_leading_zeros_are_read_as_kafka_reads_them():
    assert str(load_message(build_spec_text(FIELD_A, validVersions="0-" + "0" * 5000 + "3")).valid_versions) == "0-3"


def test_every_rule_has_a_test_case():
    named_rules = {rule.name for table in (FIELD_RULES, STRUCT_RULES, MESSAGE_RULES) for rule in table}
    assert named_rules <= BROKEN_SPECS_BY_RULE.keys()


@pytest.mark.parametrize(
    "spec",
    [
        build_spec_text(FIELD_A, type="coordinator-value"),
        build_spec_text(FIELD_A, type="coordinator-key", validVersions="0", flexibleVersions="none"),
        build_spec_text(validVersions="none", flexibleVersions="drop"),
        build_spec_text(FIELD_A, headerVersions={"0-1": "1", "2+": "2"}),
    ],
)
def test_specs_newer_than_the_generator_of_3_9_are_accepted(spec):
    load_message(spec)
    with pytest.raises(SpecError):
        load_message(spec, dialect=KAFKA_3_9_DIALECT)


ACCEPTED_SINCE_3_9 = [
    build_field(type=" int32 "),
    build_field(type="[] int32"),
    build_field(type="[]bytes"),
    build_field(tag="0", taggedVersions="2+"),
    build_field(tag=0.0, taggedVersions="2+"),
    build_field(mapKey=0, about=5),
    build_field(ignorable="TRUE"),
    build_field(ignorable=""),
    build_field(default=-1),
    build_field(default="+5"),
    build_field(default="0x7fffffff"),
    build_field(default="0x"),
    build_field(type="bool", default=False),
    build_field(type="string", default=None),
    build_field(type="records", default="whatever"),
    build_field(type="float64", default="0x1p3"),
    build_field(type="Undeclared"),
    build_field(versions=" 0-3 "),
    build_field(versions=1),
    build_field(flexibleVersions=""),
    build_field(type="[]int32", fields=INNER_FIELDS),
    build_field(type="string", versions="2+", nullableVersions="0-1"),
    build_field(versions="7+"),
    build_field(versions="\u0663"),  # Java reads digits of any script
    build_field(default="\u0663"),
    build_field(type="int32\x01"),  # Java trims every control character
    build_field(entityType="5"),  # Jackson accepts the ordinal of an enum constant instead of its name
    build_field(entityType=5),
    build_field(type="[]records", versions="7+"),  # no version has the field, so no code is generated for it
    build_field(
        type="[]int32",
        fields=[build_field(default="x", tag=0, taggedVersions="0+"), build_field(name="B", type="[]records")],
    ),
    build_field(type="[]int32", fields=[build_field(name="B", type="string", flexibleVersions="0+")]),
]


@pytest.mark.parametrize(
    "top", [{"type": 0}, {"type": "0"}, {"listeners": [None]}, {"listeners": 1},
            {"commonStructs": [{**STRUCT_S, "versions": "4+"}]}], ids=str
)  # fmt: skip
def test_a_message_is_accepted(top):
    load_message(build_spec_text(FIELD_A, **top), dialect=KAFKA_3_9_DIALECT)


REJECTED_BY_3_9 = [
    build_spec_text(build_field(type="\u00a0int32")),  # Java does not trim white space above U+0020
    build_spec_text(build_field(versions="\u00a00+")),
    build_spec_text(build_field(versions="\U0001d7d8")),  # Java does not accept a digit that is a surrogate pair
    build_spec_text(build_field(type="string", flexibleVersions=" ")),
    build_spec_text(build_field(taggedVersions="3-1")),
    build_spec_text(
        build_field(type="[]int32", fields=[build_field(name="1a")])
    ),  # the rules of single fields also apply to inner fields
    build_spec_text(build_field(entityType="6")),
    build_spec_text(build_field(entityType=-1)),
    build_spec_text(FIELD_A, type=1.0),
    build_spec_text(FIELD_A, type="response", listeners=[None]),
    build_spec_text(FIELD_A, headerVersions=None),
]


@pytest.mark.parametrize("spec", REJECTED_BY_3_9)
def test_specs_that_the_generator_of_3_9_rejects_are_rejected(spec):
    with pytest.raises(SpecError):
        load_message(spec, dialect=KAFKA_3_9_DIALECT)


@pytest.mark.parametrize("field", ACCEPTED_SINCE_3_9, ids=str)
def test_accepted(field):
    load_message(build_spec_text(field))


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
def test_defaults_are_converted_to_their_type(kind, default, value):
    field = load_message(build_spec_text(build_field(type=kind, default=default))).struct.field("A")
    assert (field.default, type(field.default)) == (value, type(value))


def test_a_single_value_is_read_as_a_list():
    assert load_message(build_spec_text(FIELD_A, listeners="broker")).listeners == ("broker",)
    one = json.loads(build_spec_text(FIELD_A))
    one["fields"] = FIELD_A
    assert load_message(json.dumps(one)).struct.field("A")


def test_an_error_has_the_line_of_the_key():
    spec = json.dumps(json.loads(build_spec_text(FIELD_A, build_field(name="B", default="x"))), indent=1)
    line = next(number for number, content in enumerate(spec.splitlines(), 1) if '"default"' in content)
    with pytest.raises(SpecError) as caught:
        load_message(spec, file="Foo.json")
    assert (caught.value.file, caught.value.path) == (f"Foo.json:{line}", ("B",))


def test_declared_paths_have_lines():
    document = JsonText(json.dumps(json.loads(build_spec_text(build_field(type="S", fields=INNER_FIELDS))), indent=1))
    inner = declare_message(document.value, NEWEST_DIALECT.types).struct.fields[0].fields[0]
    assert inner.path == ("A", "X")
    assert '"X"' in document.text.splitlines()[document.line_of((*inner.where, "name")) - 1]


@pytest.mark.parametrize("type_", ["S", "[]S"])
def test_an_unused_common_struct_can_contain_itself_from_a_later_version(type_):
    """The generator of 4.3.1 accepts it, and uses the schema of the previous version."""

    def holding(later, *fields, **struct):
        common = {
            "name": "S",
            "versions": "0+",
            "fields": [*INNER_FIELDS, build_field(name="Next", type=type_, versions=later)],
        }
        return build_spec_text(FIELD_A, *fields, commonStructs=[common | struct])

    assert load_message(holding("1+")).common_structs
    assert load_message(holding("2+", versions="1+"))
    for refused_spec in (holding("0+"), holding("1+", versions="1+"), holding("1+", build_field(name="B", type="S"))):
        with pytest.raises(SpecError, match="contains itself"):
            load_message(refused_spec)


def test_deep_chains_of_common_structs_do_not_crash():
    count = 3000
    chain = [
        {"name": f"S{i}", "versions": "0+", "fields": [{"name": "N", "type": f"S{i + 1}", "versions": "0+"}]}
        for i in range(count)
    ]
    last = {"name": f"S{count}", "versions": "0+", "fields": []}
    with pytest.raises(SpecError, match="too deep"):
        load_message(build_spec_text(build_field(type="S0"), commonStructs=[*chain, last]))
