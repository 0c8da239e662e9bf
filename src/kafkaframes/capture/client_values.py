"""Derive the client software and the authenticated principal of each call from the call's connection.

The client software and the principal apply from a certain request on the connection onwards. The values come from all
frames of a window, regardless of the rows that the caller selected. Values are indexes into ``ClientValues.texts``, so
that no Python code runs per call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.capture import layout
from kafkaframes.capture.bodies import DecodedMessages, MessageKind
from kafkaframes.capture.packets import Ints
from kafkaframes.capture.streams import WindowResult
from kafkaframes.capture.tables import parse_sasl_user
from kafkaframes.errors import DecodeError, ErrorCode
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE
from kafkaframes.protocol.messages.headers import decode_request, decode_response
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry

NO_VALUE: Final = -1
_VERSION_SEPARATOR: Final = "\0"


class ClientEvent(NamedTuple):
    """A client software or principal that applies to a connection from a request offset onwards.

    ``value`` is an index into ``ClientValues.texts``, or ``NO_VALUE``. ``final`` is 1 if the event occurs only in
    this window. While a request waits for its response, its event is repeated in every window.
    """

    connection: int
    offset: int
    value: int
    final: int


class ClientValues:
    """The latest value (software or principal) of each connection's client, remembered between capture windows."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._last: Ints = np.full(64, NO_VALUE, np.int64)

    def get_text_index(self, text: str) -> int:
        """Return the index of a text in ``texts``, and add the text first if it is new."""
        result = self._numbers.get(text)
        if result is None:
            result = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return result

    def renumber(self, numbers: Ints) -> None:
        """Replace each connection's number with ``numbers[number]``; -1 means that the connection is forgotten."""
        last_rows = self._last[: len(numbers)]
        is_current = numbers[: len(last_rows)] >= 0
        self._last = np.full_like(self._last, NO_VALUE)
        self._last[numbers[: len(last_rows)][is_current]] = last_rows[is_current]

    def get_last_value(self, connection: int) -> str | None:
        """Return the latest value of a connection's client; None if none is known."""
        number = int(self._last[connection]) if connection < len(self._last) else NO_VALUE
        return None if number == NO_VALUE else self.texts[number]

    def find_values(self, events: Ints, connections: Ints, offsets: Ints, *, is_after: bool) -> Ints:
        """Return, for each call, the index in ``texts`` of the value that is valid at its request.

        Args:
            events: events of this window, as rows of ``ClientEvent``, in any order.
            connections, offsets: connection and request offset of each call; the offset is -1 if the call has no
                request.
            is_after: whether an event applies only to requests after its own.
        """
        max_connection = int(max(connections.max(initial=0), events[:, 0].max(initial=0)))
        while max_connection >= len(self._last):
            self._last = np.concatenate([self._last, np.full_like(self._last, NO_VALUE)])
        result: Ints = self._last[connections]
        if len(events):
            events = events[np.argsort(_sort_keys(events[:, 0], events[:, 1]), kind="stable")]
            keys, lookup_keys = _sort_keys(events[:, 0], events[:, 1]), _sort_keys(connections, offsets)
            indexes = np.searchsorted(keys, lookup_keys, side="left" if is_after else "right") - 1
            has_event = (indexes >= 0) & (events[indexes, 0] == connections)
            result = np.where(has_event, events[indexes, 2], result)
            self._keep_last_events(events[events[:, 3] != 0])
        return result

    def _keep_last_events(self, final: Ints) -> None:
        """Store the last event of each connection. The events are sorted."""
        is_last = np.append(np.diff(final[:, 0]) != 0, len(final) > 0)[: len(final)]
        self._last[final[is_last, 0]] = final[is_last, 2]

    def get_text_column(self, numbers: Ints) -> pa.Array:
        """Return a column of the texts with these indexes in ``texts``."""
        return self._to_text_column(self.texts, numbers)

    def to_name_and_version_columns(self, numbers: Ints) -> tuple[pa.Array, pa.Array]:
        """Return two columns: the client software names and versions with these indexes in ``texts``."""
        halves = [split_software(text) for text in self.texts]
        first, second = (self._to_text_column([pair[side] for pair in halves], numbers) for side in (0, 1))
        return first, second

    @staticmethod
    def _to_text_column(texts: list[str], numbers: Ints) -> pa.Array:
        if not texts:
            return pa.nulls(len(numbers), pa.string())
        return pa.array(texts, pa.string()).take(pa.array(numbers, pa.int64(), mask=numbers == NO_VALUE))


def _sort_keys(connections: Ints, offsets: Ints) -> Ints:
    """Return keys that sort by connection, then by offset. Offsets must be below a terabyte."""
    return (connections << 40) + np.clip(offsets, 0, (1 << 40) - 1)


def split_software(text: str) -> tuple[str, str]:
    """Split a text into the name and the version of the client software."""
    name, _, version = text.partition(_VERSION_SEPARATOR)
    return name, version


def to_event_table(events: Iterable[ClientEvent]) -> Ints:
    """Convert events to an array with a row for each event and a column for each field."""
    return np.array(list(events), np.int64).reshape(-1, len(ClientEvent._fields))


# ------------------------------------------------------------------------------------------------------ software


def find_software_events(traffic: WindowResult, client_values: ClientValues, apis: ApiRegistry = CATALOG) -> Ints:
    """Return the software events in a capture window, from its ApiVersions requests.

    The events come from frames, because a call exists only after its response. A broker registers the software of each
    ApiVersions request. Requests of versions before 3 do not contain the software. If the broker rejected the request's
    version, it has not read the software. The event then applies from the next request onwards, if this package can
    decode the rejected request.
    """
    rows = _find_requests(traffic, API_VERSIONS)
    versions = traffic.frames[rows, layout.F_VERSION]
    result = [
        _find_registration_events(traffic, client_values, int(version), rows[versions == version], apis)
        for version in np.unique(versions)
    ]
    return np.concatenate([to_event_table(()), *result])


def _find_registration_events(
    traffic: WindowResult, client_values: ClientValues, version: int, rows: Ints, apis: ApiRegistry
) -> Ints:
    """Return the software events in the ApiVersions requests at one version."""
    frames = traffic.frames
    values, is_later = np.full(len(rows), NO_VALUE), np.zeros(len(rows), bool)
    if version >= 3:
        is_later = _find_rejected_requests(traffic, rows, version, apis)
        kind = MessageKind(API_VERSIONS, version, REQUEST, apis)
        if kind.is_known:
            values = _index_software(DecodedMessages(*traffic.copy_frame_bytes(rows), kind).body, client_values)
    return np.stack(
        [
            frames[rows, layout.F_CONNECTION],
            frames[rows, layout.F_OFFSET] + is_later,
            values,
            frames[rows, layout.F_DONE],
        ],
        axis=1,
    )


def _index_software(body: pa.StructArray, client_values: ClientValues) -> Ints:
    """Add the client software of ApiVersions requests to ``texts``. Return each text's index, or ``NO_VALUE``."""
    names, versions = (body.field(f"clientSoftware{suffix}") for suffix in ("Name", "Version"))
    texts = pc.binary_join_element_wise(names, versions, _VERSION_SEPARATOR).dictionary_encode()
    numbers = np.array(
        [client_values.get_text_index(text) for text in texts.dictionary.to_pylist()] or [NO_VALUE], np.int64
    )
    indexes = texts.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(texts.is_valid().to_numpy(zero_copy_only=False), numbers[indexes], NO_VALUE)


def _find_rejected_requests(traffic: WindowResult, rows: Ints, version: int, apis: ApiRegistry) -> Ints:
    """Return a mask of ApiVersions requests that the broker rejected.

    If the response is missing, versions above the broker's latest one count as rejected.
    """
    newest = apis.apis_by_key[API_VERSIONS].current_versions.highest
    answers = _find_responses(traffic)[rows]
    has_answer = (answers >= 0) & (traffic.frames[answers, layout.F_HAVE] >= 6)
    result = np.full(len(rows), version >= newest)
    sizes = np.full(int(has_answer.sum()), 2, np.int64)
    raw, _ = traffic.copy_frame_bytes(answers[has_answer], lead=4, sizes=sizes)
    codes = raw[: 2 * len(sizes)].reshape(-1, 2)
    result[has_answer] = (codes[:, 0] == 0) & (codes[:, 1] == ErrorCode.UNSUPPORTED_VERSION)
    return result


def _find_requests(traffic: WindowResult, api_key: int) -> Ints:
    """Return the frame rows of an API's complete requests."""
    api, response, flags = (traffic.frames[:, column] for column in (layout.F_API, layout.F_RESPONSE, layout.F_FLAGS))
    return np.flatnonzero((api == api_key) & (response == 0) & (flags & layout.BROKEN == 0))


def _find_responses(traffic: WindowResult) -> Ints:
    """Return the frame row of each request's response, -1 if the request has no response."""
    result = np.full(len(traffic.frames), -1, np.int64)
    calls = traffic.calls[traffic.calls[:, layout.CALL_REQUEST] >= 0]
    result[calls[:, layout.CALL_REQUEST]] = calls[:, layout.CALL_RESPONSE]
    return result


# ----------------------------------------------------------------------------------------------------- principals


class PendingLogins:
    """Authentications in progress. SCRAM sends the user name first, and the broker confirms it at the end."""

    def __init__(self) -> None:
        self._waiting: dict[int, str] = {}

    def renumber(self, numbers: Ints) -> None:
        """Replace each connection's number with ``numbers[number]``; -1 means that the connection is forgotten."""
        self._waiting = {
            int(numbers[connection]): user for connection, user in self._waiting.items() if numbers[connection] >= 0
        }

    def find_events(self, traffic: WindowResult, client_values: ClientValues, apis: ApiRegistry = CATALOG) -> Ints:
        """Return the principal events in a capture window."""
        return to_event_table(
            [
                *self._find_sasl_authenticate_events(traffic, client_values, apis),
                *_find_raw_token_events(traffic, client_values),
            ]
        )

    def _find_sasl_authenticate_events(
        self, traffic: WindowResult, client_values: ClientValues, apis: ApiRegistry
    ) -> Iterator[ClientEvent]:
        """Yield the principal events of successful SaslAuthenticate requests."""
        frames = traffic.frames
        rows = _find_requests(traffic, SASL_AUTHENTICATE)
        answers = _find_responses(traffic)[rows] if len(rows) else rows
        for row, answer in zip(rows.tolist(), answers.tolist(), strict=True):
            if answer < 0 or not frames[answer, layout.F_HAVE]:
                continue
            connection, version = int(frames[row, layout.F_CONNECTION]), int(frames[row, layout.F_VERSION])
            raw, _ = traffic.copy_frame_bytes(np.array([row]))
            token = _read_token(raw.tobytes(), version, apis)
            user = parse_sasl_user(token)
            if user is not None:
                self._waiting[connection] = user
            code = _read_authentication_error(traffic, answer, version, apis)
            is_scram_first = user is not None and b"\0" not in token
            if code == 0 and not is_scram_first and connection in self._waiting:
                number = client_values.get_text_index(f"User:{self._waiting.pop(connection)}")
                yield ClientEvent(connection, int(frames[row, layout.F_OFFSET]), number, 1)


def _find_raw_token_events(traffic: WindowResult, client_values: ClientValues) -> Iterator[ClientEvent]:
    """Yield the principal events of SASL tokens that are sent without a request header."""
    frames = traffic.frames
    tokens = np.flatnonzero((frames[:, layout.F_FLAGS] & layout.TOKEN != 0) & (frames[:, layout.F_RESPONSE] == 0))
    for frame in tokens.tolist():
        raw, _ = traffic.copy_frame_bytes(np.array([frame]))
        user = parse_sasl_user(raw[: int(frames[frame, layout.F_HAVE])].tobytes())
        if user is not None:
            start = int(frames[frame, layout.F_CONNECTION]), int(frames[frame, layout.F_OFFSET])
            yield ClientEvent(*start, client_values.get_text_index(f"User:{user}"), int(frames[frame, layout.F_DONE]))


def _read_authentication_error(traffic: WindowResult, answer: int, version: int, apis: ApiRegistry) -> int:
    """Return a response's error code, -1 if it cannot be read. Bytes after the code may be missing."""
    if apis.has_own_spec(SASL_AUTHENTICATE):
        raw, _ = traffic.copy_frame_bytes(np.array([answer]))
        spec = apis.find_spec(SASL_AUTHENTICATE, RESPONSE, version)
        try:
            return int(decode_response(raw.tobytes(), SASL_AUTHENTICATE, version, specs=spec).body.error_code)
        except DecodeError:
            return -1
    lead = 5 if version >= 2 else 4  # a flexible header ends with tagged fields
    if traffic.frames[answer, layout.F_HAVE] < lead + 2:
        return -1
    raw, _ = traffic.copy_frame_bytes(np.array([answer]), lead=lead, sizes=np.array([2]))
    return int.from_bytes(raw[:2].tobytes(), "big")


def _read_token(request: bytes, version: int, apis: ApiRegistry) -> bytes:
    """Return the token of a SaslAuthenticate request, empty if it cannot be decoded."""
    try:
        return bytes(decode_request(request, specs=apis.find_spec(SASL_AUTHENTICATE, REQUEST, version)).body.auth_bytes)
    except DecodeError:
        return b""
