"""``kafkaframes spec import``, ``stubs``, ``guide``: write the catalog, stubs for editors, or the protocol guide.

Sources of specs are files, directories, jars, zip files of jars' folders, or ``REF:path`` of a git repository.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import click

from kafkaframes.cli.options import ExistingPath, specs_option
from kafkaframes.errors import NO_SUCH_PATH_TEXT, OptionError, SpecError
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.spec.catalog.importing import PublishedSpec, import_catalog
from kafkaframes.protocol.spec.catalog.reading import FOLDER
from kafkaframes.protocol.spec.load import PUBLISHED, Dialect, load_message
from kafkaframes.protocol.spec.model import MessageSpec

_RELEASE = re.compile(r"(?<![\d.])\d+\.\d+(?:\.\d+)+(?![\d.]*\d)")
_JAR_VERSION = re.compile(r"(?<=.)-\d+\.\d")
_MAX_SPEC_BYTES = 4 << 20  # largest size of a spec; larger members of an archive are not read
_GIT_REF = re.compile(r"([^:/\\][^:]*):(.*)", re.DOTALL)


def read_published(origin: str) -> list[PublishedSpec]:
    """Return every spec file of a source, sorted by path. A source without specs is an ``OptionError``.

    ``origin`` is a ``.json`` file, a directory (searched recursively), a jar or zip file, or ``REF:path`` in the git
    repository of the current directory.
    """
    path = Path(origin)
    if path.is_dir():
        result = list(_directory(path))
    elif path.is_file():
        result = list(_file(path))
    elif _GIT_REF.fullmatch(origin):
        result = list(_git(origin))
    else:
        raise OptionError(f"{NO_SUCH_PATH_TEXT} (at {origin}), and not a REF:path of a git repository")
    if not result:
        raise OptionError(f"{origin} holds no message spec (a .json file with validVersions)")
    return result


def load_specs(source: str, dialect: Dialect = PUBLISHED) -> dict[str, MessageSpec]:
    """Return the specs of a source by name. Two specs of one message are a ``SpecError``."""
    return {name: spec for name, (spec, _) in load_files(source, dialect).items()}


def load_files(source: str, dialect: Dialect = PUBLISHED) -> dict[str, tuple[MessageSpec, bytes]]:
    """Return the specs of a source by name, each with the bytes of its file."""
    specs: dict[str, tuple[MessageSpec, bytes]] = {}
    for file in read_published(source):
        spec = load_message(file.text, file=file.file, dialect=dialect)
        if spec.name in specs:
            raise SpecError(f"{source} has two specs of {spec.name}: give one release", file=file.file)
        specs[spec.name] = spec, file.text
    return specs


def _directory(folder: Path) -> Iterator[PublishedSpec]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".zip", ".jar"):
            yield from _file(path)
        elif path.suffix == ".json" and path.is_file():
            yield from _read_archive_member(path.as_posix(), path.read_bytes(), module=path.parent.name)


def _file(path: Path) -> Iterator[PublishedSpec]:
    if path.suffix not in (".zip", ".jar"):
        yield from _read_archive_member(path.as_posix(), path.read_bytes(), module=path.parent.name, is_named=True)
        return
    try:
        yield from _archive(path.name, path.read_bytes())
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise OptionError(f"{path}: {error}") from None


def _archive(name: str, raw: bytes) -> Iterator[PublishedSpec]:
    file_name = PurePosixPath(name).name
    version = _JAR_VERSION.search(file_name) if file_name.endswith(".jar") else None
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for info in sorted(archive.infolist(), key=lambda entry: entry.filename):
            if info.filename.endswith(".jar"):
                yield from _archive(info.filename, archive.read(info))
            elif info.filename.endswith(".json") and info.file_size <= _MAX_SPEC_BYTES:
                module = file_name[: version.start()] if version else PurePosixPath(info.filename).parent.name
                yield from _read_archive_member(f"{name}/{info.filename}", archive.read(info), module=module)


def _git(path: str) -> Iterator[PublishedSpec]:
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
    """Yield a file if it is a spec: always if the command line names it, else if its content looks like one."""
    if is_named or b'"validVersions"' in text:
        releases = _RELEASE.findall(path)
        yield PublishedSpec(releases[-1] if releases else "0", module, PurePosixPath(path).name, text)


@click.command("stubs")
@click.option("--specs", metavar="DIR", required=True, type=ExistingPath(file_okay=False), help="Your specs.")
@click.option(
    "-o", "--output", metavar="FILE.py", required=True, type=click.Path(path_type=Path), help="The module to write."
)
def stubs(specs: str, output: Path) -> None:
    """Write a module of your own messages, and a stub, by which editors complete and type checkers check their fields.

    With -o greetings.py: `from greetings import GreetRequest`. Kafka's own messages have their stub already.
    """
    from kafkaframes.protocol.messages.registry import specs_by_name
    from kafkaframes.protocol.messages.stubs import own_module, stub_text

    if output.suffix != ".py":
        raise OptionError("-o wants FILE.py")
    own_specs = specs_by_name(specs)
    output.write_text(own_module(os.path.relpath(specs, output.parent)))
    stub = output.with_suffix(".pyi")
    stub.write_text(stub_text(own_specs.values(), overloads=False))
    click.echo(f"{output}, {stub}: {count_text(len(own_specs), 'message')}")


@click.command("guide")
@click.option(
    "-o", "--output", metavar="FILE|DIR", type=click.Path(path_type=Path), default=Path("kafka-protocol.html")
)
@specs_option
def guide(output: Path, specs: str | None) -> None:
    """Write the protocol guide: every message at every version, its wire layout, and what changed since the one before.

    One HTML page that works offline, with search over messages and fields, and with what they are made of: frames and
    headers, primitive types, varints, tag sections, record formats. In a directory it is called index.html.
    """
    from kafkaframes.protocol.messages.registry import specs_by_name
    from kafkaframes.protocol.spec.guide import guide_page

    target = output / "index.html" if output.is_dir() or not output.suffix else output
    own_specs = {} if specs is None else specs_by_name(specs)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        size = target.write_text(guide_page(own_specs), encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{target}: {error.strerror}") from None
    click.echo(f"{target} ({size / 1e6:.1f} MB)")


@click.command("import")
@click.argument("paths", metavar="DIR|ZIP|JAR...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    help="Folder to write to  [default: the catalog of this installation]",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the folder differs.")
def import_releases(paths: tuple[str, ...], output: Path, check: bool) -> None:
    """Write the catalog from the specs of Kafka's releases.

    Give every release at once: jars (kafka-clients-4.4.0.jar), zips or directories of them. The newest release that
    speaks a version of a message gives its layout; versions that later releases removed come from the older ones.
    """
    texts = import_catalog(one for origin in paths for one in read_published(origin))
    changed_files = [name for name, text in texts.items() if _read(output / name) != text]
    surplus = [output / name for name in _list_files(output) if name not in texts]
    if not check:
        _write_catalog(output, {name: texts[name] for name in changed_files}, surplus)
    for name in changed_files:
        click.echo(f"{'differs' if check else 'written'}: {name}")
    for path in surplus:
        click.echo(f"{'surplus' if check else 'removed'}: {path.name}")
    click.echo(
        f"{count_text(len(json.loads(texts['index.json'])['messages']), 'message')}, {len(changed_files)} changed, "
        f"{len(surplus)} surplus"
    )
    if check and (changed_files or surplus):
        raise SystemExit(1)


def _list_files(folder: Path) -> list[str]:
    """Return the existing files that an earlier import wrote here, according to its index."""
    index = _read(folder / "index.json")
    names = [f"{name}.json" for name in json.loads(index)["messages"]] if index else []
    return [name for name in names if (folder / name).is_file()]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _write_catalog(folder: Path, texts: dict[str, str], surplus: list[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for path in surplus:
        path.unlink()
