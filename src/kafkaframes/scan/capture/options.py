"""The options of ``kafka-capture``, and how files become tasks. No pyspark."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kafkaframes.capture.columns import TABLES
from kafkaframes.capture.files import find_files, natural
from kafkaframes.capture.reader import CaptureOptions
from kafkaframes.capture.streams import ports_of
from kafkaframes.errors import OptionError
from kafkaframes.scan.option_values import boolean, given_paths, one_of, parsed, positive

_WORTH_A_TASK: Final = 32 << 20  # bytes; every task looks at all headers, so more tasks than cores gain nothing
_QUIET_SECONDS: Final = 10
_WAIT_FILES: Final = 3


class Option(NamedTuple):
    """One option: its name, how its text is read, what it means."""

    name: str
    parse: Callable[[str], Any]
    meaning: str


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("must be a whole number")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


OPTIONS: Final = (
    Option("path", str, "captures or request logs: a file, a directory, a pattern"),
    Option("paths", str, "the JSON list that Spark makes of load([...])"),
    Option("table", one_of(TABLES), "calls (default), connections, gaps, packets or records"),
    Option("columns", _names, "the columns of the result, in this order; others are not decoded"),
    Option("api", str, "calls of this API only (name or number), with request and response as structs"),
    Option("ports", ports_of, "on which brokers listen: 9092,9094-9096; by default recognized by their bytes"),
    Option("secrets", boolean, "true shows credentials: SASL tokens, SCRAM, HMACs, passwords in configs"),
    Option("minPartitions", positive, "the least number of tasks; by default as many as are worth it, up to the cores"),
    Option("quietSeconds", _number, "streams: the newest file is read after this many seconds without a write (10)"),
    Option("waitFiles", positive, "streams: for how many files a call may wait for its answer and be one row (3)"),
    Option("maxFilesPerTrigger", positive, "streams: the most files of a micro-batch"),
)
_KNOWN: Final = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What one ``load()`` asks for, checked."""

    paths: tuple[str, ...]
    read: CaptureOptions
    min_partitions: int | None = None
    quiet_seconds: int = _QUIET_SECONDS
    max_files: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read options in any letter case.

        >>> SourceOptions.parse({"path": "/tmp/x.pcap", "TABLE": "gaps"}).read.table
        'gaps'

        Raises:
            OptionError: an option is unknown or has a bad value; the message says which.
        """
        given = {name.lower(): text for name, text in options.items()}
        known = [(_known(name), text) for name, text in given.items()]
        values = {option.name: parsed(option.name, option.parse, text) for option, text in known}
        read = CaptureOptions(
            wait_files=values.get("waitFiles", _WAIT_FILES),
            **{name: values[name] for name in ("table", "columns", "api", "ports", "secrets") if name in values},
        )
        read.chosen()
        return cls(
            paths=given_paths(given, source="kafka-capture", example="/captures/x.pcap"),
            read=read,
            min_partitions=values.get("minPartitions"),
            quiet_seconds=values.get("quietSeconds", _QUIET_SECONDS),
            max_files=values.get("maxFilesPerTrigger"),
        )

    def files(self) -> list[str]:
        """Return the files there are now."""
        return find_files(self.paths)


def _known(name: str) -> Option:
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.6)
        hint = (
            f"did you mean {_KNOWN[near[0]].name}?"
            if near
            else f"kafka-capture knows {', '.join(one.name for one in OPTIONS)}"
        )
        raise OptionError(f"unknown option {name}: {hint}")
    return _KNOWN[name]


class Work(NamedTuple):
    """What one task reads: some of the connections of some files."""

    files: tuple[str, ...]
    options: CaptureOptions


def plan_works(files: Sequence[str], options: SourceOptions, *, cores: int) -> list[Work]:
    """Share the connections of files out to tasks: each task looks at all headers, and at the payload of its own."""
    size_bytes = sum(os.path.getsize(path) for path in files)
    shares = options.min_partitions or max(min(cores, -(-size_bytes // _WORTH_A_TASK)), 1)
    return [Work(tuple(files), replace(options.read, share=share, shares=shares)) for share in range(shares)]


def finished_files(options: SourceOptions, *, now: float) -> list[str]:
    """Return the files that are complete: all but the newest, and that one too when it has been quiet."""
    try:
        files = sorted(find_files(options.paths), key=natural)
    except OptionError:
        return []
    if files and now - os.path.getmtime(files[-1]) < options.quiet_seconds:
        files.pop()
    return files
