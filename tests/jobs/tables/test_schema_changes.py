"""Schema changes in a long-lived table are applied or rejected in each format, as the page documents."""

from __future__ import annotations

import pytest
from tests.jobs.tables.schema_changes import FORMATS, MARK, PAGE, changes, outcome, read, run

import kafkaframes

pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf.descriptor_pb2")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("duckdb")
CHANGES = list(changes())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_changes_are_applied_or_rejected_as_documented(change, form, tmp_path):
    rows = [line.split(" | ") for line in MARK.search(PAGE.read_text())[0].splitlines() if line.startswith("| ")]
    (row,) = [row for row in rows if row[0] == f"| {change.name}"]
    assert row[1 + FORMATS.index(form)].removesuffix(" |") == outcome(change, form, tmp_path), (
        "run python -m tests.jobs.tables.schema_changes"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_with_added_columns_is_continued(form, tmp_path):
    """A third run, first without new records and then with one, continues the table of the second one."""
    change = next(one for one in CHANGES if one.name == "inside the records of an array")
    run(change, form, tmp_path)
    before = read(form, tmp_path / "t").num_rows
    segment = tmp_path / "logs" / "orders-0" / f"{2:020}.log"
    value = b"\0\0\0\0\1" + change.values[0]
    segment.write_bytes(kafkaframes.build_records([{"value": value}], base_offset=2))
    (tmp_path / "again").mkdir()
    from click.testing import CliRunner

    from kafkaframes.cli.main import cli

    flags = ["--schema", f"1={tmp_path / '1.schema'}", "--schema", f"2={tmp_path / '2.schema'}"]
    command = ["table", tmp_path / "logs", "--topic", "orders", "--to", form, tmp_path / "t", "--mode", "avro", *flags]
    for _ in range(2):
        result = CliRunner().invoke(cli, [*map(str, command)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    table = read(form, tmp_path / "t").sort_by("offset")
    assert table.num_rows == before + 1
    assert table.column("c").to_pylist()[-1] == [{"a": 1, "b": None}]


@pytest.mark.parametrize("form", FORMATS)
def test_a_field_that_differs_from_a_column_only_by_case_is_rejected(form, tmp_path):
    from tests.jobs.tables.schema_changes import avro, record

    schema = record(("id", "int", 0), ("ID", "int"))
    change = avro("", record(("ID", "int")), {"ID": 1}, schema, {"id": 2, "ID": 3}, ({"ID": 1}, {"ID": 3}), FORMATS)
    message = run(change, form, tmp_path)
    assert "would only differ from column ID by case" in message
    (tmp_path / "appended").mkdir()
    schema = record(("ID", "int"), ("id", "int", 0))
    change = avro("", record(("ID", "int")), {"ID": 1}, schema, {"id": 2, "ID": 3}, ({"ID": 1}, {"ID": 3}))
    assert run(change, form, tmp_path / "appended") == [{"ID": 1}, {"ID": 3}]
