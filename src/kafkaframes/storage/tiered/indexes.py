"""The indexes object: each index is one range of it, encrypted by itself if the segment is, and never compressed."""

from __future__ import annotations

from kafkaframes.errors import LogDirError
from kafkaframes.storage.tiered.chunks import IV_BYTES, TAG_BYTES, Decrypt, UnreadableError
from kafkaframes.storage.tiered.manifest import Manifest


def plain_size(manifest: Manifest, name: str) -> int | None:
    """Return the size of an index as the broker had it; None where the segment has none of that name."""
    index_range = manifest.indexes.get(name)
    if index_range is None or index_range.size == 0:  # nothing is stored for an empty one, no IV either
        return None if index_range is None else 0
    return max(index_range.size - (IV_BYTES + TAG_BYTES if manifest.encryption else 0), 0)


def plain_index(stored: bytes, manifest: Manifest, name: str, *, decrypt: Decrypt | None, file: str) -> bytes:
    """Return an index decrypted and decompressed: the bytes that the broker had.

    Args:
        stored: what the object has in the index's range.
        manifest: of the segment.
        name: of the index, as the manifest has it.
        decrypt: None where nothing is encrypted.
        file: the object, for errors.

    Raises:
        LogDirError: the object ends before the index, or it does not decrypt.
    """
    index_range = manifest.indexes[name]
    if len(stored) < index_range.size:
        reason = f"the {name} index is cut off: {len(stored)} of its {index_range.size} bytes"
        raise LogDirError(reason, position=index_range.position, file=file)
    if decrypt is None or not stored:
        return stored
    try:
        return decrypt(stored)
    except UnreadableError as problem:
        raise LogDirError(f"the {name} index: {problem}", position=index_range.position, file=file) from None
