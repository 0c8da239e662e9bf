"""The cases of a corpus of logs: log directory, reference file, and manifest with the version.

<folder>/<case>/                    <case>.<truth>            <case>.json
<folder>/<case>/before|after/       <case>.before.<truth>     <case>.json
<folder>/<case>/                    truth/<case>.<truth>      <case>.json      (the examples)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STATES = ("before", "after")


@dataclass(frozen=True, slots=True)
class LogCase:
    """A log directory and its reference file. If either is missing, that is a disagreement."""

    name: str
    directory: Path
    truth: Path
    manifest: Path

    def problem(self) -> str | None:
        """Return a description of a missing file or directory, or None."""
        if not self.truth.is_file():
            return f"no truth: {self.truth.name} is missing"
        if not self.directory.is_dir() or not any(self.directory.iterdir()):
            return f"no log directory: {self.directory} is missing or empty"
        return None

    def kafka_version(self) -> str:
        """Return the version of the broker that wrote the case."""
        return str(json.loads(self.manifest.read_text())["kafka_version"])


def log_cases(folder: Path, suffix: str) -> Iterator[LogCase]:
    """Yield every case of a folder: each directory, and each truth file that ends in ``suffix``."""
    truths = folder / "truth" if (folder / "truth").is_dir() else folder
    names = {path.name.removesuffix(suffix) for path in truths.glob(f"*{suffix}")}
    for path in folder.iterdir():
        if path.is_dir() and path.name != "truth":
            states = [state for state in STATES if (path / state).is_dir()]
            names |= {f"{path.name}.{state}" for state in states} or {path.name}
    for name in sorted(names):
        case, _, state = name.rpartition(".")
        if state not in STATES:
            case, state = name, ""
        yield LogCase(name, folder / case / state, truths / f"{name}{suffix}", folder / f"{case}.json")
