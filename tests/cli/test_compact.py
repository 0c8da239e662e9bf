"""The command ``kafkaframes compact``, and the proof that a key is gone."""

import json
from dataclasses import replace

import pytest
from tests.cli.calling import ask_or_raise as run
from tests.jobs.compact.test_compaction import keys, source  # noqa: F401  a fixture
from tests.jobs.convert.test_convert import segments

from kafkaframes.cli import convert
from kafkaframes.errors import OptionError


def test_the_command_compacts_a_log(source, tmp_path):  # noqa: F811
    result = run("compact", source, "--dry-run")
    assert "2 a later record of the key" in result.stdout
    assert "would go" in result.stdout
    result = run("compact", source, "--to", tmp_path / "out", "--prove-gone", "0x7a7a")
    assert result.exit_code == 0
    assert "gone: no record has the key; 4 files were read" in result.stdout
    assert keys(tmp_path / "out" / "users-0") == [b"a", b"b", b"c", b"z"]
    result = run("compact", tmp_path / "out", "--prove-gone", "c", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["proof"]["found"] == [[str(tmp_path / "out/users-0" / f"{0:020}.log"), 4]]


def test_a_large_partition_is_divided_among_processes(source, tmp_path, monkeypatch):  # noqa: F811
    plans, choose_split = [], convert.choose_work_split
    for name, above_bytes, jobs in (("alone", 1 << 30, 1), ("shared", 0, 2)):
        monkeypatch.setattr(
            convert,
            "choose_work_split",
            lambda *arguments, most=above_bytes: replace(choose_split(*arguments), above_bytes=most, here_bytes=0),
        )
        plans.append(run("compact", source, "--dry-run", "--workers", jobs, "--scratch", tmp_path).stdout)
        run("compact", source, "--to", tmp_path / name, "--workers", jobs)
    assert plans[0] == plans[1]
    assert "2 a later record of the key" in plans[1]
    for file in segments(tmp_path / "alone"):
        assert file.read_bytes() == (tmp_path / "shared" / file.relative_to(tmp_path / "alone")).read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "alone", "shared"}
    with pytest.raises(OptionError, match="--scratch nowhere: No such file"):
        run("compact", source, "--dry-run", "--scratch", "nowhere")
