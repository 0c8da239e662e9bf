"""``dumplog``: kafka-dump-log's output for every file of a log directory, line for line.

Our input is the log directory and the version of the output format. Compared, section by section:

* ``--deep-iteration --print-data-log``: every segment and KRaft snapshot of topics that need no decoder;
* the plain dump of ``.index`` and ``.timeindex``, ``--index-sanity-check``, ``--verify-index-only``;
* the plain dump of ``.snapshot`` and ``.txnindex``;
* ``--deep-iteration`` with the decoder of an internal topic.

All segments must be in one of the sections. Standard error is compared as a set of headings with their details, because
Kafka iterates over hash maps. Some references have the headings only.

kafka-dump-log ends at the first fault (``### ended with``), and our dump continues. In this case all lines before it
must be equal, and our dump must have reported a fault.
"""

from __future__ import annotations

import gzip
import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agreement.corpus import LogCase, log_cases
from tests.agreement.kind import Case, Kind, differences

REFERENCE_SUFFIX = ".dumplog.txt.gz"
MAX_DIFFERENCES = 40
ENTRY_BYTES = {".index": 8, ".timeindex": 12}
SANITY, PLAIN = "--index-sanity-check", ""
_COMMAND_LINE = re.compile(rb"### kafka-dump-log ?(\([0-9.]+\))? ?(.*?)(?: ?--files (\S+))?(?: \(\d+ files\) exit 0)?")
_FILE_START = re.compile(rb"Dumping (\S+/\d{20}[-.]\S+)")
_DEEP = "--deep-iteration"
_HEADING = re.compile(r"(Mismatches in|Found |The following|Non-consecutive|Snapshot)")


@dataclass
class ToolRun:
    """One run of kafka-dump-log: its flags, the output lines of each file, and its standard error."""

    flags: str
    version: str = ""
    blocks: dict[str, list[bytes]] = field(default_factory=dict)
    end_lines: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    headings_only: bool = False
    file: str = ""  # the file in the command, if the output concerns it


def parse(text: bytes) -> list[ToolRun]:
    """Parse a ``*.dumplog.txt``; its three layouts differ in their ``###`` lines."""
    sections: list[ToolRun] = []
    current: list[bytes] = []
    name, errors = "", False
    for line in text.split(b"\n"):
        command = _COMMAND_LINE.fullmatch(line) if line.startswith(b"### kafka-dump-log") else None
        starts = _FILE_START.fullmatch(line) if line.startswith(b"Dumping ") else None
        if command:
            sections.append(ToolRun(command[2].decode(), (command[1] or b"()").decode()[1:-1]))
            sections[-1].file = (command[3] or b"").decode()
            current, errors = [], False
        elif line == b"### stderr" or line.startswith(b"### exit"):
            errors, sections[-1].headings_only = True, line != b"### stderr"
        elif line.startswith(b"### stderr: "):
            sections[-1].errors.append(line[12:].decode())
        elif line.startswith(b"### ended with "):
            sections[-1].end_lines[name] = line[15:].decode()
        elif errors:
            sections[-1].errors.append(line.decode())
        elif starts:
            name = starts[1].decode()
            current = sections[-1].blocks.setdefault(name, [])
            current.append(line)
        else:
            current.append(line)
    return sections


def _yield_cases(folder: Path) -> Iterator[Case]:
    for case in log_cases(folder, REFERENCE_SUFFIX):
        yield Case(case.name, case)


def _strip_empty(lines: list[bytes]) -> list[bytes]:
    """Drop empty lines at the end: the reference files separate runs by empty lines."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def _collect_details(lines: Iterable[str], *, headings_only: bool) -> dict[str, list[str]]:
    lines_by_heading: dict[str, list[str]] = {}
    heading = ""
    for line in filter(None, lines):
        line = "Snapshot" if line.startswith("Snapshot ") else line  # the rest is the text of an error
        if _HEADING.match(line):
            heading = line
        lines_by_heading.setdefault(heading, [])
        if line != heading and not headings_only:
            lines_by_heading[heading].append(line)
    return {heading: sorted(details) for heading, details in lines_by_heading.items()}


def _compare_lines(where: str, expected_lines: list[bytes], actual_lines: list[bytes]) -> Iterator[str]:
    for number, (one, other) in enumerate(itertools.zip_longest(expected_lines, actual_lines), start=1):
        if one != other:
            yield f"{where}: line {number}: expected {one!r}, found {other!r}"[:600]


@contextmanager
def _restore_file(path: Path, *, is_trimmed: bool) -> Iterator[Path]:
    """Return the file in its state when the reference was produced.

    kafka-dump-log of 4.x truncates an index to whole entries when it closes it, and the plain dump ran before the
    sanity check (which alone rejects such a file).
    """
    odd = path.stat().st_size % ENTRY_BYTES.get(path.suffix, 1) if is_trimmed else 0
    if not odd:
        yield path
        return
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / path.name
        copy.write_bytes(path.read_bytes()[:-odd])
        for sibling in path.parent.glob(f"{path.stem}.*"):
            if sibling != path:
                (Path(directory) / sibling.name).symlink_to(sibling.resolve())
        yield copy


class _DumpedFiles:
    """Our dumps of files under a root directory, in the output format of one Kafka version."""

    def __init__(self, root: Path, version: str) -> None:
        self.root, self.version = root, version

    def dump(self, name: str, flags: str) -> tuple[list[bytes], list[str], list[str]]:
        """Return the lines of standard output, those of standard error, and the faults."""
        from kafkaframes.jobs.dump.styles import TextOptions
        from kafkaframes.jobs.dump.text import dump_text

        text_options: dict[str, Any] = {}
        for flag in flags.split():
            if flag.endswith("-decoder"):
                text_options["decoder"] = flag.removeprefix("--").removesuffix("-decoder")
            else:
                text_options[flag.removeprefix("--").replace("-", "_")] = True
        with _restore_file(self.root / name, is_trimmed=flags == SANITY and self.version.startswith("4.")) as path:
            dumped_text = dump_text(str(path), TextOptions(style=self.version, **text_options), shown_path=name)
            text = b"".join(bytes(chunk) for chunk in dumped_text)
            return (
                text.split(b"\n"),
                list(dumped_text.format_error_lines()),
                [str(fault) for fault in dumped_text.findings.faults],
            )

    def files(self, *kinds: str) -> set[str]:
        """Return the files of these kinds that the product would dump, relative to the root."""
        from kafkaframes.jobs.dump.files import list_files_to_dump

        return {
            str(Path(file.path).relative_to(self.root)) for file in list_files_to_dump([str(self.root)], kinds=kinds)
        }


def _compare_section(section: ToolRun, product: _DumpedFiles) -> Iterator[str]:
    errors: list[str] = []
    if section.file and set(section.blocks) != {section.file}:
        yield f"{section.flags} {section.file}: the reference has {sorted(section.blocks) or 'nothing'}"
    for name, expected_lines in section.blocks.items():
        where = f"{section.flags} {name}".strip()
        actual_lines, lines, faults = product.dump(name, section.flags)
        errors += lines
        if name in section.end_lines:
            expected_lines = _strip_empty(expected_lines)
            actual_lines = actual_lines[: len(expected_lines)]
            if not faults:
                yield f"{where}: expected an error ({section.end_lines[name]}), found none"
        elif faults:
            yield f"{where}: expected no error, found {faults}"
        yield from _compare_lines(where, _strip_empty(expected_lines), _strip_empty(actual_lines))
    if not section.end_lines:
        expected_details = _collect_details(section.errors, headings_only=section.headings_only)
        yield from differences(
            expected_details, _collect_details(errors, headings_only=section.headings_only), f"{section.flags} stderr"
        )


def _expected_files(case: LogCase, product: _DumpedFiles) -> Iterator[tuple[str, Callable[[str], bool], set[str]]]:
    """Yield the files that each kind of section must cover: a name, the sections' flags, the files."""
    yield "segments", lambda flags: flags.startswith(_DEEP), product.files("log", "checkpoint")
    indexes = {
        name
        for name in product.files("index", "timeindex")
        if not Path(name).parent.name.endswith("-delete") and (case.directory / name).stat().st_size
    }
    yield "indexes", lambda flags: flags == SANITY, indexes
    yield "plain", lambda flags: flags == PLAIN, indexes | product.files("snapshot", "txnindex")


def _compare_files(sections: list[ToolRun], case: LogCase, product: _DumpedFiles) -> Iterator[str]:
    for what, fits, expected_files in _expected_files(case, product):
        named_files = {name for section in sections if fits(section.flags) for name in section.blocks}
        if named_files != expected_files and not (
            what == "indexes" and not any(fits(section.flags) for section in sections)
        ):
            missing, surplus = sorted(named_files - expected_files), sorted(expected_files - named_files)
            yield f"{what}: only in the reference {missing}, only in our output {surplus}"


def _compare_case(case: LogCase) -> Iterator[str]:
    problem = case.problem()
    if problem:
        yield problem
        return
    sections = parse(gzip.decompress(case.truth.read_bytes()))
    version = next((section.version for section in sections if section.version), case.kafka_version())
    product = _DumpedFiles(case.directory, version)
    yield from _compare_files(sections, case, product)
    for section in sections:
        yield from _compare_section(section, product)


def _disagreements(case: Case) -> Iterator[str]:
    yield from itertools.islice(_compare_case(case.payload), MAX_DIFFERENCES)


KIND = Kind("dumplog", ("logs",), _yield_cases, _disagreements)
