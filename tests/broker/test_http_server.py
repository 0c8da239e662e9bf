"""The broker's HTTP server rejects attacks by web pages, other hosts in the network and slow clients."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.network import http_server
from kafkaframes.broker.network.http_server import MAX_CONNECTIONS, MAX_HEAD_BYTES, HttpServer, RequestGuard, Route
from kafkaframes.testing import Control, SchemaRegistry


def exchange(port, head, body=b""):
    """Send a request; return the response's status and body, or status 0 if there is no response."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        lines = [head] if "Content-Length" in head else [head, f"Content-Length: {len(body)}"]
        data = b""
        with contextlib.suppress(OSError):
            client.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 16):
                data += part
    return (int(data.split()[1]), data.partition(b"\r\n\r\n")[2]) if data else (0, b"")


@pytest.fixture
def broker():
    with Broker(metrics=0) as running:
        yield running


@pytest.fixture
def control(broker):
    control = Control(broker)
    yield control
    control.close()


BODY = json.dumps({"name": "made-by-a-page"}).encode()
JSON_HEADER = "Content-Type: application/json"
OWN_HOST_HEADER = "Host: localhost:{port}"
BEARER_HEADER = "Authorization: Bearer {token}"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER], 200),
        (["Host: 127.0.0.1:{port}", JSON_HEADER, BEARER_HEADER, "Origin: http://127.0.0.1:{port}"], 200),
        (["Host: [::1]:{port}", "Content-Type: Application/JSON; charset=utf-8", BEARER_HEADER], 200),
        # DNS rebinding: the page's own host name resolves to this machine
        (["Host: evil.example:{port}", JSON_HEADER, BEARER_HEADER], 403),
        (["Host: 127.0.0.1.evil.example:{port}", JSON_HEADER, BEARER_HEADER], 403),
        (["Host: localhost:{port}@evil.example", JSON_HEADER, BEARER_HEADER], 403),
        (["Host: localhost", JSON_HEADER, BEARER_HEADER], 403),
        (["Host: localhost:1", JSON_HEADER, BEARER_HEADER], 403),
        (["Host: 10.0.0.1:{port}", JSON_HEADER, BEARER_HEADER], 403),
        ([OWN_HOST_HEADER, "Host: evil.example", JSON_HEADER, BEARER_HEADER], 403),
        (["Host: ", JSON_HEADER, BEARER_HEADER], 403),
        (["Host: [", JSON_HEADER, BEARER_HEADER], 403),
        ([JSON_HEADER, BEARER_HEADER], 403),
        # another site, or a sandboxed frame
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Origin: http://evil.example"], 403),
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Origin: null"], 403),
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Origin: http://localhost:1"], 403),
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Origin: https://localhost:{port}"], 403),
        # requests that a form can send without a preflight
        ([OWN_HOST_HEADER, "Content-Type: text/plain", BEARER_HEADER], 415),
        ([OWN_HOST_HEADER, "Content-Type: application/x-www-form-urlencoded", BEARER_HEADER], 415),
        ([OWN_HOST_HEADER, "Content-Type: multipart/form-data; boundary=a", BEARER_HEADER], 415),
        ([OWN_HOST_HEADER, "Content-Type: application/jsonp", BEARER_HEADER], 415),
        ([OWN_HOST_HEADER, BEARER_HEADER], 415),
        # no token, or another one
        ([OWN_HOST_HEADER, JSON_HEADER], 401),
        ([OWN_HOST_HEADER, JSON_HEADER, "Authorization: Bearer "], 401),
        ([OWN_HOST_HEADER, JSON_HEADER, "Authorization: Bearer wrong"], 401),
        ([OWN_HOST_HEADER, JSON_HEADER, "Authorization: Bearer \xe9\xff"], 401),
        ([OWN_HOST_HEADER, JSON_HEADER, "Authorization: Basic {token}"], 401),
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, BEARER_HEADER], 401),
        # smuggling
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Transfer-Encoding: chunked"], 501),
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Content-Length: 1", "Content-Length: 26"], 501),
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Content-Length: -1"], 413),
        ([OWN_HOST_HEADER, JSON_HEADER, BEARER_HEADER, "Content-Length: \xb2"], 413),
    ],
)
def test_control_requests_of_web_pages_are_rejected(broker, control, lines, status):
    head = "\r\n".join(["POST /topics HTTP/1.1", *lines]).format(port=control.port, token=control.token)
    assert exchange(control.port, head, BODY)[0] == status
    assert ("made-by-a-page" in broker.topics) is (status == 200)


@pytest.mark.parametrize("path", ["/", "/topics", "/journal", "/kill", "/no-such-path"])
def test_controls_without_a_configured_token_are_disabled(broker, control, path):
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost:{control.port}\r\n{JSON_HEADER}"
        status, body = exchange(control.port, head, b"{}")
        assert status == 401
        assert list(json.loads(body)) == ["error_code", "message"]
    assert broker.is_running


def test_metrics_and_schemas_require_a_local_host_header(broker):
    with SchemaRegistry() as registry:
        registry.register("a", {"type": "string"})
        for port, path in ((broker.metrics_port, "/metrics"), (registry.port, "/subjects")):
            assert exchange(port, f"GET {path} HTTP/1.1\r\nHost: localhost:{port}")[0] == 200
            assert exchange(port, f"GET {path} HTTP/1.1\r\nHost: evil.example:{port}")[0] == 403
            head = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://evil.example"
            assert exchange(port, head)[0] == 403
        post = f"POST /subjects/a/versions HTTP/1.1\r\nHost: localhost:{registry.port}\r\nContent-Type: "
        body = json.dumps({"schema": '{"type": "int"}'}).encode()
        assert exchange(registry.port, f"{post}text/plain", body)[0] == 415
        assert exchange(registry.port, f"{post}application/vnd.schemaregistry.v1+json", body)[0] == 200
        head = f"DELETE /subjects/a HTTP/1.1\r\nHost: evil.example:{registry.port}"
        assert exchange(registry.port, head)[0] == 403
        assert list(registry.subjects()) == ["a"]


def test_metrics_listen_on_loopback_unless_another_address_is_given():
    with Broker(host="0.0.0.0", metrics=0) as broker:
        assert broker.metrics_url == f"http://127.0.0.1:{broker.metrics_port}/metrics"


def test_a_server_on_all_addresses_accepts_ip_addresses_but_not_foreign_host_names():
    guard = RequestGuard(host="0.0.0.0", port=1)
    accepted_hosts = ("10.1.2.3:9999", "[fe80::1]:1", "localhost:1", socket.gethostname())
    rejected_hosts = ("evil.example:1", "10.1.2.3.evil.example:1", "", "a b", "1/../", "localhost:x")
    assert all(guard.is_own_host(name) for name in accepted_hosts)
    assert not any(guard.is_own_host(name) for name in rejected_hosts)


def _fail(_):
    raise ZeroDivisionError("the password is hunter2")


@pytest.fixture
def server():
    server = HttpServer([Route("GET", "/{}", lambda request: request.path[0]), Route("POST", "/bad", _fail)])
    yield server
    server.close()


def test_the_total_header_size_is_limited(server):
    host_header = f"Host: localhost:{server.port}"
    many = "\r\n".join(f"X-{number}: {'a' * 1000}" for number in range(60))
    assert exchange(server.port, f"GET /a HTTP/1.1\r\n{host_header}\r\nX: {'a' * 20_000}")[0] == 200
    assert exchange(server.port, f"GET /a HTTP/1.1\r\n{host_header}\r\nX: {'a' * MAX_HEAD_BYTES}")[0] in (0, 431)
    assert exchange(server.port, f"GET /a HTTP/1.1\r\n{host_header}\r\n{many}")[0] in (0, 431)
    assert exchange(server.port, f"GET /{'a' * 100_000} HTTP/1.1\r\n{host_header}")[0] in (0, 414, 431)
    assert exchange(server.port, f"GET /a HTTP/1.1\r\n{host_header}")[0] == 200


def test_an_internal_error_reveals_only_its_type(server, capfd):
    head = f"POST /bad HTTP/1.1\r\nHost: localhost:{server.port}\r\n{JSON_HEADER}"
    status, body = exchange(server.port, head, b"{}")
    assert status == 500
    assert b"ZeroDivisionError" in body
    assert "hunter2" not in body.decode() + "".join(capfd.readouterr())


def test_connections_are_limited_and_slow_ones_are_closed(monkeypatch):
    monkeypatch.setattr(http_server, "TIMEOUT_SECONDS", 2.0)
    server = HttpServer([Route("GET", "/a", lambda request: "a")])
    with contextlib.ExitStack() as stack:
        stack.callback(server.close)
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            for _ in range(MAX_CONNECTIONS + 20)
        ]
        open_clients, deadline = set(clients), time.monotonic() + 60
        while open_clients and time.monotonic() < deadline:  # each client sends a byte now and then
            for client in list(open_clients):
                try:
                    client.sendall(b"G")
                except OSError:
                    open_clients.discard(client)
            time.sleep(0.05)
        assert not open_clients
        assert exchange(server.port, f"GET /a HTTP/1.1\r\nHost: localhost:{server.port}")[0] == 200
