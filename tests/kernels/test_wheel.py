"""Wheels with kernels, in a process without numba and with an empty home directory."""

import base64
import hashlib
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kafkaframes.kernels import demand, directories

WRITE = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "wheel_with_kernels.py"))["write_wheel"]
LOG = next(Path(__file__).parents[2].joinpath("examples", "logs").glob("*/*/*.log"))
INFORMATION = {
    "METADATA": "Metadata-Version: 2.4\nName: kafkaframes\nVersion: 0.1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}
NO_NUMBA = "raise AssertionError('a ready kernel imported numba')"


@pytest.fixture(scope="module")
def libraries():
    """The libraries of all kernel files."""
    folder = directories.cache_folder()
    assert folder is not None
    missing = [unit.module for unit in demand.list_kernel_units() if unit.file is None]
    demand.compile_modules(missing, folder=folder, report=demand.print_progress)
    paths = [directories.find_unit(directories.file_name(module)) for module in demand.list_kernel_modules()]
    if None in paths:
        pytest.skip("no C compiler on this machine")
    return paths


@pytest.fixture(scope="module")
def pure(tmp_path_factory):
    """A wheel of the sources, like that of a build backend."""
    path = tmp_path_factory.mktemp("dist") / "kafkaframes-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for source in sorted(directories.PACKAGE_DIRECTORY.rglob("*")):
            if source.is_file() and source.suffix != ".so" and "__pycache__" not in source.parts:
                wheel.write(source, Path("kafkaframes") / source.relative_to(directories.PACKAGE_DIRECTORY))
        wheel.writestr(
            "kafkaframes-0.1.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: kafkaframes\nVersion: 0.1.0\n"
        )
        wheel.writestr(
            "kafkaframes-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("kafkaframes-0.1.0.dist-info/RECORD", "")
    return path


@pytest.fixture(scope="module")
def installation(pure, libraries, tmp_path_factory):
    """The installed wheel, with a fake numba whose import fails."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(WRITE(pure, libraries)) as wheel:
        wheel.extractall(site)
    (site / "numba.py").write_text(NO_NUMBA)
    return site


def run(site, home, *args):
    home.mkdir()
    environment = {"PYTHONPATH": str(site), "HOME": str(home), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "kafkaframes", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)


def test_a_command_compiles_nothing_and_needs_no_numba(installation, tmp_path):
    process = run(installation, tmp_path / "home", "dump-log", "--print-data-log", str(LOG))
    assert "compiling" not in process.stderr
    assert "payload:" in process.stdout
    assert not list((tmp_path / "home").rglob("*.so"))


def test_status_finds_every_unit_in_the_package(installation, tmp_path):
    process = run(installation, tmp_path / "home", "kernels", "status")
    assert process.returncode == 0, process.stdout
    units = [line for line in process.stdout.splitlines() if "_kernels" in line]
    assert len(units) == len(demand.list_kernel_modules())
    assert all(f"{installation}/kafkaframes/kernels/compiled/" in line for line in units)


def test_changed_sources_are_compiled_again(installation, libraries, tmp_path):
    site = shutil.copytree(installation, tmp_path / "site")
    (site / "numba.py").unlink()
    source = site / "kafkaframes" / "jobs" / "report" / "_kernels.py"
    source.write_text(source.read_text() + "\n# changed\n")
    process = run(site, tmp_path / "home", "kernels", "status")
    assert process.returncode == 1
    assert "jobs.report._kernels: not compiled" in process.stdout


def test_the_wheel_has_correct_tags_and_a_complete_record(pure, libraries):
    wheel_path = WRITE(pure, libraries)
    tags = "manylinux_2_17_x86_64.musllinux_1_1_x86_64"
    assert wheel_path.name == f"kafkaframes-0.1.0-cp311-abi3-{tags}.whl" or "aarch64" in wheel_path.name
    with zipfile.ZipFile(wheel_path) as wheel:
        text = wheel.read("kafkaframes-0.1.0.dist-info/WHEEL").decode()
        assert "Root-Is-Purelib: false" in text
        assert [f"Tag: cp311-abi3-{tag}" in text for tag in wheel_path.stem.split("-")[-1].split(".")] == [True, True]
        lines = wheel.read("kafkaframes-0.1.0.dist-info/RECORD").decode().splitlines()
        assert {line.split(",")[0] for line in lines} == set(wheel.namelist())
        for name, digest, size in (line.split(",") for line in lines if not line.endswith(",,")):
            content = wheel.read(name)
            expected_digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={expected_digest}", len(content))


def test_the_same_input_gives_the_same_wheel(pure, libraries):
    assert WRITE(pure, libraries).read_bytes() == WRITE(pure, libraries).read_bytes()


def test_libraries_without_a_target_or_with_a_c_library_are_rejected(pure, tmp_path):
    with pytest.raises(ValueError, match="one target"):
        WRITE(pure, [])
    library = tmp_path / "x-x86-64-v3-0123456789abcdef.abi3.so"
    library.write_bytes(b"memcpy\0GLIBC_2.34\0")
    with pytest.raises(ValueError, match=r"requires a C library: GLIBC_2\.34"):
        WRITE(pure, [library])


def test_warm_of_compiled_packages_compiles_nothing(installation, tmp_path):
    process = run(installation, tmp_path / "home", "kernels", "warm", "wire", "jobs.report")
    assert process.returncode == 0, process.stderr
    assert process.stdout == "2 kernel files ready\n"
