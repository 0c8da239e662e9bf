"""The shortest way of a Produce: one that differs from an earlier one in nothing but its records.

A producer asks for the same partition in the same words all day. The bytes before the records of an ordinary request
are kept with what they mean, so that the next one is known by comparing them. Nothing that can change is kept: whether
the topic is there, who leads the partition and who may write is looked at each time. The plain twin is
``short_produce.read`` with ``write``; ``tests/broker/test_short.py`` asks both, and the dispatcher.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafkaframes.broker import produce, short_produce
from kafkaframes.broker.produce import Outcome
from kafkaframes.broker.request import Session
from kafkaframes.broker.short_produce import Asked, Done
from kafkaframes.broker.short_reading import Cursor
from kafkaframes.broker.state import BrokerState
from kafkaframes.records.limits import ApartError, ContentBudget

MOST_KNOWN = 1024  # then all are forgotten, and known again as they come
MOST_BYTES = 512  # before the records of a request that is kept
_SIZE_AND_ID = struct.Struct(">ii")
_TAKEN = Outcome(base_offset=0, log_start_offset=0)
_NO_RECORDS = produce.produced(b"")


class Known(NamedTuple):
    """What the bytes before the records mean.

    Attributes:
        asked: the topic, without records.
        number: of the partition.
        tail: the bytes behind the records.
        size, before, after: the answer's size, and what it has around the partition's row.
    """

    asked: Asked
    number: int
    acks: int
    version: int
    tail: bytes
    size: int
    before: bytes
    after: bytes

    @property
    def is_flexible(self) -> bool:
        """Whether lengths are varints."""
        return self.version >= short_produce.FIRST_FLEXIBLE

    def answer(self, correlation_id: int, outcome: Outcome) -> bytes:
        """Return the answer's frame; nothing was refused."""
        row = short_produce.row(self.number, outcome, self.version)
        return _SIZE_AND_ID.pack(self.size, correlation_id) + self.before + row + self.after

    def done(self, outcome: Outcome) -> Done:
        """Return what became of the request."""
        return Done(self.asked, [outcome])


class Repeats:
    """The requests to one broker that may come again, on whatever connection."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._known: dict[bytes, Known] = {}

    def keep(
        self, frame: bytes | memoryview, cursor: Cursor, asked: list[Asked], acks: int, version: int, session: Session
    ) -> None:
        """Keep a request that was read to its end, if it is for one partition and nothing follows it."""
        at = cursor.blob_at
        if len(asked) > 1 or len(asked[0].partitions) > 1 or at > MOST_BYTES or cursor.at != len(frame):
            return
        session.records_at, key = at, _key(frame, at)
        known = self._known.get(key)
        if known is not None and known.asked.topic is asked[0].topic:  # it was another request's turn on the connection
            return
        ((partition, _),) = asked[0].partitions
        index, tail = partition.index, bytes(frame[cursor.blob_end :])
        before, mark, after = short_produce.around(Done(asked[0], [_TAKEN]), version)
        if cursor.is_flexible:
            before = b"\x00" + before  # of the response's header
        size = 4 + len(before) + len(mark) + len(after)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        bare = asked[0]._replace(partitions=[(partition, _NO_RECORDS)])
        self._known[key] = Known(bare, index, acks, version, tail, size, before, after)

    def take(self, frame: bytes | memoryview, session: Session) -> tuple[Known, Outcome] | None:
        """Append what a request has that came before in other words; None if it is not known, or not ordinary now.

        Raises:
            OddError: the frame ends early (or another of ``short_reading.ODD``); nothing is appended then.
        """
        at, broker = session.records_at, self._broker
        known = self._known.get(_key(frame, at))
        if known is None:
            return None
        cursor = Cursor(frame, at, is_flexible=known.is_flexible)
        sent = produce.produced(cursor.blob())
        if frame[cursor.at :] != known.tail or not short_produce.is_usual(sent, known.version):
            return None
        asked, topic = known.asked, known.asked.topic
        partition = short_produce.led(topic, known.number, session)
        if partition is None or topic is not short_produce.topic_of(asked, known.version, broker):
            return None
        if not short_produce.may_write(session, topic, broker):
            return None
        content = ContentBudget(len(frame), opens_apart=True)
        try:
            return known, produce.append(broker, partition, sent, acks=known.acks, content=content)
        except ApartError:
            return None


def _key(frame: bytes | memoryview, at: int) -> bytes:
    """Return the bytes before the records but for the correlation id, which is another one each time."""
    head = bytes(frame[:at])
    return head[:4] + head[8:]
