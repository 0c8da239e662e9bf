"""Kind ``spec``: the verdict of Kafka's generator on each spec, the specs of every release, and the catalog made from
them.

Three folders: ``spec/bad`` (specs with the verdict of 3.9's generator), ``codec/specs`` (Kafka's own test messages, all
valid), ``specs`` (a zip per release: all load and, if all releases are present, importing them gives our catalog).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.agreement.kind import Case, Kind

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.catalog.importing import import_catalog
from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER
from kafkaframes.protocol.spec.load import KAFKA_3_9_DIALECT, PUBLISHED_DIALECT
from kafkaframes.protocol.spec.sources import read_published

REFERENCE_NAME = "expected.json"


def _yield_cases(folder: Path) -> Iterator[Case]:
    if (folder / REFERENCE_NAME).is_file():
        truth = json.loads((folder / REFERENCE_NAME).read_bytes())
        names = {path.name for path in folder.glob("*.json")} - {REFERENCE_NAME}
        yield from (Case(name, ("verdict", folder / name, truth.get(name))) for name in sorted(names | truth.keys()))
        return
    archives = sorted(folder.glob("*.zip"))
    yield from (Case(path.name, ("release", path)) for path in archives)
    if archives and _list_last_releases() <= {path.stem for path in archives}:
        yield Case("catalog", ("catalog", folder))
    yield from (Case(path.name, ("good", path)) for path in sorted(folder.glob("*.json")))


def _list_last_releases() -> set[str]:
    index = json.loads((MESSAGES_FOLDER / "index.json").read_bytes())
    return {row["lastRelease"] for row in index["messages"].values()}


def _find_rejection(text: bytes, dialect: object) -> str | None:
    try:
        load_message(text, dialect=dialect)
    except SpecError as error:
        return str(error)
    return None


def _yield_disagreements(case: Case) -> Iterable[str]:
    what, path, *truth = case.payload
    return _CHECK_BY_FOLDER[what](path, *truth)


def _compare_verdict(path: Path, truth: dict[str, object] | None) -> Iterator[str]:
    if not path.is_file():
        yield "the verdict has no file"
    elif truth is None:
        yield "the file has no verdict"
    else:
        refusal = _find_rejection(path.read_bytes(), KAFKA_3_9_DIALECT)
        if (refusal is None) is not truth["accepted"]:
            yield f"expected {'accepted' if truth['accepted'] else 'rejected'}, found {refusal or 'accepted'}"


def _check_valid_spec(path: Path) -> Iterator[str]:
    refusal = _find_rejection(path.read_bytes(), KAFKA_3_9_DIALECT)
    if refusal is not None:
        yield f"refused: {refusal}"


def _check_release(path: Path) -> Iterator[str]:
    for one in read_published(str(path)):
        refusal = _find_rejection(one.text, PUBLISHED_DIALECT)
        if refusal is not None:
            yield f"{one.module}/{one.file}: refused: {refusal}"
        if one.release != path.stem:
            yield f"{one.file}: recognised as release {one.release}"


def _check_catalog(folder: Path) -> Iterator[str]:
    imported_specs = import_catalog(read_published(str(folder)))
    ours = {path.name: path.read_text(encoding="utf-8") for path in MESSAGES_FOLDER.glob("*.json")}
    for name in sorted(imported_specs.keys() | ours.keys()):
        if imported_specs.get(name) != ours.get(name):
            yield f"{name}: {'surplus' if name not in imported_specs else 'missing' if name not in ours else 'differs'}"


_CHECK_BY_FOLDER = {
    "verdict": _compare_verdict,
    "good": _check_valid_spec,
    "release": _check_release,
    "catalog": _check_catalog,
}
KIND = Kind("spec", ("spec/bad", "codec/specs", "specs"), _yield_cases, _yield_disagreements)
