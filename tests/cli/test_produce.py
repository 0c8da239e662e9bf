"""``kafkaframes produce``: lines, files, formats of old clients, and mistakes."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.partitioner import compute_partitions


def test_lines_of_kcat_are_produced_and_consumed(run):
    run("topics create lines --partitions 1")
    run("produce lines -K : -H h=1 -z lz4", stdin=b"a:first\nb:second\n:third\n")
    out = run("consume lines -e", "-f", r"%t/%p@%o %k(%K)=%s %h\n").output
    assert out == "lines/0@0 a(1)=first h=1\nlines/0@1 b(1)=second h=1\nlines/0@2 (0)=third h=1\n"
    assert run("consume lines -e --offset -1").output == "third\n"
    assert run("consume lines -c 2").output == "first\nsecond\n"


def test_a_parquet_file_is_produced(run, tmp_path):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"key": ["a", "b"], "value": ["1", "2"], "offset": [7, 9]}), file)
    run("produce rows", str(file), "--format", "parquet")
    assert sorted(run("consume rows -e").output.split()) == ["1", "2"]


def test_records_are_sent_in_the_format_of_old_clients(run):
    run("produce old --record-format 0", stdin=b"one\n")
    assert run("consume old -e", "-f", r"%T %s\n").output == "-1 one\n"


@pytest.mark.parametrize(
    ("command", "stdin", "reason"),
    [
        ("produce t -K :", b"no key\n", "line 1 has no ':' .*; nothing is written"),
        ("produce t --format jsonl", b"{]\n", "line 1 is not a record"),
        ("produce t --format jsonl", b'{"value": 5}\n', "line 1 is not a record"),
        ("produce t --format parquet", None, "requires a file"),
        ("produce t -X linger.mss=1", b"", "did you mean linger.ms"),
    ],
)
def test_errors_are_one_line(run, command, stdin, reason):
    with pytest.raises(OptionError, match=reason):
        run(command, stdin=stdin)


def test_lines_before_an_invalid_line_are_sent_and_counted(run):
    with pytest.raises(OptionError, match=r"line 3 has no ':' .*; the first 2 records are written"):
        run("produce half -K :", stdin=b"a:1\nb:2\nno key\nc:3\n")
    assert sorted(run("consume half -e").output.split()) == ["1", "2"]


@pytest.mark.parametrize("values", [["x"], [1.5], [True], [[1]], [{"a": 1}]], ids=str)
def test_a_partition_that_is_not_an_integer_is_rejected(values):
    rows = pa.RecordBatch.from_arrays([pa.array(values)], names=["partition"])
    with pytest.raises(EncodeError, match="is not an integer type"):
        compute_partitions(rows, 3)


def test_deeply_nested_json_is_rejected(run):
    run("topics create nested --partitions 1")
    with pytest.raises(OptionError, match="line 1"):
        run("produce nested --format jsonl", stdin=b"[" * 9000)


@pytest.mark.parametrize("form", ["jsonl", "parquet", "lines"])
def test_the_error_for_a_too_large_record_has_its_number(run, form, tmp_path):
    """The chunks of rows before this record are written whole, and the error counts their rows (edenhill/kcat#54)."""
    values = ["v" * 10] * 20_000
    values[15_000] = "x" * 2_000_000
    path = tmp_path / f"records.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"value": [value.encode() for value in values]}), path)
    else:
        path.write_text(
            "".join((json.dumps({"value": value}) if form == "jsonl" else value) + "\n" for value in values)
        )
    run(f"topics create large-{form} --partitions 1")
    unit = "row" if form == "parquet" else "line"
    written_pattern = r"(nothing is|the first [\d,]+ records are) written"
    message = rf"^{unit} 15001: the record has about \d+ bytes; .*max_request_size.*; {written_pattern}"
    flags = [] if form == "lines" else ["--format", form]
    with pytest.raises(OptionError, match=message) as error:
        run(f"produce large-{form}", str(path), *flags)
    count = "".join(filter(str.isdigit, str(error.value).rpartition(";")[2]))
    assert run(f"consume large-{form} -e").output.split() == values[: int(count or 0)]


def test_a_too_large_first_row_is_reported(run, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"value": [b"x" * 2_000_000, b"y"]}), path)
    with pytest.raises(OptionError, match=r"^row 1: .*; nothing is written"):
        run("produce large", str(path), "--format", "parquet")
