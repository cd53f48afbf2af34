"""A worker of a Weighbridge job, in plain Python with numpy. All that it knows is in spec/: names in brackets are the rules that a line follows (protocol.md has
F, J, H, R, E, C, A, P, T and B, consistency.md has N), and the signatures are those of functions.md.

Not here: links that break (R13 to R19), keys and values (K), codecs, checkpoints, operations among workers.
"""
import itertools
import json
import secrets
import socket
import struct
import threading
import time
from concurrent.futures import Future

import numpy as np

from wire import FAILURE, HEADER, HELLO, REPLY, REQUEST, Failed, decode_fields, decode_header, encode_fields, encode_frame, owners_of, part_of, schemas, text_hash

REGISTER, HEARTBEAT, BARRIER, LEAVE, ROSTER, ABORT, PREPARE, FUNCTION = 1, 2, 3, 4, 8, 9, 14, 48  # §7
FRAME_BYTES, BLOCK_BYTES, PART = 1_048_576, 524_288, 1  # [A7]
WAIT_S = 60

JOIN = "wb/clock/join{parameters: u32[], numbers: u32[]} → {clock: u32, lost: u32[]}"
ADVANCE = "wb/clock/advance{clock: u32, clocks: u32[], parameters: u32[], numbers: u32[]} → {}"
LEAVE_CLOCKS = "wb/clock/leave{clocks: u32[], parameters: u32[], numbers: u32[]} → {}"
OPEN = "wb/catalogue/open{body: json} → {body: json}"
CREATE = "wb/parameter/create{parameter: u32, edition: u32, spec: string} → {}"
TENSOR_PUSH = "wb/tensor/push{parameter: u32, block: u32, clock: u32, pushNumber: u32, scale: f32, gradients: f32[]} → {}"
TENSOR_PULL = "wb/tensor/pull{parameter: u32, block: u32, clock: u32} → {values: f32[]}"
ROWS_PUSH = "wb/rows/push{parameter: u32, clock: u32, pushNumber: u32, scale: f32, keys: u64[], gradients: f32[]} → {}"
ROWS_PULL = "wb/rows/pull{parameter: u32, clock: u32, keys: u64[]} → {values: f32[]}"
UPDATES = {JOIN, ADVANCE, LEAVE_CLOCKS, CREATE, TENSOR_PUSH, ROWS_PUSH}


class Link:
    """A conversation with one node over one link (§4, §5)."""

    def __init__(self, worker, address, node):
        self.worker, self.open, self.sending, self.book = worker, {}, threading.Lock(), threading.Lock()
        self.numbers = itertools.count(1)
        for pause in [0.02 * 2**i for i in range(6)] + [1] * 30:  # [R13]
            try:
                self.shake_hands(address, node)
                break
            except (ConnectionError, Failed) as error:
                if isinstance(error, Failed) and not error.retryable:  # [H10]
                    raise
                time.sleep(pause)
        else:
            raise Failed("LINK_LOST", f"nobody answers at {address}")
        threading.Thread(target=self.serve, daemon=True).start()

    def shake_hands(self, address, node):
        """§4"""
        kind, where = address.split("://", 1)
        self.socket = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        self.socket.connect(where if kind == "unix" else (where.rsplit(":", 1)[0], int(where.rsplit(":", 1)[1])))
        worker = self.worker
        hello = {"job": worker.job, "kind": "worker", "node": worker.node, "incarnation": worker.incarnation, "expects": 1}
        if worker.node:
            hello["token"] = worker.token  # [H12]
        self.socket.sendall(encode_frame(HELLO, 0, json.dumps(hello).encode()))
        header, body = self.read()
        said = json.loads(body)
        if header["kind"] == FAILURE:
            raise Failed(**said)
        if said["node"] != node:  # [H9]
            raise Failed("NO_ROUTE", f"node {said['node']} listens where {node} was expected", retryable=True)

    def receive(self, count):
        view = memoryview(bytearray(count))
        at = 0
        while at < count:
            got = self.socket.recv_into(view[at:])
            if not got:
                raise ConnectionError("the link has ended")
            at += got
        return view

    def read(self):
        header = decode_header(self.receive(HEADER.size))
        if header["magic"] != b"WB" or header["version"] != 2 or header["more"]:  # [F1], and no runs [H11]
            raise ConnectionError(f"no frame of version 2: {header}")
        size = header["payloadBytes"]
        return header, bytes(self.receive(size + -size % 8)[:size])

    def serve(self):
        """Answers to our requests, and requests of the other side, in any order."""
        try:
            while True:
                header, body = self.read()
                if header["kind"] == REQUEST:
                    self.answer(header, body)
                elif header["kind"] in (REPLY, FAILURE) and header["request"] in self.open:
                    self.take(header, body)
        except (OSError, ValueError) as error:
            for future, _ in list(self.open.values()):
                future.set_exception(Failed("LINK_LOST", str(error)))

    def take(self, header, body):
        future, parts = self.open[header["request"]]
        parts.append(body)  # frames come in the order of their offsets [R12]
        total = header["arg0"] | header["arg1"] << 32
        if header["kind"] == REPLY and sum(map(len, parts)) < total:
            return
        with self.book:
            del self.open[header["request"]]
        future.set_exception(Failed(**json.loads(body))) if header["kind"] == FAILURE else future.set_result(b"".join(parts))

    def answer(self, header, body):
        function, failure = header["function"], None
        if function == PREPARE:
            threading.Thread(target=self.worker.prepare, args=(self, header, json.loads(body)), daemon=True).start()
            return
        if function == ROSTER:
            self.worker.hear(json.loads(body))
        elif function == ABORT:
            self.worker.ended = Failed(**json.loads(body))
        elif function != HEARTBEAT:
            failure = {"code": "UNKNOWN_FUNCTION", "message": f"no function {function} here", "retryable": False}
        self.reply(header, failure)

    def reply(self, header, failure=None):
        payload = json.dumps(failure or {}).encode()
        same = {name: header[name] for name in ("priority", "request", "app", "customer", "command")}  # [R10]
        kind, args = (FAILURE, (0, 0, 0, 0)) if failure else (REPLY, (len(payload), 0, 0, 0))
        with self.sending:
            self.socket.sendall(encode_frame(kind, header["function"], payload, args=args, **same))

    def send(self, function, payload, *, update=False, **fields):
        """One frame; numbers and stamps rise in the order in which frames leave [R1 to R3]."""
        future = Future()
        with self.sending:
            with self.book:
                request = next(self.numbers)
                self.open[request] = (future, [])
                settled = min(self.open)
            stamp = next(self.worker.stamps) if update else 0
            self.socket.sendall(encode_frame(REQUEST, function, payload, request=request, stamp=stamp, settled=settled, **fields))
        return future

    def ask(self, function, body):
        """Of the control plane (§8)."""
        return json.loads(self.send(function, json.dumps(body).encode(), priority=2**30).result(WAIT_S))

    def call(self, signature, values, epoch=0):
        """A function by name (§10a); returns what waits for its response."""
        name, request, response = schemas(signature)
        payload, number = encode_fields(request, values), next(self.worker.calls)
        step = max(1, len(payload)) if len(payload) <= FRAME_BYTES else BLOCK_BYTES  # [A7]
        for at in range(0, max(1, len(payload)), step):
            args, flags = (text_hash(signature), number, at, len(payload)), 0 if at + step >= len(payload) else PART
            command = struct.unpack("<i", struct.pack("<I", text_hash(name)))[0]
            update = signature in UPDATES
            future = self.send(FUNCTION, payload[at : at + step], flags=flags, command=command, args=args, epoch=epoch, update=update)
        return lambda: decode_fields(response, future.result(WAIT_S))


class Worker:
    def __init__(self, scheduler, servers, workers, rank=None, job=""):
        self.job, self.node, self.incarnation, self.token = job, 0, 0, secrets.token_hex(16)
        self.stamps, self.calls, self.announcing, self.placements = itertools.count(1), itertools.count(1), threading.Lock(), threading.Condition()
        self.clock, self.epoch, self.refused, self.roster, self.ended = 0, 0, 0, {"version": -1}, None
        self.pushed, self.push_numbers = {}, {}
        self.scheduler = Link(self, scheduler, 1)
        place = {"role": "worker", "rank": rank, "address": "", "serverCount": servers, "workerCount": workers, "label": "python", "token": self.token}
        reply = self.scheduler.ask(REGISTER, place)
        self.job, self.node, self.incarnation = reply["job"], reply["node"], reply["incarnation"]
        self.rank, self.recovery = (self.node - 9) // 2, reply["recovery"]
        self.hear(reply["roster"])
        if reply["heartbeatIntervalMs"]:
            threading.Thread(target=self.beat, args=(reply["heartbeatIntervalMs"] / 1000,), daemon=True).start()
        if not self.recovery:
            self.scheduler.ask(BARRIER, {"group": 7, "customer": 0, "round": 1})  # [C41]
        nodes = [entry for entry in self.roster["nodes"] if entry["role"] == "server"]
        self.servers = {entry["rank"]: Link(self, entry["address"], entry["node"]) for entry in nodes}
        clocks = [answer["clock"] for answer in self.announce(JOIN, {"parameters": [], "numbers": []})]  # [T1]
        self.clock = max(clocks)
        if min(clocks) < self.clock:
            self.announce(ADVANCE, {"clock": self.clock, "clocks": [], "parameters": [], "numbers": []})

    def hear(self, roster):
        if roster["version"] > self.roster["version"]:  # [C12]
            self.roster = roster
            if roster.get("placement") is not None:
                self.place(roster["placement"])

    def place(self, placement):
        with self.placements:
            if placement["epoch"] > self.epoch:
                self.owners, self.ranks, self.epoch = owners_of(placement), sorted(placement["servers"]), placement["epoch"]
                self.placements.notify_all()

    def prepare(self, link, header, coming):
        """No clock is announced between the answer and the placement [P11]."""
        with self.announcing:
            link.reply(header)
            with self.placements:
                self.placements.wait_for(lambda: self.epoch >= coming["epoch"], coming["holdMs"] / 1000)

    def beat(self, seconds):
        try:
            while True:
                time.sleep(seconds)  # [C14]
                self.scheduler.ask(HEARTBEAT, {})
        except (Failed, OSError):
            pass  # whoever waits for the scheduler is told

    def announce(self, signature, values):
        """Of clocks: on every server, with the epoch [P10], anew where the placement has changed [P7]."""
        with self.announcing:
            answers = {}
            while left := set(self.ranks) - set(answers):
                answers.update(self.settled({rank: self.servers[rank].call(signature, values, self.epoch) for rank in left}))
            return list(answers.values())

    def placed(self, keys, signature, values_of, apart=False):
        """Calls the owners of keys, with one request for each owner, or for each key; yields positions and answers."""
        left = np.arange(len(keys))
        while len(left):
            owners, epoch = self.owners[part_of(keys[left])], self.epoch
            shares = [(rank, left[owners == rank]) for rank in np.unique(owners).tolist()]
            if apart:
                shares = [(rank, share[i : i + 1]) for rank, share in shares for i in range(len(share))]
            for share, answer in self.settled({tuple(share): self.servers[rank].call(signature, values_of(share), epoch) for rank, share in shares}):
                left = np.setdiff1d(left, share)
                yield np.array(share), answer

    def settled(self, waits):
        """The answers that came; what was cut by an older placement has none [P7]."""
        for name, wait in waits.items():
            try:
                yield name, wait()
            except Failed as failure:
                if failure.code != "WRONG_EPOCH":
                    raise
                self.refused += 1
                self.place(failure.detail)

    def parameter(self, spec):
        """Its number (§10e)."""
        text = json.dumps({"initializer": {"type": "constant"}, "optimizer": {"type": "sum"}, "updates": "async", "reduce": "sum", **spec})
        made = self.scheduler.call(OPEN, {"body": {"specs": [text]}})()["body"]["parameters"][0]
        create = {"parameter": made["number"], "edition": made["edition"], "spec": text}
        for wait in [self.servers[rank].call(CREATE, create) for rank in self.ranks]:
            wait()
        return made["number"]

    def tensor(self, name, shape, **spec):
        return Tensor(self, self.parameter({"kind": "tensor", "name": name, "shape": shape, **spec}), shape)

    def table(self, name, width, **spec):
        return Table(self, self.parameter({"kind": "table", "name": name, "width": width, "versions": False, **spec}), width)

    def push_fields(self, parameter):
        """What all requests of a push have; it has the next number [N1, T4]."""
        self.pushed[parameter] = self.push_numbers[parameter] = self.push_numbers.get(parameter, 0) + 1
        return {"parameter": parameter, "clock": self.clock, "pushNumber": self.pushed[parameter], "scale": 1}

    def report(self):
        """What was pushed at the clock that ends."""
        pushed, self.pushed = self.pushed, {}
        return {"clocks": [self.clock] * len(pushed), "parameters": list(pushed), "numbers": list(pushed.values())}

    def end_clock(self):
        report = self.report()
        self.clock += 1
        self.announce(ADVANCE, {"clock": self.clock, **report})  # [T3]

    def leave(self):
        self.announce(LEAVE_CLOCKS, self.report())  # [T5]
        self.scheduler.ask(BARRIER, {"group": 7, "customer": 0, "round": 0 if self.recovery else 2, "outlivesDeaths": True})  # [C42]
        try:
            self.scheduler.ask(LEAVE, {})
        except (Failed, OSError):
            pass  # the scheduler ends with the last node [C42]


class Tensor:
    def __init__(self, worker, parameter, shape):
        self.worker, self.parameter, self.shape = worker, parameter, shape
        width = int(np.prod(shape[1:], dtype=np.int64))
        self.elements = int(np.prod(shape, dtype=np.int64))
        self.block = 131_072 // width * width if width <= 131_072 else 131_072  # [B2]
        self.keys = (np.uint64(parameter << 32)) + np.arange(-(-self.elements // self.block), dtype=np.uint64)  # [P1]

    def push(self, gradients):
        flat, push = np.ascontiguousarray(gradients, np.float32).reshape(-1), self.worker.push_fields(self.parameter)
        cut = lambda b: {**push, "block": b[0], "gradients": flat[b[0] * self.block : (b[0] + 1) * self.block]}  # noqa: E731
        for _ in self.worker.placed(self.keys, TENSOR_PUSH, cut, apart=True):
            pass

    def pull(self):
        values, pull = np.empty(self.elements, np.float32), {"parameter": self.parameter, "clock": self.worker.clock}
        for (b,), answer in self.worker.placed(self.keys, TENSOR_PULL, lambda b: {**pull, "block": b[0]}, apart=True):
            values[b * self.block : (b + 1) * self.block] = answer["values"]
        return values.reshape(self.shape)


class Table:
    def __init__(self, worker, parameter, width):
        self.worker, self.parameter, self.width = worker, parameter, width

    def push(self, keys, gradients):
        keys, at = np.unique(np.asarray(keys, np.uint64), return_inverse=True)
        rows = np.zeros((len(keys), self.width), np.float32)
        np.add.at(rows, at, np.asarray(gradients, np.float32))  # each key once [B5]
        push = self.worker.push_fields(self.parameter)
        for _ in self.worker.placed(keys, ROWS_PUSH, lambda mine: {**push, "keys": keys[mine], "gradients": rows[mine]}):
            pass

    def pull(self, keys):
        keys, values = np.asarray(keys, np.uint64), np.empty((len(keys), self.width), np.float32)
        pull = {"parameter": self.parameter, "clock": self.worker.clock}
        for mine, answer in self.worker.placed(keys, ROWS_PULL, lambda mine: {**pull, "keys": keys[mine]}):
            values[mine] = answer["values"].reshape(-1, self.width)
        return values
