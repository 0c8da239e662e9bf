"""What KIP-636 would save on real responses: each re-encoded with its error fields as tags. Exact, never estimated.

A response stays at its own version: the plan of that version is taken, with error codes and messages as tags, the
next free ones of their structs, as ``spec rewrite kip-636`` gives them to a new version. An inflexible version has no
tags: it is counted apart, and once more raised to the newest flexible version where its values allow that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import EncodeError
from kafkaframes.protocol.messages.columns import encode_columns
from kafkaframes.protocol.messages.plan import FieldPlan, MessagePlan, StructPlan, plan_message
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.error_tags import FIELDS
from kafkaframes.protocol.spec.kip_636 import API_VERSIONS

Ints = npt.NDArray[np.int64]
FLEXIBLE, INFLEXIBLE, RAISED = "flexible", "inflexible", "raised"
_SAVED_CODE, _SAVED_MESSAGE = 2, 1  # a zero code and a null message on the wire today


class Group(NamedTuple):
    """What is counted together."""

    api_key: int
    api_version: int
    client: str
    kind: str  # FLEXIBLE, INFLEXIBLE, RAISED


@dataclass
class Cost:
    """Bytes of responses as they are and as they would be, and their error fields.

    ``mismatched``: responses whose re-encoded size is not that on the wire (their own odd encoding); ``unmeasured``:
    those that could not be decoded, or not be raised.
    """

    responses: int = 0
    before: int = 0
    after: int = 0
    codes: int = 0
    codes_set: int = 0
    messages: int = 0
    messages_set: int = 0
    wire_known: int = 0
    mismatched: int = 0
    unmeasured: int = 0

    def add(self, other: Cost) -> None:
        """Add what was counted elsewhere."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @property
    def saved(self) -> int:
        """Bytes saved; negative where it costs."""
        return self.before - self.after

    @property
    def error_rate(self) -> float | None:
        """The share of error codes that are set."""
        return self.codes_set / self.codes if self.codes else None

    @property
    def break_even(self) -> float | None:
        """The share of codes at which the rewrite saves nothing, with what a set one cost here (else KIP's 2 bytes).

        >>> Cost(responses=1, before=100, after=98, codes=1).break_even
        0.5
        """
        if not self.codes:
            return None
        unset = self.codes - self.codes_set
        gained = _SAVED_CODE * unset + _SAVED_MESSAGE * (self.messages - self.messages_set)
        each = gained / unset if unset else float(_SAVED_CODE)
        cost = (gained - self.saved) / self.codes_set if self.codes_set else 2.0
        return each / (each + cost) if each + cost > 0 else None


@dataclass
class Costs:
    """What was measured, by group."""

    groups: dict[Group, Cost] = field(default_factory=dict)

    def add(self, group: Group, cost: Cost) -> None:
        """Add to a group."""
        self.groups.setdefault(group, Cost()).add(cost)

    def merge(self, others: Iterable[tuple[Group, Cost]]) -> None:
        """Add what other tasks measured."""
        for group, cost in others:
            self.add(group, cost)

    def by(self, *names: str) -> dict[tuple[Any, ...], Cost]:
        """Return sums by some of a group's attributes.

        >>> Costs({Group(3, 12, "a", "flexible"): Cost(responses=2)}).by("kind")[("flexible",)].responses
        2
        """
        found: dict[tuple[Any, ...], Cost] = {}
        for group, cost in self.groups.items():
            found.setdefault(tuple(getattr(group, name) for name in names), Cost()).add(cost)
        return found


@cache
def tagged_plan(api_key: int, api_version: int) -> MessagePlan | None:
    """Return the plan of a response with its errors as tags; None where KIP-636 changes nothing (or cannot)."""
    plan = own_plan(api_key, api_version)
    if not plan.flexible or api_key == API_VERSIONS or not _has_errors(plan.root):
        return None
    done: dict[int, StructPlan] = {}
    root = _tagged(plan.root, done)
    return replace(plan, root=root, structs=tuple(done.values()))


def _has_errors(plan: StructPlan) -> bool:
    return any(_is_error(one) or (one.struct is not None and _has_errors(one.struct)) for one in plan.fields)


def _tagged(plan: StructPlan, done: dict[int, StructPlan]) -> StructPlan:
    """Return a struct's plan with its errors as tags: the next free ones, in the order of the fields."""
    if id(plan) in done:
        return done[id(plan)]
    taken = [one.tag for one in plan.tagged if one.tag is not None] + list(plan.refused_tags)
    free = max(taken, default=-1) + 1
    errors = [one for one in plan.fields if _is_error(one)]
    tags = tuple(
        replace(one, tag=free + place, default=None if one.type == "string" and one.nullable else one.default)
        for place, one in enumerate(errors)
    )
    kept = tuple(_deeper(one, done) for one in plan.fields if not _is_error(one))
    others = tuple(_deeper(one, done) for one in plan.tagged)
    lost = sum(_SAVED_CODE if one.type == "int16" else _SAVED_MESSAGE for one in errors)
    made = replace(plan, fields=kept, tagged=(*others, *tags), min_size=max(plan.min_size - lost, 0))
    done[id(plan)] = made
    return made


def _deeper(one: FieldPlan, done: dict[int, StructPlan]) -> FieldPlan:
    return one if one.struct is None else replace(one, struct=_tagged(one.struct, done))


@cache
def own_plan(api_key: int, api_version: int) -> MessagePlan:
    """Return the plan of a response at its own version."""
    return plan_message(catalog.load(catalog.api(api_key).response), api_version)


def newest_flexible(api_key: int) -> int | None:
    """Return an API's newest version, if it is flexible."""
    highest = catalog.api(api_key).versions.highest
    return highest if own_plan(api_key, highest).flexible else None


def measure(
    body: pa.StructArray, wire_bodies: Ints | None, api_key: int, api_version: int, clients: Ints | None = None
) -> dict[tuple[int, str], Cost]:
    """Measure responses of one API and version.

    Args:
        body: as columns, all of them whole.
        wire_bodies: size of each body on the wire; None where that is not known (a request log).
        api_key, api_version: of all.
        clients: a number from 0 on for each response; by default all are one client's, 0.

    Returns:
        (client, kind) -> what was counted.
    """
    plan = own_plan(api_key, api_version)
    owners = np.zeros(len(body), np.int64) if clients is None else clients
    counted = _counted(body, plan, owners)
    is_left = api_key == API_VERSIONS  # KIP-636 leaves it as it is, and it may be answered at version 0
    before = wire_bodies if is_left and wire_bodies is not None else _sizes(plan, body)
    tagged = tagged_plan(api_key, api_version)
    after = before if tagged is None else _sizes(tagged, body)
    kind = FLEXIBLE if plan.flexible else INFLEXIBLE
    found = {(owner, kind): cost for owner, cost in counted.items()}
    _put_sizes(found, kind, owners, before, after)
    for owner, differ in _sums(owners, None if wire_bodies is None else before != wire_bodies):
        found[owner, kind].wire_known, found[owner, kind].mismatched = found[owner, kind].responses, differ
    if plan.flexible and tagged is None:  # nothing of it would be a tag: its codes say nothing about the rewrite
        for cost in found.values():
            cost.codes = cost.codes_set = cost.messages = cost.messages_set = 0
    return found if plan.flexible else found | _raised(body, counted, api_key, owners)


def _put_sizes(found: dict[tuple[int, str], Cost], kind: str, owners: Ints, before: Ints, after: Ints) -> None:
    for (owner, sum_before), (_, sum_after) in zip(_sums(owners, before), _sums(owners, after), strict=True):
        found[owner, kind].before, found[owner, kind].after = sum_before, sum_after


def _sums(owners: Ints, values: Any) -> list[tuple[int, int]]:
    """Return for each client that is there the sum of its values, which are below 2^53."""
    if values is None:
        return []
    there = np.bincount(owners)
    sums = np.bincount(owners, weights=values)
    return [(owner, int(sums[owner])) for owner in np.flatnonzero(there).tolist()]


def _raised(
    body: pa.StructArray, counted: Mapping[int, Cost], api_key: int, owners: Ints
) -> dict[tuple[int, str], Cost]:
    """Measure the same values at the newest flexible version."""
    newest = newest_flexible(api_key)
    tagged = None if newest is None else tagged_plan(api_key, newest)
    if newest is None or tagged is None:
        return {}
    try:
        before, after = _sizes(own_plan(api_key, newest), body), _sizes(tagged, body)
    except EncodeError:
        if len(counted) == 1:
            return {(owner, RAISED): Cost(unmeasured=len(body)) for owner in counted}
        parts = [(owner, np.flatnonzero(owners == owner)) for owner in counted]
        found = [
            _raised(body.take(pa.array(rows)), {owner: counted[owner]}, api_key, owners[rows]) for owner, rows in parts
        ]
        return {key: cost for part in found for key, cost in part.items()}
    raised = {(owner, RAISED): replace(cost) for owner, cost in counted.items()}
    _put_sizes(raised, RAISED, owners, before, after)
    return raised


def _sizes(plan: MessagePlan, body: pa.StructArray) -> Ints:
    encoded = encode_columns(plan, body)
    return np.diff(np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1, encoded.offset * 4)).astype(np.int64)


def _counted(body: pa.StructArray, plan: MessagePlan, owners: Ints) -> dict[int, Cost]:
    """Count responses and their error fields, by client."""
    found = {owner: Cost(responses=count) for owner, count in _sums(owners, np.ones(len(owners)))}
    for kind, values, rows in _error_fields(body, plan.root, np.arange(len(body))):
        if kind == "int16":
            is_set = values.fill_null(0).to_numpy(zero_copy_only=False) != 0
        else:
            is_set = values.is_valid().to_numpy(zero_copy_only=False)
        for (owner, count), (_, number) in zip(
            _sums(owners[rows], np.ones(len(rows))), _sums(owners[rows], is_set), strict=True
        ):
            cost = found[owner]
            if kind == "int16":
                cost.codes, cost.codes_set = cost.codes + count, cost.codes_set + number
            else:
                cost.messages, cost.messages_set = cost.messages + count, cost.messages_set + number
    return found


def _error_fields(array: pa.StructArray, plan: StructPlan, rows: Ints) -> Iterable[tuple[str, pa.Array, Ints]]:
    """Yield the error codes and messages of responses, near and far, and which response each is of."""
    for one in plan.fields:
        if _is_error(one):
            yield one.type, array.field(one.json_name), rows
        elif one.struct is not None and _has_errors(one.struct):
            child = array.field(one.json_name)
            if one.array:
                deeper = np.repeat(rows, np.diff(child.offsets.to_numpy()))
                yield from _error_fields(child.values, one.struct, deeper)
            else:
                yield from _error_fields(child, one.struct, rows)


def _is_error(one: FieldPlan) -> bool:
    return FIELDS.get(one.name) == one.type and not one.array


def row_of(cost: Cost, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of the report."""
    share = cost.saved / cost.before if cost.before else 0.0
    return {
        **names,
        "responses": cost.responses,
        "bytesBefore": cost.before,
        "bytesAfter": cost.after,
        "saved": cost.saved,
        "savedShare": round(share, 6),
        "errorCodes": cost.codes,
        "errorCodesSet": cost.codes_set,
        "errorRate": None if cost.error_rate is None else round(cost.error_rate, 6),
        "breakEven": None if cost.break_even is None else round(cost.break_even, 4),
        "wireChecked": cost.wire_known,
        "wireMismatched": cost.mismatched,
        "unmeasured": cost.unmeasured,
    }
