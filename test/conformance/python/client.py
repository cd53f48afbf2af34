# A worker of a Weighbridge job in plain Python with numpy, written from spec/ alone: it registers, makes tensors and tables, pushes, pulls, ends clocks and
# leaves, by the steps of protocol.md, section 15. Labels in comments are rules of protocol.md, N1 of consistency.md. Links that break are dialed again, parts
# that change hands are found again. Left out: runs (H11), new incarnations of others (R15, C9) and joining again (T6).
from __future__ import annotations

import itertools
import json
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator

import numpy as np

from served import Functions, Served
from wire import (BLOCK_BYTES, CLOCK_PRIORITY, CONTROL_PRIORITY, FAILURE, FUNCTIONS, HELLO, MAX_PAYLOAD, NOTICE, PART, REPLY, REQUEST, BadFrame, Frame,
                  Signature, block_elements, decode_fields, encode_fields, owners_of, part_of, read_frames, text_of, total_and_offset)

TENSOR_PUSH = Signature("wb/tensor/push{parameter: u32, block: u32, clock: u32, pushNumber: u32, scale: f32, rows: u32[], gradients: values} → {}", True, True)
TENSOR_PULL = Signature("wb/tensor/pull{parameter: u32, block: u32, clock: u32, rows: u32[]} → {values: values}", False, True)
ROWS_PUSH = Signature("wb/rows/push{parameter: u32, clock: u32, pushNumber: u32, scale: f32, keys: keys, gradients: values} → {}", True, True)
ROWS_PULL = Signature("wb/rows/pull{parameter: u32, clock: u32, keys: keys} → {values: values}", False, True)
JOIN = Signature("wb/clock/join{parameters: u32[], numbers: u32[]} → {clock: u32, lost: u32[]}", True, True)
ADVANCE = Signature("wb/clock/advance{clock: u32, clocks: u32[], parameters: u32[], numbers: u32[]} → {}", True, True)
LEAVE_CLOCKS = Signature("wb/clock/leave{clocks: u32[], parameters: u32[], numbers: u32[]} → {}", True, True)
CREATE = Signature("wb/parameter/create{parameter: u32, edition: u32, spec: string} → {plugIns: string}", True, False)
OPEN = Signature("wb/catalogue/open{body: json} → {body: json}")
Fields = dict[str, Any]


class Failure(Exception):
    """What a node refused, with its code (E1, E2)."""

    def __init__(self, body: Fields) -> None:
        super().__init__(f"{body['code']}: {body['message']}")
        self.code, self.retryable, self.detail = body["code"], body.get("retryable", False), body.get("detail") or {}


@dataclass
class Call:
    """A request that was sent, and what has come of its answer."""
    frame: Frame
    answer: bytearray = field(default_factory=bytearray)
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def result(self, timeout: float = 60) -> bytes:
        if not self.done.wait(timeout):
            raise TimeoutError(f"no answer to request {self.frame.request} within {timeout} s")
        if self.error:
            raise self.error
        return bytes(self.answer)


class Conversation:
    """What a worker and one other node say to each other, over any number of links (section 5). One thread reads a link, always, and never waits for one that
    writes: a node that does not read is not read from (section 12). The lock is for what is sent, and keeps the order of its numbers (R1)."""

    def __init__(self, worker: Worker, peer: int, address: str) -> None:
        self.worker, self.peer, self.address = worker, peer, address
        self.life, self.next, self.expected, self.dials_again = 0, 1, 1, True
        self.open: dict[int, Call] = {}
        self.served = Served(worker.functions)
        self.lock = threading.RLock()
        self._connect()

    def _connect(self) -> None:
        """Dials until the node takes us, refuses for good (H10), or was away for too long (R13, R18)."""
        deadline, pause = time.monotonic() + 30, 0.02
        scheme, place = self.address.split("://", 1)
        host, _, port = place.rpartition(":")
        while True:
            link = socket.socket(socket.AF_UNIX if scheme == "unix" else socket.AF_INET)
            link.settimeout(10)
            try:
                link.connect(place if scheme == "unix" else (host, int(port)))
                with self.lock:
                    return self._shake_hands(link)
            except (OSError, BadFrame, Failure) as error:
                link.close()
                if not self.dials_again or time.monotonic() > deadline or isinstance(error, Failure) and not error.retryable:
                    raise
            time.sleep(pause)
            pause = min(1.0, pause * 2)

    def _shake_hands(self, link: socket.socket) -> None:
        me = self.worker
        hello = {"job": me.job, "kind": "worker", "node": me.node, "incarnation": me.life, "expects": self.expected}  # H3 to H5, H14
        link.sendall(Frame(HELLO, payload=text_of(hello | ({"token": me.token} if me.node else {}))).encode())  # H1, H12
        frame = next(read_frames(lambda size: receive(link, size)))
        body = json.loads(frame.payload)
        if frame.kind == FAILURE:
            raise Failure(body)
        if frame.kind != HELLO or body["node"] != self.peer or body["incarnation"] < self.life:
            link.sendall(Frame(FAILURE, payload=text_of({"code": "NO_ROUTE", "message": "not the node I want", "retryable": True})).encode())
            raise BadFrame(f"the hello of node {body.get('node')}, not {self.peer}")  # H9
        if not min(self.open, default=self.next) <= body["expects"] <= self.next or 0 < self.life < body["incarnation"]:
            raise Failure({"code": "NODE_DEAD", "message": f"node {self.peer} has forgotten the conversation"})  # R14, R15
        link.settimeout(None)
        self.life, self.link = body["incarnation"], link
        for call in list(self.open.values()):
            call.answer.clear()  # R12: answers are not mixed
        start(self._read_all, link)
        self._send_again(0)  # R13

    def _send_again(self, first: int) -> None:
        with self.lock:
            for number, call in list(self.open.items()):
                if number >= first:
                    self._send(call.frame)

    def _send(self, frame: Frame) -> None:
        try:
            with self.lock:
                self.link.sendall(frame.encode())
        except OSError:
            end(self.link)  # the reader dials again, and sends what has no answer (R13)

    def request(self, frame: Frame, is_update: bool = False) -> Call:
        """Gives the request its number and stamp, and sends it (R1 to R3)."""
        with self.lock:
            number, self.next = self.next, self.next + 1
            stamp = next(self.worker.stamps) if is_update else 0
            call = self.open[number] = Call(replace(frame, request=number, stamp=stamp, settled=min(list(self.open), default=number)))
            self._send(call.frame)
        return call

    def control(self, name: str, body: Fields, timeout: float = 60) -> Fields:
        return json.loads(self.request(Frame(REQUEST, FUNCTIONS[name], priority=CONTROL_PRIORITY, payload=text_of(body))).result(timeout))  # section 8

    def call(self, function: Signature, fields: Fields, epoch: int = 0, priority: int = 0) -> Call:
        """A function by name (10a), in frames of half a MiB if one cannot hold it (A7). The last one has the answer."""
        payload, number = encode_fields(function.request, fields), next(self.worker.calls) % 2**32
        size = len(payload) if len(payload) <= MAX_PAYLOAD else BLOCK_BYTES
        for at in range(0, len(payload) or 1, size or 1):
            frame = Frame(REQUEST, FUNCTIONS["FUNCTION"], PART if at + size < len(payload) else 0, priority, epoch=epoch, command=function.command,
                          args=(function.arg0, number, at, len(payload)), payload=payload[at:at + size])
            call = self.request(frame, function.is_update)
        return call

    def close(self, error: Exception) -> None:
        self.dials_again = False
        end(self.link)
        while self.open:
            call = self.open.popitem()[1]
            call.error = error
            call.done.set()

    def _read_all(self, link: socket.socket) -> None:
        try:
            while True:
                for frame in read_frames(lambda size: receive(link, size)):
                    self._take(frame)
        except (OSError, BadFrame, ValueError) as ended:
            end(link)
            try:
                if not self.dials_again:
                    raise ConnectionError("the link has ended") from ended
                self._connect()
            except Exception as error:
                self.close(error)

    def _take(self, frame: Frame) -> None:
        if frame.kind == REQUEST:
            return self._take_request(frame)
        if frame.kind == NOTICE:
            return start(self._send_again, frame.request)  # R7
        call = self.open.get(frame.request)
        if not call:
            return  # R11: a second answer
        if frame.kind == FAILURE:
            call.error = Failure(json.loads(frame.payload))
        else:
            call.answer += frame.payload
            if len(call.answer) < total_and_offset(frame)[0]:
                return  # R12: more is to come
        self.open.pop(frame.request, None)
        call.done.set()

    def _take_request(self, frame: Frame) -> None:
        self.expected = max(self.expected, min(frame.settled, frame.request))  # R5
        if frame.request > self.expected:
            return start(self._send, Frame(NOTICE, request=self.expected))  # R7
        is_fresh = frame.request == self.expected
        self.expected += is_fresh  # R6
        if frame.function == FUNCTIONS["FUNCTION"]:
            return start(self._send, self.served.take(frame, is_fresh))  # A12
        answer = replace(frame, kind=REPLY, flags=0, stamp=0, settled=0, epoch=0, args=(2, 0, 0, 0), payload=b"{}")  # R10, R12
        name = next((name for name, number in FUNCTIONS.items() if number == frame.function), "")
        if name not in ("ROSTER", "ABORT", "PREPARE", "HEARTBEAT"):  # section 15, step 2
            error = text_of({"code": "UNKNOWN_FUNCTION", "message": f"no function {frame.function} here", "retryable": False})
            return start(self._send, replace(answer, kind=FAILURE, args=(len(error), 0, 0, 0), payload=error))
        if name == "PREPARE":
            return start(self.worker.prepare, json.loads(frame.payload), lambda: self._send(answer))
        start(self._send, answer)  # R8: also when it comes again
        if name == "ROSTER":
            self.worker.take_roster(json.loads(frame.payload))
        elif name == "ABORT":
            self.worker.close(Failure(json.loads(frame.payload)))  # C20


def start(what: Callable[..., Any], *args: Any) -> None:
    threading.Thread(target=what, args=args, daemon=True).start()


def receive(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = link.recv(size - len(data))
        if not piece:
            raise ConnectionError("the link has ended")  # F5
        data += piece
    return bytes(data)


def end(link: socket.socket) -> None:
    try:
        link.shutdown(socket.SHUT_RDWR)  # wakes who reads
    except OSError:
        pass  # it has ended
    link.close()


class Worker:
    """A worker, by the steps of section 15."""

    def __init__(self, scheduler: str, servers: int, workers: int, rank: int | None = None, job: str = "") -> None:
        self.job, self.node, self.life, self.token = job, 0, 0, secrets.token_hex(16)
        self.stamps, self.calls = itertools.count(1), itertools.count(1)  # R2: one sequence for all conversations
        self.now, self.round = 0, 0
        self.refused, self.prepared = 0, 0  # requests with WRONG_EPOCH, placements that clocks were held for
        self.pushed: dict[int, int] = {}  # at this clock: of each parameter the last push (T4)
        self.servers: dict[int, Conversation] = {}
        self.functions: Functions = {}
        self.roster, self.placement, self.is_called_off = {"version": 0}, {"epoch": 0}, False
        self.clock_lock, self.placed, self.is_done = threading.Lock(), threading.Condition(), threading.Event()
        self.scheduler = Conversation(self, 1, scheduler)  # step 1
        place = self.scheduler.control("REGISTER", {"role": "worker", "rank": rank, "address": "", "serverCount": servers, "workerCount": workers,
                                                    "label": "python", "token": self.token})
        self.job, self.node, self.life = place["job"], place["node"], place["incarnation"]  # C8
        self.take_roster(place["roster"])
        start(self._beat, place["heartbeatIntervalMs"] / 1000)  # step 2
        if not place["recovery"]:
            self.round = self.scheduler.control("BARRIER", {"group": 7, "customer": 0, "round": 1})["round"]  # C41
        for entry in self.roster["nodes"]:
            if entry["role"] == "server":
                self.servers[entry["rank"]] = Conversation(self, entry["node"], entry["address"])  # step 4
        clocks = [answer["clock"] for answer in self._everywhere(JOIN, {"parameters": [], "numbers": []})]  # T1
        self.now = max(clocks)
        if min(clocks) < self.now:
            self._everywhere(ADVANCE, {"clock": self.now} | self._ended())

    def _beat(self, interval: float) -> None:
        while interval and not self.is_done.wait(interval):
            try:
                self.scheduler.control("HEARTBEAT", {})  # C14: one at a time
            except (Failure, OSError):
                pass  # who waits for the scheduler is told

    def take_roster(self, roster: Fields) -> None:
        if roster["version"] > self.roster["version"]:  # C12
            self.roster = roster
            self._take_placement(roster.get("placement"))

    def _take_placement(self, placement: Fields | None) -> None:
        with self.placed:
            if placement and placement["epoch"] > self.placement["epoch"]:
                self.placement = placement | {"owners": owners_of(placement)}  # step 5
                self.placed.notify_all()

    def prepare(self, body: Fields, answer: Callable[[], None]) -> None:
        """P11: between the answer and the new placement no clock ends."""
        with self.placed:
            self.is_called_off = not body["holdMs"]
            self.placed.notify_all()
        if self.is_called_off or self.placement["epoch"] >= body["epoch"]:
            return answer()
        with self.clock_lock, self.placed:
            answer()
            self.prepared += 1
            self.placed.wait_for(lambda: self.is_called_off or self.placement["epoch"] >= body["epoch"], body["holdMs"] / 1000)

    def _answers(self, function: Signature, calls: list[tuple[Any, Call]]) -> Iterator[tuple[Any, Fields]]:
        """Those that came. What was cut by another placement has none, and that placement is taken (P7)."""
        first_error = None
        for name, call in calls:
            try:
                yield name, decode_fields(function.response, call.result())
            except Failure as error:
                if error.code == "WRONG_EPOCH":
                    self.refused += 1
                    self._take_placement(error.detail)
                else:
                    first_error = first_error or error
        if first_error:
            raise first_error

    def _everywhere(self, function: Signature, fields: Fields, priority: int = 0) -> list[Fields]:
        """Calls a function on every server of the placement, with its epoch if it has one (10d, P10)."""
        answers: dict[int, Fields] = {}
        with self.clock_lock:
            while left := [rank for rank in self.placement["servers"] if rank not in answers]:
                epoch = self.placement["epoch"] if function.has_epoch else 0
                answers.update(self._answers(function, [(rank, self.servers[rank].call(function, fields, epoch, priority)) for rank in left]))
        return list(answers.values())

    def _owners(self, function: Signature, keys: np.ndarray, fields: Callable[[np.ndarray], Fields], limit: int = 2**32) -> Iterator[tuple[np.ndarray, Fields]]:
        """Cuts a call by the owners of the keys (P1), at most `limit` keys a request; `fields` makes the request of some indexes. Gives those with their answers."""
        left = np.arange(len(keys))
        while left.size:
            placement, calls = self.placement, []
            owners = placement["owners"][part_of(keys[left])]
            for rank in np.unique(owners).tolist():
                mine = left[owners == rank]
                for some in np.split(mine, range(limit, len(mine), limit)):
                    calls.append((some, self.servers[rank].call(function, fields(some), placement["epoch"])))
            for some, answer in self._answers(function, calls):
                left = np.setdiff1d(left, some)  # what is refused with WRONG_EPOCH stays, and has new numbers and stamps (P7)
                yield some, answer

    def open(self, kind: str, name: str, **spec: Any) -> int:
        """The number of a parameter, made if nobody has (section 10e)."""
        text = text_of({"kind": kind, "name": name, "initializer": {"type": "constant"}, "optimizer": {"type": "sum"}, "updates": "async", "reduce": "sum"} | spec).decode()
        opened = json.loads(self.scheduler.call(OPEN, {"body": {"specs": [text]}}).result())["parameters"][0]  # C36, B1
        self._everywhere(CREATE, {"parameter": opened["number"], "edition": opened["edition"], "spec": text})
        return opened["number"]

    def tensor(self, name: str, shape: list[int], **spec: Any) -> Tensor:
        return Tensor(self, self.open("tensor", name, shape=shape, **spec), shape)

    def table(self, name: str, width: int, **spec: Any) -> Table:
        return Table(self, self.open("table", name, width=width, versions=False, **spec), width)

    def serve(self, function: Signature, handler: Callable[..., Fields]) -> None:
        """From now on servers may call it (A12). The handler gets the fields by their names, on the thread that reads: it must not wait for another call."""
        self.functions[function.command] = (function, handler)

    def _ended(self) -> Fields:
        pushed, self.pushed = self.pushed, {}
        return {"clocks": [self.now] * len(pushed), "parameters": list(pushed), "numbers": list(pushed.values())}  # T4

    def clock(self) -> None:
        """Ends the clock on every server, and waits for the answers (T3)."""
        ended = self._ended()
        self.now += 1
        self._everywhere(ADVANCE, ended | {"clock": self.now}, CLOCK_PRIORITY)

    def leave(self) -> None:
        """Out of the clock sets (T5), to the last barrier, and away (C42)."""
        self._everywhere(LEAVE_CLOCKS, self._ended(), CLOCK_PRIORITY)
        self.scheduler.control("BARRIER", {"group": 7, "customer": 0, "round": self.round and self.round + 1, "outlivesDeaths": True})
        self.scheduler.dials_again = False
        try:
            self.scheduler.control("LEAVE", {}, 10)
        except ConnectionError:
            pass  # a link that ends in place of the reply means the same
        self.close(ConnectionError("the worker has left"))

    def close(self, error: Exception) -> None:
        self.is_done.set()
        for conversation in (self.scheduler, *self.servers.values()):
            conversation.close(error)


class Parameter:
    def __init__(self, worker: Worker, number: int) -> None:
        self.worker, self.number, self.push_count = worker, number, 0

    def place(self) -> Fields:
        return {"parameter": self.number, "clock": self.worker.now}  # T2

    def next_push(self) -> Fields:
        """What all requests of a push have; it has the next number (N1, T4)."""
        self.push_count += 1
        self.worker.pushed[self.number] = self.push_count
        return self.place() | {"pushNumber": self.push_count, "scale": 1.0}


class Tensor(Parameter):
    def __init__(self, worker: Worker, number: int, shape: list[int]) -> None:
        super().__init__(worker, number)
        self.shape, self.block = shape, block_elements(shape)  # B2
        self.keys = np.uint64(number << 32) + np.arange(-(-int(np.prod(shape, dtype=int)) // self.block), dtype="u8")  # P1

    def push(self, gradients: np.ndarray) -> None:
        flat, size, push = np.ravel(gradients).astype("<f4"), self.block, self.next_push()
        list(self.worker._owners(TENSOR_PUSH, self.keys, lambda b: push | {"block": b[0], "rows": [], "gradients": flat[b[0] * size:(b[0] + 1) * size]}, 1))

    def pull(self) -> np.ndarray:
        flat, size, place = np.empty(self.shape, "<f4").ravel(), self.block, self.place()
        for b, answer in self.worker._owners(TENSOR_PULL, self.keys, lambda b: place | {"block": b[0], "rows": []}, 1):
            flat[b[0] * size:(b[0] + 1) * size] = answer["values"]
        return flat.reshape(self.shape)


class Table(Parameter):
    def __init__(self, worker: Worker, number: int, width: int) -> None:
        super().__init__(worker, number)
        self.width = width

    def push(self, keys: Any, gradients: np.ndarray) -> None:
        unique, where = np.unique(np.asarray(keys, "u8"), return_inverse=True)
        sums, push = np.zeros((len(unique), self.width), "<f4"), self.next_push()
        np.add.at(sums, where, gradients)  # B5: each key once
        list(self.worker._owners(ROWS_PUSH, unique, lambda i: push | {"keys": unique[i], "gradients": sums[i]}))

    def pull(self, keys: Any) -> np.ndarray:
        keys, place = np.asarray(keys, "u8"), self.place()
        rows = np.empty((len(keys), self.width), "<f4")
        for i, answer in self.worker._owners(ROWS_PULL, keys, lambda i: place | {"keys": keys[i]}):
            rows[i] = answer["values"].reshape(-1, self.width)
        return rows
