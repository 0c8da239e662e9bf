"""An export of several copies: one log, or each copy by itself."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.storage.copies.cluster import NamedBatch, write_partition

from kafkaframes.cli.export import command

BATCHES = [NamedBatch(f"a{n}", 5 * n, 5, 0) for n in range(6)]


@pytest.fixture
def copies(tmp_path):
    """Two copies: the first lacks a segment, the second ends early and has a flipped bit in its first batch."""
    raw = [batch.raw() for batch in BATCHES]
    first = bytearray(raw[0])
    first[70] ^= 1
    write_partition(tmp_path / "1", {0: raw[0] + raw[1], 20: raw[4] + raw[5]}, epochs=[(0, 0)])
    write_partition(tmp_path / "2", {0: bytes(first) + b"".join(raw[1:4]), 20: raw[4]}, epochs=[(0, 0)])
    return [str(tmp_path / "1"), str(tmp_path / "2")]


def export(paths, to: Path, *more: str):
    result = CliRunner().invoke(command, [*paths, "--to", str(to), "--json", "--workers", "1", *more])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows(to: Path) -> list[tuple[int, bytes]]:
    tables = [pq.ParquetFile(path).read() for path in sorted(to.rglob("*.parquet"))]
    return sorted(
        row for table in tables for row in zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
    )


def test_copies_are_exported_as_one_log(copies, tmp_path):
    truth = [row for batch in BATCHES for row in batch.rows().items()]
    for paths in (copies, copies[::-1]):
        to = tmp_path / paths[0][-1]
        assert export(paths, tmp_path / "out" / to.name)["records"] == len(truth)
        assert rows(tmp_path / "out" / to.name) == truth
        assert export(paths, tmp_path / "out" / to.name)["exported"] == 0  # nothing is left to export


def test_every_copy_is_exported_by_itself(copies, tmp_path):
    export([copies[0]], tmp_path / "one")
    result = CliRunner().invoke(
        command, [*copies, "--to", str(tmp_path / "all"), "--replicas", "all", "--workers", "1"]
    )
    assert result.exit_code == 1  # the damage of the second copy is reported
    folders = {path.parent.name for path in (tmp_path / "all").rglob("*.parquet")}
    assert folders == {f"source={copy.replace('/', '%2F')}" for copy in copies}
    assert len(rows(tmp_path / "all")) == 20 + 25
