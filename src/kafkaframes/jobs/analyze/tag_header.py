"""What tagged fields cost: KIP-482's two varints, its draft's one interleaved number, and what the KIP rejects.

Four ways to write the optional fields of a struct, compared by size alone:

* ``adopted``: a count, then tag and length as two unsigned varints before each field; an empty section is one byte.
* ``interleaved``: the same with the draft's header (``wire/tag_header.py``).
* ``escape``: an empty section takes no byte. A model, for the KIP gives none: an escape byte before the struct says
  that a section follows, so a section that is there takes one byte more than adopted. That a struct which itself
  begins with the escape byte has to double it is left out: one in 256, were first bytes random.
* ``all tagged``: no mandatory fields; each field has a header of tag and length, which is also the length of strings
  and bytes. Fields are numbered in their order. All are written, for the KIP speaks of fields that are always used.

Pure functions on layouts; sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kafkaframes.errors import OptionError
from kafkaframes.protocol.spec.layout import Slot, layout, walk
from kafkaframes.protocol.spec.model import PRIMITIVES, MessageSpec
from kafkaframes.wire.tag_header import TAG_HEADERS
from kafkaframes.wire.varint import size_of_unsigned_varint

ADOPTED, INTERLEAVED, ESCAPE, ALL_TAGGED = SCHEMES = ("adopted", "interleaved", "escape", "all tagged")
LENGTHS: Final = (0, 4, 15, 16, 127, 128, 2047, 2048, 16383, 2**20, 2**31 - 1)
TAGS: Final = (0, 5, 7, 8, 127, 128, 1023, 1024, 16383, 2**31 - 1)
DEFAULT_TEXT_BYTES: Final = 10


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
    """A tagged field of a message; ``length`` is of its value where strings have the bytes that were assumed."""

    message: str
    version: int
    path: str
    type: str
    header: HeaderSize


@dataclass(frozen=True, slots=True)
class MessageSize:
    """A message in each scheme of ``SCHEMES``: with no tagged field written (``bare``), and with all of them."""

    message: str
    version: int
    bare: dict[str, int]
    filled: dict[str, int]


def header_size(length: int, tag: int) -> HeaderSize:
    """Return the header's size both ways.

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


def tagged_fields(spec: MessageSpec, version: int, text_bytes: int = DEFAULT_TEXT_BYTES) -> Iterator[TaggedField]:
    """Yield the tagged fields of a version, those of nested structs too.

    Args:
        spec: the message; ``version`` one of its versions.
        version: see ``spec``.
        text_bytes: how long strings and bytes are; arrays have one element.
    """
    measure = _Measure(ADOPTED, text_bytes, filled=True)
    for path, slot in walk(layout(spec, version)):
        if slot.tag is not None:
            header = header_size(measure.value(slot), slot.tag)
            yield TaggedField(spec.name, version, ".".join(path), str(slot.type), header)


def message_size(spec: MessageSpec, version: int, text_bytes: int = DEFAULT_TEXT_BYTES) -> MessageSize:
    """Return the size of a message in each scheme: one element in each array, nothing null.

    Raises:
        OptionError: the version is not flexible: it has no tag sections.
    """
    if not spec.flexible_versions.contains(version):
        raise OptionError(f"{spec.name} {version} is not flexible: it has no tagged fields")
    slots = layout(spec, version)
    sizes = [
        {scheme: _Measure(scheme, text_bytes, filled=filled).struct(slots) for scheme in SCHEMES}
        for filled in (False, True)
    ]
    return MessageSize(spec.name, version, *sizes)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Sizes of values in one scheme; ``filled``: the fields that are tagged in the spec are written too."""

    scheme: str
    text_bytes: int
    filled: bool

    def struct(self, slots: tuple[Slot, ...]) -> int:
        """Return the size of a struct with its tag section."""
        tagged = [slot for slot in slots if slot.tag is not None] if self.filled else []
        mandatory = [slot for slot in slots if slot.tag is None]
        if self.scheme == ALL_TAGGED:
            return self.section([(tag, self.inside(slot)) for tag, slot in enumerate([*mandatory, *tagged])])
        section = self.section([(slot.tag or 0, self.value(slot)) for slot in tagged])
        if self.scheme == ESCAPE:
            section = 1 + section if tagged else 0
        return sum(map(self.value, mandatory)) + section

    def section(self, fields: list[tuple[int, int]]) -> int:
        """Return the size of a tag section of fields (tag, size of the value)."""
        header = TAG_HEADERS[INTERLEAVED if self.scheme == INTERLEAVED else ADOPTED]
        return size_of_unsigned_varint(len(fields)) + sum(header.size(tag, size) + size for tag, size in fields)

    def value(self, slot: Slot) -> int:
        """Return the size of a field's value, its own length included; a nullable struct has a byte before it."""
        if slot.type.is_array:
            return (size_of_unsigned_varint(2) if slot.is_compact else 4) + self.element(slot)
        return self.element(slot) + (1 if slot.type.is_struct and slot.is_nullable else 0)

    def element(self, slot: Slot) -> int:
        """Return the size of a struct, of a primitive, or of an array's element."""
        if slot.type.is_struct:
            return self.struct(slot.children)
        fixed = PRIMITIVES[slot.type.name]
        if fixed is not None:
            return fixed
        prefix = size_of_unsigned_varint(self.text_bytes + 1)
        return self.text_bytes + (prefix if slot.is_compact else 2 if slot.type.name == "string" else 4)

    def inside(self, slot: Slot) -> int:
        """Return the size of a value whose length stands in its header already."""
        is_text = not slot.type.is_array and not slot.type.is_struct and PRIMITIVES[slot.type.name] is None
        return self.text_bytes if is_text else self.value(slot)
