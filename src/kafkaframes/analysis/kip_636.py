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
from kafkaframes.messages.columns import encode_columns
from kafkaframes.messages.plan import FieldPlan, MessagePlan, StructPlan, plan_message
from kafkaframes.spec import catalog
from kafkaframes.spec.error_tags import FIELDS
from kafkaframes.spec.kip_636 import API_VERSIONS

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


def measure(body: pa.StructArray, wire_bodies: Ints | None, api_key: int, api_version: int) -> dict[str, Cost]:
    """Measure responses of one API and version.

    Args:
        body: as columns, all of them whole.
        wire_bodies: size of each body on the wire; None where that is not known (a request log).
        api_key, api_version: of all.
    """
    plan = own_plan(api_key, api_version)
    counted = _counted(body, plan)
    found: dict[str, Cost] = {}
    before = _sizes(plan, body)
    if api_key == API_VERSIONS and wire_bodies is not None:
        before = wire_bodies  # it may be answered at version 0, and KIP-636 leaves it as it is
    cost = replace(counted, before=int(before.sum()), after=int(before.sum()))
    if wire_bodies is not None:
        cost.wire_known, cost.mismatched = len(body), int((before != wire_bodies).sum())
    if not plan.flexible:
        found[INFLEXIBLE] = cost
        raised = _raised(body, counted, api_key)
        if raised is not None:
            found[RAISED] = raised
        return found
    tagged = tagged_plan(api_key, api_version)
    if tagged is None:  # nothing of it would be a tag: its codes say nothing about the rewrite
        cost.codes = cost.codes_set = cost.messages = cost.messages_set = 0
    else:
        cost.after = int(_sizes(tagged, body).sum())
    found[FLEXIBLE] = cost
    return found


def _raised(body: pa.StructArray, counted: Cost, api_key: int) -> Cost | None:
    """Measure the same values at the newest flexible version."""
    newest = newest_flexible(api_key)
    tagged = None if newest is None else tagged_plan(api_key, newest)
    if newest is None or tagged is None:
        return None
    try:
        before = int(_sizes(own_plan(api_key, newest), body).sum())
        after = int(_sizes(tagged, body).sum())
    except EncodeError:
        return Cost(unmeasured=len(body))
    return replace(counted, before=before, after=after)


def _sizes(plan: MessagePlan, body: pa.StructArray) -> Ints:
    encoded = encode_columns(plan, body)
    return np.diff(np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1, encoded.offset * 4)).astype(np.int64)


def _counted(body: pa.StructArray, plan: MessagePlan) -> Cost:
    cost = Cost(responses=len(body))
    for kind, values in _error_fields(body, plan.root):
        if kind == "int16":
            cost.codes += len(values)
            cost.codes_set += int(np.count_nonzero(values.fill_null(0).to_numpy(zero_copy_only=False)))
        else:
            cost.messages += len(values)
            cost.messages_set += len(values) - values.null_count
    return cost


def _error_fields(array: pa.StructArray, plan: StructPlan) -> Iterable[tuple[str, pa.Array]]:
    """Yield the error codes and messages of responses, near and far."""
    for one in plan.fields:
        if _is_error(one):
            yield one.type, array.field(one.json_name)
        elif one.struct is not None:
            child = array.field(one.json_name)
            yield from _error_fields(child.values if one.array else child, one.struct)


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
