"""Kernels as plain Python, without a library and numba: the same results, with one warning."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.kernels import plain
from kafkaframes.kernels.deferred import KERNELS_BY_MODULE
from kafkaframes.records import _kernels_codecs, _kernels_partition
from kafkaframes.wire import _kernels

ROOT = Path(__file__).parents[2]
LOGS = sorted(map(str, (ROOT / "examples" / "logs").glob("*/*/*.log")))
READ_ALL = """
import hashlib, sys
import kafkaframes
for path in sys.argv[1:]:
    for batch in kafkaframes.scan_log(path).to_arrow().to_batches():
        print(path, batch.num_rows, hashlib.sha256(repr(batch.to_pydict()).encode()).hexdigest())
"""


def plain_kernel(module, name):
    """Return a kernel as plain Python."""
    return next(
        plain.create_plain_kernel(kernel) for kernel in KERNELS_BY_MODULE[module.__name__] if kernel.__name__ == name
    )


@pytest.fixture
def without_numba(tmp_path):
    """The environment of a process without compiled kernels and numba."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['numba'] = sys.modules['llvmlite'] = None\n"
    )
    (tmp_path / "cache").mkdir(mode=0o700)
    path = f"{tmp_path / 'site'}{os.pathsep}{ROOT / 'src'}"
    return os.environ | {
        "PYTHONPATH": path,
        "KAFKAFRAMES_CACHE_DIR": str(tmp_path / "cache"),
        "KAFKAFRAMES_KERNELS": "",
    }


def start(environment, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.parametrize("name", ["varint_at", "varlong_at"])
@given(data=st.binary(min_size=1, max_size=12))
def test_varints_of_any_bytes(name, data):
    raw = np.frombuffer(data, np.uint8)
    assert plain_kernel(_kernels, name)(raw, 0, raw.size) == getattr(_kernels, name)(raw, 0, raw.size)


@pytest.mark.parametrize("name", ["crc32", "crc32c"])
@given(data=st.binary(max_size=300))
def test_checksums_of_any_bytes(name, data):
    raw = np.frombuffer(data, np.uint8)
    assert plain_kernel(_kernels, name)(raw, 0, raw.size) == getattr(_kernels, name)(raw, 0, raw.size)


@given(keys=st.lists(st.binary(max_size=20), min_size=1, max_size=8))
def test_numbers_overflow_like_machine_words(keys):
    raw = np.frombuffer(b"".join(keys), np.uint8)
    sizes = np.array([len(key) for key in keys], np.int64)
    partitions = [np.full(len(keys), -1), np.full(len(keys), -1)]
    counts = np.full(len(keys), 2**31 - 1)
    _kernels_partition.partition_keys(raw, np.cumsum(sizes) - sizes, sizes, counts, partitions[0])
    plain_kernel(_kernels_partition, "partition_keys")(raw, np.cumsum(sizes) - sizes, sizes, counts, partitions[1])
    assert partitions[0].tolist() == partitions[1].tolist()


@given(value=st.integers(-(2**70), 2**70), bits=st.sampled_from([8, 16, 32, 64]), big_endian=st.booleans())
def test_a_store_writes_the_lowest_bits_and_a_load_reads_them(value, bits, big_endian):
    memory = plain.KernelArray(np.zeros(16, np.uint8))
    plain.create_storer(bits, big_endian=big_endian)(memory, 3, value)
    order = "big" if big_endian else "little"
    expected_value = int.from_bytes((value % 2**bits).to_bytes(bits // 8, order), order, signed=True)
    assert plain.create_loader(bits, signed=True, big_endian=big_endian)(memory.address, 3) == expected_value
    assert not any(memory[index] for index in (0, 1, 2, *range(3 + bits // 8, 16)))


def test_arguments_of_other_types_are_rejected():
    run = plain_kernel(_kernels_codecs, "decompress_into")
    with pytest.raises(TypeError):
        run(1, np.zeros(4, np.int64), np.zeros(4, np.uint8), 4, np.zeros(14, np.int64))
    with pytest.raises(TypeError):
        run(1, np.zeros(8, np.uint8)[::2], np.zeros(4, np.uint8), 4, np.zeros(14, np.int64))
    with pytest.raises(TypeError):
        run(1.0, np.zeros(4, np.uint8), np.zeros(4, np.uint8), 4, np.zeros(14, np.int64))


def test_logs_of_all_formats_and_codecs_are_read_equally_with_one_warning(without_numba):
    fast, slow = start(os.environ, "-c", READ_ALL, *LOGS), start(without_numba, "-c", READ_ALL, *LOGS)
    assert slow.stdout == fast.stdout
    assert len(slow.stdout.splitlines()) > 20
    assert slow.stderr.count("kafkaframes[compile]") == 1, slow.stderr


def test_results_for_invalid_bytes_and_extreme_numbers_are_equal(without_numba):
    fast, slow = (
        start(os.environ, "-m", "tests.kernels.hostile"),
        start(without_numba, "-m", "tests.kernels.hostile"),
    )
    assert "kafkaframes[compile]" in slow.stderr
    differences = set(fast.stdout.splitlines()) ^ set(slow.stdout.splitlines())
    assert not differences, (sorted(differences)[:9], slow.stderr[-2000:])
    assert len(fast.stdout.splitlines()) > 900


def test_tests_of_kernels_pass_without_numba(without_numba):
    process = start(
        without_numba, "-m", "pytest", "-q", "-n", "0", "tests/wire/test_kernels.py", "tests/records/test_twins.py"
    )
    assert process.returncode == 0, process.stdout[-3000:]


def test_a_compilation_without_numba_names_the_extra(without_numba):
    process = start(without_numba, "-m", "kafkaframes", "kernels", "warm", "wire")
    assert process.returncode == 2
    assert "pip install 'kafkaframes[compile]'" in process.stderr
    assert start(without_numba, "-m", "kafkaframes", "kernels", "status").returncode == 1


def test_compiled_kernels_run_as_plain_python_on_request():
    environment = os.environ | {"KAFKAFRAMES_PLAIN_KERNELS": "1"}
    log = min((log for log in LOGS if os.path.getsize(log)), key=os.path.getsize)
    fast, slow = start(os.environ, "-c", READ_ALL, log), start(environment, "-c", READ_ALL, log)
    assert slow.stdout == fast.stdout != ""
    assert slow.stderr.count("KAFKAFRAMES_PLAIN_KERNELS is 1") == 1, slow.stderr
    status = start(environment, "-m", "kafkaframes", "kernels", "status")
    assert "KAFKAFRAMES_PLAIN_KERNELS is 1" in status.stdout


def test_breakpoints_of_a_plain_kernel_stop():
    code = """
import sys
import numpy as np
from kafkaframes.wire import _kernels

lines = set()

def trace(frame, event, arg):
    if frame.f_code.co_filename.endswith("wire/_kernels.py"):
        lines.add((frame.f_code.co_name, frame.f_lineno))
    return trace

sys.settrace(trace)
print(_kernels.varint_at(np.frombuffer(b"\\x04", np.uint8), 0, 1))
sys.settrace(None)
print(len(lines) > 3)
"""
    process = start(os.environ | {"KAFKAFRAMES_PLAIN_KERNELS": "1"}, "-c", code)
    assert process.stdout.splitlines()[-1:] == ["True"], process.stderr


def test_an_unknown_value_of_the_variable_is_refused():
    process = start(os.environ | {"KAFKAFRAMES_PLAIN_KERNELS": "yes"}, "-m", "kafkaframes", "verify", LOGS[0])
    assert process.returncode != 0
    assert "KAFKAFRAMES_PLAIN_KERNELS is 'yes'; it must be 1" in process.stderr


def test_private_parts_of_numba_are_imported_in_one_file():
    public = {"numba", "numba.extending"}
    imports = {
        (str(path.relative_to(ROOT / "src" / "kafkaframes")), module)
        for path in (ROOT / "src").rglob("*.py")
        if "numba" in (source := path.read_text()) or "llvmlite" in source
        for node in ast.walk(ast.parse(source))
        for module in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if module.split(".")[0] in ("numba", "llvmlite") and module not in public
    }
    # llvmlite.binding, which is public, has the features of the host's processor.
    assert {file for file, module in imports} == {"kernels/objects.py", "kernels/target.py"}, imports
    assert {module for file, module in imports if file == "kernels/target.py"} == {"llvmlite.binding"}
