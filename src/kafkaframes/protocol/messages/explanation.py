"""Explanations of each byte of a message or of record batches, as values and as the lines of an annotated hex dump.

The functions that create objects of these classes are in ``kafkaframes.protocol``.
"""

from __future__ import annotations

import dataclasses
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from kafkaframes.errors import CorruptRecordError, DecodeError
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.messages.annotate import AnnotatedMessage, AnnotatedRange, pair_runs
from kafkaframes.protocol.messages.objects import Message
from kafkaframes.protocol.spec.catalog.ledgers import ReleaseNames
from kafkaframes.records.annotate import HEADERS, RECORDS, AnnotatedBytes, draw_records

if TYPE_CHECKING:
    from kafkaframes.records.batch import Batch

_BYTES_PER_LINE: Final = 16
_MAX_LINES: Final = 4  # largest number of lines for a run of bytes, unless all bytes are requested
_COMPARISON_COLUMN_WIDTH: Final = 38  # characters for each of the two compared messages


class _ReprAsLines:
    """Base class of explanations. The ``repr`` of an explanation is the text of its lines, also in notebooks."""

    __slots__ = ()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the explanation."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


@dataclass(frozen=True, slots=True, repr=False)
class MessageExplanation(_ReprAsLines):
    """A message, field by field, as an annotated hex dump.

    Attributes:
        data: the bytes.
        fields: the bytes of each field, count, tag and size, in order.
        messages: the decoded header and body, each with its name and version.
        error: reason why the fields end before the last byte; None if all bytes are explained.
    """

    data: bytes
    fields: tuple[AnnotatedRange, ...]
    messages: tuple[tuple[str, int, Message], ...]
    error: DecodeError | None

    @classmethod
    def of(cls, data: bytes, annotation: AnnotatedMessage, *, names_of: str | None = None) -> MessageExplanation:
        """Return the explanation of annotated bytes; with ``names_of``, paths include that release's field names."""
        runs = annotation.runs
        if names_of is not None:
            names = ReleaseNames(names_of)
            runs = [dataclasses.replace(run, path=_use_former_name(run.path, names, names_of)) for run in runs]
        return cls(data, tuple(runs), tuple(annotation.values), annotation.error)

    @property
    def position(self) -> int:
        """The position after the last field."""
        return self.fields[-1].end if self.fields else 0

    def to_dict(self) -> dict[str, Any]:
        """Return header and body in Kafka's JSON form, by message name. Records are base64."""
        return {name: value.to_json(version, records="base64") for name, version, value in self.messages}

    def lines(self, *, all_bytes: bool = False, depth: int = 0) -> Iterator[str]:
        """Yield the lines of the dump: position, bytes, field, value.

        Args:
            all_bytes: whether every byte of long values is printed.
            depth: 1 to also explain the headers of record batches in the message, 2 to explain their records as well.
        """
        return dump_lines(self, show_all=all_bytes, depth=depth)


@dataclass(frozen=True, slots=True, repr=False)
class RecordsExplanation(_ReprAsLines):
    """Record batches or message sets, field by field, as an annotated hex dump.

    Attributes:
        data: the bytes.
        parts: the fields of ``data``, then those of the decompressed records of each compressed batch.
    """

    data: bytes
    parts: tuple[AnnotatedBytes, ...]

    @property
    def error(self) -> DecodeError | None:
        """The reason why the fields end before the last byte; None if all bytes are explained."""
        return next((part.error for part in self.parts if part.error is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the batches with their records, under Kafka's field names. Keys and values are base64.

        ``error`` is the first damage, or null.
        """
        batches, error = read_batch_forms(self.data)
        return {"batches": batches, "error": None if error is None else str(error)}

    def lines(self, *, all_bytes: bool = False) -> Iterator[str]:
        """Yield the lines of the dump.

        Args:
            all_bytes: whether every byte of long values is printed.
        """
        return format_drawings(list(self.parts), show_all=all_bytes)


@dataclass(frozen=True, slots=True, repr=False)
class MessageComparison(_ReprAsLines):
    """Two encodings of a message, field by field, as a list of the fields that differ.

    Attributes:
        first: the first encoding.
        second: the second encoding.
        pairs: fields of both encodings, in order; None on the side that lacks the field.
    """

    first: MessageExplanation
    second: MessageExplanation
    pairs: tuple[tuple[AnnotatedRange | None, AnnotatedRange | None], ...]

    @classmethod
    def of(cls, first: MessageExplanation, second: MessageExplanation) -> MessageComparison:
        """Return the comparison of two explanations, with their fields in pairs."""
        annotations = [
            AnnotatedMessage(
                len(explanation.data), list(explanation.fields), list(explanation.messages), explanation.error
            )
            for explanation in (first, second)
        ]
        return cls(first, second, tuple(pair_runs(*annotations)))

    @property
    def is_equal(self) -> bool:
        """Whether the bytes of every field are equal, and both encodings are valid."""
        errors = (self.first.error, self.second.error)
        return errors == (None, None) and all(self._is_same(*pair) for pair in self.pairs)

    def _is_same(self, entry: AnnotatedRange | None, other_entry: AnnotatedRange | None) -> bool:
        """Return whether two fields exist and have the same bytes."""
        if entry is None or other_entry is None:
            return False
        return _raw(self.first.data, entry) == _raw(self.second.data, other_entry)

    def lines(self, *, all_fields: bool = False) -> Iterator[str]:
        """Yield a line for each field that differs, and for each error.

        Args:
            all_fields: whether to yield lines for equal fields as well.
        """
        data = self.first.data, self.second.data
        for pair in self.pairs:
            is_same = self._is_same(*pair)
            if all_fields or not is_same:
                yield _format_diff_line(data, *pair, is_same)
        for side, explanation in (("left", self.first), ("right", self.second)):
            if explanation.error is not None:
                yield f"! {side}: {explanation.error}"


def explain_record_bytes(data: bytes, *, depth: int | None = None) -> RecordsExplanation:
    """Explain batches or message sets; a depth of 1 explains only their headers, 2 or None also their records."""
    parts = draw_records(data, depth=RECORDS if depth is None else max(depth, HEADERS))
    return RecordsExplanation(data, tuple(parts))


def read_batch_forms(data: bytes) -> tuple[list[dict[str, Any]], CorruptRecordError | None]:
    """Return batches and their records as JSON values, and the first error."""
    from kafkaframes.records.batch import read_batches

    walk = read_batches(data)
    batches = list(walk)
    damage = next((batch.damage.reason for batch in batches if batch.damage is not None), None)
    position = 0 if walk.end is None else walk.end.position
    error = None
    if damage is not None or position < len(data):
        error = CorruptRecordError(damage or f"the bytes from {position} on are not a batch", position=position)
    return [_json_values(_batch_to_json(batch)) for batch in batches], error


def _json_values(value: Any) -> Any:
    """Return values with bytes in base64."""
    if isinstance(value, dict):
        return {name: _json_values(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return [_json_values(element) for element in value]
    return b64encode(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value


def _use_former_name(path: str, names: ReleaseNames, release: str) -> str:
    message, *steps = re.sub(r"\[\d+\]", "", path).split(".")
    former = names.former_name(message, steps) if steps else None
    return path if former is None else f"{path} = {former} in {release}"


def _raw(data: bytes, run: AnnotatedRange) -> bytes:
    return data[run.start : run.end]


def _format_diff_line(
    data: tuple[bytes, bytes], entry: AnnotatedRange | None, other_entry: AnnotatedRange | None, same: bool
) -> str:
    """Return the line of a field in a comparison, with a star if its bytes differ."""
    run = entry or other_entry
    assert run is not None
    sides = [_format_side(raw, side) for raw, side in zip(data, (entry, other_entry), strict=True)]
    first, second = (side.ljust(_COMPARISON_COLUMN_WIDTH) for side in sides)
    return f"{' ' if same else '*'} {first} | {second} {run.path} ({run.what})"


def _format_side(data: bytes, run: AnnotatedRange | None) -> str:
    """Return the bytes and the value of a field in one of two compared messages."""
    if run is None:
        return "-"
    raw = _raw(data, run)
    text = f"{run.start:06x} {raw[:6].hex()}{'..' if len(raw) > 6 else ''} {run.text()}"
    return text if len(text) <= _COMPARISON_COLUMN_WIDTH else f"{text[: _COMPARISON_COLUMN_WIDTH - 2]}.."


def _batch_to_json(batch: Batch) -> dict[str, Any]:
    """Return a batch with its records, with Kafka's field names."""
    fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    records = [
        _camel(record._asdict() | {"headers": [_camel(header._asdict()) for header in record.headers]})
        for record in batch.records
    ]
    return _camel(fields | {"records": records, "damage": None if batch.damage is None else batch.damage.reason})


def _camel(fields: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_(.)", lambda letter: letter[1].upper(), name): value for name, value in fields.items()}


def format_drawings(drawings: list[AnnotatedBytes], *, start: int = 0, show_all: bool = False) -> Iterator[str]:
    """Yield the lines of the listings of records. Positions of the first listing are relative to ``start``."""
    for number, drawing in enumerate(drawings):
        if drawing.title:
            yield f"# {drawing.title}"
        first = 0 if number else start
        width = min(max((len(run.path) for run in drawing.runs), default=0), 70)
        for run in drawing.runs:
            yield from _format_hex_lines(
                drawing.data[run.start : run.end], first + run.start, f"{run.path:<{width}}  {run.words}", show_all
            )
        if drawing.error is not None and drawing.position < len(drawing.data):
            tail = drawing.data[drawing.position :]
            position = first + drawing.position
            hex_text = tail[:_BYTES_PER_LINE].hex(" ")
            yield f"{position:08x}  {hex_text:<47}  ... {count_text(len(tail), 'byte')} not understood: {drawing.error}"
        elif drawing.error is not None:
            yield f"          {drawing.error}"


def dump_lines(annotation: MessageExplanation, *, show_all: bool = False, depth: int = 0) -> Iterator[str]:
    """Yield the lines of the dump: position, bytes, field, value. With a depth, also list records."""
    data = annotation.data
    for name, version, _ in annotation.messages:
        yield f"# {name} version {version}"
    width = min(max((len(_run_label(run)) for run in annotation.fields), default=0), 70)
    for run in annotation.fields:
        if depth and run.what == "records" and run.value:
            nested_data = data[run.end - len(run.value) : run.end]
            yield from _format_hex_lines(
                data[run.start : run.end - len(nested_data)],
                run.start,
                f"{_run_label(run)}  {count_text(len(nested_data), 'byte')}",
                False,
            )
            yield from format_drawings(
                draw_records(nested_data, depth=depth), start=run.end - len(nested_data), show_all=show_all
            )
            continue
        yield from _format_hex_lines(
            data[run.start : run.end], run.start, f"{_run_label(run):<{width}}  {run.text()}", show_all
        )
    if annotation.error is not None:
        tail = data[annotation.position :]
        yield (
            f"{annotation.position:08x}  {tail[:_BYTES_PER_LINE].hex(' '):<47}  "
            f"... {count_text(len(tail), 'byte')} not understood"
        )


def _run_label(run: AnnotatedRange) -> str:
    """Return the path of a field, followed by the kind of its bytes unless they are a plain value."""
    plain = run.what in ("string", "bytes", "records", "bool", "uuid", "float64") or run.what.startswith(
        ("int", "uint")
    )
    return run.path if plain else f"{run.path} ({run.what})"


def _format_hex_lines(raw: bytes, start: int, words: str, show_all: bool) -> Iterator[str]:
    """Yield the lines of the bytes at ``start``, with their description in the first line."""
    lines = [raw[position : position + _BYTES_PER_LINE] for position in range(0, len(raw), _BYTES_PER_LINE)] or [b""]
    shown_lines = lines if show_all else lines[:_MAX_LINES]
    for index, line in enumerate(shown_lines):
        text = f"{start + index * _BYTES_PER_LINE:08x}  {line.hex(' '):<47}"
        yield f"{text}  {words}" if index == 0 else text.rstrip()
    if len(shown_lines) < len(lines):
        yield f"          ... {count_text(len(raw) - len(shown_lines) * _BYTES_PER_LINE, 'byte')} more"
