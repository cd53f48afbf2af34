// Goal: a scheduler says once why it refused a node, and a restarted one announces those alone that it has heard.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RosterChanges } from "../../src/node/run-scheduler.ts";
import type { Peer } from "../../src/peer/peer.ts";
import type { ScheduledRoster } from "../../src/scheduler/scheduler-options.ts";
import { ControlCluster } from "../../src/testing/control-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import type { MemberKind } from "../../src/wire/hello.ts";
import { keptLog } from "./cut-links.ts";

/** A cluster whose scheduler, and its peer, write to these lines. */
function logged(): { readonly cluster: ControlCluster; readonly lines: string[] } {
  const lines: string[] = [];
  class LoggedCluster extends ControlCluster {
    override peer(host: string, packageVersion?: string, kind?: MemberKind): Peer {
      return super.peer(host, packageVersion, kind, host === "scheduler" ? keptLog(lines) : undefined);
    }
  }
  return { cluster: new LoggedCluster(), lines };
}

test("a node that is refused is in the scheduler's log once, with the reason, also when that ends the start of all", async () => {
  const { cluster, lines } = logged();
  const log = keptLog(lines);
  await cluster.formed({ log });
  const second = cluster.node("worker", "w-second", { rank: 0 });
  await assert.rejects(cluster.clock.runUntil(second.joined, { untilMs: 100_000 }), throwsCode("RANK_TAKEN"));
  assert.equal(lines.filter((line) => line.includes("requests the rank of worker 0")).length, 1, lines.join("\n"));

  const forming = logged();
  await forming.cluster.scheduler({ log: keptLog(forming.lines) });
  const others = [forming.cluster.node("worker", "w0", { rank: 0 }), forming.cluster.node("worker", "w1", { rank: 0 })];
  for (const { joined } of others)
    await assert.rejects(forming.cluster.clock.runUntil(joined, { untilMs: 100_000 }), throwsCode("RANK_TAKEN"));
  assert.equal(forming.lines.filter((line) => line.includes("both ask to be worker 0")).length, 1, forming.lines.join("\n"));
});

test("a restarted scheduler does not announce processes that have died meanwhile as joined, nor the cluster as complete", async () => {
  const cluster = new ControlCluster();
  await cluster.formed();
  cluster.network.crash("scheduler");
  cluster.network.crash("w1");
  const changes = new RosterChanges(cluster);
  const said: string[] = [];
  const restarted = await cluster.scheduler();
  restarted.onRoster((roster: ScheduledRoster) => said.push(...changes.since(roster)));
  await cluster.clock.advance(3000);
  assert.deepEqual(said.map((line) => line.replace(/ {2}sim:\S+/, "")).sort(), [
    "server/0 ready  s0",
    "server/1 ready  s1",
    "worker/0 ready  w0",
  ]);
  await cluster.clock.advance(10_000);
  assert.deepEqual(said.slice(3), ["worker/1 is dead"]);
  await cluster.restarted("worker", "w1", { rank: 1 });
  await cluster.clock.advance(1000);
  assert.match(said[4] ?? "", /^worker\/1 ready again {2}\S+ {2}w1 {2}incarnation 2$/);
  assert.match(said[5] ?? "", /^the cluster is complete/);
});
