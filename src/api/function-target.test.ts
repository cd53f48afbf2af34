// Goal: a call goes to the server that is named or that owns the key; anything else is refused with what was expected.

import assert from "node:assert/strict";
import { test } from "node:test";
import { rangePlacement } from "../keys/range-placement.ts";
import { type FunctionTarget, serverOf } from "./function-target.ts";

const placement = rangePlacement({ servers: [0, 1, 2], epoch: 0 });

test("a server is named by its number; one that is not there is NO_ROUTE", () => {
  for (const server of [0, 1, 2]) assert.equal(serverOf({ server }, placement), server);
  for (const server of [-1, 3, 0.5, Number.NaN])
    assert.throws(() => serverOf({ server }, placement), { code: "NO_ROUTE", message: /servers 0 to 2/ }, `${server}`);
});

test("keys from 0 to 2^64 - 1 have owners, and all servers own some", () => {
  const owners = new Set(Array.from({ length: 100 }, (_, i) => serverOf({ key: BigInt(i) }, placement)));
  assert.deepEqual(owners, new Set([0, 1, 2]));
  assert.ok([0, 1, 2].includes(serverOf({ key: 2n ** 64n - 1n }, placement)));
});

test("what is no target is refused before anything is sent", () => {
  for (const target of [undefined, null, 3, "server", {}, { key: 3 }, { key: -1n }, { key: 2n ** 64n }])
    assert.throws(() => serverOf(target as FunctionTarget, placement), { code: "BAD_ARGUMENT", message: /\{ server: its number \}/ });
});
