// Greetings, READY and frame headers, as libzmq writes them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import {
  checkGreeting,
  decodeCommand,
  decodeReady,
  encodeGreeting,
  encodeReady,
  frameHeaderBytes,
  identityOf,
  nodeOfIdentity,
  readLongLength,
  writeFrameHeader,
  ZmtpFlag,
} from "./zmtp.ts";

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const isBad = (error: unknown): boolean => isWeighbridgeError(error, "BAD_FRAME");

test("greetings and READY are libzmq's, byte for byte", () => {
  assert.equal(hexOf(encodeGreeting("ps1")), `ff00000000000000047f03014e554c4c${"00".repeat(48)}`);
  assert.equal(hexOf(encodeGreeting("")), `ff00000000000000017f03014e554c4c${"00".repeat(48)}`);
  assert.equal(
    hexOf(encodeReady("DEALER", "ps1")),
    "042c0552454144590b536f636b65742d54797065000000064445414c4552084964656e7469747900000003707331",
  );
  assert.equal(hexOf(encodeReady("ROUTER", "")), "04290552454144590b536f636b65742d5479706500000006524f55544552084964656e7469747900000000");
});

test("READY is read back, and one that ends early is refused", () => {
  const { name, body } = decodeCommand(encodeReady("DEALER", "ps12").subarray(2));
  assert.equal(name, "READY");
  const { socketType, identity } = decodeReady(body);
  assert.deepEqual([socketType, nodeOfIdentity(identity)], ["DEALER", 12]);
  for (let length = 1; length < body.length; length++) {
    try {
      decodeReady(body.subarray(0, length)); // it may end between two properties
    } catch (thrown) {
      assert.ok(isBad(thrown), String(thrown));
    }
  }
  assert.throws(() => decodeCommand(Uint8Array.of(9, 1)), isBad);
});

test("a scheduler's incarnation is read from its READY, and an invalid one is ignored", () => {
  const incarnationIn = (ready: Uint8Array): number | undefined => decodeReady(decodeCommand(ready.subarray(2)).body).incarnation;
  const incarnation = 1_790_000_000_000;
  assert.equal(incarnationIn(encodeReady("ROUTER", "", incarnation)), incarnation);
  assert.equal(incarnationIn(encodeReady("ROUTER", "")), undefined);
  for (const none of [0, -1, 1.5, 2 ** 53, Infinity]) assert.equal(incarnationIn(encodeReady("ROUTER", "", none)), undefined, String(none));
});

test("only the NULL mechanism of version 3 is taken, whatever fills the signature", () => {
  const greeting = encodeGreeting("");
  greeting.fill(0xab, 1, 9);
  checkGreeting(greeting);
  greeting[11] = 0;
  checkGreeting(greeting);
  const changed = (at: number, byte: number): Uint8Array => {
    const bytes = encodeGreeting("");
    bytes[at] = byte;
    return bytes;
  };
  for (const bytes of [changed(0, 0), changed(9, 0), changed(10, 2), changed(12, 0x50)]) assert.throws(() => checkGreeting(bytes), isBad);
});

test("identities are ps and a number, and nothing else is one", () => {
  assert.deepEqual([identityOf(0), identityOf(9)], ["", "ps9"]);
  for (const [text, node] of [
    ["ps1", 1],
    ["ps1234", 1234],
    ["ps", 0],
    ["ps1x", 0],
    ["xs1", 0],
    ["", 0],
    ["ps12345678901", 0],
  ] as const)
    assert.equal(nodeOfIdentity(bytesOf(text)), node, text);
});

test("frames of up to 255 bytes have a short header, longer ones a long one", () => {
  const bytes = new Uint8Array(9);
  for (const [length, isLast, hex] of [
    [0, true, "0000"],
    [255, false, "01ff"],
    [256, true, "020000000000000100"],
    [2 ** 33 + 5, false, "030000000200000005"],
  ] as const) {
    const end = writeFrameHeader(bytes, 0, length, isLast);
    assert.equal(end, frameHeaderBytes(length));
    assert.equal(hexOf(bytes.subarray(0, end)), hex);
    if ((bytes[0] as number) & ZmtpFlag.LONG) assert.equal(readLongLength(bytes, 1), length);
  }
  assert.throws(() => readLongLength(new Uint8Array(8).fill(255), 0), isBad);
});
