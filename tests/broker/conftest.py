"""A broker without sockets: tests pass request frames to its dispatcher as a connection does."""

from __future__ import annotations

import warnings

import pytest

from kafkaframes.broker.dispatch.dispatch import Dispatcher
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.requests.api import DeferredResponse
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.broker.state.clock import Clock
from kafkaframes.broker.state.topics import Endpoint
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_response, encode_request


class DirectClient:
    """A client that calls a broker's dispatcher: ``ask("Metadata", 9, topics=None)`` returns the decoded response."""

    def __init__(self, state, session=None):
        self.state = state
        self.dispatcher = Dispatcher(state)
        self.session = session or Session()
        self.last_request = None

    def send(self, name, version, **fields):
        """Return the dispatcher's answer to a request frame: bytes, a deferred answer, or None."""
        client_id = fields.pop("client_id", "test")
        body = fields.pop("body", None) or message(f"{name}Request")(**fields)
        frame = encode_request(body, version, correlation_id=7, client_id=client_id)
        request = self.last_request = self.dispatcher.decode_request(frame, self.session)
        answer = self.dispatcher.answer(request)
        if isinstance(answer, DeferredResponse):
            if not answer.is_done:
                return answer
            answer = answer.answer
        return None if answer is None else self.decode_answer(request, answer)

    def decode_answer(self, request, answer):
        frame = b"".join(self.dispatcher.encode(request, answer))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        return decode_response(frame[4:], request.api.key, request.version).body

    def ask(self, name, version, **fields):
        answer = self.send(name, version, **fields)
        if isinstance(answer, DeferredResponse):
            request = self.last_request
            self.state.waits.advance(60)
            assert answer.is_done, "nobody answered"
            return self.decode_answer(request, answer.answer)
        return answer

    def types(self, name):
        return message(f"{name}Request")

    def create(self, name="orders", partitions=1, **configs):
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        return self.state.create_topic(name, partitions, settings)

    def produce(self, records, *, topic="orders", partition=0, version=9, acks=-1, **fields):
        types = self.types("Produce")
        row = types.PartitionProduceData(index=partition, records=records)
        known_topic = self.state.topics.get(topic)
        ids = {"topic_id": known_topic.topic_id} if version >= 13 and known_topic else {"name": topic}
        data = types.TopicProduceData(**ids, partition_data=[row])
        answer = self.ask("Produce", version, acks=acks, timeout_ms=1000, topic_data=[data], **fields)
        return None if answer is None else answer.responses[0].partition_responses[0]

    def fetch_request(self, offset=0, *, topic="orders", partition=0, version=11, size=1 << 20, **fields):
        types = self.types("Fetch")
        optional_fields = {
            key: fields.pop(key) for key in ("current_leader_epoch", "last_fetched_epoch") if key in fields
        }
        row = types.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=size, **optional_fields
        )
        known_topic = self.state.topics.get(topic)
        ids = {"topic_id": known_topic.topic_id} if version >= 13 and known_topic else {"topic": topic}
        fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 26, **fields}
        if version >= 7:
            fields.setdefault("session_epoch", -1)
        return types(topics=[types.FetchTopic(**ids, partitions=[row])], **fields)

    def fetch(self, offset=0, *, version=11, **fields):
        answer = self.ask("Fetch", version, body=self.fetch_request(offset, version=version, **fields))
        return answer.responses[0].partitions[0]


@pytest.fixture(scope="session")
def kafka_python():
    """Import the package ``kafka``, which warns on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka
        import kafka.errors
    return kafka


@pytest.fixture
def make_client():
    states = []

    def make(*, config=None, **options):
        options.setdefault("clock", Clock(lambda: 1_700_000_000_000, is_frozen=True))
        state = open_broker(settings=BrokerSettings(dict(config or {})), **options)
        state.waits = Clock(lambda: 1_700_000_000_000, is_frozen=True)
        state.nodes.by_id[1].endpoints["PLAINTEXT"] = Endpoint("127.0.0.1", 9092)
        states.append(state)
        return DirectClient(state)

    yield make
    for state in states:
        if not state.logs.is_closed:
            state.logs.abandon()


@pytest.fixture
def client(make_client):
    return make_client()
