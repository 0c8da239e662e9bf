"""Example messages, what their tags take, and the bytes of a cluster that was not captured.

An example of any spec and version has one element in each array, texts of ten bytes, numbers that are not 0. A mix has
no error and no tagged field in them; beside the schemes of tags (``sizes.py``) nothing is null, and tagged fields are
all written or none.

A mix, calls a second by API and version, is a CSV file with ``api,version,calls_per_second``, or recorded traffic,
whose calls are counted. What a call takes is the mean of those weighed at its version; where there is none, an example
stands for it.
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
from kafkaframes.errors import OptionError, path_error_text
from kafkaframes.errors.sensitive import REQUEST
from kafkaframes.jobs.analyze.outcome import NOT_RAISED, NOT_READ, Outcome, Weight
from kafkaframes.jobs.analyze.proposals import Form, Question
from kafkaframes.jobs.analyze.sizes import (
    ADOPTED,
    ALL_TAGGED,
    ESCAPE,
    INTERLEAVED,
    alone_sizes,
    count_saved_bytes,
    fields_in,
    sizes,
)
from kafkaframes.jobs.analyze.traffic import Messages
from kafkaframes.jobs.analyze.weigh import Bench
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.framed import plan_frame
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.objects import Message, class_of
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.messages.registry import CATALOG, Apis
from kafkaframes.protocol.spec.layout import Slot, layout
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.varint import TAG_HEADERS

TEXT_BYTES: Final = 10
SCHEMES: Final = (ADOPTED, INTERLEAVED, ESCAPE, ALL_TAGGED)
LENGTHS: Final = (0, 4, 15, 16, 127, 128, 2047, 2048, 16383, 2**20, MAX_INT32)
TAGS: Final = (0, 5, 7, 8, 127, 128, 1023, 1024, 16383, MAX_INT32)


@dataclass(frozen=True, slots=True)
class Example:
    """What is in an example: ``tagged`` fields, and the message of an ``error``."""

    text_bytes: int = TEXT_BYTES
    tagged: bool = False
    error: bool = False

    def message(self, spec: MessageSpec, version: int) -> Message:
        """Return an example at a version."""
        value: Message = class_of(spec).from_json(self._struct(layout(spec, version)), version)
        return value

    def columns(self, spec: MessageSpec, version: int) -> pa.StructArray:
        """Return the same as columns of one row."""
        return decode_columns(plan_message(spec, version), [self.message(spec, version).encode(version)])

    def _struct(self, slots: Sequence[Slot]) -> dict[str, Any]:
        slots_to_fill = (slot for slot in slots if slot.tag is None or self.tagged)
        return {f"{slot.name[:1].lower()}{slot.name[1:]}": self._value(slot) for slot in slots_to_fill}

    def _value(self, slot: Slot) -> Any:
        text, name = "x" * self.text_bytes, slot.type.name
        if slot.type.is_struct:
            value: Any = self._struct(slot.children)
        elif slot.name == "ErrorMessage" and slot.is_nullable and not self.error:
            value = None
        else:
            packed_value = base64.b64encode(text.encode()).decode()
            special = {
                "bool": slot.default is not True,
                "float64": 7.5,
                "string": text,
                "bytes": packed_value,
                "records": packed_value,
                "uuid": base64.urlsafe_b64encode(b"x" * 16).decode().rstrip("="),
            }
            value = special.get(name, 0 if slot.name.endswith("ErrorCode") and not self.error else 7)
        return [value] if slot.type.is_array else value


def example_messages(form: Form, direction: str) -> Messages:
    """Return one message of a form as traffic."""
    spec, version = form.spec, form.version
    value = Example().message(spec, version)
    if direction == REQUEST:
        data = encode_request(value, version, client_id="x" * TEXT_BYTES)
    else:
        data = encode_response(value, version)
    columns = decode_columns(plan_frame(*form), [data])
    key = -1 if spec.api_key is None else spec.api_key
    return Messages(key, version, direction, columns, None, np.zeros(1, np.int64), [(None, None, None)])


# ---- what tags take -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeaderSize:
    """The header of one field: ``written`` is the draft's header as bytes."""

    length: int
    tag: int
    adopted: int
    interleaved: int
    written: bytes


@dataclass(frozen=True, slots=True)
class TaggedField:
    """A tagged field of a message; ``length`` is of its value in an example."""

    message: str
    version: int
    path: str
    type: str
    header: HeaderSize


@dataclass(frozen=True, slots=True)
class MessageSize:
    """An example in each of ``SCHEMES``: with no tagged field written (``bare``), and with all of them."""

    message: str
    version: int
    bare: dict[str, int]
    filled: dict[str, int]


def header_size(length: int, tag: int) -> HeaderSize:
    """Return the size of a header as it was adopted and in the draft; tag and length have 31 bits.

    >>> header_size(4, 5)
    HeaderSize(length=4, tag=5, adopted=2, interleaved=1, written=b'2')
    """
    for name, number in (("length", length), ("tag", tag)):
        if not 0 <= number <= MAX_INT32:
            raise OptionError(f"{name} {number} is not between 0 and {MAX_INT32}")
    output = bytearray()
    TAG_HEADERS[INTERLEAVED].write(output, tag, length)
    return HeaderSize(length, tag, TAG_HEADERS[ADOPTED].size(tag, length), len(output), bytes(output))


def header_sizes(lengths: Iterable[int] = LENGTHS, tags: Iterable[int] = TAGS) -> list[HeaderSize]:
    """Return the header of each length with each tag, the tags of a length side by side."""
    tags = tuple(tags)
    return [header_size(length, tag) for length in lengths for tag in tags]


def find_tagged_fields(spec: MessageSpec, version: int, text_bytes: int = TEXT_BYTES) -> Iterator[TaggedField]:
    """Yield the tagged fields of a version, those of nested structs too; each has the length that an example has."""
    array = Example(text_bytes, tagged=True, error=True).columns(spec, version)
    for path, field, values, _ in fields_in(array, plan_message(spec, version).root):
        if field.tag is not None:
            type_ = f"{'[]' if field.array else ''}{field.type if field.struct is None else field.struct.name}"
            length = int(alone_sizes(field, values, is_tagged=False)[0])
            yield TaggedField(spec.name, version, path, type_, header_size(length, field.tag))


def message_size(spec: MessageSpec, version: int, text_bytes: int = TEXT_BYTES) -> MessageSize:
    """Return the size of an example in each scheme; a version without tag sections is refused."""
    if not spec.flexible_versions.contains(version):
        raise OptionError(f"{spec.name} {version} is not flexible: it has no tagged fields")
    plan = plan_message(spec, version)
    examples = [Example(text_bytes, tagged_plan, error=True).message(spec, version) for tagged_plan in (False, True)]
    array = decode_columns(plan, [one.encode(version) for one in examples])
    adopted_sizes = sizes(plan, array)
    results = {scheme: (adopted_sizes - count_saved_bytes(scheme, plan, array)).tolist() for scheme in SCHEMES}
    return MessageSize(spec.name, version, *({scheme: each[row] for scheme, each in results.items()} for row in (0, 1)))


SECONDS_A_DAY: Final = 86_400
MEASURED, EXAMPLE = "measured", "example"


class Rate(NamedTuple):
    """How often an API is called at a version."""

    api_key: int
    api_version: int
    calls_per_second: float


class Scaled(NamedTuple):
    """Bytes a second of one API, version and direction; ``basis`` says where the size of a message is from."""

    api_key: int
    api_version: int
    direction: str
    kind: str
    calls_per_second: float
    before: float
    after: float
    basis: str

    @property
    def saved(self) -> float:
        """Bytes saved a second."""
        return self.before - self.after


def read_mix(path: str, apis: Apis = CATALOG) -> list[Rate]:
    """Return the rates of a CSV file; an API or version that there is not is an ``OptionError``."""
    keys = {api.name.lower(): api for api in apis.table.values()}
    rates = []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                api = keys[row["api"].lower()]
                version = int(row.get("version") or api.versions.highest)
                if not api.versions.contains(version):
                    raise OptionError(f"`scale` {path}: {api.name} has no version {version}")
                rates.append(Rate(api.key, version, float(row["calls_per_second"])))
    except OSError as error:
        raise OptionError(f"`scale`: {path_error_text(error, path)}") from None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        reason = "no columns api, version, calls_per_second, or no such API"
        raise OptionError(f"`scale` {path}: {reason} ({error})") from None
    if not rates:
        raise OptionError(f"`scale` {path}: no row")
    return rates


def mix_of_traffic(
    files: Sequence[str], ports: Sequence[int] = (), apis: Apis = CATALOG, coverage: Coverage | None = None
) -> list[Rate]:
    """Return the rates of recorded traffic: its calls by API and version, over the time that it took.

    What was not read is added to ``coverage``.

    Raises:
        OptionError: the traffic takes no time, so it has no rates.
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
        raise OptionError("`scale`: this traffic takes no time, so it has no calls a second")
    seconds = (last - first).total_seconds()
    return [Rate(key, version, count / seconds) for (key, version), count in sorted(counts.items())]


def scale_outcome(outcome: Outcome, rates: Sequence[Rate], question: Question) -> Iterator[Scaled]:
    """Yield the bytes a second of a mix, by what was weighed and, where nothing was, by examples."""
    measured = outcome.by("api_key", "api_version", "direction", "kind")
    for rate in rates:
        weights = {where[2:]: weight for where, weight in measured.items() if where[:2] == rate[:2]}
        basis = MEASURED
        if not any(weight.messages for weight in weights.values()):
            weights, basis = _example_weights(question, rate), EXAMPLE
        for (direction, kind), weight in sorted(weights.items()):
            if weight.messages and kind not in (NOT_READ, NOT_RAISED):
                each = rate.calls_per_second / weight.messages
                yield Scaled(*rate[:2], direction, kind, rate[2], weight.before * each, weight.after * each, basis)


def _example_weights(question: Question, rate: Rate) -> dict[tuple[str, str], Weight]:
    bench = Bench(question)
    for direction in bench.proposal.directions:
        form = bench.sent(rate.api_key, rate.api_version, direction)
        if form.spec.valid_versions.contains(rate.api_version):
            bench.weigh(example_messages(form, direction))
    return {(group.direction, group.kind): weight for group, weight in bench.outcome.weights.items()}
