# What a worker and one other node say to each other, over any number of links, written from spec/ alone. Labels in
# comments are rules of protocol.md. Links that break are dialed again. Left out: new incarnations of others (R15, C9).
from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable

from served import Served, failure
from wire import (BLOCK_BYTES, CONTROL_PRIORITY, FAILURE, FUNCTIONS, HELLO, MAX_PAYLOAD, NOTICE, PART, REPLY, REQUEST, BadFrame, Frame, Signature,
                  bundle_of, encode_fields, read_frames, text_of, total_and_offset)

if TYPE_CHECKING:
    from client import Worker

Fields = dict[str, Any]
ANSWER_SECONDS = 60


class Failure(Exception):
    """What a node refused, with its code (E1, E2)."""

    def __init__(self, body: Fields) -> None:
        super().__init__(f"{body['code']}: {body['message']}")
        self.code, self.retryable, self.detail = body["code"], body.get("retryable", False), body.get("detail") or {}


class Call(Future):
    """A request that was sent, and what has come of its answer."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame, self.answer = frame, bytearray()


class Conversation:
    """What a worker and one other node say to each other, over any number of links (section 5). One thread reads a link, always, and never waits for one that
    writes: a node that does not read is not read from (section 12). The lock is for what is sent, and keeps the order of its numbers (R1)."""

    def __init__(self, worker: Worker, peer: int, address: str) -> None:
        self.worker, self.peer, self.address = worker, peer, address
        self.incarnation, self.next, self.expected, self.dials_again = 0, 1, 1, True
        self.open: dict[int, Call] = {}
        self.served = Served(worker.functions)
        self.lock = threading.RLock()
        self._connect()

    def _connect(self) -> None:
        """Dials until the node takes us, refuses for good (H10), or was away for too long (R13, R18)."""
        deadline, pause = time.monotonic() + 30, 0.02
        scheme, address = self.address.split("://", 1)
        host, _, port = address.rpartition(":")
        while True:
            link = socket.socket(socket.AF_UNIX if scheme == "unix" else socket.AF_INET)
            link.settimeout(10)
            try:
                link.connect(address if scheme == "unix" else (host, int(port)))
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
        # H3 to H5, H14.
        hello = {"job": me.job, "kind": "worker", "node": me.node, "incarnation": me.incarnation, "expects": self.expected,
                 "capabilities": ["runs"]}  # H11
        # H1, H12.
        link.sendall(Frame(HELLO, payload=text_of(hello | ({"token": me.token} if me.node else {}))).encode())
        frame = next(read_frames(lambda size: receive(link, size)))
        body = json.loads(frame.payload)
        if frame.kind == FAILURE:
            raise Failure(body)
        if frame.kind != HELLO or body["node"] != self.peer or body["incarnation"] < self.incarnation:
            link.sendall(Frame(FAILURE, payload=text_of({"code": "NO_ROUTE", "message": "not the node I want", "retryable": True})).encode())
            raise BadFrame(f"the hello of node {body.get('node')}, not {self.peer}")  # H9
        if not min(self.open, default=self.next) <= body["expects"] <= self.next or 0 < self.incarnation < body["incarnation"]:
            # R14, R15.
            raise Failure({"code": "NODE_DEAD", "message": f"node {self.peer} has forgotten the conversation"})
        link.settimeout(None)
        self.incarnation, self.link = body["incarnation"], link
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

    def together(self, requests: list[tuple[Signature, Fields]], epoch: int) -> list[Call]:
        """Several functions by name in one frame, for one placement (A15, A16). Each has an answer of its own."""
        calls = []
        with self.lock:
            for function, fields in requests:
                payload, number = encode_fields(function.request, fields), self.next
                self.next += 1
                stamp = next(self.worker.stamps) if function.is_update else 0
                calls.append(Call(Frame(REQUEST, FUNCTIONS["FUNCTION"], request=number, stamp=stamp, settled=min(self.open, default=number), epoch=epoch,
                                        command=function.command, args=(function.arg0, 0, 0, len(payload)), payload=payload)))
                self.open[number] = calls[-1]
            self._send(bundle_of([call.frame for call in calls]))
        return calls

    def control(self, name: str, body: Fields, timeout: float = ANSWER_SECONDS) -> Fields:
        # Section 8.
        return json.loads(self.request(Frame(REQUEST, FUNCTIONS[name], priority=CONTROL_PRIORITY, payload=text_of(body))).result(timeout))

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
            self.open.popitem()[1].set_exception(error)

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
        if frame.kind == REPLY:
            call.answer += frame.payload
            if len(call.answer) < total_and_offset(frame)[0]:
                return  # R12: more is to come
        del self.open[frame.request]
        if frame.kind == REPLY:
            call.set_result(bytes(call.answer))
        else:
            call.set_exception(Failure(json.loads(frame.payload)))

    def _take_request(self, frame: Frame) -> None:
        self.expected = max(self.expected, min(frame.settled, frame.request))  # R5
        if frame.request > self.expected:
            return start(self._send, Frame(NOTICE, request=self.expected))  # R7
        is_fresh = frame.request == self.expected
        self.expected += is_fresh  # R6
        if frame.function == FUNCTIONS["FUNCTION"]:
            return start(self._send, self.served.take(frame, is_fresh))  # A12
        start(self._answer, frame)  # R8: also when it comes again

    def _answer(self, frame: Frame) -> None:
        """Answers what the scheduler asks of every worker (section 15, step 2)."""
        handler = self.worker.control_handlers.get(frame.function)
        kind, body = (REPLY, b"{}") if handler else failure("UNKNOWN_FUNCTION", f"no function {frame.function} here")
        if handler:
            handler(json.loads(frame.payload))
        # R10, R12.
        self._send(replace(frame, kind=kind, flags=0, stamp=0, settled=0, epoch=0, args=(len(body), 0, 0, 0), payload=body))


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
