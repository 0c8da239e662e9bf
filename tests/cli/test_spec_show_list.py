"""``kafkaframes spec list``: APIs, records and patterns."""

import json

from tests.cli.calling import ask_spec as run


def test_list_shows_apis_records_and_patterns():
    lines = run("list", "--json").splitlines()
    assert len(lines) == 95
    assert json.loads(lines[18]) | {"listeners": 0} == {
        "key": 18,
        "name": "ApiVersions",
        "versions": "0-5",
        "current": "0-5",
        "flexible": "3+",
        "flexible since": "2.4.1",
        "headers": "1/0, 2/0",
        "listeners": 0,
    }
    assert "LeaderAndIsr" in run("list", "leader")
    assert "PartitionChangeRecord" in run("list", "--records")
    assert run("list", "nothing-like-it").startswith("0 APIs")


def test_list_names_the_release_of_each_first_flexible_version():
    """KIP-482: the new versions "may be implemented earlier for some message types than others"."""
    since = {row["name"]: row["flexible since"] for row in map(json.loads, run("list", "--json").splitlines())}
    names = ("Metadata", "SaslAuthenticate", "DescribeLogDirs", "Fetch", "Produce", "ShareFetch", "OffsetDelete")
    assert [since[name] for name in names] == ["2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "4.1.1", "-"]
