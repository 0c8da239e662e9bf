"""Partitioners of a producer: Java's and librdkafka's by name, or a function from the caller.

A partitioner chooses the partition of each record that does not specify one. The default is Java's built-in
partitioner. The built-in partitioner hashes keys, and keeps records without a key on one partition (the *sticky*
partition) for one batch size in bytes (KIP-480, KIP-794). The accumulator implements this partitioner. All other
partitioners are functions, which are called once for each record.
"""

from __future__ import annotations

import inspect
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate, count
from typing import Any, Final, NamedTuple

from kafkaframes.client.configured_objects import get_object_name, load_object
from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.partitioner import partition_of

Partitioner = Callable[[str, bytes | None, bytes | None, int, Sequence[int]], int | None]
"""A function of topic, key, value, number of partitions, and the numbers of the partitions that have a leader.

It returns the record's partition, or None for the sticky partition.
"""

STICKY_PARTITION: Final = -1  # partition number that stands for the sticky partition, regardless of the record's key
_INT32_SIGN_BIT: Final = 1 << 31
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
_UINT32_MAX: Final = 2**32 - 1
_RANDOM: Final = random.Random()  # does not change the state of the program's global random generator
_JAVA_PARTITIONER_PREFIX: Final = "org.apache.kafka.clients.producer."


def hash_fnv1a(key: bytes) -> int:
    """Return the FNV-1a hash of a key as in librdkafka and Sarama: the absolute value of a signed number.

    >>> hash_fnv1a(b""), hash_fnv1a(b"a")
    (2128831035, 468965076)
    """
    value = _FNV_OFFSET
    for byte in key:
        value = (value ^ byte) * _FNV_PRIME & _UINT32_MAX
    return (-value & _UINT32_MAX) if value & _INT32_SIGN_BIT else value


class _RoundRobin:
    """Java's RoundRobinPartitioner, which chooses a topic's available partitions in turn, regardless of the key."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, Any] = defaultdict(count)  # calling ``next`` on a count is atomic

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        turn: int = next(self._turns[topic])
        return available[turn % len(available)] if available else turn % partitions


def _choose_random(
    topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
) -> int:
    return _RANDOM.choice(available or range(partitions))


def _create_hash_partitioner(
    hash_key: Callable[[bytes, int], int], *, is_sticky: Callable[[bytes | None], bool]
) -> Partitioner:
    """Return a partitioner that hashes keys, except keys that ``is_sticky`` selects for the sticky partition."""

    def choose_by_hash(
        topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int | None:
        return None if is_sticky(key) else hash_key(key or b"", partitions)

    return choose_by_hash


def _choose_by_crc32(key: bytes, partitions: int) -> int:
    return zlib.crc32(key) % partitions


def _choose_by_fnv1a(key: bytes, partitions: int) -> int:
    return hash_fnv1a(key) % partitions


def _never(key: bytes | None) -> bool:
    return False


def _is_null(key: bytes | None) -> bool:
    return key is None


def _is_empty(key: bytes | None) -> bool:
    return not key


# Functions by setting value. The built-in partitioner, which hashes or ignores keys, has no function.
_PARTITIONER_FACTORIES: Final[dict[str, Callable[[], Partitioner]]] = {
    "round_robin": _RoundRobin,
    "random": lambda: _choose_random,
    "murmur2": lambda: _create_hash_partitioner(partition_of, is_sticky=_never),
    "consistent": lambda: _create_hash_partitioner(_choose_by_crc32, is_sticky=_never),
    "consistent_random": lambda: _create_hash_partitioner(_choose_by_crc32, is_sticky=_is_empty),
    "fnv1a": lambda: _create_hash_partitioner(_choose_by_fnv1a, is_sticky=_never),
    "fnv1a_random": lambda: _create_hash_partitioner(_choose_by_fnv1a, is_sticky=_is_null),
}
_BUILT_IN_PARTITIONERS: Final = ("default", "murmur2_random")
_UNIFORM_STICKY: Final = "uniform_sticky"
_PARTITIONER_ALIASES: Final = {
    f"{_JAVA_PARTITIONER_PREFIX}RoundRobinPartitioner": "round_robin",
    f"{_JAVA_PARTITIONER_PREFIX}UniformStickyPartitioner": _UNIFORM_STICKY,
    f"{_JAVA_PARTITIONER_PREFIX}internals.DefaultPartitioner": "default",
    "roundrobin": "round_robin",
}
PARTITIONERS: Final = (*_BUILT_IN_PARTITIONERS, _UNIFORM_STICKY, *_PARTITIONER_FACTORIES)


class ConfiguredPartitioner(NamedTuple):
    """The partitioner in the settings of a producer.

    Attributes:
        name: name of the partitioner in error messages.
        function: chooses the partition of records that do not specify one; None for the built-in partitioner.
        ignores_keys: whether the built-in partitioner also uses the sticky partition for records with a key.
    """

    name: str = "default"
    function: Partitioner | None = None
    ignores_keys: bool = False

    def choose(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int:
        """Call the function. Return a partition, or ``STICKY_PARTITION``.

        Raises:
            EncodeError: the function raises an exception, or returns a number that is not a partition of the topic.
        """
        assert self.function is not None
        try:
            number = self.function(topic, key, value, partitions, available)
        except Exception as error:
            raise EncodeError(f"partitioner {self.name} raised {error!r} for a record of topic {topic}") from error
        if number is None:
            return STICKY_PARTITION
        if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 <= number < partitions:
            expectation = f"a number from 0 to {partitions - 1}, or None for the sticky partition"
            raise EncodeError(f"partitioner {self.name} returned {number!r} for topic {topic}; expected {expectation}")
        return number.__index__()


DEFAULT_PARTITIONER: Final = ConfiguredPartitioner()


def configure_partitioner(partitioner: str | Partitioner | None, *, ignores_keys: bool) -> ConfiguredPartitioner:
    """Return the partitioner of the settings ``partitioner`` and ``partitioner_ignore_keys``.

    Args:
        partitioner: a name of ``PARTITIONERS``, one of Java's classes, ``module:function``, a function, or None for the
            built-in partitioner.
        ignores_keys: whether the built-in partitioner ignores keys.

    Raises:
        OptionError: the name is unknown, or the function cannot be called with a partitioner's arguments.
    """
    if callable(partitioner):
        return ConfiguredPartitioner(_check_signature(partitioner), partitioner)
    name = "default" if not partitioner else _PARTITIONER_ALIASES.get(partitioner, partitioner)
    if ":" in name:
        function = load_object("partitioner", name)
        _check_signature(function)
        return ConfiguredPartitioner(name, function)
    if name not in PARTITIONERS:
        partitioner_names = ", ".join(PARTITIONERS)
        reason = f"partitioner is {partitioner!r}; expected a function, module:function, or one of {partitioner_names}"
        raise OptionError(f"{reason} (Java classes other than Kafka's own cannot run here)")
    if name in _PARTITIONER_FACTORIES:
        return ConfiguredPartitioner(name, _PARTITIONER_FACTORIES[name]())
    return ConfiguredPartitioner(name, None, ignores_keys or name == _UNIFORM_STICKY)


def _check_signature(function: Any) -> str:
    """Return a partitioner function's name, and reject a function that cannot take a partitioner's arguments."""
    name = get_object_name(function)
    if not callable(function):
        raise OptionError(f"partitioner {name} is not a function")
    try:
        inspect.signature(function).bind("topic", b"key", b"value", 1, [0])
    except TypeError as error:
        signature = "(topic, key, value, partitions, available)"
        raise OptionError(f"partitioner {name} cannot be called with {signature}: {error}") from None
    except ValueError:  # a function in C that has no signature
        pass
    return name


def weigh_queues(lengths: Sequence[int]) -> list[int]:
    """Return the weight of each partition by the number of batches in its queue: shorter queues weigh more (KIP-794).

    >>> weigh_queues([0, 3, 1])
    [4, 1, 3]
    """
    longest = max(lengths, default=0)
    return [longest + 1 - length for length in lengths]


def choose_by_queue(partitions: Sequence[int], lengths: Sequence[int], generator: random.Random) -> int:
    """Return one of the partitions at random, by the weights of their queues."""
    if not any(lengths):
        return generator.choice(partitions)
    return generator.choices(partitions, cum_weights=list(accumulate(weigh_queues(lengths))))[0]
