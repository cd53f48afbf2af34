"""Reads every golden vector of spec/vectors both ways, by spec/ alone: python3 read_vectors.py DIRECTORY"""
import json
import pathlib
import sys

import numpy as np

import wire as wb
from client import Tensor

KINDS = ["", "HELLO", "REQUEST", "REPLY", "FAILURE", "NOTICE"]
FUNCTIONS = {name: number for number, name in ((1, "REGISTER"), (2, "HEARTBEAT"), (3, "BARRIER"), (4, "LEAVE"), (5, "STATUS"), (7, "UNITS"), (8, "ROSTER"), (9, "ABORT"), (10, "PLACEMENT"), (12, "GATHER"), (13, "RENDEZVOUS"), (14, "PREPARE"), (16, "SIMPLE"), (32, "KV_PUSH"), (33, "KV_PULL"), (34, "KV_PUSH_PULL"), (48, "FUNCTION"), (64, "COLLECTIVE"))}  # §7
KEY_FORMS = ["raw", "delta", "named"]
U64 = 2**64 - 1


def same(actual, expected, what):
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r} is not {expected!r}")


def frame_payloads(frame):
    """The header means what stands beside it, and is written as it was read; the payloads of a run one by one [F6]."""
    data, said = bytes.fromhex(frame["hex"]), frame["header"]
    header = wb.decode_header(data[:64])
    number = FUNCTIONS.get(said["function"])
    names = {"magic": "WB", "kind": KINDS.index(said["kind"]), "function": int(said["function"]) if number is None else number, "more": said.get("more", 0)}
    same({**header, "magic": header["magic"].decode()}, {**said, **names}, "header")
    stride = header["payloadBytes"] + -header["payloadBytes"] % 8
    same(len(data), 64 + stride * (1 + header["more"]), "length")
    numbers = {name: header[name] for name in ("flags", "priority", "stamp", "settled", "epoch", "app", "customer", "command")}
    args = tuple(header[f"arg{i}"] for i in range(4))
    request = header["request"] | header["more"] << 53
    again = wb.encode_frame(header["kind"], header["function"], data[64 : 64 + header["payloadBytes"]], request=request, args=args, **numbers)
    same(again[:64].hex(), data[:64].hex(), "header again")
    return [data[at : at + header["payloadBytes"]] for at in range(64, 64 + stride * (1 + header["more"]), stride or 1)][: 1 + header["more"]]


def read_message(vector):
    for frame in vector["frames"]:
        for payload, meant in zip(frame_payloads(frame), frame["payload"].get("run", [frame["payload"]])):
            if "json" in meant:
                same(json.loads(payload), meant["json"], "JSON")
            elif "text" in meant:
                same(payload.decode(), meant["text"], "text")
            elif "words" in meant:
                same([f"{word:x}" for word in np.frombuffer(payload[: len(payload) // 8 * 8], "<u8").tolist()], meant["words"], "words")
            elif "floats" in meant:
                same(np.frombuffer(payload, "<f4").tolist(), meant["floats"], "floats")
            elif "values" in meant:
                read_kv(frame["header"], payload, meant)


def read_kv(header, payload, meant):
    """§9"""
    keys, lens = meant.get("keys", []), meant.get("lens", [])
    kind = header["flags"] // 256 % 128 if header["kind"] == "REQUEST" else 0
    body = np.frombuffer(payload[: 8 * len(keys)], "<u8")
    same([str(key) for key in body.tolist()], keys, "keys")
    end = len(payload) - 4 * len(lens)
    same(np.frombuffer(payload[8 * len(keys) : end], "<f8" if kind == 1 else "<f4").tolist(), meant["values"], "values")
    same(np.frombuffer(payload[end:], "<i4").tolist(), lens, "lens")


def plain(value):
    """As the files have values: u64 as texts."""
    if isinstance(value, np.ndarray):
        return [str(item) for item in value.tolist()] if value.dtype.itemsize == 8 and value.dtype.kind in "iu" else value.tolist()
    return value


def given(kind, value):
    return int(value) if kind == "u64" else [int(item) for item in value] if kind in ("u64[]", "i64[]") else value


def read_function(vector):
    """Both ways, and cut anywhere."""
    name, *sides = wb.schemas(vector["signature"])
    same(name, vector["function"], "name")
    for side, fields in zip(("request", "response"), sides):
        payload = b"".join(part for frame in vector[side]["frames"] for part in frame_payloads(frame | {"payload": {}}))
        expected = vector[side]["fields"]
        decoded = wb.decode_fields(fields, payload)
        same({key: str(value) if dict(fields)[key] == "u64" else plain(value) for key, value in decoded.items()}, expected, f"{side} of {name}")
        encoded = wb.encode_fields(fields, {key: given(kind, expected[key]) for key, kind in fields})
        if all(kind != "json" for _, kind in fields):
            same(encoded.hex(), payload.hex(), f"{side} of {name}")
        else:  # JSON may be written in more than one way
            same(wb.decode_fields(fields, encoded), decoded, f"{side} of {name}")
        alone = len(fields) == 1 and fields[0][1] in wb.ARRAYS
        for length in range(0, len(payload), 1):
            if alone and length % np.dtype(wb.ARRAYS[fields[0][1]]).itemsize == 0:
                continue
            try:
                wb.decode_fields(fields, payload[:length])
            except wb.Failed:
                continue
            raise AssertionError(f"{length} of {len(payload)} bytes of the {side} of {name} are read")
    header = wb.decode_header(bytes.fromhex(vector["request"]["frames"][0]["hex"])[:64])
    same((header["command"] % 2**32, header["arg0"]), (wb.text_hash(name), wb.text_hash(vector["signature"])), f"hashes of {name}")


def read_keys(vector):
    for example in vector["examples"]:
        if vector["name"] == "hashes":
            same(wb.text_hash(example["text"]), example["hash"], example["text"])
        elif vector["name"] == "mixed-keys":
            key = np.array([int(example["key"])], np.uint64)
            same((str(wb.mix(key)[0]), int(wb.part_of(key)[0])), (example["mix"], example["part"]), example["key"])
        elif vector["name"] == "placements":
            positions = {rank: i for i, rank in enumerate(sorted(example["servers"]))}
            same("".join(str(positions[rank]) for rank in wb.owners_of(example).tolist()), example["owners"], str(example["servers"]))
        elif vector["name"] == "ranges":
            count = example["serverCount"]
            same([str(U64 // count * i) for i in range(count)], example["firstKeys"], "ranges")
        else:
            tensor = Tensor(None, 1, example["shape"])
            last = tensor.elements - (len(tensor.keys) - 1) * tensor.block
            same((tensor.block, len(tensor.keys), last), (example["blockElements"], example["blockCount"], example["lastBlockElements"]), str(example["shape"]))


def read_deltas(data, count):
    """codecs.md, §2"""
    lengths = [data[i // 2] >> 4 * (i % 2) & 15 for i in range(count)]
    at, keys, key = (count + 1) // 2, [], -1
    for length in lengths:
        key += 1 + int.from_bytes(data[at : at + length], "little")
        at += length
        keys.append(key)
    return keys, at


def key_signature(keys):
    """codecs.md, §4"""
    a, b = 0x9FB21C651E98DF25, 0xD6E8FEB86659FD93

    def stir(x):
        x = (x ^ x >> 32) * b & U64
        x = (x ^ x >> 29) * a & U64
        return x ^ x >> 32

    lanes = [len(keys), a, b, ~a & U64]
    for i, key in enumerate(keys):
        lane = i % 4 if i < len(keys) // 4 * 4 else 0
        x = lanes[lane] ^ (key * a & U64)
        lanes[lane] = (x << 29 | x >> 35) * b & U64
    signature = 0
    for lane in lanes:
        signature = stir(signature ^ lane)
    return signature


def read_key_list(vector):
    data, keys = bytes.fromhex(vector["hex"]), [int(key) for key in vector["keys"]]
    form, flags, count, size, signature = data[0], data[1], *np.frombuffer(data[4:12], "<u4").tolist(), int.from_bytes(data[16:24], "little")
    same((KEY_FORMS[form], bool(flags), count), (vector["form"], vector["remember"], len(keys)), "header of a key list")
    same(f"{key_signature(keys):016x}", vector["signature"], "signature")
    if flags or form == 2:
        same(signature, key_signature(keys), "signature sent")
    body = data[24 : 24 + size]
    if form < 2:
        same(np.frombuffer(body, "<u8").tolist() if form == 0 else read_deltas(body, count)[0], keys, "keys")
    same(len(data), 24 + size + -size % 8, "length of a key list")


def read_values(vector):
    """codecs.md, §1"""
    data, codec, rows, width = bytes.fromhex(vector["hex"]), vector["codec"], vector["rowCount"], vector["width"]
    with np.errstate(all="ignore"):
        if codec == "f32":
            bits = np.frombuffer(data, "<u4")
        elif codec == "bf16":
            bits = np.frombuffer(data, "<u2").astype("<u4") << 16
        elif codec == "fp16":
            bits = np.frombuffer(data, "<f2").astype("<f4").view("<u4")
        elif isinstance(codec, dict):
            count, size = np.frombuffer(data[:8], "<u4").tolist()
            values = np.zeros(rows * width, "<f4")
            values[read_deltas(data[8 : 8 + size], count)[0]] = np.frombuffer(data[8 + size + -size % 4 :], "<f4")
            bits = values.view("<u4")
        else:
            scale = np.frombuffer(data[: 4 * rows], "<f4")[:, None]
            zero = np.frombuffer(data[4 * rows : 8 * rows], "<f4")[:, None] if codec == "int8-centred" else np.float32(0)
            steps = np.frombuffer(data[-rows * width :], "i1").reshape(rows, width).astype("<f4")
            bits = (steps * scale + zero).astype("<f4").reshape(-1).view("<u4")
    same([f"{word:08x}" for word in bits.tolist()], vector["decoded"], vector["name"])


def raw_zstd(data):
    """A frame of raw blocks (RFC 8878): all that the vectors have."""
    same(data[:4].hex(), "28b52ffd", "zstd")
    single, size_bytes = data[4] >> 5 & 1, [data[4] >> 5 & 1, 2, 4, 8][data[4] >> 6]
    at, out, last = 5 + (not single) + size_bytes, b"", False
    while not last:
        block = int.from_bytes(data[at : at + 3], "little")
        last, length = block & 1, block >> 3
        same(block >> 1 & 3, 0, "a raw block")
        out, at = out + data[at + 3 : at + 3 + length], at + 3 + length
    return out


def read_payload(vector):
    """codecs.md, §5"""
    data = bytes.fromhex(vector["hex"])
    plain_bytes, method = np.frombuffer(data[:8], "<u4").tolist()
    body = data[8:]
    same(["STORED", "ZSTD", "PACKED", "PACKED_ZSTD"][method], vector["method"], "method")
    if method == 3:
        body = raw_zstd(body[8:])[: int.from_bytes(body[:4], "little")]
    elif method == 1:
        body = raw_zstd(body)
    if method >= 2:
        count = plain_bytes // 4
        mask_bytes = -(-count // 64) * 8
        mask = np.unpackbits(np.frombuffer(body[:mask_bytes], "u1"), bitorder="little")[:count].astype(bool)
        words = np.zeros(count, "<u4")
        words[mask] = np.frombuffer(body[mask_bytes:], "<u4")
    else:
        words = np.frombuffer(body, "<u4")
    same((len(words), 4 * len(words)), (vector["valueCount"], plain_bytes), "words")
    same({str(i): f"{words[i]:08x}" for i in np.nonzero(words)[0].tolist()}, vector["words"], vector["name"])


def main(directory):
    """Says how many there are, and which of them are not what they say."""
    readers = {".": read_message, "functions": read_function, "keys": read_keys}
    codecs = {"keys": read_key_list, "values": read_values, "payload": read_payload}
    paths, wrong = sorted(pathlib.Path(directory).rglob("*.json")), {}
    for path in paths:
        folder = path.parent.relative_to(directory).as_posix()
        reader = codecs[path.stem.split("-")[0]] if folder == "codecs" else readers[folder]
        try:
            reader(json.loads(path.read_text("utf-8")))
        except Exception as error:  # whatever its bytes lead to
            wrong[path.relative_to(directory).as_posix()] = f"{type(error).__name__}: {error}"
    print(json.dumps({"vectors": len(paths), "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1])
