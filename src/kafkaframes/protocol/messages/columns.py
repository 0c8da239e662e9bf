"""Decode many messages of one kind and version to an Arrow struct array, and encode such an array.

* ``decode_columns(plan, messages)`` returns a ``pa.StructArray`` with one row per message. Fields are named as in
  Kafka's JSON form (``throttleTimeMs``); fields of other versions are omitted. Strings have type ``string``, bytes and
  records ``binary``, UUIDs ``binary(16)``, and unsigned integers the next wider signed type (as in Java). A tagged
  field that is not in the message has its default. Each struct of a flexible version ends with ``_unknown_tags``.
* ``_error`` is null, or the reason why the message could not be decoded; all other columns are then null. A null
  message is null in all columns.
* Text that is not UTF-8 is replaced as in Java (U+FFFD) in ``reference`` mode, and is an error in ``strict`` mode.

Python code runs only for invalid messages and invalid text, not for each message. A call uses the memory of the
resulting arrays, and at most twice as much while they grow. Nothing is allocated for a length or count that exceeds the
remaining bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from kafkaframes.errors import DecodeError, EncodeError, OptionError
from kafkaframes.protocol.messages import _kernels_decode as kernels
from kafkaframes.protocol.messages import _kernels_hot as hot
from kafkaframes.protocol.messages._arena import MAX_ROWS, Array, DecodeArena, make_buffer_shape
from kafkaframes.protocol.messages._gather import Gatherer
from kafkaframes.protocol.messages._kernels_encode import encode
from kafkaframes.protocol.messages._program import compile_program
from kafkaframes.protocol.messages.plan import MessagePlan
from kafkaframes.wire.primitives import decode_java_text

_is_null: Final = partial(operator.is_, None)
_MIN_SPECIALIZED_BYTES: Final = 4 << 20  # loading a specialized decoder takes some 100 ms and saves 1 ms per megabyte
# Runs a kernel until all messages are done or a buffer is full.
Step: TypeAlias = Callable[..., tuple[int, int, int, int]]
_ERROR_TEXTS: Final = {
    kernels.TRUNCATED: "the message is truncated",
    kernels.OVERLONG_VARINT: "a varint has more than 5 bytes",
    kernels.NULL: "a field is null, but it is not nullable in this version",
    kernels.TOO_LONG: "a string has more than 32767 bytes",
    kernels.NEGATIVE_COUNT: "negative number of tagged fields",
    kernels.NEGATIVE_SIZE: "negative size of a tagged field",
    kernels.REFUSED_TAG: "a tag is not valid at this version",
    kernels.TRAILING: "bytes remain after the message",
    kernels.NOT_CANONICAL: "the encoding is not canonical",
    kernels.TAG_ORDER: "the tags are not in ascending order",
    kernels.TAG_SIZE: "the stated size of a tagged field is not the size of its value",
    kernels.BAD_UTF8: "a string is not valid UTF-8",
    kernels.HOLDS_DEFAULT: "a tagged field has its default value, which is never written",
    kernels.TOO_MANY: "the messages have more elements than an Arrow array can hold",
}


def decode_columns(
    plan: MessagePlan,
    messages: Sequence[bytes] | pa.Array,
    *,
    mode: str = "reference",
    decode: Callable[[bytes], object] = bytes,
    specialized: bool | None = None,
) -> pa.StructArray:
    """Decode many messages of one kind and version.

    Args:
        messages: bytes objects, or a binary or large binary array. Each value is a message without header and size.
        decode: function that decodes an invalid message to get the error; by default, the reason has a position but no
            path.
        specialized: whether to use the specialized decoder, if there is one (``reference`` mode). By default the
            specialized decoder is used when the process has decoded 4 MiB of such messages, because loading it takes
            time.

    Raises:
        OptionError: the messages have more than 2 GiB together and must be split.
    """
    program = compile_program(plan)
    buf, starts, present = _join_messages(messages)
    count = len(starts) - 1
    status = np.zeros(count, np.uint8)
    status[~present] = kernels.SKIPPED
    positions = np.zeros(count, np.int64)
    arena = DecodeArena(program, make_buffer_shape(program), messages=count, size_bytes=int(starts[-1] - starts[0]))
    strict = mode == "strict"
    program.decoded_bytes += arena.size_bytes
    if specialized is None:
        specialized = program.decoded_bytes >= _MIN_SPECIALIZED_BYTES
    step = _run_specialized if specialized and not strict and hot.is_compiled(program) else _run_table_driven
    bad_text = _run_kernel(arena, buf, starts, status, positions, step=partial(step, strict=strict))
    texts = {int(column): _decode_as_java for column in np.flatnonzero(bad_text)}
    valid = status == kernels.OK
    return arena.to_arrow(count, errors=_make_errors(status, positions, buf, starts, decode), valid=valid, texts=texts)


def encode_columns(plan: MessagePlan, array: pa.StructArray) -> pa.BinaryArray:
    """Encode each row as a message: the inverse of :func:`decode_columns`.

    Columns are matched by name. A missing column means the default, and ``_error`` is ignored. A field of another
    version must be ignorable or have its default. A null row becomes null.

    Raises:
        EncodeError: a row cannot be encoded at this version (with row and field), or the result exceeds 2 GiB.
    """
    if not pa.types.is_struct(array.type):
        raise EncodeError(f"{array.type} is not a struct array")
    if not pa.types.is_struct(array.type):
        raise EncodeError(f"expected a struct array, found {array.type}")
    program = compile_program(plan)
    present = np.ones(len(array), bool) if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    gatherer = Gatherer(program, len(array))
    gatherer.gather_structs(program.root, plan.root, array, present, "")
    arena = gatherer.build_arena()
    out = np.empty(gatherer.max_encoded_bytes(), np.uint8)
    ends = np.zeros(len(array) + 1, np.int64)
    stack = np.zeros((program.depth + 1) * kernels.FRAME_WORDS, np.int64)
    size = encode(
        arena.patch_ops(), program.columns.ravel(), program.tags, program.consts, arena.addresses.ravel(),
        arena.bytes, present.view(np.uint8), len(array), out, ends, stack,
    )  # fmt: skip
    if size > MAX_ROWS:
        raise EncodeError("the messages of one call have more than 2 GiB; split the array")
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    data = pa.py_buffer(out[:size].copy() if size < len(out) // 2 else out[:size])
    return pa.Array.from_buffers(pa.binary(), len(array), [valid, pa.py_buffer(ends.astype(np.int32)), data])


def compile_specialized(plan: MessagePlan) -> bool:
    """Compile the specialized decoder of a message and version into the cache; return False if it existed.

    Compilation takes seconds, once per machine. From then on, :func:`decode_columns` uses this decoder in all
    processes, in ``reference`` mode.
    """
    return hot.compile_missing([compile_program(plan)]) > 0


def is_specialized(plan: MessagePlan) -> bool:
    """Return whether the cache has a specialized decoder for this message and version."""
    return hot.is_compiled(compile_program(plan))


def _join_messages(messages: Sequence[bytes] | pa.Array) -> tuple[Array, Array, Array]:
    """Return the bytes of all messages, their starts and the last end, and whether each message is not null."""
    if isinstance(messages, pa.Array):
        buf, starts, present = _join_arrow_messages(messages)
    elif any(map(_is_null, messages)):
        buf, starts, present = _join_arrow_messages(pa.array(messages, pa.large_binary()))
    else:  # does not call pa.array, which imports pandas
        starts = np.zeros(len(messages) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)), out=starts[1:])
        buf, present = np.frombuffer(b"".join(messages) or b"\0", np.uint8), np.ones(len(messages), bool)
    if starts[-1] - starts[0] > MAX_ROWS:
        raise OptionError("the messages of one call have more than 2 GiB; split them")
    return buf, starts, present


def _join_arrow_messages(array: pa.Array) -> tuple[Array, Array, Array]:
    wide = pa.types.is_large_binary(array.type)
    if not wide and not pa.types.is_binary(array.type):
        array, wide = array.cast(pa.large_binary()), True
    _, offsets, data = array.buffers()
    offset_type = np.int64 if wide else np.int32
    starts = np.zeros(1, np.int64)
    if len(array):
        size = np.dtype(offset_type).itemsize
        starts = np.frombuffer(offsets, offset_type, len(array) + 1, array.offset * size).astype(np.int64)
    buf = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    present = np.ones(len(array), bool)
    if array.null_count:
        present = array.is_valid().to_numpy(zero_copy_only=False)
    return buf, starts, present


def _run_kernel(arena: DecodeArena, buf: Array, starts: Array, status: Array, positions: Array, *, step: Step) -> Array:
    """Run the kernel over all messages, growing the arena as required; return which text columns have invalid UTF-8."""
    program = arena.program
    count = len(starts) - 1
    bad_text = np.zeros(len(program.columns), np.uint8)
    at = 0
    while at < count:
        what, at, column, needed_rows = step(arena, buf, starts, at, status, positions, bad_text)
        consumed_bytes = int(starts[at] - starts[0])
        if what != kernels.DONE and needed_rows > MAX_ROWS:
            if status[at] != kernels.OK:
                raise OptionError("the defaults of all these messages do not fit into an Arrow array: split them")
            status[at] = kernels.TOO_MANY
        elif what == kernels.FULL_ROWS:
            arena.grow_buffers(at, consumed_bytes, level=column, rows=needed_rows)
        elif what == kernels.FULL_DATA:
            arena.grow_buffers(at, consumed_bytes, column=column, data=needed_rows)
    return bad_text


def _run_table_driven(
    arena: DecodeArena,
    buf: Array,
    starts: Array,
    at: int,
    status: Array,
    positions: Array,
    bad_text: Array,
    strict: bool,
) -> tuple[int, int, int, int]:
    program = arena.program
    stack = np.zeros((program.depth + 1) * kernels.FRAME_WORDS, np.int64)
    state: tuple[int, int, int, int] = kernels.decode(
        arena.patch_ops(), program.columns.ravel(), program.tags, program.consts, arena.addresses.ravel(), arena.rows,
        buf, starts, at, len(starts) - 1, strict, arena.bytes, status, positions, bad_text, stack,
    )  # fmt: skip
    return state


def _run_specialized(
    arena: DecodeArena,
    buf: Array,
    starts: Array,
    at: int,
    status: Array,
    positions: Array,
    bad_text: Array,
    strict: bool,
) -> tuple[int, int, int, int]:
    program = arena.program
    state: tuple[int, int, int, int] = hot.compile_decoder(program)(
        program.columns.ravel(), program.consts, arena.addresses.ravel(), arena.rows,
        buf, starts, at, len(starts) - 1, arena.bytes, status, positions, bad_text,
    )  # fmt: skip
    return state


def _make_errors(
    status: Array, positions: Array, buf: Array, starts: Array, decode: Callable[[bytes], object]
) -> pa.Array:
    bad = np.flatnonzero(status > kernels.SKIPPED)
    if not len(bad):
        return pa.nulls(len(status), pa.string())
    texts = []
    for index in bad.tolist():
        text = f"{_ERROR_TEXTS[int(status[index])]} (at byte {int(positions[index])})"
        try:
            decode(buf[starts[index] : starts[index + 1]].tobytes())
        except DecodeError as error:
            text = str(error)
        texts.append(text.encode(errors="replace"))
    return _make_sparse_strings(len(status), bad, texts)


def _make_sparse_strings(count: int, at: Array, texts: list[bytes]) -> pa.Array:
    """Return a string array with ``texts`` at the rows ``at``, nulls elsewhere (``pa.array`` would import pandas)."""
    sizes = np.zeros(count, np.int32)
    sizes[at] = [len(text) for text in texts]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    valid = np.zeros(count, bool)
    valid[at] = True
    buffers = [np.packbits(valid, bitorder="little"), offsets, b"".join(texts)]
    return pa.Array.from_buffers(pa.string(), count, [pa.py_buffer(buffer) for buffer in buffers])


def _decode_as_java(raw: pa.Array) -> pa.Array:
    """Return text for a binary array with invalid UTF-8, decoded as in Java."""
    return pa.array([None if text is None else decode_java_text(text) for text in raw.to_pylist()], pa.string())
