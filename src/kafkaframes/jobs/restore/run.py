"""The entry point for people: whatever the source is, with the clock and the ids of this machine."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.job import Runner, paths_of, run_here
from kafkaframes.jobs.restore.job import restore_segments
from kafkaframes.jobs.restore.partition import RestoreReport
from kafkaframes.jobs.restore.settings import RestoreSettings, id_text

AUTO, SEGMENTS, PARQUET = "auto", "segments", "parquet"
_SUFFIX = ".parquet"


def restore(
    sources: Any,
    to: str | os.PathLike[str],
    settings: RestoreSettings,
    *,
    kind: str = AUTO,
    run: Runner = run_here,
    dry_run: bool = False,
) -> RestoreReport:
    """Restore segments, or Parquet; ``kind`` says which, or it is seen from the files.

    Raises:
        LogDirError, OptionError, EncodeError: as ``job.restore_segments`` and ``parquet.restore_parquet``.
    """
    named = paths_of(sources)
    options: dict[str, Any] = {"now_ms": time.time_ns() // 1_000_000, "new_id": new_id, "run": run, "dry_run": dry_run}
    if kind == PARQUET or (kind == AUTO and is_parquet(named)):
        if len(named) != 1:
            raise OptionError("of Parquet, name one file or one directory")
        from kafkaframes.jobs.restore.parquet import restore_parquet

        return restore_parquet(named[0], Path(to), settings, **options)
    return restore_segments(named, Path(to), settings, storage=settings.storage, **options)


def new_id() -> str:
    """Return a new id of a topic or a cluster."""
    return id_text(uuid.uuid4())


def is_parquet(named: Sequence[str]) -> bool:
    """Say whether the first source is a Parquet file, or a local directory with one in it.

    >>> is_parquet(["s3://backup/orders.parquet"])
    True
    """
    if not named or named[0].endswith(_SUFFIX):
        return bool(named)
    return "://" not in named[0] and next(Path(named[0]).rglob(f"*{_SUFFIX}"), None) is not None
