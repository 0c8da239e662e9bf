"""The packages ``broker`` and ``spark`` have few top-level entries, few imports between these, and no import cycles."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "kafkaframes"
MAX_ENTRIES, MAX_ARROWS = 9, 40


def list_entries(package: str) -> set[str]:
    paths = (SOURCES / package).iterdir()
    return {path.stem for path in paths if path.name not in ("__init__.py", "__pycache__")}


def list_imports_between(package: str, entries: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (importing entry, imported entry) for the imports inside a package, those in functions included."""
    for path in (SOURCES / package).rglob("*.py"):
        entry = path.relative_to(SOURCES / package).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if entry != "__init__" and isinstance(node, ast.ImportFrom) and node.module is not None:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    parts = name.split(".")
                    if parts[:2] == ["kafkaframes", package] and parts[2:] and parts[2] in entries - {entry}:
                        yield entry, parts[2]


@pytest.mark.parametrize("package", ["broker", "spark"])
def test_a_package_has_few_entries_and_few_imports_between_them(package):
    entries = list_entries(package)
    arrows = set(list_imports_between(package, entries))
    assert len(entries) <= MAX_ENTRIES
    assert len(entries) - 1 <= len(arrows) <= MAX_ARROWS  # fewer imports would mean that this test does not find them
    assert not {(importing, imported) for importing, imported in arrows if (imported, importing) in arrows}
