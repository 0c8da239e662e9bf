"""The orders that Java's collections have by accident, where Kafka's answers depend on them. Pure functions.

An assignor that goes through a ``HashMap``, or takes the least of equals from a ``PriorityQueue``, decides by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

_T = TypeVar("_T")
_INT = 0xFFFF_FFFF


def java_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned number.

    >>> java_hash("kafka"), java_hash("")
    (101807910, 0)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & _INT
    return value


def hash_order(keys: Sequence[str] | Mapping[str, object], capacity: int = 16) -> list[str]:
    """Return keys in the order of a ``HashMap`` that they were put into one after the other.

    Args:
        capacity: that the map was made with. Buckets that become trees (eight keys in one) are left out.

    >>> hash_order(["member-2", "b", "member-1"])
    ['b', 'member-1', 'member-2']
    """
    buckets = 1 << max(capacity - 1, 0).bit_length()
    while len(keys) > 0.75 * buckets:
        buckets *= 2

    def bucket(key: str) -> int:
        spread = java_hash(key)
        return (spread ^ spread >> 16) & (buckets - 1)

    return sorted(keys, key=bucket)


class LeastFirst(Generic[_T]):
    """A ``PriorityQueue``: which of equals comes first depends on everything before.

    ``heapq`` moves a hole to the bottom before it fills it, and so has another first of equals.
    """

    def __init__(self, key: Callable[[_T], float], items: Iterable[_T]) -> None:
        self._key = key
        self._heap: list[_T] = []
        for item in items:
            self.add(item)

    def add(self, item: _T) -> None:
        """Put an item in."""
        heap, key, index = self._heap, self._key, len(self._heap)
        heap.append(item)
        while index and key(item) < key(heap[(index - 1) // 2]):
            heap[index] = heap[(index - 1) // 2]
            index = (index - 1) // 2
        heap[index] = item

    def take(self) -> _T | None:
        """Take the first out; None where there is none."""
        heap, key = self._heap, self._key
        if not heap:
            return None
        first, item = heap[0], heap.pop()
        if not heap:
            return first
        index = 0
        while (child := 2 * index + 1) < len(heap):
            if child + 1 < len(heap) and key(heap[child + 1]) < key(heap[child]):
                child += 1
            if key(item) <= key(heap[child]):
                break
            heap[index] = heap[child]
            index = child
        heap[index] = item
        return first
