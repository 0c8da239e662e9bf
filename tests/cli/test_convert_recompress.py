"""The command ``kafkaframes recompress``, in one process and in two."""

import json

from tests.cli.calling import ask_or_raise as run
from tests.jobs.convert.test_convert import LOGS, segments


def test_several_processes_write_the_files_of_one(tmp_path):
    for jobs, name in ((1, "one"), (2, "two")):
        arguments = ("--codec", "zstd", "--level", 1, "--to", tmp_path / name, "--workers", jobs, "--json")
        result = run("recompress", LOGS / "kraft-4x-transactions", *arguments)
        assert json.loads(result.stdout)["destination"] == str(tmp_path / name)
    for file in segments(tmp_path / "one"):
        assert file.read_bytes() == (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_bytes()
