"""The ports of a broker's nodes. A node keeps its ports after a restart."""

from __future__ import annotations

import contextlib
import socket
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

from kafkaframes.broker.network.server import Listener, Server
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.broker.state.topics import Endpoint, Node, Nodes
from kafkaframes.errors import OptionError
from kafkaframes.protocol.addresses import format_address


class HeldPorts:
    """Reserved ports of a broker that is temporarily stopped.

    The operating system may give a closed listener's port to another program. A socket that is bound but does not
    listen reserves the port, and connections to it are refused.
    """

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}  # by port
        weakref.finalize(self, _close_all, self._sockets)  # closes the sockets if a killed broker is garbage-collected

    def hold(self, host: str, port: int) -> None:
        """Reserve a port. Do nothing if another program already uses the port."""
        self.release(port)
        with contextlib.suppress(OSError):
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            held_socket = self._sockets[port] = socket.socket(family, kind)
            # Without this option, closed connections in TIME_WAIT would block the port.
            held_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held_socket.bind(address)

    def release(self, port: int) -> None:
        """Release a port, so that its broker can listen."""
        if port in self._sockets:
            self._sockets.pop(port).close()

    def release_all(self) -> None:
        """Release all ports."""
        _close_all(self._sockets)


def _close_all(sockets: dict[int, socket.socket]) -> None:
    """Close all sockets and empty the dictionary."""
    while sockets:
        sockets.popitem()[1].close()


def check_listeners(
    listeners: Sequence[ListenerOptions], security: Security, host: str, nodes: int
) -> tuple[ListenerOptions, ...]:
    """Return the validated listeners; by default, a single listener with the protocol of ``security``.

    Raises:
        OptionError: two listeners have the same name, a TLS listener has no certificate, or the ports of further nodes
            belong to another listener.
    """
    if len({listener.name for listener in listeners}) < len(listeners):
        raise OptionError("listener names must be unique")
    if any(listener.needs_tls for listener in listeners) and security.tls is None:
        raise OptionError("an SSL listener requires security with a certificate")
    for lower, upper in pairwise(sorted((listener for listener in listeners if listener.port), key=attrgetter("port"))):
        last_port = lower.port + nodes - 1
        if last_port >= upper.port:
            ports = f"{lower.port} to {last_port}, one for each node"
            raise OptionError(
                f"listener {lower.name} requires the ports {ports}, but the ports of {upper.name} start at {upper.port}"
            )
    return tuple(listeners) or (ListenerOptions(protocol=security.listener_name, host=host),)


@dataclass(slots=True)
class Ports:
    """The ports of a broker.

    Attributes:
        first_port: port of the first node's first listener; 0 selects a free port.
        bound: the most recently bound ports, by node and listener.
        comes_back: whether the broker will be started again on the same ports.
    """

    listeners: tuple[ListenerOptions, ...]
    nodes: Nodes
    security: Security
    first_port: int
    bound: dict[tuple[int, str], int] = field(default_factory=dict)
    comes_back: bool = False
    held: HeldPorts = field(default_factory=HeldPorts)

    @property
    def first(self) -> int:
        """The port of the first node's first listener."""
        return self.bound.get((min(self.nodes.by_id), self.listeners[0].name), self.first_port)

    @property
    def addresses(self) -> str:
        """``host:port`` of every node (``[host]:port`` for IPv6), as clients accept it."""
        endpoints = [next(iter(node.endpoints.values())) for node in self.nodes.by_id.values() if node.endpoints]
        return ",".join(format_address(endpoint.host, endpoint.port) for endpoint in endpoints)

    async def open_all(self, server: Server) -> None:
        """Listen as every node.

        Connections are accepted after all ports are bound, so that the first client sees all nodes.
        """
        for node in self.nodes.by_id.values():
            node.is_up = True
            await self._bind_listeners(server, node)
        self.comes_back = False
        server.accept_connections()

    async def open(self, server: Server, node: Node) -> None:
        """Open the ports of a node: its former ports, or the configured ports."""
        await self._bind_listeners(server, node)
        server.accept_connections()

    async def _bind_listeners(self, server: Server, node: Node) -> None:
        node_index = node.node_id - min(self.nodes.by_id)
        for index, options in enumerate(self.listeners):
            configured_port = options.port if index else self.first_port
            bound_port = self.bound.get((node.node_id, options.name), 0) if self.comes_back or not node.is_up else 0
            listener = Listener(
                name=options.name,
                host=options.host,
                port=bound_port or (configured_port + node_index if configured_port else 0),
                node_id=node.node_id,
                tls=self.security.tls if options.needs_tls else None,
                needs_sasl=options.needs_sasl,
            )
            self.held.release(bound_port)
            port = self.bound[node.node_id, options.name] = await server.listen(listener)
            node.endpoints[options.name] = Endpoint(*options.address_for_clients(port))

    def hold(self, node_id: int | None = None) -> None:
        """Reserve the ports of a node, or of all nodes, until they are opened again."""
        hosts = {listener.name: listener.host for listener in self.listeners}
        for (node, name), port in self.bound.items():
            if node_id in (None, node):
                self.held.hold(hosts[name], port)
