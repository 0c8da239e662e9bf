"""The keys of encrypted segments: decrypt a segment's AES key with RSA key files.

A segment's AES key is encrypted with RSA-OAEP, with SHA3-512 for the label and for MGF1 (RFC 8017, 7.1). The library
``cryptography`` does not support this combination. The RSA operation is therefore done here on integers, and the
library only reads the PEM file. Timing attacks are not a concern, because the owner of the key reads old backups on
their own machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kafkaframes.errors import LogDirError, MissingExtraError, OptionError
from kafkaframes.storage.tiered.manifest import SegmentEncryption

AES_KEY_BYTES: Final = 32
MAX_KEY_FILE_BYTES: Final = 1 << 20
_OAEP_HASH_FUNCTION: Final = hashlib.sha3_512
_OAEP_HASH_BYTES: Final = 64  # size of a SHA3-512 digest


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A private key file and the id of its key pair. A key without an id is tried on every segment."""

    path: str
    key_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> KeyFile:
        """Parse ``path`` or ``id=path``.

        >>> KeyFile.parse("key1=/keys/one.pem"), KeyFile.parse("/keys/one.pem").key_id
        (KeyFile(path='/keys/one.pem', key_id='key1'), None)
        """
        key_id, mark, path = text.partition("=")
        is_id = bool(mark and key_id and path) and "/" not in key_id
        return cls(path, key_id) if is_id else cls(text)


def unwrap_data_key(
    encryption: SegmentEncryption, key_files: Iterable[str], read: Callable[[str], bytes], *, file: str
) -> bytes:
    """Return the AES key of a segment.

    Args:
        key_files: key files in the format of ``KeyFile.parse``.
        read: function that returns the content of a key file.
        file: path of the object, for errors.

    Raises:
        LogDirError: no key file is given, or none decrypts the segment's key.
        OptionError: a key file does not contain a private RSA key.
        MissingExtraError: ``cryptography`` is not installed.
    """
    keys = [KeyFile.parse(key_file) for key_file in key_files]
    if not keys:
        reason = f"encrypted with the key pair {encryption.key_id!r}: its private key is needed (keyFile, --key-file)"
        raise LogDirError(reason, file=file)
    fitting = [key_file for key_file in keys if key_file.key_id in (None, encryption.key_id)]
    for key_file in fitting:
        key = unwrap_key(encryption.wrapped_key, load_private_key(read(key_file.path), file=key_file.path))
        if key is not None and len(key) == AES_KEY_BYTES:
            return key
    tried_files = ", ".join(key_file.path for key_file in fitting) or "no key file has that id"
    reason = (
        f"encrypted with the key pair {encryption.key_id!r}; none of the key files has its private key ({tried_files})"
    )
    raise LogDirError(reason, file=file)


@lru_cache(maxsize=4096)  # several tasks open the same segment, for its indexes and its chunks
def load_private_key(pem: bytes, *, file: str) -> Any:
    """Return the private numbers of an RSA key in PEM (PKCS#8).

    Raises:
        OptionError: ``pem`` is not a private RSA key, or is protected by a password.
        MissingExtraError: ``cryptography`` is not installed.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise MissingExtraError("reading encrypted segments", "tiered") from None
    if b"PUBLIC KEY" in pem:
        raise OptionError(f"keyFile {file} contains a public key; expected the private key of the pair")
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise OptionError(f"keyFile {file} contains no private key in PEM: {error}") from None
    numbers = getattr(key, "private_numbers", lambda: None)()
    if not hasattr(numbers, "dmp1"):
        raise OptionError(f"keyFile {file} contains a key that is not RSA")
    return numbers


def unwrap_key(wrapped_key: bytes, numbers: Any) -> bytes | None:
    """Decrypt an RSA-OAEP ciphertext; return None if it was encrypted for another key or is damaged."""
    modulus: int = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    cipher = int.from_bytes(wrapped_key, "big")
    if len(wrapped_key) != size or cipher >= modulus:
        return None
    return _remove_padding(_decrypt_number(cipher, numbers).to_bytes(size, "big"))


def _decrypt_number(cipher: int, numbers: Any) -> int:
    """Decrypt a number with the private exponent, using the Chinese remainder theorem."""
    first, second = pow(cipher, numbers.dmp1, numbers.p), pow(cipher, numbers.dmq1, numbers.q)
    return int(second + (first - second) * numbers.iqmp % numbers.p * numbers.q)


def _remove_padding(message: bytes) -> bytes | None:
    if len(message) < 2 * _OAEP_HASH_BYTES + 2 or message[0] != 0:
        return None
    masked_seed, masked_data = message[1 : 1 + _OAEP_HASH_BYTES], message[1 + _OAEP_HASH_BYTES :]
    seed = _xor(masked_seed, _compute_mgf1_mask(masked_data, _OAEP_HASH_BYTES))
    block = _xor(masked_data, _compute_mgf1_mask(seed, len(masked_data)))
    rest = block[_OAEP_HASH_BYTES:].lstrip(b"\0")
    if block[:_OAEP_HASH_BYTES] != _OAEP_HASH_FUNCTION(b"").digest() or rest[:1] != b"\1":
        return None
    return rest[1:]


def _compute_mgf1_mask(seed: bytes, length: int) -> bytes:
    """Return the MGF1 mask of a seed (RFC 8017, B.2.1)."""
    counters = range(-(-length // _OAEP_HASH_BYTES))
    return b"".join(_OAEP_HASH_FUNCTION(seed + counter.to_bytes(4, "big")).digest() for counter in counters)[:length]


def _xor(first: bytes, right: bytes) -> bytes:
    return (int.from_bytes(first, "big") ^ int.from_bytes(right, "big")).to_bytes(len(first), "big")
