"""Make example messages, compute sizes of tagged fields, and estimate the traffic of clusters without captures.

An example of a spec and version has one element in each array, texts of ten bytes, and numbers that are not 0. For a
mix, examples contain neither errors nor tagged fields. For the comparison of tag schemes (``sizes.py``), no field is
null, and either all tagged fields are written or none.

A mix is the number of calls per second by API and version. The mix is read from a CSV file with
``api,version,calls_per_second``, or counted in recorded traffic. The size of a call is the mean of the measured
messages of its version; without measured messages, the size of an example is used.
"""

from __future__ import annotations

import base64
import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.capture.coverage import Coverage
from kafkaframes.capture.reader import CaptureOptions, read_traffic
from kafkaframes.errors import OptionError, format_path_error
from kafkaframes.errors.sensitive import REQUEST
from kafkaframes.jobs.analyze.outcome import NOT_RAISED, NOT_READ, SizeComparison, SizeTotals
from kafkaframes.jobs.analyze.proposals import MessageForm, ProposalSettings
from kafkaframes.jobs.analyze.size_comparison import MessageSizeComparer
from kafkaframes.jobs.analyze.sizes import (
    ADOPTED,
    ALL_TAGGED,
    ESCAPE,
    INTERLEAVED,
    compute_single_field_sizes,
    compute_sizes,
    count_saved_bytes,
    iterate_fields,
)
from kafkaframes.jobs.analyze.traffic import ApiMessages
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.framed import make_frame_plan
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.objects import Message, class_of
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.spec.layout import FieldSlot, list_slots
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.varint import TAG_HEADERS

EXAMPLE_TEXT_BYTES: Final = 10  # length of strings and byte fields in example messages
# Schemes of the headers of tagged fields that are compared.
TAG_HEADER_SCHEMES: Final = (ADOPTED, INTERLEAVED, ESCAPE, ALL_TAGGED)
# Lengths around the limits of the varints in a header.
EXAMPLE_LENGTHS: Final = (0, 4, 15, 16, 127, 128, 2047, 2048, 16383, 2**20, MAX_INT32)
# Tag numbers around the limits of the varints in a header.
EXAMPLE_TAGS: Final = (0, 5, 7, 8, 127, 128, 1023, 1024, 16383, MAX_INT32)


@dataclass(frozen=True, slots=True)
class ExampleGenerator:
    """Generates example messages with a given text size, with or without tagged fields and an error message."""

    text_bytes: int = EXAMPLE_TEXT_BYTES
    has_tagged_fields: bool = False
    error: bool = False

    def make_message(self, spec: MessageSpec, version: int) -> Message:
        """Return an example message at a version."""
        value: Message = class_of(spec).from_json(self._make_struct(list_slots(spec, version)), version)
        return value

    def make_columns(self, spec: MessageSpec, version: int) -> pa.StructArray:
        """Return an example message as columns with one row."""
        return decode_columns(plan_message(spec, version), [self.make_message(spec, version).encode(version)])

    def _make_struct(self, slots: Sequence[FieldSlot]) -> dict[str, Any]:
        """Return an example struct as a JSON object. ``slots`` are the fields of the struct."""
        slots_to_fill = (slot for slot in slots if slot.tag is None or self.has_tagged_fields)
        return {f"{slot.name[:1].lower()}{slot.name[1:]}": self._make_value(slot) for slot in slots_to_fill}

    def _make_value(self, slot: FieldSlot) -> Any:
        """Return an example value of a field, as in JSON."""
        text, name = "x" * self.text_bytes, slot.type.name
        if slot.type.is_struct:
            value: Any = self._make_struct(slot.children)
        elif slot.name == "ErrorMessage" and slot.is_nullable and not self.error:
            value = None
        else:
            packed_value = base64.b64encode(text.encode()).decode()
            values_by_type = {
                "bool": slot.default is not True,
                "float64": 7.5,
                "string": text,
                "bytes": packed_value,
                "records": packed_value,
                "uuid": base64.urlsafe_b64encode(b"x" * 16).decode().rstrip("="),
            }
            value = values_by_type.get(name, 0 if slot.name.endswith("ErrorCode") and not self.error else 7)
        return [value] if slot.type.is_array else value


def make_example_messages(form: MessageForm, direction: str) -> ApiMessages:
    """Return one example message in the form of recorded traffic."""
    spec, version = form.spec, form.version
    value = ExampleGenerator().make_message(spec, version)
    if direction == REQUEST:
        data = encode_request(value, version, client_id="x" * EXAMPLE_TEXT_BYTES)
    else:
        data = encode_response(value, version)
    columns = decode_columns(make_frame_plan(*form), [data])
    key = -1 if spec.api_key is None else spec.api_key
    return ApiMessages(key, version, direction, columns, None, np.zeros(1, np.int64), [(None, None, None)])


# ---- what tags take -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeaderSize:
    """The size of a tagged field's header in KIP-482 and in its draft, and its bytes in the draft (``written``)."""

    length: int
    tag: int
    adopted: int
    interleaved: int
    written: bytes


@dataclass(frozen=True, slots=True)
class TaggedField:
    """A tagged field of a message, and its header with the length of an example value."""

    message: str
    version: int
    path: str
    type: str
    header: HeaderSize


@dataclass(frozen=True, slots=True)
class MessageSize:
    """The size of an example message by scheme, without tagged fields (``bare``) and with all of them (``filled``)."""

    message: str
    version: int
    bare: dict[str, int]
    filled: dict[str, int]


def compute_header_size(length: int, tag: int) -> HeaderSize:
    """Return the size of a tagged field's header in the adopted KIP-482 and in its draft.

    Tag and length are 31-bit numbers.

    >>> compute_header_size(4, 5)
    HeaderSize(length=4, tag=5, adopted=2, interleaved=1, written=b'2')
    """
    for name, number in (("length", length), ("tag", tag)):
        if not 0 <= number <= MAX_INT32:
            raise OptionError(f"{name} {number} is not between 0 and {MAX_INT32}")
    output = bytearray()
    TAG_HEADERS[INTERLEAVED].write(output, tag, length)
    return HeaderSize(length, tag, TAG_HEADERS[ADOPTED].size(tag, length), len(output), bytes(output))


def list_header_sizes(lengths: Iterable[int] = EXAMPLE_LENGTHS, tags: Iterable[int] = EXAMPLE_TAGS) -> list[HeaderSize]:
    """Return the header size for each length and tag, ordered by length and then by tag."""
    tags = tuple(tags)
    return [compute_header_size(length, tag) for length in lengths for tag in tags]


def find_tagged_fields(spec: MessageSpec, version: int, text_bytes: int = EXAMPLE_TEXT_BYTES) -> Iterator[TaggedField]:
    """Yield the tagged fields in a version and in its nested structs, with their lengths in an example."""
    array = ExampleGenerator(text_bytes, has_tagged_fields=True, error=True).make_columns(spec, version)
    for path, field, values, _ in iterate_fields(array, plan_message(spec, version).root):
        if field.tag is not None:
            type_ = f"{'[]' if field.array else ''}{field.type if field.struct is None else field.struct.name}"
            length = int(compute_single_field_sizes(field, values, is_tagged=False)[0])
            yield TaggedField(spec.name, version, path, type_, compute_header_size(length, field.tag))


def compare_message_sizes(spec: MessageSpec, version: int, text_bytes: int = EXAMPLE_TEXT_BYTES) -> MessageSize:
    """Return the size of an example message in each scheme. A version without tagged fields is rejected."""
    if not spec.flexible_versions.contains(version):
        raise OptionError(f"{spec.name} version {version} is not flexible, so it has no tagged fields")
    plan = plan_message(spec, version)
    examples = [
        ExampleGenerator(text_bytes, tagged_plan, error=True).make_message(spec, version)
        for tagged_plan in (False, True)
    ]
    array = decode_columns(plan, [example.encode(version) for example in examples])
    adopted_sizes = compute_sizes(plan, array)
    results = {
        scheme: (adopted_sizes - count_saved_bytes(scheme, plan, array)).tolist() for scheme in TAG_HEADER_SCHEMES
    }
    return MessageSize(
        spec.name, version, *({scheme: sizes[row] for scheme, sizes in results.items()} for row in (0, 1))
    )


SECONDS_PER_DAY: Final = 86_400
MEASURED_RATE, EXAMPLE_RATE = "measured", "example"


class CallRate(NamedTuple):
    """The number of calls per second of an API's version."""

    api_key: int
    api_version: int
    calls_per_second: float


class ByteRate(NamedTuple):
    """The bytes per second of messages of one API, version and direction.

    ``basis`` is the source of the message size.
    """

    api_key: int
    api_version: int
    direction: str
    kind: str
    calls_per_second: float
    before: float
    after: float
    basis: str

    @property
    def saved_bytes_per_s(self) -> float:
        """The number of bytes saved per second."""
        return self.before - self.after


def read_mix(path: str, apis: ApiRegistry = CATALOG) -> list[CallRate]:
    """Read call rates from a CSV file. An unknown API or version raises an ``OptionError``."""
    keys = {api.name.lower(): api for api in apis.apis_by_key.values()}
    rates = []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                api = keys[row["api"].lower()]
                version = int(row.get("version") or api.versions.highest)
                if not api.versions.contains(version):
                    raise OptionError(f"`scale` {path}: {api.name} has no version {version}")
                rates.append(CallRate(api.key, version, float(row["calls_per_second"])))
    except OSError as error:
        raise OptionError(f"`scale`: {format_path_error(error, path)}") from None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        reason = "expected columns api, version and calls_per_second, with names of known APIs"
        raise OptionError(f"`scale` {path}: {reason} ({error})") from None
    if not rates:
        raise OptionError(f"`scale` {path}: the file has no rows")
    return rates


def measure_mix(
    files: Sequence[str], ports: Sequence[int] = (), apis: ApiRegistry = CATALOG, coverage: Coverage | None = None
) -> list[CallRate]:
    """Return the call rates of recorded traffic: the number of calls by API and version, divided by the duration.

    Unread parts are added to ``coverage``.

    Raises:
        OptionError: all calls have the same time, so there is no rate.
    """
    counts, first, last = Counter[tuple[int, int]](), None, None
    columns = ("apiKey", "apiVersion", "requestTime", "responseTime")
    for batch in read_traffic(files, CaptureOptions(columns=columns, ports=tuple(ports), apis=apis), coverage):
        rows = batch.to_pylist()
        counts.update((row["apiKey"], row["apiVersion"]) for row in rows if row["apiKey"] is not None)
        times = [time for row in rows for time in (row["requestTime"], row["responseTime"]) if time is not None]
        if times:
            first, last = min([*times, *([first] if first else [])]), max([*times, *([last] if last else [])])
    if first is None or last is None or first == last:
        raise OptionError(
            "`scale`: the first and the last call have the same time, so there is no rate of calls; record for longer"
        )
    seconds = (last - first).total_seconds()
    return [CallRate(key, version, count / seconds) for (key, version), count in sorted(counts.items())]


def scale_outcome(outcome: SizeComparison, rates: Sequence[CallRate], settings: ProposalSettings) -> Iterator[ByteRate]:
    """Yield the bytes per second of a mix of calls.

    Without recorded messages, the sizes of example messages are used.
    """
    measured_totals = outcome.sum_totals_by("api_key", "api_version", "direction", "kind")
    for rate in rates:
        totals_by_group = {key[2:]: size_totals for key, size_totals in measured_totals.items() if key[:2] == rate[:2]}
        basis = MEASURED_RATE
        if not any(size_totals.messages for size_totals in totals_by_group.values()):
            totals_by_group, basis = _measure_example(settings, rate), EXAMPLE_RATE
        for (direction, kind), size_totals in sorted(totals_by_group.items()):
            if size_totals.messages and kind not in (NOT_READ, NOT_RAISED):
                calls_per_message = rate.calls_per_second / size_totals.messages
                yield ByteRate(
                    *rate[:2],
                    direction,
                    kind,
                    rate[2],
                    size_totals.before * calls_per_message,
                    size_totals.after * calls_per_message,
                    basis,
                )


def _measure_example(settings: ProposalSettings, rate: CallRate) -> dict[tuple[str, str], SizeTotals]:
    """Return the sizes of an example request and response of a call, by direction and kind."""
    comparer = MessageSizeComparer(settings)
    for direction in comparer.proposal.directions:
        form = comparer.get_wire_form(rate.api_key, rate.api_version, direction)
        if form.spec.valid_versions.contains(rate.api_version):
            comparer.compare_messages(make_example_messages(form, direction))
    return {
        (group.direction, group.kind): size_totals for group, size_totals in comparer.outcome.totals_by_group.items()
    }
