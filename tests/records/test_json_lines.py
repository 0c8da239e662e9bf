"""Records as JSON lines: every byte is preserved, and invalid input is rejected with its path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import EncodeError
from kafkaframes.records.json_lines import (
    from_json_bytes,
    from_json_record,
    to_json_bytes,
    to_json_headers,
    to_json_line,
)
from kafkaframes.records.strict_json import parse_json

ODD_BYTES = (
    b"",
    b"\x00",
    b"paid",
    "h\u00e9\u2028\u0085\U0001f600".encode(),
    b'{"base64": "AA=="}',
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    None,
)


@given(st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode)))
def test_bytes_come_back_equal(raw):
    assert from_json_bytes(parse_json(json.dumps(to_json_bytes(raw)))) == raw


@pytest.mark.parametrize("key", ODD_BYTES)
@pytest.mark.parametrize("value", ODD_BYTES)
def test_records_survive_a_round_trip(key, value):
    headers = [{"key": b"h", "value": value}, {"key": b"\xff", "value": b""}]
    line = to_json_line(
        {
            "topic": "t",
            "offset": 3,
            "timestamp": -1,
            "key": to_json_bytes(key),
            "value": to_json_bytes(value),
            "headers": to_json_headers(headers),
        }
    )
    assert line.count(b"\n") == 1
    assert from_json_record(parse_json(line)) == {"key": key, "value": value, "headers": headers, "timestamp": -1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"keyy": "k", "value": "v"}', r"did you mean 'key'\? .*\$\.keyy"),
        ('{"key": "k", "vlaue": "v"}', r"did you mean 'value'\? .*\$\.vlaue"),
        ('{"value": "v", "timestamp_ms": 5}', r"older version, with key and value in base64"),
        ('{"value": "v", "value": "w"}', r"the name 'value' is given twice"),
        ('{"offset": 1}', r"need a column key or value"),
        ("{}", r"need a column key or value"),
        ("[1]", r"not list"),
        ('"paid"', r"not str"),
        ('{"value": 5}', r'5 is neither text, \{"base64": "..."\} nor null .*\$\.value'),
        ('{"value": ["a"]}', r"neither text"),
        ('{"value": {"base64": "AA==", "x": 1}}', r"neither text"),
        ('{"value": {"base64": 5}}', r"neither text"),
        ('{"value": {"base64": "A"}}', r"not base64"),
        ('{"value": {"base64": "AA==\\n"}}', r"not base64"),
        ('{"value": "\\ud800"}', r"surrogate"),
        ('{"value": NaN}', r"NaN"),
        ('{"value": "v", "timestamp": "5"}', r"whole number of milliseconds"),
        ('{"value": "v", "timestamp": 5.5}', r"whole number of milliseconds"),
        ('{"value": "v", "timestamp": true}', r"whole number of milliseconds"),
        ('{"value": "v", "headers": {"a": "b"}}', r"headers must be a list"),
        ('{"value": "v", "headers": [{"key": "a"}]}', r"a header must be .*headers\[0\]"),
        ('{"value": "v", "headers": [{"key": null, "value": "b"}]}', r"a header must be"),
        ('{"value": "v", "headers": [{"key": "a", "value": 1}]}', r"1 is neither text"),
        ('{"value": "v", "headers": [{"key": "a", "value": "b", "c": 1}]}', r"a header must be"),
    ],
)
def test_invalid_lines_are_rejected_with_a_reason(line, reason):
    with pytest.raises(EncodeError, match=reason):
        from_json_record(parse_json(line))


def test_columns_of_a_reader_are_accepted():
    row = {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "timestampType": 0,
        "timestamp_type": 0,
        "baseOffset": 2,
        "file": "f",
    }
    assert from_json_record({**row, "value": "v"})["value"] == b"v"
