"""Find capture files and request logs, sort them, and open them decompressed."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from kafkaframes.capture.compressed import open_compressed
from kafkaframes.errors import NO_SUCH_PATH_TEXT, DecodeError, OptionError, format_path_error

CAPTURE_NAME_PATTERN: Final = re.compile(
    r"\.(pcap|pcapng|cap|ntar|dmp)(\.?\d+)?(\.(gz|zst|zstd|lz4))?$|\.pcap", re.IGNORECASE
)
_REVERSED_NAME_PATTERN: Final = re.compile(r"[\w.-]*")  # matches the file name at the start of a reversed path
_LOG_SUFFIX_PATTERN: Final = re.compile(r"\.log(?:$|[.-][\w.-])", re.IGNORECASE)


def natural_sort_key(name: str) -> tuple[Any, ...]:
    """Return a key that puts ``x.2.pcap`` before ``x.10.pcap``, and ``x.pcap`` before ``x.pcap1`` (tcpdump -C).

    >>> sorted(["t.pcap10", "t.pcap2", "t.pcap"], key=natural_sort_key)
    ['t.pcap', 't.pcap2', 't.pcap10']
    """
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name))


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files that paths, directories and patterns refer to.

    Files in a directory are sorted by the numbers in their names.

    Raises:
        OptionError: a path does not exist, or a directory or pattern contains no file.
    """
    result: list[str] = []
    for path in paths:
        text = os.fspath(path)
        location = Path(text)
        if location.is_dir():
            names = [
                str(candidate) for candidate in location.iterdir() if candidate.is_file() and _is_ours(candidate.name)
            ]
        elif location.exists():
            names = [text]
        else:
            names = [candidate for candidate in glob.glob(text) if os.path.isfile(candidate)]
        if not names:
            missing_text = "nothing matches the pattern" if glob.has_magic(text) else NO_SUCH_PATH_TEXT
            problem = "contains no capture or request log" if location.is_dir() else missing_text
            raise OptionError(f"{problem} (at {text})")
        result += sorted(names, key=natural_sort_key)
    return list(dict.fromkeys(result))


def has_log_name(path: str) -> bool:
    """Return whether a file has the name of a log, including rotated and compressed ones.

    >>> [has_log_name(name) for name in ("server.log", "a.log.2026-01-31.gz", "a.logs", "x.log.1!")]
    [True, True, False, False]
    """
    end = _REVERSED_NAME_PATTERN.match(path[::-1])
    return end is not None and _LOG_SUFFIX_PATTERN.search(end[0][::-1]) is not None


def is_traffic(path: str) -> bool:
    """Return whether a file is named like a capture or request log, or a directory contains captures."""
    location = Path(path)
    if location.is_dir():
        return any(file.is_file() and CAPTURE_NAME_PATTERN.search(file.name) for file in location.iterdir())
    if "://" in path or not location.is_file():
        return False
    is_segment = location.suffix == ".log" and location.stem.isdecimal()
    return bool(CAPTURE_NAME_PATTERN.search(location.name) or (has_log_name(location.name) and not is_segment))


def _is_ours(name: str) -> bool:
    return bool(CAPTURE_NAME_PATTERN.search(name) or has_log_name(name)) and not name.startswith(".")


@contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file. The file is decompressed if its first bytes, not its name, identify compressed data.

    Raises:
        OptionError: the file cannot be opened.
    """
    try:
        raw = open(path, "rb", buffering=0)  # noqa: SIM115 (closed below)
    except OSError as error:
        raise OptionError(format_path_error(error, path)) from error
    with raw:
        try:
            head = raw.read(4)
            raw.seek(0)
        except OSError as error:
            raise OptionError(format_path_error(error, path)) from error
        yield open_compressed(raw, head)


def read_into(file: IO[bytes], view: memoryview, path: str) -> tuple[int, DecodeError | None]:
    """Fill ``view`` from a file. Return the number of bytes, and the error that ended the read early, if any."""
    size = 0
    try:
        while size < len(view):
            count = file.readinto(view[size:])  # type: ignore[attr-defined]  # raw files, and those of ``compressed``
            if not count:
                break
            size += count
    except DecodeError as error:
        return size, DecodeError(error.reason, file=path)
    except OSError as error:
        return size, DecodeError(f"cannot be read: {error.strerror or error}", file=path)
    return size, None


def read_head(path: str, size: int) -> bytes:
    """Return the first ``size`` bytes of a file, decompressed; fewer bytes if the file ends or is damaged.

    Raises:
        OptionError: the file cannot be opened.
    """
    head = bytearray(size)
    with open_bytes(path) as file:
        length, _ = read_into(file, memoryview(head), path)
    return bytes(head[:length])
