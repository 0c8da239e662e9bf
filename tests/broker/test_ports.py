"""While a broker restarts, no other process can bind its ports."""

import gc
import random
import socket

from kafkaframes.broker import Broker
from kafkaframes.broker.network.ports import HeldPorts
from kafkaframes.storage.partition.manager import LogManager


def can_bind(port):
    """Return whether a socket without SO_REUSEPORT can bind a port."""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def is_refused(port):
    with socket.socket() as peer:
        try:
            peer.connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            return True
        return False


def test_a_port_is_held_until_it_is_released():
    # not an ephemeral port that the system assigns to others
    port = next(port for port in random.sample(range(20_000, 32_000), 100) if can_bind(port))
    held_ports = HeldPorts()
    held_ports.hold("127.0.0.1", port)
    held_ports.hold("127.0.0.1", port)
    assert not can_bind(port)
    assert is_refused(port)
    held_ports.release(port)
    assert can_bind(port)
    held_ports.release(port)
    held_ports.hold("127.0.0.1", port)
    held_ports.release_all()
    assert can_bind(port)


def test_a_port_in_use_is_not_held():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        HeldPorts().hold("127.0.0.1", other.getsockname()[1])


def ports_of(broker):
    return [int(address.rsplit(":", 1)[1]) for address in broker.bootstrap_servers.split(",")]


def test_a_killed_brokers_ports_are_held_and_it_restarts_on_them():
    broker = Broker(cluster=2).start()
    ports = ports_of(broker)
    broker.kill()
    assert not any(can_bind(port) for port in ports)
    assert all(is_refused(port) for port in ports)
    broker.restart()
    assert ports_of(broker) == ports
    broker.stop()


def test_a_restarting_broker_holds_its_ports_while_it_closes_its_logs(tmp_path, monkeypatch):
    with Broker(cluster=2, data_dir=tmp_path) as broker:
        ports, could_bind = ports_of(broker), []
        close = LogManager.close

        def closing(logs, **how):
            could_bind.extend(can_bind(port) for port in ports)
            close(logs, **how)

        monkeypatch.setattr(LogManager, "close", closing)
        broker.restart()
        assert could_bind == [False, False]
        assert ports_of(broker) == ports


def test_the_port_of_a_stopped_node_is_held():
    with Broker(cluster=2) as broker:
        ports = ports_of(broker)
        broker.stop_node(1)
        assert not can_bind(ports[1])
        broker.start_node(1)
        assert ports_of(broker) == ports
        assert not is_refused(ports[1])


def test_a_garbage_collected_broker_in_a_reference_cycle_closes_its_sockets(monkeypatch, recwarn):
    older = [socket.socket()]  # older than its holder: the collector finalizes it first
    monkeypatch.setattr(socket, "socket", lambda *_: older.pop())
    held_ports = HeldPorts()
    held_ports.circle = held_ports
    held_ports.hold("127.0.0.1", 0)
    del held_ports
    gc.collect()
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]
