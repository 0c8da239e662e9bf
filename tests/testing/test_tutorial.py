"""The examples of docs/testing.md and docs/testing-faults.md are tests that pass."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from tests.doc_blocks import DOCS, python_blocks

PAGES = {"testing.md": 4, "testing-faults.md": 3}  # number of tests on each page


@pytest.mark.parametrize("page", PAGES)
def test_every_example_of_the_page_passes(page, tmp_path):
    (tmp_path / "test_page.py").write_text("\n".join(python_blocks(DOCS / page)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    if "kafkaframes" not in entry_points(group="pytest11").names:
        command += ["-p", "kafkaframes.testing.plugin"]
    process = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert f"{PAGES[page]} passed" in process.stdout, process.stdout
