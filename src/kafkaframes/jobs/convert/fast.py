"""The short way to rewrite a window: batch after batch in one kernel, from the old bytes to the new ones.

It takes ordinary batches of format 2 and wrappers of formats 0 and 1 that are not converted down, and what stays as it
is. Everything else goes the long way (``batches.py``) in runs: uncompressed messages, which are joined across batches;
conversions down; damage; streams that a broker reads but the kernels do not. Both ways give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.jobs.convert import _kernels_rewrite as kernels
from kafkaframes.jobs.convert.batches import BUILD, COPY, RECOMPRESS, Plan
from kafkaframes.jobs.convert.settings import RewriteSettings
from kafkaframes.records import native, native_compress
from kafkaframes.records.codecs import Codec
from kafkaframes.records.decoded import Allocate
from kafkaframes.records.layout import CODEC_MASK
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES
from kafkaframes.records.memory import lent_memory
from kafkaframes.records.scan import Batches, Bytes, Ints

Int8s = npt.NDArray[np.int8]
# Addresses more than memory: only what a batch needs is touched. What needs more goes the long way.
_MOST_OPENED_BYTES = 64 << 20
_OUT_BYTES = 4 << 20
_MOST_ROWS = 1 << 18
_SLOW_BATCHES = 64
_INDEX = (np.int64, np.int64, *(np.int64, np.int32) * 3)


class Run(NamedTuple):
    """Consecutive batches of a window: those from ``first`` on, below ``last``.

    Attributes:
        written: their new bytes, valid until the next run is asked for; ``None``: they go the long way.
        records: how many they hold, if they were written.
    """

    first: int
    last: int
    written: Bytes | None
    records: int


class FastRewriter:
    """Rewrites the windows of one segment after the other, in memory that it uses again and again."""

    def __init__(self, settings: RewriteSettings, allocate: Allocate, reading: Ints, writing: Ints) -> None:
        self.allocate = allocate
        self._settings = settings
        self._calls = reading, writing
        self._answer: Ints = np.zeros(kernels.ANSWER_WORDS, np.int64)
        self._opened, self._plain = (allocate(_MOST_OPENED_BYTES, np.uint8) for _ in range(2))
        self._out: Bytes = allocate(_OUT_BYTES, np.uint8)
        self._index = _arrays(allocate)

    def runs(self, data: Bytes, batches: Batches) -> Iterator[Run]:
        """Cut a window into runs that are written, and runs that are not.

        Args:
            data, batches: of the window; positions count from ``data``'s first byte.
        """
        actions, magics, codecs = self._plan(batches)
        eligible = np.flatnonzero(actions != kernels.LEAVE)
        row, slow, count = 0, 1, len(batches)
        # At a high level a window can take a minute, in which nothing could stop the kernel.
        step = count if self._settings.level is None else _SLOW_BATCHES
        while row < count:
            self._run(data, batches, row, min(row + step, count), actions, magics, codecs)
            stopped, size, records, why = self._answer.tolist()
            if stopped > row:
                yield Run(row, stopped, self._out[:size], records)
                slow = 1 if stopped - row > slow else slow
            row = stopped
            if why == native.ODD:
                surprise = actions[stopped] != kernels.LEAVE
                place = int(np.searchsorted(eligible, stopped + (slow if surprise else 1)))
                row = int(eligible[place]) if place < len(eligible) else count
                # Batches that the kernel leaves come in runs, so it is asked less and less often.
                slow = 2 * slow if surprise else slow
                yield Run(stopped, row, None, 0)

    def _plan(self, batches: Batches) -> tuple[Int8s, Int8s, Int8s]:
        """Say by the headers what the kernel may do with each batch, and which format and codec it gets."""
        empty = batches.is_v2 & (batches.column("count") <= 0)
        plan = Plan(batches, self._settings, empty=empty)
        actions = np.full(len(batches), kernels.LEAVE, np.int8)
        possible = _possible()[plan.codecs]
        # Uncompressed messages of formats 0 and 1 may be joined with their neighbours; a conversion down has losses.
        build = (plan.actions == BUILD) & (batches.codecs != 0) & possible & ~plan.down
        new, plain = plan.magics == 2, plan.codecs == Codec.NONE
        # the long way refuses zstd; LZ4 of format 0 has a header of its own
        wrap = ~new & ~plain & (plan.codecs != Codec.ZSTD) & ((plan.codecs != Codec.LZ4) | (plan.magics == 1))
        actions[plan.actions == COPY] = kernels.COPY
        actions[(plan.actions == RECOMPRESS) & possible] = kernels.RECOMPRESS
        actions[build & new] = kernels.BUILD
        actions[build & wrap] = kernels.WRAP
        actions[build & ~new & plain] = kernels.UNWRAP
        return actions, plan.magics.astype(np.int8), plan.codecs.astype(np.int8)

    def _run(self, data: Bytes, batches: Batches, row: int, last: int, *plan: Int8s) -> None:
        kernels.rewrite_batches(
            data,
            np.ascontiguousarray(batches.table),
            row,
            last,
            *plan,
            DEFAULT_LIMIT_BYTES,
            self._opened,
            self._plain,
            *self._index,
            self._out,
            *self._calls,
            self._answer,
        )


@cache
def _possible() -> npt.NDArray[np.bool_]:
    """Say of each codec's number whether the kernel can compress with it."""
    return np.isin(np.arange(CODEC_MASK + 1), list(native_compress.possible()))


def _arrays(allocate: Allocate) -> list[npt.NDArray[Any]]:
    """Make the arrays of an index, in one block: segments are many and small."""
    sizes = [_MOST_ROWS * np.dtype(dtype).itemsize for dtype in _INDEX]
    ends = np.cumsum(sizes).tolist()
    block = allocate(ends[-1], np.uint8)
    return [block[end - size : end].view(dtype) for end, size, dtype in zip(ends, sizes, _INDEX, strict=True)]


@contextmanager
def fast_rewriter(settings: RewriteSettings) -> Iterator[FastRewriter]:
    """Lend memory and the codecs' contexts to the rewriter of one segment."""
    with (
        lent_memory() as memory,
        native.borrowed() as reading,
        native_compress.borrowed(settings.level) as writing,
    ):
        yield FastRewriter(settings, memory.array, reading, writing)
