"""``kafkaframes spec list``: APIs, records and patterns."""

import json

from tests.cli.calling import ask_spec as run


def test_list():
    lines = run("list", "--json").splitlines()
    assert len(lines) == 95
    assert json.loads(lines[18]) | {"listeners": 0} == {
        "key": 18,
        "name": "ApiVersions",
        "versions": "0-5",
        "current": "0-5",
        "flexible": "3+",
        "headers": "1/0, 2/0",
        "listeners": 0,
    }
    assert "LeaderAndIsr" in run("list", "leader")
    assert "PartitionChangeRecord" in run("list", "--records")
    assert run("list", "nothing-like-it").startswith("0 APIs")
