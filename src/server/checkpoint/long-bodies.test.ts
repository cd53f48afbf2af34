// Goal: requests and answers of any length arrive as they were, in pieces that fit a control frame; what does not fit together is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { PAYLOAD_BYTES_MAX } from "../../wire/frame.ts";
import { askInPieces, LongBodies, PIECE_CHARS } from "./long-bodies.ts";

/** A server that answers every request with itself, and what it was asked. */
function stage() {
  const asked: string[] = [];
  const frames: number[] = [];
  const bodies = new LongBodies(async (op, body) => {
    asked.push(`${op} ${body.length}`);
    return body;
  });
  const carry = async (op: string, body: string) => {
    const reply = await bodies.serve(op, body);
    frames.push(Buffer.byteLength(JSON.stringify({ server: 0, op, body })), Buffer.byteLength(JSON.stringify(reply)));
    return reply;
  };
  return { asked, frames, bodies, carry };
}

const rejectsCode = (code: "BAD_REQUEST" | "UNSUPPORTED") => (error: unknown) => isWeighbridgeError(error, code);

test("bodies of every length come back as they were, escapes and halves of letters included, in frames that are legal", async () => {
  for (const length of [0, 1, PIECE_CHARS - 1, PIECE_CHARS, PIECE_CHARS + 1, 3 * PIECE_CHARS, 3 * PIECE_CHARS + 5]) {
    for (const letters of ["a", '"', "\\", "\u0001", "€", "😀", 'x"\\😀\n']) {
      const { asked, frames, carry } = stage();
      const body = letters.repeat(Math.ceil(length / letters.length)).slice(0, length);
      assert.equal(await askInPieces(carry, { op: "echo", body, id: "one" }), body, `${length} of ${JSON.stringify(letters)}`);
      assert.deepEqual(asked, [`echo ${length}`]);
      assert.ok(Math.max(...frames) < PAYLOAD_BYTES_MAX, `${Math.max(...frames)} bytes`);
    }
  }
});

test("pieces that come twice count once, and an answer may be asked for again (B1)", async () => {
  const { carry } = stage();
  const text = "b".repeat(PIECE_CHARS);
  for (const at of [0, 0, PIECE_CHARS, 0, PIECE_CHARS]) await carry("part", JSON.stringify({ id: "one", at, text }));
  const first = await carry("whole", JSON.stringify({ id: "one", op: "echo" }));
  for (let i = 0; i < 2; i++) {
    const rest = await carry("more", JSON.stringify({ id: first.more, at: PIECE_CHARS }));
    assert.deepEqual(rest, { body: text, more: undefined });
  }
});

test("a piece without those before it, a request that is not here, and an answer that is gone are refused (B2)", async () => {
  const { bodies, carry } = stage();
  await assert.rejects(bodies.serve("part", JSON.stringify({ id: "one", at: 5, text: "x" })), rejectsCode("BAD_REQUEST"));
  await assert.rejects(bodies.serve("whole", JSON.stringify({ id: "two", op: "echo" })), rejectsCode("BAD_REQUEST"));
  await assert.rejects(bodies.serve("more", JSON.stringify({ id: "7", at: 0 })), rejectsCode("BAD_REQUEST"));
  await assert.rejects(bodies.serve("part", "{"), rejectsCode("BAD_REQUEST"));
  const body = "c".repeat(PIECE_CHARS + 1);
  const first = await carry("echo", body);
  for (let i = 0; i < 4; i++) await carry("echo", body);
  await assert.rejects(bodies.serve("more", JSON.stringify({ id: first.more, at: PIECE_CHARS })), rejectsCode("BAD_REQUEST"));
});

test("what the operation throws reaches the asker, and the next request is as good as any", async () => {
  let isBroken = true;
  const bodies = new LongBodies(async (_op, body) => {
    if (isBroken) throw new Error("broken");
    return body;
  });
  const carry = (op: string, body: string) => bodies.serve(op, body);
  const body = "d".repeat(2 * PIECE_CHARS);
  await assert.rejects(askInPieces(carry, { op: "echo", body, id: "one" }), /broken/);
  isBroken = false;
  assert.equal(await askInPieces(carry, { op: "echo", body, id: "two" }), body);
});
