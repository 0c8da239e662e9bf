"""The cache of compiled kernels: private, named after the kernel files, safe for processes that start together."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaframes.wire import _jit

LOAD = """
import numba, time
started = time.perf_counter()
from kafkaframes.wire import _kernels
print(time.perf_counter() - started)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKAFRAMES_CACHE_DIR", str(tmp_path))
    _jit.cache_folder.cache_clear()
    yield tmp_path
    _jit.cache_folder.cache_clear()


KERNELS = Path(_jit.__file__).with_name("_kernels.py")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of kernel files: ``b`` calls into ``a``, ``c`` stands alone."""
    monkeypatch.setattr(_jit, "PACKAGE", tmp_path)
    (tmp_path / "near").mkdir()
    files = {name: tmp_path / "near" / f"_kernels_{name}.py" for name in "abc"}
    files["a"].write_text("from kafkaframes.near.layout import SIZE")
    files["b"].write_text("from kafkaframes.near import _kernels_a, other\n")
    files["c"].write_text("import numpy as np")
    files["layout"] = tmp_path / "near" / "layout.py"
    files["layout"].write_text("SIZE = 1")
    return files


@pytest.mark.parametrize(("changed", "others"), [("a", {"a", "b"}), ("b", {"b"}), ("c", {"c"}), ("layout", {"a", "b"})])
def test_a_file_has_another_folder_once_it_or_what_it_imports_has_changed(folder, package, changed, others):
    def folders():
        _jit.cache_folder.cache_clear()
        return {name: _jit.cache_folder(package[name]) for name in "abc"}

    before = folders()
    package[changed].write_text(package[changed].read_text() + "\n# changed")
    after = folders()
    assert {name for name in "abc" if before[name] != after[name]} == others


def test_every_import_between_kernel_files_is_seen():
    """What the syntax tree says of the imports, beside what the pattern of lines finds."""
    for path in _jit.modules():
        lines = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
        named = {_file(line.module) for line in lines}
        named |= {_file(f"{line.module}.{name.name}") for line in lines for name in line.names}
        assert named & set(_jit.kernel_files()) <= _jit._imported(path)


def _file(module):
    return _jit.PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def test_a_folder_that_others_may_write_to_is_not_used(folder):
    chosen = Path(_jit.cache_folder(KERNELS))
    chosen.chmod(0o777)
    _jit.cache_folder.cache_clear()
    assert _jit.cache_folder(KERNELS) != str(chosen)


def test_processes_that_start_together_share_one_cache(tmp_path):
    environment = {**os.environ, "KAFKAFRAMES_CACHE_DIR": str(tmp_path)}

    def start():
        return subprocess.Popen([sys.executable, "-c", LOAD], env=environment, stdout=subprocess.PIPE, text=True)

    for process in [start() for _ in range(3)]:
        process.communicate(timeout=120)
        assert process.returncode == 0
    files = sorted(path.name for path in tmp_path.rglob("*.nb*"))
    assert files
    assert len([name for name in files if name.endswith(".nbi")]) == len(files) / 2  # one signature each

    process = start()
    seconds = float(process.communicate(timeout=120)[0])
    assert process.returncode == 0
    assert seconds < 2  # a warm start; measured 0.2 s, the bound is for busy machines
    assert sorted(path.name for path in tmp_path.rglob("*.nb*")) == files
