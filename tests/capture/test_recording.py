"""``kafkaframes.record_traffic``: addresses as text, the file, the end of a recording, and clients through it."""

from __future__ import annotations

import socket
import threading

import pytest
from tests.waiting import wait_for

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.capture.recording import is_loopback, parse_broker, parse_listener
from kafkaframes.errors import KafkaframesError, OptionError


@pytest.mark.parametrize("text", [":x", ":9093-9092", ":0-99999"])
def test_invalid_addresses_are_rejected(text):
    with pytest.raises(OptionError):
        parse_listener(text)
    with pytest.raises(OptionError):
        parse_broker(text)


def test_the_upstream_is_one_broker(tmp_path):
    """Users pass the bootstrap servers of their clients, which are often several."""
    with pytest.raises(OptionError, match="specify one broker; the addresses of the others are read"):
        kafkaframes.record_traffic("kafka-1:9092,kafka-2:9092", tmp_path / "trace.pcapng")
    assert list(tmp_path.iterdir()) == []


def test_a_recording_is_not_written_to_a_file_that_is_called_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="cannot be written to standard output; specify a path"):
        kafkaframes.record_traffic("kafka-1:9092", "-")
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_cannot_be_reached_is_reported_once(tmp_path):
    """Without the report, clients are only disconnected, and the reason is unknown until the recording ends."""
    reasons: list[str] = []
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        upstream = f"127.0.0.1:{refusing.getsockname()[1]}"
        with kafkaframes.record_traffic(upstream, tmp_path / "trace.pcapng", on_refused=reasons.append) as recording:
            for _ in range(2):
                with socket.create_connection((recording.host, recording.port), 60) as client:
                    assert client.recv(1) == b""
            wait_for(lambda: recording.refused_connections == 2)
    assert reasons == [f"the broker {upstream} cannot be reached: Connection refused"]


def test_a_listener_has_a_range_of_ports():
    assert parse_listener(":9092-9094") == ("127.0.0.1", (9092, 9093, 9094))
    assert parse_listener("0.0.0.0:9092") == ("0.0.0.0", (9092,))
    assert parse_listener("[::1]:9092") == ("::1", (9092,))


def test_only_a_loopback_address_needs_no_warning():
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.7", "kafka-proxy")))


def test_a_recording_has_the_calls_of_its_clients(tmp_path):
    path = tmp_path / "trace.pcapng"
    with Broker() as broker:
        broker.create_topic("orders", 1)
        with kafkaframes.record_traffic(broker.bootstrap_servers, path) as recording:
            with kafkaframes.Producer(recording.bootstrap_servers) as producer:
                producer.send("orders", b"value")
                producer.flush()
            with kafkaframes.Admin(recording.bootstrap_servers) as admin:
                assert "orders" in admin.list_topics()
            assert recording.is_local
            assert recording.connections > 0
            assert not recording.wait(0)
    apis = kafkaframes.read_capture(path).read_all()["apiName"].to_pylist()
    assert {"Produce", "Metadata"} <= set(apis)
    assert recording.size_bytes > 0
    assert recording.unknown_responses == ()
    recording.close()  # again


def test_a_recording_that_cannot_start_leaves_no_file(tmp_path):
    path = tmp_path / "trace.pcapng"
    with Broker() as broker:
        address = broker.bootstrap_servers
        with pytest.raises(OptionError, match="cannot listen on"):
            kafkaframes.record_traffic(address, path, listen=address)
    assert not path.exists()
    path.write_bytes(b"mine")
    with pytest.raises(OptionError, match=r"`to` .*trace\.pcapng: cannot be written: File exists"):
        kafkaframes.record_traffic("localhost:9092", path)
    assert path.read_bytes() == b"mine"
    with pytest.raises(OptionError, match="`key` needs `cert`"):
        kafkaframes.record_traffic("localhost:9092", tmp_path / "other", key="key.pem")
    with pytest.raises(OptionError, match=r"`upstream_ca` .*missing\.pem"):
        kafkaframes.record_traffic("localhost:9092", tmp_path / "other", upstream_ca=tmp_path / "missing.pem")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["trace.pcapng"]


def test_a_stop_ends_the_wait_and_an_error_of_the_block_is_raised(tmp_path):
    stop = threading.Event()
    with kafkaframes.record_traffic("localhost:1", tmp_path / "a.pcapng", stop=stop) as recording:
        threading.Timer(0.01, stop.set).start()
        assert recording.wait(60)
    with pytest.raises(ZeroDivisionError), kafkaframes.record_traffic("localhost:1", tmp_path / "b.pcapng"):
        _ = 1 / 0


def test_a_full_disk_is_reported_at_the_end(tmp_path):
    with pytest.raises(KafkaframesError, match="cannot be written any more: No space left on device"):  # noqa: SIM117
        with kafkaframes.record_traffic("localhost:1", tmp_path / "full.pcapng") as recording:
            recording._recorder.failure = OSError(28, "No space left on device")
