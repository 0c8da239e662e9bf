"""Where message specs lie: files, directories, jars, zips of jars' folders, ``REF:path`` of a git repository."""

from __future__ import annotations

import io
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from kafkaframes.errors import OptionError, SpecError
from kafkaframes.protocol.spec.catalog.importing import Published
from kafkaframes.protocol.spec.load import PUBLISHED, Dialect, load_message
from kafkaframes.protocol.spec.model import MessageSpec

_RELEASE = re.compile(r"(?<![\d.])\d+\.\d+(?:\.\d+)+(?![\d.]*\d)")
_JAR = re.compile(r"(.+?)-\d+(?:\.\d+)+[^/]*\.jar")
_MOST_BYTES = 4 << 20  # of one spec; a larger member of an archive is not read
_GIT_REF = re.compile(r"([^:/\\][^:]*):(.*)", re.DOTALL)


def published(origin: str) -> list[Published]:
    """Return every spec file at a place, sorted by path; a place without any is an ``OptionError``.

    ``origin`` is a ``.json`` file, a directory (searched through), a jar or zip, or ``REF:path`` in the git repository
    that the current directory belongs to.
    """
    path = Path(origin)
    if path.is_dir():
        result = list(_directory(path))
    elif path.is_file():
        result = list(_file(path))
    elif _GIT_REF.fullmatch(origin):
        result = list(_git(origin))
    else:
        raise OptionError(f"{origin}: no such file or directory, and no REF:path of a git repository")
    if not result:
        raise OptionError(f"{origin} holds no message spec (a .json file with validVersions)")
    return result


def load_specs(source: str, dialect: Dialect = PUBLISHED) -> dict[str, MessageSpec]:
    """Return the specs at a source by name; two of one message are a ``SpecError``."""
    return {name: spec for name, (spec, _) in load_files(source, dialect).items()}


def load_files(source: str, dialect: Dialect = PUBLISHED) -> dict[str, tuple[MessageSpec, bytes]]:
    """Return the same, each with the bytes of its file."""
    specs: dict[str, tuple[MessageSpec, bytes]] = {}
    for file in published(source):
        spec = load_message(file.text, file=file.file, dialect=dialect)
        if spec.name in specs:
            raise SpecError(f"{source} has two specs of {spec.name}: give one release", file=file.file)
        specs[spec.name] = spec, file.text
    return specs


def _directory(folder: Path) -> Iterator[Published]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".zip", ".jar"):
            yield from _file(path)
        elif path.suffix == ".json" and path.is_file():
            yield from _member(path.as_posix(), path.read_bytes(), module=path.parent.name)


def _file(path: Path) -> Iterator[Published]:
    if path.suffix not in (".zip", ".jar"):
        yield from _member(path.as_posix(), path.read_bytes(), module=path.parent.name, is_named=True)
        return
    try:
        yield from _archive(path.name, path.read_bytes())
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise OptionError(f"{path}: {error}") from None


def _archive(name: str, raw: bytes) -> Iterator[Published]:
    jar = _JAR.fullmatch(PurePosixPath(name).name)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for info in sorted(archive.infolist(), key=lambda entry: entry.filename):
            if info.filename.endswith(".jar"):
                yield from _archive(info.filename, archive.read(info))
            elif info.filename.endswith(".json") and info.file_size <= _MOST_BYTES:
                module = jar[1] if jar else PurePosixPath(info.filename).parent.name
                yield from _member(f"{name}/{info.filename}", archive.read(info), module=module)


def _git(path: str) -> Iterator[Published]:
    ref, _, folder = path.partition(":")
    listed = _run_git("ls-tree", "-r", "--name-only", "-z", ref, "--", folder or ".")
    for name in sorted(filter(None, listed.decode().split("\0"))):
        if name.endswith(".json"):
            yield from _member(name, _run_git("show", f"{ref}:{name}"), module=PurePosixPath(name).parent.name)


def _run_git(*arguments: str) -> bytes:
    try:
        return subprocess.run(("git", *arguments), check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise OptionError("git is not installed, so REF:path cannot be read") from None
    except subprocess.CalledProcessError as error:
        raise OptionError(f"git {' '.join(arguments)}: {error.stderr.decode(errors='replace').strip()}") from None


def _member(path: str, text: bytes, *, module: str, is_named: bool = False) -> Iterator[Published]:
    """One file: what was named on the command line is a spec whatever it says, what was found must look like one."""
    if is_named or b'"validVersions"' in text:
        releases = _RELEASE.findall(path)
        yield Published(releases[-1] if releases else "0", module, PurePosixPath(path).name, text)
