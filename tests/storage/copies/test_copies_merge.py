"""One log from many copies: what each rule gives, and a model of a cluster whose truth the merge has to find."""

from dataclasses import replace
from itertools import pairwise

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.copies.cluster import TOPIC, Batch, Broker, Cluster, checks, merged, rows_of, write_partition

import kafkaframes
from kafkaframes.errors import LogDirError
from kafkaframes.storage.copies.decisions import MERGE_CHECKS

A, B = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"


def batches(*sizes: int, epoch: int = 0, base: int = 0, name: str = "a") -> list[Batch]:
    made = []
    for number, size in enumerate(sizes):
        made.append(Batch(f"{name}{number}", base, size, epoch))
        base += size
    return made


def raw_of(listed: list[Batch], **how) -> bytes:
    return b"".join(batch.raw(**how) for batch in listed)


def truth_of(listed: list[Batch]) -> list[tuple[int, bytes]]:
    return [row for batch in listed for row in batch.rows().items()]


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.fixture
def whole():
    return batches(3, 4, 2, 5, 1, 6)


def test_a_copy_that_lags_adds_nothing(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:3])}, epochs=[(0, 0)])
    found = merged(two, one)
    assert rows_of(found) == truth_of(whole)
    assert [piece.at.copy for piece in found.spans] == [1]
    assert checks(found) == {"copy-lags"}
    assert (found.start_offset, found.end_offset) == (0, 21)


def test_the_tail_of_a_lost_epoch_is_cut(tmp_path, whole):
    """Broker 1 led epoch 0; broker 2 was elected without its last batches, and wrote on."""
    new = [*whole[:3], *batches(2, 2, epoch=1, base=9, name="new")]
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)], high_watermark=14)
    two = write_partition(tmp_path / "2", {0: raw_of(new)}, epochs=[(0, 0), (1, 9)])
    found = merged(one, two)
    assert rows_of(found) == truth_of(new)
    (cut,) = found.decisions
    assert (cut.check, cut.first_offset, cut.end_offset, cut.copy) == ("divergent-tail", 9, 21, str(one))
    assert "were committed there" in cut.message
    assert cut.locations[0].position == len(raw_of(whole[:3]))


def test_an_elected_leader_without_records_cuts_too(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:3])}, epochs=[(0, 0), (1, 9)])
    assert rows_of(merged(one, two)) == truth_of(whole[:3])


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_epochs_in_the_batches_replace_a_missing_checkpoint(tmp_path, whole, missing):
    new = [*whole[:3], *batches(2, epoch=4, base=9, name="new")]
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)] if missing == 0 else None)
    two = write_partition(tmp_path / "2", {0: raw_of(new)}, epochs=[(0, 0), (4, 9)] if missing == 1 else None)
    assert rows_of(merged(one, two)) == truth_of(new)


def test_a_checkpoint_that_the_batches_contradict_is_not_believed(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:3])}, epochs=[(0, 0), (7, 3)])
    found = merged(one, two)
    assert rows_of(found) == truth_of(whole)
    assert "epochs-doubtful" in checks(found)


def test_a_partition_split_over_two_disks(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole[:2]), 7: raw_of(whole[2:4])})
    two = write_partition(tmp_path / "2", {14: raw_of(whole[4:])}, epochs=[(0, 0)])
    found = merged(two, one)
    assert rows_of(found) == truth_of(whole)
    assert checks(found) <= {"copy-lags", "copy-starts-later"}


def test_a_missing_segment_is_taken_from_another_copy(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole[:2]), 14: raw_of(whole[4:])}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:5])}, epochs=[(0, 0)])
    found = merged(one, two)
    assert rows_of(found) == truth_of(whole)
    taken = [one for one in found.decisions if one.check == "taken-from-copy"]
    assert [(one.first_offset, one.end_offset) for one in taken] == [(7, 14)]


@pytest.mark.parametrize("check", [True, False])
def test_a_batch_that_is_gone_is_taken_from_another_copy(tmp_path, whole, check):
    one = write_partition(tmp_path / "1", {0: raw_of([*whole[:2], *whole[3:]])}, epochs=[(0, 0)], clean_offset=-1)
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:-1])}, epochs=[(0, 0)])
    assert rows_of(merged(one, two, check=check)) == truth_of(whole)


def test_what_no_copy_has_is_reported(tmp_path, whole):
    raw = raw_of([*whole[:2], *whole[3:]])
    one = write_partition(tmp_path / "1", {0: raw}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw}, epochs=[(0, 0)])
    (missing,) = merged(one, two).decisions
    assert (missing.check, missing.first_offset, missing.end_offset) == ("missing", 7, 9)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_every_flipped_bit_of_one_copy_is_healed(tmp_path, whole, magic, codec):
    """Wherever the bit is: in offset, size, epoch, magic, checksum, header or records."""
    raw = raw_of(whole, magic=magic, codec=codec)
    two = write_partition(tmp_path / "2", {0: raw}, epochs=[(0, 0)] if magic == 2 else None)
    damaged = write_partition(tmp_path / "1", {0: raw}, epochs=[(0, 0)] if magic == 2 else None)
    for at in range(0, len(raw), 3 if magic == 2 and codec == "none" else 7):
        (damaged / f"{0:020}.log").write_bytes(flipped(raw, at))
        assert rows_of(merged(damaged, two)) == truth_of(whole), at


def test_a_wrong_epoch_in_the_last_batch_of_a_lagging_copy_cuts_nothing(tmp_path, whole):
    """The leader epoch is outside the CRC: taken at its word it would be the latest history."""
    lagging = raw_of(whole[:3])
    last = len(raw_of(whole[:2]))
    one = write_partition(tmp_path / "1", {0: flipped(lagging, last + 14)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole)}, epochs=[(0, 0)])
    found = merged(one, two)
    assert rows_of(found) == truth_of(whole)
    assert checks(found) == {"misplaced", "copy-lags"}


def test_damage_at_the_same_place_of_all_copies_is_reported(tmp_path, whole):
    raw = flipped(raw_of(whole), len(raw_of(whole[:2])) + 65)
    one = write_partition(tmp_path / "1", {0: raw}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw}, epochs=[(0, 0)])
    (damaged,) = merged(one, two).decisions
    assert (damaged.check, damaged.first_offset, damaged.end_offset) == ("damaged", 7, 9)


@pytest.mark.parametrize("check", [True, False])
def test_copies_that_contradict_each_other_are_undecided(tmp_path, whole, check):
    other = [*whole[:2], replace(whole[2], name="else"), *whole[3:]]
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(other)}, epochs=[(0, 0)])
    three = write_partition(tmp_path / "3", {0: raw_of(whole)}, epochs=[(0, 0)])
    found = merged(one, two, three, check=check)
    assert rows_of(found) == truth_of([*whole[:2], *whole[3:]])
    (undecided,) = found.decisions
    assert (undecided.check, undecided.first_offset, undecided.end_offset) == ("undecided", 7, 9)
    assert [place.file for place in undecided.locations] == [f"{one}/{0:020}.log", f"{two}/{0:020}.log"]


def test_the_same_records_in_other_bytes_are_no_contradiction(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 0)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole, codec="lz4")}, epochs=[(0, 0)])
    found = merged(one, two)
    assert rows_of(found) == truth_of(whole)
    assert found.decisions == ()


def test_two_topics_under_one_name_are_refused(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, topic_id=A)
    two = write_partition(tmp_path / "2", {0: raw_of(whole)}, topic_id=B)
    with pytest.raises(LogDirError, match=f"two topics under one name.*{A}.*{B}"):
        merged(one, two)


# ------------------------------------------------------------------------------------------- formats without epochs


@pytest.mark.parametrize("magic", [0, 1])
def test_without_epochs_the_high_watermark_tells_which_tail_counts(tmp_path, whole, magic):
    other = [*whole[:3], *batches(2, 2, base=9, name="other")]
    one = write_partition(tmp_path / "1", {0: raw_of(whole, magic=magic, codec="gzip")}, high_watermark=9)
    two = write_partition(tmp_path / "2", {0: raw_of(other, magic=magic, codec="gzip")}, high_watermark=13)
    found = merged(one, two)
    assert rows_of(found) == truth_of(other)
    assert [one.check for one in found.decisions] == ["divergent-tail"]


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("marks", [(None, None), (9, 9), (11, 13)])
def test_two_tails_without_epochs_that_nothing_decides_are_both_cut(tmp_path, whole, codec, marks):
    other = [*whole[:3], *batches(2, 2, base=9, name="other")]
    paths = [
        write_partition(tmp_path / str(number), {0: raw_of(listed, magic=1, codec=codec)}, high_watermark=mark)
        for number, (listed, mark) in enumerate(zip((whole, other), marks, strict=True))
    ]
    found = merged(*paths)
    assert rows_of(found) == truth_of(whole[:3])
    assert "undecided" in checks(found)


def test_without_epochs_the_longest_of_equal_copies_counts(tmp_path, whole):
    one = write_partition(tmp_path / "1", {0: raw_of(whole[:4], magic=0)}, high_watermark=14)
    two = write_partition(tmp_path / "2", {0: raw_of(whole, magic=0)}, high_watermark=12)
    assert rows_of(merged(one, two)) == truth_of(whole)


# ------------------------------------------------------------------------------------- retention, deletion, compaction


def test_what_retention_took_in_one_copy_is_taken_from_another(tmp_path, whole):
    one = write_partition(tmp_path / "1", {7: raw_of(whole[2:])}, epochs=[(0, 7)])
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:4])}, epochs=[(0, 0)])
    found = merged(one, two)
    assert rows_of(found) == truth_of(whole)
    assert "copy-starts-later" in checks(found)


def test_deleted_records_stay_deleted(tmp_path, whole):
    """DeleteRecords moves the log start offset, which the checkpoint says; a copy that lags does not know of it."""
    one = write_partition(tmp_path / "1", {0: raw_of(whole)}, epochs=[(0, 5)], start_offset=5)
    two = write_partition(tmp_path / "2", {0: raw_of(whole[:4])}, epochs=[(0, 0)])
    found = merged(two, one)
    assert found.start_offset == 5
    assert rows_of(found) == [row for row in truth_of(whole) if row[0] >= 5]


def keyed(offsets: dict[int, tuple[bytes, bytes | None]], size: int = 4, until: int = 24) -> bytes:
    """Return batches of ``size`` offsets that hold some of them, as the cleaner leaves them."""
    raw = b""
    for base in range(0, until, size):
        inside = {offset: row for offset, row in offsets.items() if base <= offset < base + size}
        if not inside:
            continue
        keys, values = zip(*inside.values(), strict=True)
        made = kafkaframes.build_records({"offset": list(inside), "key": keys, "value": values}, leader_epoch=0)
        # lastOffsetDelta stays that of the whole batch
        raw += _with_last_delta(made, size - 1) if base in inside and len(inside) < size else made
    return raw


def _with_last_delta(raw: bytes, delta: int) -> bytes:
    body = raw[21:23] + delta.to_bytes(4, "big") + raw[27:]
    return raw[:17] + google_crc32c.value(body).to_bytes(4, "big") + body


def test_a_compacted_partition_is_taken_from_one_copy(tmp_path):
    """The tombstone at 6 is gone in copy 1; copy 2 still has the record at 2 that it deleted."""
    history = {n: (b"k%d" % n, b"v") for n in range(24)} | {2: (b"x", b"old"), 6: (b"x", None)}
    cleaned = {n: row for n, row in history.items() if n not in (2, 6, 9, 10)}
    one = write_partition(tmp_path / "1", {0: keyed(cleaned)}, epochs=[(0, 0)], clean_offset=16)
    two = write_partition(tmp_path / "2", {0: keyed(history, until=20)}, epochs=[(0, 0)], clean_offset=0)
    three = write_partition(tmp_path / "3", {0: keyed({0: history[0]}, until=4)}, epochs=[(0, 0)], clean_offset=0)
    found = merged(two, one, three)
    assert [offset for offset, _ in rows_of(found)] == sorted(cleaned)
    assert "compacted-differently" in checks(found)
    assert "missing" not in checks(found)


def test_a_compacted_copy_that_is_broken_is_not_the_one(tmp_path):
    history = {n: (b"k%d" % n, b"v") for n in range(24)}
    cleaned = {n: row for n, row in history.items() if n not in (2, 6)}
    torn = bytearray(keyed(cleaned))
    torn[8 + 70 : 12 + 70] = b"\xff\xff\xff\xff"
    raw = keyed(cleaned)
    second = int.from_bytes(raw[8:12], "big") + 12
    broken = raw[: second + 8] + b"\0\0\0\1" + raw[second + 12 :]
    one = write_partition(tmp_path / "1", {0: broken, 24: b""}, epochs=[(0, 0)], clean_offset=20)
    two = write_partition(tmp_path / "2", {0: keyed(history)}, epochs=[(0, 0)], clean_offset=0)
    assert [offset for offset, _ in rows_of(merged(one, two))] == sorted(history)


def test_a_damaged_batch_of_the_compacted_part_comes_from_the_very_same_batch_only(tmp_path):
    history = {n: (b"k%d" % n, b"v") for n in range(24)}
    cleaned = {n: row for n, row in history.items() if n not in (2, 14)}
    raw = keyed(cleaned)
    step = len(keyed(cleaned, until=4))
    same, other = step + 63, raw.index(b"k13")  # batch 4..7 is alike in both, batch 12..15 is not
    two = write_partition(tmp_path / "2", {0: keyed(history)}, epochs=[(0, 0)], clean_offset=0)
    one = write_partition(tmp_path / "1", {0: flipped(raw, same)}, epochs=[(0, 0)], clean_offset=20)
    found = merged(one, two)
    assert [offset for offset, _ in rows_of(found)] == sorted(cleaned)
    (one / f"{0:020}.log").write_bytes(flipped(raw, other))
    found = merged(one, two)
    assert "damaged" in checks(found)
    assert {o for o, _ in rows_of(found, "drop")} == set(cleaned) - {12, 13, 15}


# ------------------------------------------------------------------------------------------------------- the model

steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("fetch"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("fetch"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("elect"), st.integers(0, 2)),
)


def write_brokers(root, cluster: Cluster, data) -> list:
    paths = []
    for number, broker in enumerate(cluster.brokers):
        bases = [batch.base for batch in broker.log]
        rolls = data.draw(st.sets(st.sampled_from(bases))) if bases else set()
        bounds = sorted({0, *rolls})
        segments = {
            low: raw_of([batch for batch in broker.log if low <= batch.base < high])
            for low, high in pairwise([*bounds, 2**60])
        }
        epochs = broker.epochs if data.draw(st.booleans()) or broker.epochs[-1:] != epochs_seen(broker)[-1:] else None
        paths.append(write_partition(root / str(number), segments, epochs=epochs, high_watermark=broker.high_watermark))
    return paths


def epochs_seen(broker: Broker) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for batch in broker.log:
        if not found or found[-1][0] != batch.epoch:
            found.append((batch.epoch, batch.base))
    return found


@given(st.lists(steps, min_size=3, max_size=40), st.data())
def test_the_merge_is_the_log_of_the_leader(tmp_path_factory, history, data):
    cluster = Cluster([Broker(), Broker(), Broker()])
    for step, *arguments in history:
        getattr(cluster, step)(*arguments)
    paths = write_brokers(tmp_path_factory.mktemp("cluster"), cluster, data)
    found = merged(*data.draw(st.permutations(paths)), check=data.draw(st.booleans()))
    assert dict(rows_of(found)) == cluster.truth()
    assert len(rows_of(found)) == len(cluster.truth())
    assert not checks(found) & {"undecided", "missing", "damaged", "misplaced", "epochs-doubtful"}


@given(st.lists(st.integers(1, 5), min_size=2, max_size=12), st.data())
def test_what_is_damaged_or_lost_in_some_copies_is_taken_from_others(tmp_path_factory, sizes, data):
    """Each batch stays whole in one copy at least; in the others it is cut out, or a bit of it is flipped."""
    listed = batches(*sizes)
    root = tmp_path_factory.mktemp("damaged")
    keeper = [data.draw(st.integers(0, 2)) for _ in listed]
    paths = []
    for copy in range(3):
        raw = b""
        for batch, kept in zip(listed, keeper, strict=True):
            made = batch.raw()
            harm = data.draw(st.sampled_from(["none", "lost", "flipped"])) if kept != copy else "none"
            if harm == "flipped":  # not the size: what follows would be lost with it
                made = flipped(made, data.draw(st.integers(12, len(made) - 1)))
            raw += b"" if harm == "lost" else made
        paths.append(write_partition(root / str(copy), {0: raw}, epochs=[(0, 0)], clean_offset=-1))
    found = merged(*paths)
    assert dict(rows_of(found)) == dict(truth_of(listed))
    assert len(rows_of(found)) == len(truth_of(listed))


def test_every_decision_says_what_it_means():
    assert all(meaning for _, meaning in MERGE_CHECKS.values())
    assert TOPIC.topic == "orders"
