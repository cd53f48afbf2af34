// Goal: a scheduler refuses a range of workers, and copies of servers, that cannot be, before it listens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { loadConfig } from "./config/config.ts";
import { startScheduler } from "./scheduler-root.ts";

const BASE = { role: "scheduler", serverCount: 1, workerCount: 3, schedulerPort: 9700 } as const;

test("refuses fewer workers than the start waits for, and more than ps-lite's protocol can have", async () => {
  assert.throws(
    () => loadConfig({ options: { ...BASE, workerCountMax: 2 } }),
    throwsCode("BAD_CONFIG", /at least workerCount, 3; found 2/),
  );
  const many = loadConfig({ options: { ...BASE, workerCountMax: 4, van: "zmq" } });
  await assert.rejects(startScheduler(many), throwsCode("BAD_CONFIG", /is 4, but the counts of ps-lite's protocol are fixed/));
});

test("refuses copies of servers behind ps-lite's protocol, as the servers do", async () => {
  const copies = loadConfig({ options: { ...BASE, replicas: 2, van: "zmq" } });
  const message = /replicas is 2, but servers behind ps-lite's protocol \(van zmq\) are not replicated: use --van weighbridge/;
  await assert.rejects(startScheduler(copies, { timeoutMs: 1000 }), throwsCode("BAD_CONFIG", message));
});
