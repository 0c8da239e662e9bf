"""Read ranges of a segment from its object: fetch, decrypt and decompress the chunks that contain them.

If a chunk cannot be decrypted or decompressed, a ``DamagedChunkError`` reports the object, the chunk, its position, and
the lost bytes of the segment. The size of an allocation is limited by the stored bytes, not by the manifest.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import zstandard

from kafkaframes.errors import DamagedChunkError, MissingExtraError
from kafkaframes.storage.files.filesystem import ReadAt
from kafkaframes.storage.tiered.manifest import ChunkIndex, Manifest

AES_IV_BYTES: Final = 12  # initialization vector before the ciphertext
AES_TAG_BYTES: Final = 16  # authentication tag after the ciphertext
MAX_FETCH_BYTES: Final = 16 << 20  # largest range of the object in one request
# Decompressed chunks that stay in memory, because batches and windows of headers cross chunk boundaries.
MAX_CACHED_BYTES: Final = 8 << 20
READ_AHEAD_BYTES: Final = 4 << 20  # bytes of the segment that are decompressed together ahead of the reader
READ_AHEAD_BLOCKS: Final = 2  # number of blocks of ``READ_AHEAD_BYTES`` that are decompressed ahead
MAX_READ_AHEAD_BYTES: Final = 16 << 20  # larger chunks are not read ahead, because several would be in memory
MAX_WHOLE_CHUNK_BYTES: Final = (
    64 << 20
)  # larger chunks are decompressed piece by piece, because their size is unverified
Decrypt = Callable[[bytes | memoryview], bytes]


class UnreadableError(Exception):
    """A chunk or an index cannot be decrypted or decompressed. The caller adds the object's name."""


def make_decryptor(key: bytes, aad: bytes) -> Decrypt:
    """Return a function that decrypts a chunk or an index (AES-GCM, ``IV | ciphertext | tag``).

    The function raises ``UnreadableError`` if the bytes cannot be decrypted.

    Raises:
        MissingExtraError: ``cryptography`` is not installed.
    """
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtraError("reading encrypted segments", "tiered") from None
    cipher: Any = AESGCM(key)

    def decrypt(ciphertext: bytes | memoryview) -> bytes:
        if len(ciphertext) < AES_IV_BYTES + AES_TAG_BYTES:
            raise UnreadableError(f"{len(ciphertext)} bytes are too few for an encrypted chunk")
        try:
            return bytes(cipher.decrypt(bytes(ciphertext[:AES_IV_BYTES]), ciphertext[AES_IV_BYTES:], aad))
        except InvalidTag:
            raise UnreadableError("it cannot be decrypted with the segment's key: its bytes were changed") from None

    return decrypt


def decompress(frame: bytes | memoryview, size: int, spare: list[bytearray] | None = None) -> bytes | memoryview:
    """Decompress a whole zstd frame of ``size`` bytes of content.

    Args:
        frame: the frame, without bytes after it.
        size: expected number of decompressed bytes.
        spare: buffers that are no longer used; one that is large enough is removed from the list and reused.

    Raises:
        UnreadableError: ``frame`` is not a zstd frame, or has another content size.
    """
    try:
        frame_size = zstandard.get_frame_parameters(frame).content_size
        if frame_size != size:
            raise UnreadableError(f"the zstd frame states {frame_size} bytes; expected {size}")
        plain = (
            _decompress_whole(frame, size, spare or [])
            if size <= MAX_WHOLE_CHUNK_BYTES
            else _decompress_in_blocks(frame, size)
        )
    except zstandard.ZstdError as error:
        raise UnreadableError(f"zstd: {error}") from None
    if len(plain) != size:
        raise UnreadableError(f"the zstd frame has {len(plain)} bytes; expected {size}")
    return plain


# A decompressor is not thread-safe, and creating one takes as long as decompressing 100 KB.
_idle: list[zstandard.ZstdDecompressor] = []


def _decompress_whole(frame: bytes | memoryview, size: int, spare: list[bytearray]) -> memoryview:
    """Decompress into a reused buffer. The first access to new memory takes half as long as the decompression."""
    try:
        decompressor = _idle.pop()
    except IndexError:
        decompressor = _make_decompressor(MAX_WHOLE_CHUNK_BYTES)
    buffer = spare.pop() if spare and len(spare[-1]) >= size else bytearray(size)
    with decompressor.stream_reader(frame, read_across_frames=True) as reader:
        count = reader.readinto(memoryview(buffer)[:size])
        if count == size and reader.read(1):
            raise UnreadableError("bytes follow the zstd frame")
    _idle.append(decompressor)
    return memoryview(buffer)[:count]


def _make_decompressor(size: int) -> zstandard.ZstdDecompressor:
    """Return a decompressor with the chunk size as its window limit, which may exceed the library's own limit."""
    return zstandard.ZstdDecompressor(max_window_size=max(1 << 27, 1 << (size - 1).bit_length() if size else 0))


def _decompress_in_blocks(frame: bytes | memoryview, size: int) -> bytes:
    plain = bytearray()
    with _make_decompressor(size).stream_reader(frame) as reader:
        while block := reader.read(MAX_WHOLE_CHUNK_BYTES):
            plain += block
            if len(plain) > size:
                break
    return bytes(plain)


class ChunkReader:
    """A reader for ranges of a segment, which fetches chunks of the segment's object.

    Close the reader if ``read_ahead`` was called.

    Args:
        read_stored: function that reads ranges of the object.
    """

    def __init__(self, read_stored: ReadAt, manifest: Manifest, *, decrypt: Decrypt | None, file: str) -> None:
        self._read_stored = read_stored
        self._index: ChunkIndex = manifest.chunks
        self._is_compressed = manifest.is_compressed
        self._decrypt = decrypt
        self._file = file
        self._chunks: OrderedDict[int, bytes | memoryview] = OrderedDict()
        self._spare: list[bytearray] = []
        self._buffer = bytearray()
        self._ahead_to = -1
        self._pool: ThreadPoolExecutor | None = None
        self._pending: deque[tuple[range, Future[dict[int, bytes | memoryview]]]] = deque()

    def __call__(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes of the segment from ``position`` on (-1: all); fewer at the segment's end.

        Raises:
            DamagedChunkError: a chunk cannot be decrypted or decompressed.
            LogDirError: the object cannot be read.
        """
        return bytes(self.read_view(position, length))

    def read_view(self, position: int, length: int) -> bytes | memoryview:
        """Return the bytes of ``__call__`` as a view that is valid until the next call. The errors are the same."""
        size = self._index.original_file_size
        end = size if length < 0 else min(position + length, size)
        if position >= end:
            return b""
        chunk_size = self._index.original_chunk_size
        first, last = position // chunk_size, (end - 1) // chunk_size
        parts = []
        for chunk in range(first, last + 1):
            start = chunk * chunk_size
            parts.append(memoryview(self._get_chunk(chunk, last))[max(position - start, 0) : end - start])
        return parts[0] if len(parts) == 1 else self._join_parts(parts, end - position)

    def _join_parts(self, parts: list[memoryview], size: int) -> memoryview:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        buffer, position = memoryview(self._buffer), 0
        for part in parts:
            buffer[position : position + len(part)] = part
            position += len(part)
        return buffer[:position]

    def read_ahead(self, end: int) -> None:
        """Decompress chunks ahead of the reader in another thread, up to the segment's byte ``end``.

        Decompression, the kernels that read records, and waiting for the store all release the GIL, so they overlap.
        """
        if self._index.original_chunk_size <= MAX_READ_AHEAD_BYTES:
            self._ahead_to = (end - 1) // self._index.original_chunk_size

    def close(self) -> None:
        """Stop the read-ahead thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _get_chunk(self, chunk: int, last: int) -> bytes | memoryview:
        """Return a chunk. The following chunks up to ``last`` are fetched in the same request."""
        self._start_read_ahead(chunk)
        while chunk not in self._chunks and self._pending and self._pending[0][0].start <= chunk:
            self._cache_chunks(self._pending.popleft()[1].result(), oldest=chunk)
            self._start_read_ahead(chunk)
        if chunk not in self._chunks:
            self._cache_chunks(self._fetch_chunks(chunk, self._find_last_chunk_of_request(chunk, last)), oldest=chunk)
        self._chunks.move_to_end(chunk)
        return self._chunks[chunk]

    def _find_last_chunk_of_request(self, chunk: int, last: int) -> int:
        """Return the last chunk, at most ``last``, that is fetched in one request with ``chunk``."""
        start = self._index.get_object_range(chunk)[0]
        last_chunk = min(last, chunk + max(MAX_FETCH_BYTES // self._index.original_chunk_size, 1) - 1)
        while last_chunk > chunk and self._index.get_object_range(last_chunk)[1] - start > MAX_FETCH_BYTES:
            last_chunk -= 1
        return last_chunk

    def _start_read_ahead(self, chunk: int) -> None:
        """Start to decompress the chunks from ``chunk`` on that are neither in memory nor in progress."""
        if self._ahead_to < 0:
            return
        following = self._pending[-1][0].stop if self._pending else chunk
        while following in self._chunks:
            following += 1
        while following <= self._ahead_to and len(self._pending) < READ_AHEAD_BLOCKS:
            chunk_count = max(READ_AHEAD_BYTES // self._index.original_chunk_size, 1)
            last = self._find_last_chunk_of_request(following, min(self._ahead_to, following + chunk_count - 1))
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="kafkaframes chunks")
            self._pending.append((range(following, last + 1), self._pool.submit(self._fetch_chunks, following, last)))
            following = last + 1

    def _fetch_chunks(self, chunk: int, last: int) -> dict[int, bytes | memoryview]:
        """Fetch adjacent chunks and decompress them, up to the first damaged one."""
        start, end = self._index.get_object_range(chunk)[0], self._index.get_object_range(last)[1]
        stored_bytes = memoryview(self._read_stored(start, end - start))
        plain: dict[int, bytes | memoryview] = {}
        for number in range(chunk, last + 1):
            begin, stop = self._index.get_object_range(number)
            try:
                plain[number] = self._decode_chunk(number, stored_bytes[begin - start : stop - start], stop - begin)
            except UnreadableError as problem:
                if plain:  # return the chunks before it; the error is raised when this chunk is requested
                    break
                raise self._make_damage_error(number, str(problem)) from None
        return plain

    def _decode_chunk(self, chunk: int, stored_bytes: memoryview, size: int) -> bytes | memoryview:
        if len(stored_bytes) < size:
            raise UnreadableError(f"the object is truncated: it has {len(stored_bytes)} of {size} bytes")
        start, end = self._index.get_plain_range(chunk)
        data: bytes | memoryview = stored_bytes if self._decrypt is None else self._decrypt(stored_bytes)
        plain = decompress(data, end - start, self._spare) if self._is_compressed else data
        if len(plain) != end - start:
            raise UnreadableError(f"it has {len(plain)} bytes; expected {end - start}")
        return plain

    def _make_damage_error(self, chunk: int, reason: str) -> DamagedChunkError:
        lost_range = self._index.get_plain_range(chunk)
        text = f"chunk {chunk} of {self._index.count} cannot be read: {reason}"
        return DamagedChunkError(
            text, position=self._index.get_object_range(chunk)[0], file=self._file, lost=lost_range
        )

    def _cache_chunks(self, chunks: dict[int, bytes | memoryview], *, oldest: int) -> None:
        self._chunks |= chunks
        held_bytes = sum(map(len, self._chunks.values()))
        for old in list(self._chunks):
            if held_bytes <= MAX_CACHED_BYTES or len(self._chunks) <= 2 or old >= oldest:
                break
            evicted_chunk = self._chunks.pop(old)
            held_bytes -= len(evicted_chunk)
            if isinstance(evicted_chunk, memoryview) and isinstance(evicted_chunk.obj, bytearray):
                self._spare.append(evicted_chunk.obj)
