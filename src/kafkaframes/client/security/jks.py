"""Reads JKS, Java's own key store format: trusted certificates, and private keys with their certificate chains.

JKS is the format of ``keytool -storetype JKS`` (and of the JDK before 9): big-endian, with the magic 0xFEEDFEED, the
entries, and a SHA-1 digest of the password and the content. Keys are encrypted with a chain of SHA-1 digests. The key
encryption of JKS does not resist an attacker, so the file's permissions must protect the keys.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from kafkaframes.errors import DecodeError, OptionError

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_DIGEST_BYTES: Final = 20  # size of a SHA-1 digest
_SALT_BYTES: Final = 20
_DIGEST_PHRASE: Final = b"Mighty Aphrodite"  # the digest starts with the password and these words
_PRIVATE_KEY, _CERTIFICATE = 1, 2
_SEQUENCE, _OCTETS = 0x30, 0x04


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """An encrypted private key and its certificate chain in DER, which begins with the key's own certificate."""

    alias: str
    encrypted_key: bytes
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The entries of a key store, in file order. Certificates are in DER."""

    keys: tuple[PrivateKey, ...]
    certificates: tuple[bytes, ...]


class _StoreReader:
    """Reads the bytes of a store from start to end. Each length is checked against the remaining size."""

    def __init__(self, raw: bytes, position: int = 0) -> None:
        self.raw = raw
        self.position = position

    def take_bytes(self, count: int) -> bytes:
        if count > len(self.raw) - self.position:
            raise DecodeError(
                f"expected {count} more bytes, found {len(self.raw) - self.position} left", position=self.position
            )
        start, self.position = self.position, self.position + count
        return self.raw[start : self.position]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take_bytes(width), "big")

    def text(self) -> str:
        return self.take_bytes(self.number(2)).decode("utf-8", "replace")

    def read_sized(self) -> bytes:
        return self.take_bytes(self.number(4))


def read_key_store(raw: bytes, password: str | None) -> KeyStore:
    """Read a store.

    Args:
        raw: content of the file.
        password: password of the store. If the password is None, the digest is not checked, as in Java.

    Raises:
        OptionError: the password is wrong, or the file was changed.
        DecodeError: the file is not a JKS store, or is damaged at the byte ``position``.
    """
    if len(raw) < len(JKS_MAGIC) + 8 + _DIGEST_BYTES or not raw.startswith(JKS_MAGIC):
        raise DecodeError("the data is not a JKS keystore", position=0)
    body, digest = raw[:-_DIGEST_BYTES], raw[-_DIGEST_BYTES:]
    if password is not None:
        computed_digest = hashlib.sha1(_encode_utf16(password) + _DIGEST_PHRASE + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(computed_digest, digest):
            raise OptionError("the store's password is wrong, or the store was modified")
    reader = _StoreReader(body, len(JKS_MAGIC))
    version = reader.number(4)
    if version not in (1, 2):
        raise DecodeError(f"unsupported JKS version {version}; expected 1 or 2", position=len(JKS_MAGIC))
    keys, certificates = [], []
    for _ in range(reader.number(4)):
        start = reader.position
        kind, alias = reader.number(4), reader.text()
        reader.take_bytes(8)  # creation time
        if kind == _PRIVATE_KEY:
            encrypted_key = reader.read_sized()
            chain = tuple(_read_certificate(reader, version) for _ in range(reader.number(4)))
            keys.append(PrivateKey(alias, encrypted_key, chain))
        elif kind == _CERTIFICATE:
            certificates.append(_read_certificate(reader, version))
        else:
            raise DecodeError(f"unknown entry type {kind}", position=start)
    return KeyStore(tuple(keys), tuple(certificates))


def decrypt_key(encrypted_key: bytes, password: str) -> bytes:
    """Return a private key as PKCS#8 in DER.

    Raises:
        OptionError: the key's password is wrong.
        DecodeError: the entry is damaged.
    """
    outer = _StoreReader(_read_der_value(_StoreReader(encrypted_key), _SEQUENCE))
    _read_der_value(outer, _SEQUENCE)  # skips the algorithm: JKS has only one
    salted_bytes = _read_der_value(outer, _OCTETS)
    if len(salted_bytes) < _SALT_BYTES + _DIGEST_BYTES:
        raise DecodeError("the encrypted key is too short for its salt and digest", position=0)
    salt, secret, digest = (
        salted_bytes[:_SALT_BYTES],
        salted_bytes[_SALT_BYTES:-_DIGEST_BYTES],
        salted_bytes[-_DIGEST_BYTES:],
    )
    word, stream, block = _encode_utf16(password), bytearray(), salt
    while len(stream) < len(secret):
        block = hashlib.sha1(word + block, usedforsecurity=False).digest()
        stream += block
    plain = bytes(secret_byte ^ stream_byte for secret_byte, stream_byte in zip(secret, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(word + plain, usedforsecurity=False).digest(), digest):
        raise OptionError("the key's password is wrong")
    return plain


def _read_certificate(reader: _StoreReader, version: int) -> bytes:
    start = reader.position
    kind = reader.text() if version > 1 else "X.509"
    if kind not in ("X.509", "X509"):
        raise DecodeError(f"unsupported certificate type {kind!r}; expected X.509", position=start)
    return reader.read_sized()


def _read_der_value(reader: _StoreReader, tag: int) -> bytes:
    """Return the contents of a DER value."""
    start = reader.position
    if reader.number(1) != tag:
        raise DecodeError(f"expected a DER value with tag {tag:#x}", position=start)
    length = reader.number(1)
    if length & 0x80:
        width = length & 0x7F
        if not 1 <= width <= 4:
            raise DecodeError("the DER length is too large for a key", position=start)
        length = reader.number(width)
    return reader.take_bytes(length)


def _encode_utf16(password: str) -> bytes:
    return password.encode("utf-16-be")
