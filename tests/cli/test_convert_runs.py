"""Options of the rewriting commands: scratch directories, and exclusive options."""

import pytest
from tests.cli.calling import ask_or_raise as run

from kafkaframes.cli import convert
from kafkaframes.errors import OptionError


def test_local_temporary_directories_are_rejected_for_remote_workers():
    with convert.open_scratch_directory(None, "spark://host:7077") as directory:
        assert directory is None
    with convert.open_scratch_directory(None, "local[2]") as directory:
        assert directory.is_dir()
    assert not directory.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "in", "--record-format", "v2"),
        ("convert", "in", "--record-format", "v2", "--in-place"),
        ("convert", "in", "--record-format", "v2", "--to", "out", "--backup", "old", "--in-place"),
        ("recompress", "in", "--codec", "zstd", "--to", "out", "--workers", "2", "--master", "local[2]"),
        ("compact", "in"),
        ("compact", "in", "--to", "out", "--dry-run"),
        ("compact", "in", "--prove-gone", "0xgg"),
    ],
)
def test_exclusive_options_are_rejected(arguments):
    with pytest.raises(OptionError):
        run(*arguments)
