"""Write random logs with each format, codec and kind of batch, in an order in which a broker could have written
them.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkaframes.records.build import build_empty_batch, build_end_transaction, build_records
from kafkaframes.records.fields import CREATE_TIME, LOG_APPEND_TIME, BatchFields

NOW_MS = 1_795_000_000_000
DAY_MS = 86_400_000
CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")


@dataclass
class RandomProducer:
    """The state of an idempotent or transactional producer, as in its batches."""

    number: int
    epoch: int = 0
    sequence: int = 0
    is_transactional: bool = False
    is_open: bool = False


@dataclass
class RandomLogWriter:
    """Creates the batches of a log one after the other.

    Attributes:
        magics: the formats to write; a format that is listed more often is more likely.
        offset: offset of the next record.
        clock: timestamp of the next record, in milliseconds, which moves forwards and backwards.
    """

    choose: random.Random
    magics: tuple[int, ...] = (2,)
    offset: int = 0
    clock: int = NOW_MS - DAY_MS
    leader_epoch: int = 0
    bumps_epochs: bool = False
    keys: int = 12
    null_keys: float = 0.0
    log_append_time: float = 0.0
    horizons: float = 0.0
    largest_value: int = 60
    tombstones: float = 0.25
    producers: list[RandomProducer] = field(default_factory=list)

    def __post_init__(self) -> None:
        choose = self.choose
        for number in range(choose.choice((0, 1, 3, 5))):
            self.producers.append(RandomProducer(1000 + number, choose.choice((0, 0, 3)), 0, choose.random() < 0.7))

    def batch(self) -> bytes:
        """Return the next batch, or a few messages of formats 0 and 1."""
        choose = self.choose
        if choose.random() < 0.1:
            self.offset += choose.choice((1, 2, 5))  # an offset gap that an earlier cleaning has left
        if choose.random() < 0.03:
            self.leader_epoch += choose.choice((1, 3))
        self.clock += choose.choice((0, 1, 1000, 1000, 60_000, -30_000))
        magic = choose.choice(self.magics)
        if magic < 2:
            return self._old(magic)
        producer = choose.choice(self.producers) if self.producers and choose.random() < 0.7 else None
        if producer is None:
            return self._empty(None) if choose.random() < 0.02 else self._new(None)
        if producer.is_transactional and choose.random() < (0.4 if producer.is_open else 0.08):
            return self._marker(producer)
        return self._empty(producer) if choose.random() < 0.04 else self._new(producer)

    def _columns(self, count: int, *, headers: bool) -> dict[str, list[Any]]:
        choose = self.choose
        step = choose.choice((1, 1, 1, 2, 3))
        offsets, offset = [], self.offset
        for _ in range(count):
            offsets.append(offset)
            offset += 1 if step == 1 else choose.randrange(1, step + 1)
        stamps = [-1 if choose.random() < 0.01 else self.clock + choose.randrange(-500, 500) for _ in range(count)]
        columns: dict[str, list[Any]] = {
            "offset": offsets,
            "timestamp": stamps,
            "key": [self._key() for _ in range(count)],
            "value": [self._value() for _ in range(count)],
        }
        if headers and choose.random() < 0.3:
            columns["headers"] = [choose.choice(([], [("h", b"1")], [("h", None), ("", b"")])) for _ in range(count)]
        return columns

    def _key(self) -> bytes | None:
        if self.choose.random() < self.null_keys:
            return None
        number = self.choose.randrange(self.keys)
        return b"" if number == 0 else b"key-%d" % number

    def _value(self) -> bytes | None:
        choose = self.choose
        if choose.random() < self.tombstones:
            return None
        if choose.random() < 0.01:
            return choose.randbytes(choose.choice((1, 5000, 70_000)))
        return b"v" * choose.randrange(self.largest_value) + choose.randbytes(choose.randrange(8))

    def _old(self, magic: int) -> bytes:
        choose = self.choose
        codec = choose.choice(CODECS[:-1])
        columns = self._columns(choose.choice((1, 1, 2, 5, 12)), headers=False)
        if magic == 0:
            del columns["timestamp"]
        append_time = magic == 1 and choose.random() < self.log_append_time
        if append_time:
            columns["timestamp"] = [max(self.clock, 0)] * len(columns["offset"])
        self.offset = columns["offset"][-1] + 1
        kind = "LogAppendTime" if append_time else "CreateTime"
        return build_records(columns, record_format=magic, codec=codec, timestamp_type=kind)

    def _new(self, producer: RandomProducer | None) -> bytes:
        choose = self.choose
        columns = self._columns(choose.choice((1, 2, 3, 8, 20)), headers=True)
        append_time = choose.random() < self.log_append_time
        if append_time:
            columns["timestamp"] = [max(self.clock, 0)] * len(columns["offset"])
        options: dict[str, Any] = self._of(producer, columns["offset"][-1] - columns["offset"][0] + 1)
        if producer is None and choose.random() < 0.05:
            options["base_sequence"] = 0  # as the group coordinator of Kafka 4.x does
        if choose.random() < self.horizons and None in columns["value"]:
            options["delete_horizon_ms"] = NOW_MS + choose.choice((-DAY_MS, -1, 0, 1, DAY_MS))
        self.offset = columns["offset"][-1] + 1
        return build_records(
            columns,
            codec=choose.choice(CODECS),
            leader_epoch=self.leader_epoch,
            timestamp_type="LogAppendTime" if append_time else "CreateTime",
            batch_bytes=1 << 24,
            **options,
        )

    def _of(self, producer: RandomProducer | None, count: int) -> dict[str, Any]:
        if producer is None:
            return {}
        fields = {
            "producer_id": producer.number,
            "producer_epoch": producer.epoch,
            "base_sequence": producer.sequence,
            "transactional": producer.is_transactional,
        }
        producer.sequence += count
        producer.is_open = producer.is_transactional
        return fields

    def _empty(self, producer: RandomProducer | None) -> bytes:
        """Return a batch whose records an earlier cleaning has removed."""
        count = self.choose.choice((1, 3))
        type_ = LOG_APPEND_TIME if self.choose.random() < self.log_append_time else CREATE_TIME
        fields = BatchFields(timestamp_type=type_, leader_epoch=self.leader_epoch, **self._of(producer, count))
        base, self.offset = self.offset, self.offset + count
        return build_empty_batch(base, self.offset - 1, max_timestamp=max(self.clock, 0), fields=fields)

    def _marker(self, producer: RandomProducer) -> bytes:
        choose = self.choose
        if self.bumps_epochs:
            producer.epoch += 1
            producer.sequence = 0
        producer.is_open = False
        offset, self.offset = self.offset, self.offset + 1
        if choose.random() < 0.03:
            fields = BatchFields(
                leader_epoch=self.leader_epoch,
                producer_id=producer.number,
                producer_epoch=producer.epoch,
                transactional=True,
                control=True,
            )
            return build_empty_batch(offset, offset, max_timestamp=max(self.clock, 0), fields=fields)
        return build_end_transaction(
            offset,
            commit=choose.random() < 0.5,
            timestamp=max(self.clock, 0),
            producer_id=producer.number,
            producer_epoch=producer.epoch,
            coordinator_epoch=choose.choice((0, 0, 5)),
            leader_epoch=self.leader_epoch,
        )


def create_writer(choose: random.Random, magics: tuple[int, ...]) -> RandomLogWriter:
    """Choose the kind of log."""
    return RandomLogWriter(
        choose,
        magics,
        offset=choose.choice((0, 0, 7, 2**31 + 5)),
        clock=NOW_MS - choose.choice((1000, DAY_MS // 2, DAY_MS - 20_000, 3 * DAY_MS)),
        leader_epoch=choose.choice((0, 0, 4)),
        bumps_epochs=choose.random() < 0.5,
        keys=choose.choice((2, 6, 12, 60)),
        null_keys=choose.choice((0.0, 0.0, 0.05)),
        log_append_time=choose.choice((0.0, 0.0, 0.3, 1.0)),
        horizons=choose.choice((0.0, 0.0, 0.5)),
        largest_value=choose.choice((3, 60, 400)),
        tombstones=choose.choice((0.05, 0.25, 0.6)),
    )


def write_segments(writer: RandomLogWriter, directory: Path, *, count: int) -> None:
    """Write ``count`` new segments, their files' times about ``NOW_MS``; the last may be empty."""
    choose = writer.choose
    for number in range(count):
        path = directory / f"{writer.offset:020}.log"
        batches = choose.choice((1, 2, 4, 9, 15))
        if number == count - 1 and choose.random() < 0.3:
            batches = 0
        path.write_bytes(b"".join(writer.batch() for _ in range(batches)))
        touch(choose, path)
        if batches and choose.random() < 0.1:
            # the base offset of a new segment may be lower than that of its first batch
            writer.offset += choose.choice((1, 30))


def touch(choose: random.Random, path: Path) -> None:
    """Set a file's time to one of a few values, so that different orders and ties occur."""
    time_ms = NOW_MS + choose.choice((-3 * DAY_MS, -DAY_MS, -DAY_MS + 1, -2000, -1000, -1000, 0))
    os.utime(path, ns=(time_ms * 1_000_000,) * 2)
