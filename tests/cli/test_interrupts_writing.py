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
BASE = f"{0:020}.log"
HERE = ("--workers", "1")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
WHEN = {"first": lambda count: 1, "middle": lambda count: (count + 1) // 2, "last": lambda count: count}

# They leave nothing, or all of it.
WHOLE: dict[str, Callable[[Path, Path], list]] = {
    "convert": lambda log, to: ["convert", log, "--record-format", "v1", "--to", to, *HERE],
    "recompress": lambda log, to: ["recompress", log, "--codec", "gzip", "--to", to, *HERE],
    "compact": lambda log, to: ["compact", log, "--topic", "*", "--to", to, *HERE],
    "repair": lambda log, to: ["repair", log, "--to", to, *HERE],
    "restore": lambda log, to: ["restore", log, "--to", to, *HERE],
    "report": lambda log, to: ["report", log, "-o", to],
    "dump-log": lambda log, to: ["dump-log", log, "--format", "csv", "--output", to],
    "audit": lambda log, to: ["audit", log, "--target", "4.3", "-o", to],
    "redact": lambda log, to: ["redact", CAPTURE, "-o", to],
    "export to one file": lambda log, to: ["export", log, "-o", to, *HERE],
}
# The next run continues.
GOES_ON: dict[str, Callable[[Path, Path], list]] = {
    "export": lambda log, to: ["export", log, "--to", to, *HERE],
    "table of Delta": lambda log, to: ["table", log, "--to", "delta", to, *HERE],
    "table": lambda log, to: ["table", log, "--to", "parquet", to],
    "mirror": lambda log, to: ["mirror", "--from", log, "--to", to],
}
INTERRUPTED = (130, ["kafkaframes: interrupted"])
STOPPED = {"mirror": [(3, []), (0, [])]}  # it completes pending work and reports whether that was all


class Hook:
    """Counts the moments at which something is written below a directory; sends a signal at one of them."""

    def __init__(self) -> None:
        self.below, self.count, self.at = "", 0, 0
        sys.addaudithook(self._heard)

    def watch(self, below: Path, *, at: int = 0) -> None:
        self.below, self.count, self.at = str(below), 0, at

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.below or event not in ("open", "os.rename", "os.mkdir"):
            return
        if not str(arguments[0]).startswith(self.below) or (event == "open" and not int(str(arguments[2])) & WRITES):
            return
        self.count += 1
        if self.count == self.at:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def hook():
    hook = Hook()
    yield hook
    hook.below = ""  # a hook cannot be taken away


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    directory = tmp_path_factory.mktemp("source") / "log"
    for name in ("a-0", "a-1", "b-0"):
        (directory / name).mkdir(parents=True)
        rows = [{"value": b"v", "key": b"k%d" % (number % 3), "timestamp": 10**12} for number in range(20)]
        (directory / name / BASE).write_bytes(kafkaframes.build_records(rows, batch_records=5))
    (directory / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return directory


def ask(arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)))


def files(place: Path) -> dict[str, int]:
    if place.is_file():
        return {"": place.stat().st_size}
    return {str(path.relative_to(place)): path.stat().st_size for path in place.rglob("*") if path.is_file()}


def moments(hook, place: Path, arguments: list) -> int:
    """Run a command to its end; return how often it wrote."""
    hook.watch(place)
    assert ask(arguments).exit_code == 0
    hook.below = ""
    return hook.count


@pytest.mark.parametrize("command", WHOLE)
def test_nothing_half_done_is_left(hook, log, tmp_path, command):
    make = WHOLE[command]
    out = "out.parquet" if command == "export to one file" else "out"
    count = moments(hook, tmp_path, make(log, tmp_path / f"whole-{out}"))
    whole = files(tmp_path / f"whole-{out}")
    for name, of in WHEN.items():
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


@pytest.mark.parametrize("command", GOES_ON)
def test_what_was_interrupted_goes_on(hook, log, tmp_path, command):
    make = GOES_ON[command]
    count = moments(hook, tmp_path, make(log, tmp_path / "whole"))
    for name, of in WHEN.items():
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
