"""Measure a broker's memory and CPU time with hostile unauthenticated clients, such as clients that never read.

Run:   python -m tests.soak.broker_bounds [SCENARIO ...] [--durability log] [--journal] [--clients 20]

Each scenario runs against a broker in a separate process. Memory is the growth of the broker's PSS per client. Times
are those of another client's Metadata requests (99th percentile and maximum), and of the scenario itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kafkaframes import build_records
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request
from kafkaframes.protocol.spec import catalog

_PATIENCE_SECONDS = 120
_BROKER = """
import signal, sys, threading
from kafkaframes.broker import Broker
settings = {"auto.create.topics.enable": "true", "num.partitions": 1}
durability = sys.argv[1]
data_dir = None if durability == "memory" else sys.argv[3]
broker = Broker(data_dir=data_dir, durability=durability, journal=sys.argv[2] == "yes", config=settings).start()
print(broker.port, flush=True)
end = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: end.set())
end.wait()
broker.stop()
"""


def frame(name: str, version: int, **fields: Any) -> bytes:
    """Return an encoded request, with its size prefix."""
    api = catalog.find_api(name)
    head = struct.pack(">hhih", api.key, version, 1, -1)
    if api.flexible_since is not None and version >= api.flexible_since:
        head += b"\x00"
    body = head + message(f"{name}Request")(**fields).encode(version)
    return struct.pack(">i", len(body)) + body


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_SECONDS)


def read(connection: socket.socket) -> bytes:
    """Read one response, without its size and correlation id."""
    (size,) = struct.unpack(">i", _read_bytes(connection, 4))
    return _read_bytes(connection, size)[4:]


def _read_bytes(connection: socket.socket, size: int) -> bytes:
    received_bytes = bytearray()
    while len(received_bytes) < size:
        more = connection.recv(min(size - len(received_bytes), 1 << 20))
        if not more:
            raise ConnectionError("the broker has closed the connection")
        received_bytes += more
    return bytes(received_bytes)


def call(connection: socket.socket, name: str, version: int, **fields: Any) -> bytes:
    connection.sendall(frame(name, version, **fields))
    return read(connection)


def pss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) << 10


class MeasuredBroker:
    """A broker in a separate process."""

    def __init__(self, durability: str, journal: bool, directory: str) -> None:
        arguments = [sys.executable, "-c", _BROKER, durability, "yes" if journal else "no", directory]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def memory(self) -> int:
        return pss_bytes(self.process.pid)

    def stop(self) -> float:
        """Stop the broker with SIGTERM. Return how many seconds the stop takes."""
        began = time.perf_counter()
        self.process.terminate()
        try:
            self.process.wait(_PATIENCE_SECONDS)
        finally:
            self.process.kill()
        return time.perf_counter() - began


@contextlib.contextmanager
def watch_metadata(port: int, waits: list[float]) -> Iterator[None]:
    """Send Metadata requests continuously, as another client, and record how long each response takes."""
    end = threading.Event()

    def watch() -> None:
        with connect(port) as other:
            while not end.wait(0.01):
                began = time.perf_counter()
                call(other, "Metadata", 9, topics=[])
                waits.append(time.perf_counter() - began)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def batch(count: int, size: int, codec: str = "none") -> bytes:
    return build_records({"value": [bytes(size)] * count}, codec=codec, batch_bytes=1 << 30, batch_records=count)


def produce(raw: bytes, topic: str = "t") -> dict[str, Any]:
    types = message("ProduceRequest")
    rows = [types.PartitionProduceData(index=0, records=raw)]
    return {"acks": 1, "timeout_ms": 1000, "topic_data": [types.TopicProduceData(name=topic, partition_data=rows)]}


def fetch(names: list[str], partitions: int = 1, size: int = 50 << 20) -> dict[str, Any]:
    types = message("FetchRequest")
    rows = [
        types.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=size) for number in range(partitions)
    ]
    topics = [types.FetchTopic(topic=name, partitions=rows) for name in names]
    return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": size, "topics": topics, "session_epoch": -1}


def metadata(names: list[str], *, creates: bool) -> dict[str, Any]:
    types = message("MetadataRequest")
    topics = [types.MetadataRequestTopic(name=name) for name in names]
    return {"topics": topics, "allow_auto_topic_creation": creates}


def fill(subject: MeasuredBroker, megabytes: int) -> None:
    """Write records to a topic."""
    with connect(subject.port) as connection:
        call(connection, "Metadata", 9, **metadata(["t"], creates=True))
        raw = build_records({"value": [os.urandom(900 << 10)]})
        for _ in range(megabytes):
            call(connection, "Produce", 7, **produce(raw))


def _measure_held(subject: MeasuredBroker, clients: int, sends: Callable[[socket.socket], None]) -> float:
    """Return the memory per connection of many connections that never read."""
    before = subject.memory()
    connections = []
    for _ in range(clients):
        connection = connect(subject.port)
        connection.setblocking(False)
        connections.append(connection)
    for _ in range(30):
        for connection in connections:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                sends(connection)
        time.sleep(0.1)
    each = (subject.memory() - before) / clients
    for connection in connections:
        connection.close()
    return each


def never_read_fetch(subject: MeasuredBroker, clients: int) -> str:
    fill(subject, 48)
    raw = frame("Fetch", 11, **fetch(["t"]))
    return f"{_measure_held(subject, clients, lambda one: one.sendall(raw)) / 1e6:.2f} MB per client"


def never_read_metadata(subject: MeasuredBroker, clients: int) -> str:
    with connect(subject.port) as connection:
        call(connection, "Metadata", 9, **metadata([f"name-{number}" for number in range(1000)], creates=True))
    raw = frame("Metadata", 9, topics=None) * 2000
    return f"{_measure_held(subject, clients, lambda one: one.sendall(raw)) / 1e6:.2f} MB per client"


def idle(subject: MeasuredBroker, clients: int) -> str:
    raw = frame("Metadata", 9, **metadata(["x" * 200] * 4000, creates=False))
    before = subject.memory()
    connections = [connect(subject.port) for _ in range(clients)]
    for connection in connections:
        connection.sendall(raw)
        read(connection)
    time.sleep(12)
    each = (subject.memory() - before) / clients
    for connection in connections:
        connection.close()
    return f"{each / 1e6:.2f} MB per client"


def _time_request(subject: MeasuredBroker, name: str, version: int, **fields: Any) -> str:
    return _time_frame(subject, frame(name, version, **fields))


def _time_frame(subject: MeasuredBroker, raw: bytes) -> str:
    waits: list[float] = []
    before = subject.memory()
    with connect(subject.port) as connection, watch_metadata(subject.port, waits):
        time.sleep(0.1)
        began = time.perf_counter()
        connection.sendall(raw)
        size = len(read(connection))
        took = time.perf_counter() - began
        time.sleep(0.1)
    waits.sort()
    grown_mb = (subject.memory() - before) / 1e6
    late = waits[int(len(waits) * 0.99)]
    other_requests = f"other requests: p99 {late:.3f} max {waits[-1]:.3f} s"
    return f"{len(raw)} bytes: {took:.2f} s, {size} bytes returned; {other_requests}; {grown_mb:.0f} MB"


def auto_create(subject: MeasuredBroker, clients: int) -> str:
    names = [f"auto-{number}" for number in range(1000)]
    line = _time_request(subject, "Metadata", 9, **metadata(names, creates=True))
    return f"{line}; stopped in {subject.stop():.2f} s"


def create_300x20(subject: MeasuredBroker, clients: int) -> str:
    types = message("CreateTopicsRequest")
    topics = [
        types.CreatableTopic(name=f"c-{number}", num_partitions=20, replication_factor=1) for number in range(300)
    ]
    return _time_request(subject, "CreateTopics", 6, topics=topics, timeout_ms=60_000)


def fetch_unknown(subject: MeasuredBroker, clients: int) -> str:
    return _time_request(subject, "Fetch", 11, **fetch(["unknown"], 100_000))


def long_lists(subject: MeasuredBroker, clients: int) -> str:
    """Send requests with 20,000 rows, for each API with expensive rows."""
    from tests.broker.long_lists import build_request

    lines = []
    for name, version, path in LONG_LISTS:
        raw = encode_request(build_request(name, version, path, 20_000), version)
        lines.append(f"\n  {name} {version}: " + _time_frame(subject, struct.pack(">i", len(raw)) + raw))
    return "".join(lines)


def ask_known_rows(subject: MeasuredBroker, clients: int) -> str:
    """Send requests with thousands of existing partitions, topics and groups, which cost more than unknown ones."""
    creation, producing, settings = (message(f"{name}Request") for name in ("CreateTopics", "Produce", "AlterConfigs"))
    topics = [creation.CreatableTopic(name="t", num_partitions=5_000, replication_factor=1)]
    topics += [creation.CreatableTopic(name=f"t-{row}", num_partitions=1, replication_factor=1) for row in range(1_000)]
    with connect(subject.port) as connection:
        call(connection, "CreateTopics", 6, topics=topics, timeout_ms=60_000)
    raw, all_of_them = batch(1, 100), range(5_000)
    produce_rows = [producing.PartitionProduceData(index=row, records=raw) for row in all_of_them]
    group_settings = [settings.AlterableConfig(name="consumer.session.timeout.ms", value="45000")]
    groups = [
        settings.AlterConfigsResource(resource_type=32, resource_name=f"g-{row}", configs=group_settings)
        for row in range(20_000)
    ]
    listing, markers = message("ListOffsetsRequest"), message("WriteTxnMarkersRequest")
    list_rows = [listing.ListOffsetsPartition(partition_index=row, timestamp=0) for row in all_of_them]
    marked_topic = markers.WritableTxnMarkerTopic(name="t", partition_indexes=list(all_of_them))
    marker = markers.WritableTxnMarker(producer_id=7, producer_epoch=0, transaction_result=True, topics=[marked_topic])
    resource = message("DescribeConfigsRequest").DescribeConfigsResource
    config_rows = [resource(resource_type=2, resource_name=f"t-{row}", configuration_keys=None) for row in range(1_000)]
    described_with = {"include_synonyms": True, "include_documentation": True}
    deleting = message("DeleteRecordsRequest")
    delete_rows = [deleting.DeleteRecordsPartition(partition_index=row, offset=-1) for row in all_of_them]
    requests: list[tuple[str, int, dict[str, Any]]] = [
        (
            "Produce",
            7,
            {**produce(raw), "topic_data": [producing.TopicProduceData(name="t", partition_data=produce_rows)]},
        ),
        ("ListOffsets", 5, {"topics": [listing.ListOffsetsTopic(name="t", partitions=list_rows)]}),
        ("WriteTxnMarkers", 1, {"markers": [marker]}),
        ("DeleteRecords", 2, {"topics": [deleting.DeleteRecordsTopic(name="t", partitions=delete_rows)]}),
        ("AlterConfigs", 2, {"resources": groups}),
        ("DescribeConfigs", 4, {"resources": config_rows, **described_with}),
    ]
    return "".join(
        f"\n  {name}: " + _time_request(subject, name, version, **fields) for name, version, fields in requests
    )


def bombs(subject: MeasuredBroker, clients: int) -> str:
    fill(subject, 1)
    lines = []
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        for count, size in ((1, 300 << 20), (100_000, 3000)):
            raw = batch(count, size, codec=codec)
            lines.append(f"\n  {codec} {count}x{size}: " + _time_request(subject, "Produce", 7, **produce(raw)))
    return "".join(lines)


def stop_while_creating(subject: MeasuredBroker, clients: int) -> str:
    """Stop the broker while it creates 2,000 topics; return when another client's connection and the process end."""
    types = message("CreateTopicsRequest")
    topics = [
        types.CreatableTopic(name=f"c-{number}", num_partitions=1, replication_factor=1) for number in range(2000)
    ]
    with connect(subject.port) as creating, connect(subject.port) as other:
        creating.sendall(frame("CreateTopics", 6, topics=topics, timeout_ms=60_000))
        time.sleep(2)
        stopping = threading.Thread(target=subject.stop)
        began = time.perf_counter()
        stopping.start()
        with contextlib.suppress(ConnectionError):
            while True:
                call(other, "Metadata", 9, topics=[])
        refused_after_s = time.perf_counter() - began
        stopping.join()
    return f"last answer after {refused_after_s:.2f} s, stopped in {time.perf_counter() - began:.2f} s"


def many_bombs(subject: MeasuredBroker, clients: int) -> str:
    """Send a decompression bomb to each of 200 partitions, each a little below the batch size limit."""
    types = message("CreateTopicsRequest")
    topic = types.CreatableTopic(name="t", num_partitions=200, replication_factor=1)
    with connect(subject.port) as connection:
        call(connection, "CreateTopics", 6, topics=[topic], timeout_ms=60_000)
    types, lines = message("ProduceRequest"), []
    for codec in ("gzip", "lz4", "zstd"):
        for count, size in ((1, 60 << 20), (20_000, 3000)):
            raw = batch(count, size, codec=codec)
            rows = [types.PartitionProduceData(index=number, records=raw) for number in range(200)]
            fields = {**produce(raw), "topic_data": [types.TopicProduceData(name="t", partition_data=rows)]}
            lines.append(f"\n  {codec} {count}x{size}: " + _time_request(subject, "Produce", 7, **fields))
    return "".join(lines)


LONG_LISTS = (
    ("OffsetDelete", 0, ("topics", "partitions")),
    ("AlterClientQuotas", 1, ("entries",)),
    ("AlterUserScramCredentials", 0, ("upsertions",)),
    ("DescribeUserScramCredentials", 0, ("users",)),
    ("DescribeQuorum", 2, ("topics", "partitions")),
    ("ShareGroupHeartbeat", 1, ("subscribed_topic_names",)),
    ("TxnOffsetCommit", 5, ("topics", "partitions")),
    ("OffsetCommit", 8, ("topics", "partitions")),
    ("AddPartitionsToTxn", 3, ("v3_and_below_topics", "partitions")),
    ("FindCoordinator", 6, ("coordinator_keys",)),
    ("IncrementalAlterConfigs", 1, ("resources",)),
)
SCENARIOS: dict[str, Callable[[MeasuredBroker, int], str]] = {
    one.__name__: one
    for one in (
        never_read_fetch,
        never_read_metadata,
        idle,
        auto_create,
        create_300x20,
        fetch_unknown,
        long_lists,
        ask_known_rows,
        bombs,
        many_bombs,
        stop_while_creating,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], default=[])
    parser.add_argument("--durability", choices=("memory", "log", "fsync"), default="log")
    parser.add_argument("--journal", action="store_true")
    parser.add_argument("--clients", type=int, default=20)
    options = parser.parse_args()
    for name in options.scenarios or SCENARIOS:
        with tempfile.TemporaryDirectory() as directory:
            subject = MeasuredBroker(options.durability, options.journal, directory)
            try:
                result = SCENARIOS[name](subject, options.clients)
                print(f"{name} ({options.durability}, journal {options.journal}): {result}", flush=True)
            finally:
                subject.stop()


if __name__ == "__main__":
    main()
