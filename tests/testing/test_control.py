"""HTTP control of a broker, for tests in other languages."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from tests.broker.polling import poll_with_librdkafka

from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.client import Admin
from kafkaframes.errors import OptionError
from kafkaframes.testing import Control


class ControlClient:
    """A minimal client, as in a test in another language."""

    def __init__(self, url, token=None):
        self.url, self.token = url, token

    def __call__(self, method, path, body=None, *, raw=None):
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["message"]


@pytest.fixture
def broker(tmp_path):
    with Broker(data_dir=tmp_path, cluster=2) as running:
        yield running


@pytest.fixture
def call(broker):
    control = Control(broker)
    yield ControlClient(control.url, control.token)
    control.close()


def test_topics_and_records_are_written_and_read(call):
    assert call("POST", "/topics", {"name": "orders", "partitions": 2, "configs": {"retention.ms": 60000}})
    rows = [
        {"key": "a", "value": "1", "timestamp": 5, "headers": [{"key": "h", "value": "v"}]},
        {"value": {"base64": "/w=="}},
        {"key": None, "value": None},
    ]
    answer = call("POST", "/topics/orders/records", {"records": rows, "partition": 1})
    assert answer == {"base_offset": 0, "records": 3}
    records = call("GET", "/topics/orders/records?partition=1")
    assert records[0] == {
        "offset": 0,
        "timestamp": 5,
        "key": "a",
        "value": "1",
        "headers": [{"key": "h", "value": "v"}],
    }
    assert [row["value"] for row in records[1:]] == [{"base64": "/w=="}, None]
    call("PUT", "/topics/orders/configs", {"retention.ms": 1000})
    topic = call("GET", "/topics")["orders"]
    assert (topic["end_offsets"], topic["configs"]) == ([0, 3], {"retention.ms": "1000"})


def test_a_fault_is_created_listed_and_removed(call, broker):
    call("POST", "/topics", {"name": "orders"})
    fault = call(
        "POST",
        "/faults",
        {"api": "Produce", "topic": "orders", "do": "error", "code": "NOT_LEADER_OR_FOLLOWER", "times": 1},
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 1})
    producer.produce("orders", b"1")
    assert producer.flush(60) == 0
    assert call("GET", "/faults")["faults"][str(fault["id"])]["api"] == "Produce"
    faults = [entry["fault"] for entry in call("GET", "/journal?api=Produce&last=10")]
    assert faults == ["error NOT_LEADER_OR_FOLLOWER", ""]
    call("DELETE", f"/faults/{fault['id']}")
    assert call("GET", "/faults")["faults"] == {}
    report_text = call("GET", "/report")["text"]
    assert "rdkafka" in report_text
    call("DELETE", "/journal")
    assert call("GET", "/journal?api=Produce") == []


def test_held_requests_are_released(call, broker):
    call("POST", "/topics", {"name": "orders"})
    fault = call("POST", "/faults", {"api": "Produce", "do": "hold"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", b"1")
    broker.wait_for(lambda: call("GET", "/journal?api=Produce"))
    assert producer.flush(0) == 1
    assert call("POST", f"/faults/{fault['id']}/release") == {"released": 1}
    assert producer.flush(60) == 0


def test_a_killed_broker_restarts_with_a_torn_tail(call, broker):
    for value in ("1", "2"):
        call("POST", "/topics/orders/records", {"records": [{"value": value}]})
    call("POST", "/kill")
    assert "size_bytes" in call("POST", "/topics/orders/partitions/0/tear", {"bytes": 3})
    assert call("POST", "/restart")["bootstrap_servers"] == broker.bootstrap_servers
    assert [row["value"] for row in call("GET", "/topics/orders/records")] == ["1"]


def test_disk_faults_are_set_over_http(call):
    call("POST", "/topics", {"name": "orders"})
    fault = call(
        "POST", "/disk-faults", {"effect": "write", "path": "*/orders-0/*.log", "do": "full", "after_bytes": 0}
    )
    status, message = call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})
    assert status == 400
    assert "No space left" in message
    assert call("GET", "/faults")["disk_faults"][str(fault["id"])]["effect"] == "write"
    call("DELETE", f"/disk-faults/{fault['id']}")
    call("POST", "/restart")
    assert call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})["base_offset"] == 0


def test_clock_snapshots_leaders_and_nodes_are_controlled(call, broker):
    call("POST", "/topics", {"name": "orders"})
    before = call("GET", "/clock")["now_ms"]
    assert call("POST", "/clock/advance", {"seconds": 1.5})["now_ms"] >= before + 1500
    snapshot_id = call("POST", "/snapshots")["id"]
    call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})
    call("POST", f"/snapshots/{snapshot_id}/restore")
    assert call("GET", "/topics/orders/records") == []
    assert call("PUT", "/topics/orders/partitions/0/leader", {"node": 2}) == {}
    assert call("PUT", "/coordinators/group/billing", {"node": 2}) == {}
    assert call("POST", "/nodes/2/stop") == {}
    assert call("POST", "/nodes/2/start") == {}
    call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})
    assert call("POST", "/topics/orders/partitions/0/truncate", {"offset": 0}) == {}
    assert call("GET", "/topics/orders/records") == []


def test_groups_and_transactions_are_listed_over_http(call, broker):
    call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    record = poll_with_librdkafka(consumer)
    consumer.commit(message=record, asynchronous=False)
    group = call("GET", "/groups")["g"]
    assert group["offsets"] == {"orders-0": 1}
    assert group["members"][0]["assignment"] == ["orders-0"]
    consumer.close()
    assert call("GET", "/transactions") == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "message_part"),
    [
        ("POST", "/faults", {"api": "Produced", "do": "close"}, "unknown API"),
        ("POST", "/faults", {"do": "explode"}, "explode"),
        ("POST", "/faults", {"do": "error"}, "lacks the field 'code'"),
        ("POST", "/faults", {"do": "error", "code": "NOT_LEADER"}, "unknown error code"),
        ("POST", "/faults", {"do": "delay", "seconds": "2"}, "'seconds' must be int or float"),
        ("POST", "/faults", {"do": "close", "times": True}, "'times' must be int"),
        ("POST", "/faults", [1], "JSON object"),
        ("DELETE", "/faults/7", None, "number 7 does not exist"),
        ("DELETE", "/faults/x", None, "must contain an integer"),
        ("POST", "/disk-faults", {"do": "error", "name": "EFULL"}, "EFULL"),
        ("GET", "/nothing", None, "nothing at /nothing"),
        ("PUT", "/topics", None, "expected GET, POST"),
        ("POST", "/topics", {"name": ".."}, "'..'"),
        ("POST", "/topics", {"name": "a", "partitions": 0}, "expected 1 or more"),
        ("GET", "/topics/none/records", None, "'none' does not exist"),
        ("GET", "/topics/none/records?partition=x", None, "must be an integer"),
        ("POST", "/topics/a/records", {"records": [{"value": 1}]}, "record 0: 1 is neither text"),
        ("POST", "/topics/a/records", {"records": [{"value": {"base64": "?"}}]}, "record 0: the text is not base64"),
        ("POST", "/topics/a/records", {"records": [1]}, "record 0"),
        ("POST", "/topics/a/records", {"records": [], "partiton": 1}, "did you mean 'partition'"),
        ("POST", "/topics", {"name": "a", "config": {}}, "did you mean 'configs'"),
        ("POST", "/faults", {"do": "close", "topik": "a"}, "did you mean 'topic'"),
        ("POST", "/faults", {"do": "close", "seconds": 3}, "unknown field 'seconds'"),
        ("POST", "/disk-faults", {"do": "slow", "seconds": 1, "pth": "*"}, "did you mean 'path'"),
        ("GET", "/topics/a/records?partiton=1", None, "did you mean 'partition'"),
        ("POST", "/clock/advance", {"seconds": -1}, "must be between 0 and 1e9"),
        ("POST", "/snapshots/1/restore", None, "number 1 does not exist"),
        ("POST", "/topics/a/partitions/0/tear", {"bytes": 1}, "kill"),
    ],
)
def test_invalid_requests_are_rejected_with_a_reason(call, method, path, body, message_part):
    status, message = call(method, path, body)
    assert status in (400, 404, 405)
    assert message_part in message
    assert call("GET", "/faults") == {"faults": {}, "disk_faults": {}}


@pytest.mark.parametrize("wrong", [{"after": "x"}, {"times": "x"}])
def test_a_fault_with_an_invalid_count_has_no_effect(call, broker, wrong):
    call("POST", "/topics", {"name": "orders"})
    refusing = {"do": "error", "api": "ListGroups", "code": "GROUP_AUTHORIZATION_FAILED", **wrong}
    assert call("POST", "/faults", refusing)[0] == 400
    full = {"do": "full", "effect": "write", "path": "*/orders-0/*.log", "after_bytes": 0, **wrong}
    assert call("POST", "/disk-faults", full)[0] == 400
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.list_groups() == []
    assert call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})["base_offset"] == 0


def test_a_body_that_is_not_json_or_too_long_is_rejected(call):
    assert call("POST", "/topics", raw=b"{")[0] == 400
    assert call("POST", "/topics", raw=b"[" * 100_000)[0] == 400
    request = urllib.request.Request(
        call.url + "/topics", data=b"", method="POST", headers={"Content-Length": "9" * 12}
    )
    with pytest.raises(urllib.error.HTTPError, match="413"):
        urllib.request.urlopen(request, timeout=60)


def test_names_in_a_path_cannot_leave_the_data_directory(call, broker, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-outside-0"
    outside.mkdir()
    (outside / "00000000000000000000.log").write_bytes(b"mine")
    (tmp_path / "linked-0").symlink_to(outside)
    call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})
    names = [f"..%2f{outside.name[:-2]}", f"%2e%2e%2f{outside.name[:-2]}", str(outside)[:-2].replace("/", "%2f")]
    names += ["linked", ".", "..", "orders-0%2f..%2forders", "%00", "a" * 300, "*", "order%3f", "no-such-topic"]
    calls = [
        ("GET", "records", None),
        ("PUT", "configs", {"retention.ms": 1}),
        ("PUT", "partitions/0/leader", {"node": 1}),
        ("POST", "partitions/0/truncate", {"offset": 0}),
        ("POST", "partitions/0/tear", {"bytes": 1}),
    ]
    for is_up in (True, False):
        for name in names:
            for method, path, body in calls:
                assert call(method, f"/topics/{name}/{path}", body)[0] == 400, (name, path)
        if is_up:
            for name in set(names) - {"linked", "no-such-topic"}:
                assert call("POST", f"/topics/{name}/records", {"records": [{"value": ""}]})[0] == 400
            call("POST", "/kill")
    assert (outside / "00000000000000000000.log").read_bytes() == b"mine"
    assert call("POST", "/topics/orders/partitions/0/tear", {"bytes": 1})["size_bytes"] > 0


def test_the_token_file_is_only_readable_by_its_owner(tmp_path):
    path = tmp_path / "token"
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--control", "0"]
    command += ["--control-token-file", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = []
            while not lines or "controls on" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1], lines
            url, token = re.search(r"controls on (\S+)", lines[-1])[1], path.read_text().strip()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert "routes" in ControlClient(url, token)("GET", "/")
            assert ControlClient(url, "x" + token)("GET", "/")[0] == 401
        finally:
            process.terminate()
        assert token not in "".join(lines) + process.stderr.read()
    path.chmod(0o640)
    result = CliRunner().invoke(cli, command[3:])
    assert isinstance(result.exception, OptionError)
    assert "chmod 600" in str(result.exception)


def test_the_token_comes_from_the_environment():
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--control", "0"]
    environment = {**os.environ, "KAFKAFRAMES_CONTROL_TOKEN": "of-the-environment"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            lines = []
            while not lines or "controls on" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1], lines
            url = re.search(r"controls on (\S+)", lines[-1])[1]
            assert "routes" in ControlClient(url, "of-the-environment")("GET", "/")
        finally:
            process.terminate()
        assert "of-the-environment" not in "".join(lines) + process.stderr.read()


def test_the_command_serves_controls_and_schemas():
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--control", "0", "--schema-registry", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = []
            while not lines or "Bearer" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1], lines
            assert lines[0].startswith("listening on 127.0.0.1:")
            call = ControlClient(
                re.search(r"controls on (\S+)", lines[-2])[1], re.search(r"Bearer (\S+)", lines[-1])[1]
            )
            assert "POST /faults" in call("GET", "/")["routes"]
            call("POST", "/topics/orders/records", {"records": [{"value": "1"}]})
            assert [row["value"] for row in call("GET", "/topics/orders/records")] == ["1"]
            (registry,) = [line for line in lines if "schema registry on" in line]
            assert ControlClient(registry.split()[-1])("GET", "/subjects") == []
        finally:
            process.terminate()
        assert process.wait(60) == 0


@pytest.mark.parametrize("option", ["--control", "--schema-registry", "--metrics-port"])
def test_an_invalid_address_is_rejected(option):
    result = CliRunner().invoke(cli, ["broker", "--port", "0", option, "here"])
    assert isinstance(result.exception, OptionError)
    assert str(result.exception) == f"{option} must be PORT or HOST:PORT, not 'here'"


@pytest.mark.parametrize(
    "row",
    [{"value": "\ud800"}, {"key": "a\udfff"}, {"value": "v", "headers": [{"key": "\ud800", "value": "v"}]}],
    ids=["value", "key", "header"],
)
def test_a_lone_surrogate_is_rejected_and_nothing_is_appended(call, broker, row):
    call("POST", "/topics", {"name": "orders"})
    code, message = call("POST", "/topics/orders/records", {"records": [{"value": "a"}, row]})
    assert (code, "surrogate" in message) == (400, True)
    assert call("GET", "/topics/orders/records") == []
