"""Write a capture that can be shared: the same calls, sizes and versions, without payloads, names or secrets.

* Each text and UUID is replaced by another one of the same length, consistently within a file.
* Bytes are replaced by zeros.
* Batch headers of records are retained without checksums, from which short values could be guessed.
* Apart from numbers, only ``UNREDACTED_TEXTS`` are retained. Addresses are replaced unless the caller wants to keep
  them.
* Frames or bytes that cannot be decoded are replaced by zeros: partial frames, damaged bodies, SASL tokens, and bytes
  after the last batch.
* Frames of no known API are omitted: responses without their request, and APIs that do not exist.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import IO, Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from kafkaframes.capture import layout
from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.capture.coverage import Coverage, entry_to_json
from kafkaframes.capture.packets import PacketReader
from kafkaframes.capture.streams import Streams, WindowResult, iterate_windows_with_coverage
from kafkaframes.capture.tables import EndpointCache
from kafkaframes.errors import KafkaframesError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.headers import decode_request, decode_response
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.messages.structs import Struct
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, MESSAGE_V0, HeaderLayout
from kafkaframes.records.reasons import TORN
from kafkaframes.records.scan import scan_all

_SOFTWARE_PATTERN: Final = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"  # pattern that brokers accept (KIP-511)
_MECHANISM_PATTERN: Final = "GSSAPI|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER"
_PROTOCOL_TYPE_PATTERN: Final = "consumer|connect|sr"
_FEATURE_PATTERN: Final = r"(eligible\.leader\.replicas|group|kraft|metadata|share|streams|transaction)\.version"
#: Texts that describe the client's software and protocol but do not identify the client. (message, field) -> pattern of
#: the values that are kept.
UNREDACTED_TEXTS: Final[Mapping[str, str]] = {
    "ApiVersionsRequest.ClientSoftwareName": _SOFTWARE_PATTERN,
    "ApiVersionsRequest.ClientSoftwareVersion": _SOFTWARE_PATTERN,
    "ApiVersionsResponse.Name": _FEATURE_PATTERN,
    "SaslHandshakeRequest.Mechanism": _MECHANISM_PATTERN,
    "SaslHandshakeResponse.Mechanisms": _MECHANISM_PATTERN,
    "JoinGroupRequest.ProtocolType": _PROTOCOL_TYPE_PATTERN,
    "JoinGroupResponse.ProtocolType": _PROTOCOL_TYPE_PATTERN,
    "SyncGroupRequest.ProtocolType": _PROTOCOL_TYPE_PATTERN,
    "SyncGroupResponse.ProtocolType": _PROTOCOL_TYPE_PATTERN,
    "ListGroupsResponse.ProtocolType": _PROTOCOL_TYPE_PATTERN,
    "DescribeGroupsResponse.ProtocolType": _PROTOCOL_TYPE_PATTERN,
}
# Name of the fields that start with a batch. The field UnalignedRecords of FetchSnapshot may start anywhere.
_RECORDS_FIELD_NAME: Final = "Records"
_RESERVED_UUID_COUNT: Final = 256  # UUIDs below this have a special meaning, such as none, unassigned or lost
_PSEUDONYM_ALPHABET: Final = b"abcdefghijklmnopqrstuvwxyz234567"
_FIXED_HEADER_BYTES: Final = 8  # API key, version and correlation id in a request header
_HEADER_BYTES: Final = _FIXED_HEADER_BYTES + 2  # API key, version, correlation id, and the length of the client id
_REQUEST_WITHOUT_CLIENT_ID: Final = (7, 0)  # ControlledShutdown version 0
_MIN_PRINTABLE_BYTE: Final = 32  # Kafka's highest API version is far below this
# Used instead of an API key and version: for an unknown request, and for a SASL token.
_UNKNOWN, _TOKEN = (-1, -1), (-2, -2)


@dataclass
class RedactionResult:
    """The result of a redaction.

    Attributes:
        calls: number of calls of Kafka's APIs.
        frames_zeroed: number of frames with bytes that were replaced by zeros: SASL tokens and undecodable frames.
        frames_not_decoded: number of complete messages in ``frames_zeroed`` that cannot be decoded.
        frames_left_out: number of omitted frames: frames of unknown APIs, and responses without their request.
        bytes_written: size of the file.
        coverage: report of the unread data.
    """

    calls: int = 0
    frames_zeroed: int = 0
    frames_not_decoded: int = 0
    frames_left_out: int = 0
    bytes_written: int = 0
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def is_complete(self) -> bool:
        """Whether the file contains all data that may belong to Kafka calls."""
        return not self.frames_not_decoded and not self.coverage.unread


def as_json(result: RedactionResult) -> dict[str, Any]:
    """Return a result as a JSON object."""
    return {
        "calls": result.calls,
        "framesZeroed": result.frames_zeroed,
        "framesNotDecoded": result.frames_not_decoded,
        "framesLeftOut": result.frames_left_out,
        "bytesWritten": result.bytes_written,
        "isComplete": result.is_complete,
        "unread": [entry_to_json(entry) for entry in result.coverage.unread],
        "harmless": [entry_to_json(entry) for entry in result.coverage.harmless],
    }


class Pseudonyms:
    """A mapping of texts to pseudonyms of the same length in bytes. The key exists only in memory."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key
        self._pseudonyms: dict[bytes, bytes] = {}

    def pseudonymize(self, text: bytes) -> bytes:
        """Return the pseudonym of a text."""
        result = self._pseudonyms.get(text)
        if result is None:
            stream = hashlib.shake_256(self._key + text).digest(len(text)) if text else b""
            result = bytes(_PSEUDONYM_ALPHABET[byte & 31] for byte in stream)
            if len(self._pseudonyms) < 1 << 20:
                self._pseudonyms[text] = result
        return result

    def pseudonymize_address(self, address: str) -> str:
        """Return the pseudonym of an address, in the same address family."""
        digest = hashlib.shake_256(self._key + b"address " + address.encode()).digest(8)
        if ":" in address:
            return "fd00::" + ":".join(digest[position : position + 2].hex() for position in range(0, 8, 2))
        return f"10.{digest[0]}.{digest[1]}.{digest[2] % 254 + 1}"


def redact(
    files: Sequence[str],
    out: IO[bytes],
    *,
    ports: Sequence[int] = (),
    keep_addresses: bool = False,
    keep_client_ids: bool = False,
    pseudonyms: Pseudonyms | None = None,
    apis: ApiRegistry = CATALOG,
) -> RedactionResult:
    """Write the calls of captures to ``out`` without payloads, names or secrets."""
    out.write(build_file_header("kafkaframes"))
    work = _RedactionRun(out, pseudonyms or Pseudonyms(), keep_addresses, keep_client_ids, apis)
    for traffic in iterate_windows_with_coverage(
        Streams(PacketReader(files), ports=ports, apis=apis), work.result.coverage
    ):
        work.write_calls(traffic)
    work.result.bytes_written = out.tell()
    return work.result


class _RedactionRun:
    """One redaction of captures into an output file."""

    def __init__(
        self,
        out: IO[bytes],
        pseudonyms: Pseudonyms,
        keep_addresses: bool,
        keep_client_ids: bool,
        apis: ApiRegistry,
    ) -> None:
        self.out, self.pseudonyms, self.apis = out, pseudonyms, apis
        self.keep_addresses, self.keep_client_ids = keep_addresses, keep_client_ids
        self.result = RedactionResult()
        self._open: dict[int, ConversationWriter] = {}
        self._names = EndpointCache()

    def write_calls(self, traffic: WindowResult) -> None:
        """Write the calls in a capture window, sorted by time."""
        if traffic.new_numbers is not None:
            self._names.renumber(traffic.new_numbers)
            conversations = [(int(traffic.new_numbers[number]), talk) for number, talk in self._open.items()]
            self._open = {number: talk for number, talk in conversations if number >= 0}
        frames, result = traffic.frames, []
        for call in traffic.calls:
            request, response = int(call[layout.CALL_REQUEST]), int(call[layout.CALL_RESPONSE])
            api = (
                (int(frames[request, layout.F_API]), int(frames[request, layout.F_VERSION]))
                if request >= 0
                else _UNKNOWN
            )
            frame_rows = [(frame, api) for frame in (request, response) if frame >= 0]
            if _is_known(*api, self.apis):
                self.result.calls += 1
                result += frame_rows
            else:  # the header may contain anything
                self.result.frames_left_out += len(frame_rows)
        tokens = np.flatnonzero((frames[:, layout.F_FLAGS] & layout.TOKEN != 0) & (frames[:, layout.F_DONE] != 0))
        result += [(int(frame), _TOKEN) for frame in tokens]
        result.sort(
            key=lambda entry: (int(frames[entry[0], layout.F_END_TIME]), int(frames[entry[0], layout.F_RESPONSE]))
        )
        for frame, api in result:
            self._write_frame(traffic, frame, api)

    def _write_frame(self, traffic: WindowResult, frame: int, api: tuple[int, int]) -> None:
        row = traffic.frames[frame]
        connection, side = int(row[layout.F_CONNECTION]), int(row[layout.F_RESPONSE])
        captured_bytes, size = int(row[layout.F_HAVE]), int(row[layout.F_SIZE])
        talk = self._start_conversation(traffic, connection)
        raw, _ = traffic.copy_frame_bytes(np.array([frame]))
        data = self._mask_frame(raw[:captured_bytes].tobytes(), api, side, is_whole=captured_bytes == size)
        talk.next[side] = talk.get_sequence_number(int(row[layout.F_OFFSET]))
        for packet in talk.build_data_packets(side, size.to_bytes(4, "big") + data, int(row[layout.F_END_TIME])):
            self.out.write(packet)

    def _start_conversation(self, traffic: WindowResult, connection: int) -> ConversationWriter:
        """Return the writer of a connection. For a new connection, write its handshake if the capture has one."""
        conversation = self._open.get(connection)
        if conversation is not None:
            return conversation
        (ends,) = self._names.resolve(traffic.connections, [connection])
        client, server = (
            address if self.keep_addresses else self.pseudonyms.pseudonymize_address(address)
            for address in (ends.client, ends.server)
        )
        conversation = self._open[connection] = ConversationWriter(
            (client, ends.client_port), (server, ends.server_port), initial=connection << 12
        )
        row = traffic.connections[connection]
        if (
            max(
                row[layout.FIRST_SIDE_COLUMN + layout.INITIAL],
                row[layout.FIRST_SIDE_COLUMN + layout.SIDE_COLUMN_COUNT + layout.INITIAL],
            )
            >= 0
        ):
            self.out.write(conversation.build_handshake(int(row[layout.FIRST_TIME])))
        return conversation

    def _mask_frame(self, data: bytes, api: tuple[int, int], side: int, *, is_whole: bool) -> bytes:
        """Return a frame of the same size without sensitive data."""
        redacted = b""
        if is_whole and api != _TOKEN:
            try:
                redacted = self._mask_message(data, api, side)
            except (KafkaframesError, UnicodeError):
                redacted = b""
        if not redacted or len(redacted) > len(data):
            self.result.frames_zeroed += 1
            self.result.frames_not_decoded += is_whole and api != _TOKEN
            redacted = b"" if api == _TOKEN else self._mask_header(data, api, side)
        return redacted.ljust(len(data), b"\0")

    def _mask_header(self, data: bytes, api: tuple[int, int], side: int) -> bytes:
        """Return the numbers of the header, and the client id's pseudonym if the client id is complete."""
        if side == 1:
            return data[:4]
        length = int.from_bytes(data[_FIXED_HEADER_BYTES:_HEADER_BYTES], "big", signed=True)
        end = _HEADER_BYTES + max(length, 0)
        if api == _REQUEST_WITHOUT_CLIENT_ID or len(data) < end:
            return data[:_FIXED_HEADER_BYTES]
        name = data[_HEADER_BYTES:end]
        return data[:_HEADER_BYTES] + (name if self.keep_client_ids else self.pseudonyms.pseudonymize(name))

    def _mask_message(self, data: bytes, api: tuple[int, int], side: int) -> bytes:
        spec = self.apis.find_spec(api[0], RESPONSE if side else REQUEST, api[1])
        if side == 0:
            frame = decode_request(data, allow_surplus=True, specs=spec)
        else:
            frame = decode_response(data, *api, specs=spec)
        if isinstance(frame.body, bytes):
            return b""
        client_id = getattr(frame.header, "client_id", None)
        self._mask_struct(frame.header)
        if side == 0 and self.keep_client_ids:
            frame.header.client_id = client_id
        self._mask_struct(frame.body)
        return bytes(frame.header.encode(frame.header_version) + frame.body.encode(frame.api_version))

    def _mask_struct(self, value: Struct) -> None:
        """Mask a struct's fields in place."""
        for masked in _find_masked_fields(type(value)):  # type: ignore[arg-type]  # the class can be hashed, its values cannot
            content = getattr(value, masked.attribute)
            if isinstance(content, list):
                setattr(value, masked.attribute, [self._mask_value(masked, element) for element in content])
            elif content is not None:
                setattr(value, masked.attribute, self._mask_value(masked, content))
        if value._tags:
            value.unknown_tags = [(tag, bytes(len(data))) for tag, data in value._tags]

    def _mask_value(self, field: _MaskedField, value: Any) -> Any:
        if isinstance(value, Struct):
            self._mask_struct(value)
            return value
        if field.kind == "string":
            return value if field.keeps(value) else self.pseudonyms.pseudonymize(value.encode()).decode("ascii")
        if field.kind == "uuid":
            return value if value.int < _RESERVED_UUID_COUNT else UUID(bytes=self.pseudonyms.pseudonymize(value.bytes))
        if field.kind == "records" and field.name == _RECORDS_FIELD_NAME:
            return remove_payloads(bytes(value))
        return bytes(len(value))


class _MaskedField(NamedTuple):
    """A field with values that may contain sensitive data."""

    name: str
    attribute: str
    kind: str
    keeps: Callable[[str], Any]


@cache
def _find_masked_fields(cls: type[Struct]) -> tuple[_MaskedField, ...]:
    """Return the fields of a struct class that have to be masked."""
    message = cls._owner.spec.name
    return tuple(
        _MaskedField(
            name=field.spec.name,
            attribute=field.attribute,
            kind=field.spec.type.name,
            keeps=re.compile(UNREDACTED_TEXTS.get(f"{message}.{field.spec.name}", "")).fullmatch,
        )
        for field in cls._fields
        if field.spec.type.is_struct or field.spec.type.name in ("string", "bytes", "records", "uuid")
    )


def _is_known(key: int, version: int, apis: ApiRegistry) -> bool:
    """Return whether the API exists and the version is a small number, which cannot be a character of a text.

    ApiVersions is accepted at any version, because brokers answer every version (KIP-511).
    """
    if key == API_VERSIONS:
        return True
    api = apis.apis_by_key.get(key)
    return api is not None and not api.versions.is_empty and 0 <= version < _MIN_PRINTABLE_BYTE


def remove_payloads(records: bytes) -> bytes:
    """Return records of the same size with only the headers of batches and messages, without checksums."""
    out = bytearray(len(records))
    batches = scan_all(records)
    columns = (batches.column(name).tolist() for name in ("position", "size", "magic"))
    for position, size, magic in zip(*columns, strict=True):
        _copy_header(records, out, position, position + size, _LAYOUT_BY_MAGIC[magic])
    end_position = batches.end.position
    # The size limit of a Fetch request has truncated this batch.
    if batches.end.status == TORN and len(records) - end_position >= BYTES_TO_MAGIC:
        _copy_header(
            records,
            out,
            end_position,
            len(records),
            _LAYOUT_BY_MAGIC[records[end_position + MESSAGE_V0.position_of("magic")]],
        )
    return bytes(out)


_LAYOUT_BY_MAGIC: Final = (MESSAGE_V0, MESSAGE_V0, BATCH_V2)


def _copy_header(records: bytes, out: bytearray, position: int, end: int, layout: HeaderLayout) -> None:
    """Copy a header without its checksum, at most to the end of its batch."""
    last = min(position + layout.size, end)
    out[position:last] = records[position:last]
    crc, crc_end = (min(position + index, last) for index in (layout.position_of("crc"), layout.end_of("crc")))
    out[crc:crc_end] = bytes(crc_end - crc)
