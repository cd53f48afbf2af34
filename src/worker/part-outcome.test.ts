// Goal: a failure of an update that was applied in part says so, by server, and is never taken for one that may be
// repeated.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { rowsPull, rowsPush } from "../contracts/rows.ts";
import { mayBeApplied } from "../peer/call.ts";
import { type Fate, fateOf, partsFailure } from "./part-outcome.ts";

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

test("of a server that applied some pieces of an update and refused others, the failure says how many it applied", () => {
  const told = (...pieces: readonly (readonly [number, Fate])[]): string =>
    partsFailure(
      full,
      pieces.map(([server, fate]) => ({ fn: rowsPush, server, fate })),
    ).message;
  assert.equal(
    told([0, "applied"], [0, "applied"], [0, undefined]),
    "no room; the update was applied in part: 2 of its 3 pieces by server 0",
  );
  assert.equal(
    told([1, undefined], [0, undefined], [2, "applied"], [0, "unsure"], [0, "applied"]),
    "no room; the update was applied in part: applied by server 2, not by server 1, 1 of its 3 pieces and perhaps 1 more by server 0",
  );
});

test("a step that is to be repeated behind rejoin() stays so, also when other servers applied their pieces, or perhaps did", () => {
  for (const code of ["NODE_DEAD", "NOT_JOINED", "STALE_UPDATE"] as const) {
    for (const fate of ["applied", "unsure"] as const) {
      const told = partsFailure(new WeighbridgeError(code, "again", { retryable: true }), [
        { fn: rowsPush, server: 0, fate },
        { fn: rowsPush, server: 1, fate: undefined },
      ]);
      assert.deepEqual([told.code, told.retryable, mayBeApplied(told)], [code, true, true], `${code}, ${fate}`);
    }
  }
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

test("a refusal says that nothing was applied; a lost link, a dead node, a lost answer and a user's handle that failed leave it open", () => {
  assert.equal(fateOf(full), undefined);
  for (const code of ["LINK_LOST", "NODE_DEAD", "ANSWER_LOST", "HANDLER_FAILED"] as const)
    assert.equal(fateOf(new WeighbridgeError(code, "gone")), "unsure");
});
