"""The tutorial of docs/testing.md is executed as it stands."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

from tests.doc_blocks import DOCS, python_blocks

EXAMPLES = 7


def test_every_example_of_the_page_passes(tmp_path):
    (tmp_path / "test_page.py").write_text("\n".join(python_blocks(DOCS / "testing.md")))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    if "kafkaframes" not in entry_points(group="pytest11").names:
        command += ["-p", "kafkaframes.testing.plugin"]
    process = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert f"{EXAMPLES} passed" in process.stdout, process.stdout
