"""Convert arguments of public functions that accept one path or several. This module does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath

from kafkaframes.errors import OptionError

_EXPECTED_TEXT = "expected a str or an os.PathLike"


def to_path(value: object) -> str:
    """Return a path as text.

    Raises:
        OptionError: The value is not a path, or is a path in bytes.
    """
    path: object = fspath(value) if isinstance(value, PathLike) else value
    if isinstance(path, str):
        return path
    if isinstance(path, bytes | bytearray | memoryview):
        raise OptionError(
            f"a path has the type {type(path).__name__}; {_EXPECTED_TEXT}: os.fsdecode converts a path in bytes, and "
            "read_records and read_batches accept the bytes of a segment"
        )
    raise OptionError(f"{value!r} is not a path; {_EXPECTED_TEXT}")


def to_path_list(paths: object) -> list[str]:
    """Return the paths of an argument that is a single path or a sequence of paths.

    >>> to_path_list("a.log"), to_path_list(["a.log", "b.log"])
    (['a.log'], ['a.log', 'b.log'])

    Raises:
        OptionError: The value is neither, or is an empty sequence, such as a ``glob`` without matches.
    """
    if isinstance(paths, str | bytes | bytearray | memoryview | PathLike) or not isinstance(paths, Iterable):
        return [to_path(paths)]
    path_list = [to_path(path) for path in paths]
    if not path_list:
        raise OptionError("`paths` is empty; expected files, directories, patterns or URLs")
    return path_list
