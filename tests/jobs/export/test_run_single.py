"""One Parquet file for a whole log: the same records, and a backup that can be restored directly."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError

EXAMPLE_LOG_DIR = Path(__file__).parents[2] / "data" / "examples" / "kafka-4.3"
READ = ("topic", "partition", "offset", "key", "value")


def ask(*arguments):
    return CliRunner().invoke(cli, ["export", *map(str, arguments)])


def ask_or_raise(*arguments):
    error = ask(*arguments).exception
    assert error is not None
    raise error


def test_one_file_has_every_record_and_is_restored(tmp_path):
    file = tmp_path / "backup" / "shop.parquet"
    result = ask(EXAMPLE_LOG_DIR, "-o", file)
    assert result.exit_code == 0, result.output
    expected_records = (
        kafkaframes.read_records(EXAMPLE_LOG_DIR, columns=READ, isolation="read_committed", control_records=False)
        .read_all()
        .to_pylist()
    )
    assert pq.read_table(file, columns=list(READ)).to_pylist() == expected_records
    assert [path.name for path in file.parent.iterdir()] == ["shop.parquet"]
    kafkaframes.restore_log(file, tmp_path / "new")
    again = kafkaframes.read_records(tmp_path / "new", columns=READ).read_all().to_pylist()
    assert again == expected_records


def test_an_existing_file_is_kept_and_other_formats_are_rejected(tmp_path):
    file = tmp_path / "a.parquet"
    file.write_text("mine")
    with pytest.raises(OptionError, match="--overwrite replaces it"):
        ask_or_raise(EXAMPLE_LOG_DIR, "-o", file)
    assert file.read_text() == "mine"
    with pytest.raises(OptionError, match=r"must end in \.parquet"):
        ask_or_raise(EXAMPLE_LOG_DIR, "-o", tmp_path / "a.csv")
    assert ask(EXAMPLE_LOG_DIR, "-o", file, "--overwrite").exit_code == 0
    assert pq.read_table(file).num_rows > 0
    assert ask(EXAMPLE_LOG_DIR, "-o", tmp_path / "none.parquet", "--key", "no such key").exit_code != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet"]
