"""How much memory bytes from outside may ask for. What a batch may hold in records and headers: ``reasons.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from kafkaframes.errors import OptionError

# The largest decompressed size of one batch; beyond it is damage.
DEFAULT_LIMIT_BYTES = 512 << 20
# The most memory of a task for batches that are open at once: their decompressed records, and what is kept of each
# record and header. A batch that needs more is opened alone.
DEFAULT_BUDGET_BYTES = 256 << 20
# The most that the batches of one request may take in all when they are decompressed, or so many times its bytes.
MOST_CONTENT_BYTES, REQUEST_RATIO = 256 << 20, 16
_LONG_STREAM_BYTES = 4096  # compressed; what is shorter becomes at most 4 MiB of gzip
Opened = TypeVar("Opened")
_budget: ContextVar[int] = ContextVar("kafkaframes_budget_bytes", default=DEFAULT_BUDGET_BYTES)


class ContentBudget:
    """How many bytes more the batches of one request may take when they are decompressed.

    A batch that begins within the budget is opened whole; what comes behind the end of it is refused unopened.

    Attributes:
        opens_apart: what takes long to open is left to the caller: it is raised as an ``ApartError``.
        opened: what the caller has opened so, by name.
    """

    __slots__ = ("most_bytes", "opened", "opens_apart", "spent_bytes")

    def __init__(self, request_bytes: int = 0, *, opens_apart: bool = False) -> None:
        self.most_bytes = max(MOST_CONTENT_BYTES, REQUEST_RATIO * request_bytes)
        self.spent_bytes = 0
        self.opens_apart = opens_apart
        self.opened: dict[str, Any] = {}

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be opened."""
        return self.spent_bytes >= self.most_bytes


CONTENT: ContextVar[ContentBudget | None] = ContextVar("kafkaframes_content", default=None)


class ApartError(Exception):
    """Something is to be opened that takes long: the caller calls ``work``, in any thread, and tries again.

    Attributes:
        name: under which the result belongs into ``ContentBudget.opened``.
    """

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        super().__init__(name)
        self.name = name
        self.work = work


def open_content(name: str, size_bytes: int, work: Callable[[], Opened]) -> Opened:
    """Return what ``work`` makes of so many compressed bytes, where the context's budget lets it be called here.

    Raises:
        ApartError: the caller is to call it.
    """
    budget = CONTENT.get()
    if budget is None or not budget.opens_apart or size_bytes < _LONG_STREAM_BYTES:
        return work()
    if name not in budget.opened:
        raise ApartError(name, work)
    opened: Opened = budget.opened[name]
    return opened


def current_budget() -> int:
    """Return how many bytes the batches that are open at once may take where a call does not say it.

    >>> current_budget() == DEFAULT_BUDGET_BYTES
    True
    """
    return _budget.get()


@contextmanager
def budget(size_bytes: int | None) -> Iterator[None]:
    """Open no more at once, within this context, than a number of bytes; ``None`` changes nothing.

    A limit of resources belongs to who runs a job, not to each of the functions between, as the precision of
    ``decimal.localcontext`` does. It holds for this thread; who hands work to processes gives it to them.

    >>> with budget(1 << 20):
    ...     current_budget()
    1048576

    Raises:
        OptionError: it is below 1.
    """
    if size_bytes is not None and size_bytes < 1:
        raise OptionError("limit_bytes and budget_bytes are at least 1")
    token = _budget.set(current_budget() if size_bytes is None else size_bytes)
    try:
        yield
    finally:
        _budget.reset(token)
