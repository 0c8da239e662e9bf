"""The table of calls: a row for each request with its response, made a pass at a time, column by column.

What is not asked for is not made: without JSON, errors and records nothing is decoded but headers, and then
``_error`` says only what is missing from the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.capture.bodies import REQUEST, RESPONSE, WITH_RECORDS, Decoded, is_known, texts_of
from kafkaframes.capture.columns import ERRORS, RECORDS, SET, TIMESTAMP, Column
from kafkaframes.capture.layout import (
    BROKEN,
    CALL_CONNECTION,
    CALL_REQUEST,
    CALL_RESPONSE,
    F_API,
    F_CONNECTION,
    F_CORRELATION,
    F_DONE,
    F_END_NUMBER,
    F_END_TIME,
    F_FLAGS,
    F_HAVE,
    F_ID_LENGTH,
    F_MISSING,
    F_NUMBER,
    F_OFFSET,
    F_RESPONSE,
    F_SIZE,
    F_VERSION,
    NO_REPLY,
    TOKEN,
)
from kafkaframes.capture.names import Event, Names, Told, sasl_user
from kafkaframes.capture.packets import FILE_MASK, FILE_SHIFT, Ints
from kafkaframes.capture.secrets import has_secrets
from kafkaframes.capture.streams import Pass
from kafkaframes.capture.typed import ApiTypes
from kafkaframes.records.layout import CODECS
from kafkaframes.spec import catalog

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
UNSUPPORTED_VERSION: Final = 35
_ID_AT: Final = 10  # where a client id starts in a request's header
_NEEDS_JSON: Final = {"requestHeader": REQUEST, "request": REQUEST, "responseHeader": RESPONSE, "response": RESPONSE}
_SEPARATOR: Final = "\0"


class Span(NamedTuple):
    """Which calls are given of a stretch of files that others go before or after (a stream).

    Those that are whole in files from ``first`` on; and, at the end, those that wait for a response, but for the ones
    that begin in the last file: they come when the next file is there.
    """

    first: int
    last: int

    def chosen(self, made: Pass, calls: Ints) -> Any:
        """Tell which calls of a pass are given."""
        frames = made.frames
        ends = [
            np.where(calls[:, column] >= 0, frames[calls[:, column], F_END_NUMBER] >> FILE_SHIFT, -1)
            for column in (CALL_REQUEST, CALL_RESPONSE)
        ]
        silent = (calls[:, CALL_RESPONSE] < 0) & (frames[calls[:, CALL_REQUEST], F_FLAGS] & NO_REPLY == 0)
        if not made.last:
            return np.where(silent, ends[0] >= self.first, np.maximum(*ends) >= self.first)
        return np.where(silent, ends[0] < self.last, np.maximum(*ends) >= self.first)


class CallMaker:
    """Makes the rows of passes; keeps what connections have told from pass to pass."""

    def __init__(
        self,
        columns: Sequence[Column],
        files: Sequence[str],
        *,
        secrets: bool = False,
        typed: ApiTypes | None = None,
        span: Span | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.typed = typed
        self.span = span
        self.schema = pa.schema([(column.name, column.type) for column in columns])
        self.files = list(files)
        self.secrets = secrets
        self.names = Names()
        self.software = Told()
        self.principals = Told()
        self.logging_in: dict[int, str] = {}

    def rows(self, made: Pass) -> pa.RecordBatch:
        """Return the calls of a pass, in the order of their requests' times."""
        calls = _Calls(self, made)
        arrays = [_MAKERS[column.name](calls) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _Calls:
    """The calls of one pass; what several columns need is made once."""

    def __init__(self, maker: CallMaker, made: Pass) -> None:
        self.maker, self.made = maker, made
        self.wanted = {column.name for column in maker.columns}
        frames, calls = made.frames, made.calls
        times = np.where(
            calls[:, CALL_REQUEST] >= 0,
            frames[calls[:, CALL_REQUEST], F_END_TIME] if len(frames) else 0,
            frames[calls[:, CALL_RESPONSE], F_END_TIME] if len(frames) else 0,
        )
        order = np.argsort(times, kind="stable")
        calls = calls[order]
        if maker.typed is not None and len(calls):
            keys = np.where(calls[:, CALL_REQUEST] >= 0, frames[calls[:, CALL_REQUEST], F_API], -1)
            calls = calls[keys == maker.typed.api_key]
        if maker.span is not None and len(calls):
            calls = calls[maker.span.chosen(made, calls)]
        self.request, self.response = calls[:, CALL_REQUEST].copy(), calls[:, CALL_RESPONSE].copy()
        self.connection = calls[:, CALL_CONNECTION].copy()
        self.count = len(calls)
        self.errors: list[str | None] = [None] * self.count
        self._tell_missing()

    def side(self, direction: str) -> Ints:
        """Return the rows of frames of requests or responses; -1 for none."""
        return self.request if direction == REQUEST else self.response

    def of(self, direction: str, column: int, *, absent: int = -1) -> Ints:
        """Return a number of each request or response."""
        rows = self.side(direction)
        if not len(self.made.frames):
            return np.full(self.count, absent, np.int64)
        return np.where(rows >= 0, self.made.frames[rows, column], absent)

    def numbers(self, direction: str, column: int, kind: pa.DataType, *, least: int | None = None) -> pa.Array:
        """Return a number of each request or response as a column; null where there is none, or it is below least."""
        values = self.of(direction, column)
        mask = self.side(direction) < 0
        if least is not None:
            mask |= values < least
        return pa.array(values, pa.int64(), mask=mask).cast(kind)

    # ------------------------------------------------------------------------------------------------ state

    @cached_property
    def has_api(self) -> Any:
        """Which calls have a request whose API is known."""
        return (self.request >= 0) & (self.of(REQUEST, F_API) >= 0)

    def state(self, direction: str) -> list[str]:
        """Return whether requests or responses are whole, damaged, missing or none."""
        rows = self.side(direction)
        broken = (self.of(direction, F_FLAGS, absent=0) & BROKEN) != 0
        found = np.where(rows < 0, "missing", np.where(broken, "damaged", "whole"))
        if direction == RESPONSE:
            silent = (rows < 0) & ((self.of(REQUEST, F_FLAGS, absent=0) & NO_REPLY) != 0)
            found = np.where(silent, "none", found)
        return list(map(str, found))

    def _tell_missing(self) -> None:
        for direction in (REQUEST, RESPONSE):
            broken = (self.of(direction, F_FLAGS, absent=0) & BROKEN) != 0
            missing, size = self.of(direction, F_MISSING, absent=0), self.of(direction, F_SIZE, absent=0)
            for row in np.flatnonzero(broken).tolist():
                self.tell(row, f"{direction}: {missing[row]} of its {size[row]} bytes are not in the capture")
        for row in np.flatnonzero(self.request < 0).tolist():
            self.tell(row, "request: not in the capture")
        silent = (self.response < 0) & ((self.of(REQUEST, F_FLAGS, absent=0) & NO_REPLY) == 0)
        for row in np.flatnonzero(silent).tolist():
            self.tell(row, "response: none in the capture")

    def tell(self, row: int, text: str) -> None:
        """Add to a call's ``_error``."""
        before = self.errors[row]
        self.errors[row] = text if before is None else f"{before}; {text}"

    # ----------------------------------------------------------------------------------------------- bodies

    def groups(self, direction: str, *, only: Callable[[int], bool] | None = None) -> Iterator[tuple[int, int, Ints]]:
        """Yield (API key, version, calls) of whole requests or responses whose API is known."""
        whole = (self.side(direction) >= 0) & ((self.of(direction, F_FLAGS, absent=0) & BROKEN) == 0) & self.has_api
        rows = np.flatnonzero(whole)
        kinds = (self.of(REQUEST, F_API)[rows] << 16) | self.of(REQUEST, F_VERSION)[rows]
        order = np.argsort(kinds, kind="stable")
        rows, kinds = rows[order], kinds[order]
        edges = np.flatnonzero(np.diff(kinds, prepend=-1, append=-1))
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            key, version = int(kinds[start]) >> 16, int(kinds[start]) & 0xFFFF
            if only is None or only(key):
                yield key, version, rows[start:end]

    def bytes_of(self, direction: str, rows: Ints) -> tuple[Any, Ints]:
        """Return the bytes of the requests or responses of calls."""
        return self.made.bytes_of(self.side(direction)[rows])

    @cached_property
    def texts(self) -> dict[str, list[str | None]]:
        """Return the columns of JSON."""
        out: dict[str, list[str | None]] = {name: [None] * self.count for name in _NEEDS_JSON}
        for direction in (REQUEST, RESPONSE):
            if not any(_NEEDS_JSON.get(name) == direction for name in self.wanted):
                continue
            for key, version, rows in self.groups(direction):
                raw, starts = self.bytes_of(direction, rows)
                found = texts_of(raw, starts, key, version, direction, secrets=self.maker.secrets)
                for row, text in zip(rows.tolist(), found, strict=True):
                    out[f"{direction}Header"][row], out[direction][row] = text.header, text.body
                    if text.error is not None:
                        self.tell(row, text.error)
        return out

    def typed_bodies(self, direction: str, typed: ApiTypes) -> pa.Array:
        """Return the column of bodies as structs; null where one is not whole or cannot be read."""
        kind = typed.type_of(direction)
        parts, places = [], []
        for key, version, rows in self.groups(direction):
            if is_known(key, version, direction):
                raw, starts = self.bytes_of(direction, rows)
                decoded = Decoded(raw, starts, key, version, direction)
                parts.append(typed.aligned(decoded.body, decoded.errors, direction))
                places.append(rows)
                for place in np.flatnonzero(decoded.errors.is_valid().to_numpy(zero_copy_only=False)).tolist():
                    self.tell(int(rows[place]), f"{direction}: {decoded.errors[place].as_py()}")
        if not parts:
            return pa.nulls(self.count, kind)
        which = np.full(self.count, -1, np.int64)
        rows = np.concatenate(places)
        which[rows] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(which, pa.int64(), mask=which < 0))

    @cached_property
    def decoded(self) -> dict[tuple[str, int, int], tuple[Ints, Decoded]]:
        """Return the columns of what errors and records are taken from."""
        found = {}
        for direction in (REQUEST, RESPONSE):
            only = None if direction == RESPONSE and "errors" in self.wanted else _has_records(direction)
            if direction == REQUEST and "records" not in self.wanted:
                continue
            for key, version, rows in self.groups(direction, only=only):
                if key == API_VERSIONS and not is_known(key, version, direction):
                    version = catalog.api(API_VERSIONS).versions.highest  # answered at version 0, whatever was asked
                if is_known(key, version, direction):
                    raw, starts = self.bytes_of(direction, rows)
                    found[direction, key, int(rows[0])] = rows, Decoded(raw, starts, key, version, direction)
        return found

    @cached_property
    def error_codes(self) -> pa.Array:
        """Return the column of errors; null where the response cannot be read."""
        listed: list[list[dict[str, Any]] | None] = [None] * self.count
        told_by_json = "response" in self.wanted or "responseHeader" in self.wanted
        for (direction, _, _), (rows, decoded) in self.decoded.items():
            if direction != RESPONSE:
                continue
            for row in rows.tolist():
                listed[row] = []
            for place, path, code in decoded.error_codes():
                codes = listed[int(rows[place])]
                assert codes is not None
                codes.append({"path": path, "code": code})
            for place in np.flatnonzero(decoded.errors.is_valid().to_numpy(zero_copy_only=False)).tolist():
                listed[int(rows[place])] = None
                if not told_by_json:
                    self.tell(int(rows[place]), f"response: {decoded.errors[place].as_py()}")
        return pa.array(listed, ERRORS)

    @cached_property
    def summaries(self) -> pa.Array:
        """Return the column of records; null where a call carries none."""
        counts, cuts, valid = [], np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        places = []
        for (direction, key, _), (rows, decoded) in self.decoded.items():
            if (key, direction) in WITH_RECORDS:
                sums, cut = decoded.summaries()
                good = decoded.errors.is_null().to_numpy(zero_copy_only=False)
                cuts[rows], valid[rows] = cut, good
                counts.append(sums[good])
                places.append(rows[good])
        return _summary_column(self.count, places, counts, cuts, valid)

    # ------------------------------------------------------------------------------------------ connections

    @cached_property
    def ends(self) -> tuple[list[Any], Ints]:
        """Return the ends of the connections of this pass, and for each call which it is."""
        unique, inverse = np.unique(self.connection, return_inverse=True)
        return self.maker.names.of(self.made.connections, unique.tolist()), inverse

    def end(self, field: str, kind: pa.DataType) -> pa.Array:
        """Return a column of what the ends of a connection are."""
        ends, which = self.ends
        values = pa.array([getattr(one, field) for one in ends], kind)
        return values.take(pa.array(which, pa.int64()))

    @cached_property
    def software(self) -> tuple[pa.Array, pa.Array]:
        """Return name and version of the clients' software, from the ApiVersions requests of their connections.

        From the frames, since a call is not there before its response. A broker registers what each ApiVersions
        request says: nothing for versions before 3. One of a version that the broker refused (and so did not read)
        counts from the next request on, if it can be read here.
        """
        events = [event for version, rows in self._asked_versions() for event in self._registered(version, rows)]
        told = self.maker.software.fill(events, self.connection, self.of(REQUEST, F_OFFSET), after=False)
        pairs = [one.split(_SEPARATOR, 1) if one else (None, None) for one in told]
        return pa.array([one[0] for one in pairs], pa.string()), pa.array([one[1] for one in pairs], pa.string())

    def _asked_versions(self) -> Iterator[tuple[int, Ints]]:
        """Yield the frames of whole ApiVersions requests, by version."""
        frames = self.made.frames
        asks = (frames[:, F_RESPONSE] == 0) & (frames[:, F_API] == API_VERSIONS) & (frames[:, F_FLAGS] & BROKEN == 0)
        rows = np.flatnonzero(asks)
        for version in np.unique(frames[rows, F_VERSION]).tolist():
            yield version, rows[frames[rows, F_VERSION] == version]

    def _registered(self, version: int, rows: Ints) -> Iterator[Event]:
        frames = self.made.frames
        values, later = [""] * len(rows), [False] * len(rows)
        if version >= 3 and is_known(API_VERSIONS, version, REQUEST):
            body = Decoded(*self.made.bytes_of(rows), API_VERSIONS, version, REQUEST).body
            names, versions = (body.field(f"clientSoftware{what}").to_pylist() for what in ("Name", "Version"))
            for place in range(len(rows)):
                if names[place] is not None:
                    values[place] = f"{names[place]}{_SEPARATOR}{versions[place]}"
        if version >= 3:
            later = self._refused(rows, version)
        for row, value, after in zip(rows.tolist(), values, later, strict=True):
            yield Event(
                int(frames[row, F_CONNECTION]), int(frames[row, F_OFFSET]) + after, value, bool(frames[row, F_DONE])
            )

    @cached_property
    def _answers(self) -> dict[int, int]:
        """Return the response of each request, as frames."""
        return dict(zip(self.request.tolist(), self.response.tolist(), strict=True))

    def _refused(self, rows: Ints, version: int) -> list[bool]:
        """Tell which ApiVersions requests a broker did not take; without an answer: those newer than its release."""
        newest = catalog.api(API_VERSIONS).current_versions.highest
        answers = np.array([self._answers.get(row, -1) for row in rows.tolist()], np.int64)
        there = (answers >= 0) & (self.made.frames[answers, F_HAVE] >= 6)
        found = np.full(len(rows), version >= newest)
        sizes = np.full(int(there.sum()), 2, np.int64)
        raw, _ = self.made.bytes_of(answers[there], lead=4, sizes=sizes)
        codes = raw[: 2 * len(sizes)].reshape(-1, 2)
        found[there] = (codes[:, 0] == 0) & (codes[:, 1] == UNSUPPORTED_VERSION)
        return [bool(one) for one in found]

    @cached_property
    def principals(self) -> list[str | None]:
        """Return who logged in on the connection of each call."""
        events = [*self._by_authenticate(), *self._by_tokens()]
        return self.maker.principals.fill(events, self.connection, self.of(REQUEST, F_OFFSET), after=True)

    def _by_authenticate(self) -> Iterator[Event]:
        rows = np.sort(
            np.concatenate(
                [[], *(rows for _, _, rows in self.groups(REQUEST, only=lambda key: key == SASL_AUTHENTICATE))]
            )
        ).astype(np.int64)
        for row in rows.tolist():
            raw, _ = self.bytes_of(REQUEST, np.array([row]))
            answer = self.response[row]
            if answer < 0 or not self.made.frames[answer, F_HAVE]:
                continue
            connection = int(self.connection[row])
            token = _token_of(raw.tobytes(), int(self.of(REQUEST, F_VERSION)[row]))
            user = sasl_user(token)
            if user is not None:
                self.maker.logging_in[connection] = user
            code = self._error_of_authenticate(int(answer), row)
            is_scram_first = user is not None and not token.startswith(b"\0") and b"\0" not in token
            if code == 0 and not is_scram_first and connection in self.maker.logging_in:
                offset = int(self.of(REQUEST, F_OFFSET)[row])
                yield Event(connection, offset, f"User:{self.maker.logging_in.pop(connection)}", True)

    def _error_of_authenticate(self, answer: int, row: int) -> int:
        flexible = int(self.of(REQUEST, F_VERSION)[row]) >= 2
        lead = 5 if flexible else 4
        if self.made.frames[answer, F_HAVE] < lead + 2:
            return -1
        raw, _ = self.made.bytes_of(np.array([answer]), lead=lead, sizes=np.array([2]))
        return int.from_bytes(raw[:2].tobytes(), "big")

    def _by_tokens(self) -> Iterator[Event]:
        frames = self.made.frames
        tokens = np.flatnonzero((frames[:, F_FLAGS] & TOKEN != 0) & (frames[:, F_RESPONSE] == 0))
        for frame in tokens.tolist():
            raw, _ = self.made.bytes_of(np.array([frame]))
            user = sasl_user(raw[: int(frames[frame, F_HAVE])].tobytes())
            if user is not None:
                place = int(frames[frame, F_CONNECTION]), int(frames[frame, F_OFFSET])
                yield Event(*place, f"User:{user}", bool(frames[frame, F_DONE]))

    # ------------------------------------------------------------------------------------------ plain columns

    def times(self, direction: str) -> pa.Array:
        """Return when requests or responses were whole."""
        values = self.of(direction, F_END_TIME) // 1000
        return pa.array(values, pa.int64(), mask=self.side(direction) < 0).cast(TIMESTAMP)

    def latency(self) -> pa.Array:
        """Return milliseconds between request and response."""
        taken = (self.of(RESPONSE, F_END_TIME) - self.of(REQUEST, F_END_TIME)) / 1e6
        return pa.array(taken, pa.float64(), mask=(self.request < 0) | (self.response < 0))

    def client_ids(self) -> pa.Array:
        """Return the client ids; null where a header has none."""
        lengths = self.of(REQUEST, F_ID_LENGTH)
        rows = np.flatnonzero((self.request >= 0) & (lengths >= 0))
        raw, starts = self.made.bytes_of(self.request[rows], lead=_ID_AT, sizes=lengths[rows])
        offsets = np.zeros(self.count + 1, np.int64)
        offsets[rows + 1] = np.diff(starts)
        np.cumsum(offsets, out=offsets)
        valid = np.zeros(self.count, bool)
        valid[rows] = True
        buffers = [np.packbits(valid, bitorder="little"), offsets.astype(np.int32), raw]
        return _text(pa.Array.from_buffers(pa.binary(), self.count, [pa.py_buffer(one) for one in buffers]))

    def api_names(self) -> pa.Array:
        """Return the names of the APIs."""
        keys = np.where(self.has_api, self.of(REQUEST, F_API), -1)
        unique, inverse = np.unique(keys, return_inverse=True)
        names = pa.array([_api_name(key) for key in unique.tolist()], pa.string())
        return names.take(pa.array(inverse, pa.int64()))

    def flexible(self) -> pa.Array:
        """Return whether the versions are flexible; null where the API or version is not known."""
        kinds = np.where(self.has_api, (self.of(REQUEST, F_API) << 16) | self.of(REQUEST, F_VERSION), -1)
        unique, inverse = np.unique(kinds, return_inverse=True)
        known = pa.array([_is_flexible(kind) for kind in unique.tolist()], pa.bool_())
        return known.take(pa.array(inverse, pa.int64()))

    def correlation_ids(self) -> pa.Array:
        """Return the correlation ids, of the response where there is no request."""
        asked = self.of(REQUEST, F_CORRELATION)
        values = np.where(self.request >= 0, asked, self.of(RESPONSE, F_CORRELATION))
        known = self.has_api | ((self.request < 0) & (self.of(RESPONSE, F_HAVE) >= 4))
        return pa.array(values, pa.int64(), mask=~known).cast(pa.int32())

    def file_names(self) -> pa.Array:
        """Return the file of each request, or of the response where there is none."""
        number = np.where(self.request >= 0, self.of(REQUEST, F_NUMBER), self.of(RESPONSE, F_NUMBER))
        return pa.array(self.maker.files, pa.string()).take(pa.array(number >> FILE_SHIFT, pa.int64()))

    def packets(self, direction: str) -> pa.Array:
        """Return the number of the packet in which each request or response starts."""
        values = self.of(direction, F_NUMBER) & FILE_MASK
        return pa.array(values, pa.int64(), mask=self.side(direction) < 0)

    def raw(self, direction: str) -> pa.Array:
        """Return what there is of the bytes of requests or responses."""
        rows = np.flatnonzero(self.side(direction) >= 0)
        raw, starts = self.bytes_of(direction, rows)
        values: list[bytes | None] = [None] * self.count
        keys = self.of(REQUEST, F_API).tolist()
        for place, row in enumerate(rows.tolist()):
            if has_secrets(keys[row]) and not self.maker.secrets:
                continue
            values[row] = raw[starts[place] : starts[place + 1]].tobytes()
        return pa.array(values, pa.binary())

    def error_texts(self) -> pa.Array:
        """Return what is wrong; what other columns have found is among it."""
        if self.wanted & _NEEDS_JSON.keys() and self.maker.typed is None:
            _ = self.texts
        if "errors" in self.wanted:
            _ = self.error_codes
        keys = self.of(REQUEST, F_API)
        for key in np.unique(keys[self.has_api]).tolist():
            if _api_name(key) is None:
                for row in np.flatnonzero(self.has_api & (keys == key)).tolist():
                    self.tell(row, f"request: Kafka has no API {key}")
        return pa.array(self.errors, pa.string())


def _has_records(direction: str) -> Callable[[int], bool]:
    return lambda key: (key, direction) in WITH_RECORDS


def _token_of(request: bytes, version: int) -> bytes:
    """Return the token of a SaslAuthenticate request; empty where it cannot be read."""
    from kafkaframes.errors import DecodeError
    from kafkaframes.messages.headers import decode_request

    try:
        return bytes(decode_request(request).body.auth_bytes)
    except DecodeError:
        return b""


def _api_name(key: int) -> str | None:
    return next((api.name for api in catalog.apis() if api.key == key), None)


def _is_flexible(kind: int) -> bool | None:
    key, version = kind >> 16, kind & 0xFFFF
    api = next((one for one in catalog.apis() if one.key == key), None) if kind >= 0 else None
    if api is None or not api.versions.contains(version):
        return None
    return api.flexible_since is not None and version >= api.flexible_since


def _text(array: pa.Array) -> pa.Array:
    """Return bytes as text; what is not UTF-8 is replaced, as Java does."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if one is None else one.decode("utf-8", "replace") for one in array.to_pylist()]
        return pa.array(texts, pa.string())


def _summary_column(count: int, places: list[Ints], counts: list[Ints], cuts: Ints, valid: Any) -> pa.Array:
    """Return the column of records, made of columns."""
    owners = np.concatenate([np.zeros(0, np.int64), *places])
    table = np.concatenate([np.zeros((0, 72), np.int64), *counts]).reshape(-1, 24, 3)
    order = np.argsort(owners, kind="stable")
    owners, table = owners[order], table[order]
    which, kinds = np.nonzero(table[:, :, 0])
    sets = pa.StructArray.from_arrays(
        [
            pa.array(kinds // 8, pa.int32()),
            pa.array([*CODECS, *(f"unknown {n}" for n in (5, 6, 7))], pa.string()).take(
                pa.array(kinds % 8, pa.int64())
            ),
            *(pa.array(np.ascontiguousarray(table[which, kinds, place]), pa.int64()) for place in range(3)),
        ],
        fields=list(SET),
    )
    offsets = np.zeros(count + 1, np.int64)
    np.add.at(offsets, owners[which] + 1, 1)
    lists = pa.ListArray.from_arrays(pa.array(np.cumsum(offsets), pa.int32()), sets, type=RECORDS.field("sets").type)
    return pa.StructArray.from_arrays(
        [lists, pa.array(cuts, pa.int32())], fields=list(RECORDS), mask=pa.array(~valid, pa.bool_())
    )


def _text_column(name: str) -> Callable[[_Calls], pa.Array]:
    def column(calls: _Calls) -> pa.Array:
        typed = calls.maker.typed
        if typed is not None and name in (REQUEST, RESPONSE):
            return calls.typed_bodies(name, typed)
        return pa.array(calls.texts[name], pa.string())

    return column


_MAKERS: Final[dict[str, Callable[[_Calls], pa.Array]]] = {
    "requestTime": lambda calls: calls.times(REQUEST),
    "responseTime": lambda calls: calls.times(RESPONSE),
    "latencyMs": lambda calls: calls.latency(),
    "clientAddress": lambda calls: calls.end("client", pa.string()),
    "clientPort": lambda calls: calls.end("client_port", pa.int32()),
    "serverAddress": lambda calls: calls.end("server", pa.string()),
    "serverPort": lambda calls: calls.end("server_port", pa.int32()),
    "clientId": lambda calls: calls.client_ids(),
    "softwareName": lambda calls: calls.software[0],
    "softwareVersion": lambda calls: calls.software[1],
    "principal": lambda calls: pa.array(calls.principals, pa.string()),
    "apiKey": lambda calls: calls.numbers(REQUEST, F_API, pa.int32(), least=0),
    "apiName": lambda calls: calls.api_names(),
    "apiVersion": lambda calls: calls.numbers(REQUEST, F_VERSION, pa.int32(), least=0),
    "flexible": lambda calls: calls.flexible(),
    "correlationId": lambda calls: calls.correlation_ids(),
    "requestSizeBytes": lambda calls: calls.numbers(REQUEST, F_SIZE, pa.int64()),
    "responseSizeBytes": lambda calls: calls.numbers(RESPONSE, F_SIZE, pa.int64()),
    **{name: _text_column(name) for name in _NEEDS_JSON},
    "errors": lambda calls: calls.error_codes,
    "records": lambda calls: calls.summaries,
    "file": lambda calls: calls.file_names(),
    "connection": lambda calls: calls.end("label", pa.string()),
    "_error": lambda calls: calls.error_texts(),
    "requestState": lambda calls: pa.array(calls.state(REQUEST), pa.string()),
    "responseState": lambda calls: pa.array(calls.state(RESPONSE), pa.string()),
    "requestOffset": lambda calls: calls.numbers(REQUEST, F_OFFSET, pa.int64()),
    "responseOffset": lambda calls: calls.numbers(RESPONSE, F_OFFSET, pa.int64()),
    "requestPacket": lambda calls: calls.packets(REQUEST),
    "responsePacket": lambda calls: calls.packets(RESPONSE),
    "requestBytes": lambda calls: calls.raw(REQUEST),
    "responseBytes": lambda calls: calls.raw(RESPONSE),
}
