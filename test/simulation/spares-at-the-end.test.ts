// Goal: spare servers end with the job that did not need them, and do not look for its scheduler for as long as a start
// may take.

import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogueOpen } from "../../src/contracts/catalogue.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { ControlCluster } from "../../src/testing/control-cluster.ts";
import { specText } from "../../src/testing/test-catalogues.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SETTLING } from "../support/settling.ts";
import { SimStore } from "./replicated-job.ts";

const WRITE_MS = 30;

test("a spare hears of the end of the job also when the scheduler is still writing as the last node leaves", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1, settle: SETTLING });
  const { clock } = cluster;
  const records: StateRecord[] = [];
  const store = new SimStore(records, (written) => void clock.after(WRITE_MS, written));
  const scheduler = await clock.runUntil(cluster.scheduler({ store }));
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  await clock.runUntil(Promise.all(nodes.map(({ joined }) => joined)));
  const [server, worker] = nodes.map(({ membership }) => membership);
  assert.ok(server !== undefined && worker !== undefined);
  const spare = cluster.node("server", "spare", { startTimeoutMs: 20_000 });
  await clock.advance(2000);
  scheduler.finished.then(() => scheduler.close()).catch(() => {}); // as its process does
  scheduler.ending();
  server.callScheduler(catalogueOpen, { specs: [specText("late")] }).catch(() => {}); // what is still written
  const left = Promise.all([worker.leave(), server.leave()]);
  left.catch(() => {}); // looked at below
  const fromMs = clock.nowMs();
  await assert.rejects(clock.runUntil(spare.joined, { untilMs: fromMs + 60_000 }), throwsCode("CLOSED"));
  assert.ok(clock.nowMs() - fromMs < 1000, `${clock.nowMs() - fromMs} ms`);
  await clock.runUntil(left, { untilMs: clock.nowMs() + 10_000 });
});
