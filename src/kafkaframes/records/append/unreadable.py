"""A message of format 0 or 1 whose key or value runs beyond it: what Kafka finds wrong with it, and when.

Kafka's iterators hand such a message out; only who asks for its key or value fails. The index of records ends before
it, or has nulls for what cannot be read (a lenient one), so what is checked of it is read here, from its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.append.result import refusal_of_problem
from kafkaframes.records.batch import message_crc_fits
from kafkaframes.records.codecs import CODECS
from kafkaframes.records.decoded import Decoded, Problem
from kafkaframes.records.layout import CODEC_MASK, MESSAGE_V0, MESSAGE_V1, OVERHEAD_BYTES
from kafkaframes.records.reasons import NESTED, UNREADABLE_FIELD
from kafkaframes.records.scan import Flags

BEYOND, TOO_LONG = "IndexOutOfBoundsException", "IllegalArgumentException"
_MAGIC = MESSAGE_V0.position_of("magic") - OVERHEAD_BYTES
_ATTRIBUTES = MESSAGE_V0.position_of("attributes")
_KEY_V0, _KEY_V1 = MESSAGE_V0.size - OVERHEAD_BYTES, MESSAGE_V1.size - OVERHEAD_BYTES


class Unreadable(NamedTuple):
    """One such message.

    Attributes:
        place: its number in its batch.
        magic: the format of its batch, which its own may not be.
        in_set: it lies in a compressed set.
        message: its bytes from the CRC on.
    """

    number: int
    magic: int
    in_set: bool
    message: bytes

    @property
    def fits_magic(self) -> bool:
        """Whether its format is that of its batch."""
        return self.message[_MAGIC] == self.magic

    @property
    def fits_crc(self) -> bool:
        """Whether its CRC is that of its bytes."""
        return message_crc_fits(self.message)

    @property
    def key_size(self) -> int | None:
        """The size that is written for the key; ``None`` where the message ends before it."""
        return self._size_at(_KEY_V1 if self.message[_MAGIC] else _KEY_V0)

    @property
    def failure(self) -> str:
        """The exception that reading the key, and then the value, ends in."""
        at = _KEY_V1 if self.message[_MAGIC] else _KEY_V0
        for _ in ("key", "value"):
            size = self._size_at(at)
            if size is None:
                return BEYOND
            at += 4 + max(size, 0)
            if at > len(self.message):
                return TOO_LONG
        return TOO_LONG

    @property
    def value_failure(self) -> str:
        """The exception that reading the value alone ends in."""
        at = _KEY_V1 if self.message[_MAGIC] else _KEY_V0
        key_size = self._size_at(at)
        return BEYOND if key_size is None or self._size_at(at + 4 + max(key_size, 0)) is None else TOO_LONG

    def _size_at(self, at: int) -> int | None:
        return int.from_bytes(self.message[at : at + 4], "big", signed=True) if at + 4 <= len(self.message) else None


def unreadable_of(decoded: Decoded, batch: int) -> Unreadable | None:
    """Return the message at which the index of a batch ends because it cannot be read, if that is why."""
    if not decoded.unreadable(batch):
        return None
    at, number = int(decoded.index.wheres[batch]), int(decoded.index.rows[batch])
    if decoded.batches.is_wrapper[batch]:
        return _in_set(decoded, batch, number, at + OVERHEAD_BYTES)
    magic, end = int(decoded.batches.column("magic")[batch]), int(decoded.sections.ends[batch])
    return Unreadable(number, magic, False, decoded.sections.buf[at:end].tobytes())


def beyond_their_end(decoded: Decoded) -> Flags:
    """Return which messages of a lenient index have a key or value that runs beyond them: no place but their CRC's."""
    result: Flags = decoded.index.value_at == decoded.index.headers_at
    return result


def unreadable_at(decoded: Decoded, batch: int, number: int) -> Unreadable:
    """Return a message of a compressed set by its number in the set, for which ``beyond_their_end`` is true."""
    return _in_set(decoded, batch, number, int(decoded.index.headers_at[decoded.starts[batch] + number]))


def _in_set(decoded: Decoded, batch: int, number: int, at: int) -> Unreadable:
    """Read a message inside a compressed one; its CRC stands at ``at``, its size before that."""
    buf = decoded.sections.buf
    end = at + int.from_bytes(buf[at - 4 : at].tobytes(), "big")
    return Unreadable(number, int(decoded.batches.column("magic")[batch]), True, buf[at:end].tobytes())


def refused_for_damage(decoded: Decoded, batch: int) -> AppendRefusedError | None:
    """Return how Kafka refuses a batch when it reads all of it; ``None`` for a whole one."""
    problem = decoded.problem(batch)
    if problem is None:
        return None
    return refusal_of_problem(problem, batch=batch, exception=exception_of(decoded, batch, problem))


def exception_of(decoded: Decoded, batch: int, problem: Problem) -> str | None:
    """Return what Kafka throws where that depends on the bytes; ``None`` where the problem says it (``refusal``)."""
    result = unreadable_of(decoded, batch)
    if result is not None:
        return result.failure
    if problem.status == NESTED:
        codec = int(decoded.sections.buf[decoded.index.wheres[batch] + _ATTRIBUTES]) & CODEC_MASK
        return None if codec in CODECS or not codec else TOO_LONG
    if problem.status == UNREADABLE_FIELD:  # the value of a compressed message; its key is ignored
        at, size, magic = (int(decoded.batches.column(name)[batch]) for name in ("position", "size", "magic"))
        return Unreadable(0, magic, False, decoded.data[at + OVERHEAD_BYTES : at + size].tobytes()).value_failure
    return None
