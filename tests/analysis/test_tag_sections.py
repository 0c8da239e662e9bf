"""Tag sections of messages are those of the same messages written again, with each header."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.messages.values import make_value

from kafkaframes.analysis.tag_sections import TagSections, measure
from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError
from kafkaframes.messages import message
from kafkaframes.spec import catalog

DATA = Path(__file__).parents[1] / "data"
NAMES = [name for name in catalog.names() if not catalog.load(name).flexible_versions.is_empty]


def measured(name, version, *values):
    cls = message(name)
    return measure(cls.decode_columns([one.encode(version) for one in values], version), cls.codec(version).plan)


@pytest.mark.parametrize("unknown_tags", [False, True])
def test_sizes_are_those_of_the_messages_written_with_each_header(unknown_tags):
    fields = 0
    for name in NAMES:
        cls = message(name)
        version = cls.spec.valid_versions.highest
        if cls.spec.valid_versions.is_empty or not cls.spec.flexible_versions.contains(version):
            continue
        values = [make_value(cls, version, seed, unknown_tags=unknown_tags) for seed in range(4)]
        found = measured(name, version, *values)
        for header in ("adopted", "interleaved"):
            written = [len(one.encode(version, tag_header=header)) for one in values]
            assert getattr(found, header) == sum(written), f"{name} {version} {header}"
        assert found.messages == 4
        fields += found.tagged_fields
    assert fields > 100


def test_sections_by_hand():
    """One section with two fields that no spec declares: values of 3 and of 200 bytes.

    Adopted 1 + 1 and 1 + 2; interleaved 6 bits in one byte, 15 bits in three; typed 1 + 1 each.
    """
    value = message("HeartbeatRequest")(unknown_tags=[(5, b"abc"), (99, b"x" * 200)])
    found = measured("HeartbeatRequest", 4, value, message("HeartbeatRequest")())
    assert (found.messages, found.sections, found.empty, found.tagged_fields) == (2, 2, 1, 2)
    assert found.adopted - found.interleaved == (2 - 1) + (3 - 3)
    assert found.adopted - found.typed == (2 - 2) + (3 - 2)
    assert measured("HeartbeatRequest", 3, message("HeartbeatRequest")()) == TagSections(inflexible=1)


def test_a_value_at_its_default_is_not_written():
    cls = message("ApiVersionsResponse")
    feature = cls.SupportedFeatureKey(name="f", min_version=0, max_version=1)
    bare, told = (measured("ApiVersionsResponse", 3, one) for one in (cls(), cls(supported_features=[feature])))
    assert (bare.sections, bare.empty, bare.tagged_fields) == (1, 1, 0)
    assert (told.sections, told.empty, told.tagged_fields) == (2, 1, 1)
    assert told.adopted - told.interleaved == 1


@pytest.mark.parametrize("name", ["captures/share-groups-broker43.pcap.zst", "request-logs/broker-4.3.1-trace.log.gz"])
def test_the_command_over_traffic(name):
    """What it calls adopted is what ``analyze flexible`` says was sent, and the headers before it."""
    runner, path = CliRunner(), str(DATA / name)
    result = runner.invoke(cli, ["analyze", "tag-header", "--json", path])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    flexible = runner.invoke(cli, ["analyze", "flexible", "--json", path]).output.splitlines()
    sent = {(row["api"], row["api_version"], row["direction"]): row["flexible"] for row in map(json.loads, flexible)}
    measured_rows = [row for row in rows if row["messages"]]
    assert len(measured_rows) > 20
    for row in measured_rows:
        headers = row["adopted"] - sent[row["api"], row["api_version"], row["direction"]]
        if row["direction"] == "response":
            assert headers == row["messages"] * (4 if row["api"] == "ApiVersions" else 5)
        else:
            assert headers > row["messages"] * 11  # key, version, correlation id, client id, tag section
            assert row["sections"] >= 2 * row["messages"]
        assert row["interleaved"] <= row["adopted"]
    versions = [row for row in measured_rows if row["api"] == "ApiVersions" and row["direction"] == "response"]
    assert all(row["adopted"] > row["interleaved"] for row in versions)
    text = runner.invoke(cli, ["analyze", "tag-header", path]).output
    total = {name: sum(row[name] for row in rows) for name in ("adopted", "interleaved", "inflexible")}
    assert f"interleaved draft: {total['interleaved'] - total['adopted']:+} bytes" in text
    assert f"{total['inflexible']} messages have no tag sections, 0 could not be measured" in text


def test_options_that_mean_nothing_are_refused():
    runner, path = CliRunner(), str(DATA / "captures" / "share-groups-broker43.pcap.zst")
    for arguments, why in ((["--tag", "3", path], "--tag is for the tables"), (["--ports", "9092"], "needs an INPUT")):
        found = runner.invoke(cli, ["analyze", "tag-header", *arguments]).exception
        assert isinstance(found, OptionError)
        assert why in str(found)
