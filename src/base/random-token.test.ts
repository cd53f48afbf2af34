// Goal: names by chance wherever the core runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { randomToken } from "./random-token.ts";

test("a token needs no randomUUID, which pages over plain HTTP lack, and no two are the same", (t) => {
  t.mock.method(crypto, "randomUUID", () => assert.fail("a page over plain HTTP has none"));
  const tokens = new Set(Array.from({ length: 1000 }, randomToken));
  assert.equal(tokens.size, 1000);
  for (const token of tokens) assert.match(token, /^[0-9a-f]{32}$/);
});
