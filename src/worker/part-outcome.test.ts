// Goal: a failure of an update that was applied in part says so, by server, and is never taken for one that may be repeated.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { rowsPull, rowsPush } from "../contracts/rows.ts";
import { mayBeApplied } from "../peer/gone-error.ts";
import { fateOf, partsFailure } from "./part-outcome.ts";

const full = new WeighbridgeError("ARENA_FULL", "no room", { retryable: true });

test("the failure of an update that some servers applied names who did, who may have, and who did not", () => {
  const told = partsFailure(full, [
    { fn: rowsPush, server: 2, fate: "applied" },
    { fn: rowsPush, server: 0, fate: undefined },
    { fn: rowsPush, server: 1, fate: "applied" },
    { fn: rowsPush, server: 3, fate: "unsure" },
  ]);
  assert.equal(
    told.message,
    "no room; the update was applied in part: applied by server 1, server 2, perhaps by server 3, not by server 0",
  );
  assert.deepEqual([told.code, told.retryable, mayBeApplied(told)], ["ARENA_FULL", false, true]);
});

test("an update that nobody applied, and reads beside it, fail as they did", () => {
  assert.equal(
    partsFailure(full, [
      { fn: rowsPush, server: 0, fate: undefined },
      { fn: rowsPull, server: 1, fate: undefined },
    ]),
    full,
  );
});

test("a refusal says that nothing was applied; a lost link, a dead node and a lost answer leave it open", () => {
  assert.equal(fateOf(full), undefined);
  for (const code of ["LINK_LOST", "NODE_DEAD", "ANSWER_LOST"] as const) assert.equal(fateOf(new WeighbridgeError(code, "gone")), "unsure");
});
