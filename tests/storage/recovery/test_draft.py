"""The planned files of a partition during a recovery. The plan lists changes in order, without changes on the disk."""

import pytest

from kafkaframes.storage.files.directory import LogFile
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.log.overflow import SplitPart
from kafkaframes.storage.recovery.draft import FileActionKind, RecoveryDraft


def build_file(base, kind, temporary="", size_bytes=10):
    name = FileName(base, kind, temporary)
    return LogFile(name, f"/logs/t-0/{name}", size_bytes, 5)


@pytest.fixture
def draft():
    files = [
        build_file(0, "log"),
        build_file(0, "index"),
        build_file(20, "log"),
        build_file(20, "log", "swap"),
        build_file(20, "snapshot"),
    ]
    return RecoveryDraft({build_file.name: build_file for build_file in files})


def list_actions(draft):
    return [
        (action.kind, action.path.rpartition("/")[2], action.to and action.to.rpartition("/")[2])
        for action in draft.actions
    ]


def test_a_file_is_deleted_once(draft):
    for _ in range(2):
        draft.delete_files([build_file(0, "index"), build_file(0, "log")], "why")
    assert list_actions(draft) == [
        (FileActionKind.DELETE, f"{0:020}.index", None),
        (FileActionKind.DELETE, f"{0:020}.log", None),
    ]
    assert draft.list_bases() == [20]


def test_a_renamed_file_keeps_its_old_path_until_the_plan_is_executed(draft):
    (swap,) = draft.find_files_with_suffix("swap")
    draft.delete_files(draft.find_segment_files(20), "replaced")
    draft.rename_temporary(swap, "takes its place")
    (renamed_segment,) = draft.find_segment_files(20)
    assert (renamed_segment.path, renamed_segment.name) == (swap.path, FileName(20, "log"))
    assert draft.set_aside([renamed_segment], "cut off") == 10
    last = draft.actions[-1]
    assert (last.path, last.to, last.source) == (
        f"/logs/t-0/{20:020}.log",
        f"/logs/t-0/{20:020}.log.deleted",
        swap.path,
    )


def test_a_segment_is_split_into_swap_files(draft):
    whole = build_file(0, "log", size_bytes=100)
    pieces = (SplitPart(0, 0, 60, "/logs/t-0/piece-a"), SplitPart(9, 60, 100, "/logs/t-0/piece-b"))
    pieces = tuple(piece._replace(path=f"/logs/t-0/{FileName(piece.base_offset, 'log')}") for piece in pieces)
    draft.split_segment(whole, pieces)
    assert [kind for kind, *_ in list_actions(draft)] == [
        FileActionKind.SPLIT,
        FileActionKind.RENAME,
        FileActionKind.RENAME,
        FileActionKind.RENAME,
        FileActionKind.RENAME,
    ]
    assert [one[1:] for one in list_actions(draft)[-2:]] == [
        (f"{0:020}.log.swap", f"{0:020}.log"),
        (f"{9:020}.log.swap", f"{9:020}.log"),
    ]
    assert (draft.list_bases(), draft.part_bases) == ([0, 9, 20], {0, 9})
