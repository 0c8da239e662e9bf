"""The pages about versions name existing modules and the tested releases."""

import re
import runpy
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.doc_blocks import DOCS
from tools.public_api import PACKAGES

ROOT = Path(__file__).parents[1]
VERSIONS = (DOCS / "versions.md").read_text("utf-8")
UPGRADE_PAGE = (DOCS / "upgrading-from-a-checkout.md").read_text("utf-8")
PROJECT_METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEST_MATRIX = runpy.run_path(str(ROOT / "tools/matrix.py"))


def section(page: str, heading: str) -> str:
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]


def dotted_names(text: str) -> list[str]:
    """Return the full dotted names in backquotes; ``.x`` continues the last name that starts with ``kafkaframes``."""
    names: list[str] = []
    for name in re.findall(r"`(kafkaframes\.[\w.]+|\.[a-z_]+)`", text):
        if name[0] != ".":
            names.append(name)
        elif names:  # otherwise an attribute
            names.append(names[-1].rpartition(".")[0] + name)
    return names


def is_importable(name: str) -> bool:
    package, _, attribute = name.rpartition(".")
    return find_spec(name) is not None if _is_module(name) else hasattr(import_module(package), attribute)


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is a module
        return False


def test_new_names_of_the_upgrade_page_exist():
    rows = [line.split(" | ")[1] for line in UPGRADE_PAGE.splitlines() if line.startswith("| ") and " | " in line]
    names = [name for row in rows for name in dotted_names(row)]
    assert len(names) > 20
    assert [name for name in names if not is_importable(name)] == []


def test_old_module_names_of_the_upgrade_page_do_not_exist():
    rows = [line for line in section(UPGRADE_PAGE, "Modules").splitlines() if line.startswith("| `kafkaframes")]
    names = [name for row in rows for name in dotted_names(row.split(" | ")[0])]
    assert len(names) > 15
    assert [name for name in names if _is_module(name)] == []


def test_the_pages_public_packages_are_those_of_the_snapshot():
    (row,) = [
        line for line in section(VERSIONS, "What is public").splitlines() if "exported names of `kafkaframes`" in line
    ]
    listed_modules = {
        "kafkaframes",
        *(f"kafkaframes{name}" for name in re.findall(r"`(\.[\w.]+)`", row)),
        "kafkaframes.broker",
    }
    assert listed_modules == set(PACKAGES)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_modules_that_pages_import_are_public_or_experimental(page):
    experimental = tuple(dotted_names(section(VERSIONS, "What is experimental")))
    imports = re.findall(r"^(?:from|import) (kafkaframes\.[\w.]+)", page.read_text("utf-8"), re.MULTILINE)
    assert [name for name in imports if name not in PACKAGES and not name.startswith(experimental)] == []


def test_supported_releases_match_the_tests_and_the_package():
    table = section(VERSIONS, "What is supported")
    pythons = re.search(r"^\| Python \| ([\d., ]+) \|", table, re.MULTILINE)[1].split(", ")
    sparks = re.search(r"^\| PySpark \| ([\d., ]+) \|", table, re.MULTILINE)[1].split(", ")
    assert tuple(pythons) == TEST_MATRIX["PYTHON_VERSIONS"]
    assert tuple(sparks) == TEST_MATRIX["SPARK_VERSIONS"]
    classifiers = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in PROJECT_METADATA["classifiers"]
    ]
    assert [match[1] for match in classifiers if match] == pythons
    (requirement,) = PROJECT_METADATA["optional-dependencies"]["spark"]
    assert requirement == f"pyspark>={sparks[0]},<4.{int(sparks[-1].split('.')[1]) + 1}"
