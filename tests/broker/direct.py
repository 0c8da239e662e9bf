"""A broker without sockets: request frames are passed to its dispatcher as a client would send them."""

from __future__ import annotations

from typing import Any

from kafkaframes.broker.dispatch.dispatch import Dispatcher
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.broker.state.clock import Clock
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message

START_MS = 1_700_000_000_000


class PendingAnswer:
    """An answer that is still pending; ``body`` is None until it is complete."""

    def __init__(
        self, dispatcher: Dispatcher, request: Any, connection: ClientConnection, later: DeferredResponse
    ) -> None:
        self.body: Any = None
        self._dispatcher, self._request, self._connection = dispatcher, request, connection
        later.call_when_complete(self._complete)

    def _complete(self, later: DeferredResponse) -> None:
        self.body = send_over_wire(self._dispatcher, self._request, self._connection, later.answer)


def send_over_wire(dispatcher: Dispatcher, request: Any, connection: ClientConnection, answer: Any) -> Any:
    """Dispatch a request in wire format; return its answer decoded from wire format."""
    connection.receive_data(b"".join(bytes(part) for part in dispatcher.encode(request, answer)))
    frame = connection.next_response()
    assert frame is not None
    return frame.body


class DirectBroker:
    """A broker in the calling thread, with a stopped clock."""

    def __init__(self, data_dir: str | None = None, **config: Any) -> None:
        self.data_dir, self.config = data_dir, {key.replace("_", "."): str(value) for key, value in config.items()}
        self.clock = Clock(source=lambda: START_MS, is_frozen=True)
        self.open()

    def open(self) -> None:
        """Open the data directory, for the first time or after ``kill``."""
        self.session = Session(peer="127.0.0.1:5000")
        self.state = open_broker(data_dir=self.data_dir, settings=BrokerSettings(dict(self.config)), clock=self.clock)
        self.dispatcher = Dispatcher(self.state)

    def kill(self) -> None:
        """Drop all state that is not in the data directory, and open the directory again."""
        self.state.logs.abandon()
        self.open()

    def close(self) -> None:
        """Close the connection; the next request uses a new connection."""
        for call in self.session.when_closed.values():
            call()
        self.session = Session(peer="127.0.0.1:5000")

    def send(self, api: str, version: int, *, client_id: str = "test", **fields: Any) -> PendingAnswer | Any:
        """Send a request; return the answer's body, or a ``PendingAnswer`` until it is complete."""
        connection = ClientConnection(client_id=client_id)
        connection.send_request(message(f"{api}Request")(**fields), version)
        frame = connection.data_to_send()[4:]
        request = self.dispatcher.decode_request(frame, self.session)
        answer = self.dispatcher.answer(request)
        if isinstance(answer, DeferredResponse) and not answer.is_done:
            return PendingAnswer(self.dispatcher, request, connection, answer)
        if isinstance(answer, DeferredResponse):
            answer = answer.answer
        return send_over_wire(self.dispatcher, request, connection, answer)


def versions(api: str) -> list[int]:
    """Return all served versions of an API."""
    low, high = next(api_info.range for api_info in collect_apis().values() if api_info.name == api)
    return list(range(low, high + 1))
