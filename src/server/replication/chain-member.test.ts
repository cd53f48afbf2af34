// chain-member.test — Goal: what a replicated or durable server cannot be is refused by name before it starts; a
// standby whose head is gone says why it leaves; and a head says that its standby is gone, unless the job ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENT_LOG } from "../../base/log.ts";
import type { Membership } from "../../cluster/membership.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { idOf } from "../../wire/node-id.ts";
import type { RosterEntry } from "../../wire/roster.ts";
import { ChainMember, type ChainNode, checkReplication } from "./chain-member.ts";
import type { Replica } from "./replica.ts";

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

/** A standby that is being filled, and what it logs and does when its head is in this state. */
function orphan(state: RosterEntry["state"]): { readonly lines: readonly string[]; readonly leaves: () => number } {
  const lines: string[] = [];
  const put =
    (level: string) =>
    (message: string, fields = {}): void =>
      void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  const log = { ...SILENT_LOG, info: put("info"), warn: put("warn"), error: put("error") };
  let leaveCount = 0;
  const end = (): Promise<void> => Promise.resolve(void leaveCount++);
  const peer = { id: idOf("standby", 0), token: "standby", isLeaving: false };
  const node = { peer, log, leave: end, close: () => Promise.resolve(), whenOver: () => () => false } as unknown as ChainNode;
  const replica = { standbyLog: {}, isStandby: true, standBy: () => {}, repeater: { isFilling: true }, log: {} } as unknown as Replica;
  const chain = new ChainMember(node, replica);
  chain.registering({} as Membership);
  const entry = { address: "", label: "", incarnation: 1 } as const;
  const follow = (headState: RosterEntry["state"]): void => {
    const head: RosterEntry = { ...entry, node: idOf("server", 0), role: "server", rank: 0, state: headState };
    const worker: RosterEntry = { ...entry, node: idOf("worker", 0), role: "worker", rank: 0, state: "alive" };
    chain.follow({ version: 1, nodes: [head, worker] });
  };
  follow("alive");
  follow(state);
  return { lines, leaves: () => leaveCount };
}

test("a standby whose head has left before it had everything leaves too, and that is no error; a dead head is one, without a cause", () => {
  const [left, dead] = [orphan("left"), orphan("dead")];
  assert.deepEqual([left.leaves(), dead.leaves()], [1, 1]);
  assert.deepEqual(left.lines, ["info server 0 has left: this standby, which had not everything yet, leaves too {}"]);
  assert.deepEqual(dead.lines, [
    'error this standby cannot go on, and leaves {"reason":"server 0 is gone, and had not given it everything"}',
  ]);
});

/** What a head logs whose standby has left while a worker is still there. `then`: what the same bytes say next. */
async function abandoned(then: (peer: { isLeaving: boolean }) => void): Promise<readonly string[]> {
  const lines: string[] = [];
  const log = { ...SILENT_LOG, debug: (line: string) => lines.push(`debug ${line}`), warn: (line: string) => lines.push(`warn ${line}`) };
  const clock = new SimClock();
  const peer = {
    id: idOf("server", 0),
    token: "head",
    isLeaving: false,
    dial: () => ({ whenUnlinked: () => {} }),
    channel: () => undefined,
  };
  const node = { peer, clock, log, whenOver: () => () => false, serves: false } as unknown as ChainNode;
  const replicaLog = { isOn: true, sendTo: () => {}, stop: () => {} };
  const replica = { standbyLog: {}, isStandby: false, endFill: () => {}, log: replicaLog } as unknown as Replica;
  const chain = new ChainMember(node, replica);
  const entry = { address: "", label: "", incarnation: 1 } as const;
  const follow = (state: RosterEntry["state"]): void => {
    const standby: RosterEntry = { ...entry, node: idOf("standby", 0), role: "standby", rank: 0, state };
    const worker: RosterEntry = { ...entry, node: idOf("worker", 0), role: "worker", rank: 0, state: "alive" };
    const roster = { version: 1, nodes: [standby, worker] };
    chain.registering({ roster } as unknown as Membership);
    chain.follow(roster);
  };
  follow("alive");
  follow("left");
  then(peer);
  await clock.advance(1);
  return lines;
}

test("a head warns that its standby is gone, but not if the answer that came with this roster ends the job", async () => {
  assert.deepEqual(await abandoned(() => {}), ["warn the standby is gone: going on without one"]);
  const ended = await abandoned((peer) => {
    peer.isLeaving = true;
  });
  assert.deepEqual(ended, ["debug the standby has left: the job ends"]);
});
