"""Send damaged, random, truncated and endless requests to a running broker: it still answers valid clients.

    python tests/fuzz/broker_live.py [SECONDS] [SEED]

Requests are of every API at every version, with random values, damaged or not, complete or in pieces, many per
connection; there are half-open connections as well. After each hundred requests, an ordinary client must get its
response within seconds, and the broker's memory must be within its limit. The broker is a separate process, whose
standard error must not contain a traceback. The command prints the seed.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz.messages import damage
from tests.protocol.messages.values import make_value

from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request

MAX_RESIDENT_BYTES = 900 << 20
ANSWER_SECONDS = 20
MAX_OPEN_CLIENTS = 200
# Requests that create or delete topics and groups keep their random names; existing names would slow down the broker's
# own work.
SKIPPED_APIS = {"CreatePartitions"}
KNOWN_NAMES: dict[str, tuple[Any, ...]] = {
    "name": ("a", "b"),
    "topic": ("a", "b"),
    "topic_name": ("a", "b"),
    "group_id": ("g", "h"),
    "transactional_id": ("t", "u"),
    "partition_index": (0, 1),
    "partition": (0, 1),
    "index": (0, 1),
    "member_id": ("", "m"),
    "producer_id": (-1, 0, 1),
    "producer_epoch": (-1, 0),
    "error_code": (0,),
}


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def with_known_names(value: Any, rng: random.Random) -> None:
    """Replace most names in a random request with existing topics, groups and partitions."""
    for name in value.__slots__:
        field_value = getattr(value, name)
        if isinstance(field_value, list):
            if (
                name in ("topics", "topic_names", "groups", "groups_names")
                and field_value
                and isinstance(field_value[0], str)
            ):
                setattr(value, name, [rng.choice(KNOWN_NAMES["name"])])
            for one in field_value:
                if hasattr(one, "__slots__") and not isinstance(one, str | bytes | int | float):
                    with_known_names(one, rng)
        elif (
            name in KNOWN_NAMES and field_value not in (None, "", 0, -1) and rng.random() < 0.9
        ):  # fields that the version has
            setattr(value, name, rng.choice(KNOWN_NAMES[name]))


def random_request(rng: random.Random) -> bytes:
    """Return a frame with a random request of some API and version, valid or damaged."""
    api = rng.choice([api for api in collect_apis().values() if api.name not in SKIPPED_APIS])
    version = rng.randint(*api.range)
    body: Any = make_value(message(f"{api.name}Request"), version, rng.randrange(1 << 30), unknown_tags=True)
    if rng.random() < 0.7:
        with_known_names(body, rng)
    frame = encode_request(body, version, correlation_id=rng.randrange(1 << 31), client_id="fuzz")
    kind = rng.random()
    if kind < 0.6:
        frame = damage(frame, rng)
    elif kind < 0.65:
        frame = rng.randbytes(rng.randrange(400))
    size = len(frame)
    if rng.random() < 0.1:
        size = rng.choice((0, -1, 1, size + 1, size - 1, 100 << 20, 0x7FFFFFFF, 0x47455420))
    return struct.pack(">i", size) + frame


class FuzzClient:
    """One connection of the fuzzer: sends pieces, reads responses, and ignores errors."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
        self.socket.setblocking(False)

    def send(self, data: bytes, rng: random.Random) -> bool:
        try:
            while data:
                piece = data if rng.random() < 0.7 else data[: rng.randint(1, len(data))]
                data = data[self.socket.send(piece) :]
                if rng.random() < 0.05:
                    return True  # the rest of the frame is not sent
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def drain(self) -> bool:
        try:
            return bool(self.socket.recv(1 << 16))
        except BlockingIOError:
            return True
        except OSError:
            return False


def check_response(port: int) -> None:
    """Send an ordinary request; fail if no answer arrives in time."""
    connection = ClientConnection()
    connection.send_request(message("MetadataRequest")(topics=[]), 9)
    with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as peer:
        peer.settimeout(ANSWER_SECONDS)
        peer.sendall(connection.data_to_send())
        while (frame := connection.next_response()) is None:
            data = peer.recv(1 << 16)
            assert data, "the broker closed the connection of an ordinary client"
            connection.receive_data(data)
        assert frame.body.brokers


def fuzz(port: int, pid: int, seconds: float, rng: random.Random) -> tuple[int, int]:
    """Send random requests for ``seconds``. Return the number of requests and the maximum memory."""
    deadline = time.monotonic() + seconds
    request_count, peak_bytes, clients = 0, 0, [FuzzClient(port)]
    while time.monotonic() < deadline:
        for _ in range(100):
            client = rng.choice(clients)
            if not (client.send(random_request(rng), rng) and client.drain()) or rng.random() < 0.05:
                client.socket.close()
                clients.remove(client)
            if not clients or (len(clients) < MAX_OPEN_CLIENTS and rng.random() < 0.2):
                clients.append(FuzzClient(port))
            request_count += 1
        check_response(port)
        peak_bytes = max(peak_bytes, resident_bytes(pid))
        assert peak_bytes < MAX_RESIDENT_BYTES, f"{peak_bytes >> 20} MiB resident after {request_count} requests"
    for client in clients:
        client.socket.close()
    return request_count, peak_bytes


def main(seconds: float, seed: int) -> None:
    """Start a broker, and fuzz it."""
    print(f"seed {seed}", flush=True)
    rng, output_lines = random.Random(seed), []
    with tempfile.TemporaryDirectory(prefix="kafkaframes-fuzz-") as directory:
        arguments = ["--port", "0", "--data-dir", directory, "--set", "socket.request.max.bytes=1048576"]
        command = [sys.executable, "-m", "kafkaframes", "broker", *arguments]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                port = int(process.stderr.readline().rsplit(":", 1)[1])
                reader = threading.Thread(target=lambda: output_lines.extend(process.stderr), daemon=True)
                reader.start()
                request_count, peak_bytes = fuzz(port, process.pid, seconds, rng)
            finally:
                process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, f"the broker ended with {process.returncode}"
            reader.join(10)
    text = "".join(output_lines)
    assert "Traceback" not in text, text
    print(f"{request_count:,} requests, at most {peak_bytes >> 20} MiB resident")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60,
        int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(4)),
    )
