"""What Python calls of a unit (``glue.c``): what it takes and refuses, with kernels that are ready."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from kafkaframes.kernels import directories
from kafkaframes.wire import _kernels

ABI = Path(directories.__file__).with_name("stable_abi.h")
HEADERS = sysconfig.get_paths()["include"]
# The layouts and numbers that glue.c is compiled with, but for those fields of a module that it leaves empty.
LAYOUTS = """
#include <stddef.h>
#include <stdio.h>
#define FIELD(type, name) printf(#type "." #name " %zu %zu\\n", offsetof(type, name), sizeof((type){0}.name));
int main(void) {
    FIELD(PyObject, ob_type)
    FIELD(PyMethodDef, ml_name) FIELD(PyMethodDef, ml_meth) FIELD(PyMethodDef, ml_flags) FIELD(PyMethodDef, ml_doc)
    FIELD(PyModuleDef_Slot, slot) FIELD(PyModuleDef_Slot, value)
    FIELD(PyModuleDef, m_name) FIELD(PyModuleDef, m_size) FIELD(PyModuleDef, m_methods) FIELD(PyModuleDef, m_slots)
    printf("%zu %zu %zu\\n", sizeof(PyObject), sizeof(PyMethodDef), sizeof(PyModuleDef));
    printf("%d %d\\n", METH_FASTCALL, Py_mod_exec);
}
"""
BYTES = np.frombuffer(b"\x02123456789", np.uint8)


@pytest.fixture(autouse=True)
def compiled():
    """The kernels of ``wire``, in their ready form whatever this process began with."""
    _kernels.crc32(BYTES, 1, 10)
    found = directories.load("kafkaframes.wire._kernels")
    if not found:
        pytest.skip("no C compiler on this machine")
    return found


def test_numbers_and_tuples_of_numbers_come_back(compiled):
    assert compiled["crc32"](BYTES, 1, 10) == 0xCBF43926
    assert compiled["crc32c"](BYTES, 1, 10) == 0xE3069283
    assert compiled["varint_at"](BYTES, 0, 10) == (0, 1, 1)


def test_writable_and_read_only_arrays_are_taken_where_a_kernel_only_reads(compiled):
    for data in (BYTES, BYTES.copy(), np.memmap, bytearray(BYTES)):
        if isinstance(data, np.ndarray):
            assert compiled["crc32"](data, 1, 10) == 0xCBF43926
        else:
            with pytest.raises(TypeError, match=r"crc32\(\): argument 1 is not an aligned C-contiguous numpy array"):
                compiled["crc32"](data, 1, 10)


@pytest.mark.parametrize(
    "data",
    [
        np.zeros(8, np.int8),
        np.zeros(8, bool),
        np.zeros(8, np.uint16),
        np.zeros(8, ">u2"),
        np.zeros((2, 4), np.uint8),
        np.zeros(16, np.uint8)[::2],
        np.zeros(8, "S1"),
        np.zeros(8, object),
        None,
        b"12345678",
    ],
    ids=repr,
)
def test_another_array_is_refused_by_name(compiled, data):
    with pytest.raises(TypeError, match=r"crc32\(\): argument 1"):
        compiled["crc32"](data, 0, 0)


def test_numbers_are_taken_as_python_takes_them(compiled):
    assert compiled["crc32"](BYTES, np.int32(1), np.uint8(10)) == 0xCBF43926
    for wrong in (1.0, "1", None):
        with pytest.raises(TypeError):
            compiled["crc32"](BYTES, wrong, 10)
    with pytest.raises(OverflowError):
        compiled["crc32"](BYTES, 1 << 63, 10)


def test_too_few_arguments_are_counted(compiled):
    with pytest.raises(TypeError, match=r"crc32\(\) takes 3 arguments, not 2"):
        compiled["crc32"](BYTES, 1)


def test_a_read_only_array_is_refused_where_a_kernel_writes():
    found = directories.load("kafkaframes.jobs.report._kernels")
    if not found:
        pytest.skip("not compiled on this machine")
    hashes = np.zeros(1, np.int64)
    hashes.setflags(write=False)
    with pytest.raises(TypeError, match="a writable C-contiguous numpy array of 64-bit integers"):
        found["hash_keys"](BYTES, np.zeros(1, np.int64), np.ones(1, np.int32), hashes)


def test_a_kernel_that_writes_to_bytes_takes_a_bytearray_and_no_other_takes_one():
    taking = directories.load("kafkaframes.records.append._kernels")
    wrapping = directories.load("kafkaframes.records.append._kernels_rebuild")
    if not taking or not wrapping:
        pytest.skip("not compiled on this machine")
    context = np.zeros(64, np.int64)
    assert taking["take"](bytearray(40), 0, context)[0] == 0
    for other in (bytes(40), memoryview(bytearray(40)), None):
        with pytest.raises(TypeError, match=r"take\(\): argument 1 is not a bytearray"):
            taking["take"](other, 0, context)
    with pytest.raises(TypeError, match=r"wrap\(\): argument 2 is not bytes"):
        wrapping["wrap"](bytearray(40), bytearray(40), 0, 0, context)


def compiled_c(folder, source, *options):
    """The program of a C source; Python's functions, which it does not call, are not linked."""
    (folder / "program.c").write_text(source)
    command = ["cc", "-std=c11", "-Werror", *options, str(folder / "program.c"), "-o", str(folder / "program")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.mark.skipif(not Path(HEADERS, "Python.h").is_file(), reason="Python's headers are not on this machine")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
def test_what_is_declared_of_python_is_as_its_own_headers_have_it(tmp_path):
    pythons = "#define Py_LIMITED_API 0x030B0000\n#include <Python.h>\n#undef PyCFunction_NewEx\n"
    layouts = [
        subprocess.run(
            [compiled_c(tmp_path, include + LAYOUTS, f"-I{HEADERS}")], capture_output=True, check=True
        ).stdout
        for include in (pythons, f'#include "{ABI}"\n')
    ]
    assert layouts[0] == layouts[1]

    functions = dict(re.findall(r"^(\w[\w *]*?(\w+)\(.*\);)", ABI.read_text(), re.MULTILINE))
    assert len(functions) == 27
    used = "".join(f"    (void)&{name};\n" for name in functions.values())
    first_used = f"{pythons}void use(void) {{\n{used}}}\n"  # what the ABI of 3.11 lacks is not known there
    compiled_c(tmp_path, first_used + "\n".join(functions), f"-I{HEADERS}", "-c")
