"""A tiered store as a log directory: the correct segments, byte for byte; problems are reported with their object."""

import hashlib
import json
import pickle
import shutil
from pathlib import Path

import pytest
from tests.storage.tiered.store import TOPIC_ID, KeyPair, TieredStore

import kafkaframes
from kafkaframes.errors import DamagedChunkError, LogDirError, MissingSegmentError
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.build import build_records
from kafkaframes.storage.log.discover import discover, find_filesystem
from kafkaframes.storage.tiered.names import ViewPath

CASES = Path(__file__).parents[2] / "data" / "tiered"
CASE_NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())


def key_options(copied_case):
    return {"key_files": tuple(map(str, copied_case.glob("*.private.pem")))}


def main_of(segment):
    return ViewPath.parse(segment.path).main


def open_view(*paths, **options):
    """Return the log directory of the store, which is the last path."""
    return discover([str(path) for path in paths], options=options)[-1]


@pytest.fixture
def copied_case(tmp_path):
    """Return a function that copies a case, so that tests can damage it."""

    def copy(name):
        shutil.copytree(CASES / name, tmp_path / name)
        return tmp_path / name

    return copy


@pytest.mark.parametrize("name", CASE_NAMES)
@pytest.mark.parametrize("with_local", [True, False])
def test_valid_segments_equal_the_original_bytes(name, with_local):
    folder = CASES / name
    truth = {entry["object"]: entry for entry in json.loads((folder / "index.json").read_text())["segments"]}
    paths = [folder / "local", folder / "store"] if with_local else [folder / "store"]
    directory = open_view(*paths, **key_options(folder))
    segments = [segment for partition in directory.partitions for segment in partition.segments]
    by_object = {main_of(segment).removeprefix(f"{folder}/store/"): segment for segment in segments}
    assert by_object.keys() == {key for key, entry in truth.items() if entry["valid"]}
    assert not directory.problems
    read = directory.filesystem.read
    for key, segment in by_object.items():
        assert hashlib.sha256(read(segment.path)).hexdigest() == truth[key]["original_sha256"]
        assert (segment.size_bytes, segment.end_offset) == (truth[key]["original_size"], truth[key]["end_offset"])
        files = {"offset": segment.index, "timestamp": segment.time_index, "transaction": segment.txn_index}
        for index, file in files.items():
            index_truth = truth[key]["indexes"][index]
            assert (file is None) == (index_truth is None)
            if file is not None:
                plain = read(file.path)
                assert (len(plain), hashlib.sha256(plain).hexdigest()) == (
                    file.size_bytes,
                    index_truth["original_sha256"],
                )


def test_ranges_are_slices_in_this_and_another_process():
    folder = CASES / "settings-changed"
    directory = open_view(folder / "store", **key_options(folder))
    unpickled_filesystem = pickle.loads(pickle.dumps(directory.filesystem))
    assert not unpickled_filesystem.manifests
    for segment in directory.partitions[0].segments:
        whole = directory.filesystem.read(segment.path)
        for filesystem in (unpickled_filesystem, find_filesystem(segment.path, options=key_options(folder))):
            assert filesystem.stat(segment.path).size_bytes == len(whole)
            with filesystem.open(segment.path) as read_at:
                for position, length in ((0, 61), (5000, 40_000), (len(whole) - 7, 100), (len(whole), 1), (11, 0)):
                    assert read_at(position, length) == whole[position : position + length]
    again = unpickled_filesystem.list_directory(directory.partitions[0].directory)
    assert [entry.path for entry in again] == [
        entry.path for entry in directory.filesystem.list_directory(directory.partitions[0].directory)
    ]


def test_a_store_is_found_by_any_of_its_folders_or_objects():
    folder = CASES / "diverged" / "store"
    (topic,) = folder.iterdir()
    whole = open_view(folder).partitions
    assert open_view(topic).partitions == whole
    assert open_view(topic / "0").partitions == whole[:1]
    assert open_view(f"{folder}/*/0").partitions == whole[:1]
    objects = sorted((topic / "0").glob("*.log"))
    view = open_view(*objects[:2]).partitions[0]
    assert [main_of(segment) for segment in view.segments] == [str(path)[:-4] for path in objects[:2]]


def test_the_local_log_specifies_the_start_of_the_tiered_log():
    folder = CASES / "deleted-records"
    starts = [partition.log_start_offset for partition in open_view(folder / "local", folder / "store").partitions]
    assert starts == [1117, 990]
    assert [partition.log_start_offset for partition in open_view(folder / "store").partitions] == [900, 990]


# ------------------------------------------------------------------------------------------------- a store of our own


def write_segment_file(tmp_path, base, count=100, *, epoch=0):
    path = tmp_path / f"{base:020d}.log"
    rows = [{"key": b"k%d" % n, "value": b"v" * 50, "timestamp": 1_760_000_000_000 + n} for n in range(count)]
    path.write_bytes(build_records(rows, base_offset=base, leader_epoch=epoch, batch_records=10))
    return path


def get_store(tmp_path, bases, **settings):
    store = TieredStore(tmp_path / "store", **({"chunk_size": 1000} | settings))
    for base in bases:
        store.upload(
            write_segment_file(tmp_path, base), end_offset=base + 99, epochs={0: base}, checkpoint="0\n1\n0 0\n"
        )
    return store


def test_a_prefix_may_end_in_the_first_folders_name(tmp_path):
    store = get_store(tmp_path, [0, 100], prefix="backup/dc2-")
    (partition,) = open_view(store.root).partitions
    assert (partition.topic, len(partition.segments)) == ("orders", 2)
    assert partition.metadata.topic_id == TOPIC_ID


def test_several_uploads_of_one_segment_are_one(tmp_path):
    store = get_store(tmp_path, [0, 100, 100, 200])
    (partition,) = open_view(store.root).partitions
    assert [segment.base_offset for segment in partition.segments] == [0, 100, 200]
    assert len(partition.notes) == 1
    assert not partition.problems


def test_a_larger_upload_of_the_same_offsets_replaces_smaller_ones(tmp_path):
    store = get_store(tmp_path, [0, 100, 200])
    store.upload(write_segment_file(tmp_path, 0, 200), end_offset=199, epochs={0: 0}, checkpoint="0\n1\n0 0\n")
    (partition,) = open_view(store.root).partitions
    assert [(segment.base_offset, segment.end_offset) for segment in partition.segments] == [(0, 199), (200, 299)]


def test_offsets_that_no_segment_has_are_told(tmp_path):
    store = get_store(tmp_path, [0, 200])
    (partition,) = open_view(store.root).partitions
    assert "no segment has the offsets 100 to 199 of orders-0" in str(partition.problems[0])


def test_the_newest_history_wins_and_a_local_log_knows_better(tmp_path):
    store = get_store(tmp_path, [0, 100])
    store.upload(
        write_segment_file(tmp_path, 50, epoch=1), end_offset=149, epochs={1: 50}, checkpoint="0\n2\n0 0\n1 50\n"
    )
    (partition,) = open_view(store.root).partitions
    assert [segment.base_offset for segment in partition.segments] == [50]
    assert len(partition.notes) == 2
    local = tmp_path / "local" / "orders-0"
    local.mkdir(parents=True)
    shutil.copy(write_segment_file(tmp_path, 200), local)
    (local / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 200\n")
    (partition,) = open_view(local.parent, store.root).partitions
    assert [segment.base_offset for segment in partition.segments] == [0, 100]


def test_what_contradicts_itself_is_named_and_left_out(tmp_path):
    store = get_store(tmp_path, [0, 100, 200, 300])
    Path(f"{store.written_paths[0]}.rsm-manifest").unlink()
    Path(f"{store.written_paths[1]}.log").unlink()
    manifest = Path(f"{store.written_paths[2]}.rsm-manifest")
    manifest.write_text(manifest.read_text().replace(TOPIC_ID, "AAAAAAAAAAAAAAAAAAAAAA"))
    (partition,) = open_view(store.root).partitions
    assert [segment.base_offset for segment in partition.segments] == [300]
    assert f"{store.written_paths[0]}: objects without a manifest (indexes, log)" in partition.notes[0]
    reasons = {problem.file: problem.reason for problem in partition.problems}
    assert "without its .log object" in reasons[f"{store.written_paths[1]}.rsm-manifest"]
    assert f"topic id AAAAAAAAAAAAAAAAAAAAAA, but the object key has {TOPIC_ID}" in reasons[str(manifest)]


def test_a_cut_object_is_named_and_read_up_to_the_cut(tmp_path):
    store = get_store(tmp_path, [0, 100], compress=True)
    cut_object = Path(f"{store.written_paths[1]}.log")
    cut_object.write_bytes(cut_object.read_bytes()[:-3])
    directory = open_view(store.root)
    assert directory.problems[0].file == str(cut_object)
    segment = directory.partitions[0].segments[1]
    with directory.filesystem.open(segment.path) as read_at:
        last = (segment.size_bytes - 1) // 1000
        assert len(read_at(0, last * 1000)) == last * 1000
        with pytest.raises(DamagedChunkError, match=rf"chunk {last} of {last + 1} cannot be read") as caught:
            read_at(0, segment.size_bytes)
        assert caught.value.lost == (last * 1000, segment.size_bytes)
        assert caught.value.file == str(cut_object)


@pytest.mark.parametrize("compress", [True, False])
def test_encrypted_segments_require_their_key(tmp_path, compress):
    pair, other = KeyPair.make("one"), KeyPair.make("two")
    for one in (pair, other):
        (tmp_path / f"{one.key_id}.pem").write_bytes(one.pem)
    store = get_store(tmp_path, [0, 100], compress=compress, keys=pair)
    with pytest.raises(LogDirError, match=r"key pair 'one': its private key is needed .*\.indexes"):
        open_view(store.root)
    keys = {name: f"{tmp_path}/{name}.pem" for name in ("one", "two")}
    for key_files in ((keys["two"],), (f"two={keys['one']}",)):
        with pytest.raises(LogDirError, match=r"key pair 'one'; none of the key files has its private key .*\.indexes"):
            open_view(store.root, key_files=key_files)
    for key_files in ((keys["two"], keys["one"]), (f"one={keys['one']}",)):
        directory = open_view(store.root, key_files=key_files)
        plain = (tmp_path / f"{0:020d}.log").read_bytes()
        assert directory.filesystem.read(directory.partitions[0].segments[0].path) == plain


def test_a_changed_byte_of_an_encrypted_chunk_is_detected(tmp_path):
    pair = KeyPair.make("one")
    (tmp_path / "one.pem").write_bytes(pair.pem)
    store = get_store(tmp_path, [0], keys=pair)
    path = Path(f"{store.written_paths[0]}.log")
    raw = bytearray(path.read_bytes())
    raw[1500] ^= 1
    path.write_bytes(raw)
    directory = open_view(store.root, key_files=(str(tmp_path / "one.pem"),))
    with pytest.raises(DamagedChunkError, match=r"chunk 1 of .* its bytes were changed"):
        directory.filesystem.read(directory.partitions[0].segments[0].path)


def test_a_topic_that_was_made_again_is_two_partitions_until_the_log_says_which(tmp_path):
    old = get_store(tmp_path, [0, 100])
    new = TieredStore(old.root, topic_id="AAAAAAAAAAAAAAAAAAAAAA")
    new.upload(write_segment_file(tmp_path, 0), end_offset=99, epochs={0: 0})
    assert [partition.metadata.topic_id for partition in open_view(old.root).partitions] == [
        "AAAAAAAAAAAAAAAAAAAAAA",
        TOPIC_ID,
    ]


def test_of_two_topics_of_one_name_the_local_log_says_which_lives(tmp_path):
    old = get_store(tmp_path, [0, 100])
    new = TieredStore(old.root, topic_id="AAAAAAAAAAAAAAAAAAAAAA")
    new.upload(write_segment_file(tmp_path, 0), end_offset=99, epochs={0: 0})
    local = tmp_path / "local" / "orders-0"
    local.mkdir(parents=True)
    shutil.copy(write_segment_file(tmp_path, 200), local)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    (partition,) = open_view(local.parent, old.root).partitions
    assert partition.metadata.topic_id == TOPIC_ID


def test_verify_names_what_is_wrong_with_a_store(tmp_path):
    store = get_store(tmp_path, [0, 100, 200])
    Path(f"{store.written_paths[0]}.rsm-manifest").unlink()
    Path(f"{store.written_paths[1]}.log").unlink()
    report = verify(discover(str(store.root)))
    findings = {(finding.severity.name, finding.check, finding.file) for finding in report.findings}
    assert ("NOTE", "tiered-left-out", store.written_paths[0]) in findings
    assert ("ERROR", "tiered", f"{store.written_paths[1]}.rsm-manifest") in findings
    assert not report.is_sound


def test_jobs_report_offsets_that_no_segment_has(tmp_path):
    """Aiven-Open/tiered-storage-for-apache-kafka#378: an object is missing. A restore and a mirror lost its records."""
    store = get_store(tmp_path, [0, 200])
    reason = "no segment has the offsets 100 to 199 of orders-0"
    with pytest.raises(
        LogDirError, match=f"{reason}: nothing was restored .`on_damage`=drop restores the other segments"
    ):
        kafkaframes.restore_log(store.root, tmp_path / "restored")
    restored = kafkaframes.restore_log(store.root, tmp_path / "restored", on_damage="drop")
    assert [left_out[1] for left_out in restored.left_out] == [reason]
    report = kafkaframes.mirror_topics(store.root, tmp_path / "mirror")
    assert [line.partition(" (at ")[0] for line in report.not_read] == [reason]


def test_a_manifest_without_its_log_after_the_last_segment_is_a_loss(tmp_path):
    """Kafka deletes a log from its start, and the manifest is uploaded last: it is neither a deletion nor an upload."""
    store = get_store(tmp_path, [0, 100, 200])
    Path(f"{store.written_paths[2]}.log").unlink()
    reason = "a manifest without its .log object: the segment is lost"
    with pytest.raises(LogDirError, match=f"{reason}: nothing was restored"):
        kafkaframes.restore_log(store.root, tmp_path / "restored")
    outcome = kafkaframes.export_log(store.root, tmp_path / "export").report
    assert [finding.message for finding in outcome.notes.unreadable] == [reason]
    assert not outcome.is_complete
    assert kafkaframes.export_log(store.root, tmp_path / "earlier", end=200).report.is_complete


def test_a_local_copy_may_have_the_lost_segment(tmp_path):
    store = get_store(tmp_path, [0, 100, 200])
    Path(f"{store.written_paths[2]}.log").unlink()
    local = tmp_path / "local" / "orders-0"
    local.mkdir(parents=True)
    shutil.copy(write_segment_file(tmp_path, 200), local)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    outcome = kafkaframes.export_log([local.parent, store.root], tmp_path / "export").report
    assert (outcome.is_complete, outcome.summary.records) == (True, 300)


def test_a_manifest_without_its_log_before_the_first_segment_may_be_a_deletion(tmp_path):
    store = get_store(tmp_path, [0, 100])
    Path(f"{store.written_paths[0]}.log").unlink()
    assert not isinstance(open_view(store.root).problems[0], MissingSegmentError)
    assert kafkaframes.export_log(store.root, tmp_path / "export").report.is_complete


def test_another_upload_of_a_lost_segment_replaces_it(tmp_path):
    store = get_store(tmp_path, [0, 100, 100])
    Path(f"{store.written_paths[2]}.log").unlink()
    assert not isinstance(open_view(store.root).problems[0], MissingSegmentError)
