"""Files in a log directory that no broker wrote are reported."""

from pathlib import Path

import pytest

from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.log.discover import discover

LOGS = Path(__file__).parents[2] / "data" / "logs"


def test_files_and_directories_unknown_to_brokers_are_reported(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for kind in ("log", "index", "timeindex"):
        (tmp_path / "t-0" / f"{0:020}.{kind}").touch()
    assert verify(discover(str(tmp_path))).findings == []
    (tmp_path / "backup").mkdir()
    (tmp_path / "report.html").touch()
    (tmp_path / "t-0" / "notes.txt").touch()
    (tmp_path / "t-0" / "old").mkdir()
    findings = verify(discover(str(tmp_path))).findings
    assert sorted((finding.severity.name, finding.check, Path(finding.file).name) for finding in findings) == [
        ("NOTE", "unexpected", "notes.txt"),
        ("NOTE", "unexpected", "old"),
        ("NOTE", "unexpected", "report.html"),
        ("WARNING", "unexpected", "backup"),
    ]


@pytest.mark.parametrize("log", sorted(filter(Path.is_dir, LOGS.iterdir())), ids=lambda path: path.name)
def test_a_brokers_own_files_are_not_reported(log):
    assert [finding for finding in verify(discover(str(log))).findings if finding.check == "unexpected"] == []
