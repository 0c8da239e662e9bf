"""The tables in the documents are those of the code."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)


@pytest.mark.parametrize("name", tables.TABLES)
def test_tables_are_written(name):
    path, make = tables.TABLES[name]
    assert tables.with_table(path.read_text(), name, make()) == path.read_text(), "run python docs/tables.py"
