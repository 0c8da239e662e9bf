"""``kafkaframes spec import``, ``stubs``, ``guide``: write the catalog, stubs for editors, or the protocol guide.

Sources of specs are files, directories, jars, zip files of jars' folders, or ``REF:path`` of a git repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from kafkaframes.cli.options import ExistingPath, specs_option
from kafkaframes.errors.words import count_text
from kafkaframes.protocol import spec_functions
from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER


@click.command("stubs")
@click.option("--specs", metavar="DIR", required=True, type=ExistingPath(file_okay=False), help="Your specs.")
@click.option(
    "-o", "--output", metavar="FILE.py", required=True, type=click.Path(path_type=Path), help="Python module to write."
)
def write_stubs(specs: str, output: Path) -> None:
    """Write a Python module of your own messages, and a stub with their fields for editors and type checkers.

    With -o greetings.py: `from greetings import GreetRequest`. Kafka's own messages already have a stub.
    """
    names = spec_functions.write_stubs(specs, output)
    click.echo(f"{output}, {output.with_suffix('.pyi')}: {count_text(len(names), 'message')}")


@click.command("guide")
@click.option(
    "-o", "--output", metavar="FILE|DIR", type=click.Path(path_type=Path), default=Path("kafka-protocol.html")
)
@specs_option
def write_guide(output: Path, specs: str | None) -> None:
    """Write the protocol guide: all messages at all versions, with their wire layouts and the changes since the
    previous version.

    The guide is one HTML page that works offline, with a search for messages and fields. The guide also describes
    frames and headers, primitive types, varints, tag sections and record formats. If the path is a directory, the page
    is its index.html.
    """
    page = spec_functions.write_guide(output, specs=specs)
    click.echo(f"{page} ({os.path.getsize(page) / 1e6:.1f} MB)")


@click.command("import")
@click.argument("paths", metavar="DIR|ZIP|JAR...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=MESSAGES_FOLDER,
    help="Folder to write to  [default: the catalog of this installation]",
)
@click.option("--check", is_flag=True, help="Write nothing, and exit 1 if the folder differs.")
def import_releases(paths: tuple[str, ...], output: Path, check: bool) -> None:
    """Write the catalog from the message specs of Kafka releases.

    Specify all releases together, as jars (kafka-clients-4.4.0.jar), zips or directories of them. The layout of a
    message version is that of the newest release with this version, so versions that later releases removed come from
    older releases.
    """
    result = spec_functions.import_releases(paths, output, check=check)
    for name in result.changed:
        click.echo(f"{'differs' if check else 'written'}: {name}")
    for name in result.surplus:
        click.echo(f"{'surplus' if check else 'removed'}: {name}")
    click.echo(
        f"{count_text(result.messages, 'message')}, {len(result.changed)} changed, {len(result.surplus)} surplus"
    )
    if check and (result.changed or result.surplus):
        raise SystemExit(1)
