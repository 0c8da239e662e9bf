"""Traffic of a proposal is decoded with its specs, and everything else with the catalog's."""

import io
import json
import pickle

import pytest
from tests.capture.own_specs import GREET_API_KEY, SPECS, write_specs, write_traffic

import kafkaframes
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.redaction import redact
from kafkaframes.capture.request_log import parse_row
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.spec import load_message

COLUMNS = ("apiName", "apiVersion", "flexible", "request", "response", "errors", "_error")


@pytest.fixture(name="folder")
def _folder(tmp_path):
    return write_specs(tmp_path / "specs")


@pytest.fixture(name="trace")
def _trace(tmp_path, folder):
    return write_traffic(tmp_path / "own.pcapng", folder)


def rows_of(trace, folder):
    return kafkaframes.read_capture(trace, columns=COLUMNS, specs=folder).read_all().to_pylist()


def test_own_apis_and_versions_are_decoded_next_to_those_of_the_catalog(trace, folder):
    rows = rows_of(trace, folder)
    assert [(row["apiName"], row["apiVersion"], row["flexible"], row["_error"]) for row in rows] == [
        ("Greet", 0, False, None),
        ("Greet", 1, True, None),
        ("Heartbeat", 4, True, None),
        ("Heartbeat", 5, True, None),
    ]
    assert [json.loads(row["request"]) for row in rows[:2]] == [{"words": "hello"}, {"words": "good day"}]
    assert json.loads(rows[1]["response"]) == {"errorCode": 7, "mood": 3}
    assert json.loads(rows[2]["request"])["memberId"] == "m"
    assert json.loads(rows[3]["request"]) == {"groupId": "g"}
    codes = [[(one["path"], one["code"]) for one in row["errors"]] for row in rows]
    assert codes == [[], [("errorCode", 7)], [("errorCode", 27)], [("errorCode", 25)]]


@pytest.mark.parametrize("key", [255, 256, 32767])
def test_an_own_api_may_have_any_key(tmp_path, key):
    folder = write_specs(tmp_path / "specs", greet=key)
    trace = write_traffic(tmp_path / "own.pcapng", folder)
    rows = kafkaframes.read_capture(trace, columns=("apiKey", *COLUMNS), specs=folder).read_all().to_pylist()
    assert [(row["apiKey"], row["apiName"], row["_error"]) for row in rows] == [
        (key, "Greet", None),
        (key, "Greet", None),
        (12, "Heartbeat", None),
        (12, "Heartbeat", None),
    ]
    report = redact([trace], io.BytesIO(), apis=ApiRegistry(folder))
    assert (report.calls, report.frames_zeroed, report.frames_left_out) == (4, 0, 0)


def test_without_the_specs_the_same_bytes_are_unknown_calls(trace):
    rows = kafkaframes.read_capture(trace, columns=COLUMNS).read_all().to_pylist()
    assert [row for row in rows if row["apiName"] == "Greet"] == []
    (unknown,) = [row for row in rows if row["apiVersion"] == 5]
    assert "no version 5" in unknown["_error"]


def test_the_bodies_of_an_own_api_are_structs(trace, folder):
    table = kafkaframes.read_capture(trace, columns=("response",), api="Greet", specs=folder).read_all()
    answers = table.column("response").to_pylist()
    assert [(answer["errorCode"], answer["mood"]) for answer in answers] == [(0, None), (7, 3)]
    both = kafkaframes.read_capture(trace, columns=("request",), api="12", specs=folder).read_all().to_pylist()
    assert [(row["request"]["groupId"], row["request"]["memberId"]) for row in both] == [("g", "m"), ("g", None)]


def test_a_redacted_capture_keeps_the_calls_of_own_specs(trace, folder):
    out = io.BytesIO()
    report = redact([trace], out, apis=ApiRegistry(folder))
    assert (report.calls, report.frames_zeroed, report.frames_left_out) == (4, 0, 0)
    assert b"good day" not in out.getvalue()


def test_a_request_log_is_read_with_own_specs():
    line = (
        '[2026-01-01 00:00:00,000] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":120,'
        '"requestApiVersion":1,"correlationId":3,"clientId":"me"},"request":{"words":"hi"},'
        '"response":{"errorCode":7},"connection":"1.2.3.4:9092-1.2.3.5:40000-0","totalTimeMs":1.0}'
    )
    apis = ApiRegistry(load_message(json.dumps(spec)) for spec in SPECS)
    row = parse_row(line, apis=apis)
    assert (row["apiName"], row["flexible"]) == ("Greet", True)
    assert parse_row(line)["apiName"] is None


def test_the_specs_are_pickled(trace, folder):
    options = CaptureOptions(columns=("apiName",), apis=ApiRegistry(folder))
    for file in folder.iterdir():
        file.unlink()
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert read_capture(trace, copy).read_all().column("apiName").to_pylist() == ["Greet"] * 2 + ["Heartbeat"] * 2
    assert pickle.loads(pickle.dumps(CaptureOptions())) == CaptureOptions()


def test_an_api_needs_request_and_response(folder):
    (folder / "GreetResponse.json").unlink()
    with pytest.raises(OptionError, match="GreetRequest has API key 120, but the specs lack"):
        _ = ApiRegistry(folder).apis_by_key


def test_the_catalog_supplies_versions_that_the_specs_lack(folder):
    apis = ApiRegistry(folder)
    assert str(apis.apis_by_key[12].versions) == "0-5"
    assert apis.find_spec(12, "request", 4) is CATALOG.find_spec(12, "request", 4)
    assert apis.find_spec(12, "request", 5) is not CATALOG.find_spec(12, "request", 5)
    assert apis.name_of(GREET_API_KEY) == "Greet"
    assert CATALOG.name_of(GREET_API_KEY) is None


def test_header_tags_are_read_in_both_directions(tmp_path, folder):
    trace = write_traffic(tmp_path / "tags.pcapng", folder, header_tags=[(10_001, b"trace-7")])
    columns = ("requestHeader", "responseHeader")
    rows = kafkaframes.read_capture(trace, columns=columns, specs=folder).read_all().to_pylist()
    tags = [[json.loads(row[name]).get("_unknownTags") for name in columns] for row in rows]
    tags_seen = [{"tag": 10_001, "data": "dHJhY2UtNw=="}]
    assert tags == [[None, None], *[[tags_seen, tags_seen]] * 3]
