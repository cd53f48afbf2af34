// Goal: a failure of an update says what became of it, whole and by server, and is never taken for one that may be
// repeated where something was applied.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type UpdateOutcome, WeighbridgeError } from "../base/errors.ts";
import { kvPush } from "../contracts/kv.ts";
import { parameterClear } from "../contracts/parameters.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { rowsPull, rowsPush } from "../contracts/rows.ts";
import { mayBeApplied } from "../peer/call.ts";
import { outcomeOf, outcomeOfCall, tellsOutcome } from "../peer/call-outcome.ts";
import { type Piece, updateFailure } from "./part-outcome.ts";

const full = new WeighbridgeError("ARENA_FULL", "no room", { retryable: true });
type Given = readonly [server: number, outcome: UpdateOutcome | undefined];
const pieces = (...given: Given[]): readonly Piece[] => given.map(([server, outcome]) => ({ server, outcome }));

test("the failure of an update that some servers applied names who did, who may have, and who did not", () => {
  const told = updateFailure(full, pieces([2, "applied"], [0, "not-applied"], [1, "applied"], [3, "unknown"]));
  assert.equal(
    told.message,
    "no room; the update was applied in part: applied by server 1, server 2, perhaps by server 3, not by server 0",
  );
  assert.deepEqual([told.code, told.retryable, told.outcome, mayBeApplied(told)], ["ARENA_FULL", false, "unknown", true]);
  assert.deepEqual(told.parts, [
    { server: 0, outcome: "not-applied" },
    { server: 1, outcome: "applied" },
    { server: 2, outcome: "applied" },
    { server: 3, outcome: "unknown" },
  ]);
});

test("of a server that applied some pieces of an update and refused others, the failure says how many it applied", () => {
  const told = (...given: Given[]): WeighbridgeError => updateFailure(full, pieces(...given));
  const one = told([0, "applied"], [0, "applied"], [0, "not-applied"]);
  assert.equal(one.message, "no room; the update was applied in part: 2 of its 3 pieces by server 0");
  assert.deepEqual([one.outcome, one.parts], ["unknown", [{ server: 0, outcome: "unknown" }]]);
  assert.equal(
    told([1, "not-applied"], [0, "not-applied"], [2, "applied"], [0, "unknown"], [0, "applied"]).message,
    "no room; the update was applied in part: applied by server 2, not by server 1, 1 of its 3 pieces and perhaps 1 more by server 0",
  );
});

test("a step that is to be repeated behind rejoin() stays so within the engine, also when other servers applied their pieces, or perhaps did", () => {
  for (const code of ["NODE_DEAD", "NOT_JOINED", "STALE_UPDATE"] as const) {
    for (const outcome of ["applied", "unknown"] as const) {
      const told = updateFailure(new WeighbridgeError(code, "again", { retryable: true }), pieces([0, outcome], [1, "not-applied"]));
      assert.deepEqual([told.code, told.retryable, told.outcome, mayBeApplied(told)], [code, true, "unknown", true], `${code}, ${outcome}`);
    }
  }
});

test("an update that nobody applied, and reads beside it, fail as they did: it was not applied", () => {
  const told = updateFailure(full, pieces([0, "not-applied"], [1, undefined]));
  assert.deepEqual([told.code, told.message, told.retryable, told.outcome], [full.code, full.message, true, "not-applied"]);
  assert.deepEqual(told.parts, [{ server: 0, outcome: "not-applied" }]);
  assert.equal(updateFailure(full, pieces([0, undefined])), full, "reads have no outcome");
});

test("a push whose pull failed was applied", () => {
  const told = updateFailure(full, pieces([0, "applied"], [1, undefined], [1, "applied"]));
  assert.deepEqual([told.outcome, told.parts?.length, told.message], ["applied", 2, full.message]);
});

test("what was cut again counts where it went, as often as it was cut", () => {
  const moved = {
    server: 0,
    outcome: "unknown",
    replacedBy: [{ server: 1, outcome: "unknown", replacedBy: pieces([1, "applied"], [2, "not-applied"]) }],
  } as const;
  const told = updateFailure(full, [moved]);
  assert.deepEqual(told.parts, [
    { server: 1, outcome: "applied" },
    { server: 2, outcome: "not-applied" },
  ]);
});

test("what never left was not applied, a refusal says what it is, and everything else leaves it open", () => {
  const dead = new WeighbridgeError("NODE_DEAD", "gone");
  assert.equal(outcomeOf(dead, [{ sendCount: 1 }]), "unknown");
  assert.equal(outcomeOf(dead, [{ sendCount: 1 }, { sendCount: 0 }]), "not-applied", "a frame of it has not left");
  assert.equal(outcomeOf(new WeighbridgeError("ARENA_FULL", "full", { outcome: "not-applied" }), [{ sendCount: 2 }]), "not-applied");
});

test("a user's function that throws may have done something before; one that is not there has not", () => {
  const fn = psFunction({ name: "count", request: {}, response: {}, handler: () => ({}) });
  const refused = (code: "BAD_ARGUMENT" | "UNKNOWN_FUNCTION", message: string): UpdateOutcome =>
    outcomeOfCall(fn, new WeighbridgeError(code, message, { outcome: "not-applied" }), [{ sendCount: 1 }]);
  assert.equal(refused("BAD_ARGUMENT", "server 0: no"), "unknown");
  assert.equal(
    refused("UNKNOWN_FUNCTION", "server 0: this node has no function with the name that was called; it has scale"),
    "not-applied",
  );
  assert.deepEqual([fn, rowsPush, kvPush, rowsPull, parameterClear].map(tellsOutcome), [true, true, true, false, false]);
});
