// Goal: the pulse of a standby that takes over speaks for what the process is, from the moment of the takeover: a head
// whose loop is busy before the scheduler has resumed it has its whole loopTimeoutMs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Log, SILENT_LOG } from "../../src/base/log.ts";
import type { Pulse } from "../../src/cluster/pulse.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

const [HEAD, STANDBY] = [idOf("server", 0), idOf("standby", 0)];

test("from the moment in which a standby takes over its pulse speaks for the head, without a gap while it registers again", async () => {
  const said: { readonly what: string; readonly atMs: number }[] = [];
  const say = (what: string): void => void said.push({ what, atMs: cluster.clock.nowMs() });
  const pulse: Pulse = {
    speak: ({ node, frames }) => {
      const [, incarnation] = /"incarnation":(\d+)/.exec(new TextDecoder().decode(frames.hello)) ?? [];
      say(`speaks for ${node} ${incarnation}`);
      return () => say("hushes");
    },
    answer: async () => ({ address: "sim://pulse:1", close: () => {} }),
    ask: async () => assert.fail("no other process is asked"),
  };
  const log: Log = { ...SILENT_LOG, warn: (message) => void (message === "taking over" && say(message)) };
  const cluster: SimCluster = new SimCluster({
    ...{ seed: 1, serverCount: 1, workerCount: 1, replicas: 2, settle: SETTLING, log },
    optionsOf: (node) => (node === STANDBY ? { pulse } : {}),
  });
  await cluster.start();
  said.splice(0, said.length - 1);
  assert.equal(said[0]?.what, `speaks for ${STANDBY} 1`);
  cluster.kill(HEAD);
  await cluster.clock.advance(10_000);
  const takenOverMs = said.find(({ what }) => what === "taking over")?.atMs ?? Number.NaN;
  const [resumed] = said.splice(-2);
  assert.deepEqual(said.map(({ what, atMs }) => `${what} ${atMs - takenOverMs}`).slice(1), [
    "taking over 0",
    "hushes 0",
    `speaks for ${HEAD} 2 0`,
  ]);
  assert.ok(resumed!.atMs > takenOverMs, "the answer to its registration comes later");
  cluster.takenOver(0);
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
});
