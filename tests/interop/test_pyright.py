"""Pyright accepts each Python block in README and docs (for mypy, see ``tests/test_typed_blocks.py``)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.fetching import fetch_client
from tests.typed_blocks import ROOT, describe_errors, write_modules

PYRIGHT_INSTALL_COMMAND = ["npm", "install", "--silent", "--no-audit", "--no-fund", "pyright@1.1.414"]


@pytest.fixture(scope="module")
def pyright() -> Path:
    return fetch_client("pyright", "npm", lambda _: [PYRIGHT_INSTALL_COMMAND]) / "node_modules" / ".bin" / "pyright"


def run_pyright(command: Path, folder: Path) -> list[str]:
    settings = {
        "extraPaths": [str(ROOT / "src"), "."],
        "pythonVersion": "3.11",
        "reportMissingImports": "warning",  # ignore libraries that are not installed; mypy finds misspelt modules
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    arguments = ["--project", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, timeout=540)
    assert "informations" in done.stdout or "error" in done.stdout, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(600)
def test_pyright_accepts_the_blocks_of_the_documents(pyright, tmp_path):
    places = write_modules(tmp_path)
    (tmp_path / "wrong_block.py").write_text('from kafkaframes.client import Producer\n\nProducer("b", acks=[])\n')
    errors = describe_errors(run_pyright(pyright, tmp_path), places)
    assert [error for error in errors if "wrong_block.py:3" in error], "Pyright does not report errors"
    assert [error for error in errors if "wrong_block.py" not in error] == []
