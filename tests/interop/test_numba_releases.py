"""Kernels compile and give equal results with numba's newest release and newest release candidate."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNEL_TESTS = ("tests/wire/test_kernels.py", "tests/records/test_twins.py")


@pytest.mark.parametrize("options", [(), ("--pre",)], ids=["release", "candidate"])
@pytest.mark.timeout(1800)
def test_kernels_with_the_newest_numba(options, tmp_path):
    site, cache = tmp_path / "site", tmp_path / "cache"
    cache.mkdir(mode=0o700)
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--target",
        str(site),
        "--only-binary",
        ":all:",
        *options,
    ]
    pip_result = subprocess.run([sys.executable, *install, "numba"], capture_output=True, text=True, check=False)
    if pip_result.returncode:
        pytest.skip(f"numba cannot be installed: {pip_result.stderr[-300:]}")
    environment = os.environ | {
        "PYTHONPATH": f"{site}{os.pathsep}{ROOT / 'src'}",
        "KAFKAFRAMES_CACHE_DIR": str(cache),
        "KAFKAFRAMES_KERNELS": "",
    }
    version = [sys.executable, "-c", "import numba; print(numba.__file__, numba.__version__)"]
    version_output = subprocess.run(version, env=environment, capture_output=True, text=True, check=True).stdout
    assert str(site) in version_output
    for arguments in (["-m", "kafkaframes", "kernels", "warm"], ["-m", "pytest", "-q", "-n", "0", *KERNEL_TESTS]):
        process = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, (version_output, process.stdout[-3000:], process.stderr[-3000:])
    print(version_output)
