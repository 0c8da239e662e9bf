"""Recovery after unfinished cleanings, by the rules of two generations of brokers."""

from pathlib import Path

import pytest
from tests.storage.recovery.test_rules import build_batch, recover_log, write_log

from kafkaframes.errors import LogDirError

NOW_MS = 1_795_000_000_000
DIRECTORY = "t-0"


def write_swap(home: Path, swap: bytes, segments: dict[int, bytes]) -> Path:
    """Write a log whose cleaner stopped before it replaced segment 0 with a swap file with an index."""
    write_log(home, segments)
    for base in segments:
        (home / DIRECTORY / f"{base:020}.index").write_bytes(bytes(8))
    (home / DIRECTORY / f"{0:020}.log.swap").write_bytes(swap)
    (home / DIRECTORY / f"{0:020}.index.swap").write_bytes(bytes(16))
    return home


def short(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name[19:]: raw for name, raw in files.items() if name[:20].isdecimal() and "snapshot" not in name}


@pytest.mark.parametrize("broker_release", ["2.8", "3.9", "4.x"])
def test_segments_covered_by_a_swap_are_renamed_by_2_8_and_deleted_by_others(tmp_path, broker_release):
    old, swap = {0: build_batch(0, 2), 2: build_batch(2, 2), 4: build_batch(4)}, build_batch(0) + build_batch(3)
    files = short(recover_log(write_swap(tmp_path / "logs", swap, old), broker_release=broker_release))
    assert files.pop("0.log") == swap
    assert files.pop("4.log") == old[4]
    aside = {name: raw for name, raw in files.items() if name.endswith(".deleted")}
    assert aside == {} if broker_release != "2.8" else {
        "0.log.deleted": old[0], "0.index.deleted": b"", "0.timeindex.deleted": aside["0.timeindex.deleted"],
        "2.log.deleted": old[2], "2.index.deleted": bytes(8), "2.timeindex.deleted": b"",
    }  # fmt: skip
    assert files.keys() - aside.keys() == {"0.index", "0.timeindex", "4.index", "4.timeindex"}


def test_2_8_truncates_a_swap_before_it_looks_for_covered_segments(tmp_path):
    swap = build_batch(0) + build_batch(3)[:-1]
    files = short(
        recover_log(
            write_swap(tmp_path / "logs", swap, {0: build_batch(0, 2), 2: build_batch(2, 2)}), broker_release="2.8"
        )
    )
    assert (files["0.log"], files["2.log"]) == (build_batch(0), build_batch(2, 2))
    assert files["0.log.deleted"] == build_batch(0, 2)


def test_an_empty_swap_replaces_a_segment_that_2_8_does_not_rename(tmp_path):
    files = short(
        recover_log(write_swap(tmp_path / "logs", b"", {0: build_batch(0, 2), 2: build_batch(2)}), broker_release="2.8")
    )
    assert {name: files[name] for name in files if ".log" in name} == {"0.log": b"", "2.log": build_batch(2)}


@pytest.mark.parametrize(("broker_release", "remaining_files"), [("2.8", {"0.timeindex.swap": b"t"}), ("4.x", {})])
def test_an_unfinished_swap_is_deleted_and_2_8_deletes_the_index_of_another(tmp_path, broker_release, remaining_files):
    home = write_swap(tmp_path / "logs", build_batch(3), {0: build_batch(0, 2), 2: build_batch(2)})
    there = home / DIRECTORY
    for kind in ("log", "index"):
        (there / f"{0:020}.{kind}.swap").rename(there / f"{2:020}.{kind}.swap")
    (there / f"{2:020}.log.cleaned").write_bytes(b"")
    (there / f"{0:020}.timeindex.swap").write_bytes(b"t")
    files = short(recover_log(home, broker_release=broker_release))
    assert {name: raw for name, raw in files.items() if name.endswith((".swap", ".cleaned"))} == remaining_files
    assert (files["0.log"], files["2.log"]) == (build_batch(0, 2), build_batch(2))


def test_2_8_does_not_start_with_a_swap_outside_the_index_range(tmp_path):
    home = write_swap(tmp_path / "logs", build_batch(0) + build_batch(2**31), {0: build_batch(0, 2)})
    with pytest.raises(LogDirError, match="does not start"):
        recover_log(home, broker_release="2.8")
