"""Request logs of real brokers, in all formats, and lines that are not requests."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.capture.reader import CaptureOptions, read_traffic
from kafkaframes.capture.request_log import convert_fields, parse_row, parse_struct
from kafkaframes.errors import DecodeError, OptionError

DATA = Path(__file__).parent.parent / "data" / "request-logs"
LOGS = sorted(DATA.glob("*.gz"))


def rows(path, **options):
    return [row for batch in read_traffic([str(path)], CaptureOptions(**options)) for row in batch.to_pylist()]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_every_completed_request_is_a_readable_row(path):
    text = gzip.decompress(path.read_bytes()).decode()
    logged_rows = rows(path)
    assert len(logged_rows) == text.count("Completed request:")
    assert not [row for row in logged_rows if row["_error"] and "cannot be read" in row["_error"]]
    assert all(row["apiName"] and row["clientAddress"] == "127.0.0.1" and row["requestTime"] for row in logged_rows)


def test_json_rows_have_the_values_of_the_line():
    (path,) = DATA.glob("broker-3.9.1-trace*")
    lines = [line for line in gzip.decompress(path.read_bytes()).decode().splitlines() if "Completed request:" in line]
    for line, row in zip(lines, rows(path, secrets=True), strict=True):
        entry = json.loads(line.split("Completed request:", 1)[1].rsplit(" (kafka", 1)[0])
        assert json.loads(row["request"]) == entry["request"]
        assert json.loads(row["response"]) == entry["response"]
        assert row["latencyMs"] == entry["totalTimeMs"]
        assert row["apiKey"] == entry["requestHeader"]["requestApiKey"]
        assert (row["softwareName"] or "unknown") == entry["clientInformation"]["softwareName"]


def test_the_text_form_has_the_names_and_types_of_json():
    line = (
        "[2026-11-22 03:39:05,139] DEBUG Completed request:RequestHeader(apiKey=METADATA, apiVersion=1, "
        "clientId=a, b, correlationId=7) -- {topics=[orders]},response:{brokers=[{node_id=1,host=h,port=9092,"
        "rack=null}],controller_id=1,topics=[{error_code=3,name=orders,is_internal=false,partitions=[]}]} from "
        "connection 127.0.0.1:9092-[::1]:60838-0;totalTime:18.7,securityProtocol:PLAINTEXT,principal:User:x (k)"
    )
    row = parse_row(line)
    assert (row["clientId"], row["correlationId"], row["principal"]) == ("a, b", 7, "User:x")
    assert row["errors"] == [{"path": "topics[0].errorCode", "code": 3}]
    assert json.loads(row["response"])["brokers"] == [{"nodeId": 1, "host": "h", "port": 9092, "rack": None}]


CONNECTION = "127.0.0.1:9092-10.0.0.7:60838-0;totalTime:18.7,securityProtocol:PLAINTEXT,principal:User:x (k)"


@pytest.mark.parametrize(
    "client", ["x from client a;", "x from connection a:1-b:2;totalTime", "a -- b", "{},response:{}", "from connection"]
)
def test_a_client_id_does_not_hide_its_call(client):
    """A client ID can contain any text, and the text forms do not escape it."""
    call = f"RequestHeader(apiKey=METADATA, apiVersion=1, clientId={client}, correlationId=7) -- {{topics=[orders]}}"
    row = parse_row(f"Completed request:{call},response:{{brokers=[]}} from connection {CONNECTION}")
    assert (row["_error"], row["clientId"], row["correlationId"]) == (None, client, 7)
    assert (row["clientAddress"], row["clientPort"], row["principal"]) == ("10.0.0.7", 60838, "User:x")
    assert json.loads(row["request"]) == {"topics": ["orders"]}


@pytest.mark.parametrize("client", ["x from client a;", "a -- b"])
def test_a_client_id_in_a_struct_does_not_hide_its_call(client):
    call = f"{{api_key=3,api_version=1,correlation_id=7,client_id={client}}} -- {{topics=[orders]}}"
    row = parse_row(f"Completed request:{call},response:{{brokers=[]}} from connection {CONNECTION}")
    assert (row["_error"], row["clientId"], row["clientPort"]) == (None, client, 60838)
    assert json.loads(row["response"]) == {"brokers": []}


@pytest.mark.parametrize(
    ("connection", "ends"),
    [
        ("127.0.0.1:9092-10.0.0.7:60838-0", ("127.0.0.1", 9092, "10.0.0.7", 60838)),
        ("127.0.0.1:9092-10.0.0.7:60838-0-17", ("127.0.0.1", 9092, "10.0.0.7", 60838)),
        ("kafka-1:9092-client-7:60838", ("kafka-1", 9092, "client-7", 60838)),
        ("[::1]:9092-0:0:0:0:0:0:0:1:60838-3", ("[::1]", 9092, "0:0:0:0:0:0:0:1", 60838)),
        ("127.0.0.1:9092-10.0.0.7:60838-x", (None, None, None, None)),
        ("127.0.0.1:9092", (None, None, None, None)),
    ],
)
def test_addresses_of_a_connection_are_parsed(connection, ends):
    line = f"Completed request:Name:MetadataRequest; Version:0; CorrelationId:1; ClientId:x; from client {connection};"
    row = parse_row(line)
    assert tuple(row[name] for name in ("serverAddress", "serverPort", "clientAddress", "clientPort")) == ends


@pytest.mark.parametrize(
    "line",
    [
        "Completed request:",
        'Completed request:{"requestHeader":{}}',
        "Completed request:{api_key=x} -- {} from connection a:1-b:2;totalTime:1",
        "Completed request:{" + "a={" * 200,
        'Completed request:{"requestHeader":' + "[" * 100_000,
        "Completed request:RequestHeader(apiKey=NOPE, apiVersion=1, clientId=a, correlationId=7) -- {} from client x;",
    ],
    ids=range(6),
)
def test_an_unreadable_line_is_reported(line):
    assert "cannot be read" in parse_row(line)["_error"]


def test_credentials_of_a_log_are_hidden():
    body = '"request":{"upsertions":[{"name":"a","salt":"c2FsdA==","saltedPassword":"c2VjcmV0"}]},"response":{}'
    line = (
        'Completed request:{"requestHeader":{"requestApiKey":51,"requestApiVersion":0,"correlationId":1},' + body + "}"
    )
    assert "c2VjcmV0" not in str(parse_row(line))
    assert "c2VjcmV0" in str(parse_row(line, secrets=True))


def test_other_files_and_other_tables_are_rejected(tmp_path):
    other = tmp_path / "server.log"
    other.write_text("[2026-11-22 03:39:05,139] INFO started (kafka.server.KafkaServer)\n")
    with pytest.raises(DecodeError, match="nor a request log"):
        rows(other)
    with pytest.raises(OptionError, match="table=gaps requires captures"):
        rows(LOGS[0], table="gaps")


def test_structs_printed_by_java_are_parsed():
    assert parse_struct("{a=java.nio.HeapByteBuffer[pos=0 lim=30 cap=30],b=[]}") == {
        "a": "java.nio.HeapByteBuffer[pos=0 lim=30 cap=30]",
        "b": [],
    }


def test_brackets_inside_a_text_do_not_end_outer_structs():
    """Topics, clients and errors can contain any text. Previously, one bracket in a list caused quadratic work."""
    assert parse_struct("{a=[x)],b=1}") == {"a": ["x)"], "b": "1"}
    assert parse_struct("{a=)x,b=1}") == {"a": ")x", "b": "1"}
    assert parse_struct("{a=[x},b=1}") == {"a": ["x"]}


@given(st.text("{}[](),=ab 1", max_size=40))
def test_any_text_is_parsed_without_an_exception(text):
    with suppress(ValueError):
        assert isinstance(convert_fields(parse_struct("{a=" + text), None), dict)


def test_logged_bodies_of_one_api_are_structs():
    path = next(one for one in LOGS if "4.3.1-trace" in str(one))
    plain = [row for row in rows(path) if row["apiName"] == "Metadata"]
    typed_rows = rows(path, api="Metadata")
    assert len(typed_rows) == len(plain) > 10
    for row, other in zip(plain, typed_rows, strict=True):
        body = json.loads(row["response"])
        assert other["_error"] == row["_error"]
        assert other["response"]["controllerId"] == body["controllerId"]
        assert [one["name"] for one in other["response"]["topics"]] == [one["name"] for one in body["topics"]]


def test_structs_of_records_and_of_lines_without_bodies_report_missing_data(tmp_path):
    path = next(one for one in LOGS if "4.3.1-trace" in str(one))
    for row in rows(path, api="Produce"):
        assert "contains only the size of records" in row["_error"]
        partition = row["request"]["topicData"][0]["partitionData"][0]
        assert partition["records"] is None
    (row,) = rows(_write_log(tmp_path, 3, ""), api="Metadata")
    assert row["request"] is None
    assert "request: " in row["_error"]
    bad = '"request":{"topics":7},"response":{}'
    (row,) = rows(_write_log(tmp_path, 3, bad), api="Metadata")
    assert row["request"] is row["response"] is None
    assert "found 7" in row["_error"]


def _write_log(folder, key, bodies):
    header = f'{{"requestApiKey":{key},"requestApiVersion":0,"correlationId":1,"clientId":"c"}}'
    parts = ",".join(one for one in (f'"requestHeader":{header}', bodies, '"totalTimeMs":1.5') if one)
    path = folder / "kafka-request.log"
    path.write_text(f"[2026-11-22 03:39:05,139] DEBUG Completed request:{{{parts}}} (kafka.request.logger)\n")
    return path


def test_structs_of_a_log_hide_credentials(tmp_path):
    upsertion = '{"name":"a","mechanism":1,"iterations":4096,"salt":"c2FsdA==","saltedPassword":"c2VjcmV0"}'
    bodies = f'"request":{{"deletions":[],"upsertions":[{upsertion}]}},"response":{{"throttleTimeMs":0,"results":[]}}'
    (row,) = rows(_write_log(tmp_path, 51, bodies), api="AlterUserScramCredentials")
    assert row["request"]["upsertions"][0]["name"] == "a"
    assert "secret" not in str(row)
    (row,) = rows(_write_log(tmp_path, 51, bodies), api="AlterUserScramCredentials", secrets=True)
    assert row["request"]["upsertions"][0]["saltedPassword"] == b"secret"
