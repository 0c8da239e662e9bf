"""A message of format 0 or 1 whose key or value runs beyond it: what Kafka finds wrong with it, and when.

Kafka's iterators hand such a message out; only who asks for its key or value fails. The index of records ends before
it, so what is checked of it is read here, from its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.append.refusal import of_problem
from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.batch import message_crc_fits
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.layout import MESSAGE_V0, MESSAGE_V1, OVERHEAD_BYTES

BEYOND, TOO_LONG = "IndexOutOfBoundsException", "IllegalArgumentException"
_MAGIC = MESSAGE_V0.place_of("magic") - OVERHEAD_BYTES
_KEY_V0, _KEY_V1 = MESSAGE_V0.size - OVERHEAD_BYTES, MESSAGE_V1.size - OVERHEAD_BYTES


class Unreadable(NamedTuple):
    """One such message.

    Attributes:
        place: its number in its batch.
        magic: the format of its batch, which its own may not be.
        in_set: it lies in a compressed set.
        message: its bytes from the CRC on.
    """

    place: int
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

    def _size_at(self, at: int) -> int | None:
        return int.from_bytes(self.message[at : at + 4], "big", signed=True) if at + 4 <= len(self.message) else None


def unreadable_of(decoded: Decoded, batch: int) -> Unreadable | None:
    """Return the message at which the index of a batch ends because it cannot be read, if that is why."""
    if not decoded.unreadable(batch):
        return None
    batches, buf, at = decoded.batches, decoded.sections.buf, int(decoded.index.wheres[batch])
    in_set = bool(batches.is_wrapper[batch])
    if in_set:
        size = int.from_bytes(buf[at + 8 : at + OVERHEAD_BYTES].tobytes(), "big")
        at += OVERHEAD_BYTES
        end = at + size
    else:
        end = int(decoded.sections.ends[batch])
    magic = int(batches.column("magic")[batch])
    return Unreadable(int(decoded.index.rows[batch]), magic, in_set, buf[at:end].tobytes())


def refused_for_damage(decoded: Decoded, batch: int) -> AppendRefusedError | None:
    """Return how Kafka refuses a batch when it reads all of it; ``None`` for a whole one."""
    problem = decoded.problem(batch)
    if problem is None:
        return None
    found = unreadable_of(decoded, batch)
    return of_problem(problem, batch=batch, exception=None if found is None else found.failure)
