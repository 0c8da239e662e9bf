"""How a table's values are decoded, as its settings say: by files, by a registry, or by what the first values are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import Settings
from kafkaframes.jobs.tables.content import Content, sample_values
from kafkaframes.jobs.tables.run import Plan
from kafkaframes.jobs.tables.settings import PROTOBUF, RAW, TableSettings
from kafkaframes.jobs.tables.state import TableState
from kafkaframes.scan.values.decoding import JSON, Decoding, subject_schema
from kafkaframes.scan.values.json_values import infer_schema
from kafkaframes.scan.values.registry import Registry

_PROTOC = "protoc --include_imports --descriptor_set_out=FILE"  # flags of its own, not of a command of ours
INFERRED = "schema"  # the table's setting that keeps an inferred schema


@dataclass(frozen=True)
class Values:
    """What the settings say of values.

    Attributes:
        settings: of the table.
        schema, by_id: files' contents, of the table and of ids.
        subject: whose newest schema of the registry the table has.
    """

    settings: TableSettings
    schema: bytes | None
    by_id: Mapping[int, bytes]
    subject: str

    @property
    def is_inferred(self) -> bool:
        """Whether the first values say the columns."""
        return self.settings.decoded == JSON and self.schema is None and self.settings.registry is None

    def check(self) -> None:
        """Check what needs neither brokers nor a registry: its address, the schemas of files, the format's library.

        Raises:
            OptionError: one of the first two is wrong.
            MissingExtraError: the library is absent.
        """
        settings = self.settings
        if settings.registry is not None:
            Registry(settings.registry)
        elif self.schema is not None:
            Decoding(settings.decoded, self.schema, self.by_id, message=settings.message or "").decoder()

    def content(self, state: TableState | None, plan: Plan, files: Settings) -> Content:
        """Return how rows are made; a registry is asked, or values are looked at, where that has to be.

        Raises:
            OptionError: no schema can be had, or it does not fit.
            NetworkError: the registry does not answer.
        """
        mode, registry = self.settings.decoded, self.settings.registry
        if mode == RAW:
            return Content(None, self.settings.is_latest)
        registered = None if registry is None else subject_schema(registry, self.subject, mode)
        schema = self._inferred(state, plan, files) if self.is_inferred else self.schema
        decoding = Decoding(mode, schema, self.by_id, registry, registered, self.settings.message or "")
        decoding.decoder()
        return Content(decoding, self.settings.is_latest)

    def _inferred(self, state: TableState | None, plan: Plan, files: Settings) -> bytes:
        """Return the schema that the table was begun with, or that of the first values."""
        known = (state.settings or {}).get(INFERRED) if state is not None else None
        if isinstance(known, str):
            return known.encode()
        result = infer_schema(sample_values(plan(None).tasks, files))
        return json.dumps(result, sort_keys=True).encode()

    def chosen(self, content: Content) -> dict[str, Any]:
        """Return what every run into the table must agree on; nothing for a table as ``export`` makes it."""
        mode = self.settings.decoded
        chosen: dict[str, Any] = {} if mode == RAW else {"value": mode}
        if self.settings.is_latest:
            chosen["latest"] = True
        if self.is_inferred and content.decoding is not None:
            chosen[INFERRED] = (content.decoding.schema or b"").decode()
        return chosen


def values_of(topics: Sequence[str], settings: TableSettings) -> Values:
    """Read the files of schemas.

    Args:
        topics: that the source names; several, or none named, have no one subject.
        settings: of the table.

    Raises:
        OptionError: there is no one subject, or a file cannot be used.
    """
    schema, by_id = _schemas(settings.schemas, settings.decoded)
    return Values(settings, schema, by_id, _subject(topics, settings))


def _subject(topics: Sequence[str], settings: TableSettings) -> str:
    if settings.registry is None or settings.subject:
        return settings.subject or ""
    if len(topics) != 1 or any(mark in topics[0] for mark in "*?["):
        raise OptionError("`registry`: with several topics, set `subject`: the table gets its newest schema")
    return f"{topics[0]}-value"


def _schemas(texts: Sequence[str], mode: str) -> tuple[bytes | None, dict[int, bytes]]:
    """Return the table's schema, and those by id: of these the greatest id is the table's."""
    plain: list[bytes] = []
    by_id: dict[int, bytes] = {}
    for text in texts:
        number, equals, path = text.partition("=")
        if equals and number.isdecimal():
            by_id[int(number)] = _read(path, mode)
        else:
            plain.append(_read(text, mode))
    if len(plain) > 1 or (plain and by_id):
        raise OptionError("`schemas`: one FILE, or ID=FILE for each id that values begin with")
    if by_id:
        return by_id[max(by_id)], by_id
    return (plain[0] if plain else None), {}


def _read(path: str, mode: str) -> bytes:
    if mode == PROTOBUF and path.endswith(".proto"):
        raise OptionError(f"`schemas` {path}: must be descriptors: {_PROTOC} {path}")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"`schemas` {path}: {error.strerror}") from None
