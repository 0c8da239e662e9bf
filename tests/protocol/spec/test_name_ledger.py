"""Field names of earlier releases for the current fields."""

import json

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.catalog.ledgers import ReleaseNames, make_names_ledger


def build_spec(versions, *fields):
    text = {"apiKey": 3, "type": "request", "listeners": [], "name": "XRequest", "flexibleVersions": "none"}
    return load_message(json.dumps(text | {"validVersions": versions, "fields": list(fields)}))


def field(name, type_="int32", versions="0+", **more):
    return {"name": name, "type": type_, "versions": versions, **more}


def test_a_renamed_field_is_found_by_its_position_in_a_version():
    old = build_spec("0-1", field("Index"), field("rows", "[]Row", fields=[field("Name", "string")]))
    now = build_spec(
        "0-2",
        field("New", versions="2+"),
        field("Partition"),
        field("Rows", "[]Row", fields=[field("Topic", "string")]),
    )
    assert make_names_ledger([("2.2.2", old), ("2.3.1", now)], {"XRequest": now}) == {
        "XRequest": {
            "Partition": [["Index", "2.2.2"], ["Partition", "2.3.1"]],
            "Rows.Topic": [["Name", "2.2.2"], ["Topic", "2.3.1"]],
        }
    }


def test_a_version_with_another_layout_has_no_names():
    old, now = build_spec("0", field("A"), field("B", "string")), build_spec("0", field("C"))
    assert make_names_ledger([("2.2.2", old), ("2.3.1", now)], {"XRequest": now}) == {}


@pytest.mark.parametrize(
    ("release", "names"),
    [
        ("2.2", ["Topics", "Partitions", "Aborted"]),
        ("2.6.3", ["Topics", "Partitions", "Aborted"]),
        ("2.7", ["Responses", "PartitionResponses", "AbortedTransactions"]),
        ("2.8", ["Responses", "PartitionResponses", "AbortedTransactions"]),
        ("3.0", ["Responses", "Partitions", "AbortedTransactions"]),
        ("4.4", ["Responses", "Partitions", "AbortedTransactions"]),
    ],
)
def test_names_of_fetch_in_each_release(release, names):
    path = ("Responses", "Partitions", "AbortedTransactions")
    names_found = [ReleaseNames(release).former_name("FetchResponse", path[: depth + 1]) for depth in range(3)]
    assert [name or now for name, now in zip(names_found, path, strict=True)] == names


def test_json_with_the_field_names_of_a_release():
    text = '{"responses":[{"topic":"t","partitions":[{"recordsSizeInBytes":7,"errorCode":0}]}],"_bytes":"x"}'
    old = '{"responses":[{"topic":"t","partitionResponses":[{"recordSetSizeInBytes":7,"errorCode":0}]}],"_bytes":"x"}'
    assert ReleaseNames("2.8").rename_fields("FetchResponse", text) == old
    assert ReleaseNames("4.4").rename_fields("FetchResponse", text) == text
    assert ReleaseNames("2.8").rename_fields("GreetRequest", text) == text
    assert ReleaseNames("2.8").rename_fields("FetchResponse", None) is None


@pytest.mark.parametrize("release", ["2.1", "0.10.2", "9.9", "today"])
def test_releases_without_names(release):
    with pytest.raises(OptionError, match=r"2\.2|no release"):
        ReleaseNames(release)
