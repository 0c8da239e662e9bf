"""``kafkaframes spec import``, ``stubs``, ``guide``: from specs the catalog, stubs for editors, the protocol guide."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from kafkaframes.cli.options import specs_option
from kafkaframes.cli.spec_sources import published
from kafkaframes.errors import OptionError
from kafkaframes.protocol import messages
from kafkaframes.protocol.messages.registry import specs_by_name
from kafkaframes.protocol.messages.stubs import own_module, stub_text
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.catalog.importing import import_catalog
from kafkaframes.protocol.spec.catalog.reading import FOLDER
from kafkaframes.protocol.spec.guide import guide_page

STUB = Path(messages.__file__).with_name("kafka.pyi")


@click.command("stubs")
@click.option("--check", is_flag=True, help="write nothing; exit 1 if the stub is not what would be written")
@click.option(
    "--specs", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Your own specs, not the catalog."
)
@click.option(
    "-o", "--output", metavar="FILE.py", type=click.Path(path_type=Path), help="With --specs: the module to write."
)
def stubs(check: bool, specs: str | None, output: Path | None) -> None:
    """Write type stubs, from which editors complete and type checkers check the fields of messages.

    Without options, writes protocol/messages/kafka.pyi from the catalog. With --specs DIR -o greetings.py, writes a
    module of your own and its stub: `from greetings import GreetRequest`.
    """
    if specs is not None or output is not None:
        _write_own(specs, output)
        return
    text = stub_text(map(catalog.load, catalog.names()))
    current = STUB.read_text() if STUB.exists() else ""
    if check:
        click.echo("current" if text == current else f"{STUB} is out of date: run `kafkaframes spec stubs`")
        sys.exit(text != current)
    STUB.write_text(text)
    click.echo(f"{STUB}: {len(text.splitlines())} lines, {len(catalog.names())} messages")


def _write_own(specs: str | None, output: Path | None) -> None:
    if specs is None or output is None or output.suffix != ".py":
        raise OptionError("--specs DIR and -o FILE.py go together")
    own = specs_by_name(specs)
    output.write_text(own_module(os.path.relpath(specs, output.parent)))
    stub = output.with_suffix(".pyi")
    stub.write_text(stub_text(own.values(), overloads=False))
    click.echo(f"{output}, {stub}: {len(own)} messages")


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
    target = output / "index.html" if output.is_dir() or not output.suffix else output
    own = {} if specs is None else specs_by_name(specs)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        size = target.write_text(guide_page(own), encoding="utf-8")
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
    texts = import_catalog(one for origin in paths for one in published(origin))
    changed = [name for name, text in texts.items() if _read(output / name) != text]
    surplus = [output / name for name in _listed(output) if name not in texts]
    if not check:
        _write_catalog(output, {name: texts[name] for name in changed}, surplus)
    for name in changed:
        click.echo(f"{'differs' if check else 'written'}: {name}")
    for path in surplus:
        click.echo(f"{'surplus' if check else 'removed'}: {path.name}")
    click.echo(
        f"{len(json.loads(texts['index.json'])['messages'])} messages, {len(changed)} changed, {len(surplus)} surplus"
    )
    if check and (changed or surplus):
        raise SystemExit(1)


def _listed(folder: Path) -> list[str]:
    """Return the files that an earlier import wrote here, by its index, and that are still there."""
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
