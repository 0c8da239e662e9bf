"""The entry point for people: whatever the source is, with the clock and the ids of this machine."""

from __future__ import annotations

import difflib
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.convert.job import Runner, run_here
from kafkaframes.jobs.restore.job import restore
from kafkaframes.jobs.restore.kraft import id_text
from kafkaframes.jobs.restore.report import RestoreReport
from kafkaframes.jobs.restore.settings import RestoreSettings

AUTO, SEGMENTS, PARQUET = "auto", "segments", "parquet"
_SUFFIX = ".parquet"


def restore_log(
    sources: Any,
    to: str | os.PathLike[str],
    settings: RestoreSettings | Mapping[str, Any],
    *,
    kind: str = AUTO,
    run: Runner = run_here,
    dry_run: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> RestoreReport:
    """Restore segments, or Parquet; ``kind`` says which, or it is seen from the files.

    Raises:
        LogDirError, OptionError, EncodeError: as ``job.restore`` and ``parquet.restore_parquet``.
    """
    named = [os.fspath(sources)] if isinstance(sources, str | os.PathLike) else [os.fspath(one) for one in sources]
    chosen = settings if isinstance(settings, RestoreSettings) else _settings(settings)
    options: dict[str, Any] = {"now_ms": time.time_ns() // 1_000_000, "new_id": _new_id, "run": run, "dry_run": dry_run}
    if kind == PARQUET or (kind == AUTO and is_parquet(named)):
        if len(named) != 1:
            raise OptionError("of Parquet, name one file or one directory")
        from kafkaframes.jobs.restore.parquet import restore_parquet

        return restore_parquet(named[0], Path(to), chosen, **options)
    return restore(named, Path(to), chosen, storage=storage, **options)


def _settings(values: Mapping[str, Any]) -> RestoreSettings:
    """Return the settings.

    Raises:
        OptionError: one does not exist; the nearest is named.
    """
    known = [field.name for field in fields(RestoreSettings)]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise OptionError(
                f"no setting {name}: {f'did you mean {near[0]}?' if near else 'there are ' + ', '.join(known)}"
            )
    return RestoreSettings(**values)


def _new_id() -> str:
    return id_text(uuid.uuid4())


def is_parquet(named: Sequence[str]) -> bool:
    """Say whether the first source is a Parquet file, or a local directory with one in it.

    >>> is_parquet(["s3://backup/orders.parquet"])
    True
    """
    if not named or named[0].endswith(_SUFFIX):
        return bool(named)
    return "://" not in named[0] and next(Path(named[0]).rglob(f"*{_SUFFIX}"), None) is not None
