"""Tables, names, files and commands in the documentation match the code."""

import importlib.util
import pkgutil
import re
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.doc_blocks import DOCS, python_blocks

from kafkaframes.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[1]
FILE_PAGES = sorted(f"docs/{page.name}" for page in DOCS.glob("files-of-*.md"))
spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)


@pytest.mark.parametrize("name", tables.TABLES)
def test_the_generated_tables_are_current(name):
    path, make = tables.TABLES[name]
    assert tables.with_table(path.read_text(), name, make()) == path.read_text(), "run python docs/tables.py"


def test_the_appending_examples_give_the_shown_results():
    names = {}
    blocks = python_blocks(DOCS / "appending.md")
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal(name):
    """The maximum is the width of most terminals. For a block that is not wrapped, its original width counts."""
    result = CliRunner().invoke(cli, [name, "--help"], terminal_width=80)
    assert result.exit_code == 0
    commands = [name]
    command = cli.get_command(click.Context(cli), name)
    if isinstance(command, click.Group):
        commands += [f"{name} {one}" for one in command.list_commands(click.Context(command))]
    for one in commands:
        lines = CliRunner().invoke(cli, [*one.split(), "--help"], terminal_width=80).output.splitlines()
        assert [line for line in lines if len(line) > 80] == [], one


# These are properties, a table property and a file, not Python names.
OTHER_DOTTED_NAMES = (
    "kafkaframes.sasl.",
    "kafkaframes.on.noncontiguous",
    "kafkaframes.last",
    "kafkaframes.broker.json",
)


def test_dotted_names_of_the_package_in_pages_exist():
    """The page with old names is excluded."""
    pages = [path for path in DOCS.rglob("*.md") if path.name != "upgrading-from-a-checkout.md"]
    named = {
        (path.name, name)
        for path in [ROOT / "README.md", *pages]
        for name in re.findall(r"`(kafkaframes(?:\.[A-Za-z_]\w*)+)", path.read_text())
        if not name.startswith(OTHER_DOTTED_NAMES)
    }
    assert len(named) > 20
    assert sorted(entry for entry in named if not exists_in_package(entry[1])) == []


def exists_in_package(name: str) -> bool:
    """Return whether a dotted name is a module or an attribute of one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", ["docs/contributing.md", "docs/constructions.md", "docs/long-tests.md", *FILE_PAGES])
def test_files_that_a_page_names_exist(page):
    """A path with a folder belongs to the package or to the checkout. Names like ``_name.py`` are placeholders."""
    text = (ROOT / page).read_text()
    named_files = {
        one for one in re.findall(r"`((?:src/)?[a-z_][a-z_0-9/.]*/[a-z_0-9.]*)`", text) if not one.startswith("..")
    }
    examples = ("greet", "_name", "/name.py", "dist/")  # files of recipes, or files that a command creates
    missing = [
        file
        for file in named_files
        if not any(part in file for part in examples)
        and not (ROOT / file).exists()
        and not (ROOT / "src" / "kafkaframes" / file).exists()
    ]
    assert len(named_files) > 3
    assert missing == []


def test_the_installation_page_lists_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "install.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(project["optional-dependencies"])
