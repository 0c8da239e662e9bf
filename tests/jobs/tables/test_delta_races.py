"""A commit to a Delta table that loses a race with another writer is retried, even if it first adds a column."""

import pyarrow as pa
import pytest

from kafkaframes.jobs.tables.content import build_table_schema
from kafkaframes.jobs.tables.delta import DeltaTable
from kafkaframes.jobs.tables.state import CommitConflictError, TableCommit

COLUMNS = build_table_schema(headers=False)
WIDER = COLUMNS.append(pa.field("extra", pa.int64()))


def commit(run, columns, *, before, after, latest):
    ends = {("t", 0): before}, {("t", 0): after}
    return TableCommit(run, *ends, {}, {"isolation": "read_committed"}, (), columns, latest=latest)


@pytest.mark.parametrize("latest", [False, True], ids=["records", "latest"])
def test_a_column_added_by_another_writer_is_a_race(tmp_path, latest):
    deltalake = pytest.importorskip("deltalake")
    table = DeltaTable(str(tmp_path / "table"))
    assert table.read_state() is None
    table.commit_files(commit("one", COLUMNS, before=None, after=5, latest=latest), None)
    state = table.read_state()
    other = deltalake.DeltaTable(str(tmp_path / "table"))
    other.alter.add_columns(deltalake.Schema.from_arrow(pa.schema([pa.field("extra", pa.int64())])).fields)
    wider = commit("two", WIDER, before=5, after=9, latest=latest)
    with pytest.raises(CommitConflictError):
        table.commit_files(wider, state)
    table.commit_files(wider, table.read_state())
    assert table.read_state().find_end(("t", 0)) == 9
    assert table.has_committed("two", since=None)
