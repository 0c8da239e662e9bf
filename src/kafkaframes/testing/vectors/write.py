"""Write the directory of vectors: its files, and the README that explains them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Final

from kafkaframes._version import __version__
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.registry import Specs, specs_by_name
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.storage.files import atomic
from kafkaframes.testing.vectors import messages, records

Row = dict[str, Any]
_MESSAGE_FILES: Final[tuple[tuple[str, Callable[[Iterable[MessageSpec]], Iterator[Row]], str], ...]] = (
    ("messages.jsonl.gz", messages.generate_value_rows, "every message at every version: `json` and `bytes` (hex)"),
    (
        "messages-damaged.jsonl.gz",
        messages.generate_damaged_rows,
        "damaged bytes: `error`, or the decoded value and `remaining`",
    ),
    (
        "frames.jsonl.gz",
        messages.generate_frame_rows,
        "requests and responses with their headers, without the size before them",
    ),
)
_NUMBER_FILES: Final[tuple[tuple[str, Callable[[], Iterator[Row]], str], ...]] = (
    ("varints.jsonl", messages.generate_varint_rows, "numbers and bytes; `error` if the bytes are invalid"),
    ("keys.jsonl", records.generate_key_rows, "keys (hex) with murmur2 and the default partitioner's partition"),
    (
        "coordinators.jsonl",
        records.generate_coordinator_rows,
        "groups and transactional ids with their coordinator's partition",
    ),
)
_README_TEXT: Final = """# Conformance vectors for Kafka's wire protocol and record formats

Written by kafkaframes {version} from the message specs of {source}; the same version writes the same bytes. Use
them as you like. One JSON object a line; `.gz` is gzip; bytes are in hex, but in `json`, which is Kafka's own JSON form
of a message (bytes and records in base64, uuids in base64url).

| file | rows | what |
|---|---|---|
{files}
| `records/*.bin` | {records} | record sets of formats 0, 1 and 2; `records.json` has, by name, what a reader finds |

A library agrees when it writes `bytes` for `json`, reads `json` from `bytes`, and refuses what has an `error`. The
words of errors are ours: only that there is one counts. Damaged messages are read as Kafka's own classes read them,
which take a varint that is longer than it needs to be.

`case` says how a value was made: `defaults`; `ordinary`; `lowest` and `highest` (numbers at their borders, empty or
long texts and arrays); `nulls` wherever null may be; `unknown tags` in every flexible struct (the top level's are in
`unknown_tags`, those of inner structs in `bytes` alone).

In `records.json` a batch has its header's fields and its records; `crc_ok` is false where the checksum does not fit,
`error` says why its records end early, `ends_at` and `because` of a file say where and why no more batches follow.
"""


def write_vectors(directory: str | PathLike[str], *, specs: Specs | None = None) -> dict[str, int]:
    """Write test vectors for other libraries, bytes with their meaning, into a directory.

    >>> write_vectors("vectors")["varints.jsonl"] > 0  # doctest: +SKIP
    True

    Args:
        directory: directory to write, which must be new or empty. The finished directory is renamed into place.
        specs: message specs of a proposal, a path or ``MessageSpec`` objects. By default, the messages in the catalog.

    Returns:
        The number of rows of each file.

    Raises:
        SpecError: a file is not a message spec.
        OptionError: the directory is not empty.
        OSError: the directory cannot be written.
    """
    target = Path(directory).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OptionError(f"{target} is not empty; vectors are written to a new or empty directory")
    source, specs_or_none = f"Kafka {catalog.newest_release()}", messages.list_catalog_specs()
    if specs is not None:
        source, specs_or_none = "a proposal", list(specs_by_name(specs).values())
    with atomic.hold_lock(target), atomic.write_directory(target) as vectors:
        return _write_files(vectors, source, specs_or_none)


def _write_files(target: Path, source: str, specs: list[MessageSpec]) -> dict[str, int]:
    (target / "records").mkdir(parents=True)
    counts = {name: _write_lines(target / name, rows()) for name, rows, _ in _NUMBER_FILES}
    counts |= {name: _write_lines(target / name, rows(specs)) for name, rows, _ in _MESSAGE_FILES}
    counts["records.json"] = _write_records(target)
    lines = "\n".join(
        f"| `{name}` | {counts[name]:,} | {description} |" for name, _, description in (*_NUMBER_FILES, *_MESSAGE_FILES)
    )
    page = _README_TEXT.format(version=__version__, source=source, files=lines, records=counts["records.json"])
    (target / "README.md").write_text(page, encoding="utf-8")
    return counts


def _write_lines(path: Path, rows: Iterable[Row]) -> int:
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return len(texts)


def _write_records(target: Path) -> int:
    result = {}
    for name, data in records.generate_record_files():
        (target / "records" / f"{name}.bin").write_bytes(data)
        result[name] = records.describe_record_set(data)
    (target / "records.json").write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")
    return len(result)
