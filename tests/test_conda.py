"""The recipe of the conda package has the dependencies of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import kafkaframes

ROOT = Path(__file__).parents[1]
RECIPE = (ROOT / "tools/conda/recipe.yaml").read_text("utf-8")
OTHER_NAMES = {"isal": "python-isal"}  # on conda-forge


def test_it_has_the_dependencies_and_the_version_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required_versions = dict(
        re.fullmatch(r"([\w-]+)(\S+)", requirement).groups()
        for requirement in [*project["dependencies"], *project["optional-dependencies"]["compile"]]
    )
    run = RECIPE.partition("\n  run:\n")[2].partition("\n\n")[0]
    given_versions = dict(re.findall(r"^    - ([\w-]+) (\S+)$", run, re.MULTILINE))

    assert given_versions.pop("python") == project["requires-python"]
    assert given_versions == {OTHER_NAMES.get(name, name): versions for name, versions in required_versions.items()}
    assert f'\n  version: "{kafkaframes.__version__}"\n' in RECIPE
