"""With a connection rate quota per address, the same connections are served or closed as by Kafka 4.3.1."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from tests.interop import brokers

from kafkaframes.broker import Broker
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message

VERSION = "4.3.1"
CONNECTIONS, AT_ONCE = 16, 10  # one connection per second, in a window of ten seconds


class ThrottledClient:
    """A connection to a broker with a connection rate quota."""

    def __init__(self, port: int) -> None:
        self._connection = ClientConnection(client_id="app")
        self.socket = socket.create_connection(("127.0.0.1", port), 60)

    def ask(self, name: str, version: int, **fields: object) -> object:
        """Return a response, or None if the connection is closed instead."""
        self._connection.send_request(message(f"{name}Request")(**fields), version)
        try:
            self.socket.sendall(self._connection.data_to_send())
            while (frame := self._connection.next_response()) is None:
                data = self.socket.recv(65536)
                if not data:
                    return None
                self._connection.receive_data(data)
        except ConnectionError:
            return None
        return frame.body


def set_quota(client: ThrottledClient, address: str | None, rate: float | None) -> None:
    types = message("AlterClientQuotasRequest")
    rows = [types.EntityData(entity_type="ip", entity_name=address)]
    ops = [types.OpData(key="connection_creation_rate", value=rate or 0, remove=rate is None)]
    answer = client.ask("AlterClientQuotas", 1, entries=[types.EntryData(entity=rows, ops=ops)])
    assert answer.entries[0].error_code == 0


def open_connections(port: int) -> list[bool]:
    """Open several connections at once. Return whether each of them was served."""
    clients = [ThrottledClient(port) for _ in range(CONNECTIONS)]
    answers = [client.ask("ApiVersions", 0) is not None for client in clients]
    for client in clients:
        client.socket.close()
    return answers


@pytest.fixture(params=["ours", "theirs"])
def port(request: pytest.FixtureRequest, oracle: Path, tmp_path: Path) -> int:
    """The embedded broker's port, then that of Apache Kafka."""
    if request.param == "ours":
        with Broker() as broker:
            yield broker.port
    else:
        with brokers.KafkaFactory(brokers.real_kafka(oracle), VERSION)(tmp_path) as node:
            yield node.port


def test_connections_of_an_address_above_the_rate_are_closed(port):
    admin = ThrottledClient(port)
    assert open_connections(port) == [True] * CONNECTIONS
    set_quota(admin, None, 1)
    wait_for_quota(admin, "1")
    answers = open_connections(port)
    assert all(answers[:AT_ONCE])
    assert not all(answers[AT_ONCE:])
    set_quota(admin, "127.0.0.1", 100)
    wait_for_quota(admin, "100")
    assert open_connections(port) == [True] * CONNECTIONS
    set_quota(admin, None, None)
    set_quota(admin, "127.0.0.1", None)
    admin.socket.close()


def wait_for_quota(admin: ThrottledClient, value: str) -> None:
    """Wait until the broker has applied the quota."""
    types = message("DescribeClientQuotasRequest")
    component = types.ComponentData(entity_type="ip", match_type=2, match=None)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = admin.ask("DescribeClientQuotas", 1, components=[component], strict=True)
        if float(value) in [value.value for entry in answer.entries for value in entry.values]:
            return
        time.sleep(0.1)
    raise AssertionError(f"the quota {value} did not take effect")
