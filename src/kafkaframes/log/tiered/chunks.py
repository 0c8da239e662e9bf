"""Chunks undone: ranges of a segment in, the ranges of its object that hold them fetched, decrypted and decompressed.

A chunk that cannot be undone is a ``DamagedChunkError`` that names the object, the chunk, the byte, and which bytes
of the segment are lost with it. The bytes that a manifest promises are allocated only as far as stored bytes back them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import zstandard

from kafkaframes.errors import DamagedChunkError, MissingExtraError
from kafkaframes.log.filesystem import ReadAt
from kafkaframes.log.tiered.chunk_index import ChunkIndex
from kafkaframes.log.tiered.manifest import Manifest

IV_BYTES: Final = 12
TAG_BYTES: Final = 16
FETCH_BYTES: Final = 16 << 20  # of the object, asked for at once
KEPT_BYTES: Final = 16 << 20  # undone and kept: batches cross the borders of chunks, and so do windows of headers
AT_ONCE_BYTES: Final = 64 << 20  # a larger chunk is decompressed piece by piece: its size is only claimed so far
Decrypt = Callable[[bytes | memoryview], bytes]


class UndoError(Exception):
    """A piece cannot be undone, and why; the caller knows which object it is of."""


def decryptor(key: bytes, aad: bytes) -> Decrypt:
    """Return what decrypts a chunk or an index: AES-GCM, ``IV | ciphertext | tag``; it raises ``UndoError``.

    Raises:
        MissingExtraError: ``cryptography`` is not installed.
    """
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtraError("reading encrypted segments", "tiered") from None
    cipher: Any = AESGCM(key)

    def decrypt(stored: bytes | memoryview) -> bytes:
        if len(stored) < IV_BYTES + TAG_BYTES:
            raise UndoError(f"{len(stored)} bytes are too few for an encrypted piece")
        try:
            return bytes(cipher.decrypt(bytes(stored[:IV_BYTES]), stored[IV_BYTES:], aad))
        except InvalidTag:
            raise UndoError("it does not decrypt with the segment's key: its bytes were changed") from None

    return decrypt


def decompress(frame: bytes | memoryview, size: int) -> bytes:
    """Return the ``size`` bytes that a whole zstd frame says it holds.

    Raises:
        UndoError: it is none, or holds another number of bytes.
    """
    try:
        claimed = zstandard.get_frame_parameters(frame).content_size
        if claimed != size:
            raise UndoError(f"a zstd frame of {claimed} bytes, not {size}")
        if size <= AT_ONCE_BYTES:
            plain: bytes = _decompressor(size).decompress(frame, max_output_size=size, allow_extra_data=False)
        else:
            plain = _piece_by_piece(frame, size)
    except zstandard.ZstdError as error:
        raise UndoError(f"zstd: {error}") from None
    if len(plain) != size:
        raise UndoError(f"the zstd frame holds {len(plain)} bytes, not {size}")
    return plain


def _decompressor(size: int) -> zstandard.ZstdDecompressor:
    """One frame's window is at most the chunk, which may be larger than the library's own limit."""
    return zstandard.ZstdDecompressor(max_window_size=max(1 << 27, 1 << (size - 1).bit_length() if size else 0))


def _piece_by_piece(frame: bytes | memoryview, size: int) -> bytes:
    plain = bytearray()
    with _decompressor(size).stream_reader(frame) as reader:
        while piece := reader.read(AT_ONCE_BYTES):
            plain += piece
            if len(plain) > size:
                break
    return bytes(plain)


class ChunkReader:
    """Reads ranges of a segment from the chunks of its object.

    Args:
        read_stored: reads ranges of the object.
        manifest: of the segment.
        decrypt: None where nothing is encrypted.
        file: the object, for errors.
    """

    def __init__(self, read_stored: ReadAt, manifest: Manifest, *, decrypt: Decrypt | None, file: str) -> None:
        self._read_stored = read_stored
        self._index: ChunkIndex = manifest.chunks
        self._compressed = manifest.compressed
        self._decrypt = decrypt
        self._file = file
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def __call__(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes of the segment from ``position`` on, all for -1; fewer where it ends.

        Raises:
            DamagedChunkError: a chunk cannot be undone.
            LogDirError: the object cannot be read.
        """
        size = self._index.original_file_size
        end = size if length < 0 else min(position + length, size)
        if position >= end:
            return b""
        chunk_size = self._index.original_chunk_size
        first, last = position // chunk_size, (end - 1) // chunk_size
        pieces = []
        for chunk in range(first, last + 1):
            start = chunk * chunk_size
            plain = self._chunk(chunk, last)
            cut = plain if position <= start and end >= start + len(plain) else memoryview(plain)
            pieces.append(cut if cut is plain else cut[max(position - start, 0) : end - start])
        return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else b"".join(pieces)

    def _chunk(self, chunk: int, last: int) -> bytes:
        """Return a chunk; those behind it, up to ``last``, are fetched along with it."""
        if chunk not in self._kept:
            self._fetch(chunk, last)
        self._kept.move_to_end(chunk)
        return self._kept[chunk]

    def _fetch(self, chunk: int, last: int) -> None:
        start, end = self._index.stored_range(chunk)
        until = chunk + 1
        while until <= last and until not in self._kept and self._index.stored_range(until)[1] - start <= FETCH_BYTES:
            end = self._index.stored_range(until)[1]
            until += 1
        stored = memoryview(self._read_stored(start, end - start))
        for one in range(chunk, until):
            begin, stop = self._index.stored_range(one)
            try:
                plain = self._undone(one, stored[begin - start : stop - start], stop - begin)
            except UndoError as problem:
                if one > chunk:  # told when it is asked for itself; the chunks before it are good
                    return
                raise self._damage(one, str(problem)) from None
            self._keep(one, plain, wanted=chunk)

    def _undone(self, chunk: int, stored: memoryview, size: int) -> bytes:
        if len(stored) < size:
            raise UndoError(f"the object has {len(stored)} of its {size} bytes")
        start, end = self._index.plain_range(chunk)
        piece: bytes | memoryview = stored if self._decrypt is None else self._decrypt(stored)
        plain = decompress(piece, end - start) if self._compressed else bytes(piece)
        if len(plain) != end - start:
            raise UndoError(f"it holds {len(plain)} bytes, not {end - start}")
        return plain

    def _damage(self, chunk: int, reason: str) -> DamagedChunkError:
        lost = self._index.plain_range(chunk)
        text = f"chunk {chunk} of {self._index.count} cannot be undone: {reason}"
        return DamagedChunkError(text, position=self._index.stored_range(chunk)[0], file=self._file, lost=lost)

    def _keep(self, chunk: int, plain: bytes, *, wanted: int) -> None:
        self._kept[chunk] = plain
        held = sum(map(len, self._kept.values()))
        for old in list(self._kept):
            if held <= KEPT_BYTES or len(self._kept) <= 2 or old >= wanted:
                break
            held -= len(self._kept.pop(old))
