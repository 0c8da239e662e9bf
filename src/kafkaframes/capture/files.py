"""Which files are meant, in which order they belong, and how their bytes are read: plain, gzip, zstd or lz4."""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from kafkaframes.errors import DecodeError, OptionError

_CHUNK: Final = 256 << 10
_MOST_AT_ONCE: Final = 4 << 20  # bytes that one piece of input may become at once
_FIRST_STEP: Final = 512
_GZIP, _ZSTD, _LZ4 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
CAPTURE_NAME: Final = re.compile(r"\.(pcap|pcapng|cap|ntar|dmp)(\.?\d+)?(\.(gz|zst|zstd|lz4))?$|\.pcap", re.IGNORECASE)
_NAME_END: Final = re.compile(r"[\w.-]*")  # of a name that is read backwards
_LOG_SUFFIX: Final = re.compile(r"\.log(?:$|[.-][\w.-])", re.IGNORECASE)


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
    result: list[str] = []
    for named in paths:
        text = os.fspath(named)
        location = Path(text)
        if location.is_dir():
            names = [str(one) for one in location.iterdir() if one.is_file() and _is_ours(one.name)]
        elif location.exists():
            names = [text]
        else:
            names = [one for one in glob.glob(text) if os.path.isfile(one)]
        if not names:
            what = "holds no capture or request log" if location.is_dir() else "does not exist"
            raise OptionError(f"{text}: {what}")
        result += sorted(names, key=natural)
    return list(dict.fromkeys(result))


def has_log_name(path: str) -> bool:
    """Return whether a file is named as logs are, also rotated or compressed ones.

    >>> [has_log_name(name) for name in ("server.log", "a.log.2026-01-31.gz", "a.logs", "x.log.1!")]
    [True, True, False, False]
    """
    end = _NAME_END.match(path[::-1])
    return end is not None and _LOG_SUFFIX.search(end[0][::-1]) is not None


def is_traffic(path: str) -> bool:
    """Tell captures and request logs from logs: a file by its name, a directory by those in it."""
    location = Path(path)
    if location.is_dir():
        return any(one.is_file() and CAPTURE_NAME.search(one.name) for one in location.iterdir())
    if "://" in path or not location.is_file():
        return False
    is_segment = location.suffix == ".log" and location.stem.isdecimal()
    return bool(CAPTURE_NAME.search(location.name) or (has_log_name(location.name) and not is_segment))


def _is_ours(name: str) -> bool:
    return bool(CAPTURE_NAME.search(name) or has_log_name(name)) and not name.startswith(".")


@contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if its first bytes (not its name) are those of a compressed file.

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
        return Gunzip(raw)  # type: ignore[return-value]
    if head == _ZSTD:
        import zstandard

        return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True)
    if head == _LZ4:
        import lz4.frame

        return lz4.frame.LZ4FrameFile(raw, mode="rb")  # type: ignore[no-any-return]
    return raw


class Gunzip:
    """Reads gzip, of several members too; what breaks off gives all bytes up to there, and then an error."""

    def __init__(self, raw: IO[bytes]) -> None:
        from isal import isal_zlib

        self._raw = raw
        self._new: Callable[[], Any] = partial(isal_zlib.decompressobj, wbits=31)
        self._member: Any = self._new()
        self._input = memoryview(b"")
        self._step = _FIRST_STEP  # how much of the input a member is given at once: it gives back what is not its own
        self._whole = True  # nothing of a member is outstanding
        self._ready = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, fewer at the end only.

        Raises:
            EOFError: the data break off.
        """
        out = bytearray()
        while size < 0 or len(out) < size:
            view = bytearray(_CHUNK if size < 0 else min(size - len(out), _CHUNK))
            got = self.readinto(memoryview(view))
            if not got:
                break
            out += view[:got]
        return bytes(out)

    def readinto(self, view: memoryview) -> int:
        """Fill a part of ``view``; 0 at the end."""
        while not len(self._ready):
            if not self._more():
                return 0
        size = min(len(view), len(self._ready))
        view[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _more(self) -> bool:
        """Decompress some; tell whether there may be more."""
        if not self._input:
            self._input = memoryview(self._raw.read(_CHUNK))
            if not self._input:
                if not self._whole:
                    self._whole = True
                    raise EOFError("the gzip data end too early")
                return False
        part = self._input[: self._step]
        if self._whole:  # between members there may be zeros
            zeros = len(part) - len(bytes(part).lstrip(b"\0"))
            part, self._input = part[zeros:], self._input[zeros:]
            if not part:
                return True
            self._member, self._step = self._new(), _FIRST_STEP
            part = part[: self._step]
        self._ready = memoryview(self._member.decompress(part, _MOST_AT_ONCE))
        self._whole = self._member.eof
        left = self._member.unused_data if self._whole else self._member.unconsumed_tail
        self._input = self._input[len(part) - len(left) :]
        self._step = min(2 * self._step, _CHUNK)
        return True


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
