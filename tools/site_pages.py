"""Generate pages of the site from code and from files outside docs/: a hook of MkDocs (`make docs`)."""

from __future__ import annotations

import html
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import kafkaframes
from kafkaframes import client
from kafkaframes.cli.main import COMMAND_SECTIONS, cli

TOP = Path(__file__).parent.parent
# File of the checkout -> page of the site.
COPIED_PAGES = {
    "ARCHITECTURE.md": "about/architecture.md",
    "CHANGELOG.md": "about/changelog.md",
    "SECURITY.md": "about/security.md",
}
# Weight of pages in a search by a pattern of their paths, so that guides precede long tables and generated pages.
SEARCH_WEIGHTS = {
    r"(reference/(python|client|commands)|benchmarks|about)\b": 0.02,
    r"(everyday|everyday-peers|kafka-suite|connector-suite|java-admin|upgrading-from-a-checkout)\.md": 0.05,
    r"(clients|client-settings|client-metrics|broker-support|contributing|extending|versions|index)\.md": 0.2,
    r"(glossary|appending|checkpoints|exactly-once|message-columns|spec-.*|broker-.*)\.md|reference/|kips/": 0.4,
}
RESULTS_FOLDER = TOP / "benchmarks" / "results"
# In a file copied from the top directory of the checkout, a link such as SECURITY.md has no folder.
_LINK_PATTERN = re.compile(r"\]\(((?:\.\./)+|docs/|(?=[A-Z]+\.md))([^)#]*)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of classes and of benchmark results to the navigation, in place of these sections' entries."""
    assert config.nav is not None
    results = [{_read_title(page): f"benchmarks/{page.name}"} for page in sorted(RESULTS_FOLDER.glob("*.md"))]
    _replace_sections(
        config.nav,
        {
            "Benchmarks": ["benchmarks/index.md", *results],
            "Python": [f"reference/python/{name}" for name in build_python_pages()],
            "Client": [f"reference/client/{name}" for name in build_client_pages()],
        },
    )
    return config


def _replace_sections(nav: list[Any], sections: Mapping[str, list[Any]]) -> None:
    """Replace the entries of sections in the navigation, at any depth."""
    for entry in nav:
        for title, children in entry.items() if isinstance(entry, dict) else ():
            if title in sections:
                entry[title] = sections[title]
            elif isinstance(children, list):
                _replace_sections(children, sections)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    pages = {target: (TOP / source).read_text(encoding="utf-8") for source, target in COPIED_PAGES.items()}
    results = sorted(RESULTS_FOLDER.glob("*.md"))
    pages |= {f"benchmarks/{result.name}": result.read_text(encoding="utf-8") for result in results}
    pages["benchmarks/index.md"] = build_benchmarks_page(results)
    pages["reference/commands.md"] = "".join(build_commands_page())
    pages |= {f"reference/python/{name}": text for name, text in build_python_pages().items()}
    pages |= {f"reference/client/{name}": text for name, text in build_client_pages().items()}
    for target, text in pages.items():
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(text: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set the page's weight in a search. Point links to files outside docs/ to their pages or to the repository."""
    uri = page.file.src_uri
    weights = [weight for pattern, weight in SEARCH_WEIGHTS.items() if re.match(pattern, uri)]
    page.meta.setdefault("search", {"boost": min(weights, default=1.0)})
    up = "../" * uri.count("/")

    def replace_target(link: re.Match[str]) -> str:
        """Return a Markdown link that leads to the page's place on the site, or to the repository."""
        before, path, anchor = link[1], link[2], link[3] or ""
        if page.file.src_uri not in COPIED_PAGES.values() and len(before) // 3 <= len(up) // 3:
            return link[0]  # inside docs/
        path = path.removeprefix("docs/") if before != "docs/" else path
        moved_path = path.replace("benchmarks/results/", "benchmarks/")
        page_uri = COPIED_PAGES.get(path) or next(
            (uri for uri in (path, moved_path) if files.get_file_from_path(uri)), None
        )
        return f"]({up}{page_uri}{anchor})" if page_uri else f"]({config.repo_url}/blob/main/{path}{anchor})"

    return _LINK_PATTERN.sub(replace_target, text)


def on_page_content(text: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert an empty table heading to an ordinary cell, because a screen reader would announce an empty heading."""
    return text.replace("<th></th>", "<td></td>")


def build_benchmarks_page(results: list[Path]) -> str:
    """List the benchmark results by title."""
    head = (
        "# Benchmarks\n\nEach script in `benchmarks/` runs both sides in one run; each page has machine and date.\n\n"
    )
    return head + "".join(f"- [{_read_title(result)}]({result.name})\n" for result in results)


def _read_title(page: Path) -> str:
    """Return the first heading of a Markdown page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return next((line[2:] for line in lines if line.startswith("# ")), page.stem)


# Page of functions -> title and first letters of the functions on it.
FUNCTION_PAGES = {
    "scans": ("Scans and reading", ("scan_", "read_", "build_")),
    "jobs": ("Jobs on logs and topics", ("",)),
    "protocol": ("Messages and APIs", ("message_", "list_apis")),
}


def build_python_pages() -> dict[str, str]:
    """Return the pages about `import kafkaframes`: an overview, three pages of functions, one page for each class."""
    names = [name for name in kafkaframes.__all__ if not isinstance(getattr(kafkaframes, name), ModuleType)]
    classes = [name for name in sorted(names) if inspect.isclass(getattr(kafkaframes, name))]
    in_client = [name for name in classes if hasattr(client, name)]
    functions = sorted(name for name in names if inspect.isfunction(getattr(kafkaframes, name)))
    pages, overview = {}, ["# Python", "", "The functions and classes that `import kafkaframes` provides.", ""]
    for page, (title, prefixes) in sorted(FUNCTION_PAGES.items(), key=lambda entry: "" in entry[1][1]):
        members = [name for name in functions if name.startswith(prefixes)]
        functions = [name for name in functions if name not in members]
        overview += [
            f"## {title}",
            "",
            *_entries(kafkaframes, members, lambda name, page=page: f"{page}.md#kafkaframes.{name}"),
            "",
        ]
        pages[f"{page}.md"] = f"# {title}\n\n" + "\n".join(f"::: kafkaframes.{name}\n" for name in members)
    overview += ["## Classes", ""]
    overview += _entries(
        kafkaframes, classes, lambda name: f"../client/{name}.md" if name in in_client else f"{name}.md"
    )
    for name in set(classes) - set(in_client):
        pages[f"{name}.md"] = _class_page(f"kafkaframes.{name}")
    for module, title in {"testing": "Tests", "errors": "Errors"}.items():
        summary = _summarize(importlib.import_module(f"kafkaframes.{module}"))
        overview += [f"- [`kafkaframes.{module}`]({module}.md): {summary}"]
        pages[f"{module}.md"] = f"# {title}\n\n::: kafkaframes.{module}\n    options: {{show_root_heading: false}}\n"
    return {"index.md": "\n".join(overview) + "\n", **pages}


def build_client_pages() -> dict[str, str]:
    """Return the pages about `kafkaframes.client`: an overview, and one page for each class."""
    classes = [name for name in client.__all__ if inspect.isclass(getattr(client, name))]
    clients = [
        name for name in classes if name.endswith(("Producer", "Consumer", "Admin")) and name != "FencedProducer"
    ]
    data_classes = [name for name in classes if name not in clients]
    constants = sorted(set(client.__all__) - set(classes))
    overview = [
        "# Client", "",
        "The classes of `kafkaframes.client`. [The guide](../../client.md) begins with code; "
        "[the settings](../../client-settings.md) have their own page.", "",
        "## Clients", "", *_entries(client, clients, "{}.md".format), "",
        "## Values and results", "", *_entries(client, data_classes, "{}.md".format),
        "", "## Constants", "", *(f"::: kafkaframes.client.{name}\n" for name in constants),
    ]  # fmt: skip
    pages = {f"{name}.md": _class_page(f"kafkaframes.client.{name}") for name in classes}
    return {"index.md": "\n".join(overview), **pages}


def _class_page(path: str) -> str:
    return f"# {path.rpartition('.')[2]}\n\n::: {path}\n    options: {{show_root_heading: false}}\n"


def _entries(module: ModuleType, names: list[str], link: Callable[[str], str]) -> list[str]:
    return [f"- [`{name}`]({link(name)}): {_summarize(getattr(module, name))}" for name in names]


def _summarize(documented_object: object) -> str:
    """Return the first sentence of a docstring as Markdown."""
    paragraph = " ".join((inspect.getdoc(documented_object) or "").partition("\n\n")[0].split())
    return re.sub(r"(?<=[.!?]) (?=[A-Z`]).*", "", paragraph).replace("``", "`")


def build_commands_page() -> Iterator[str]:
    """Document each command by its help and its options."""
    yield "# Commands\n\n`kafkaframes COMMAND --help` prints what stands here.\n\n"
    for heading, rows in COMMAND_SECTIONS.items():
        yield f"**{heading}**: {', '.join(f'[{name}](#{name})' for name in rows)}\n\n"
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        yield from _describe_command(command, ["kafkaframes", name])


def _describe_command(command: click.Command, words: list[str]) -> Iterator[str]:
    """Yield the Markdown for a command, its options and its subcommands."""
    context = click.Context(command, info_name=" ".join(words))
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f"{'#' * len(words)} {' '.join(words[1:])}\n\n```text\n{' '.join(usage.split())}\n```\n\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield f"{_format_paragraph(paragraph)}\n\n"
    options = [record for option in command.params if (record := option.get_help_record(context)) and record[1]]
    if options:
        yield "| option | meaning |\n| --- | --- |\n"
        yield from (f"| `{_cell(names)}` | {_cell(html.escape(meaning))} |\n" for names, meaning in options)
        yield "\n"
    if isinstance(command, click.Group):
        children = ((name, command.get_command(context, name)) for name in command.list_commands(context))
        for name, child in children:
            if child is not None and not child.hidden:
                yield from _describe_command(child, [*words, name])


def _format_paragraph(text: str) -> str:
    """Format text that must not be wrapped as code, and all other text as prose."""
    if text.startswith("\b"):
        return f"```text\n{text[1:].strip(chr(10))}\n```"
    return html.escape(text, quote=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
