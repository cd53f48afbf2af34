// row-messages — Goal: what one worker says another understands, and what makes no sense is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import * as messages from "./row-messages.ts";

const isBadRequest = (error: unknown): boolean => isWeighbridgeError(error, "BAD_REQUEST");

test("questions, rows and gradients come out as they went in", () => {
  const keys = Uint32Array.of(1, 2, 0xffff_ffff, 0);
  assert.deepEqual(messages.decodeKeyRequest(messages.encodeKeyRequest({ isKnown: true, keys })), { isKnown: true, keys });
  assert.equal(messages.decodeKeyRequest(messages.encodeKeyRequest({ isKnown: false, keys: new Uint32Array(0) })).isKnown, false);
  const { bytes, rows } = messages.rowsMessage(2, 3);
  rows.set([1, 2, 3, 4, 5, 6]);
  assert.deepEqual(messages.decodeRows(bytes, 3), Float32Array.of(1, 2, 3, 4, 5, 6));
  assert.equal(messages.decodeRows(messages.requestAgainMessage(), 3), "again");
  const given = messages.gradientsMessage({ clock: 7, scale: 0.5, isPush: true, rowCount: 1, width: 2 });
  given.positions.set([4]);
  given.values.set([8, 9]);
  const decoded = messages.decodeGradients(given.bytes, 2);
  assert.deepEqual(decoded, { clock: 7, scale: 0.5, isPush: true, positions: Uint32Array.of(4), values: Float32Array.of(8, 9) });
  const nothing = messages.gradientsMessage({ clock: 7, scale: 1, isPush: false, rowCount: 0, width: 2 });
  assert.equal(messages.decodeGradients(nothing.bytes, 2).isPush, false);
  assert.deepEqual(messages.decodeAssignment(messages.assignmentMessage({ claims: [1] })), { claims: [1] });
});

test("a failure arrives as an error with its code", () => {
  const error = new WeighbridgeError("ARENA_FULL", "no room for rows");
  const arrives = (thrown: unknown): boolean => isWeighbridgeError(thrown, "ARENA_FULL") && thrown.message.includes("no room for rows");
  assert.throws(() => messages.decodeRows(messages.failureMessage(error), 3), arrives);
  assert.throws(() => messages.decodeAssignment(messages.assignmentMessage(error)), arrives);
});

test("every truncation and every other kind is refused", () => {
  const cases: readonly (readonly [Uint8Array, (bytes: Uint8Array) => unknown])[] = [
    [messages.encodeKeyRequest({ isKnown: true, keys: Uint32Array.of(1, 2) }), messages.decodeKeyRequest],
    [messages.rowsMessage(2, 2).bytes, (bytes) => messages.decodeRows(bytes, 2)],
    [
      messages.gradientsMessage({ clock: 0, scale: 1, isPush: true, rowCount: 2, width: 2 }).bytes,
      (bytes) => messages.decodeGradients(bytes, 2),
    ],
    [messages.assignmentMessage({ a: 1 }), messages.decodeAssignment],
  ];
  for (const [i, [bytes, decode]] of cases.entries()) {
    for (let length = 0; length < bytes.length; length++)
      assert.throws(() => decode(bytes.slice(0, length)), isBadRequest, `${i}: ${length}`);
    for (const [other] of cases.filter((_, j) => j !== i)) assert.throws(() => decode(other), isBadRequest);
  }
});
