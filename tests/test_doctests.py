"""Every example in a docstring is run and gives the shown result."""

import doctest
import importlib
from pathlib import Path

import pytest

import kafkaframes

ROOT = Path(kafkaframes.__file__).parent
MODULES = sorted(
    ".".join((ROOT.name, *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
