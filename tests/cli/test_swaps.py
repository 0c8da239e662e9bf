"""Commands read a log with an interrupted cleaning as a broker's start would leave it, and report it."""

import pytest
from tests.cli.calling import ask
from tests.storage.log.swapped_logs import CLEANED_OFFSETS, OLD_SEGMENTS, interrupt_cleaning, name, write_partition

import kafkaframes


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "logs" / "orders-0"
    write_partition(path)
    interrupt_cleaning(path, "deleted", {".swap": {0: CLEANED_OFFSETS}})
    return path.parent


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("grep", "--count", "v"), "20\n"),
        (("verify",), "20 batches"),
        (("info",), "2 segments"),
        (("export", "--to", "OUT"), "20 records, of 20 read"),
        (("table", "--to", "parquet", "OUT"), "20 records"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_every_command_reads_the_swap_and_reports_it(log, tmp_path, words, count):
    words = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    result = ask(*words, log)
    assert result.exit_code == 0, result.output
    assert "complete swap file" in result.output
    assert count in result.output


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (("convert", "--record-format", "v1"), [*CLEANED_OFFSETS, *OLD_SEGMENTS[20]]),
        (("recompress", "--codec", "lz4"), [*CLEANED_OFFSETS, *OLD_SEGMENTS[20]]),
        (
            ("compact", "--topic", "orders"),
            OLD_SEGMENTS[20],
        ),  # the other records have no key, and the last segment is active
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("old", ["there", "deleted", "gone"])
def test_jobs_write_the_segments_that_a_broker_would_serve(tmp_path, words, offsets, old):
    path = tmp_path / "logs" / "orders-0"
    write_partition(path)
    (path / name(10).replace(".log", ".snapshot")).write_bytes(b"of a segment that the swap file replaces")
    interrupt_cleaning(path, old, {".swap": {0: CLEANED_OFFSETS}})
    result = ask(*words, path.parent, "--to", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "complete swap file" in result.output
    written_files = sorted(file.name for file in (tmp_path / "new" / "orders-0").iterdir() if file.suffix != ".index")
    assert [file for file in written_files if not file.endswith(".timeindex")] == [name(0), name(20)]
    read = kafkaframes.scan_log(tmp_path / "new").select("offset").to_arrow().column(0).to_pylist()
    assert read == list(offsets)


def test_a_partition_without_anything_to_clean_is_copied_without_its_swap_files(tmp_path):
    path = tmp_path / "logs" / "orders-0"
    write_partition(path)
    interrupt_cleaning(path, "there", {".swap": {0: CLEANED_OFFSETS}})
    (path.parent / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    assert ask("compact", path.parent, "--to", tmp_path / "new").exit_code == 0
    assert (tmp_path / "new" / "orders-0" / name(0)).read_bytes() == (path / name(0, ".swap")).read_bytes()
    assert {file.name for file in (tmp_path / "new" / "orders-0").glob("*.log*")} == {name(0), name(20)}
