"""Commands read a log whose cleaning was interrupted as a broker's start would leave it, and say so."""

import pytest
from tests.cli.calling import ask
from tests.storage.log.swapped_logs import CLEANED, interrupt, write_partition


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "logs" / "orders-0"
    write_partition(path)
    interrupt(path, "deleted", {".swap": {0: CLEANED}})
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
    assert "finished swap file" in result.output
    assert count in result.output


@pytest.mark.parametrize("words", [["compact"], ["convert", "--record-format", "v1"]], ids=["compact", "convert"])
def test_jobs_that_write_a_log_refuse_it_with_the_remedy(log, tmp_path, words):
    result = ask(*words, log, "--to", tmp_path / "new")
    assert result.exit_code
    assert "kafkaframes repair" in str(result.exception)
