"""Search for units: names depend on the sources, and folders must be trusted."""

import ast
import os
from pathlib import Path

import pytest

from kafkaframes.kernels import demand, directories, target


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """A private home and temporary folder, and empty caches before and after the test."""
    for name in ("KAFKAFRAMES_CACHE_DIR", "KAFKAFRAMES_KERNELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(directories.tempfile, "gettempdir", lambda: str(tmp_path))
    directories.clear_caches()
    yield
    directories.clear_caches()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of kernel files: ``b`` imports ``a``, and ``c`` imports none."""
    monkeypatch.setattr(directories, "PACKAGE_DIRECTORY", tmp_path)
    (tmp_path / "near").mkdir()
    files = {name: tmp_path / "near" / f"_kernels_{name}.py" for name in "abc"}
    files["a"].write_text("from kafkaframes.near.layout import SIZE")
    files["b"].write_text("from kafkaframes.near import _kernels_a, other\n")
    files["c"].write_text("import numpy as np")
    files["layout"] = tmp_path / "near" / "layout.py"
    files["layout"].write_text("SIZE = 1")
    return files


@pytest.mark.parametrize(
    ("modified_unit", "affected_units"), [("a", {"a", "b"}), ("b", {"b"}), ("c", {"c"}), ("layout", {"a", "b"})]
)
def test_the_name_of_a_unit_depends_on_its_file_and_imports(package, modified_unit, affected_units):
    def names():
        directories.clear_caches()
        return {name: directories.file_name(f"kafkaframes.near._kernels_{name}") for name in "abc"}

    before = names()
    package[modified_unit].write_text(package[modified_unit].read_text() + "\n# changed")
    after = names()
    assert {name for name in "abc" if before[name] != after[name]} == affected_units


def test_each_target_has_its_own_unit(monkeypatch):
    assert target.detect_target() in (*target.TARGETS.values(), target.THIS_MACHINE)
    monkeypatch.setenv("KAFKAFRAMES_TARGET", "x86_64")
    directories.clear_caches()
    first = directories.file_name("kafkaframes.jobs.report._kernels")
    monkeypatch.setenv("KAFKAFRAMES_TARGET", "aarch64")
    directories.clear_caches()
    second = directories.file_name("kafkaframes.jobs.report._kernels")
    assert "x86-64-v3" in first
    assert "armv8-a" in second
    assert first[-20:] != second[-20:]


def test_a_python_without_a_stable_abi_has_its_own_target(monkeypatch):
    monkeypatch.delenv(target.COMPILE_TARGET_VARIABLE, raising=False)
    monkeypatch.setattr(target.sys, "abiflags", "t")
    assert target.detect_target.__wrapped__() is target.THIS_MACHINE


def test_a_processor_without_the_required_flags_has_its_own_target(monkeypatch):
    monkeypatch.setattr(target.platform, "machine", lambda: "x86_64")
    required_flags = target.TARGETS["x86_64"].flags
    for flags, expected_name in (
        (required_flags | {"sse"}, "x86-64-v3"),
        (required_flags - {"avx2"}, "this-machine"),
        (set(), "this-machine"),
    ):
        monkeypatch.setattr(target, "_read_processor_flags", lambda _, flags=flags: flags)
        directories.clear_caches()
        assert target.detect_target().name == expected_name


def test_every_import_between_kernel_files_is_recognized():
    """Compare the imports in the syntax tree with those that the regular expression finds."""
    for path in directories.list_kernel_files():
        lines = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
        files = {directories.module_path(line.module) for line in lines}
        files |= {directories.module_path(f"{line.module}.{name.name}") for line in lines for name in line.names}
        expected_files = {file for file in files if directories.is_kernel_source(file) and file.is_file()}
        assert expected_files <= directories._find_imports(path)


def test_all_kernel_files_with_entry_points_are_units():
    assert len(demand.list_kernel_modules()) >= 18
    assert "kafkaframes.records.append._kernels_context" not in demand.list_kernel_modules()  # devices only


def test_the_cache_is_in_the_home_directory_and_private(tmp_path):
    folder = directories.cache_folder()
    assert folder == tmp_path / "home" / ".cache" / "kafkaframes"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path, monkeypatch):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(open_to_all))
    entry = directories.list_folders()[1]
    assert entry.folder == open_to_all
    assert "0777" in entry.distrust
    assert directories.cache_folder() == tmp_path / "home" / ".cache" / "kafkaframes"


def test_a_folder_in_one_that_others_can_write_to_is_not_trusted(tmp_path, monkeypatch):
    parent = tmp_path / "open"
    (parent / "mine").mkdir(parents=True)
    parent.chmod(0o777)
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(parent / "mine"))
    assert "all users can write" in directories.list_folders()[1].distrust
    parent.chmod(0o1777)  # like /tmp: only owners can rename
    directories.clear_caches()
    assert directories.list_folders()[1].distrust is None


def test_a_folder_of_another_user_is_not_trusted(tmp_path, monkeypatch):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    _change_owner(folder, monkeypatch)
    monkeypatch.setenv("KAFKAFRAMES_KERNELS", str(folder))
    assert "neither to this user nor to root" in directories.list_folders()[1].distrust


def _change_owner(path, monkeypatch):
    """Change the owner of ``path``; without root, change the user ID of this process."""
    if os.getuid() == 0:
        os.chown(path, 4242, 4242)
    else:
        monkeypatch.setattr(directories.os, "getuid", lambda: 4242)


def test_a_unit_that_others_can_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKAFRAMES_KERNELS", str(tmp_path / "image"))
    (tmp_path / "image").mkdir(mode=0o755)
    name = directories.file_name("kafkaframes.jobs.report._kernels")
    unit = tmp_path / "image" / name
    unit.write_bytes(b"")
    assert directories.find_unit(name) == unit
    unit.chmod(0o666)
    assert directories.find_unit(name) is None


def test_units_of_the_package_are_trusted_like_its_sources(tmp_path, monkeypatch):
    """Python also runs the sources of an installation with a umask of 002 or of another user."""
    monkeypatch.setattr(directories, "BUNDLED_DIRECTORY", tmp_path / "compiled")
    (tmp_path / "compiled").mkdir(mode=0o775)
    unit = tmp_path / "compiled" / directories.file_name("kafkaframes.jobs.report._kernels")
    unit.write_bytes(b"")
    unit.chmod(0o664)
    assert directories.find_unit(unit.name) == unit


def test_a_read_only_folder_of_root_is_read_but_not_written(tmp_path, monkeypatch):
    image = tmp_path / "image"
    image.mkdir(mode=0o555)
    monkeypatch.setenv("KAFKAFRAMES_KERNELS", str(image))
    entry = directories.list_folders()[1]
    assert entry.distrust is None
    assert not entry.writable
    assert directories.cache_folder() != image


@pytest.fixture
def no_home(monkeypatch, tmp_path):
    """A temporary folder with the mode of /tmp, without a home directory."""
    blocking_file = tmp_path / "file"
    blocking_file.write_text("")
    monkeypatch.setenv("HOME", str(blocking_file))
    tmp_path.chmod(0o1777)
    return tmp_path


def test_without_a_home_a_private_temporary_folder_is_used(no_home):
    assert directories.cache_folder() == no_home / f"kafkaframes-{os.getuid()}"
    assert directories.cache_folder().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("obstacle", ["open to all", "a symbolic link"])
def test_if_another_user_owns_the_temporary_folder_a_random_name_is_used(no_home, obstacle):
    foreign_folder = no_home / f"kafkaframes-{os.getuid()}"
    if obstacle == "open to all":
        foreign_folder.mkdir()
        foreign_folder.chmod(0o777)
    else:
        (no_home / "elsewhere").mkdir(mode=0o700)
        foreign_folder.symlink_to(no_home / "elsewhere")
    folder = directories.cache_folder()
    assert folder.name.startswith(f"kafkaframes-{os.getuid()}-")
    assert folder.stat().st_mode & 0o777 == 0o700
    directories.clear_caches()
    assert directories.cache_folder() == folder  # the next process finds it


def test_units_that_were_not_used_for_a_month_are_listed(tmp_path):
    names = [
        directories.file_name("kafkaframes.jobs.report._kernels"),
        "numba-0123456789abcdef",
        "mine.txt",
        "compiling.lock",
    ]
    for name in names:
        path = tmp_path / name
        path.write_text("")
        os.utime(path, (0, 0))
    recent = tmp_path / directories.file_name("kafkaframes.jobs.dump._kernels")
    recent.write_text("")
    assert {path.name for path in demand.find_unused_files(tmp_path)} == set(names[:2])


def test_a_library_that_cannot_be_loaded_has_no_kernels(tmp_path):
    broken_library = tmp_path / "broken.abi3.so"
    broken_library.write_bytes(b"not a library")
    assert directories.open_library(Path(broken_library)) == {}
