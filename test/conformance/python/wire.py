"""What a client computes and writes by itself: hashes, mixed keys, owners, the fields of functions and frames. All of it is in spec/; names in brackets are rules of
protocol.md. Beside client.py, in plain Python with numpy."""
import json
import struct

import numpy as np

HEADER = struct.Struct("<2sBBHHIiQQQHHi4I")  # §2
HELLO, REQUEST, REPLY, FAILURE, NOTICE = 1, 2, 3, 4, 5
NUMBER_BITS = 53  # [F3]
PARTS, RING_POINTS = 4096, 1024  # [P1, P3]
ARRAYS = {"u8[]": "<u1", "i32[]": "<i4", "u32[]": "<u4", "f32[]": "<f4", "f64[]": "<f8", "i64[]": "<i8", "u64[]": "<u8"}
SCALARS = {"u32": "<I4x", "i32": "<i4x", "f32": "<f4x", "f64": "<d", "u64": "<Q", "bool": "<?7x"}


class Failed(Exception):
    def __init__(self, code, message, retryable=False, detail=None, **_):  # [E1, E2, J1]
        super().__init__(f"{code}: {message}")
        self.code, self.retryable, self.detail = code, retryable, detail


def text_hash(text):
    """[A1]"""
    h = 0x811C9DC5
    for byte in text.encode("utf-16-le"):
        h = (h ^ byte) * 0x01000193 % 2**32
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


def mix(keys):
    """[P1], of an array of u64."""
    x, factor, half = np.asarray(keys, np.uint64), np.uint64(0xD6E8FEB86659FD93), np.uint64(32)
    for _ in range(2):
        x = (x ^ x >> half) * factor
    return x ^ x >> half


def part_of(keys):
    return (mix(keys) >> np.uint64(52)).astype(np.int64)


def owners_of(placement):
    """The rank that owns each part [P2 to P4]."""
    ranks = sorted(placement["servers"])
    if placement["policy"] == "range":
        owners = [ranks[part * len(ranks) // PARTS] for part in range(PARTS)]
    else:
        share_max = max(-(-PARTS // len(ranks)), int(1.05 * PARTS / len(ranks)))
        points = sorted((int(point) >> 32, rank) for rank in ranks for point in mix((rank << 32) + np.arange(RING_POINTS, dtype=np.uint64)))
        places = np.array([point for point, _ in points])
        shares, owners = dict.fromkeys(ranks, 0), []
        for point in mix(np.uint64(0xFFFFFFFF << 32) + np.arange(PARTS, dtype=np.uint64)) >> np.uint64(32):
            at = int(np.searchsorted(places, int(point)))
            while shares[points[at % len(points)][1]] >= share_max:
                at += 1
            owners.append(points[at % len(points)][1])
            shares[owners[-1]] += 1
    moved = placement.get("moved") or []
    for part, rank in zip(moved[::2], moved[1::2]):
        owners[part] = rank
    return np.array(owners)


def schemas(signature):
    """Name, and the fields of request and response [A2]."""
    name, rest = signature.split("{", 1)
    request, response = rest.split("} → {")
    fields = lambda text: [tuple(field.split(": ")) for field in text.rstrip("}").split(", ") if field]  # noqa: E731
    return name, fields(request), fields(response)


def encode_fields(fields, values):
    """[A3 to A5]"""
    fixed, bodies = b"", []
    for name, kind in fields:
        value = values.get(name)
        if kind in SCALARS:
            fixed += struct.pack(SCALARS[kind], value)
            continue
        if kind in ARRAYS:
            body = np.ascontiguousarray(value, ARRAYS[kind]).tobytes()
        else:
            body = (value if kind == "string" else json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()
        if len(fields) == 1 and kind != "string":
            return body
        fixed += struct.pack("<Q", len(body))
        bodies.append(body + bytes(-len(body) % 8))
    return fixed + b"".join(bodies)


def decode_fields(fields, payload):
    """[A3 to A6]"""
    def body_value(kind, body):
        if kind in ARRAYS:
            if len(body) % np.dtype(ARRAYS[kind]).itemsize:
                raise Failed("BAD_REQUEST", f"{len(body)} bytes of {kind}")
            return np.frombuffer(body, ARRAYS[kind])
        try:
            return body.decode() if kind == "string" else json.loads(body)
        except ValueError as error:
            raise Failed("BAD_REQUEST", str(error)) from error

    payload = bytes(payload)
    if len(fields) == 1 and fields[0][1] not in SCALARS and fields[0][1] != "string":
        return {fields[0][0]: body_value(fields[0][1], payload)}
    at, values = 8 * len(fields), {}
    if len(payload) < at:
        raise Failed("BAD_REQUEST", f"{len(payload)} bytes for {len(fields)} fields")
    for i, (name, kind) in enumerate(fields):
        slot = payload[8 * i : 8 * i + 8]
        if kind in SCALARS:
            values[name] = struct.unpack(SCALARS[kind], slot)[0]
            continue
        length = int.from_bytes(slot, "little")
        if at + length > len(payload):
            raise Failed("BAD_REQUEST", f"{name} has {length} bytes, {len(payload) - at} are left")
        values[name] = body_value(kind, payload[at : at + length])
        at += length + -length % 8
    if at != len(payload):
        raise Failed("BAD_REQUEST", f"{len(payload)} bytes, of which its fields take {at}")
    return values


def encode_frame(kind, function, payload=b"", *, flags=0, priority=0, request=0, stamp=0, settled=0, epoch=0, app=0, customer=0, command=0, args=(0, 0, 0, 0)):
    low, high = epoch % 2**11 << NUMBER_BITS, epoch >> 11 << NUMBER_BITS  # §2
    fields = (b"WB", 2, kind, function, flags, len(payload), priority, request, stamp | low, settled | high, app, customer, command, *args)
    return HEADER.pack(*fields) + payload + bytes(-len(payload) % 8)


def decode_header(data):
    names = "magic version kind function flags payloadBytes priority request stamp settled app customer command arg0 arg1 arg2 arg3".split()
    header = dict(zip(names, HEADER.unpack(data)))
    upper = {name: header[name] >> NUMBER_BITS for name in ("request", "stamp", "settled")}
    for name in upper:
        header[name] %= 2**NUMBER_BITS
    return {**header, "more": upper["request"], "epoch": upper["stamp"] + (upper["settled"] << 11)}
