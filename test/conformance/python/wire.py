# The bytes of the Weighbridge protocol, version 2, written from spec/ alone: frames (F1 to F8), functions by name and
# their fields (A1 to A6), and which server owns what (P1 to P4, B2). Labels in comments are rules of protocol.md.
from __future__ import annotations

import json
import struct
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Iterator

import numpy as np

HELLO, REQUEST, REPLY, FAILURE, NOTICE = 1, 2, 3, 4, 5
FUNCTIONS = {"REGISTER": 1, "HEARTBEAT": 2, "BARRIER": 3, "LEAVE": 4, "STATUS": 5, "UNITS": 7, "ROSTER": 8, "ABORT": 9,
             "PLACEMENT": 10, "GATHER": 12, "RENDEZVOUS": 13, "PREPARE": 14, "RETIRE": 15, "SIMPLE": 16, "KV_PUSH": 32, "KV_PULL": 33,
             "KV_PUSH_PULL": 34, "FUNCTION": 48, "BUNDLE": 49, "COLLECTIVE": 64}  # protocol.md, section 7
HEADER = struct.Struct("<HBBHHIiQQQHHi4I")  # section 2: 64 bytes, little-endian
ITEM = struct.Struct("<IiiIiI")  # A15: 24 bytes
MAGIC, VERSION, MAX_PAYLOAD, BLOCK_BYTES, BLOCK_ELEMENTS, LOW53 = 0x4257, 2, 1 << 20, 524_288, 131_072, (1 << 53) - 1
CONTROL_PRIORITY, CLOCK_PRIORITY, PART = 1 << 30, -(1 << 31), 1  # section 8; T3; A7


class BadFrame(Exception):
    """What closes a link (X1, X2, X3)."""


@dataclass(frozen=True)
class Frame:
    kind: int
    function: int = 0
    flags: int = 0
    priority: int = 0
    request: int = 0
    more: int = 0
    stamp: int = 0
    settled: int = 0
    epoch: int = 0
    app: int = 0
    customer: int = 0
    command: int = 0
    args: tuple[int, int, int, int] = (0, 0, 0, 0)
    payload: bytes = b""

    def encode(self, others: tuple[bytes, ...] = ()) -> bytes:
        """The bytes on the link; `others` are the payloads of a run behind the first (F6)."""
        header = HEADER.pack(MAGIC, VERSION, self.kind, self.function, self.flags, len(self.payload), self.priority,
                             self.request | self.more << 53,                  # F3, F6
                             self.stamp | (self.epoch & 2047) << 53,          # F8: the epoch's lower half
                             self.settled | (self.epoch >> 11) << 53,         # F8: and its upper half
                             self.app, self.customer, self.command, *self.args)
        return header + b"".join(padded(p) for p in (self.payload, *others))


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def decode_header(data: bytes) -> tuple[Frame, int]:
    """A frame without its payload, and how many bytes that has."""
    magic, version, kind, function, flags, size, priority, request, stamp, settled, app, customer, command, *args = HEADER.unpack(data)
    if magic != MAGIC or version != VERSION or not HELLO <= kind <= NOTICE or size > MAX_PAYLOAD:
        raise BadFrame(f"magic {magic:x}, version {version}, kind {kind}, {size} bytes")  # F1, F2
    frame = Frame(kind, function, flags, priority, request & LOW53, request >> 53, stamp & LOW53, settled & LOW53,
                  stamp >> 53 | (settled >> 53) << 11, app, customer, command, tuple(args))
    if frame.more and (kind not in (REQUEST, REPLY) or size > 128 or max(frame.request, frame.stamp) + frame.more > LOW53):
        raise BadFrame("this cannot be a run")  # F7
    return frame, size


def read_frames(read: Any) -> Iterator[Frame]:
    """The frames behind the next header, one by one: more than one if it is a run (F6) or a bundle (A15). `read(n)` gives n bytes."""
    frame, size = decode_header(read(HEADER.size))
    if frame.function == FUNCTIONS["BUNDLE"]:
        yield from list(frames_of(replace(frame, payload=read(size + -size % 8)[:size])))
        return
    a0, a1, a2, a3 = frame.args
    for i in range(frame.more + 1):
        payload = read(size + -size % 8)[:size]
        last = (a3 + i) % 2**32 if frame.kind == REQUEST else a3
        yield replace(frame, request=frame.request + i, stamp=frame.stamp and frame.stamp + i, args=(a0, a1, a2, last), payload=payload)


def frames_of(bundle: Frame) -> Iterator[Frame]:
    """The requests or answers of a bundle (A15 to A17)."""
    is_request, at, size = bundle.kind == REQUEST, 0, bundle.args[2]
    priority, command, arg0, mark = bundle.priority, bundle.command, bundle.args[0], bundle.args[3]
    for i in range(bundle.args[1] + 1):
        if i > 0:
            if at + ITEM.size > len(bundle.payload):
                raise BadFrame("a bundle that ends in an item")  # A17
            size, priority, command, arg0, mark, _ = ITEM.unpack_from(bundle.payload, at)
            at += ITEM.size
        yield replace(bundle, function=FUNCTIONS["FUNCTION"], priority=priority, command=command, payload=bundle.payload[at:at + size],
                      request=bundle.request + (i if is_request else mark), stamp=bundle.stamp + mark - 1 if is_request and mark else 0,
                      args=(arg0, 0, 0, size) if is_request else (size, 0, 0, 0))
        at += size + -size % 8
    if at != len(bundle.payload):
        raise BadFrame("a bundle that its frames do not fill")  # A17


def bundle_of(frames: list[Frame]) -> Frame:
    """One frame for several requests of functions that have numbers, or answers (A15)."""
    first, stamp = frames[0], next((frame.stamp for frame in frames if frame.stamp), 0)
    is_request = first.kind == REQUEST

    def mark(frame: Frame) -> int:
        return (frame.stamp and 1 + frame.stamp - stamp) if is_request else frame.request - first.request

    def signature(frame: Frame) -> int:
        return frame.args[0] if is_request else 0

    body = padded(first.payload)
    for frame in frames[1:]:
        body += ITEM.pack(len(frame.payload), frame.priority, frame.command, signature(frame), mark(frame), 0) + padded(frame.payload)
    return replace(first, function=FUNCTIONS["BUNDLE"], stamp=stamp, args=(signature(first), len(frames) - 1, len(first.payload), mark(first)), payload=body)


def text_of(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def total_and_offset(frame: Frame) -> tuple[int, int]:
    """The args of an answer (R12)."""
    return frame.args[0] | frame.args[1] << 32, frame.args[2] | frame.args[3] << 32


# ---- functions by name ----

SCALARS = {"u32": "<I4x", "i32": "<i4x", "f32": "<f4x", "bool": "<?7x", "f64": "<d", "u64": "<Q"}
ARRAYS = {"u8[]": "u1", "i32[]": "<i4", "u32[]": "<u4", "f32[]": "<f4", "f64[]": "<f8", "i64[]": "<i8", "u64[]": "<u8",
          "keys": "<u8", "values": "<f4"}  # A11: of a parameter without a link
Schema = list[tuple[str, str]]


def hash_of(text: str) -> int:
    """A1."""
    h = 0x811C9DC5
    for b in text.encode("utf-16-le", "surrogatepass"):
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def key_of(string: str) -> int:
    """XXH64 of the UTF-8, with seed 0 (P15). Raises UnicodeEncodeError for half of a surrogate pair."""
    data, mask = string.encode(), 2**64 - 1
    p1, p2, p3, p4, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def turn(x: int, bits: int) -> int:
        return (x << bits | x >> 64 - bits) & mask

    def take(lane: int, word: int) -> int:
        return turn(lane + word * p2 & mask, 31) * p1 & mask

    h, at = p5, 0
    if len(data) >= 32:
        lanes = [p1 + p2 & mask, p2, 0, -p1 & mask]
        for at in range(32, len(data) + 1, 32):
            lanes = [take(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at - 32))]
        h = sum(turn(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            h = ((h ^ take(0, lane)) * p1 + p4) & mask
    h = h + len(data) & mask
    while at + 8 <= len(data):
        h = (turn(h ^ take(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        h = (turn(h ^ struct.unpack_from("<I", data, at)[0] * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        h = turn(h ^ byte * p5 & mask, 11) * p1 & mask
    for shift, factor in ((33, p2), (29, p3)):
        h = (h ^ h >> shift) * factor & mask
    return h ^ h >> 32


class Signature:
    """A function by name, read from its line in functions.md (A2)."""

    def __init__(self, text: str, is_update: bool = False, has_epoch: bool = False) -> None:
        self.text, self.name, rest = text, text[:text.index("{")], text[text.index("{"):]
        self.request, self.response = (self._fields(part) for part in rest.split(" → "))
        command = hash_of(self.name)
        self.command, self.arg0 = command - (command >> 31 << 32), hash_of(text)  # 10a: as i32, as u32
        self.is_update, self.has_epoch = is_update, has_epoch

    @staticmethod
    def _fields(braces: str) -> Schema:
        # Type: ignore[misc].
        return [tuple(field.split(": ")) for field in braces[1:-1].split(", ")] if braces != "{}" else []


def encode_fields(schema: Schema, values: dict[str, Any]) -> bytes:
    words, bodies = [], []
    for name, kind in schema:
        value = values[name]
        if kind in SCALARS:
            words.append(struct.pack(SCALARS[kind], value))  # A3
            continue
        body = (np.ascontiguousarray(value, ARRAYS[kind]).tobytes() if kind in ARRAYS
                else text_of(value) if kind == "json" else value.encode())  # A5
        if len(schema) == 1 and kind != "string":
            return body  # A4
        words.append(struct.pack("<Q", len(body)))
        bodies.append(padded(body))
    return b"".join(words + bodies)


def decode_fields(schema: Schema, data: bytes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    at = 8 * len(schema)
    for i, (name, kind) in enumerate(schema):
        if kind in SCALARS:
            values[name] = struct.unpack_from(SCALARS[kind], data, 8 * i)[0]
            continue
        if len(schema) == 1 and kind != "string":
            body, at = data, len(data)  # A4
        else:
            size = struct.unpack_from("<Q", data, 8 * i)[0]
            body, at = data[at:at + size], at + size + -size % 8
        values[name] = np.frombuffer(body, ARRAYS[kind]) if kind in ARRAYS else json.loads(body) if kind == "json" else body.decode()
    if at != len(data):
        raise ValueError(f"{len(data)} bytes, {at} expected")  # A6
    return values


# ---- who owns what ----

def mix(keys: Any) -> np.ndarray:
    """P1, of an array of u64."""
    x, factor = np.array(keys, "u8", ndmin=1), np.uint64(0xD6E8FEB86659FD93)
    for _ in range(2):
        x = (x ^ x >> np.uint64(32)) * factor
    return x ^ x >> np.uint64(32)


def part_of(keys: Any) -> np.ndarray:
    return (mix(keys) >> np.uint64(52)).astype(int)  # P1: the top 12 bits


def owners_of(placement: dict[str, Any]) -> np.ndarray:
    """The rank that owns each of the 4,096 parts (P2 to P4)."""
    if move := placement.get("move"):  # P4
        ends = [owners_of({"policy": placement["policy"], "servers": move[end]}) for end in ("to", "from")]
        return np.where(np.arange(4096) < move["below"], *ends)
    ranks = sorted(placement["servers"])
    n = len(ranks)
    if placement["policy"] == "range":
        owners = np.array(ranks)[np.arange(4096) * n // 4096]  # P2
    else:
        half = np.uint64(32)
        points = np.concatenate([mix(np.uint64(r << 32) + np.arange(1024, dtype="u8")) >> half for r in ranks])
        holders = np.repeat(ranks, 1024)
        order = np.lexsort((holders, points))  # P3: by point, then by rank
        points, holders = points[order], holders[order]
        starts = np.searchsorted(points, mix(np.uint64((2**32 - 1) << 32) + np.arange(4096, dtype="u8")) >> half)
        room = dict.fromkeys(ranks, max(-(-4096 // n), 105 * 4096 // (100 * n)))
        owners = np.empty(4096, int)
        for part, at in enumerate(starts):
            while not room[holders[at % len(holders)]]:
                at += 1
            owners[part] = holders[at % len(holders)]
            room[owners[part]] -= 1
    moved = placement.get("moved") or []
    owners[moved[::2]] = moved[1::2]  # P4
    return owners


def block_elements(shape: list[int]) -> int:
    """Elements of a block (B2)."""
    width = prod(shape[1:])
    return BLOCK_ELEMENTS // width * width if width <= BLOCK_ELEMENTS else BLOCK_ELEMENTS
