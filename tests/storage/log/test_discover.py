"""Discovery of log directories in every layout, and reports of invalid ones."""

import os
import pickle
from pathlib import Path

import pytest

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.directory import partitions_of
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import largest_timestamp, log_end_offset

LOGS = Path(__file__).parents[2] / "data" / "logs"
UNIQUE_ID = "3a400b54ac4a47ee86e55390ecea333b"


def write_log_directory(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"")


def base(offset: int, suffix: str = "log") -> str:
    return f"{offset:020d}.{suffix}"


def test_a_log_directory_of_a_broker_is_discovered():
    (directory,) = discover(str(LOGS / "kraft-4x-transactions"))
    assert directory.clean_shutdown is not None
    assert directory.clean_shutdown.broker_epoch == 13
    assert directory.meta is not None
    assert directory.meta.node_id == 1
    assert not directory.problems
    for partition in directory.partitions:
        assert partition.metadata is not None
        assert partition.leader_epochs is not None
        assert [segment.base_offset for segment in partition.segments] == sorted(
            int(path.name[:20]) for path in Path(partition.directory).glob("*.log")
        )
        for segment in partition.segments:
            assert segment.size_bytes == os.path.getsize(segment.path)
    assert pickle.loads(pickle.dumps(directory)) == directory


def test_a_single_partition_uses_checkpoints_of_its_parent_directory():
    (directory,) = discover(str(LOGS / "unclean-half-finished-swap" / "before" / "plain-0"))
    (partition,) = directory.partitions
    assert partition.topic_partition == TopicPartition("plain", 0)
    assert partition.recovery_point == 163
    assert partition.high_watermark == 245
    assert {file.name.temporary for file in partition.temporary} == {"swap"}


def test_one_segment_is_discovered_with_its_indexes():
    folder = LOGS / "unclean-half-finished-swap" / "before" / "plain-0"
    ((partition,),) = ([*directory.partitions] for directory in discover(str(folder / base(163))))
    (segment,) = partition.segments
    assert segment.base_offset == 163
    assert None not in (segment.index, segment.time_index, segment.snapshot)
    assert not segment.txn_index
    assert not partition.temporary


def test_segments_given_one_by_one_are_one_partition():
    folder = LOGS / "unclean-half-finished-swap" / "before" / "plain-0"
    (directory,) = discover([str(folder / base(334)), str(folder / base(0)), str(folder / base(334))])
    (partition,) = directory.partitions
    assert [segment.base_offset for segment in partition.segments] == [0, 334]


def test_patterns_and_nested_directories_are_searched():
    by_pattern = discover(str(LOGS / "unclean-half-finished-swap" / "*" / "plain-0"))
    nested_directories = discover(str(LOGS / "unclean-half-finished-swap"))
    assert [Path(one.path).name for one in by_pattern] == ["after", "before"]
    assert [Path(directory.path).name for directory in nested_directories] == ["after", "before"]
    by_segments = discover(str(LOGS / "unclean-half-finished-swap" / "before" / "plain-0" / "*.log"))
    assert len(by_segments[0].partitions[0].segments) == 3


def test_renamed_directories_and_temporary_files_are_classified(tmp_path):
    write_log_directory(
        tmp_path,
        f"t-0/{base(0)}",
        f"t-0/{base(5, 'log.swap')}",
        f"t-0/{base(5, 'log.cleaned')}",
        f"t-0/{base(2, 'log.deleted')}",
        f"t-0/{base(9, 'index')}",
        f"t-0/{base(9, 'snapshot')}",
        f"t-0.{UNIQUE_ID}-delete/{base(0)}",
        f"u-1.{UNIQUE_ID}-stray/{base(0)}",
        f"__cluster_metadata-0/{base(0)}",
        "__cluster_metadata-0/00000000000000000081-0000000001.checkpoint",
        "bootstrap.checkpoint",
        "remote-log-index-cache/0_x.index",
    )
    (directory,) = discover(str(tmp_path))
    assert [(str(partition.topic_partition), partition.state) for partition in directory.partitions] == [
        ("__cluster_metadata-0", ""),
        ("t-0", ""),
        ("t-0", "delete"),
        ("u-1", "stray"),
    ]
    metadata, live = directory.partitions[:2]
    assert [snapshot.log.name.leader_epoch for snapshot in metadata.kraft_snapshots] == [1]
    assert [file.name.temporary for file in live.temporary] == ["deleted", "cleaned", "swap"]
    assert [file.name.kind for file in live.orphans] == ["index"]
    assert [file.name.offset for file in live.producer_snapshots] == [9]
    assert directory.bootstrap is not None
    assert [str(one.topic_partition) for _, one in partitions_of([directory])] == ["__cluster_metadata-0", "t-0"]
    assert len([*partitions_of([directory], live=False)]) == 4


def test_the_log_start_offset_is_the_checkpoint_or_the_first_segment(tmp_path):
    write_log_directory(tmp_path, f"t-0/{base(10)}", f"t-1/{base(10)}", f"t-2/{base(10)}", "t-3/partition.metadata")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n3\nt 0 15\nt 1 4\nt 3 8\n")
    (directory,) = discover(str(tmp_path))
    assert [partition.log_start_offset for partition in directory.partitions] == [15, 10, 10, 8]


def test_a_corrupt_checkpoint_is_reported_and_hides_no_partition(tmp_path):
    write_log_directory(tmp_path, f"t-0/{base(0)}")
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"\x00\xff")
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n9\n")
    (tmp_path / "t-0" / "partition.metadata").write_text("nonsense")
    (tmp_path / ".kafka_cleanshutdown").write_text("nonsense")
    (directory,) = discover(str(tmp_path))
    assert len(directory.partitions[0].segments) == 1
    assert directory.clean_shutdown is not None
    assert sorted(Path(str(problem.file)).name for problem in directory.problems) == [
        ".kafka_cleanshutdown",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "recovery-point-offset-checkpoint",
    ]


@pytest.mark.parametrize("path", ["missing", "missing-*", "empty", "text.txt"])
def test_paths_without_a_log_are_rejected_by_name(tmp_path, path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(LogDirError) as caught:
        discover(str(tmp_path / path))
    assert caught.value.file == str(tmp_path / path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_a_directory_without_permission_is_named(tmp_path):
    write_log_directory(tmp_path, f"t-0/{base(0)}")
    (tmp_path / "t-0").chmod(0)
    try:
        with pytest.raises(LogDirError, match="Permission denied"):
            discover(str(tmp_path))
    finally:
        (tmp_path / "t-0").chmod(0o700)


def test_a_url_is_read_through_fsspec_and_pyarrow():
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    source = LOGS / "unclean-half-finished-swap" / "before"
    for path in (path for path in source.rglob("*") if path.is_file()):
        store.pipe_file(f"/backup/{path.relative_to(source)}", path.read_bytes())
    (local,) = discover(str(source))
    (remote,) = discover("memory://backup")
    assert [partition.topic_partition for partition in remote.partitions] == [
        partition.topic_partition for partition in local.partitions
    ]
    for one, other in zip(remote.partitions, local.partitions, strict=True):
        assert [s.size_bytes for s in one.segments] == [s.size_bytes for s in other.segments]
        assert one.checkpointed_offsets == other.checkpointed_offsets
        path = one.segments[0].path
        assert path.startswith("memory://")
        raw = Path(other.segments[0].path).read_bytes()
        assert remote.filesystem.read(path, position=5, length=7) == raw[5:12]
        assert remote.filesystem.read(path, position=len(raw), length=7) == b""
    pattern = discover("memory://backup/*/*.log")
    assert len(pattern[0].partitions) == len(local.partitions)
    with pytest.raises(LogDirError):
        remote.filesystem.read("memory://backup/nothing")


def test_a_given_pyarrow_file_system_is_used():
    from pyarrow import fs

    source = str(LOGS / "unclean-half-finished-swap" / "before")
    (log_dir,) = discover(source, filesystem=fs.LocalFileSystem())
    (local,) = discover(source)
    assert not log_dir.problems
    assert log_dir.offset_checkpoints == local.offset_checkpoints
    for one, other in zip(log_dir.partitions, local.partitions, strict=True):
        assert [segment.size_bytes for segment in one.segments] == [segment.size_bytes for segment in other.segments]
        assert log_end_offset(log_dir.filesystem, one) == log_end_offset(local.filesystem, other)
        for segment, same in zip(one.segments, other.segments, strict=True):
            largest = largest_timestamp(log_dir.filesystem, one, segment)
            assert largest == largest_timestamp(local.filesystem, other, same)
