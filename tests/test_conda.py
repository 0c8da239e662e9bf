"""The conda recipe has the dependencies and the version of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import kafkaframes

ROOT = Path(__file__).parents[1]
RECIPE = (ROOT / "tools/conda/recipe.yaml").read_text("utf-8")
CONDA_NAMES = {"isal": "python-isal"}  # names of packages on conda-forge that differ from PyPI's


def test_the_recipe_has_the_packages_dependencies_and_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required_versions = dict(
        re.fullmatch(r"([\w-]+)(\S+)", requirement).groups()
        for requirement in [*project["dependencies"], *project["optional-dependencies"]["compile"]]
    )
    run = RECIPE.partition("\n  run:\n")[2].partition("\n\n")[0]
    given_versions = dict(re.findall(r"^    - ([\w-]+) (\S+)$", run, re.MULTILINE))

    assert given_versions.pop("python") == project["requires-python"]
    assert given_versions == {CONDA_NAMES.get(name, name): versions for name, versions in required_versions.items()}
    assert f'\n  version: "{kafkaframes.__version__}"\n' in RECIPE
