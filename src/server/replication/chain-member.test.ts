// chain-member.test — Goal: what a replicated or durable server cannot be is refused by name before it starts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../../testing/throws-code.ts";
import { checkReplication } from "./chain-member.ts";

test("more than two copies, a standby of none, and copies behind ps-lite's protocol are refused by name", () => {
  assert.throws(() => checkReplication({ replicas: 3 }), throwsCode("UNSUPPORTED", /1 or 2 processes, not by 3/));
  assert.throws(() => checkReplication({ isStandby: true }), throwsCode("BAD_CONFIG", /a standby belongs to a cluster with replicas 2/));
  assert.throws(
    () => checkReplication({ replicas: 2, gateway: {} }),
    throwsCode("UNSUPPORTED", /servers behind ps-lite's protocol are not replicated/),
  );
  checkReplication({ replicas: 2, isStandby: true, restoreFrom: "checkpoint" });
  checkReplication({ gateway: {}, restoreFrom: "checkpoint" });
});

test("a durable server is not replicated, restores no checkpoint, and does not speak ps-lite's protocol", () => {
  const durable = {};
  assert.throws(() => checkReplication({ durable, replicas: 2 }), throwsCode("UNSUPPORTED", /replicated or durable, not both/));
  assert.throws(() => checkReplication({ durable, restoreFrom: "checkpoint" }), throwsCode("UNSUPPORTED", /does not restore checkpoints/));
  assert.throws(
    () => checkReplication({ durable, gateway: {} }),
    throwsCode("UNSUPPORTED", /servers behind ps-lite's protocol are not durable/),
  );
  checkReplication({ durable });
});
