"""Ctrl-C in the middle of each command that writes: one line, a shell's status, and no partial output.

A signal is sent at the first, the middle and the last of the moments at which a command opens a file for writing,
makes a directory or renames one, wherever that is in the code.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli

DATA = Path(__file__).parents[1] / "data"
CAPTURE = DATA / "captures" / "share-groups-broker43.pcap.zst"
SEGMENT_NAME = f"{0:020}.log"
ONE_PROCESS = ("--workers", "1")
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT
WRITE_NUMBER_BY_TIME = {"first": lambda count: 1, "middle": lambda count: (count + 1) // 2, "last": lambda count: count}

# After an interrupt, the output of these commands is missing or complete.
ATOMIC_COMMANDS: dict[str, Callable[[Path, Path], list]] = {
    "convert": lambda log, to: ["convert", log, "--record-format", "v1", "--to", to, *ONE_PROCESS],
    "recompress": lambda log, to: ["recompress", log, "--codec", "gzip", "--to", to, *ONE_PROCESS],
    "compact": lambda log, to: ["compact", log, "--topic", "*", "--to", to, *ONE_PROCESS],
    "repair": lambda log, to: ["repair", log, "--to", to, *ONE_PROCESS],
    "restore": lambda log, to: ["restore", log, "--to", to, *ONE_PROCESS],
    "report": lambda log, to: ["report", log, "-o", to],
    "dump-log": lambda log, to: ["dump-log", log, "--format", "csv", "--output", to],
    "audit": lambda log, to: ["audit", log, "--target", "4.3", "-o", to],
    "redact": lambda log, to: ["redact", CAPTURE, "-o", to],
    "export to one file": lambda log, to: ["export", log, "-o", to, *ONE_PROCESS],
}
# After an interrupt, the next run of these commands continues.
RESUMABLE_COMMANDS: dict[str, Callable[[Path, Path], list]] = {
    "export": lambda log, to: ["export", log, "--to", to, *ONE_PROCESS],
    "table of Delta": lambda log, to: ["table", log, "--to", "delta", to, *ONE_PROCESS],
    "table": lambda log, to: ["table", log, "--to", "parquet", to],
    "mirror": lambda log, to: ["mirror", "--from", log, "--to", to],
}
INTERRUPTED = (130, ["kafkaframes: interrupted"])
STOPPED = {"mirror": [(3, []), (0, [])]}  # it completes pending work and reports whether that was all


class WriteHook:
    """An audit hook that counts writes below a directory, and sends a signal at one of them."""

    def __init__(self) -> None:
        self.below, self.count, self.at = "", 0, 0
        sys.addaudithook(self._on_event)

    def watch(self, below: Path, *, at: int = 0) -> None:
        self.below, self.count, self.at = str(below), 0, at

    def _on_event(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.below or event not in ("open", "os.rename", "os.mkdir"):
            return
        if not str(arguments[0]).startswith(self.below) or (
            event == "open" and not int(str(arguments[2])) & WRITE_FLAGS
        ):
            return
        self.count += 1
        if self.count == self.at:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def hook():
    hook = WriteHook()
    yield hook
    hook.below = ""  # audit hooks cannot be removed


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    directory = tmp_path_factory.mktemp("source") / "log"
    for name in ("a-0", "a-1", "b-0"):
        (directory / name).mkdir(parents=True)
        rows = [{"value": b"v", "key": b"k%d" % (number % 3), "timestamp": 10**12} for number in range(20)]
        (directory / name / SEGMENT_NAME).write_bytes(kafkaframes.build_records(rows, batch_records=5))
    (directory / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return directory


def ask(arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)))


def files(place: Path) -> dict[str, int]:
    if place.is_file():
        return {"": place.stat().st_size}
    return {str(path.relative_to(place)): path.stat().st_size for path in place.rglob("*") if path.is_file()}


def count_writes(hook, place: Path, arguments: list) -> int:
    """Run a command, and return the number of its writes."""
    hook.watch(place)
    assert ask(arguments).exit_code == 0
    hook.below = ""
    return hook.count


@pytest.mark.parametrize("command", ATOMIC_COMMANDS)
def test_an_interrupt_leaves_no_partial_output(hook, log, tmp_path, command):
    make = ATOMIC_COMMANDS[command]
    out = "out.parquet" if command == "export to one file" else "out"
    count = count_writes(hook, tmp_path, make(log, tmp_path / f"whole-{out}"))
    whole = files(tmp_path / f"whole-{out}")
    for name, of in WRITE_NUMBER_BY_TIME.items():
        place = tmp_path / name
        place.mkdir()
        hook.watch(place, at=of(count))
        result = ask(make(log, place / out))
        hook.below = ""
        assert hook.count >= of(count), name
        assert (result.exit_code, result.stderr.splitlines()[-1:]) == INTERRUPTED, name
        remaining_names = [path.name for path in place.iterdir()]
        assert remaining_names in ([], [out]), name
        assert not remaining_names or files(place / out).keys() == whole.keys(), name
        assert not (place / out).is_file() or files(place / out) == whole, name


@pytest.mark.parametrize("command", RESUMABLE_COMMANDS)
def test_the_next_run_continues_after_an_interrupt(hook, log, tmp_path, command):
    make = RESUMABLE_COMMANDS[command]
    count = count_writes(hook, tmp_path, make(log, tmp_path / "whole"))
    for name, of in WRITE_NUMBER_BY_TIME.items():
        out = tmp_path / name / "out"
        out.parent.mkdir()
        hook.watch(out.parent, at=of(count))
        result = ask(make(log, out))
        hook.below = ""
        assert (result.exit_code, result.stderr.splitlines()[-1:]) in STOPPED.get(command, [INTERRUPTED]), name
        again = ask(make(log, out))
        assert again.exit_code == 0, (name, again.output, again.exception)
        assert rows_in(command, out) == 60, name


def rows_in(command: str, out: Path) -> int:
    if command == "table of Delta":
        import deltalake

        return deltalake.DeltaTable(str(out)).to_pyarrow_dataset().count_rows()
    if command == "mirror":
        return sum(batch.num_rows for batch in kafkaframes.read_records(str(out)))
    import pyarrow.dataset

    return pyarrow.dataset.dataset(out, format="parquet").count_rows()
