// Goal: a port that was drawn is free, and nobody draws it again while the process that has it lives.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { portToWish } from "../../../test/support/port-to-wish.ts";
import { freePort, portOrFree } from "./free-port.ts";

/** Of 6,000: chance alone would repeat about twenty. */
const DRAWS = 500;

test("a port that was drawn can be listened on", async () => {
  const server = createServer().listen(await freePort("127.0.0.1"), "127.0.0.1");
  await once(server, "listening");
  server.close();
});

test("a port that was drawn is not drawn again, though nobody listens on it yet (FreePort.F1)", async () => {
  const ports = new Set<number>();
  for (let draw = 0; draw < DRAWS; draw++) ports.add(await freePort("127.0.0.1"));
  assert.equal(ports.size, DRAWS);
});

test("a port that is wished for is taken if it is free, by one caller alone, and any other if not", async () => {
  const wished = await portToWish();
  assert.equal(await portOrFree("127.0.0.1", wished), wished);
  assert.notEqual(await portOrFree("127.0.0.1", wished), wished, "it is another's already, though nothing listens yet (FreePort.F1)");

  const taken = await portToWish();
  const server = createServer().listen(taken, "127.0.0.1");
  await once(server, "listening");
  assert.notEqual(await portOrFree("127.0.0.1", taken), taken);
  server.close();
});
