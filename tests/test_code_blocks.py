"""The code in README and docs is valid: commands have the shown options, and imported names exist.

Blocks that require a reader's cluster, store or log are not run. Self-contained blocks are run by the
tests of their subject (``test_docs.py``, ``test_guide_pages.py``, ``testing/test_tutorial.py``).
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import shlex

import click
import pytest
from tests.doc_blocks import DOC_PAGES, ROOT, python_blocks

import kafkaframes
from kafkaframes.cli.main import cli

_COMMAND = re.compile(r"^(?:    |\$ |\.venv/bin/)?(?:\$ )?(kafkaframes [a-z][^\n]*)$", re.MULTILINE)


def page_commands(page):
    """Return the command lines of a page, with continuation lines joined."""
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    blocks = re.findall(r"```(?:bash|sh|console|text)?\n(.*?)```", text, re.DOTALL)
    indented_blocks = re.findall(r"(?:^    kafkaframes [^\n]*\n?)+", text, re.MULTILINE)
    return [line.strip() for block in [*blocks, *indented_blocks] for line in _COMMAND.findall(block)]


COMMAND_LINES = [(page.name, line) for page in DOC_PAGES for line in page_commands(page)]
BLOCKS = [(page.name, block) for page in DOC_PAGES for block in python_blocks(page) if not block.startswith(">>>")]
SESSION_PAGES = [page for page in DOC_PAGES if "\n>>> " in page.read_text()]


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES, ids=[f"{page}: {line[:60]}" for page, line in COMMAND_LINES])
def test_a_shown_command_has_the_shown_options(page, line):
    words = shlex.split(re.split(r"\s+(?:#|\||>|&&|;)", line)[0])[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-") or words[0].isupper():
            return
        click_command = command.get_command(context, words[0])
        assert click_command is not None, f"no command {words[0]}"
        command, words = click_command, words[1:]
        context = click.Context(command, info_name=command.name)
    if "..." in words or words == ["--help"]:
        words = [word for word in words if word != "..."]
    command.make_parser(context).parse_args(list(words))


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page}-{number}" for number, (page, _) in enumerate(BLOCKS)])
def test_imported_names_in_a_python_block_exist(page, block):
    tree = ast.parse(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafkaframes"):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or importlib.import_module(f"{node.module}.{name.name}"), name.name
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kafkaframes":
            assert hasattr(kafkaframes, node.attr), f"kafkaframes.{node.attr}"


@pytest.mark.parametrize("page", SESSION_PAGES, ids=lambda page: page.name)
def test_an_interactive_session_gives_the_shown_output(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = [block for block in python_blocks(page) if block.startswith(">>>")]
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    output_parts = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(session, out=output_parts.append)
    assert output_parts == []


def test_the_pages_contain_commands_blocks_and_sessions():
    assert len(COMMAND_LINES) > 40
    assert len(BLOCKS) > 15
