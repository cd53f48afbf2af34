// Goal: a node that heard that the job is over answers that and dials no other node any more (Membership.M3), though
// it is not closed yet.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ABORT } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../testing/memory-cluster.ts";
import { MemoryTransport } from "../transport/memory-transport.ts";
import type { Address, Transport } from "../transport/transport.ts";
import { idOf } from "../wire/node-id.ts";

test("a worker that heard that the job is over stops dialing the scheduler and the servers", async () => {
  const cluster = new MemoryCluster();
  const dialed: Address[] = [];
  const inner = new MemoryTransport({ clock: cluster.clock, hub: cluster.hub });
  const transport: Transport = {
    listen: (address, accept) => inner.listen(address, accept),
    connect: (address, open, options) => {
      dialed.push(address);
      return inner.connect(address, open, options);
    },
  };
  const options = { transport } as MemoryClusterOptions; // its own, so that its dials are counted
  await cluster.run(
    Promise.all([cluster.startNode("scheduler", 0), cluster.startNode("server", 0), cluster.startNode("worker", 0, options)]),
  );
  const channel = cluster.scheduler.node.peer.channel(idOf("worker", 0))!;
  dialed.length = 0;
  const told = callJson(channel, ABORT, { code: "CLOSED", message: "the job is over" }, cluster.clock);
  await cluster.run(told); // the answer leaves before the link is closed
  await cluster.clock.advance(30_000);
  assert.deepEqual(dialed, []);
  assert.throws(() => cluster.worker().node.checkAlive(), { code: "CLOSED" });
  await cluster.run(cluster.worker().close());
});
