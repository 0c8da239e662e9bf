"""Kind ``codec``: Kafka's own test messages with unusual values, mutated bytes, and malformed bytes.

The specs are next to the lines, in ``specs``. Other messages are in the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.agreement.kind import Case, Kind
from tests.agreement.message_lines import disagreements, is_encoding, read_lines

from kafkaframes.protocol.messages import Message, message


@cache
def _find_class(name: str, specs: str) -> type[Message]:
    file = Path(specs) / f"{name}.json"
    return message(name, specs=file) if file.is_file() else message(name)


def _yield_cases(folder: Path) -> Iterator[Case]:
    for file in sorted(folder.glob("*.jsonl*")):
        for index, line in enumerate(read_lines(file)):
            yield Case(f"{file.name}:{index + 1}", (is_encoding(file.name), str(folder / "specs"), line))


def _yield_disagreements(case: Case) -> Iterator[str]:
    encoding, specs, line = case.payload
    yield from disagreements(line, lambda name: _find_class(name, specs), encoding=encoding, canonical=False)


KIND = Kind("codec", ("codec",), _yield_cases, _yield_disagreements)
