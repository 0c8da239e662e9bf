"""Memory that is reused, within a job and by later jobs."""

import numpy as np

from kafkaframes.records.memory import Recycler, borrow_memory


def test_memory_of_an_unreferenced_array_is_reused():
    memory = Recycler()  # a new recycler, because one of earlier jobs can have another free block of this size
    first = memory.new_array(1000, np.int64)
    address = first.ctypes.data
    other = memory.new_array(1000, np.int64)
    assert other.ctypes.data != address
    view = first[10:20]
    del first
    assert memory.new_array(1000, np.int64).ctypes.data != address, "a view still refers to it"
    del view
    assert memory.new_array(1000, np.int64).ctypes.data == address


def test_memory_is_reused_by_the_next_job_but_never_shared():
    with borrow_memory() as one, borrow_memory() as other:
        assert one is not other
    with borrow_memory() as again:
        assert again in (one, other)
    try:
        with borrow_memory() as again:
            raise KeyError
    except KeyError:
        pass
    with borrow_memory() as after:
        assert after is again


def test_a_free_block_is_reused_for_at_least_half_its_size():
    memory = Recycler(is_filled=True)
    for size in (10_000, 9 << 20):
        address = memory.new_array(size, np.uint8).ctypes.data
        assert memory.new_array(size - size // 4, np.uint8).ctypes.data == address
        first = memory.new_array(size - size // 4, np.uint8)
        other = memory.new_array(size - size // 4, np.uint8)
        assert first.ctypes.data == address != other.ctypes.data
        del first, other
        assert memory.new_array(size // 3, np.uint8).ctypes.data != address
        assert memory.new_array(2 * size, np.uint8).ctypes.data != address
