"""The indexes object: each index is one range of it, encrypted by itself if the segment is, and never compressed."""

from __future__ import annotations

from kafkaframes.errors import LogDirError
from kafkaframes.storage.tiered.chunks import IV_BYTES, TAG_BYTES, Decrypt, UnreadableError
from kafkaframes.storage.tiered.manifest import Manifest


def plain_size(manifest: Manifest, name: str) -> int | None:
    """Return the size of an index as the broker had it; None where the segment has none of that name."""
    found = manifest.indexes.get(name)
    if found is None or found.size == 0:  # nothing is stored for an empty one, no IV either
        return None if found is None else 0
    return max(found.size - (IV_BYTES + TAG_BYTES if manifest.encryption else 0), 0)


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
    place = manifest.indexes[name]
    if len(stored) < place.size:
        reason = f"the {name} index is cut off: {len(stored)} of its {place.size} bytes"
        raise LogDirError(reason, position=place.position, file=file)
    if decrypt is None or not stored:
        return stored
    try:
        return decrypt(stored)
    except UnreadableError as problem:
        raise LogDirError(f"the {name} index: {problem}", position=place.position, file=file) from None
