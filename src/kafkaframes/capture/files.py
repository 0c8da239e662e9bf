"""Which files are meant, in which order they belong, and how their bytes are read: plain, gzip, zstd or lz4."""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from kafkaframes.errors import DecodeError, OptionError

_GZIP, _ZSTD, _LZ4 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
CAPTURE_NAME: Final = re.compile(r"\.(pcap|pcapng|cap|ntar|dmp)(\.?\d+)?(\.(gz|zst|zstd|lz4))?$|\.pcap", re.IGNORECASE)
LOG_NAME: Final = re.compile(r"\.log([.-][\w.-]+)?(\.gz|\.zst)?$", re.IGNORECASE)


def natural(name: str) -> tuple[Any, ...]:
    """Return a key that puts ``x.2.pcap`` before ``x.10.pcap``, and ``x.pcap`` before ``x.pcap1`` (tcpdump -C).

    >>> sorted(["t.pcap10", "t.pcap2", "t.pcap"], key=natural)
    ['t.pcap', 't.pcap2', 't.pcap10']
    """
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name))


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files meant by paths, directories and patterns: those of a directory in the order of their numbers.

    Raises:
        OptionError: a path does not exist, or a directory or pattern holds no file.
    """
    found: list[str] = []
    for given in paths:
        text = os.fspath(given)
        place = Path(text)
        if place.is_dir():
            names = [str(one) for one in place.iterdir() if one.is_file() and _is_ours(one.name)]
        elif place.exists():
            names = [text]
        else:
            names = [one for one in glob.glob(text) if os.path.isfile(one)]
        if not names:
            what = "holds no capture or request log" if place.is_dir() else "does not exist"
            raise OptionError(f"{text}: {what}")
        found += sorted(names, key=natural)
    return list(dict.fromkeys(found))


def _is_ours(name: str) -> bool:
    return bool(CAPTURE_NAME.search(name) or LOG_NAME.search(name)) and not name.startswith(".")


@contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if it is compressed: told by its first bytes, not by its name.

    Raises:
        OptionError: it cannot be opened.
    """
    try:
        raw = open(path, "rb", buffering=0)  # noqa: SIM115 (closed below)
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror or error}") from error
    with raw:
        head = raw.read(4)
        raw.seek(0)
        yield _decompressed(raw, head)


def _decompressed(raw: IO[bytes], head: bytes) -> IO[bytes]:
    if head.startswith(_GZIP):
        from isal import igzip

        return igzip.IGzipFile(fileobj=raw, mode="rb")  # type: ignore[no-any-return]
    if head == _ZSTD:
        import zstandard

        return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True)
    if head == _LZ4:
        import lz4.frame

        return lz4.frame.LZ4FrameFile(raw, mode="rb")  # type: ignore[no-any-return]
    return raw


def is_compressed(path: str) -> bool:
    """Tell whether a file is compressed."""
    with open(path, "rb") as file:
        head = file.read(4)
    return head.startswith(_GZIP) or head in (_ZSTD, _LZ4)


def read_into(file: IO[bytes], view: memoryview, path: str) -> tuple[int, DecodeError | None]:
    """Fill ``view``; return how many bytes came (fewer at the end), and what is wrong with the rest, if anything is."""
    got = 0
    readinto = getattr(file, "readinto", None)
    try:
        while got < len(view):
            if readinto is not None:
                count = readinto(view[got:])
            else:
                chunk = file.read(len(view) - got)
                count = len(chunk)
                view[got : got + count] = chunk
            if not count:
                break
            got += count
    except _BROKEN as error:
        return got, DecodeError(f"the compressed data break off: {error}", file=path)
    return got, None


def _broken() -> Any:
    import zlib

    import zstandard
    from isal import isal_zlib

    return (EOFError, io.UnsupportedOperation, OSError, RuntimeError, zlib.error, zstandard.ZstdError, isal_zlib.error)


_BROKEN = _broken()
