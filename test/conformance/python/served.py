# The functions that a worker serves, which servers call over the links that it opened, written from spec/ alone. Labels
# in comments are rules of protocol.md. Left out: answers of more than one frame (A8).
from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable

from wire import FAILURE, PART, REPLY, Frame, Signature, decode_fields, encode_fields, text_of

Functions = dict[int, tuple[Signature, Callable[..., dict[str, Any]]]]


class Served:
    """Of one conversation: requests that are being put together, and answers that their caller may not have."""

    def __init__(self, functions: Functions) -> None:
        # By command, by number of the call (A7), by number of the request (R8).
        self.functions, self.parts, self.kept = functions, {}, {}

    def take(self, frame: Frame, is_fresh: bool) -> Frame:
        """The answer; one that came before is not run again (A13)."""
        self.kept = {number: answer for number, answer in self.kept.items() if number >= frame.settled}
        if is_fresh:
            self.kept[frame.request] = self._answer(frame)
        return self.kept[frame.request]

    def _answer(self, frame: Frame) -> Frame:
        arg0, number = frame.args[:2]
        whole = self.parts.pop(number, b"") + frame.payload
        kind, body = REPLY, b""
        if frame.flags & PART:
            self.parts[number] = whole  # A7: acknowledged, and answered with the last one
        else:
            kind, body = self._run(frame.command, arg0, whole)
        # R10, R12.
        return replace(frame, kind=kind, flags=0, stamp=0, settled=0, epoch=0, args=(len(body), 0, 0, 0), payload=body)

    def _run(self, command: int, arg0: int, request: bytes) -> tuple[int, bytes]:
        function, handler = self.functions.get(command, (None, None))
        if not function or not handler:
            return failure("UNKNOWN_FUNCTION", f"no function {command} here")  # A9
        if function.arg0 != arg0:
            return failure("SPEC_MISMATCH", f"here it is {function.text}")  # A9
        try:
            return REPLY, encode_fields(function.response, handler(**decode_fields(function.request, request)))
        except Exception as error:
            return failure("HANDLER_FAILED", f"{function.name}: {error}")


def failure(code: str, message: str) -> tuple[int, bytes]:
    return FAILURE, text_of({"code": code, "message": message, "retryable": False})  # E1, E2
