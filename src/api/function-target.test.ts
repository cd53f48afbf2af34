// Goal: a call goes to the server that is named or that owns the key; anything else is refused with what was expected.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hashKey } from "../keys/hash-key.ts";
import { type FunctionTarget, routeOf } from "./function-target.ts";

test("a server is named by its number; one that is not there is NO_ROUTE", () => {
  for (const server of [0, 1, 2]) assert.deepEqual(routeOf({ server }, [0, 1, 2]), { server });
  for (const server of [-1, 3, 0.5, Number.NaN])
    assert.throws(() => routeOf({ server }, [0, 1, 2]), { code: "NO_ROUTE", message: /servers 0 to 2/ }, `${server}`);
  assert.deepEqual(routeOf({ server: 7 }, [1, 7]), { server: 7 });
  assert.throws(() => routeOf({ server: 0 }, [1, 7]), { code: "NO_ROUTE", message: /servers 1, 7,/ });
});

test("keys from 0 to 2^64 - 1 are targets, and strings, which are hashed", () => {
  assert.deepEqual(routeOf({ key: 3 }, [0]), { key: 3n });
  assert.deepEqual(routeOf({ key: "user:5" }, [0]), { key: hashKey("user:5") });
  for (const key of [0n, 1n, 2n ** 63n, 2n ** 64n - 1n]) assert.deepEqual(routeOf({ key }, [0]), { key });
});

test("what is no target is refused before anything is sent", () => {
  for (const target of [undefined, null, 3, "server", {}, { key: 0.5 }, { key: -1n }, { key: 2n ** 64n }])
    assert.throws(() => routeOf(target as FunctionTarget, [0]), { code: "BAD_ARGUMENT", message: /\{ server: its number \}/ });
});
