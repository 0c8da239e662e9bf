"""Merging copies into one log: the result of each rule, and a model of a cluster whose log must be the result."""

from dataclasses import replace
from itertools import pairwise

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.copies.cluster import (
    TOPIC,
    ModelBroker,
    ModelCluster,
    NamedBatch,
    checks,
    merge_copies,
    read_rows,
    write_partition,
)

import kafkaframes
from kafkaframes.errors import LogDirError
from kafkaframes.storage.copies.decisions import MERGE_CHECKS

A, B = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"


def build_batches(*sizes: int, epoch: int = 0, base: int = 0, name: str = "a") -> list[NamedBatch]:
    batch_list = []
    for number, size in enumerate(sizes):
        batch_list.append(NamedBatch(f"{name}{number}", base, size, epoch))
        base += size
    return batch_list


def raw_of(batches: list[NamedBatch], **how) -> bytes:
    return b"".join(batch.raw(**how) for batch in batches)


def truth_of(batches: list[NamedBatch]) -> list[tuple[int, bytes]]:
    return [row for batch in batches for row in batch.rows().items()]


def flip_bit(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.fixture
def whole():
    return build_batches(3, 4, 2, 5, 1, 6)


def test_a_copy_that_lags_adds_nothing(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:3])}, epochs=[(0, 0)])
    merged_copy = merge_copies(two, one)
    assert read_rows(merged_copy) == truth_of(whole)
    assert [piece.segment_range.copy for piece in merged_copy.spans] == [1]
    assert checks(merged_copy) == {"copy-lags"}
    assert (merged_copy.start_offset, merged_copy.end_offset) == (0, 21)


def test_the_tail_of_a_lost_epoch_is_truncated(tmp_path, whole):
    """Broker 1 led epoch 0. Broker 2 was elected without its last batches, and appended others."""
    new = [*whole[:3], *build_batches(2, 2, epoch=1, base=9, name="new")]
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)], high_watermark=14)
    two = write_partition(tmp_path / "2", {0: raw_of(new)}, epochs=[(0, 0), (1, 9)])
    merged_copy = merge_copies(one, two)
    assert read_rows(merged_copy) == truth_of(new)
    (truncation,) = merged_copy.decisions
    assert (truncation.check, truncation.first_offset, truncation.end_offset, truncation.copy) == (
        "divergent-tail",
        9,
        21,
        str(one),
    )
    assert "were committed there" in truncation.message
    assert truncation.locations[0].position == len(raw_of(whole[:3]))


def test_the_epoch_of_a_leader_without_records_also_truncates(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:3])}, epochs=[(0, 0), (1, 9)])
    assert read_rows(merge_copies(one, two)) == truth_of(whole[:3])


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_epochs_in_the_batches_replace_a_missing_checkpoint(tmp_path, whole, missing):
    new = [*whole[:3], *build_batches(2, epoch=4, base=9, name="new")]
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)] if missing == 0 else None)
    two = write_partition(tmp_path / "2", {0: raw_of(new)}, epochs=[(0, 0), (4, 9)] if missing == 1 else None)
    assert read_rows(merge_copies(one, two)) == truth_of(new)


def test_a_checkpoint_that_contradicts_the_batches_is_ignored(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:3])}, epochs=[(0, 0), (7, 3)])
    merged_copy = merge_copies(one, two)
    assert read_rows(merged_copy) == truth_of(whole)
    assert "epochs-doubtful" in checks(merged_copy)


def test_a_partition_on_two_disks_is_merged(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole[:2]), 7: raw_of(whole[2:4])})
    two = write_partition(tmp_path / "2", {14: raw_of(whole[4:])}, epochs=[(0, 0)])
    merged_copy = merge_copies(two, one)
    assert read_rows(merged_copy) == truth_of(whole)
    assert checks(merged_copy) <= {"copy-lags", "copy-starts-later"}


def test_a_missing_segment_is_taken_from_another_copy(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole[:2]), 14: raw_of(whole[4:])}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:5])}, epochs=[(0, 0)])
    merged_copy = merge_copies(one, two)
    assert read_rows(merged_copy) == truth_of(whole)
    taken_decisions = [decision for decision in merged_copy.decisions if decision.check == "taken-from-copy"]
    assert [(decision.first_offset, decision.end_offset) for decision in taken_decisions] == [(7, 14)]


@pytest.mark.parametrize("check", [True, False])
def test_a_missing_batch_is_taken_from_another_copy(tmp_path, whole, check):
    one = write_partition(tmp_path / "1", {0: raw_of([*whole[:2], *whole[3:]])}, epochs=[(0, 0)], clean_offset=-1)
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:-1])}, epochs=[(0, 0)])
    assert read_rows(merge_copies(one, two, check=check)) == truth_of(whole)


def test_offsets_missing_in_all_copies_are_reported(tmp_path, whole):
    raw = raw_of([*whole[:2], *whole[3:]])
    one = write_partition(tmp_path / "1", {0: raw}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw}, epochs=[(0, 0)])
    (missing,) = merge_copies(one, two).decisions
    assert (missing.check, missing.first_offset, missing.end_offset) == ("missing", 7, 9)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_every_flipped_bit_of_one_copy_is_repaired(tmp_path, whole, magic, codec):
    """The bit can be in the offset, size, epoch, magic, checksum, other header fields or records."""
    raw = raw_of(whole, magic=magic, codec=codec)
    two = write_partition(tmp_path / "2", {0: raw}, epochs=[(0, 0)] if magic == 2 else None)
    damaged_dir = write_partition(tmp_path / "1", {0: raw}, epochs=[(0, 0)] if magic == 2 else None)
    for at in range(0, len(raw), 3 if magic == 2 and codec == "none" else 7):
        (damaged_dir / f"{0:020}.log").write_bytes(flip_bit(raw, at))
        assert read_rows(merge_copies(damaged_dir, two)) == truth_of(whole), at


def test_a_wrong_epoch_in_the_last_batch_of_a_lagging_copy_truncates_nothing(tmp_path, whole):
    """The CRC does not cover the leader epoch. If it were trusted, it would be the latest epoch."""
    lagging = raw_of(whole[:3])
    last = len(raw_of(whole[:2]))
    one = write_partition(tmp_path / "1", {0: flip_bit(lagging, last + 14)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole)}, epochs=[(0, 0)])
    merged_copy = merge_copies(one, two)
    assert read_rows(merged_copy) == truth_of(whole)
    assert checks(merged_copy) == {"misplaced", "copy-lags"}


def test_damage_at_the_same_position_in_all_copies_is_reported(tmp_path, whole):
    raw = flip_bit(raw_of(whole), len(raw_of(whole[:2])) + 65)
    one = write_partition(tmp_path / "1", {0: raw}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw}, epochs=[(0, 0)])
    (damage_decision,) = merge_copies(one, two).decisions
    assert (damage_decision.check, damage_decision.first_offset, damage_decision.end_offset) == ("damaged", 7, 9)


@pytest.mark.parametrize("check", [True, False])
def test_contradictory_copies_are_undecided(tmp_path, whole, check):
    other = [*whole[:2], replace(whole[2], name="else"), *whole[3:]]
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(other)}, epochs=[(0, 0)])
    three = write_partition(tmp_path / "3", {0: raw_of(whole)}, epochs=[(0, 0)])
    merged_copy = merge_copies(one, two, three, check=check)
    assert read_rows(merged_copy) == truth_of([*whole[:2], *whole[3:]])
    (undecided_decision,) = merged_copy.decisions
    assert (undecided_decision.check, undecided_decision.first_offset, undecided_decision.end_offset) == (
        "undecided",
        7,
        9,
    )
    assert [place.file for place in undecided_decision.locations] == [f"{one}/{0:020}.log", f"{two}/{0:020}.log"]


def test_equal_records_with_other_bytes_do_not_contradict(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole, codec="lz4")}, epochs=[(0, 0)])
    merged_copy = merge_copies(one, two)
    assert read_rows(merged_copy) == truth_of(whole)
    assert merged_copy.decisions == ()


def test_two_topics_with_one_name_are_rejected(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, topic_id=A)
    two = write_partition(tmp_path / "2", {0: raw_of(whole)}, topic_id=B)
    with pytest.raises(LogDirError, match=f"two topics with the same name.*{A}.*{B}"):
        merge_copies(one, two)


# ------------------------------------------------------------------------------------------- formats without epochs


@pytest.mark.parametrize("magic", [0, 1])
def test_without_epochs_the_high_watermark_selects_the_tail(tmp_path, whole, magic):
    other = [*whole[:3], *build_batches(2, 2, base=9, name="other")]
    one = write_partition(tmp_path / "1", {0: raw_of(whole, magic=magic, codec="gzip")}, high_watermark=9)
    two = write_partition(tmp_path / "2", {0: raw_of(other, magic=magic, codec="gzip")}, high_watermark=13)
    merged_copy = merge_copies(one, two)
    assert read_rows(merged_copy) == truth_of(other)
    assert [decision.check for decision in merged_copy.decisions] == ["divergent-tail"]


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("marks", [(None, None), (9, 9), (11, 13)])
def test_two_undecided_tails_without_epochs_are_both_truncated(tmp_path, whole, codec, marks):
    other = [*whole[:3], *build_batches(2, 2, base=9, name="other")]
    paths = [
        write_partition(tmp_path / str(number), {0: raw_of(tail_batches, magic=1, codec=codec)}, high_watermark=mark)
        for number, (tail_batches, mark) in enumerate(zip((whole, other), marks, strict=True))
    ]
    merged_copy = merge_copies(*paths)
    assert read_rows(merged_copy) == truth_of(whole[:3])
    assert "undecided" in checks(merged_copy)


def test_without_epochs_the_longest_copy_is_selected(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole[:4], magic=0)}, high_watermark=14)
    two = write_partition(tmp_path / "2", {0: raw_of(whole, magic=0)}, high_watermark=12)
    assert read_rows(merge_copies(one, two)) == truth_of(whole)


# ------------------------------------------------------------------------------------- retention, deletion, compaction


def test_segments_deleted_by_retention_are_taken_from_another_copy(tmp_path, whole):
    one = write_partition(tmp_path / "1", {7: raw_of(whole[2:])}, epochs=[(0, 7)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:4])}, epochs=[(0, 0)])
    merged_copy = merge_copies(one, two)
    assert read_rows(merged_copy) == truth_of(whole)
    assert "copy-starts-later" in checks(merged_copy)


def test_deleted_records_stay_deleted(tmp_path, whole):
    """DeleteRecords increases the log start offset in the checkpoint, but not in a lagging copy."""
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 5)], start_offset=5)
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:4])}, epochs=[(0, 0)])
    merged_copy = merge_copies(two, one)
    assert merged_copy.start_offset == 5
    assert read_rows(merged_copy) == [row for row in truth_of(whole) if row[0] >= 5]


def build_keyed_batches(offsets: dict[int, tuple[bytes, bytes | None]], size: int = 4, until: int = 24) -> bytes:
    """Return compacted batches: each spans ``size`` offsets, and contains records only at ``offsets``."""
    raw = b""
    for base in range(0, until, size):
        inside = {offset: row for offset, row in offsets.items() if base <= offset < base + size}
        if not inside:
            continue
        keys, values = zip(*inside.values(), strict=True)
        batch_bytes = kafkaframes.build_records({"offset": list(inside), "key": keys, "value": values}, leader_epoch=0)
        # the cleaner preserves lastOffsetDelta
        raw += _with_last_delta(batch_bytes, size - 1) if base in inside and len(inside) < size else batch_bytes
    return raw


def _with_last_delta(raw: bytes, delta: int) -> bytes:
    body = raw[21:23] + delta.to_bytes(4, "big") + raw[27:]
    return raw[:17] + google_crc32c.value(body).to_bytes(4, "big") + body


def test_a_compacted_partition_is_taken_from_one_copy(tmp_path):
    """Copy 1 no longer has the tombstone at offset 6. Copy 2 still has the record at offset 2 that it deleted."""
    history = {n: (b"k%d" % n, b"v") for n in range(24)} | {2: (b"x", b"old"), 6: (b"x", None)}
    cleaned_rows = {n: row for n, row in history.items() if n not in (2, 6, 9, 10)}
    one = write_partition(tmp_path / "1", {0: build_keyed_batches(cleaned_rows)}, epochs=[(0, 0)], clean_offset=16)
    two = write_partition(tmp_path / "2", {0: build_keyed_batches(history, until=20)}, epochs=[(0, 0)], clean_offset=0)
    three = write_partition(
        tmp_path / "3", {0: build_keyed_batches({0: history[0]}, until=4)}, epochs=[(0, 0)], clean_offset=0
    )
    merged_copy = merge_copies(two, one, three)
    assert [offset for offset, _ in read_rows(merged_copy)] == sorted(cleaned_rows)
    assert "compacted-differently" in checks(merged_copy)
    assert "missing" not in checks(merged_copy)


def test_a_damaged_compacted_copy_is_not_selected(tmp_path):
    history = {n: (b"k%d" % n, b"v") for n in range(24)}
    cleaned_rows = {n: row for n, row in history.items() if n not in (2, 6)}
    torn = bytearray(build_keyed_batches(cleaned_rows))
    torn[8 + 70 : 12 + 70] = b"\xff\xff\xff\xff"
    raw = build_keyed_batches(cleaned_rows)
    second = int.from_bytes(raw[8:12], "big") + 12
    broken_bytes = raw[: second + 8] + b"\0\0\0\1" + raw[second + 12 :]
    one = write_partition(tmp_path / "1", {0: broken_bytes, 24: b""}, epochs=[(0, 0)], clean_offset=20)
    two = write_partition(tmp_path / "2", {0: build_keyed_batches(history)}, epochs=[(0, 0)], clean_offset=0)
    assert [offset for offset, _ in read_rows(merge_copies(one, two))] == sorted(history)


def test_a_damaged_compacted_batch_is_only_replaced_by_an_equal_batch(tmp_path):
    history = {n: (b"k%d" % n, b"v") for n in range(24)}
    cleaned_rows = {n: row for n, row in history.items() if n not in (2, 14)}
    raw = build_keyed_batches(cleaned_rows)
    step = len(build_keyed_batches(cleaned_rows, until=4))
    same, other = step + 63, raw.index(b"k13")  # batch 4..7 is equal in both copies, batch 12..15 is not
    two = write_partition(tmp_path / "2", {0: build_keyed_batches(history)}, epochs=[(0, 0)], clean_offset=0)
    one = write_partition(tmp_path / "1", {0: flip_bit(raw, same)}, epochs=[(0, 0)], clean_offset=20)
    merged_copy = merge_copies(one, two)
    assert [offset for offset, _ in read_rows(merged_copy)] == sorted(cleaned_rows)
    (one / f"{0:020}.log").write_bytes(flip_bit(raw, other))
    merged_copy = merge_copies(one, two)
    assert "damaged" in checks(merged_copy)
    assert {o for o, _ in read_rows(merged_copy, "drop")} == set(cleaned_rows) - {12, 13, 15}


# ------------------------------------------------------------------------------------------------------- the model

steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("fetch"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("fetch"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("elect"), st.integers(0, 2)),
)


def write_brokers(root, cluster: ModelCluster, data) -> list:
    paths = []
    for number, broker in enumerate(cluster.brokers):
        bases = [batch.base for batch in broker.log]
        rolls = data.draw(st.sets(st.sampled_from(bases))) if bases else set()
        bounds = sorted({0, *rolls})
        segments = {
            low: raw_of([batch for batch in broker.log if low <= batch.base < high])
            for low, high in pairwise([*bounds, 2**60])
        }
        epochs = (
            broker.epochs
            if data.draw(st.booleans()) or broker.epochs[-1:] != count_epochs_in_batches(broker)[-1:]
            else None
        )
        paths.append(write_partition(root / str(number), segments, epochs=epochs, high_watermark=broker.high_watermark))
    return paths


def count_epochs_in_batches(broker: ModelBroker) -> list[tuple[int, int]]:
    epochs: list[tuple[int, int]] = []
    for batch in broker.log:
        if not epochs or epochs[-1][0] != batch.epoch:
            epochs.append((batch.epoch, batch.base))
    return epochs


@given(st.lists(steps, min_size=3, max_size=40), st.data())
def test_the_merged_log_equals_the_leader_log(tmp_path_factory, history, data):
    cluster = ModelCluster([ModelBroker(), ModelBroker(), ModelBroker()])
    for step, *arguments in history:
        getattr(cluster, step)(*arguments)
    paths = write_brokers(tmp_path_factory.mktemp("cluster"), cluster, data)
    merged_copy = merge_copies(*data.draw(st.permutations(paths)), check=data.draw(st.booleans()))
    assert dict(read_rows(merged_copy)) == cluster.truth()
    assert len(read_rows(merged_copy)) == len(cluster.truth())
    assert not checks(merged_copy) & {"undecided", "missing", "damaged", "misplaced", "epochs-doubtful"}


@given(st.lists(st.integers(1, 5), min_size=2, max_size=12), st.data())
def test_damaged_and_missing_batches_are_taken_from_other_copies(tmp_path_factory, sizes, data):
    """Each batch is intact in at least one copy. In the others it is removed, or one of its bits is flipped."""
    batch_list = build_batches(*sizes)
    root = tmp_path_factory.mktemp("damaged")
    keeper = [data.draw(st.integers(0, 2)) for _ in batch_list]
    paths = []
    for copy in range(3):
        raw = b""
        for batch, keeper_index in zip(batch_list, keeper, strict=True):
            batch_bytes = batch.raw()
            harm = data.draw(st.sampled_from(["none", "lost", "flipped"])) if keeper_index != copy else "none"
            if harm == "flipped":  # not in the size field, which would also hide the data after it
                batch_bytes = flip_bit(batch_bytes, data.draw(st.integers(12, len(batch_bytes) - 1)))
            raw += b"" if harm == "lost" else batch_bytes
        paths.append(write_partition(root / str(copy), {0: raw}, epochs=[(0, 0)], clean_offset=-1))
    merged_copy = merge_copies(*paths)
    assert dict(read_rows(merged_copy)) == dict(truth_of(batch_list))
    assert len(read_rows(merged_copy)) == len(truth_of(batch_list))


def test_every_decision_has_an_explanation():
    assert all(meaning for _, meaning in MERGE_CHECKS.values())
    assert TOPIC.topic == "orders"
