"""Kind ``messages``: every message at every version, values and mutated bytes, and the header of each message.

A case is one file's lines of one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences
from tests.agreement.message_lines import disagreements, is_encoding, read_lines

from kafkaframes.errors import SpecError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.spec import catalog


def _yield_cases(folder: Path) -> Iterator[Case]:
    for file in sorted(folder.glob("*.jsonl*")):
        lines = read_lines(file)
        if file.name.startswith("headers-"):
            yield Case(file.name, ("headers", lines))
            continue
        encoding = is_encoding(file.name)
        for name, group in groupby(lines, key=lambda line: str(line["message"])):
            yield Case(f"{file.name} {name}", ("encoding" if encoding else "decoding", list(group)))


def _yield_disagreements(case: Case) -> Iterator[str]:
    kind, lines = case.payload
    if kind == "headers":
        yield from _compare_headers(lines)
        return
    for line in lines:
        yield from disagreements(line, message, encoding=kind == "encoding", canonical=True)


def _compare_headers(lines: list[dict[str, Any]]) -> Iterator[str]:
    for line in lines:
        try:
            api, own = (
                catalog.find_api(line["api_key"]),
                catalog.find_entry(f"{line['name']}Request"),
            )  # the name of the API in that release
        except SpecError as error:
            yield str(error)
            continue
        header: dict[str, Any] = {"api_key": own.outline.api_key, "name": line["name"]}
        if "versions" in line:
            rows = [[version, *api.header_versions.get(version, ())] for version, *_ in line["versions"]]
            header |= {"versions": rows}
        elif api.current_versions.is_empty:  # removed from the newest release; Kafka prints no valid version
            header |= {"valid": None}
        yield from differences(line, header, f"API {api.key}")


KIND = Kind("messages", ("messages",), _yield_cases, _yield_disagreements)
