"""``kafkaframes kernels pack``: libraries that are ready become a folder or an archive."""

import tarfile
import zipfile

import pytest
from tests.cli.calling import ask

from kafkaframes.cli import kernels
from kafkaframes.kernels import demand
from kafkaframes.kernels import directories as places


@pytest.fixture
def compiled_library(tmp_path, monkeypatch):
    """A compiled library, so that no kernel needs to be compiled."""
    ready = tmp_path / "ready" / f"unit{places.LIBRARY_SUFFIX}"
    ready.parent.mkdir()
    ready.write_bytes(b"library")
    monkeypatch.setattr(kernels.demand, "list_kernel_modules", lambda: ["kafkaframes.wire._kernels"])
    monkeypatch.setattr(places, "file_name", lambda module: ready.name)
    monkeypatch.setattr(places, "find_unit", lambda name: ready)
    monkeypatch.setattr(demand, "find_c_compiler", lambda: ["cc"])
    return ready


@pytest.mark.parametrize("name", ["pack", "pack.zip", "pack.tar.gz", "pack.tgz"])
def test_a_folder_and_an_archive_have_equal_files(compiled_library, tmp_path, name):
    to = tmp_path / name
    assert ask("kernels", "pack", to, "--no-decoders").output == f"1 library in {to}\n"
    if to.is_dir():
        assert (to / compiled_library.name).read_bytes() == b"library"
    elif name.endswith(".zip"):
        assert zipfile.ZipFile(to).namelist() == [compiled_library.name]
    else:
        with tarfile.open(to) as archive:
            assert [one.name.removeprefix("./") for one in archive if one.isfile()] == [compiled_library.name]


def test_a_missing_c_compiler_is_reported(compiled_library, tmp_path, monkeypatch):
    def none():
        raise demand.CompilerError("C compiler not found: cc")

    monkeypatch.setattr(demand, "find_c_compiler", none)
    result = ask("kernels", "pack", tmp_path / "out")
    assert (result.exit_code, (tmp_path / "out").exists()) == (1, False)
    assert "C compiler not found: cc" in result.output
