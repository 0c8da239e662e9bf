"""Run mypy on a few lines of Python that use this package."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def run_mypy(path: Path) -> list[str]:
    """Return mypy's messages for a module, each with its line, with the settings and the cache of `make check`."""
    return [line.rpartition(f"{path.name}:")[2] for line in run_mypy_on([path]) if f"{path.name}:" in line]


def set_mypy_option(paths: list[Path], option: str) -> None:
    """Set a mypy option for these modules only. A command-line flag would invalidate the cache of other modules."""
    for path in paths:
        path.write_text(f"{path.read_text()}\n# mypy: {option}\n")


def run_mypy_on(paths: list[Path]) -> list[str]:
    """Return the lines that mypy prints for modules, with the settings and the cache of `make check`."""
    command = [sys.executable, "-m", "mypy", *map(str, paths)]
    process = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=540)
    return process.stdout.splitlines()
