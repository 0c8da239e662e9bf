"""The result of a proposal's changes to specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkaframes.protocol.spec.changes import SpecChange
from kafkaframes.protocol.spec.evolution import compare_sets
from kafkaframes.protocol.spec.kip_636 import RewriteResult
from kafkaframes.protocol.spec.model import MessageSpec


@dataclass(frozen=True, slots=True)
class RewrittenSpecs:
    """The specs of a source, before and after a proposal rewrote them.

    Attributes:
        before: the specs of the source, by name.
        after: all specs of the proposal, by name.
        tagged_errors: the error fields that became tagged fields; None if the proposal is not KIP-636.
    """

    before: Mapping[str, MessageSpec]
    after: Mapping[str, MessageSpec]
    tagged_errors: RewriteResult | None = None

    @property
    def changed_names(self) -> list[str]:
        """The names of the messages that change."""
        return sorted(name for name, spec in self.after.items() if spec != self.before.get(name))

    def check(self) -> list[SpecChange]:
        """Return the changes, each with its verdict by the rules of evolution, as ``check_specs`` does."""
        return list(compare_sets(self.before, self.after))
