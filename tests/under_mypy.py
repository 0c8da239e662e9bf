"""What mypy says of a few lines of Python that use this package."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def run_mypy(path: Path) -> list[str]:
    """Return what mypy says of a module, each with its line; with the settings and the cache of `make check`."""
    process = subprocess.run(
        [sys.executable, "-m", "mypy", str(path)], cwd=REPOSITORY, capture_output=True, text=True, timeout=540
    )
    return [line.rpartition(f"{path.name}:")[2] for line in process.stdout.splitlines() if f"{path.name}:" in line]
