"""Pages of the site that are made from code and from files beside docs/: a hook of MkDocs (`make docs`)."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import kafkaframes
from kafkaframes import client
from kafkaframes.cli.main import SECTIONS, cli

TOP = Path(__file__).parent.parent
# File of the checkout -> page of the site.
COPIED = {
    "ARCHITECTURE.md": "about/architecture.md",
    "CHANGELOG.md": "about/changelog.md",
    "SECURITY.md": "about/security.md",
}
RESULTS = TOP / "benchmarks" / "results"
_LINK = re.compile(r"\]\(((?:\.\./)+|docs/)([^)#]*)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the results of benchmarks in the navigation: every other page stands there by hand."""
    pages = [{_title(page): f"benchmarks/{page.name}"} for page in sorted(RESULTS.glob("*.md"))]
    assert config.nav is not None
    config.nav.append({"Benchmarks": ["benchmarks/index.md", *pages]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    pages = {target: (TOP / source).read_text(encoding="utf-8") for source, target in COPIED.items()}
    results = sorted(RESULTS.glob("*.md"))
    pages |= {f"benchmarks/{result.name}": result.read_text(encoding="utf-8") for result in results}
    pages["benchmarks/index.md"] = benchmarks_page(results)
    pages["reference/commands.md"] = "".join(commands_page())
    pages["reference/python.md"] = python_page()
    pages["reference/client.md"] = client_page()
    for target, text in pages.items():
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(text: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ to the page made of that file, or to the file in the repository."""
    up = "../" * page.file.src_uri.count("/")

    def target_of(link: re.Match[str]) -> str:
        before, path, anchor = link[1], link[2], link[3] or ""
        if page.file.src_uri not in COPIED.values() and len(before) // 3 <= len(up) // 3:
            return link[0]  # inside docs/
        path = path.removeprefix("docs/") if before != "docs/" else path
        moved = path.replace("benchmarks/results/", "benchmarks/")
        known = COPIED.get(path) or next((uri for uri in (path, moved) if files.get_file_from_path(uri)), None)
        return f"]({up}{known}{anchor})" if known else f"]({config.repo_url}/blob/main/{path}{anchor})"

    return _LINK.sub(target_of, text)


def on_page_content(text: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make a heading without words an ordinary cell: a screen reader would announce a heading that says nothing."""
    return text.replace("<th></th>", "<td></td>")


def benchmarks_page(results: list[Path]) -> str:
    """List the results of benchmarks by their titles."""
    head = (
        "# Benchmarks\n\nEach script in `benchmarks/` runs both sides in one run; each page has machine and date.\n\n"
    )
    return head + "".join(f"- [{_title(result)}]({result.name})\n" for result in results)


def _title(page: Path) -> str:
    lines = page.read_text(encoding="utf-8").splitlines()
    return next((line[2:] for line in lines if line.startswith("# ")), page.stem)


def python_page() -> str:
    """Document what `import kafkaframes` offers, and the modules that users import."""
    modules = {"kafkaframes.testing": "Tests", "kafkaframes.errors": "Errors"}
    public = [name for name in kafkaframes.__all__ if not isinstance(getattr(kafkaframes, name), ModuleType)]
    lines = ["# Python", "", "What `import kafkaframes` offers.", ""]
    lines += [f"::: kafkaframes.{name}\n" for name in sorted(public)]
    for module, title in modules.items():
        lines += [f"## {title}", "", f"::: {module}", "    options: {show_root_heading: false, heading_level: 3}", ""]
    return "\n".join(lines)


def client_page() -> str:
    """Document every public class and constant of ``kafkaframes.client``, the clients first."""
    clients = [name for name in client.__all__ if name.endswith(("Producer", "Consumer", "Admin"))]
    names = [name for name in clients if name != "FencedProducer"]
    names += [name for name in client.__all__ if name not in names]
    head = (
        "# Client\n\nWhat `kafkaframes.client` offers. [The guide](../client.md) begins with code; "
        "[the settings](../client-settings.md) have a page of their own.\n\n"
    )
    return head + "\n".join(f"::: kafkaframes.client.{name}\n" for name in names)


def commands_page() -> Iterator[str]:
    """Document each command by its help and its options."""
    yield "# Commands\n\n`kafkaframes COMMAND --help` prints what stands here.\n\n"
    for heading, rows in SECTIONS.items():
        yield f"**{heading}**: {', '.join(f'[{name}](#{name})' for name in rows)}\n\n"
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        yield from _command(command, ["kafkaframes", name])


def _command(command: click.Command, words: list[str]) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(words))
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f"{'#' * len(words)} {' '.join(words[1:])}\n\n```text\n{' '.join(usage.split())}\n```\n\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield f"{_paragraph(paragraph)}\n\n"
    options = [record for option in command.params if (record := option.get_help_record(context)) and record[1]]
    if options:
        yield "| option | meaning |\n| --- | --- |\n"
        yield from (f"| `{_cell(names)}` | {_cell(html.escape(meaning))} |\n" for names, meaning in options)
        yield "\n"
    if isinstance(command, click.Group):
        children = ((name, command.get_command(context, name)) for name in command.list_commands(context))
        for name, child in children:
            if child is not None and not child.hidden:
                yield from _command(child, [*words, name])


def _paragraph(text: str) -> str:
    """Show what is not to be wrapped as code, and the rest as prose."""
    if text.startswith("\b"):
        return f"```text\n{text[1:].strip(chr(10))}\n```"
    return html.escape(text, quote=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
