# What a link carries instead of f32 and u64, written from spec/ alone: values, key lists and compressed payloads.
# Labels and sections are those of codecs.md. Of zstd only frames of one raw block are read and written: plain Python
# has no more.
from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

FORMS = ("raw", "delta", "named")
METHODS = ("STORED", "ZSTD", "PACKED", "PACKED_ZSTD")
A, B, ALL = 0x9FB21C651E98DF25, 0xD6E8FEB86659FD93, (1 << 64) - 1
TINY = np.float32(2.0**-126)


def encode_values(codec: Any, x: np.ndarray, residual: np.ndarray | None = None) -> bytes:
    """Section 1; x has a row for each row of the payload. TOP_K changes the residual."""
    bits, sign = x.view("<u4"), x.view("<u4") >> 31 << 15
    if codec == "f32":
        return x.tobytes()
    if codec == "packed":
        packed = pack_words(bits.ravel())
        return packed if len(packed) < x.nbytes else x.tobytes()  # Z1
    if codec == "fp16":
        with np.errstate(over="ignore"):
            halves = x.astype("<f2").view("<u2")
        return np.where(np.isnan(x), 0x7E00 | sign, halves).astype("<u2").tobytes()
    if codec == "bf16":
        rounded = (bits.astype("u8") + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(x), bits >> 16 | 64, rounded).astype("<u2").tobytes()
    if codec in ("int8", "int8-centred"):
        half, zero = np.float32(0.5), np.zeros((len(x), 1), "<f4")
        if codec == "int8-centred":
            # Q0: +0 if it is a zero.
            zero = half * x.min(1, keepdims=True) + half * x.max(1, keepdims=True) + np.float32(0)
        scale = np.maximum(np.abs(x - zero).max(1, keepdims=True) / np.float32(127), TINY)
        q = np.rint((x - zero) / scale).astype("i1")
        return scale.tobytes() + (zero.tobytes() if codec == "int8-centred" else b"") + q.tobytes()
    s = x.ravel() + residual  # T1
    k = math.ceil(codec["topK"] * s.size)  # T2
    chosen = np.sort(np.argsort(-np.abs(s), kind="stable")[:k])
    values, residual[:] = s[chosen], s
    residual[chosen] = 0
    index = encode_deltas(chosen.tolist())
    return struct.pack("<II", k, len(index)) + index + bytes(-len(index) % 4) + values.tobytes()


def decode_values(codec: Any, data: bytes, rows: int, width: int) -> np.ndarray:
    if codec == "f32":
        out = np.frombuffer(data, "<f4")
    elif codec == "packed":
        if len(data) > 4 * rows * width:
            raise ValueError("more bytes than the words have")  # Z1
        words = np.frombuffer(data, "<u4") if len(data) == 4 * rows * width else unpack_words(data, rows * width)
        out = words.view("<f4")
    elif codec == "fp16":
        h = np.frombuffer(data, "<u2")
        nan = (h.astype("<u4") >> 15 << 31 | 0x7F800000 | (h.astype("<u4") & 1023) << 13).view("<f4")
        out = np.where(np.isnan(h.view("<f2")), nan, h.view("<f2").astype("<f4"))
    elif codec == "bf16":
        out = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    elif codec in ("int8", "int8-centred"):
        head = rows * (8 if codec == "int8-centred" else 4)
        scale = np.frombuffer(data[:4 * rows], "<f4").reshape(rows, 1)
        zero = np.frombuffer(data[4 * rows:head], "<f4").reshape(rows, 1) if head > 4 * rows else np.float32(0)
        out = np.frombuffer(data[head:], "i1").reshape(rows, width).astype("<f4") * scale + zero
    else:
        k, size = struct.unpack_from("<II", data)
        out = np.zeros(rows * width, "<f4")
        out[decode_deltas(data[8:8 + size], k)] = np.frombuffer(data[8 + size + -size % 4:], "<f4")  # T2
    return out.reshape(rows, width)


def encode_deltas(keys: list[int]) -> bytes:
    """Section 2."""
    deltas = [key - before - 1 for key, before in zip(keys, [-1, *keys])]  # D1: the first is the key itself
    sizes = [(delta.bit_length() + 7) // 8 for delta in deltas] + [0] * (len(keys) % 2)
    # D2.
    return bytes(a | b << 4 for a, b in zip(sizes[::2], sizes[1::2])) + b"".join(d.to_bytes(n, "little") for d, n in zip(deltas, sizes))


def decode_deltas(data: bytes, count: int) -> list[int]:
    at, key, keys = (count + 1) // 2, -1, []
    for i in range(count):
        size = data[i // 2] >> 4 * (i % 2) & 15
        key += 1 + int.from_bytes(data[at:at + size], "little")
        at += size
        keys.append(key)
    if at != len(data) or key > ALL:
        raise ValueError("bytes are missing or left over")  # D3
    return keys


def signature(keys: list[int]) -> int:
    """Section 4."""
    lanes = [len(keys), A, B, A ^ ALL]
    for i, key in enumerate(keys):
        lane = i % 4 if i < len(keys) // 4 * 4 else 0
        x = lanes[lane] ^ key * A & ALL
        lanes[lane] = (x << 29 & ALL | x >> 35) * B & ALL
    out = 0
    for lane in lanes:
        out ^= lane
        out = (out ^ out >> 32) * B & ALL
        out = (out ^ out >> 29) * A & ALL
        out ^= out >> 32
    return out


def encode_keys(form: str, keys: list[int], remember: bool) -> bytes:
    """Section 3."""
    body = b"" if form == "named" else encode_deltas(keys) if form == "delta" else struct.pack(f"<{len(keys)}Q", *keys)
    name = signature(keys) if remember or form == "named" else 0
    return struct.pack("<BBHIIIQ", FORMS.index(form), remember, 0, len(keys), len(body), 0, name) + body + bytes(-len(body) % 8)


def decode_keys(data: bytes, held: dict[tuple[int, int], list[int]]) -> tuple[str, bool, list[int]]:
    form, flags, _, count, size, _, name = struct.unpack_from("<BBHIIIQ", data)
    body = data[24:24 + size]
    if form == 2:
        return FORMS[form], False, held[count, name]  # L1
    keys = decode_deltas(body, count) if form else list(struct.unpack(f"<{count}Q", body))
    if flags & 1:
        assert name == signature(keys)  # L4
        held[count, name] = keys
    return FORMS[form], bool(flags & 1), keys


def raw_zstd(data: bytes) -> bytes:
    """A zstd frame of one raw block (RFC 8878), for less than 64 KiB."""
    size = bytes([0x20, len(data)]) if len(data) < 256 else b"\x60" + struct.pack("<H", len(data) - 256)
    return b"\x28\xb5\x2f\xfd" + size + (len(data) << 3 | 1).to_bytes(3, "little") + data


def from_raw_zstd(data: bytes) -> bytes:
    at = 6 if data[4] == 0x20 else 7
    block = int.from_bytes(data[at:at + 3], "little")
    assert data[:4] == b"\x28\xb5\x2f\xfd" and data[4] in (0x20, 0x60) and block & 7 == 1 and len(data) == at + 3 + (block >> 3)
    return data[at + 3:]


def pack_words(words: np.ndarray) -> bytes:
    """The words that are not 0, behind their mask (sections 1 and 5)."""
    mask = np.packbits(words != 0, bitorder="little").tobytes()
    return mask + bytes(-len(mask) % 8) + words[words != 0].tobytes()


def unpack_words(data: bytes, count: int) -> np.ndarray:
    mask_size = (count + 63) // 64 * 8
    mask = np.unpackbits(np.frombuffer(data[:mask_size], "u1"), bitorder="little") == 1
    sent = np.frombuffer(data[mask_size:], "<u4")
    if len(mask) != 8 * mask_size or mask[count:].any() or mask.sum() != len(sent):
        raise ValueError("the mask is not that of the words")  # Z1
    words = np.zeros(count, "<u4")
    words[mask[:count]] = sent
    return words


def encode_payload(method: str, plain: bytes) -> bytes:
    """Section 5."""
    packed = pack_words(np.frombuffer(plain, "<u4"))
    body = {"STORED": lambda: plain, "ZSTD": lambda: raw_zstd(plain), "PACKED": lambda: packed,
            "PACKED_ZSTD": lambda: struct.pack("<II", len(packed), 0) + raw_zstd(packed)}[method]()
    return struct.pack("<II", len(plain), METHODS.index(method)) + body


def decode_payload(data: bytes) -> tuple[str, bytes]:
    size, method = struct.unpack_from("<II", data)
    body = data[8:]
    if method in (1, 3):
        body = from_raw_zstd(body[8:] if method == 3 else body)
    if method in (2, 3):
        body = unpack_words(body, size // 4).tobytes()
    assert len(body) == size  # P1
    return METHODS[method], body
