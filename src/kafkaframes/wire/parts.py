"""Bytes that are somewhere else, as the value of a message's field: a stretch of a file that is only sent."""

from __future__ import annotations


class Part:
    """Bytes that are not in memory: ``len(part)`` is how many there are, ``bytes(part)`` reads them.

    ``Message.encode_parts`` hands a part on as it is; whatever needs its bytes reads them.
    """

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __bytes__(self) -> bytes:
        raise NotImplementedError
