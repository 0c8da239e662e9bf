"""Sources of specs: archives, directories, jars and git references."""

import zipfile

from tests.protocol.spec.test_check import build_source

FIELD_A = {"name": "A", "type": "int32", "versions": "0+"}
REQUEST, RESPONSE = build_source("FooRequest", FIELD_A), build_source("FooResponse", FIELD_A, type="response")


def test_specs_are_imported_from_archives_directories_and_jars(spec_here, tmp_path):
    with zipfile.ZipFile(tmp_path / "4.4.0.zip", "w") as archive:
        archive.writestr("kafka-clients/FooRequest.json", REQUEST)
        archive.writestr("kafka-clients/other.json", "{}")
    with zipfile.ZipFile(tmp_path / "kafka-clients-4.5.0.jar", "w") as jar:
        jar.writestr("common/message/FooRequest.json", REQUEST)
    folder = tmp_path / "specs"
    folder.mkdir()
    folder.joinpath("FooRequest.json").write_text(REQUEST)
    for old in ("4.4.0.zip", "specs"):
        assert spec_here("check", old, "kafka-clients-4.5.0.jar").exit_code == 0
    tmp_path.joinpath("broken.zip").write_bytes(b"PK nonsense")
    assert spec_here("check", "broken.zip", "specs").exit_code != 0


def test_specs_are_imported_from_git_refs(spec_here, tmp_path):
    import subprocess

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(("git", *identity, *arguments), check=True, capture_output=True)

    git("init", "-q")
    tmp_path.joinpath("FooRequest.json").write_text(REQUEST)
    git("add", "FooRequest.json")
    git("commit", "-qm", "one")
    tmp_path.joinpath("FooRequest.json").write_text(build_source("FooRequest"))
    assert spec_here("check", "HEAD:FooRequest.json", "FooRequest.json").exit_code == 1
    assert spec_here("check", "HEAD:.", "HEAD:FooRequest.json").exit_code == 0
    assert spec_here("check", "NOREF:x", "FooRequest.json").exit_code != 0
