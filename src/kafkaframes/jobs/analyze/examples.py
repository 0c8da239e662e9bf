"""Example messages of any spec and version, weighed where there is no traffic; and what their tags take.

One element in each array, texts of ten bytes, numbers that are not 0. A mix (``scale.py``) has no error and no tagged
field in them; beside the schemes of tags (``sizes.py``) nothing is null, and tagged fields are all written or none.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import REQUEST
from kafkaframes.jobs.analyze.proposals import Form
from kafkaframes.jobs.analyze.sizes import (
    ADOPTED,
    ALL_TAGGED,
    ESCAPE,
    INTERLEAVED,
    alone_sizes,
    fields_in,
    saved_by,
    sizes,
)
from kafkaframes.jobs.analyze.traffic import Messages
from kafkaframes.protocol.messages.columns import decode_columns
from kafkaframes.protocol.messages.framed import plan_frame
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.objects import Message, class_of
from kafkaframes.protocol.messages.plan import plan_message
from kafkaframes.protocol.spec.layout import Slot, layout
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.wire.tag_header import TAG_HEADERS

TEXT_BYTES: Final = 10
SCHEMES: Final = (ADOPTED, INTERLEAVED, ESCAPE, ALL_TAGGED)
LENGTHS: Final = (0, 4, 15, 16, 127, 128, 2047, 2048, 16383, 2**20, 2**31 - 1)
TAGS: Final = (0, 5, 7, 8, 127, 128, 1023, 1024, 16383, 2**31 - 1)


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
        chosen = (slot for slot in slots if slot.tag is None or self.tagged)
        return {f"{slot.name[:1].lower()}{slot.name[1:]}": self._value(slot) for slot in chosen}

    def _value(self, slot: Slot) -> Any:
        text, name = "x" * self.text_bytes, slot.type.name
        if slot.type.is_struct:
            value: Any = self._struct(slot.children)
        elif slot.name == "ErrorMessage" and slot.is_nullable and not self.error:
            value = None
        else:
            packed = base64.b64encode(text.encode()).decode()
            special = {
                "bool": slot.default is not True,
                "float64": 7.5,
                "string": text,
                "bytes": packed,
                "records": packed,
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
    """Return the size of a header as it was adopted and in the draft.

    >>> header_size(4, 5)
    HeaderSize(length=4, tag=5, adopted=2, interleaved=1, written=b'2')

    Raises:
        OptionError: tag or length is not a number of 31 bits.
    """
    for name, number in (("length", length), ("tag", tag)):
        if not 0 <= number < 1 << 31:
            raise OptionError(f"{name} {number} is not between 0 and {2**31 - 1}")
    written = bytearray()
    TAG_HEADERS[INTERLEAVED].write(written, tag, length)
    return HeaderSize(length, tag, TAG_HEADERS[ADOPTED].size(tag, length), len(written), bytes(written))


def header_sizes(lengths: Iterable[int] = LENGTHS, tags: Iterable[int] = TAGS) -> list[HeaderSize]:
    """Return the header of each length with each tag, the tags of a length side by side.

    Raises:
        OptionError: a number has more than 31 bits.
    """
    tags = tuple(tags)
    return [header_size(length, tag) for length in lengths for tag in tags]


def tagged_fields(spec: MessageSpec, version: int, text_bytes: int = TEXT_BYTES) -> Iterator[TaggedField]:
    """Yield the tagged fields of a version, those of nested structs too; each has the length that an example has."""
    array = Example(text_bytes, tagged=True, error=True).columns(spec, version)
    for path, field, values, _ in fields_in(array, plan_message(spec, version).root):
        if field.tag is not None:
            type_ = f"{'[]' if field.array else ''}{field.type if field.struct is None else field.struct.name}"
            length = int(alone_sizes(field, values, tagged=False)[0])
            yield TaggedField(spec.name, version, path, type_, header_size(length, field.tag))


def message_size(spec: MessageSpec, version: int, text_bytes: int = TEXT_BYTES) -> MessageSize:
    """Return the size of an example in each scheme.

    Raises:
        OptionError: the version is not flexible: it has no tag sections.
    """
    if not spec.flexible_versions.contains(version):
        raise OptionError(f"{spec.name} {version} is not flexible: it has no tagged fields")
    plan = plan_message(spec, version)
    examples = [Example(text_bytes, tagged, error=True).message(spec, version) for tagged in (False, True)]
    array = decode_columns(plan, [one.encode(version) for one in examples])
    adopted = sizes(plan, array)
    results = {scheme: (adopted - saved_by(scheme, plan, array)).tolist() for scheme in SCHEMES}
    return MessageSize(spec.name, version, *({scheme: each[row] for scheme, each in results.items()} for row in (0, 1)))
