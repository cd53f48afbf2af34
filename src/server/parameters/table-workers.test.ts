// Goal: whoever holds rows under an older claim writes none of them, also when the server was restarted in between.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RowClaims } from "./table-workers.ts";

test("the newest claim may write, every one before it is FENCED with both numbers (RowClaims.K1)", () => {
  const claims = new RowClaims("users");
  assert.equal(claims.isClaimed, false);
  const [first, second] = [claims.next(), claims.next()];
  claims.check(second);
  assert.throws(() => claims.check(first), { code: "FENCED", message: /rows of users .*\(claim 2\).* claim 1 is void/ });
  assert.equal(claims.isClaimed, true);
});

test("a server that was restarted takes the claim that it is told of for the newest", () => {
  const claims = new RowClaims("users");
  claims.check(5);
  assert.throws(() => claims.check(4), { code: "FENCED" });
  assert.equal(claims.next(), 6);
});
