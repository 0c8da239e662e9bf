"""What Python calls of a unit (``glue.c``): what it takes and refuses, with kernels that are ready."""

import numpy as np
import pytest

from kafkaframes.kernels import ready
from kafkaframes.wire import _kernels

BYTES = np.frombuffer(b"\x02123456789", np.uint8)


@pytest.fixture(autouse=True)
def compiled():
    """The kernels of ``wire``, in their ready form whatever this process began with."""
    _kernels.crc32(BYTES, 1, 10)
    found = ready.load("kafkaframes.wire._kernels")
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
    found = ready.load("kafkaframes.jobs.report._kernels")
    if not found:
        pytest.skip("not compiled on this machine")
    hashes = np.zeros(1, np.int64)
    hashes.setflags(write=False)
    with pytest.raises(TypeError, match="a writable C-contiguous numpy array of 64-bit integers"):
        found["hash_keys"](BYTES, np.zeros(1, np.int64), np.ones(1, np.int32), hashes)


def test_a_kernel_that_writes_to_bytes_takes_a_bytearray_and_no_other_takes_one():
    taking = ready.load("kafkaframes.records.append._kernels")
    wrapping = ready.load("kafkaframes.records.append._kernels_rebuild")
    if not taking or not wrapping:
        pytest.skip("not compiled on this machine")
    context = np.zeros(64, np.int64)
    assert taking["take"](bytearray(40), 0, context)[0] == 0
    for other in (bytes(40), memoryview(bytearray(40)), None):
        with pytest.raises(TypeError, match=r"take\(\): argument 1 is not a bytearray"):
            taking["take"](other, 0, context)
    with pytest.raises(TypeError, match=r"wrap\(\): argument 2 is not bytes"):
        wrapping["wrap"](bytearray(40), bytearray(40), 0, 0, context)
