"""Where the chunks of a segment lie in its object: sums over a few numbers, or over a packed list of sizes.

The plain segment is cut every ``original_chunk_size`` bytes; each part is compressed and encrypted alone, and the
results lie one after the other. Nothing is allocated by what a manifest claims: the sizes of a fixed index are
computed, a variable index has as many sizes as its decoded bytes hold.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import zstandard

from kafkaframes.errors import DecodeError
from kafkaframes.storage.tiered.strict_json import Fields, non_negative, positive, text

MOST_INDEX_BYTES: Final = 10 << 20  # decompressed; Aiven's plugin refuses more, too
_INT32: Final = 4


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """Which bytes of the object hold which bytes of the segment.

    Attributes:
        original_chunk_size: bytes of the segment in every chunk but the last.
        original_file_size: bytes of the segment.
        kind: ``fixed`` or ``variable``, as the manifest says it.
        stored_chunk_size: bytes of every chunk but the last, in the object; of a fixed index.
        final_chunk_size: bytes of the last chunk, in the object; of a fixed index.
        ends: where each chunk ends in the object; of a variable index.
    """

    original_chunk_size: int
    original_file_size: int
    kind: str
    stored_chunk_size: int = 0
    final_chunk_size: int = 0
    ends: npt.NDArray[np.int64] | None = field(default=None, compare=False)

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return -(-self.original_file_size // self.original_chunk_size)

    @property
    def stored_size(self) -> int:
        """Bytes of the object."""
        return self.stored_range(self.count - 1)[1] if self.count else 0

    def plain_range(self, chunk: int) -> tuple[int, int]:
        """Return where a chunk begins and ends in the segment."""
        start = chunk * self.original_chunk_size
        return start, min(start + self.original_chunk_size, self.original_file_size)

    def stored_range(self, chunk: int) -> tuple[int, int]:
        """Return where a chunk begins and ends in the object."""
        if self.ends is not None:
            return int(self.ends[chunk - 1]) if chunk else 0, int(self.ends[chunk])
        start = chunk * self.stored_chunk_size
        return start, start + (self.final_chunk_size if chunk == self.count - 1 else self.stored_chunk_size)

    def stored_size_of(self, start: int, end: int) -> int:
        """Return how many bytes of the object are fetched for the segment's bytes from ``start`` to ``end``."""
        end = min(end, self.original_file_size)
        if start >= end:
            return 0
        first, last = start // self.original_chunk_size, (end - 1) // self.original_chunk_size
        return self.stored_range(last)[1] - self.stored_range(first)[0]

    def sizes(self) -> list[int]:
        """Return the size of each chunk in the object; a list as long as the segment has chunks."""
        ranges = map(self.stored_range, range(self.count))
        return [end - start for start, end in ranges]


def parse_chunk_index(fields: Fields) -> ChunkIndex:
    """Read the object ``chunkIndex`` of a manifest.

    Raises:
        DecodeError: ``path`` names the field.
    """
    kind = fields.take("type", text)
    if kind not in _KINDS:
        raise DecodeError(f"{kind[:40]!r} is neither fixed nor variable", path=("type",))
    index = _KINDS[kind](
        fields, fields.take("originalChunkSize", positive), fields.take("originalFileSize", non_negative)
    )
    fields.refuse_others()
    return index


def _fixed(fields: Fields, chunk_size: int, file_size: int) -> ChunkIndex:
    stored, final = (
        fields.take("transformedChunkSize", positive),
        fields.take("finalTransformedChunkSize", non_negative),
    )
    return ChunkIndex(chunk_size, file_size, "fixed", stored, final)


def _variable(fields: Fields, chunk_size: int, file_size: int) -> ChunkIndex:
    packed = fields.take("transformedChunks", text)
    try:
        sizes = unpack_sizes(_decompressed(packed))
    except DecodeError as error:
        raise error.within("transformedChunks") from None
    index = ChunkIndex(chunk_size, file_size, "variable", ends=np.cumsum(sizes, dtype=np.int64))
    if len(sizes) != index.count:
        reason = f"{len(sizes)} chunks, but {file_size} bytes in chunks of {chunk_size} are {index.count}"
        raise DecodeError(reason, path=("transformedChunks",))
    return index


_KINDS: Mapping[str, Callable[[Fields, int, int], ChunkIndex]] = {"fixed": _fixed, "variable": _variable}


def _decompressed(packed: str) -> bytes:
    try:
        frame = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(f"not base64: {error}") from None
    try:
        size = zstandard.get_frame_parameters(frame).content_size
        if not 0 <= size <= MOST_INDEX_BYTES:  # an unknown size is a huge number
            raise DecodeError(f"the list of sizes has {size} bytes; {MOST_INDEX_BYTES} at most are read")
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DecodeError(f"not a zstd frame: {error}") from None


def unpack_sizes(raw: bytes) -> npt.NDArray[np.int64]:
    """Return the chunk sizes that the decompressed list holds.

    >>> unpack_sizes(bytes.fromhex("00000003 00000064 01 00 05 00000007")).tolist()
    [100, 105, 7]

    Raises:
        DecodeError: the bytes are more, or fewer, than the count asks for; or a size is not positive.
    """
    count = _int32(raw, 0)
    if count < 0:
        raise DecodeError(f"the list announces {count} sizes", position=0)
    if count == 0:
        return _checked(np.zeros(0, np.int64), raw, _INT32)
    if count == 1:
        return _checked(np.array([_int32(raw, _INT32)], np.int64), raw, 2 * _INT32)
    base, width = _int32(raw, _INT32), raw[2 * _INT32] if len(raw) > 2 * _INT32 else 0
    if not 1 <= width <= _INT32:
        raise DecodeError(f"sizes are written in {width} bytes each; 1 to 4 are possible", position=2 * _INT32)
    start = 2 * _INT32 + 1
    end = start + (count - 1) * width
    if end + _INT32 > len(raw):
        raise DecodeError(f"{count} sizes announced, {len(raw)} bytes present", position=start)
    values = np.zeros((count - 1, _INT32), np.uint8)
    values[:, _INT32 - width :] = np.frombuffer(raw, np.uint8, (count - 1) * width, start).reshape(-1, width)
    sizes = np.empty(count, np.int64)
    sizes[:-1] = values.view(">u4").ravel().astype(np.int64) + base
    sizes[-1] = _int32(raw, end)
    return _checked(sizes, raw, end + _INT32)


def _int32(raw: bytes, position: int) -> int:
    if position + _INT32 > len(raw):
        raise DecodeError("the list of sizes stops too early", position=position)
    return int.from_bytes(raw[position : position + _INT32], "big", signed=True)


def _checked(sizes: npt.NDArray[np.int64], raw: bytes, end: int) -> npt.NDArray[np.int64]:
    if end != len(raw):
        raise DecodeError(f"{len(raw) - end} bytes after the last size", position=end)
    if len(sizes) and int(sizes.min()) <= 0:
        raise DecodeError(f"a chunk of {int(sizes.min())} bytes is impossible")
    return sizes
