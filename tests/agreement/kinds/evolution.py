"""Kind ``evolution``: whether the second spec of each pair is a compatible successor of the first (KIP-482's rules)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.agreement.kind import Case, Kind

from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.changes import most_severe
from kafkaframes.protocol.spec.evolution import compare_messages


def _yield_cases(folder: Path) -> Iterator[Case]:
    truth = json.loads((folder / "expected.json").read_bytes())
    names = {path.name.rsplit(".", 2)[0] for path in folder.glob("*.[12].json")}
    yield from (Case(name, (folder, name, truth.get(name))) for name in sorted(names | truth.keys()))


def _yield_disagreements(case: Case) -> Iterator[str]:
    folder, name, truth = case.payload
    files = [folder / f"{name}.{which}.json" for which in (1, 2)]
    if truth is None or not all(path.is_file() for path in files):
        yield "a spec or the verdict is missing"
        return
    changes = compare_messages(*(load_message(path.read_bytes(), file=path.name) for path in files))
    verdict = most_severe(changes)
    if (verdict != "breaking") is not truth["compatible"]:
        reasons = "; ".join(f"{change.rule.name} {change.where} {change.versions}" for change in changes) or "no change"
        yield f"expected compatible = {truth['compatible']}, found {verdict}: {reasons}"


KIND = Kind("evolution", ("spec/evolution",), _yield_cases, _yield_disagreements)
