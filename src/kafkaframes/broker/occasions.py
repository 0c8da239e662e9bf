"""How often a fault happens, and from when on: what rules for requests and for the disk have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(slots=True, eq=False, kw_only=True)
class Occasions:
    """The occasions that a rule is for; as a context manager it ends with its block.

    Attributes:
        skip: how many that fit pass first.
        left: how often it still happens; None for always.
    """

    skip: int = 0
    left: int | None = None
    is_removed: bool = False

    def times(self, count: int) -> Self:
        """Let the fault happen to the first ``count`` that fit, and to no later one."""
        self.left = count
        return self

    def once(self) -> Self:
        """Let the fault happen once."""
        return self.times(1)

    def after(self, count: int) -> Self:
        """Let this number that would fit pass first."""
        self.skip = count
        return self

    def remove(self) -> None:
        """Fit nothing any more."""
        self.is_removed = True

    @property
    def is_over(self) -> bool:
        """Whether nothing fits any more."""
        return self.is_removed or self.left == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
