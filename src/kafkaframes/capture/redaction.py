"""Write a capture that can be shared: the same calls, sizes and versions, without payloads, names and secrets.

Every text becomes another of the same length, the same text always the same one within a file; bytes become zeros;
of records their batches' headers stay. Addresses become others unless they are to be kept. What a frame does not prove
itself to be (garbage, SASL tokens, bytes behind a gap) is left out or zero, and a reader finds it missing as before.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np

from kafkaframes.capture.layout import (
    CALL_REQUEST,
    CALL_RESPONSE,
    F_API,
    F_CONNECTION,
    F_DONE,
    F_END_TIME,
    F_FLAGS,
    F_HAVE,
    F_OFFSET,
    F_RESPONSE,
    F_SIZE,
    F_VERSION,
    FIRST_TIME,
    INITIAL,
    SIDE,
    SIDE_COLUMNS,
    TOKEN,
)
from kafkaframes.capture.names import Names
from kafkaframes.capture.packets import PacketReader
from kafkaframes.capture.streams import Pass, Streams
from kafkaframes.capture.writer import CaptureWriter, Conversation
from kafkaframes.errors import KafkaframesError
from kafkaframes.messages.headers import decode_request, decode_response
from kafkaframes.messages.structs import Struct
from kafkaframes.records.layout import BATCH_V2, MESSAGE_V0
from kafkaframes.records.scan import scan_all

API_VERSIONS: Final = 18
# Texts that say what a client is and how it talks, not who it is.
_KEPT_FIELDS: Final = frozenset(
    {"ClientSoftwareName", "ClientSoftwareVersion", "Mechanism", "Mechanisms", "ProtocolType"}
)
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz234567"
_HEADER_BYTES: Final = 10  # API key, version, correlation id, length of the client id


@dataclass
class Redacted:
    """What was written."""

    calls: int = 0
    frames_zeroed: int = 0
    bytes_written: int = 0


class Pseudonyms:
    """Other texts of the same length in bytes; the key is forgotten with the object."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key
        self._known: dict[bytes, bytes] = {}

    def of(self, text: bytes) -> bytes:
        """Return the pseudonym of a text."""
        found = self._known.get(text)
        if found is None:
            stream = hashlib.shake_256(self._key + text).digest(len(text)) if text else b""
            found = bytes(_LETTERS[byte & 31] for byte in stream)
            if len(self._known) < 1 << 20:
                self._known[text] = found
        return found

    def address(self, address: str) -> str:
        """Return an address of the same kind."""
        digest = hashlib.shake_256(self._key + b"address " + address.encode()).digest(8)
        if ":" in address:
            return "fd00::" + ":".join(digest[at : at + 2].hex() for at in range(0, 8, 2))
        return f"10.{digest[0]}.{digest[1]}.{digest[2] % 254 + 1}"


def redact(
    files: Sequence[str],
    out: IO[bytes],
    *,
    ports: Sequence[int] = (),
    keep_addresses: bool = False,
    keep_client_ids: bool = False,
    pseudonyms: Pseudonyms | None = None,
) -> Redacted:
    """Write the calls of captures into ``out`` without what they are about."""
    work = _Redaction(CaptureWriter(out), pseudonyms or Pseudonyms(), keep_addresses, keep_client_ids)
    for made in Streams(PacketReader(files), ports=ports):
        work.take(made)
    work.done.bytes_written = out.tell()
    return work.done


class _Redaction:
    def __init__(
        self, writer: CaptureWriter, pseudonyms: Pseudonyms, keep_addresses: bool, keep_client_ids: bool
    ) -> None:
        self.writer, self.pseudonyms = writer, pseudonyms
        self.keep_addresses, self.keep_client_ids = keep_addresses, keep_client_ids
        self.done = Redacted()
        self._open: dict[int, Conversation] = {}
        self._names = Names()

    def take(self, made: Pass) -> None:
        """Write the calls of a pass, in the order of time."""
        if made.renumbered is not None:
            self._names.renumber(made.renumbered)
            kept = [(int(made.renumbered[number]), talk) for number, talk in self._open.items()]
            self._open = {number: talk for number, talk in kept if number >= 0}
        frames, found = made.frames, []
        for call in made.calls:
            self.done.calls += 1
            request, response = int(call[CALL_REQUEST]), int(call[CALL_RESPONSE])
            api = (int(frames[request, F_API]), int(frames[request, F_VERSION])) if request >= 0 else (-1, -1)
            found += [(frame, api) for frame in (request, response) if frame >= 0]
        tokens = np.flatnonzero((frames[:, F_FLAGS] & TOKEN != 0) & (frames[:, F_DONE] != 0))
        found += [(int(frame), (-2, -2)) for frame in tokens]
        found.sort(key=lambda one: (int(frames[one[0], F_END_TIME]), int(frames[one[0], F_RESPONSE])))
        for frame, api in found:
            self._frame(made, frame, api)

    def _frame(self, made: Pass, frame: int, api: tuple[int, int]) -> None:
        row = made.frames[frame]
        connection, side = int(row[F_CONNECTION]), int(row[F_RESPONSE])
        talk = self._conversation(made, connection)
        raw, _ = made.bytes_of(np.array([frame]))
        have, size = int(row[F_HAVE]), int(row[F_SIZE])
        data = self._masked(raw[:have].tobytes(), api, side, whole=have == size)
        talk.next[side] = talk.at(int(row[F_OFFSET]))
        for packet in talk.data(side, size.to_bytes(4, "big") + data, int(row[F_END_TIME])):
            self.writer.write(packet)

    def _conversation(self, made: Pass, connection: int) -> Conversation:
        talk = self._open.get(connection)
        if talk is not None:
            return talk
        (ends,) = self._names.of(made.connections, [connection])
        client, server = (
            address if self.keep_addresses else self.pseudonyms.address(address)
            for address in (ends.client, ends.server)
        )
        talk = self._open[connection] = Conversation(
            (client, ends.client_port), (server, ends.server_port), initial=connection << 12
        )
        row = made.connections[connection]
        if max(row[SIDE + INITIAL], row[SIDE + SIDE_COLUMNS + INITIAL]) >= 0:
            self.writer.write(talk.opening(int(row[FIRST_TIME])))
        return talk

    def _masked(self, data: bytes, api: tuple[int, int], side: int, *, whole: bool) -> bytes:
        """Return a frame of the same size that tells nothing."""
        if api[0] == -2:
            self.done.frames_zeroed += 1
            return bytes(len(data))
        if api[0] == API_VERSIONS and side == 1:
            return data
        if whole:
            try:
                masked = self._message(data, api, side)
            except (KafkaframesError, UnicodeError):
                masked = b""
            if len(masked) == len(data):
                return masked
        self.done.frames_zeroed += 1
        return self._start(data, side).ljust(len(data), b"\0")[: len(data)]

    def _start(self, data: bytes, side: int) -> bytes:
        """Return the header's numbers, and the client id as a pseudonym."""
        if side == 1:
            return data[:4]
        length = int.from_bytes(data[8:10], "big", signed=True) if len(data) >= _HEADER_BYTES else -1
        name = data[_HEADER_BYTES : _HEADER_BYTES + max(length, 0)]
        return data[:_HEADER_BYTES] + (name if self.keep_client_ids else self.pseudonyms.of(name))

    def _message(self, data: bytes, api: tuple[int, int], side: int) -> bytes:
        frame = decode_request(data) if side == 0 else decode_response(data, *api)
        if isinstance(frame.body, bytes):
            return b""
        if side == 0 and not self.keep_client_ids and frame.header.client_id is not None:
            frame.header.client_id = self._text(frame.header.client_id)
        self._struct(frame.body)
        return bytes(frame.header.encode(frame.header_version) + frame.body.encode(frame.api_version))

    def _struct(self, value: Struct) -> None:
        """Mask a struct's fields in place."""
        for info in value._fields:
            one = getattr(value, info.attribute)
            if one is not None:
                setattr(value, info.attribute, self._value(info.spec.name, info.spec.type.name, one))
        value.unknown_tags = [(tag, bytes(len(data))) for tag, data in value.unknown_tags]

    def _value(self, name: str, kind: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(name, kind, one) for one in value]
        if isinstance(value, Struct):
            self._struct(value)
            return value
        if kind == "string":
            return value if name in _KEPT_FIELDS else self._text(value)
        if kind == "records":
            return without_payload(bytes(value))
        return bytes(len(value)) if kind == "bytes" else value

    def _text(self, value: str) -> str:
        return self.pseudonyms.of(value.encode("utf-8")).decode("ascii")


def without_payload(records: bytes) -> bytes:
    """Return records of the same size with the headers of their batches and messages alone."""
    out = bytearray(len(records))
    batches = scan_all(records)
    for position, magic in zip(batches.column("position").tolist(), batches.column("magic").tolist(), strict=True):
        size = BATCH_V2.size if magic == 2 else MESSAGE_V0.size
        out[position : position + size] = records[position : position + size]
    at = batches.end.position
    out[at : at + BATCH_V2.size] = records[at : at + BATCH_V2.size]
    return bytes(out)
