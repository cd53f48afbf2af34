// server-node — Goal: a server shares what it has among the workers that there are, not among those it was told of in
// the beginning.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { MemoryHub, MemoryTransport } from "../transport/memory-transport.ts";
import { idOf } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { ServerNode } from "./server-node.ts";

class ToldNode extends ServerNode {
  tell(roster: RosterView): void {
    this.follow(roster);
  }
}

function rosterOf(workers: number): RosterView {
  const entry = (rank: number): RosterEntry =>
    ({
      node: idOf("worker", rank),
      role: "worker",
      rank,
      address: "",
      label: "",
      incarnation: 1,
      state: "alive",
    }) as unknown as RosterEntry;
  return { version: workers, nodes: Array.from({ length: workers }, (_, rank) => entry(rank)) };
}

test("the more workers there are, the less of the arena each link takes; also beyond those that the job began with", async () => {
  const clock = new SimClock();
  const transport = new MemoryTransport({ clock, hub: new MemoryHub() });
  const open = (workerCount: number): ToldNode =>
    new ToldNode({ clock, transport, schedulerAddress: "memory://s", serverCount: 1, workerCount, arenaBytesMax: 2 ** 26 });
  const [grown, many] = [open(2), open(16)];
  assert.ok(grown.peer.limits.answerBytesMax > many.peer.limits.answerBytesMax);
  grown.tell(rosterOf(16));
  assert.deepEqual(grown.peer.limits, many.peer.limits);
  grown.tell(rosterOf(3));
  assert.deepEqual(grown.peer.limits, many.peer.limits, "who is gone may come back");
  for (const node of [grown, many]) await node.close();
});

test("what a worker pulled is forgotten when the roster says that it died, left, or is another incarnation", async () => {
  const clock = new SimClock();
  const transport = new MemoryTransport({ clock, hub: new MemoryHub() });
  const node = new ToldNode({ clock, transport, schedulerAddress: "memory://s", serverCount: 1, workerCount: 1, arenaBytesMax: 2 ** 26 });
  const { parameters } = node.server;
  const spec = {
    ...{ kind: "tensor", name: "w", shape: [8], updates: "async", reduce: "sum" },
    ...{ initializer: { type: "constant", value: 0 }, optimizer: { type: "dcAsgd", learningRate: 0.1, nonFinite: "refuse" } },
  };
  parameters.create(JSON.stringify(spec), { number: 1, edition: 1 });
  const { store } = parameters.tensor(1);
  store.touch(0);
  const own = store.usedBytes;
  const roster = rosterOf(1);
  const [entry] = roster.nodes as [RosterEntry];
  for (const change of [{ state: "dead" }, { state: "left" }, { incarnation: 2 }] as const) {
    node.tell({ version: 1, nodes: [entry] });
    store.notePull(0, { worker: 0 });
    assert.ok(store.usedBytes > own);
    node.tell({ version: 1, nodes: [entry] });
    assert.ok(store.usedBytes > own, "nothing changed");
    node.tell({ version: 2, nodes: [{ ...entry, ...change }] });
    assert.equal(store.usedBytes, own, JSON.stringify(change));
  }
  await node.close();
});
