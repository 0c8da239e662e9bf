"""``Broker`` in synchronous and asyncio code, its start, stop and restart, and the command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from tests.waiting import wait_for

import kafkaframes
from kafkaframes.broker import Broker, Clock, Cluster, MetricsEndpoint
from kafkaframes.broker.settings.properties import read_properties
from kafkaframes.broker.settings.settings import DEFAULTS, KAFKA_DEFAULTS
from kafkaframes.client import Admin
from kafkaframes.errors import ErrorCode, LogDirError, OptionError
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records


def ask(port, name, version, **fields):
    connection = ClientConnection(client_id="test")
    connection.send_request(message(f"{name}Request")(**fields), version)
    with socket.create_connection(("127.0.0.1", port), 60) as peer:
        peer.sendall(connection.data_to_send())
        while (frame := connection.next_response()) is None:
            data = peer.recv(65536)
            assert data, "the broker closed the connection"
            connection.receive_data(data)
    return frame.body


def produce(port, value, topic="orders"):
    types = message("ProduceRequest")
    row = types.PartitionProduceData(index=0, records=build_records({"value": [value]}))
    data = types.TopicProduceData(name=topic, partition_data=[row])
    return ask(port, "Produce", 9, acks=-1, topic_data=[data]).responses[0].partition_responses[0]


def test_brokers_in_one_process_are_independent():
    with kafkaframes.Broker() as one, kafkaframes.Broker() as other:
        one.create_topic("orders", retention_ms=1000)
        assert (list(one.topics), list(other.topics)) == (["orders"], [])
        assert one.port != other.port
        assert produce(one.port, b"v").error_code == 0
        assert [record.value for record in one.records("orders")] == [b"v"]
        one.journal.assert_requested("Produce", times=1)


def test_a_broker_runs_on_the_event_loop_that_enters_it():
    async def main():
        async with Broker() as broker:
            answer = await asyncio.to_thread(ask, broker.port, "Metadata", 9, topics=None)
            broker.create_topic("orders")
            return answer.brokers[0].port == broker.port, list(broker.topics)

    assert asyncio.run(main()) == (True, ["orders"])


@pytest.mark.parametrize("durability", ["log", "fsync"])
@pytest.mark.parametrize("end_method", ["kill", "stop"])
def test_acknowledged_records_survive_a_stop_or_kill(tmp_path, durability, end_method):
    broker = Broker(data_dir=tmp_path, durability=durability).start()
    broker.create_topic("orders")
    assert produce(broker.port, b"1").error_code == 0
    port = broker.port
    getattr(broker, end_method)()
    with Broker(data_dir=tmp_path, durability=durability, port=port) as again:
        assert [record.value for record in again.records("orders")] == [b"1"]
        assert produce(again.port, b"2").base_offset == 1


def test_the_directory_of_a_stopped_broker_is_a_log_directory(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("orders")
        produce(broker.port, b"1")
        live = kafkaframes.read_records(tmp_path / "orders-0" / f"{0:020}.log")
        assert sum(batch.num_rows for batch in live) == 1
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_serving_a_directory_does_not_change_it(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("orders", partitions=2)
        produce(broker.port, b"1")
    (tmp_path / "kafkaframes.broker.json").unlink()  # like the directory of another broker
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with Broker(serve=tmp_path) as serving_broker:
        assert [record.value for record in serving_broker.records("orders")] == [b"1"]
        assert produce(serving_broker.port, b"2").error_code == ErrorCode.POLICY_VIOLATION
        types = message("FetchRequest")
        row = types.FetchPartition(partition=0, partition_max_bytes=1000)
        for version in (0, 4, 12):
            fields = {"max_bytes": 1000} if version >= 3 else {}
            topics = [types.FetchTopic(topic="orders", partitions=[row])]
            answer = ask(serving_broker.port, "Fetch", version, topics=topics, **fields)
            assert answer.responses[0].partitions[0].records
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_another_brokers_directory_is_adopted_only_on_request(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("orders")
        produce(broker.port, b"1")
    (tmp_path / "kafkaframes.broker.json").unlink()
    with pytest.raises(LogDirError, match="`serve` reads a log directory, and `adopt` writes to it"):
        Broker(data_dir=tmp_path).start()
    with Broker(data_dir=tmp_path, adopt=True) as adopting_broker:
        assert produce(adopting_broker.port, b"2").base_offset == 1
    with Broker(data_dir=tmp_path) as again:
        assert len(again.records("orders")) == 2


@pytest.mark.parametrize(
    ("config", "is_kept"), [({}, True), ({"log.retention.ms": 1000}, False), ({"log.retention.hours": 1}, False)]
)
def test_old_records_of_another_broker_do_not_expire_by_default(tmp_path, config, is_kept):
    """The settings of its topics are unknown: a compacted topic, or a backup, lost all records after five minutes."""
    directory = tmp_path / "kafka"
    shutil.copytree("tests/data/logs/kraft-4x-transactions", directory)
    count = sum(batch.num_rows for batch in kafkaframes.scan_log(directory).select("offset").to_batches())
    config = {"log.retention.check.interval.ms": 10} | config
    with Broker(data_dir=directory, adopt=True, config=config) as broker:
        (remark,) = [remark for remark in broker.remarks if "settings of" in remark]
        assert remark.startswith("the settings of 4 topics of another broker are unknown, so no records in them expire")
        if is_kept:
            time.sleep(0.5)
        else:
            wait_for(lambda: not broker.records("payments"))
        with Admin(broker.bootstrap_servers) as admin:
            policies = {
                name: admin.describe_configs("topic", name)["cleanup.policy"].value
                for name in ("__consumer_offsets", "__transaction_state")
            }
    assert set(policies.values()) == {"compact"}
    count_after = sum(batch.num_rows for batch in kafkaframes.scan_log(directory).select("offset").to_batches())
    assert (count_after == count) == is_kept


def test_a_directory_in_use_is_rejected(tmp_path):
    with Broker(data_dir=tmp_path), pytest.raises(LogDirError, match=r"\.lock"):
        Broker(data_dir=tmp_path).start()


def test_a_restart_keeps_the_port_and_the_records(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        port = broker.port
        broker.create_topic("orders")
        assert broker.restart().port == port
        assert list(broker.topics) == ["orders"]


def test_retention_follows_the_brokers_adjustable_clock():
    with Broker(clock=Clock(is_frozen=True)) as broker:
        broker.create_topic("orders", retention_ms=60_000, segment_ms=1_000)
        produce(broker.port, b"1")
        broker.clock.advance(10)
        produce(broker.port, b"2")
        broker.clock.advance(400)
        assert [record.value for record in broker.records("orders")] == []


def test_wait_for_times_out_with_the_condition_and_the_journal():
    with Broker() as broker:
        ask(broker.port, "Metadata", 9, topics=None)
        with pytest.raises(TimeoutError, match=r"the condition was not true within 0.05 s: rain\n.*Metadata v9"):
            broker.wait_for(lambda: False, timeout=0.05, what="rain")


def test_each_virtual_node_has_a_port_and_leads_some_partitions():
    with Broker(cluster=3) as broker:
        broker.create_topic("orders", partitions=3)
        answer = ask(broker.port, "Metadata", 9, topics=None)
        assert len({node.port for node in answer.brokers}) == 3
        assert {row.leader_id for row in answer.topics[0].partitions} == {1, 2, 3}


def test_a_slow_frame_is_dropped_and_unread_answers_do_not_pile_up():
    with Broker(config={"socket.request.max.bytes": 10_000}) as broker:
        with socket.create_connection(("127.0.0.1", broker.port), 60) as peer:
            peer.sendall((10_001).to_bytes(4, "big"))
            assert peer.recv(1) == b""
        with socket.create_connection(("127.0.0.1", broker.port), 60) as peer:
            peer.sendall((-1).to_bytes(4, "big", signed=True))
            assert peer.recv(1) == b""
        assert ask(broker.port, "Metadata", 1, topics=None).brokers


def test_kafkas_defaults_apply_to_settings_that_are_not_given():
    with Broker(kafka_defaults=True, config={"offsets.topic.num.partitions": 7}) as broker:
        settings = broker.call(lambda state: state.settings)
        assert {key: settings.get_text(key) for key in KAFKA_DEFAULTS} == {
            **KAFKA_DEFAULTS,
            "offsets.topic.num.partitions": "7",
        }
        minimum = broker.call(lambda state: state.groups.settings.min_session_timeout_ms)
        assert (minimum, settings.build_log_settings({}).timestamp_after_max_ms) == (6000, 3_600_000)
    assert not [key for key, value in KAFKA_DEFAULTS.items() if DEFAULTS.get(key) == value]


def test_server_properties_are_read_and_unsupported_ones_are_listed():
    text = b"# c\nnum.partitions=3\nlog.retention.hours=2\nzookeeper.connect=x:1\nbroker.id=7\n"
    properties, unknown = read_properties(text, file="server.properties")
    assert properties == {"num.partitions": "3", "log.retention.ms": "7200000", "node.id": "7"}
    assert unknown == ("zookeeper.connect",)
    with pytest.raises(OptionError, match="is not a property"):
        read_properties(b"num", file="server.properties")


def test_the_command_prints_its_address_and_exits_with_0(tmp_path):
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as process:
        line = process.stderr.readline()
        port = int(re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)[1])
        assert ask(port, "Metadata", 1, topics=None).brokers[0].port == port
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60) == 0
    assert "survive kill -9" in rest
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("release", "produce_range", "formats"),
    [("0.10.2", (0, 2), {1}), ("1.1", (0, 5), {2}), ("2.8", (0, 9), {2}), ("3.9", (0, 11), {2}), ("4.3", (0, 13), {2})],
)
def test_an_emulated_release_serves_exactly_its_api_versions(release, produce_range, formats):
    with Broker(broker_release=release) as broker:
        answer = ask(broker.port, "ApiVersions", 0)
        ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        assert ranges[0] == produce_range
        broker.append("orders", [{"value": b"x"}])
        assert {batch.magic for batch in broker.call(lambda state: batches_of(state, "orders"))} == formats
        if release == "4.3":
            with pytest.raises(AssertionError, match="closed the connection"):
                ask(broker.port, "Produce", 0)


@pytest.mark.parametrize(("release", "magic"), [("2.8", 1), ("3.9", 2), ("4.0", 2)])
def test_releases_since_3_0_ignore_the_message_format_version(release, magic):
    with Broker(broker_release=release, config={"log.message.format.version": "0.10.2"}) as broker:
        broker.create_topic("orders", message_format_version="0.10.2")
        broker.append("orders", [{"value": b"x"}])
        assert {batch.magic for batch in broker.call(lambda state: batches_of(state, "orders"))} == {magic}


def batches_of(state, topic):
    return list(read_batches(state.topics[topic].partitions[0].log.read(0, max_bytes=1000).records))


@pytest.mark.parametrize("release", ["0.8.2", "0.9"])
def test_releases_before_0_10_close_the_connection_on_api_versions(release):
    with Broker(broker_release=release) as broker:
        with pytest.raises(AssertionError, match="closed the connection"):
            ask(broker.port, "ApiVersions", 0)
        broker.append("orders", [{"value": b"x"}])
        assert {batch.magic for batch in broker.call(lambda state: batches_of(state, "orders"))} == {0}


def test_leaders_and_coordinators_move_between_virtual_nodes():
    with Broker(cluster=2) as broker:
        broker.create_topic("orders")
        leader_id = broker.call(lambda state: state.topics["orders"].partitions[0].leader_id)
        broker.move_leader("orders", 0, 3 - leader_id)
        (topic,) = ask(broker.port, "Metadata", 9, topics=None).topics
        assert (topic.partitions[0].leader_id, topic.partitions[0].leader_epoch) == (3 - leader_id, 1)
        for node in (1, 2):
            broker.move_coordinator("g", node)
            assert ask(broker.port, "FindCoordinator", 2, key="g", key_type=0).node_id == node
        with pytest.raises(OptionError, match="unknown node 9"):
            broker.move_leader("orders", 0, 9)


def test_a_truncated_log_is_detected_by_leader_epochs():
    with Broker() as broker:
        broker.append("orders", [{"value": b"%d" % number} for number in range(5)], batch_records=1)
        broker.truncate("orders", 0, 2)
        broker.append("orders", [{"value": b"other"}])
        assert [record.value for record in broker.records("orders")] == [b"0", b"1", b"other"]
        types = message("OffsetForLeaderEpochRequest")
        row = types.OffsetForLeaderPartition(partition=0, leader_epoch=0)
        topics = [types.OffsetForLeaderTopic(topic="orders", partitions=[row])]
        (epoch_end,) = ask(broker.port, "OffsetForLeaderEpoch", 3, topics=topics).topics[0].partitions
        assert (epoch_end.leader_epoch, epoch_end.end_offset) == (0, 2)


def test_metrics_are_served_as_prometheus_text():
    with Broker(metrics=0) as broker:
        broker.append("orders", [{"value": b"x"}] * 3)
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        assert 'kafka_log_log_logendoffset{topic="orders",partition="0"} 3\n' in text
        assert "# TYPE kafka_server_replicamanager_partitioncount gauge\n" in text
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/other", timeout=60)


def test_the_request_log_has_kafkas_format():
    lines = []
    with Broker(request_log=lines.append) as broker:
        ask(broker.port, "Metadata", 9, topics=None)
        broker.create_topic("orders")
        produce(broker.port, b"v")
    pattern = r"\[(.*?)\] DEBUG (Completed request):(.*) \(kafka.request.logger\)"
    stamp, words, rest = re.fullmatch(pattern, lines[1]).groups()
    line = json.loads(rest)
    assert line["requestHeader"]["requestApiKeyName"] == "PRODUCE"
    assert line["request"]["topicData"][0]["partitionData"][0]["recordsSizeInBytes"] > 60
    assert line["response"]["responses"][0]["partitionResponses"][0]["errorCode"] == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", stamp)
    assert words


def test_the_first_node_id_comes_from_the_settings():
    with Broker(cluster=2, config={"node.id": 7}) as broker:
        broker.create_topic("orders", 2)
        answer = ask(broker.port, "Metadata", 9, topics=None)
        assert [node.node_id for node in answer.brokers] == [7, 8]
        assert {row.leader_id for row in answer.topics[0].partitions} == {7, 8}


def test_a_connection_accepted_while_its_node_stops_is_closed():
    with Broker(cluster=2) as broker:
        port = ask(broker.port, "Metadata", 9, topics=None).brokers[1].port
        peers = []

        def connect(state):
            peers.append(socket.create_connection(("127.0.0.1", port), 60))
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, broker._server.stop_listening, 2)  # between accept and the transport's start

        broker.call(connect)
        with peers[0] as peer, contextlib.suppress(ConnectionResetError):
            assert peer.recv(1) == b""
        assert not [connection for connection in broker.connections() if connection.session.node_id == 2]


def test_a_stopped_node_returns_on_its_port():
    with Broker(cluster=2) as broker:
        broker.create_topic("orders", 2)
        before = {node.node_id: node.port for node in ask(broker.port, "Metadata", 9, topics=None).brokers}
        broker.stop_node(2)
        answer = ask(broker.port, "Metadata", 9, topics=None)
        assert [node.node_id for node in answer.brokers] == [1]
        assert {row.leader_id for row in answer.topics[0].partitions} == {1}
        assert sorted(row.leader_epoch for row in answer.topics[0].partitions) == [0, 1]
        with pytest.raises(OSError, match="refused"):
            ask(before[2], "Metadata", 9, topics=None)
        nodes = ask(broker.port, "DescribeCluster", 2, include_fenced_brokers=True).brokers
        assert [(node.broker_id, node.port, node.is_fenced) for node in nodes] == [
            (1, before[1], False),
            (2, before[2], True),
        ]
        assert [node.broker_id for node in ask(broker.port, "DescribeCluster", 2).brokers] == [1]
        broker.start_node(2)
        assert {node.node_id: node.port for node in ask(before[2], "Metadata", 9, topics=None).brokers} == before
        with pytest.raises(OptionError, match="unknown node 9"):
            broker.stop_node(9)


def test_structured_arguments_accept_a_value_or_a_class():
    with Broker(cluster=Cluster(2, ["a", "b"]), metrics=MetricsEndpoint(0, "127.0.0.1")) as broker:
        assert broker.bootstrap_servers.count(",") == 1
        assert broker.metrics_url.startswith("http://127.0.0.1:")
    for wrong in (lambda: Broker(cluster=0), lambda: Cluster(2, ["a"])):
        with pytest.raises(OptionError):
            wrong()
    for removed_name in ("nodes", "racks", "replicas", "storage", "metrics_port", "metrics_host"):
        with pytest.raises(TypeError, match=removed_name):
            Broker(**{removed_name: None})
