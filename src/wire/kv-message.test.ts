// Goal: the flags of kv messages do not touch each other, nor the number of the values' type.

import assert from "node:assert/strict";
import { test } from "node:test";
import { APP_CUT } from "./frame.ts";
import { dtypeBits, dtypeOfFlags, KvFlag } from "./kv-message.ts";

test("a type shares the flags with every flag there is, APP_CUT too", () => {
  const all = Object.values(KvFlag).reduce((flags, flag) => flags | flag, 0);
  assert.equal(
    Object.values(KvFlag).reduce((sum, flag) => sum + flag, 0),
    all,
    "no two are the same bit",
  );
  for (let dtype = 0; dtype < 128; dtype++) {
    const flags = dtypeBits(dtype) | all | APP_CUT;
    assert.equal(dtypeOfFlags(flags), dtype);
    assert.equal(flags & all, all);
    assert.ok(flags <= 0xffff);
  }
});
