"""A log equals a list of batches after appends, rolls, truncations, retention, stops and crashes in any order."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.storage.partition.builders import NOW_MS, build_batch, build_marker, idempotent, transactional
from tests.storage.partition.memory_disk import MemoryDisk
from tests.storage.partition.workload import META_PROPERTIES, read_all

from kafkaframes.errors import AppendRefusedError
from kafkaframes.storage.files.headers import parse_headers
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.transactions import iterate_producer_batches, parse_markers
from kafkaframes.storage.partition import LogSettings, PartitionLog, open_log_directory
from kafkaframes.storage.partition.fetch import LOG_END, TXN_COMMITTED

PARTITION = TopicPartition("orders", 0)
SETTINGS = LogSettings(
    segment_bytes=1000,
    index_interval_bytes=100,
    segment_index_bytes=160,
    retention_bytes=2500,
    retention_ms=100_000,
    file_delete_delay_ms=1000,
)


class LogMachine(RuleBasedStateMachine):
    """Compares a log with a model: its batches with their offsets, log start offset and flushed end offset."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.batches: list[tuple[int, int, bytes]] = []
        self.start = self.end = self.watermark = self.epoch = 0
        self.now_ms = NOW_MS
        self.log: PartitionLog

    @initialize(preallocate=st.booleans(), per_batch=st.booleans())
    def begin(self, preallocate, per_batch):
        self.settings = replace(SETTINGS, preallocate=preallocate, index_per_batch=per_batch)
        self.open()

    def open(self):
        self.manager = open_log_directory(
            "/kafka", now_ms=self.now_ms, settings_of=self.settings, meta=META_PROPERTIES, disk=self.disk
        )
        known_log = self.manager.logs.get(PARTITION)  # a log without appends has no directory
        self.log = known_log or self.manager.create(PARTITION, now_ms=self.now_ms)

    # -------------------------------------------------------------------------------------------- rules

    @rule(count=st.integers(1, 6), size=st.integers(0, 120), codec=st.sampled_from(["none", "lz4", "gzip"]))
    def append_plain(self, count, size, codec):
        self.append(build_batch(count, timestamp=self.now_ms, value=bytes(size), codec=codec))

    @rule(producer=st.integers(1, 3), count=st.integers(1, 4), in_transaction=st.booleans())
    def append_with_sequence(self, producer, count, in_transaction):
        state = self.log.producers.states.get(producer)
        build = transactional if in_transaction or (state and state.current_txn_first_offset >= 0) else idempotent
        sequence = state.last_sequence + 1 if state and state.batches else 0
        epoch = state.producer_epoch if state else 0
        self.append(build(producer, sequence, count, epoch=epoch, timestamp=self.now_ms))

    @rule(producer=st.integers(1, 3), commit=st.booleans(), bump=st.booleans())
    def end_transaction(self, producer, commit, bump):
        state = self.log.producers.states.get(producer)
        epoch = (state.producer_epoch if state else 0) + bump
        self.append(build_marker(producer, commit=commit, epoch=epoch), origin="COORDINATOR")

    def append(self, raw, origin="CLIENT"):
        info = self.log.append_as_leader(raw, leader_epoch=self.epoch, now_ms=self.now_ms, origin=origin)
        assert info.first_offset == self.end
        written_bytes = self.log.read(info.first_offset, max_bytes=1, isolation=LOG_END).records
        self.batches.append((info.first_offset, info.last_offset, written_bytes))
        self.end = info.last_offset + 1

    @precondition(lambda self: self.batches)
    @rule(back=st.integers(1, 7))
    def retry(self, back):
        first, last, raw = self.batches[-min(back, len(self.batches))]
        (header,) = parse_headers(raw)
        state = self.log.producers.states.get(header.producer_id)
        if header.producer_id < 0 or header.is_control or state is None:
            return
        again = bytes(8) + raw[8:]
        is_known = (
            any(batch.last_offset == last for batch in state.batches) and state.producer_epoch == header.producer_epoch
        )
        try:
            info = self.log.append_as_leader(again, leader_epoch=self.epoch, now_ms=self.now_ms)
        except AppendRefusedError:
            assert not is_known
            return
        assert info.is_duplicate == is_known
        if is_known:
            assert (info.first_offset, info.last_offset) == (first, last)
        else:  # a producer with only a marker can start with any sequence
            written_bytes = self.log.read(info.first_offset, max_bytes=1, isolation=LOG_END).records
            self.batches.append((info.first_offset, info.last_offset, written_bytes))
            self.end = info.last_offset + 1

    @rule(share=st.floats(0, 1))
    def replicate(self, share):
        self.watermark = max(self.watermark, int(self.end * share))
        assert self.log.update_high_watermark(self.watermark) == max(self.watermark, self.start)
        self.watermark = max(self.watermark, self.start)

    @rule()
    def new_leader(self):
        self.epoch += 1

    @rule()
    def roll(self):
        self.log.roll(now_ms=self.now_ms)

    @rule()
    def flush(self):
        self.log.flush(now_ms=self.now_ms)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share):
        offset = int(self.watermark * share)
        self.start = max(self.start, offset)
        assert self.log.delete_records(offset) == self.start

    @rule(step_ms=st.integers(0, 60_000))
    def do_periodic_work(self, step_ms):
        self.now_ms += step_ms
        self.manager.tick(self.now_ms)
        self.log.tick(self.now_ms)
        assert self.start <= self.log.log_start_offset <= max(self.watermark, self.start)
        self.start = self.log.log_start_offset
        self.batches = [batch for batch in self.batches if batch[0] >= self.log.segment_bases[0]]

    @precondition(lambda self: self.batches)
    @rule(place=st.floats(0, 1))
    def truncate(self, place):
        keep = int(len(self.batches) * place)
        offset = self.batches[keep][0] if keep < len(self.batches) else self.end
        self.log.truncate_to(offset, now_ms=self.now_ms)
        self.batches = [batch for batch in self.batches if batch[1] < offset]
        self.end = offset
        self.start, self.watermark = min(self.start, offset), min(self.watermark, offset)

    @rule()
    def restart(self):
        self.manager.close(now_ms=self.now_ms)
        self.open()
        assert self.manager.was_clean
        assert self.log.recovery_point == self.end

    @rule(seed=st.integers(0, 2**32), power=st.booleans())
    def crash(self, seed, power):
        choose = random.Random(seed)
        flushed_end = self.log.recovery_point
        self.manager.checkpoint_all()
        keep = (lambda pending: choose.randrange(pending + 1)) if power else None
        self.disk = self.disk.crash(keep, torn=choose)
        self.open()
        end = self.log.log_end_offset
        assert flushed_end <= end <= self.end if power else end == self.end
        self.batches = [batch for batch in self.batches if batch[1] < end]
        self.end, self.watermark = end, self.log.high_watermark

    # -------------------------------------------------------------------------------------------- what always holds

    @invariant()
    def check_batches(self):
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert read_all(self.log) == [batch for batch in self.batches if batch[0] >= self.log.segment_bases[0]]

    @invariant()
    def check_reads(self):
        for first, last, raw in self.batches[-3:]:
            if last >= self.start:
                result = self.log.read(max(first, self.start), max_bytes=len(raw), isolation=LOG_END)
                assert result.records == raw

    @invariant()
    def check_transactions(self):
        open_transactions: dict[int, int] = {}
        for first, _, raw in self.batches:
            for header, markers in iterate_producer_batches(parse_headers(raw), partial(parse_markers, raw)):
                if markers:
                    open_transactions.pop(header.producer_id, None)
                elif header.is_transactional:
                    open_transactions.setdefault(header.producer_id, first)
        kept_transactions = {
            first: producer for first, producer in self.log.producers.open.items() if first >= self.start
        }
        assert kept_transactions == {
            first: producer for producer, first in open_transactions.items() if first >= self.start
        }
        committed_read = self.log.read(self.start, max_bytes=1 << 20, isolation=TXN_COMMITTED)
        assert self.start <= committed_read.last_stable_offset <= self.log.high_watermark

    @invariant()
    def check_producers(self):
        """After a restart, a producer with data before the log start offset can be unknown, like in Kafka."""
        whole, with_data = Producers(), set()
        for _, last, raw in self.batches:
            for header, markers in iterate_producer_batches(parse_headers(raw), partial(parse_markers, raw)):
                whole.process_batch(header, markers)
                if last >= self.start and not header.is_control:
                    with_data.add(header.producer_id)
        for producer_id in with_data:
            known_state, state = self.log.producers.states[producer_id], whole.states[producer_id]
            assert (known_state.last_sequence, known_state.producer_epoch) == (
                state.last_sequence,
                state.producer_epoch,
            )

    @invariant()
    def check_indexes(self):
        for segment in self.log.segments:
            starts = {}
            raw = segment.read_at(0, segment.size_bytes) if segment.size_bytes else b""
            for header in parse_headers(raw) if raw else []:
                starts[header.position] = header
            for offset, position in zip(*segment.index._load_columns(), strict=True):
                assert starts[int(position)].base_offset <= offset


IS_DEEP = os.environ.get("KAFKAFRAMES_PROFILE") == "deep"
LogMachine.TestCase.settings = settings(max_examples=300 if IS_DEEP else 10, stateful_step_count=40)
TestLogMachine = LogMachine.TestCase
