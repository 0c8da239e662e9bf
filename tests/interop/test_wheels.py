"""The wheels of ``make dist`` work in empty environments of each available Python, with empty home directories.

``make dist`` ends with this test. Otherwise the test builds the same wheel with this machine's C compiler.
"""

from __future__ import annotations

import os
import platform
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE_LOG = next((ROOT / "examples" / "logs").glob("*/*/*.log"))
TEST_MATRIX = runpy.run_path(str(ROOT / "tools" / "matrix.py"))
MAX_FIRST_ANSWER_SECONDS = 2


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel for this machine: the one in ``$KAFKAFRAMES_DIST``, or otherwise a new one."""
    if dist_dir := os.environ.get("KAFKAFRAMES_DIST"):
        return next(Path(dist_dir).glob(f"*-abi3-*linux*_{platform.machine()}.whl"))
    place = tmp_path_factory.mktemp("dist")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}

    def run(*command: str) -> None:
        subprocess.run([sys.executable, *command], env=environment, cwd=ROOT, check=True, timeout=600)

    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), ".")
    (pure,) = place.glob("*.whl")
    run("-m", "kafkaframes", "kernels", "pack", str(place / "units"))
    run("tools/wheel_with_kernels.py", str(pure), str(place / "units"))
    (wheel_path,) = set(place.glob("*.whl")) - {pure}
    return wheel_path


@pytest.mark.parametrize("version", TEST_MATRIX["PYTHON_VERSIONS"])
def test_the_first_call_compiles_nothing_and_needs_no_numba(wheel: Path, tmp_path: Path, version: str) -> None:
    interpreter = TEST_MATRIX["find_interpreter"](version)
    if interpreter is None:
        pytest.skip(f"Python {version} is not installed on this machine")
    subprocess.run([interpreter, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    pip = [str(tmp_path / "venv/bin/python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(pip, check=True, timeout=600)
    assert not list((tmp_path / "venv").glob("lib/*/site-packages/numba"))
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(tmp_path / "venv/bin/kafkaframes"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    before = os.times()
    result = ask("dump-log", "--print-data-log", str(EXAMPLE_LOG))
    after = os.times()
    seconds = after.children_user - before.children_user + after.children_system - before.children_system
    assert "payload:" in result.stdout
    assert "compiling" not in result.stderr
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert seconds < MAX_FIRST_ANSWER_SECONDS  # CPU time of one thread, which does not depend on other programs
    assert ask("kernels", "status").returncode == 0


def test_a_wheel_has_the_types_of_the_messages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert b"class MetadataResponse(" in archive.read("kafkaframes/protocol/messages/kafka.pyi")
        assert "kafkaframes/py.typed" in archive.namelist()


def test_the_pure_wheel_runs_in_plain_python_and_warns_once(wheel: Path, tmp_path: Path) -> None:
    (pure,) = wheel.parent.glob("*-none-any.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    pip = [str(tmp_path / "venv/bin/python"), "-m", "pip", "install", "--quiet", str(pure)]
    subprocess.run(pip, check=True, timeout=600)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [str(tmp_path / "venv/bin/kafkaframes"), "dump-log", "--print-data-log", str(EXAMPLE_LOG)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "payload:" in process.stdout
    assert process.stderr.count("kafkaframes[compile]") == 1
