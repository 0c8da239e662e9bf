"""Do the work of ``dump-log``: call ``dump_log``, and print the output and the messages as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kafkaframes.cli.text import open_record_output, print_text
from kafkaframes.errors import OptionError
from kafkaframes.jobs.dump.decoders import DECODERS
from kafkaframes.jobs.dump.names import FILE_KINDS
from kafkaframes.jobs.inspection_functions import dump_log
from kafkaframes.storage.files.atomic import open_output, reject_nested_destination

if TYPE_CHECKING:
    from kafkaframes.jobs.dump.dump import LogDump

EXIT_FAULT = 1  # exit status if a file is damaged
# Names of the flags that are passed to ``dump_log`` as arguments of the same name.
_DUMP_LOG_ARGUMENTS = (
    *("topics", "partitions", "start", "end", "offsets", "count", "key_regex", "pattern", "replicas"),
    *("deep_iteration", "print_data_log", "skip_record_metadata", "index_sanity_check", "verify_index_only"),
    *("max_bytes", "max_message_size", "style", "full_values", "base64"),
)


def run_dump(flags: dict[str, Any]) -> None:
    """Print the requested files. The exit status is 1 if a file is damaged."""
    paths = [*flags["paths"], *(path for text in flags["named"] for path in text.split(",") if path)]
    if not paths:
        raise OptionError("the files are missing; specify PATHS or --files")
    if flags["output"] is not None:
        reject_nested_destination(Path(flags["output"]), paths)
    settings = flags["settings"]
    dump = dump_log(
        paths,
        **{name: flags[name] for name in _DUMP_LOG_ARGUMENTS},
        format=_choose_output_format(flags),
        decoder=_find_decoder(flags),
        keys=[key.encode() for key in flags["keys"]],
        kinds=FILE_KINDS if "all" in flags["kinds"] else flags["kinds"],
        key_files=settings.key_files,
        follow_links=settings.follow_links,
    )
    with _open_output(flags["output"], is_text=flags["form"] != "arrow") as out:
        _print_dump(dump, out)
    if dump.errors:
        sys.exit(EXIT_FAULT)


def _choose_output_format(flags: dict[str, Any]) -> Any:
    """Return the output format that the flags select. More than one format is an error."""
    if sum((flags["pattern"] is not None, flags["envelopes"], flags["form"] != "text")) > 1:
        raise OptionError("--format, -f and -J cannot be combined")
    return "envelopes" if flags["envelopes"] else flags["form"]


def _find_decoder(flags: dict[str, Any]) -> Any:
    """Return the name of the requested decoder; None without one. More than one decoder is an error."""
    decoders = [name for name in DECODERS if flags[f"{name.replace('-', '_')}_decoder"]]
    if len(decoders) > 1:
        raise OptionError(f"decoders cannot be combined: --{'-decoder and --'.join(decoders)}-decoder")
    return decoders[0] if decoders else None


@contextmanager
def _open_output(path: str | None, *, is_text: bool) -> Iterator[BinaryIO]:
    if path is None:
        yield open_record_output(is_text=is_text)
        return
    with open_output(path) as file:
        yield file


def _print_dump(dump: LogDump, out: BinaryIO) -> None:
    """Write the output, and print decisions, notes and errors in between."""
    for line in dump.decisions:
        print_text(f"kafkaframes: {line}", err=True)
    notes = errors = 0  # number of printed notes and errors
    for part in dump:
        notes, errors = _print_messages(dump, notes, errors, out)
        out.write(part)
    _print_messages(dump, notes, errors, out)
    out.flush()


def _print_messages(dump: LogDump, notes: int, errors: int, out: BinaryIO) -> tuple[int, int]:
    """Print the new notes and errors, after the output to which they belong.

    Return the total numbers of messages that have been printed.
    """
    if len(dump.notes) > notes or len(dump.errors) > errors:
        out.flush()
    for note in dump.notes[notes:]:
        print_text(note, err=True)
    for error in dump.errors[errors:]:
        print_text(f"kafkaframes: {error}", err=True)
    return len(dump.notes), len(dump.errors)
