"""Foreign text: every command escapes names that control a terminal or are not UTF-8."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import tty
from contextlib import suppress
from pathlib import Path

import pytest

from kafkaframes.cli.main import cli
from kafkaframes.cli.text import format_time, open_record_output
from kafkaframes.errors import OptionError
from kafkaframes.records.build import build_records

SEGMENT_NAME = f"{0:020}.log"
CONTROL_SEQUENCES = "x\x1b[31m\x1b]0;owned\x07-0"


def run(*arguments):
    command = [sys.executable, "-m", "kafkaframes", *map(os.fsdecode, arguments)]
    return subprocess.run(command, capture_output=True, check=False, timeout=250)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log directory with terminal control sequences in names, and with a topic name that is not UTF-8."""
    directory = tmp_path_factory.mktemp("source") / "log"
    for name in (CONTROL_SEQUENCES, os.fsdecode(b"caf\xe9-0"), "plain-0"):
        (directory / name).mkdir(parents=True)
        rows = [{"value": b"v\x1b[31m", "key": b"k", "timestamp": 1_700_000_000_000}] * 10
        (directory / name / SEGMENT_NAME).write_bytes(build_records(rows) + b"\1" * 9)
    (directory / "meta.properties").write_text("cluster.id=\x1b[2Jowned\nnode.id=1\nversion=1\n")
    return directory


COMMANDS = [
    ("info", "LOG"),
    ("info", "LOG", "--deep", "--json"),
    ("verify", "LOG", "--deep"),
    ("dump-log", "LOG"),
    ("dump-log", "LOG", "-J"),
    ("report", "LOG", "-o", "OUT"),
    ("export", "LOG", "--to", "OUT", "--workers", "1"),
    ("export", "LOG", "--to", "OUT", "--format", "json", "--workers", "1"),
    ("repair", "LOG", "--to", "OUT", "--workers", "1"),
    ("recompress", "LOG", "--codec", "gzip", "--on-damage", "keep", "--to", "OUT", "--workers", "1"),
    ("compact", "LOG", "--dry-run", "--topic", "*", "--workers", "1"),
    ("restore", "LOG", "--to", "OUT", "--workers", "1"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_all_commands_escape_control_characters_in_names(log, tmp_path, command):
    words = {"LOG": log, "OUT": tmp_path / "out"}
    process = run(*(words.get(word, word) for word in command))
    assert b"Traceback" not in process.stderr
    assert b"Error" not in process.stderr
    output = process.stderr + (
        process.stdout if "-J" not in command else b""
    )  # the format of kcat prints the bytes of a record unchanged
    assert b"\x1b" not in output
    assert b"\x07" not in output
    assert process.returncode == (2 if command[0] == "restore" else process.returncode)


def test_an_export_of_a_topic_that_is_not_utf_8_is_complete(log, tmp_path):
    only = tmp_path / "only"
    shutil.copytree(os.path.join(log, os.fsdecode(b"caf\xe9-0")), only / os.fsdecode(b"caf\xe9-0"))
    process = run("export", only, "--to", tmp_path / "out", "--workers", "1", "--json")
    assert json.loads(process.stdout)["records"] == 10
    assert [path.parent.parent.name for path in Path(tmp_path / "out").rglob("*.parquet")] == ["topic=caf\\xe9"]


@pytest.mark.parametrize(
    ("timestamp", "text"), [(-1, "–"), (None, "–"), (0, "1970-01-01 00:00:00"), (2**62, f"{2**62} ms")]
)
def test_times_no_calendar_has_are_numbers(timestamp, text):
    assert format_time(timestamp) == text


def run_on_terminal(monkeypatch, call):
    """Return the output of ``call`` with a terminal as standard output."""
    there, here = pty.openpty()
    tty.setraw(here)
    with open(here, "w", closefd=True) as out:
        monkeypatch.setattr(sys, "stdout", out)
        call()
        out.flush()
        monkeypatch.undo()
    output = b""
    with suppress(OSError):  # EIO: the other end is closed, and all output was read
        while piece := os.read(there, 1 << 16):
            output += piece
    os.close(there)
    return output


@pytest.mark.parametrize(
    "options", [(), ("-J",), ("-f", "%k\\t%s\\n"), ("--format", "csv"), ("--print-data-log",)], ids=str
)
def test_control_characters_in_records_are_escaped_on_a_terminal(log, monkeypatch, options):
    command = ["dump-log", str(log / "plain-0" / SEGMENT_NAME), *options]
    output = run_on_terminal(monkeypatch, lambda: cli.main(command, standalone_mode=False))
    assert output
    assert b"\x1b" not in output


def test_characters_divided_between_writes_are_shown(monkeypatch):
    def write():
        out = open_record_output()
        for piece in (
            b"a\tb\n",
            "caf\xe9 \u20ac".encode()[:4],
            "caf\xe9 \u20ac".encode()[4:],
            b"\xff\x1b]0;t\x07\xc2",
            b"\x9b\r\n",
        ):
            assert out.write(piece) == len(piece)

    assert run_on_terminal(monkeypatch, write).decode() == "a\tb\ncaf\xe9 \u20ac\\xff\\x1b]0;t\\x07\\x9b\\r\n"


def test_an_arrow_stream_is_not_written_to_a_terminal(log, monkeypatch):
    with pytest.raises(OptionError, match="cannot be printed on a terminal"):
        run_on_terminal(
            monkeypatch, lambda: cli.main(["dump-log", str(log), "--format", "arrow"], standalone_mode=False)
        )
