"""Check a whole set of specs against the set before: pair the messages, compare each pair, judge what came and went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkaframes.protocol.spec.changes import RULES, Finding
from kafkaframes.protocol.spec.evolution import compare
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec


def check_sets(old: Mapping[str, MessageSpec], new: Mapping[str, MessageSpec]) -> Iterator[Finding]:
    """Yield every change from one set of specs (by name) to the next, message by message.

    A message that is gone while another one took its type and API key is taken for renamed.
    """
    renamed = dict(_renamed(old, new))
    unstable = {one.api_key for one in old.values() if one.type == "request" and one.latest_version_unstable}
    for name, before in sorted(old.items()):
        after = new.get(renamed.get(name, name))
        if after is not None:
            is_unstable = before.type in RPC_TYPES and before.api_key in unstable
            yield from compare(before, after, is_unstable=is_unstable)
        elif not before.is_removed:
            yield _finding(
                "message-gone", name, f"{before.type} {before.api_key if before.api_key is not None else ''}"
            )
    for name in sorted(new.keys() - old.keys() - set(renamed.values())):
        yield _finding("message-added", name, f"{new[name].type} with versions {new[name].valid_versions}")
    yield from pair_findings(new.values())


def pair_findings(specs: Iterable[MessageSpec]) -> Iterator[Finding]:
    """Yield where the request and the response of one API do not have the same versions."""
    halves: dict[tuple[int, str], MessageSpec] = {}
    for spec in specs:
        if spec.type in RPC_TYPES and spec.api_key is not None:
            halves[spec.api_key, spec.type] = spec
    for (key, kind), request in sorted(halves.items(), key=lambda item: item[0]):
        response = halves.get((key, "response"))
        if kind != "request" or response is None:
            continue
        for what, ours, theirs in (
            ("validVersions", request.valid_versions, response.valid_versions),
            ("flexibleVersions", request.flexible_versions, response.flexible_versions),
        ):
            if ours != theirs and not request.is_removed:
                yield _finding("pair-versions", request.name, f"{what} {ours}, but {response.name} has {theirs}")


def _renamed(old: Mapping[str, MessageSpec], new: Mapping[str, MessageSpec]) -> Iterator[tuple[str, str]]:
    """Yield (old name, new name) where a key and type passed from a name that is gone to one that is new."""
    came: dict[tuple[str, int], list[str]] = {}
    for name in new.keys() - old.keys():
        key = new[name].api_key
        if key is not None:
            came.setdefault((new[name].type, key), []).append(name)
    for name in old.keys() - new.keys():
        key = old[name].api_key
        candidates = came.get((old[name].type, key), []) if key is not None else []
        if len(candidates) == 1 and old[name].type in RPC_TYPES:
            yield name, candidates[0]


def _finding(rule: str, message: str, text: str) -> Finding:
    return Finding(RULES[rule], message, (), "", text.strip(), RULES[rule].verdict)
