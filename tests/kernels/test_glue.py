"""The Python module of a unit (``glue.c``): arguments that it accepts and rejects."""

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
# The structures and constants that glue.c uses, without the fields of a module definition that it leaves empty.
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
def library():
    """The compiled kernels of ``wire``, compiled first if necessary."""
    _kernels.crc32(BYTES, 1, 10)
    library = directories.load_unit("kafkaframes.wire._kernels")
    if not library:
        pytest.skip("no C compiler on this machine")
    return library


def test_results_are_numbers_or_tuples_of_numbers(library):
    assert library["crc32"](BYTES, 1, 10) == 0xCBF43926
    assert library["crc32c"](BYTES, 1, 10) == 0xE3069283
    assert library["varint_at"](BYTES, 0, 10) == (0, 1, 1)


def test_a_kernel_that_only_reads_accepts_writable_and_read_only_arrays(library):
    for data in (BYTES, BYTES.copy(), np.memmap, bytearray(BYTES)):
        if isinstance(data, np.ndarray):
            assert library["crc32"](data, 1, 10) == 0xCBF43926
        else:
            with pytest.raises(TypeError, match=r"crc32\(\): argument 1 is not an aligned C-contiguous numpy array"):
                library["crc32"](data, 1, 10)


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
def test_an_array_of_another_type_is_rejected(library, data):
    with pytest.raises(TypeError, match=r"crc32\(\): argument 1"):
        library["crc32"](data, 0, 0)


def test_numbers_are_converted_as_by_operator_index(library):
    assert library["crc32"](BYTES, np.int32(1), np.uint8(10)) == 0xCBF43926
    for wrong in (1.0, "1", None):
        with pytest.raises(TypeError):
            library["crc32"](BYTES, wrong, 10)
    with pytest.raises(OverflowError):
        library["crc32"](BYTES, 1 << 63, 10)


def test_a_missing_argument_is_an_error(library):
    with pytest.raises(TypeError, match=r"crc32\(\) takes 3 arguments, not 2"):
        library["crc32"](BYTES, 1)


def test_a_kernel_that_writes_rejects_a_read_only_array():
    library = directories.load_unit("kafkaframes.jobs.report._kernels")
    if not library:
        pytest.skip("not compiled on this machine")
    hashes = np.zeros(1, np.int64)
    hashes.setflags(write=False)
    with pytest.raises(TypeError, match="a writable C-contiguous numpy array of 64-bit integers"):
        library["hash_keys"](BYTES, np.zeros(1, np.int64), np.ones(1, np.int32), hashes)


def test_only_a_kernel_that_writes_to_bytes_accepts_a_bytearray():
    append_library = directories.load_unit("kafkaframes.records.append._kernels")
    rebuild_library = directories.load_unit("kafkaframes.records.append._kernels_rebuild")
    if not append_library or not rebuild_library:
        pytest.skip("not compiled on this machine")
    context = np.zeros(64, np.int64)
    assert append_library["validate_in_place"](bytearray(40), 0, context)[0] == 0
    for other in (bytes(40), memoryview(bytearray(40)), None):
        with pytest.raises(TypeError, match=r"validate_in_place\(\): argument 1 is not a bytearray"):
            append_library["validate_in_place"](other, 0, context)
    with pytest.raises(TypeError, match=r"wrap_compressed\(\): argument 2 is not bytes"):
        rebuild_library["wrap_compressed"](bytearray(40), bytearray(40), 0, 0, context)


def compile_c(folder, source, *options):
    """Compile a C program that calls no function of Python, and return its path."""
    (folder / "program.c").write_text(source)
    command = ["cc", "-std=c11", "-Werror", *options, str(folder / "program.c"), "-o", str(folder / "program")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return folder / "program"


@pytest.mark.skipif(not Path(HEADERS, "Python.h").is_file(), reason="Python's headers are not on this machine")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
def test_declarations_of_pythons_abi_equal_those_of_its_headers(tmp_path):
    python_headers = "#define Py_LIMITED_API 0x030B0000\n#include <Python.h>\n#undef PyCFunction_NewEx\n"
    layouts = [
        subprocess.run([compile_c(tmp_path, include + LAYOUTS, f"-I{HEADERS}")], capture_output=True, check=True).stdout
        for include in (python_headers, f'#include "{ABI}"\n')
    ]
    assert layouts[0] == layouts[1]

    functions = dict(re.findall(r"^(\w[\w *]*?(\w+)\(.*\);)", ABI.read_text(), re.MULTILINE))
    assert len(functions) == 27
    uses = "".join(f"    (void)&{name};\n" for name in functions.values())
    first_uses = f"{python_headers}void use(void) {{\n{uses}}}\n"  # fails for functions that the ABI of 3.11 lacks
    compile_c(tmp_path, first_uses + "\n".join(functions), f"-I{HEADERS}", "-c")
