# Reads all golden vectors (protocol.md, section 13): decodes each, compares the fields, encodes them again, compares
# the bytes. read_vectors.py FOLDER. Writes how many there are, and those that are not what they say, as one line of
# JSON.
from __future__ import annotations

import io
import json
import re
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import link_codecs as codecs
from wire import (BLOCK_ELEMENTS, FUNCTIONS, HEADER, MAGIC, REPLY, REQUEST, Frame, Signature, block_elements, bundle_of, decode_fields, decode_header,
                  encode_fields, hash_of, key_of, mix, owners_of, part_of, read_frames, text_of)

KINDS = {"HELLO": 1, "REQUEST": 2, "REPLY": 3, "FAILURE": 4, "NOTICE": 5}
TYPES = ("<f4", "<f8", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8")  # section 9, flags
Vectors = dict[str, dict[str, Any]]


def same(what: str, mine: Any, theirs: Any) -> None:
    if mine != theirs:
        raise AssertionError(f"{what}: read {mine!r}, expected {theirs!r}")


def frame_of(header: dict[str, Any], payload: bytes) -> Frame:
    """The frame that a vector's header describes; `function` is a name, or a number as text."""
    function = FUNCTIONS.get(header["function"])
    same("magic", (header["magic"].encode(), header["version"]), (MAGIC.to_bytes(2, "little"), 2))
    return Frame(KINDS[header["kind"]], int(header["function"]) if function is None else function, header["flags"], header["priority"],
                 header["request"], header.get("more", 0), header["stamp"], header["settled"], header["epoch"], header["app"],
                 header["customer"], header["command"], tuple(header[f"arg{i}"] for i in range(4)), payload)


def check_frame(vector: dict[str, Any], payloads: list[bytes]) -> list[Frame]:
    """Compares the header both ways, and the bytes of the frame; gives back its frames, several if it is a run."""
    data, header = bytes.fromhex(vector["hex"]), vector["header"]
    mine, size = decode_header(data[:HEADER.size])
    same("payloadBytes", size, header["payloadBytes"])
    same("header", mine, frame_of(header, b""))
    stream = io.BytesIO(data)
    frames = list(read_frames(stream.read))
    same("bytes left over", stream.read(), b"")
    same("payload", [frame.payload for frame in frames], payloads)
    if header["function"] == "BUNDLE":
        same("bytes", bundle_of(frames).encode().hex(), vector["hex"])  # A15
        return frames
    same("bytes", frame_of(header, payloads[0]).encode(tuple(payloads[1:])).hex(), vector["hex"])
    return frames


def payload_of(header: dict[str, Any], payload: dict[str, Any], dtype: str) -> bytes:
    """What a vector of section 9 or 10b describes, as bytes."""
    if "json" in payload:
        return text_of(payload["json"])
    if "text" in payload:
        return payload["text"].encode()
    if "words" in payload:
        return b"".join(int(word, 16).to_bytes(8, "little") for word in payload["words"]) + bytes.fromhex(payload.get("rest", ""))
    if "u32" in payload:
        return np.array(payload["u32"], "<u4").tobytes() + bytes.fromhex(payload.get("rest", ""))
    values = payload.get("values", payload.get("floats", []))
    return (np.array([int(key) for key in payload.get("keys", [])], "<u8").tobytes() + np.array(values, dtype).tobytes()
            + np.array(payload.get("lens", []), "<i4").tobytes())


def read_back(frame: Frame, payload: dict[str, Any], dtype: str, lens: int) -> None:
    """Decodes the payload of a KV frame by the rules K4 to K12, and compares."""
    data, keys = frame.payload, frame.args[0] if frame.kind == REQUEST else 0
    lens = keys if frame.kind == REQUEST and frame.flags & 1 else lens  # LENS
    end = len(data) - 4 * lens
    same("keys", np.frombuffer(data[:8 * keys], "<u8").tolist(), [int(key) for key in payload.get("keys", [])])
    same("values", np.frombuffer(data[8 * keys:end], dtype).tolist(), payload.get("values", []))
    same("lens", np.frombuffer(data[end:], "<i4").tolist(), payload.get("lens", []))


def check_message(vector: dict[str, Any], all_of: Vectors) -> None:
    request = all_of[vector["answers"]] if "answers" in vector else vector
    for frame in vector["frames"]:
        header, payload = frame["header"], frame["payload"]
        dtype = TYPES[request["frames"][0]["header"]["flags"] // 256 % 128] if header["function"].startswith("KV_") else "<f4"
        parts = payload.get("run") or payload.get("bundle") or [payload]
        payloads = [payload_of(header, part, dtype) for part in parts]
        for read, part in zip(check_frame(frame, payloads), parts):
            if header["function"].startswith("KV_"):
                read_back(read, part, dtype, vector.get("lensCount", 0) if "lens" in part else 0)
            elif "json" in part:
                same("json", json.loads(read.payload), part["json"])
            elif "signature" in request:
                signature = Signature(request["signature"])
                schema = signature.request if request is vector else signature.response
                same("fields", encode_fields(schema, decode_fields(schema, read.payload)), read.payload)  # A3 to A6
                same("command", read.command, signature.command)
        if "answers" in vector and header["kind"] == "REPLY" and header["function"] != "BUNDLE":  # R10
            asked = next(f["header"] for f in request["frames"] if f["header"]["request"] == header["request"])
            for name in ("function", "priority", "request", "app", "customer", "command"):
                same(name, header[name], asked[name])


def plain(values: dict[str, Any], schema: list[tuple[str, str]]) -> dict[str, Any]:
    """Fields as vectors write them: arrays as lists, u64 as decimal texts."""
    lists = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    return {name: ([str(v) for v in lists[name]] if kind in ("u64[]", "keys") else str(lists[name]) if kind == "u64" else lists[name]) for name, kind in schema}


def check_function(vector: dict[str, Any], page: str) -> None:
    signature = Signature(vector["signature"])
    same("name", signature.name, vector["function"])
    line = re.search(rf"\n{re.escape(vector['signature'])}\n```\n\n_command (-?\d+), arg0 (\d+)_.*", page)
    assert line, "functions.md has no such signature"
    same("hashes", (signature.command, signature.arg0), (int(line[1]), int(line[2])))  # A1
    for side, schema in (("request", signature.request), ("response", signature.response)):
        fields = vector[side]["fields"]
        numbers = {name: (int(fields[name]) if kind == "u64" else [int(v) for v in fields[name]] if kind in ("u64[]", "keys") else fields[name]) for name, kind in schema}
        payload = encode_fields(schema, numbers)
        (frame,) = check_frame(vector[side]["frames"][0], [payload])
        same(side, plain(decode_fields(schema, frame.payload), schema), fields)
        same("command", frame.command, signature.command)
        args = (signature.arg0, 7, 0, len(payload)) if side == "request" else (len(payload), 0, 0, 0)  # 10a, A8
        same("args", frame.args, args)
        if side == "request":
            same("stamp and epoch", (frame.stamp > 0, frame.epoch > 0), ("_stamp_" in line[0], "_epoch_" in line[0]))


def bits(texts: list[str]) -> np.ndarray:
    return np.array([int(text, 16) for text in texts], "<u4").view("<f4")


HELD: dict[tuple[int, int], list[int]] = {}


def check_codec(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if "codec" in vector:
        rows, width, codec = vector["rowCount"], vector["width"], vector["codec"]
        residual = bits(vector["residual"]).copy() if "residual" in vector else None
        decoded = codecs.decode_values(codec, data, rows, width)
        same("decoded", decoded.ravel().view("<u4").tolist(), bits(vector["decoded"]).view("<u4").tolist())
        same("bytes", codecs.encode_values(codec, bits(vector["values"]).reshape(rows, width), residual).hex(), vector["hex"])
        if residual is not None:
            same("residual", residual.view("<u4").tolist(), bits(vector["residualAfter"]).view("<u4").tolist())
    elif "form" in vector:
        keys = [int(key) for key in vector["keys"]]
        same("signature", f"{codecs.signature(keys):016x}", vector["signature"])
        same("bytes", codecs.encode_keys(vector["form"], keys, vector["remember"]).hex(), vector["hex"])
        same("keys", codecs.decode_keys(data, HELD), (vector["form"], vector["remember"], keys))
    else:
        words = np.zeros(vector["valueCount"], "<u4")
        for index, word in vector["words"].items():
            words[int(index)] = int(word, 16)
        same("payload", codecs.decode_payload(data), (vector["method"], words.tobytes()))
        same("bytes", codecs.encode_payload(vector["method"], words.tobytes()).hex(), vector["hex"])


def check_keys(vector: dict[str, Any]) -> None:
    for e in vector["examples"]:
        if "shape" in e:  # B2
            rows, width, size = e["shape"][0] if e["shape"] else 1, prod(e["shape"][1:]), block_elements(e["shape"])
            count = -(-rows * width // size)
            mine = {"shape": e["shape"], "rowCount": rows, "width": width, "hasRows": width <= BLOCK_ELEMENTS, "blockElements": size,
                    "blockCount": count, "lastBlockElements": rows * width - (count - 1) * size}
        elif "text" in e:
            mine = {"text": e["text"], "hash": hash_of(e["text"])}  # A1
        elif "string" in e:
            mine = {"string": e["string"], "key": str(key_of(e["string"]))}  # P15
        elif "firstKeys" in e:
            n = e["serverCount"]
            mine = {"serverCount": n, "firstKeys": [str((2**64 - 1) // n * r) for r in range(n)]}  # K2
        elif "mix" in e:
            key = int(e["key"])
            mine = {"key": e["key"], "mix": str(mix(key)[0]), "part": int(part_of(key)[0])}  # P1
        else:
            ranks = sorted(e["servers"])
            mine = e | {"owners": "".join(str(ranks.index(rank)) for rank in owners_of(e))}  # P2 to P4
        same("example", mine, e)


def main(folder: Path) -> None:
    page = (Path(__file__).parents[3] / "spec" / "functions.md").read_text("utf-8")
    # A name is held only behind its REMEMBER (L2).
    paths = sorted(folder.rglob("*.json"), key=lambda path: (path.stem == "keys-named", path))
    vectors = {path: json.loads(path.read_text("utf-8")) for path in paths}
    messages = {path.stem: vector for path, vector in vectors.items() if path.parent == folder}
    checks = {"functions": lambda v: check_function(v, page), "codecs": check_codec, "keys": check_keys}
    wrong = {}
    for path, vector in vectors.items():
        try:
            checks.get(path.parent.name, lambda v: check_message(v, messages))(vector)
        except Exception as error:  # whatever its bytes lead to
            wrong[path.relative_to(folder).as_posix()] = f"{type(error).__name__}: {error}"
    print(json.dumps({"vectors": len(paths), "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
