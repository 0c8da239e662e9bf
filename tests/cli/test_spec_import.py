"""``kafkaframes spec import`` writes, checks and removes only its own files."""

import shutil

import pytest
from tests.cli.calling import ask_spec as run

from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER


@pytest.fixture
def release(tmp_path):
    folder = tmp_path / "4.4.0" / "kafka-clients"
    folder.mkdir(parents=True)
    for name in ("FetchRequest.json", "FetchResponse.json"):
        shutil.copy(MESSAGES_FOLDER / name, folder)
    return tmp_path / "4.4.0"


def test_import_writes_checks_and_removes_only_its_own_files(release, tmp_path):
    target = tmp_path / "catalog"
    target.mkdir()
    target.joinpath("mine.json").write_text("{}")
    run("import", str(release), "-o", str(target))
    assert target.joinpath("FetchRequest.json").read_text() == MESSAGES_FOLDER.joinpath("FetchRequest.json").read_text()
    run("import", str(release), "-o", str(target), "--check")
    release.joinpath("kafka-clients/FetchResponse.json").unlink()
    run("import", str(release), "-o", str(target), "--check", status=1)
    run("import", str(release), "-o", str(target))
    assert sorted(path.name for path in target.iterdir()) == [
        "FetchRequest.json",
        "index.json",
        "mine.json",
        "names.json",
        "tags.json",
    ]
