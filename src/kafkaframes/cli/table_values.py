"""What ``table`` makes of values: the flags about modes and schemas, and the schema where none is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.settings import Settings
from kafkaframes.jobs.tables.content import Content, sample_values
from kafkaframes.jobs.tables.run import Plan
from kafkaframes.jobs.tables.state import TableState
from kafkaframes.scan.values.decoding import AVRO, JSON, PROTOBUF, Decoding, subject_schema
from kafkaframes.scan.values.json_values import infer_schema
from kafkaframes.scan.values.registry import Registry

RAW, LATEST = "raw", "latest"
INFERRED = "schema"  # the table's setting that keeps an inferred schema


@dataclass(frozen=True)
class Values:
    """What the flags say of values.

    Attributes:
        mode: ``raw`` or one of ``decoding.MODES``.
        latest: whether the table holds one row a key.
        schema, by_id: files' contents, of the table and of ids.
        registry, subject: where schemas are, and whose newest one the table has.
    """

    mode: str
    latest: bool
    schema: bytes | None = None
    by_id: Mapping[int, bytes] = field(default_factory=dict)
    registry: str | None = field(default=None, repr=False)
    subject: str = ""
    message: str = ""

    @property
    def is_inferred(self) -> bool:
        """Whether the first values say the columns."""
        return self.mode == JSON and self.schema is None and self.registry is None

    def check(self) -> None:
        """Check what needs neither brokers nor a registry: its address, the schemas of files, the format's library.

        Raises:
            OptionError: one of the first two is wrong.
            MissingExtraError: the library is absent.
        """
        if self.registry is not None:
            Registry(self.registry)
        elif self.schema is not None:
            Decoding(self.mode, self.schema, self.by_id, message=self.message).decoder()

    def content(self, state: TableState | None, plan: Plan, settings: Settings) -> Content:
        """Return how rows are made; a registry is asked, or values are looked at, where that has to be.

        Raises:
            OptionError: no schema can be had, or it does not fit.
            NetworkError: the registry does not answer.
        """
        if self.mode == RAW:
            return Content(None, self.latest)
        registered = None if self.registry is None else subject_schema(self.registry, self.subject, self.mode)
        schema = self._inferred(state, plan, settings) if self.is_inferred else self.schema
        decoding = Decoding(self.mode, schema, self.by_id, self.registry, registered, self.message)
        decoding.decoder()
        return Content(decoding, self.latest)

    def _inferred(self, state: TableState | None, plan: Plan, settings: Settings) -> bytes:
        """Return the schema that the table was begun with, or that of the first values."""
        known = (state.settings or {}).get(INFERRED) if state is not None else None
        if isinstance(known, str):
            return known.encode()
        result = infer_schema(sample_values(plan(None).tasks, settings))
        return json.dumps(result, sort_keys=True).encode()

    def chosen(self, content: Content) -> dict[str, Any]:
        """Return what every run into the table must agree on; nothing for a table as ``export`` makes it."""
        chosen: dict[str, Any] = {} if self.mode == RAW else {"value": self.mode}
        if self.latest:
            chosen["latest"] = True
        if self.is_inferred and content.decoding is not None:
            chosen[INFERRED] = (content.decoding.schema or b"").decode()
        return chosen


def values_of(topics: Sequence[str], flags: Mapping[str, Any]) -> Values:
    """Read the flags.

    Args:
        topics: that the source names; several, or none named, have no one subject.

    Raises:
        OptionError: they do not fit together, or a file cannot be used.
    """
    latest = flags["mode"] == LATEST
    if flags["value"] is not None and not latest:
        raise OptionError("--value is for --mode latest: the mode itself says what values become")
    mode = (flags["value"] or RAW) if latest else flags["mode"]
    _check_flags(mode, flags)
    schema, by_id = _schemas(flags["schemas"], mode)
    if mode in (AVRO, PROTOBUF) and schema is None and flags["registry"] is None:
        raise OptionError(f"--mode {mode}: --schema FILE or --registry URL says what the bytes mean")
    return Values(mode, latest, schema, by_id, flags["registry"], _subject(topics, flags), flags["message"] or "")


def _check_flags(mode: str, flags: Mapping[str, Any]) -> None:
    shown = {"schemas": "--schema", "registry": "--registry", "subject": "--subject", "message": "--message"}
    for name, flag in shown.items():
        if flags[name] and mode == RAW:
            raise OptionError(f"{flag}: mode raw keeps values as they are; --mode json, avro or protobuf decodes them")
    if flags["schemas"] and flags["registry"]:
        raise OptionError("only one of --schema and --registry can be given")
    if flags["subject"] and not flags["registry"]:
        raise OptionError("--subject is for --registry")
    if flags["message"] and mode != PROTOBUF:
        raise OptionError("--message is for protobuf")


def _subject(topics: Sequence[str], flags: Mapping[str, Any]) -> str:
    if flags["registry"] is None or flags["subject"]:
        return str(flags["subject"] or "")
    if len(topics) != 1 or any(mark in topics[0] for mark in "*?["):
        raise OptionError("--registry: for several topics, --subject says whose newest schema the table has")
    return f"{topics[0]}-value"


def _schemas(flags: Sequence[str], mode: str) -> tuple[bytes | None, dict[int, bytes]]:
    """Return the table's schema, and those by id: of these the greatest id is the table's."""
    plain: list[bytes] = []
    by_id: dict[int, bytes] = {}
    for text in flags:
        number, equals, path = text.partition("=")
        if equals and number.isdecimal():
            by_id[int(number)] = _read(path, mode)
        else:
            plain.append(_read(text, mode))
    if len(plain) > 1 or (plain and by_id):
        raise OptionError("--schema: one FILE, or ID=FILE for each id that values begin with")
    if by_id:
        return by_id[max(by_id)], by_id
    return (plain[0] if plain else None), {}


def _read(path: str, mode: str) -> bytes:
    if mode == PROTOBUF and path.endswith(".proto"):
        raise OptionError(
            f"--schema {path}: must be descriptors: protoc --include_imports --descriptor_set_out=FILE {path}"
        )
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"--schema {path}: {error.strerror}") from None
