"""``kafkaframes groups``: what was committed, and who reads what."""

import json

import pytest

from kafkaframes.client import Consumer
from kafkaframes.errors import OptionError


def test_what_a_group_has_committed(run):
    run("topics create watched --partitions 2")
    run("produce watched -p 1", stdin=b"a\nb\nc\n")
    run("groups reset watchers watched:1=1")
    (row,) = json.loads(run("groups describe watchers --json").output)
    assert (row["group"], row["topic"], row["partition"]) == ("watchers", "watched", 1)
    assert (row["committed"], row["log_end_offset"], row["lag"], row["consumer_id"]) == (1, 3, 2, None)
    assert run("consume watched -g watchers -c 2").output == "b\nc\n"
    assert [one["log_end_offset"] for one in json.loads(run("topics describe watched --json").output)] == [0, 3]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_reads_what(run, servers, protocol):
    run(f"topics create read-{protocol} --partitions 2")
    settings = {"group_id": f"readers-{protocol}", "group_protocol": protocol, "client_id": "me"}
    with Consumer(servers, **settings) as consumer:
        consumer.subscribe(f"read-{protocol}")
        consumer.poll(1_000)
        rows = json.loads(run(f"groups describe readers-{protocol} --json").output)
        assert [(row["partition"], row["client_id"]) for row in rows] == [(0, "me"), (1, "me")]
        (member,) = json.loads(run(f"groups describe readers-{protocol} --members --json").output)
        assert member["partitions"] == 2


@pytest.mark.parametrize("option", ["", "--members", "--state"])
def test_a_group_that_is_not_there_is_told(run, option):
    with pytest.raises(OptionError, match="there is no group nobody"):
        run(f"groups describe nobody {option}")
