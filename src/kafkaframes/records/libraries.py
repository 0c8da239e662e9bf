"""Find the addresses of the codecs' C functions, if the shared libraries of the codec wheels export them."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from typing import NamedTuple


class CodecLibrary(NamedTuple):
    """A module of a codec wheel, its codec, and the names of the functions that it must export."""

    module: str
    codec: str
    functions: tuple[str, ...]

    def load_addresses(self) -> dict[str, int]:
        """Return the addresses of the functions by name; empty if one is missing."""
        if struct.calcsize("P") != 8:
            return {}
        try:
            spec = importlib.util.find_spec(self.module)
            shared_library = ctypes.CDLL(spec.origin if spec is not None else None)
            library = {name: getattr(shared_library, name) for name in self.functions}
        except (ImportError, OSError, AttributeError, TypeError):
            return {}
        return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in library.items()}


LIBRARIES = (
    CodecLibrary("lz4.block._block", "lz4", ("LZ4_decompress_safe",)),
    CodecLibrary(
        "zstandard._cffi",
        "zstd",
        ("ZSTD_decompressDCtx", "ZSTD_decompressStream", "ZSTD_DCtx_reset", "ZSTD_createDCtx"),
    ),
    CodecLibrary("deflate._deflate", "gzip", ("libdeflate_gzip_decompress_ex", "libdeflate_alloc_decompressor")),
)
