"""What a wheel brings: kernels in the package itself, for a process that has no numba and an empty home directory."""

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

from kafkaframes.kernels import demand
from kafkaframes.kernels import directories as places

WRITE = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "wheel_with_kernels.py"))["write"]
LOG = next(Path(__file__).parents[2].joinpath("examples", "logs").glob("*/*/*.log"))
INFORMATION = {
    "METADATA": "Metadata-Version: 2.4\nName: kafkaframes\nVersion: 0.1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}
NO_NUMBA = "raise AssertionError('a ready kernel imported numba')"


@pytest.fixture(scope="module")
def libraries():
    """The libraries of all kernel files, as ``kernels pack`` copies them."""
    folder = places.cache_folder()
    assert folder is not None
    missing = [unit.module for unit in demand.units() if unit.file is None]
    demand.make(missing, folder=folder, say=demand.tell)
    found = [places.find(places.file_name(module)) for module in demand.modules()]
    if None in found:
        pytest.skip("no C compiler on this machine")
    return found


@pytest.fixture(scope="module")
def pure(tmp_path_factory):
    """A wheel of the sources, as a build backend would make it."""
    path = tmp_path_factory.mktemp("dist") / "kafkaframes-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for source in sorted(places.PACKAGE.rglob("*")):
            if source.is_file() and source.suffix != ".so" and "__pycache__" not in source.parts:
                wheel.write(source, Path("kafkaframes") / source.relative_to(places.PACKAGE))
        wheel.writestr(
            "kafkaframes-0.1.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: kafkaframes\nVersion: 0.1.0\n"
        )
        wheel.writestr(
            "kafkaframes-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("kafkaframes-0.1.0.dist-info/RECORD", "")
    return path


@pytest.fixture(scope="module")
def installed(pure, libraries, tmp_path_factory):
    """The wheel's content in a folder, beside a numba that must not be imported."""
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


def test_a_command_compiles_nothing_and_needs_no_numba(installed, tmp_path):
    done = run(installed, tmp_path / "home", "dump-log", "--print-data-log", str(LOG))
    assert "compiling" not in done.stderr
    assert "payload:" in done.stdout
    assert not list((tmp_path / "home").rglob("*.so"))


def test_status_finds_every_unit_in_the_package(installed, tmp_path):
    done = run(installed, tmp_path / "home", "kernels", "status")
    assert done.returncode == 0, done.stdout
    units = [line for line in done.stdout.splitlines() if "_kernels" in line]
    assert len(units) == len(demand.modules())
    assert all(f"{installed}/kafkaframes/kernels/compiled/" in line for line in units)


def test_sources_that_were_changed_are_compiled_anew(installed, libraries, tmp_path):
    site = shutil.copytree(installed, tmp_path / "site")
    (site / "numba.py").unlink()
    source = site / "kafkaframes" / "jobs" / "report" / "_kernels.py"
    source.write_text(source.read_text() + "\n# changed\n")
    done = run(site, tmp_path / "home", "kernels", "status")
    assert done.returncode == 1
    assert "jobs.report._kernels: not compiled" in done.stdout


def test_the_wheel_says_what_it_is_for_and_lists_what_it_holds(pure, libraries):
    made = WRITE(pure, libraries)
    tags = "manylinux_2_17_x86_64.musllinux_1_1_x86_64"
    assert made.name == f"kafkaframes-0.1.0-cp311-abi3-{tags}.whl" or "aarch64" in made.name
    with zipfile.ZipFile(made) as wheel:
        text = wheel.read("kafkaframes-0.1.0.dist-info/WHEEL").decode()
        assert "Root-Is-Purelib: false" in text
        assert [f"Tag: cp311-abi3-{tag}" in text for tag in made.stem.split("-")[-1].split(".")] == [True, True]
        lines = wheel.read("kafkaframes-0.1.0.dist-info/RECORD").decode().splitlines()
        assert {line.split(",")[0] for line in lines} == set(wheel.namelist())
        for place, digest, size in (line.split(",") for line in lines if not line.endswith(",,")):
            content = wheel.read(place)
            right = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={right}", len(content))


def test_the_same_input_gives_the_same_wheel(pure, libraries):
    assert WRITE(pure, libraries).read_bytes() == WRITE(pure, libraries).read_bytes()


def test_libraries_for_no_processor_or_that_name_a_c_library_make_no_wheel(pure, tmp_path):
    with pytest.raises(ValueError, match="one target"):
        WRITE(pure, [])
    needing = tmp_path / "x-x86-64-v3-0123456789abcdef.abi3.so"
    needing.write_bytes(b"memcpy\0GLIBC_2.34\0")
    with pytest.raises(ValueError, match=r"needs a C library: GLIBC_2\.34"):
        WRITE(pure, [needing])


def test_warm_has_nothing_to_do_where_all_is_ready_and_takes_packages(installed, tmp_path):
    done = run(installed, tmp_path / "home", "kernels", "warm", "wire", "jobs.report")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 kernel files ready\n"
