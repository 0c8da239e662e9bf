"""Where a cluster is, as commands are given it, and rows as text and JSON."""

import json

import pytest

from kafkaframes.cli.connecting import SERVERS, pairs_of, place_of, print_rows, settings_of
from kafkaframes.errors import OptionError

ROWS = [{"topic": "orders", "offset": 7}, {"topic": "t", "offset": None}]


def test_an_option_comes_before_the_environment_and_that_before_localhost(monkeypatch):
    monkeypatch.delenv(SERVERS, raising=False)
    assert settings_of(None, ()) == {"bootstrap.servers": "localhost:9092"}
    monkeypatch.setenv(SERVERS, "a:1")
    assert settings_of(None, ()) == {"bootstrap.servers": "a:1"}
    assert settings_of("b:2", ("linger.ms=5",)) == {"bootstrap.servers": "b:2", "linger.ms": "5"}
    with pytest.raises(OptionError, match=r"-X linger\.ms: must be KEY=VALUE"):
        settings_of(None, ("linger.ms",))


def test_a_value_may_hold_equals_signs_and_be_empty():
    assert pairs_of(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(OptionError, match="KEY=VALUE"):
        pairs_of(["=x"])


@pytest.mark.parametrize("text", ["orders", "orders:", ":3", "orders:-1", "orders:x"])
def test_what_is_no_topic_partition_is_refused(text):
    with pytest.raises(OptionError, match="TOPIC:PARTITION"):
        place_of(text)


def test_rows_are_aligned_and_a_missing_value_is_empty_or_null(capsys):
    print_rows(ROWS, as_json=False)
    assert capsys.readouterr().out == "topic   offset\norders  7\nt\n"
    print_rows(ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
    print_rows([], as_json=False)
    assert capsys.readouterr().out == ""
