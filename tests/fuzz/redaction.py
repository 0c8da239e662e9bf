"""Put a secret into each text or bytes field of all messages at all versions, redact the capture, and search for the
secret.

    python tests/fuzz/redaction.py [--seconds 60] [--seed 1]

Each request and response of the catalog has its own connection, with frames that are complete, truncated by the snap
length, truncated by their own size, after a gap, or on a connection without its start. Captures also have records of
all formats and codecs, truncated anywhere, SASL tokens, invalid frames and addresses. The secret repeats three bytes,
so that any five leaked bytes are found. The same capture with another secret, redacted with pseudonyms that hide the
difference, must give the same bytes. This comparison also finds leaks in compressed form or as a checksum.
"""

from __future__ import annotations

import argparse
import io
import itertools
import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.protocol.messages.values import INTEGER_RANGES

from kafkaframes.capture.container import ConversationWriter, _encode_record, build_file_header
from kafkaframes.capture.layout import ACK, PSH
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.redaction import redact
from kafkaframes.protocol.messages import Message, message
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.plan import FieldPlan, StructPlan
from kafkaframes.protocol.spec import catalog
from kafkaframes.records.build import build_records

MARK, OTHER_MARK = b"!Zq", b"?Yw"
PORT, START = 9092, 1_700_000_000_000_000_000
SASL_HANDSHAKE = 17
MAX_SMALL_BYTES = 300  # maximum size of a frame that is truncated at every byte
FRAME_KINDS = ("whole", "snapped", "short", "after a gap", "unseen start")
CODECS = {0: ("none", "gzip", "snappy", "lz4"), 1: ("none", "gzip", "snappy", "lz4")}
CODECS[2] = (*CODECS[1], "zstd")


@dataclass
class SecretFactory:
    """Creates and counts secret values."""

    rng: random.Random
    mark: bytes = MARK
    codecs: bool = True
    count: int = 0
    _sets: list[bytes] = field(default_factory=list)

    def create(self, size: int) -> bytes:
        """Return a secret of a size."""
        self.count += 1
        return (self.mark * (size // len(self.mark) + 1))[:size]

    def value(self, cls: type[Message], version: int) -> Any:
        """Return a message with a secret in each field that can hold one, including unknown tagged fields."""
        codec = cls.codec(version)
        return self._struct(codec.plan.root, codec.classes)

    def _struct(self, plan: StructPlan, classes: dict[str, Any]) -> Any:
        fields = {
            field_plan.attribute: self._field(field_plan, classes) for field_plan in (*plan.fields, *plan.tagged_fields)
        }
        if plan.flexible:
            fields["unknown_tags"] = [(tag, self.create(self.rng.randint(5, 40))) for tag in (5000, 70_000)]
        return classes[plan.name](**fields)

    def _field(self, plan: FieldPlan, classes: dict[str, Any]) -> Any:
        if plan.array:
            return [self._single(plan, classes) for _ in range(self.rng.randint(1, 2))]
        return self._single(plan, classes)

    def _single(self, plan: FieldPlan, classes: dict[str, Any]) -> Any:
        if plan.struct is not None:
            return self._struct(plan.struct, classes)
        if plan.type in INTEGER_RANGES:
            return 1 if plan.name == "Acks" else self.rng.randint(0, min(INTEGER_RANGES[plan.type][1], 1 << 20))
        makers: dict[str, Callable[[], Any]] = {
            "bool": lambda: self.rng.random() < 0.5,
            "float64": self.rng.random,
            "uuid": lambda: UUID(bytes=self.create(16)),
            "string": lambda: self.create(self.rng.randint(5, 30)).decode(),
            "bytes": lambda: self.create(self.rng.randint(5, 60)),
            "records": self.records,
        }
        return makers[plan.type]()

    def records(self) -> bytes:
        """Return batches of any format and codec, perhaps followed by a truncated batch or by invalid bytes."""
        if not self._sets:
            self._sets = list(self._every_set())
        self.count += 1
        whole = b"".join(self.rng.choices(self._sets, k=self.rng.randint(0, 2)))
        last = self.rng.choice(self._sets)
        return whole + self.rng.choice((last[: self.rng.randrange(len(last))], self.create(self.rng.randrange(80))))

    def _every_set(self) -> Iterator[bytes]:
        for version, codecs in CODECS.items():
            for codec in codecs if self.codecs else ("none",):
                row = {"key": self.create(20), "value": self.create(50)}
                if version == 2:
                    row["headers"] = [(self.create(9).decode(), self.create(15))]
                yield build_records([row] * 3, record_format=version, codec=codec)


class SecretTraffic:
    """A capture built from connections, whose addresses are secrets as well."""

    def __init__(self, secrets: SecretFactory) -> None:
        self.secrets = secrets
        self.parts = [build_file_header("test")]
        self.connections = 0

    def connection(self, *, opening: bool) -> ConversationWriter:
        """Begin a connection."""
        self.connections += 1
        address = ".".join(map(str, self.secrets.create(4)))
        ends = (address, 10_000 + self.connections % 50_000), (f"10.1.{self.connections // 50_000}.1", PORT)
        talk = ConversationWriter(*ends, initial=self.connections << 12)
        if opening:
            self.parts.append(talk.build_handshake(START))
        return talk

    def send(self, talk: ConversationWriter, side: int, data: bytes, *, captured_bytes: int | None = None) -> None:
        """Send a segment, of which the capture has ``captured_bytes`` bytes."""
        time_ns = START + len(self.parts) * 1_000_000
        packet = talk._build_packet(side, talk.next[side], talk.next[1 - side], PSH | ACK, data)
        if captured_bytes is None or captured_bytes >= len(data):
            self.parts.append(_encode_record(time_ns, packet))
        else:
            cut_size = len(packet) - len(data) + captured_bytes
            block = bytearray(_encode_record(time_ns, packet[:cut_size]))
            struct.pack_into("<I", block, 24, len(packet))
            self.parts.append(bytes(block))
        talk.skip(side, len(data))

    def call(self, kind: str, frames: tuple[bytes, ...], cut_at: int) -> None:
        """Send a request and its response as ``kind`` specifies; ``cut_at`` is the captured size of each."""
        talk = self.connection(opening=kind != "unseen start")
        if kind in ("after a gap", "unseen start"):
            self._before(talk, missing=kind == "after a gap")
        for side, data in enumerate(frames):
            if kind == "snapped":
                self.send(talk, side, frame_of(data), captured_bytes=cut_at + 4)
            else:
                self.send(talk, side, frame_of(data[:cut_at] if kind == "short" else data))
        if kind == "whole":
            self.send(talk, 0, self.secrets.create(40))  # no frame

    def _before(self, talk: ConversationWriter, *, missing: bool) -> None:
        for side in (0, 1):
            self.send(talk, side, self.secrets.create(50))
            if missing:
                talk.skip(side, 1000)

    def tokens(self, version: int) -> None:
        """Add an authentication with tokens without request headers."""
        talk = self.connection(opening=True)
        for side, data in enumerate(create_call(SASL_HANDSHAKE, version, self.secrets)):
            self.send(talk, side, frame_of(data))
        for side in (0, 1, 0):
            self.send(talk, side, frame_of(self.secrets.create(60)))

    def bytes(self) -> bytes:
        """Return the file."""
        return b"".join(self.parts)


def frame_of(data: bytes) -> bytes:
    """Return a frame with its size."""
    return len(data).to_bytes(4, "big") + data


def create_call(key: int, version: int, secrets: SecretFactory) -> tuple[bytes, bytes]:
    """Return a request and its response, with secrets in all fields including the headers."""
    api = catalog.find_api(key)
    request, response = message(api.request), message(api.response)
    tags = [(77, secrets.create(20))]
    flexible = request.spec.header_version(version) >= 2
    request_bytes = encode_request(
        secrets.value(request, version), version, correlation_id=version + 7, client_id=secrets.create(25).decode(),
        header_tags=tags if flexible else None,
    )  # fmt: skip
    answer_tags = tags if response.spec.header_version(version) >= 1 else None
    answer = secrets.value(response, version)
    return request_bytes, encode_response(answer, version, correlation_id=version + 7, header_tags=answer_tags)


def every_api() -> list[tuple[int, int]]:
    """Return every API and version that has a request and a response."""
    return [(api.key, version) for api in catalog.list_apis() for version in api.versions]


class ConstantPseudonyms:
    """Pseudonyms that do not depend on the original, so that captures that differ only in their secrets become
    equal.
    """

    def pseudonymize(self, text: bytes) -> bytes:
        """Return a text of the same length."""
        return b"x" * len(text)

    def pseudonymize_address(self, address: str) -> str:
        """Return a constant IPv4 or IPv6 address."""
        return "10.9.9.1" if address.startswith("10.") else "10.9.9.2"


def redact_capture(raw: bytes, folder: Path, pseudonyms: Any = None) -> tuple[bytes, int]:
    """Return a redacted capture, and the number of its calls."""
    path, out = folder / "x.pcapng", io.BytesIO()
    path.write_bytes(raw)
    report = redact([str(path)], out, ports=(PORT,), pseudonyms=pseudonyms)
    return out.getvalue(), report.calls


def check(make: Callable[[SecretTraffic], None], seed: int, folder: Path) -> tuple[int, int]:
    """Create a capture, redact it and search it. Return the numbers of searched secrets and of calls."""
    secrets = SecretFactory(random.Random(seed))
    traffic = SecretTraffic(secrets)
    make(traffic)
    raw = traffic.bytes()
    out, calls = redact_capture(raw, folder)
    if raw.count(MARK) < traffic.connections:
        raise AssertionError("the capture contains no secrets")
    if MARK in out:
        raise AssertionError(f"{out.count(MARK)} leaks, the first: {out[max(out.index(MARK) - 80, 0) :][:160]!r}")
    _check_rows(out, folder)
    captures = []
    for mark in (MARK, OTHER_MARK):
        plain = SecretTraffic(SecretFactory(random.Random(seed), mark, codecs=False))
        make(plain)
        captures.append(redact_capture(plain.bytes(), folder, ConstantPseudonyms())[0])
    if captures[0] != captures[1]:
        raise AssertionError("the redacted capture depends on the secret")
    return secrets.count, calls


def _check_rows(out: bytes, folder: Path) -> None:
    """Search the rows of a redacted capture, which the reader has decompressed."""
    path = folder / "redacted.pcapng"
    path.write_bytes(out)
    for table in ("calls", "records"):
        for batch in read_capture(str(path), CaptureOptions(table=table, ports=(PORT,), secrets=True)):
            if MARK.decode() in str(batch.to_pylist()):
                raise AssertionError(f"a leak in the rows of {table}")


def create_sender(apis: list[tuple[int, int]], cuts: Callable[[int, random.Random], Iterator[int]]) -> Any:
    """Return a function that sends calls of APIs in each kind of frame, truncated as ``cuts`` specifies."""

    def make(traffic: SecretTraffic) -> None:
        rng = random.Random(1)
        for key, version in apis:
            frames = create_call(key, version, traffic.secrets)
            for kind in FRAME_KINDS:
                many = kind in ("snapped", "short")
                for cut_at in cuts(max(map(len, frames)), rng) if many else (0,):
                    traffic.call(kind, frames, cut_at)
        for version in (0, 1):
            traffic.tokens(version)

    return make


def some_cuts(size: int, rng: random.Random) -> Iterator[int]:
    """Yield some of the sizes to which a frame may be truncated."""
    yield from {rng.randrange(4, size), rng.randrange(4, min(size, 60))}


def all_cuts(size: int, rng: random.Random) -> Iterator[int]:
    """Yield every size to which a small frame may be truncated, and some of a large one."""
    yield from range(4, size) if size <= MAX_SMALL_BYTES else rng.sample(range(4, size), 60)


def main() -> None:
    """Redact and search captures of each API in turn, for the given number of seconds.

    After a failure, the seed and the API are printed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stop, searched_count, calls, runs = time.monotonic() + options.seconds, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed, api in zip(itertools.count(options.seed), itertools.cycle(every_api())):
            if time.monotonic() > stop:
                break
            try:
                counts = check(create_sender([api], all_cuts), seed, Path(folder))
            except BaseException:
                print(f"seed {seed}, API {api[0]} version {api[1]}")
                raise
            searched_count, calls, runs = searched_count + counts[0], calls + counts[1], runs + 1
    print(f"{runs} of {len(every_api())} APIs and versions: {searched_count} secrets in {calls} calls, none leaked")


if __name__ == "__main__":
    main()
