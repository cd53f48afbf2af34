# A worker of a Weighbridge job in plain Python with numpy, written from spec/ alone: it registers, makes tensors and
# tables, pushes, pulls, ends clocks and leaves, by the steps of protocol.md, section 15. Labels in comments are rules
# of protocol.md, N1 of consistency.md. Parts that change hands are found again. Left out: joining again (T6).
from __future__ import annotations

import itertools
import json
import secrets
import threading
from typing import Any, Callable, Iterator

import numpy as np

from conversation import ANSWER_SECONDS, Call, Conversation, Failure, Fields, start
from served import Functions
from wire import CLOCK_PRIORITY, FUNCTIONS, Signature, block_elements, decode_fields, owners_of, part_of, text_of

TENSOR_PUSH = Signature("wb/tensor/push{parameter: u32, block: u32, clock: u32, pushNumber: u32, scale: f32, rows: u32[], gradients: values} → {}", True, True)
TENSOR_PULL = Signature("wb/tensor/pull{parameter: u32, block: u32, clock: u32, rows: u32[]} → {values: values}", False, True)
ROWS_PUSH = Signature("wb/rows/push{parameter: u32, clock: u32, pushNumber: u32, scale: f32, keys: keys, gradients: values} → {}", True, True)
ROWS_PULL = Signature("wb/rows/pull{parameter: u32, clock: u32, keys: keys} → {values: values}", False, True)
JOIN = Signature("wb/clock/join{parameters: u32[], numbers: u32[]} → {clock: u32, lost: u32[]}", True, True)
ADVANCE = Signature("wb/clock/advance{clock: u32, leaves: bool, clocks: u32[], parameters: u32[], numbers: u32[]} → {}", True, True)
CREATE = Signature("wb/parameter/create{parameter: u32, edition: u32, spec: string} → {plugIns: string}", True, False)
OPEN = Signature("wb/catalogue/open{body: json} → {body: json}")


class Worker:
    """A worker, by the steps of section 15."""

    def __init__(self, scheduler: str, servers: int, workers: int, rank: int | None = None, job: str = "") -> None:
        self.job, self.node, self.incarnation, self.token = job, 0, 0, secrets.token_hex(16)
        self.stamps, self.calls = itertools.count(1), itertools.count(1)  # R2: one sequence for all conversations
        self.now, self.round = 0, 0
        self.pushed: dict[int, int] = {}  # at this clock: of each parameter the last push (T4)
        self.servers: dict[int, Conversation] = {}
        self.functions: Functions = {}
        self.control_handlers = {FUNCTIONS["ROSTER"]: self.take_roster, FUNCTIONS["PREPARE"]: self.prepare, FUNCTIONS["HEARTBEAT"]: lambda _: None,
                                 FUNCTIONS["ABORT"]: lambda body: self.close(Failure(body))}  # C20
        self.roster, self.placement, self.is_called_off = {"version": 0}, {"epoch": 0}, False
        self.clock_lock, self.placed, self.is_done = threading.Lock(), threading.Condition(), threading.Event()
        self.scheduler = Conversation(self, 1, scheduler)  # step 1
        registered = self.scheduler.control("REGISTER", {"role": "worker", "rank": rank, "address": "", "serverCount": servers, "workerCount": workers,
                                                    "label": "python", "token": self.token})
        self.job, self.node, self.incarnation = registered["job"], registered["node"], registered["incarnation"]  # C8
        self.take_roster(registered["roster"])
        start(self._beat, registered["heartbeatIntervalMs"] / 1000)  # step 2
        if not registered["recovery"]:
            self.round = self.scheduler.control("BARRIER", {"group": 7, "customer": 0, "round": 1})["round"]  # C41
        for entry in self.roster["nodes"]:
            if entry["role"] == "server":
                self.servers[entry["rank"]] = Conversation(self, entry["node"], entry["address"])  # step 4
        clocks = [answer["clock"] for answer in self._everywhere(JOIN, {"parameters": [], "numbers": []})]  # T1
        self.now = max(clocks)
        if min(clocks) < self.now:
            self._everywhere(ADVANCE, {"clock": self.now, "leaves": False} | self._ended())

    def _beat(self, interval: float) -> None:
        while interval and not self.is_done.wait(interval):
            try:
                self.scheduler.control("HEARTBEAT", {})  # C14: one at a time
            except (Failure, OSError):
                pass  # who waits for the scheduler is told

    def take_roster(self, roster: Fields) -> None:
        with self.placed:
            if roster["version"] > self.roster["version"]:  # C12
                self.roster = roster
                self._take_placement(roster.get("placement"))

    def _take_placement(self, placement: Fields | None) -> None:
        with self.placed:
            if placement and placement["epoch"] > self.placement["epoch"]:
                self.placement = placement | {"owners": owners_of(placement)}  # step 5
                self.placed.notify_all()

    def prepare(self, body: Fields) -> None:
        """P11: between the answer and the new placement no clock ends."""
        with self.placed:
            self.is_called_off = not body["holdMs"]
            self.placed.notify_all()
        if not self._is_placed(body):
            self.clock_lock.acquire()
            start(self._hold_clock, body)

    def _hold_clock(self, body: Fields) -> None:
        with self.placed:
            self.placed.wait_for(lambda: self._is_placed(body), body["holdMs"] / 1000)
        self.clock_lock.release()

    def _is_placed(self, body: Fields) -> bool:
        return self.is_called_off or self.placement["epoch"] >= body["epoch"]

    def _answers(self, function: Signature, calls: list[tuple[Any, Call]]) -> Iterator[tuple[Any, Fields]]:
        """Those that came. What was cut by another placement has none, and that placement is taken (P7)."""
        first_error = None
        for name, call in calls:
            try:
                yield name, decode_fields(function.response, call.result(ANSWER_SECONDS))
            except Failure as error:
                if error.code == "WRONG_EPOCH":
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
                # What is refused with WRONG_EPOCH stays, and has new numbers and stamps (P7).
                left = np.setdiff1d(left, some)
                yield some, answer

    def open(self, kind: str, name: str, **spec: Any) -> int:
        """The number of a parameter, made if nobody has (section 10e)."""
        text = text_of({"kind": kind, "name": name, "initializer": {"type": "constant"}, "optimizer": {"type": "sum"}, "updates": "async", "reduce": "sum"} | spec).decode()
        # C36, B1.
        opened = json.loads(self.scheduler.call(OPEN, {"body": {"specs": [text]}}).result(ANSWER_SECONDS))["parameters"][0]
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
        self._everywhere(ADVANCE, ended | {"clock": self.now, "leaves": False}, CLOCK_PRIORITY)

    def leave(self) -> None:
        """Out of the clock sets (T5), to the last barrier, and away (C42)."""
        self._everywhere(ADVANCE, {"clock": self.now, "leaves": True} | self._ended(), CLOCK_PRIORITY)
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

    def common_fields(self) -> Fields:
        return {"parameter": self.number, "clock": self.worker.now}  # T2

    def next_push(self) -> Fields:
        """What all requests of a push have; it has the next number (N1, T4)."""
        self.push_count += 1
        self.worker.pushed[self.number] = self.push_count
        return self.common_fields() | {"pushNumber": self.push_count, "scale": 1.0}


class Tensor(Parameter):
    def __init__(self, worker: Worker, number: int, shape: list[int]) -> None:
        super().__init__(worker, number)
        self.shape, self.block = shape, block_elements(shape)  # B2
        # P1.
        self.keys = np.uint64(number << 32) + np.arange(-(-int(np.prod(shape, dtype=int)) // self.block), dtype="u8")

    def push(self, gradients: np.ndarray) -> None:
        flat, size, push = np.ravel(gradients).astype("<f4"), self.block, self.next_push()
        list(self.worker._owners(TENSOR_PUSH, self.keys, lambda b: push | {"block": b[0], "rows": [], "gradients": flat[b[0] * size:(b[0] + 1) * size]}, 1))

    def pull(self) -> np.ndarray:
        flat, size, common = np.empty(self.shape, "<f4").ravel(), self.block, self.common_fields()
        for b, answer in self.worker._owners(TENSOR_PULL, self.keys, lambda b: common | {"block": b[0], "rows": []}, 1):
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
        keys, common = np.asarray(keys, "u8"), self.common_fields()
        rows = np.empty((len(keys), self.width), "<f4")
        for i, answer in self.worker._owners(ROWS_PULL, keys, lambda i: common | {"keys": keys[i]}):
            rows[i] = answer["values"].reshape(-1, self.width)
        return rows
