"""Limits of the memory that decompression may use. ``reasons.py`` limits the number of records and headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from kafkaframes.errors import OptionError

# The largest decompressed size of one batch. A larger batch counts as damaged.
DEFAULT_LIMIT_BYTES = 512 << 20
# The memory of a task for batches that are decompressed at the same time: their records, and the index of records and
# headers. A batch that needs more is decompressed alone.
DEFAULT_BUDGET_BYTES = 256 << 20
# The largest decompressed size of all batches of a request is the larger of MAX_CONTENT_BYTES and REQUEST_RATIO times
# the request.
MAX_CONTENT_BYTES, REQUEST_RATIO = 256 << 20, 16
_MIN_LONG_STREAM_BYTES = 4096  # compressed size; shorter gzip streams decompress to at most 4 MiB
OpenedT = TypeVar("OpenedT")
_budget: ContextVar[int] = ContextVar("kafkaframes_budget_bytes", default=DEFAULT_BUDGET_BYTES)


class ContentBudget:
    """A limit for the decompressed bytes of all batches of one request, and the bytes that are already spent.

    A batch that starts within the budget is decompressed completely. When the budget is spent, further batches are
    rejected without being opened.

    Attributes:
        opens_apart: whether the caller decompresses long streams, after ``ContentNotReadyError`` was raised for them.
        open_contents: contents that the caller has decompressed, by name.
    """

    __slots__ = ("max_bytes", "open_contents", "opens_apart", "spent_bytes")

    def __init__(self, request_bytes: int = 0, *, opens_apart: bool = False) -> None:
        self.max_bytes = max(MAX_CONTENT_BYTES, REQUEST_RATIO * request_bytes)
        self.spent_bytes = 0
        self.opens_apart = opens_apart
        self.open_contents: dict[str, Any] = {}

    @property
    def is_spent(self) -> bool:
        """Whether no further batch may be opened."""
        return self.spent_bytes >= self.max_bytes


CONTENT_BUDGET: ContextVar[ContentBudget | None] = ContextVar("kafkaframes_content", default=None)


class ContentNotReadyError(Exception):
    """Raised before a long decompression: the caller runs ``work`` in any thread, stores the result and tries again.

    Attributes:
        name: the result's key in ``ContentBudget.open_contents``.
    """

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        super().__init__(name)
        self.name = name
        self.work = work


def open_content(name: str, size_bytes: int, work: Callable[[], OpenedT]) -> OpenedT:
    """Return the result of ``work``, which decompresses ``size_bytes`` bytes, or the caller's stored result.

    Raises:
        ContentNotReadyError: the stream is long, and the context's budget leaves it to the caller.
    """
    budget = CONTENT_BUDGET.get()
    if budget is None or not budget.opens_apart or size_bytes < _MIN_LONG_STREAM_BYTES:
        return work()
    if name not in budget.open_contents:
        raise ContentNotReadyError(name, work)
    content: OpenedT = budget.open_contents[name]
    return content


def current_budget() -> int:
    """Return the memory budget, in bytes, for batches that are open at once, if a call does not specify it.

    >>> current_budget() == DEFAULT_BUDGET_BYTES
    True
    """
    return _budget.get()


@contextmanager
def limit_budget(size_bytes: int | None) -> Iterator[None]:
    """Set the memory budget for batches that are open at once in this context; ``None`` leaves the budget unchanged.

    The caller of a job sets the budget once, like the precision of ``decimal.localcontext``, instead of passing it
    through every function. The budget applies to this thread; code that starts other processes has to pass it to them.

    >>> with limit_budget(1 << 20):
    ...     current_budget()
    1048576

    Raises:
        OptionError: the number of bytes is below 1.
    """
    if size_bytes is not None and size_bytes < 1:
        raise OptionError("limit_bytes and budget_bytes must be at least 1")
    token = _budget.set(current_budget() if size_bytes is None else size_bytes)
    try:
        yield
    finally:
        _budget.reset(token)
