"""Passwords for registries and token endpoints are only sent to the configured server."""

from __future__ import annotations

import http.server
import threading

import pytest

from kafkaframes.broker.security.tokens import KeySet
from kafkaframes.client.security.tokens import ClientCredentialsProvider
from kafkaframes.errors import KafkaframesError, NetworkError
from kafkaframes.scan.values.registry import SchemaRegistry


class RecordingServer:
    """A server that sends one response to every request, and records the request headers."""

    def __init__(self, status, location=None, body=b"{}"):
        self.seen_headers = seen_headers = []

        class ResponseHandler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                seen_headers.append(dict(self.headers))
                self.send_response(status)
                if location:
                    self.send_header("Location", location + self.path)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the library's name

            def log_message(self, *parts):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ResponseHandler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(params=[301, 302, 303, 307, 308])
def servers(request):
    foreign = RecordingServer(200, body=b'{"access_token": "x", "schema": "{}", "keys": []}')
    named_server = RecordingServer(request.param, f"http://127.0.0.1:{foreign.port}")
    yield named_server, foreign
    named_server.close()
    foreign.close()


def test_a_redirect_to_another_server_does_not_send_the_password(servers):
    named_server, foreign = servers
    with pytest.raises(NetworkError):
        SchemaRegistry(f"http://me:hunter2@127.0.0.1:{named_server.port}").fetch_by_id(1)
    with pytest.raises(NetworkError) as caught:
        ClientCredentialsProvider(
            url=f"http://127.0.0.1:{named_server.port}/t", client_id="me", client_secret="hunter2"
        )()
    with pytest.raises(KafkaframesError):
        KeySet(f"http://127.0.0.1:{named_server.port}/keys")
    assert len(named_server.seen_headers) >= 3
    assert foreign.seen_headers == []
    assert "hunter2" not in str(caught.value)


def test_responses_in_error_messages_are_redacted():
    server = RecordingServer(400, body=b'{"error": "invalid", "client_secret": "hunter2", "got": "Basic aHVudGVyMg=="}')
    try:
        with pytest.raises(NetworkError, match="400") as caught:
            ClientCredentialsProvider(
                url=f"http://127.0.0.1:{server.port}/t?api_key=hunter2", client_id="me", client_secret="s"
            )()
        assert "hunter2" not in str(caught.value)
        assert "aHVud" not in str(caught.value)
        assert "invalid" in str(caught.value)
    finally:
        server.close()
