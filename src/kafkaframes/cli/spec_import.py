"""``kafkaframes spec import``: releases' specs in, the catalog's files out."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kafkaframes.cli.spec_sources import published
from kafkaframes.protocol.spec.catalog.importing import import_catalog
from kafkaframes.protocol.spec.catalog.reading import FOLDER


@click.command("import")
@click.argument("places", metavar="DIR|ZIP|JAR...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    help="Folder to write to  [default: the catalog of this installation]",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the folder differs.")
def command(places: tuple[str, ...], output: Path, check: bool) -> None:
    """Write the catalog from the specs of Kafka's releases.

    Give every release at once: jars (kafka-clients-4.4.0.jar), zips or directories of them. The newest release that
    speaks a version of a message gives its layout; versions that later releases removed come from the older ones.
    """
    texts = import_catalog(one for place in places for one in published(place))
    changed = [name for name, text in texts.items() if _read(output / name) != text]
    surplus = [output / name for name in _listed(output) if name not in texts]
    if not check:
        _write(output, {name: texts[name] for name in changed}, surplus)
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


def _write(folder: Path, texts: dict[str, str], surplus: list[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for path in surplus:
        path.unlink()
