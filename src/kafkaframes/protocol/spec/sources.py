"""Sources of message specs: files, directories, jars, zip files, ``REF:path`` of a git repository."""

from __future__ import annotations

import io
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from kafkaframes.errors import NO_SUCH_PATH_TEXT, OptionError, SpecError, format_path_error
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.importing import PublishedSpec
from kafkaframes.protocol.spec.load import NEWEST_DIALECT, PUBLISHED_DIALECT, SpecDialect, load_message
from kafkaframes.protocol.spec.model import MessageSpec

_RELEASE_PATTERN = re.compile(r"(?<![\d.])\d+\.\d+(?:\.\d+)+(?![\d.]*\d)")
_JAR_VERSION_PATTERN = re.compile(r"(?<=.)-\d+\.\d")
_MAX_SPEC_BYTES = 4 << 20  # largest size of a spec; larger members of an archive are not read
_GIT_REF_PATTERN = re.compile(r"([^:/\\][^:]*):(.*)", re.DOTALL)


def read_published(origin: str | os.PathLike[str]) -> list[PublishedSpec]:
    """Return every spec file of a source, sorted by path. A source without specs raises an ``OptionError``.

    ``origin`` is a ``.json`` file, a directory (searched recursively), a jar or zip file, or ``REF:path`` in the git
    repository of the current directory.
    """
    origin = os.fspath(origin)
    path = Path(origin)
    if path.is_dir():
        result = list(_read_directory(path))
    elif path.is_file():
        result = list(_read_file(path))
    elif _GIT_REF_PATTERN.fullmatch(origin):
        result = list(_read_git_ref(origin))
    else:
        raise OptionError(f"{NO_SUCH_PATH_TEXT} (at {origin}), and it is not a REF:path of a git repository")
    if not result:
        raise OptionError(f"{origin} contains no message spec (a .json file with validVersions)")
    return result


def load_specs(source: str | os.PathLike[str], dialect: SpecDialect = PUBLISHED_DIALECT) -> dict[str, MessageSpec]:
    """Return the specs of a source by name. Two specs of one message raise a ``SpecError``."""
    return {name: spec for name, (spec, _) in load_files(source, dialect).items()}


def load_checked_specs(source: str | os.PathLike[str], *, is_new: bool = False) -> dict[str, MessageSpec]:
    """Return the specs of a source. Archives are checked less strictly than new files, which must satisfy all rules."""
    is_source = is_new and not os.fspath(source).endswith((".jar", ".zip"))
    return load_specs(source, NEWEST_DIALECT if is_source else PUBLISHED_DIALECT)


def load_files(
    source: str | os.PathLike[str], dialect: SpecDialect = PUBLISHED_DIALECT
) -> dict[str, tuple[MessageSpec, bytes]]:
    """Return the specs of a source by name, each with the bytes of its file."""
    specs: dict[str, tuple[MessageSpec, bytes]] = {}
    for file in read_published(source):
        spec = load_message(file.text, file=file.file, dialect=dialect)
        if spec.name in specs:
            raise SpecError(f"{os.fspath(source)} has two specs for {spec.name}; specify one release", file=file.file)
        specs[spec.name] = spec, file.text
    return specs


def _read_directory(folder: Path) -> Iterator[PublishedSpec]:
    """Yield the spec files in a directory and its subdirectories."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".zip", ".jar"):
            yield from _read_file(path)
        elif path.suffix == ".json" and path.is_file():
            yield from _read_archive_member(path.as_posix(), path.read_bytes(), module=path.parent.name)


def _read_file(path: Path) -> Iterator[PublishedSpec]:
    """Yield the spec in a file, or the specs in an archive."""
    if path.suffix not in (".zip", ".jar"):
        yield from _read_archive_member(path.as_posix(), path.read_bytes(), module=path.parent.name, is_named=True)
        return
    try:
        yield from _read_archive(path.name, path.read_bytes())
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise OptionError(f"{path}: {error}") from None


def _read_archive(name: str, raw: bytes) -> Iterator[PublishedSpec]:
    """Yield the spec files in a jar or zip file."""
    file_name = PurePosixPath(name).name
    version = _JAR_VERSION_PATTERN.search(file_name) if file_name.endswith(".jar") else None
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for info in sorted(archive.infolist(), key=lambda entry: entry.filename):
            if info.filename.endswith(".jar"):
                yield from _read_archive(info.filename, archive.read(info))
            elif info.filename.endswith(".json") and info.file_size <= _MAX_SPEC_BYTES:
                module = file_name[: version.start()] if version else PurePosixPath(info.filename).parent.name
                yield from _read_archive_member(f"{name}/{info.filename}", archive.read(info), module=module)


def _read_git_ref(path: str) -> Iterator[PublishedSpec]:
    """Yield the spec files at ``REF:path`` of the git repository."""
    ref, _, folder = path.partition(":")
    listing = _run_git("ls-tree", "-r", "--name-only", "-z", ref, "--", folder or ".")
    for name in sorted(filter(None, listing.decode().split("\0"))):
        if name.endswith(".json"):
            yield from _read_archive_member(
                name, _run_git("show", f"{ref}:{name}"), module=PurePosixPath(name).parent.name
            )


def _run_git(*arguments: str) -> bytes:
    try:
        return subprocess.run(("git", *arguments), check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise OptionError("git is not installed, so REF:path cannot be read") from None
    except subprocess.CalledProcessError as error:
        raise OptionError(f"git {' '.join(arguments)}: {error.stderr.decode(errors='replace').strip()}") from None


def _read_archive_member(path: str, text: bytes, *, module: str, is_named: bool = False) -> Iterator[PublishedSpec]:
    """Yield a file if it is a spec: the command line names the file, or its content looks like a spec."""
    if is_named or b'"validVersions"' in text:
        releases = _RELEASE_PATTERN.findall(path)
        yield PublishedSpec(releases[-1] if releases else "0", module, PurePosixPath(path).name, text)


def find_specs(name: str) -> list[MessageSpec]:
    """Return the specs of a name: ``MetadataResponse``, ``Metadata`` (request and response), or ``Foo.json``."""
    if name.endswith(".json"):
        try:
            return [load_message(Path(name).read_bytes(), file=name)]
        except OSError as error:
            raise OptionError(format_path_error(error, name)) from None
    halves = [half for half in (f"{name}Request", f"{name}Response") if half in catalog.list_names()]
    if name not in catalog.list_names() and halves:
        return [catalog.load_spec(half) for half in halves]
    return [catalog.load_spec(name)]


def check_version(spec: MessageSpec, version: int | None) -> int:
    """Return the given version of a spec, or its newest if None. An unknown version raises an ``OptionError``."""
    valid = spec.valid_versions
    if valid.is_empty:
        raise OptionError(f"{spec.name} was removed: it has no versions")
    if version is None:
        return valid.highest
    if not valid.contains(version):
        raise OptionError(f"{spec.name} has versions {valid}, not {version}")
    return version
