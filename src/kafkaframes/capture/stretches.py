"""Which rows a stream gives: it reads stretches of files, with some of those before them again."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkaframes.capture.layout import BROKEN, CALL_REQUEST, CALL_RESPONSE, F_END_NUMBER, F_FLAGS, NO_REPLY
from kafkaframes.capture.packets import FILE_SHIFT, Ints
from kafkaframes.capture.streams import Pass


class Span(NamedTuple):
    """Which calls are given of a stretch of files that others go before or after (a stream), so that each is once.

    The files before ``first`` were read before, ``wait`` of them and the one before these, or all there were. A call
    with all that it needs, and a response without a request, is given with the files in which it ends. What is open (a
    request without response, a frame that is not whole) is given ``wait`` files later, whenever it was decided: what is
    decided when depends on the files that are at hand.
    """

    first: int
    last: int
    wait: int = 1

    def chosen(self, made: Pass, calls: Ints) -> Any:
        """Tell which calls of a pass are given."""
        frames = made.frames
        ends, broken = np.full(len(calls), -1), np.zeros(len(calls), bool)
        for column in (CALL_REQUEST, CALL_RESPONSE):
            there = calls[:, column] >= 0
            ends = np.maximum(ends, np.where(there, frames[calls[:, column], F_END_NUMBER] >> FILE_SHIFT, -1))
            broken |= there & (frames[calls[:, column], F_FLAGS] & BROKEN != 0)
        asked = calls[:, CALL_REQUEST] >= 0
        no_reply = asked & (frames[calls[:, CALL_REQUEST], F_FLAGS] & NO_REPLY != 0)
        is_open = asked & (broken | ((calls[:, CALL_RESPONSE] < 0) & ~no_reply))
        before = self.first - 1 - self.wait  # up to which what is open was given with the files before
        return np.where(is_open, (ends > before) & (ends <= self.last - self.wait), ends >= self.first)
