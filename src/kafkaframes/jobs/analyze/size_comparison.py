"""Measure messages of recorded traffic: compute their exact sizes in the old and the proposed layout.

Each message is encoded again in both layouts (``proposals.py``). The size of the encoding in its original version is
checked against the size on the wire. A message of an older version is converted to the newest version by decoding it
into that version's fields. The converted message has only the fields of the older version, with their values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError
from kafkaframes.jobs.analyze.added_fields import plan_new_columns
from kafkaframes.jobs.analyze.outcome import NOT_RAISED, NOT_READ, SizeComparison, SizeGroup, SizeTotals
from kafkaframes.jobs.analyze.proposals import RAISED, FormPair, MessageForm, ProposalSettings
from kafkaframes.jobs.analyze.sizes import (
    ADOPTED,
    MakeColumn,
    compute_sizes,
    count_moved_fields,
    count_saved_bytes,
    fit_columns,
    iterate_fields,
    iterate_lengths,
    map_fields_by_column,
)
from kafkaframes.jobs.analyze.traffic import ApiMessages, TrafficTask, read_messages
from kafkaframes.protocol.messages.columns import decode_columns, encode_columns
from kafkaframes.protocol.messages.framed import make_frame_plan
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan, plan_message
from kafkaframes.records.scan import Ints

_INT32_FIELD_BYTES: Final = 4  # size of a mandatory int32 field
_VERSION_REMOVED_REASON: Final = "the new specs do not have this message"
_ROW_POSITION_PATTERN: Final = re.compile(r"row \d+, |\[\d+\]")


class ComparisonTask(NamedTuple):
    """The input of one process or Spark task: a share of the traffic, and the proposal whose sizes are measured."""

    task: TrafficTask
    settings: ProposalSettings


def run_comparison_task(work: ComparisonTask) -> SizeComparison:
    """Measure the messages in a task's share of the traffic, before and after the proposed change."""
    comparer = MessageSizeComparer(work.settings)
    settings, coverage = work.settings, comparer.outcome.coverage
    for messages in read_messages(work.task, comparer.proposal.directions, settings.by, settings.apis, coverage):
        comparer.compare_messages(messages)
    return comparer.outcome


class MessageSizeComparer:
    """Measures messages before and after one proposed change. Plans and columns of new values are cached."""

    def __init__(self, settings: ProposalSettings) -> None:
        self.settings = settings
        self.proposal = settings.proposal
        self.outcome = SizeComparison()
        self._layouts: dict[tuple[int, int, str], list[FormPair]] = {}
        self._plans: dict[tuple[int, int, int], tuple[MessageForm, MessagePlan]] = {}
        self._last_sizes: tuple[MessagePlan, pa.StructArray, Ints] | None = None

    def compare_messages(self, messages: ApiMessages) -> None:
        """Measure messages of one API, version and direction."""
        self.outcome.extend_span(messages.span)
        self.count_omitted(messages, NOT_READ, messages.unread)
        if not len(messages.frames):
            return
        layouts = self.list_form_pairs(messages.api_key, messages.api_version, messages.direction)
        if not layouts:
            self.count_omitted(
                messages, NOT_RAISED, Counter((label, _VERSION_REMOVED_REASON) for label in messages.labels.tolist())
            )
        counts_sections = any(layout.tag_header != ADOPTED for layout in layouts)
        for part in messages.split_by_label() if counts_sections else [messages]:
            for number, proposed_form in enumerate(layouts):
                _LayoutPairComparer(self, part, proposed_form, is_first=number == 0).compare_layouts()

    def compute_sizes(self, plan: MessagePlan, array: pa.StructArray) -> Ints:
        """Return the sizes of messages. Sizes of the same array and plan are computed once."""
        if self._last_sizes is None or self._last_sizes[0] is not plan or self._last_sizes[1] is not array:
            self._last_sizes = plan, array, compute_sizes(plan, array)
        return self._last_sizes[2]

    def list_form_pairs(self, key: int, version: int, direction: str) -> list[FormPair]:
        """Return the pairs of layouts to compare for messages of an API, version and direction."""
        message_kind = key, version, direction
        if message_kind not in self._layouts:
            sent_plan = self.get_wire_form(key, version, direction)
            self._layouts[message_kind] = list(self.proposal.layouts(sent_plan, self.settings.after))
        return self._layouts[message_kind]

    def get_wire_form(self, key: int, version: int, direction: str) -> MessageForm:
        """Return the form that messages of an API, version and direction have on the wire."""
        return MessageForm(
            self.settings.apis.find_spec(key, direction, version), version, self.settings.header_spec(direction)
        )

    def plan_form(self, form: MessageForm) -> MessagePlan:
        """Return the encoding plan of a form. The plan includes the message header if the proposal changes headers."""
        if not self.proposal.has_headers:
            return plan_message(form.spec, form.version)
        form_key = id(form.spec), form.version, id(form.header)
        if form_key not in self._plans:  # the cache also holds the form, so that its id is not reused
            self._plans[form_key] = form, make_frame_plan(*form)
        return self._plans[form_key][1]

    def count_omitted(self, messages: ApiMessages, kind: str, reasons: Counter[tuple[int, str]]) -> None:
        """Count omitted messages by label and reason."""
        for (label, reason), count in reasons.items():
            self.get_group_totals(messages, kind, label).reasons[_ROW_POSITION_PATTERN.sub("", reason)] += count

    def get_group_totals(self, messages: ApiMessages, kind: str, label: int) -> SizeTotals:
        """Return the totals to which messages of a kind and label are added."""
        group = SizeGroup(messages.api_key, messages.api_version, messages.direction, kind, *messages.names[label])
        return self.outcome.get_or_add_totals(group)


class _LayoutPairComparer:
    """Compares the sizes of messages in one pair of layouts. Messages that cannot be encoded are counted by reason."""

    def __init__(
        self, comparer: MessageSizeComparer, messages: ApiMessages, layout: FormPair, *, is_first: bool
    ) -> None:
        self.comparer, self.messages, self.layout, self.is_first = comparer, messages, layout, is_first
        self.sent_form = comparer.get_wire_form(messages.api_key, messages.api_version, messages.direction)
        self.plans = (
            comparer.plan_form(self.sent_form),
            comparer.plan_form(layout.before),
            comparer.plan_form(layout.after),
        )

    @property
    def message_array(self) -> pa.StructArray:
        """The messages, with their headers if the proposal changes headers."""
        frames = self.messages.frames
        return frames if self.comparer.proposal.has_headers else frames.field("body")

    def compare_layouts(self) -> None:
        """Measure the messages that both layouts can encode."""
        while len(self.message_array):
            try:
                self._compare_all()
            except EncodeError as error:
                self._omit_messages(error)
            else:
                return

    def _omit_messages(self, error: EncodeError) -> None:
        """Remove the messages that an encoder rejected, and count them as omitted."""
        failed_rows = np.array(error.rows or range(len(self.message_array)), np.int64)
        kind = NOT_RAISED if self.layout.kind == RAISED else self.layout.kind
        labels = self.messages.labels[failed_rows].tolist()
        self.comparer.count_omitted(self.messages, kind, Counter((label, str(error)) for label in labels))
        self.messages = self.messages.select_rows(np.delete(np.arange(len(self.message_array)), failed_rows))

    def _compare_all(self) -> None:
        """Compute the sizes of all messages in both layouts, and add them to the totals."""
        sent_plan, before_plan, after_plan = self.plans
        array, counts = self.message_array, Counter[str]()
        before = after = self.comparer.compute_sizes(before_plan, array)
        sent_sizes = None
        if self.is_first and self.messages.wire_sizes is not None:
            sent_sizes = before if before_plan is sent_plan else compute_sizes(sent_plan, array)
        if after_plan is not before_plan:
            has_header = self.comparer.proposal.has_headers
            columns = plan_new_columns(self.comparer.settings.values, self.layout.after, has_header=has_header)
            array = _fit_message(array, before_plan, after_plan, columns)
            after = compute_sizes(after_plan, array)
        elif self.layout.tag_header != ADOPTED:
            after = before - count_saved_bytes(self.layout.tag_header, after_plan, array, counts)
        sums = [
            size + self.messages.sum_record_bytes(compact=plan.flexible)
            for plan, size in ((before_plan, before), (after_plan, after))
        ]
        self._add_sizes(sums[0], sums[1], counts)
        if sent_sizes is not None:
            self._compare_with_wire(sent_sizes)
        if after_plan is not before_plan and _only_moves_fields(before_plan.root, after_plan.root):
            if before_plan is not sent_plan:  # fields that the wire version lacks take their defaults
                array = decode_columns(after_plan, encode_columns(after_plan, array))
            count_moved_fields(array, before_plan.root, after_plan.root, self._add_count)
        if self.layout.blank:
            self._count_blank_fields()
        if self.layout.has_lengths:
            self._count_lengths()

    def _iterate_totals_by_label(self) -> Iterator[tuple[int, SizeTotals]]:
        """Yield (label, totals) for each label of the messages."""
        for label in np.unique(self.messages.labels).tolist():
            yield label, self.comparer.get_group_totals(self.messages, self.layout.kind, label)

    def _add_sizes(self, before: Ints, after: Ints, counts: Counter[str]) -> None:
        """Add message sizes and counts of fields to the totals of each label."""
        labels, messages = self.messages.labels, np.bincount(self.messages.labels)
        sums = [np.bincount(labels, weights=sizes) for sizes in (before, after)]
        for label, size_totals in self._iterate_totals_by_label():
            size_totals.messages += int(messages[label])
            size_totals.before += int(sums[0][label])
            size_totals.after += int(sums[1][label])
            size_totals.counts.update(counts)
            counts = Counter()

    def _compare_with_wire(self, sent_sizes: Ints) -> None:
        """Compare the computed sizes with the sizes on the wire."""
        if not self.comparer.proposal.has_headers:
            sent_sizes = sent_sizes + self._compute_header_sizes()
        mismatches = np.bincount(self.messages.labels, weights=sent_sizes != self.messages.wire_sizes)
        messages = np.bincount(self.messages.labels)
        for label, size_totals in self._iterate_totals_by_label():
            size_totals.checked += int(messages[label])
            size_totals.mismatched += int(mismatches[label])

    def _compute_header_sizes(self) -> Ints:
        """Return the size of each message's header, in bytes."""
        version = self.sent_form.spec.header_version(self.sent_form.version)
        return compute_sizes(plan_message(self.sent_form.header, version), self.messages.frames.field("header"))

    def _add_count(self, name: str, rows: Ints, numbers: Ints) -> None:
        """Add numbers to the count ``name`` in the totals of each label. ``rows`` are the indexes of their messages."""
        sums = np.bincount(self.messages.labels[rows], weights=numbers, minlength=1)
        for label, size_totals in self._iterate_totals_by_label():
            if label < len(sums) and sums[label]:
                size_totals.counts[name] += int(sums[label])

    def _count_lengths(self) -> None:
        """Count the lengths of the arrays, strings and bytes in the messages."""
        for kind, lengths, rows in iterate_lengths(self.message_array, self.plans[0].root):
            if kind != "records" or not any(self.messages.records):  # a request log has the sizes of records instead
                self._add_lengths(kind, lengths, rows)
        for row, record_sizes in enumerate(self.messages.records):
            self._add_lengths("records", np.array(record_sizes, np.int64), np.full(len(record_sizes), row))

    def _add_lengths(self, kind: str, lengths: Ints, rows: Ints) -> None:
        """Count the lengths of one kind of field in the totals for each label.

        ``rows`` are the indexes of their messages.
        """
        labels = self.messages.labels[rows]
        for label, size_totals in self._iterate_totals_by_label():
            values, counts = np.unique(lengths[labels == label], return_counts=True)
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                size_totals.lengths[kind, value] += count

    def _count_blank_fields(self) -> None:
        """Count the bytes of blank mandatory fields: those with the suffix ``blank`` and their default value."""
        for _, field, values, rows in iterate_fields(self.message_array, self.plans[0].root):
            if field.tag is not None or field.array or field.type != "int32":
                continue
            if not field.name.endswith(self.layout.blank):
                continue
            is_blank = pc.equal(values, field.default).to_numpy(zero_copy_only=False)
            self._add_count("blank bytes", rows[is_blank], np.full(int(is_blank.sum()), _INT32_FIELD_BYTES))


def _fit_message(
    array: pa.StructArray, before: MessagePlan, after: MessagePlan, columns: dict[str, MakeColumn]
) -> pa.StructArray:
    """Return messages with the columns of the new layout."""
    if not columns and _list_field_paths(before.root) <= _list_field_paths(after.root):
        return array
    return fit_columns(array, after.root, columns)


def _list_field_paths(plan: StructPlan, path: str = "") -> set[str]:
    """Return the paths of all fields in a plan."""
    names = set()
    for name, field in map_fields_by_column(plan).items():
        names.add(f"{path}{name}")
        names |= set() if field.struct is None else _list_field_paths(field.struct, f"{path}{name}.")
    return names


def _only_moves_fields(before: StructPlan, after: StructPlan) -> bool:
    """Return whether the only change is that fields are moved into tag sections."""
    if before.flexible != after.flexible:
        return False
    fields_before, fields_after = map_fields_by_column(before), map_fields_by_column(after)
    return fields_before.keys() == fields_after.keys() and all(
        _has_same_type(field, fields_after[name]) for name, field in fields_before.items()
    )


def _has_same_type(field: FieldPlan, other: FieldPlan) -> bool:
    """Return whether two fields have the same type. Structs may differ in which of their fields are tagged."""
    if (field.type, field.array, field.compact) != (other.type, other.array, other.compact):
        return False
    return field.struct is None or other.struct is None or _only_moves_fields(field.struct, other.struct)
