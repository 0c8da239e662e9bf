"""A small writer of tiered objects, for tests and benchmarks (the layout: ``docs/tiered-storage.md``)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

AES_BYTES, IV_BYTES = 32, 12
TOPIC_ID = "Q3VD4Tg3QAOmasRur4PghA"


def new_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def pack_sizes(sizes: list[int], width: int | None = None) -> bytes:
    """Return the encoded chunk sizes before compression. By default, ``width`` is the smallest that is sufficient."""
    head = len(sizes).to_bytes(4, "big")
    if len(sizes) < 2:
        return head + b"".join(size.to_bytes(4, "big") for size in sizes)
    base = min(sizes[:-1])
    value_width = width or max(1, -(-max(size - base for size in sizes[:-1]).bit_length() // 8))
    values = b"".join((size - base).to_bytes(value_width, "big") for size in sizes[:-1])
    return head + base.to_bytes(4, "big") + bytes([value_width]) + values + sizes[-1].to_bytes(4, "big")


@dataclass
class KeyPair:
    """An RSA key pair. ``wrap`` encrypts like the plugin (RFC 8017, OAEP with SHA3-512)."""

    key_id: str
    pem: bytes
    modulus: int
    exponent: int

    @classmethod
    def make(cls, key_id: str) -> KeyPair:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        numbers = key.public_key().public_numbers()
        return cls(key_id, pem, numbers.n, numbers.e)

    def wrap(self, data: bytes) -> bytes:
        size = 256 - 1 - 64
        block = hashlib.sha3_512(b"").digest() + b"\0" * (size - 64 - 1 - len(data)) + b"\1" + data
        seed = os.urandom(64)
        masked_seed = _xor(block, _apply_mask(seed, size))
        message = b"\0" + _xor(seed, _apply_mask(masked_seed, 64)) + masked_seed
        return pow(int.from_bytes(message, "big"), self.exponent, self.modulus).to_bytes(256, "big")


def _apply_mask(seed: bytes, length: int) -> bytes:
    out = b""
    while len(out) < length:
        out += hashlib.sha3_512(seed + (len(out) // 64).to_bytes(4, "big")).digest()
    return out[:length]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


@dataclass
class TieredStore:
    """A writer of a tiered store, which uploads one segment at a time."""

    root: Path
    topic: str = "orders"
    partition: int = 0
    topic_id: str = TOPIC_ID
    prefix: str = ""
    chunk_size: int = 4 << 20
    compress: bool = False
    keys: KeyPair | None = None
    level: int = 3
    written_paths: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(f"{self.root}/{self.prefix}{self.topic}-{self.topic_id}/{self.partition}")

    def upload(
        self, segment: Path, *, end_offset: int, epochs: dict[int, int], checkpoint: str = "", **more: Any
    ) -> str:
        """Write the objects of one segment of a broker, and return their path without suffix."""
        base = int(segment.name[:20])
        segment_id = new_id()
        aes, aad = os.urandom(AES_BYTES), os.urandom(32)
        plain = segment.read_bytes()
        pieces = [plain[at : at + self.chunk_size] for at in range(0, len(plain), self.chunk_size)]
        stored_pieces = [self._transform(piece, aes, aad) for piece in pieces]
        self.folder.mkdir(parents=True, exist_ok=True)
        main = self.folder / f"{base:020d}-{segment_id}"
        Path(f"{main}.log").write_bytes(b"".join(stored_pieces))
        indexes, places = self._encode_indexes(segment, end_offset, epochs, checkpoint, aes, aad)
        Path(f"{main}.indexes").write_bytes(indexes)
        manifest = {
            "version": "1",
            "chunkIndex": self._encode_chunk_index(len(plain), [len(piece) for piece in stored_pieces]),
            "segmentIndexes": places,
            "compression": self.compress,
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": self.topic_id,
                        "topicPartition": {"topic": self.topic, "partition": self.partition},
                    },
                    "id": segment_id,
                },
                "startOffset": base,
                "endOffset": end_offset,
                "maxTimestampMs": 1_760_000_000_000,
                "brokerId": 1,
                "eventTimestampMs": 1_795_000_000_000,
                "segmentLeaderEpochs": {str(epoch): start for epoch, start in epochs.items()},
            },
        }
        if self.keys is not None:
            wrapped_key = base64.b64encode(self.keys.wrap(aes)).decode()
            manifest["encryption"] = {
                "dataKey": f"{self.keys.key_id}:{wrapped_key}",
                "aad": base64.b64encode(aad).decode(),
            }
        Path(f"{main}.rsm-manifest").write_text(json.dumps(manifest | more))
        self.written_paths.append(str(main))
        return str(main)

    def _transform(self, piece: bytes, aes: bytes, aad: bytes) -> bytes:
        if self.compress:
            piece = zstandard.ZstdCompressor(level=self.level).compress(piece)
        return self._encrypt(piece, aes, aad)

    def _encrypt(self, piece: bytes, aes: bytes, aad: bytes) -> bytes:
        if self.keys is None or not piece:
            return piece
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        iv = os.urandom(IV_BYTES)
        return iv + AESGCM(aes).encrypt(iv, piece, aad)

    def _encode_indexes(
        self, segment: Path, end_offset: int, epochs: dict[int, int], checkpoint: str, aes: bytes, aad: bytes
    ) -> tuple[bytes, dict[str, Any]]:
        lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs.items())
        plain = {
            "offset": _content(segment.with_suffix(".index")),
            "timestamp": _content(segment.with_suffix(".timeindex")),
            "producerSnapshot": _content(segment.with_name(f"{end_offset + 1:020d}.snapshot")) or b"",
            "leaderEpoch": (checkpoint or f"0\n{len(epochs)}\n{lines}").encode(),
            "transaction": _content(segment.with_suffix(".txnindex")),
        }
        out, places = b"", {}
        for name, content in plain.items():
            stored_content = self._encrypt(content or b"", aes, aad)
            is_none = name == "transaction" and content is None
            places[name] = None if is_none else {"position": len(out), "size": len(stored_content)}
            out += stored_content
        return out, places

    def _encode_chunk_index(self, size: int, sizes: list[int]) -> dict[str, Any]:
        common = {"originalChunkSize": self.chunk_size, "originalFileSize": size}
        if self.compress:
            packed_bytes = zstandard.ZstdCompressor().compress(pack_sizes(sizes))
            return {"type": "variable", **common, "transformedChunks": base64.b64encode(packed_bytes).decode()}
        stored_size = self.chunk_size + (28 if self.keys else 0)
        return {"type": "fixed", **common, "transformedChunkSize": stored_size, "finalTransformedChunkSize": sizes[-1]}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
