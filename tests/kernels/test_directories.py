"""Where units are looked for: names that follow the sources, and folders that nobody else can write to."""

import ast
import os
from pathlib import Path

import pytest

from kafkaframes.kernels import demand, target
from kafkaframes.kernels import directories as places


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """Homes and temporary folders of this test's own, and nothing remembered before or after."""
    for name in ("KAFKAFRAMES_CACHE_DIR", "KAFKAFRAMES_KERNELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(places.tempfile, "gettempdir", lambda: str(tmp_path))
    places.forget()
    yield
    places.forget()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of kernel files: ``b`` calls into ``a``, ``c`` stands alone."""
    monkeypatch.setattr(places, "PACKAGE", tmp_path)
    (tmp_path / "near").mkdir()
    files = {name: tmp_path / "near" / f"_kernels_{name}.py" for name in "abc"}
    files["a"].write_text("from kafkaframes.near.layout import SIZE")
    files["b"].write_text("from kafkaframes.near import _kernels_a, other\n")
    files["c"].write_text("import numpy as np")
    files["layout"] = tmp_path / "near" / "layout.py"
    files["layout"].write_text("SIZE = 1")
    return files


@pytest.mark.parametrize(("changed", "others"), [("a", {"a", "b"}), ("b", {"b"}), ("c", {"c"}), ("layout", {"a", "b"})])
def test_a_unit_has_another_name_once_its_file_or_what_that_imports_has_changed(package, changed, others):
    def names():
        places.forget()
        return {name: places.file_name(f"kafkaframes.near._kernels_{name}") for name in "abc"}

    before = names()
    package[changed].write_text(package[changed].read_text() + "\n# changed")
    after = names()
    assert {name for name in "abc" if before[name] != after[name]} == others


def test_another_target_is_another_unit(monkeypatch):
    assert target.target() in (*target.TARGETS.values(), target.OTHER)
    monkeypatch.setenv("KAFKAFRAMES_TARGET", "x86_64")
    places.forget()
    first = places.file_name("kafkaframes.jobs.report._kernels")
    monkeypatch.setenv("KAFKAFRAMES_TARGET", "aarch64")
    places.forget()
    second = places.file_name("kafkaframes.jobs.report._kernels")
    assert "x86-64-v3" in first
    assert "armv8-a" in second
    assert first[-20:] != second[-20:]


def test_a_python_without_a_stable_abi_gets_kernels_of_its_own(monkeypatch):
    monkeypatch.delenv(target.OVERRIDE, raising=False)
    monkeypatch.setattr(target.sys, "abiflags", "t")
    assert target.target.__wrapped__() is target.OTHER


def test_a_processor_that_lacks_what_the_target_asks_for_is_another(monkeypatch):
    monkeypatch.setattr(target.platform, "machine", lambda: "x86_64")
    wanted = target.TARGETS["x86_64"].flags
    for flags, chosen in (
        (wanted | {"sse"}, "x86-64-v3"),
        (wanted - {"avx2"}, "this-machine"),
        (set(), "this-machine"),
    ):
        monkeypatch.setattr(target, "_processor_flags", lambda _, flags=flags: flags)
        places.forget()
        assert target.target().name == chosen


def test_every_import_between_kernel_files_is_seen():
    """What the syntax tree says of the imports, beside what the pattern of lines finds."""
    for path in places.modules():
        lines = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
        named = {places.path_of(line.module) for line in lines}
        named |= {places.path_of(f"{line.module}.{name.name}") for line in lines for name in line.names}
        wanted = {file for file in named if places.goes_into_kernels(file) and file.is_file()}
        assert wanted <= places._imported(path)


def test_all_kernel_files_with_entry_points_are_units():
    assert len(demand.modules()) >= 18
    assert "kafkaframes.records.append._kernels_context" not in demand.modules()  # devices only


def test_the_cache_is_in_the_home_directory_and_private(tmp_path):
    folder = places.cache_folder()
    assert folder == tmp_path / "home" / ".cache" / "kafkaframes"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_to_is_refused_with_the_reason(tmp_path, monkeypatch):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(open_to_all))
    refused = places.folders()[1]
    assert refused.folder == open_to_all
    assert "0777" in refused.refused
    assert places.cache_folder() == tmp_path / "home" / ".cache" / "kafkaframes"


def test_a_folder_below_one_that_anybody_may_write_to_is_refused(tmp_path, monkeypatch):
    parent = tmp_path / "open"
    (parent / "mine").mkdir(parents=True)
    parent.chmod(0o777)
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(parent / "mine"))
    assert "anybody may write" in places.folders()[1].refused
    parent.chmod(0o1777)  # as /tmp is: only owners may rename
    places.forget()
    assert places.folders()[1].refused is None


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    _give_away(folder, monkeypatch)
    monkeypatch.setenv("KAFKAFRAMES_KERNELS", str(folder))
    assert "neither to this user nor to root" in places.folders()[1].refused


def _give_away(path, monkeypatch):
    """Let ``path`` belong to somebody else: root can give it away, others look with other eyes."""
    if os.getuid() == 0:
        os.chown(path, 4242, 4242)
    else:
        monkeypatch.setattr(places.os, "getuid", lambda: 4242)


def test_a_unit_of_another_user_in_a_good_folder_is_not_found(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKAFRAMES_KERNELS", str(tmp_path / "image"))
    (tmp_path / "image").mkdir(mode=0o755)
    name = places.file_name("kafkaframes.jobs.report._kernels")
    unit = tmp_path / "image" / name
    unit.write_bytes(b"")
    assert places.find(name) == unit
    unit.chmod(0o666)
    assert places.find(name) is None


def test_a_unit_of_the_package_is_trusted_as_its_sources_are(tmp_path, monkeypatch):
    """An installation with a umask of 002, or of another user's: Python runs its sources, too."""
    monkeypatch.setattr(places, "BUNDLED", tmp_path / "compiled")
    (tmp_path / "compiled").mkdir(mode=0o775)
    unit = tmp_path / "compiled" / places.file_name("kafkaframes.jobs.report._kernels")
    unit.write_bytes(b"")
    unit.chmod(0o664)
    assert places.find(unit.name) == unit


def test_a_read_only_folder_of_root_is_read_but_not_written(tmp_path, monkeypatch):
    image = tmp_path / "image"
    image.mkdir(mode=0o555)
    monkeypatch.setenv("KAFKAFRAMES_KERNELS", str(image))
    place = places.folders()[1]
    assert place.refused is None
    assert not place.writable
    assert places.cache_folder() != image


@pytest.fixture
def no_home(monkeypatch, tmp_path):
    """No folder but the temporary one, which is as /tmp."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("HOME", str(blocked))
    tmp_path.chmod(0o1777)
    return tmp_path


def test_without_a_home_a_private_folder_in_the_temporary_one_is_used(no_home):
    assert places.cache_folder() == no_home / f"kafkaframes-{os.getuid()}"
    assert places.cache_folder().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("taken", ["open to all", "a symbolic link"])
def test_a_temporary_folder_that_somebody_else_made_is_left_for_one_with_a_random_name(no_home, taken):
    squatted = no_home / f"kafkaframes-{os.getuid()}"
    if taken == "open to all":
        squatted.mkdir()
        squatted.chmod(0o777)
    else:
        (no_home / "elsewhere").mkdir(mode=0o700)
        squatted.symlink_to(no_home / "elsewhere")
    chosen = places.cache_folder()
    assert chosen.name.startswith(f"kafkaframes-{os.getuid()}-")
    assert chosen.stat().st_mode & 0o777 == 0o700
    places.forget()
    assert places.cache_folder() == chosen  # the next process finds it


def test_what_is_a_month_out_of_use_is_old(tmp_path):
    names = [
        places.file_name("kafkaframes.jobs.report._kernels"),
        "numba-0123456789abcdef",
        "mine.txt",
        "compiling.lock",
    ]
    for name in names:
        path = tmp_path / name
        path.write_text("")
        os.utime(path, (0, 0))
    fresh_one = tmp_path / places.file_name("kafkaframes.jobs.dump._kernels")
    fresh_one.write_text("")
    assert {path.name for path in demand.old_files(tmp_path)} == set(names[:2])


def test_a_library_that_cannot_be_loaded_is_compiled_instead(tmp_path):
    broken = tmp_path / "broken.abi3.so"
    broken.write_bytes(b"not a library")
    assert places.open_library(Path(broken)) == {}
