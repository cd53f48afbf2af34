// Goal: every kind of mistake is told, and a flood of one is told in a few lines.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { PeerLog } from "./peer-log.ts";

function stage(level: "info" | "warn" = "warn") {
  const lines: string[] = [];
  const clock = new SimClock();
  const log: Log = { ...SILENT_LOG, [level]: (message: string, fields: unknown) => lines.push(`${message} ${JSON.stringify(fields)}`) };
  return { lines, clock, peerLog: new PeerLog(log, clock) };
}

test("a flood of one message leaves a few lines, and the next line tells how many were left out", async () => {
  const { lines, clock, peerLog } = stage();
  for (let i = 0; i < 1000; i++) peerLog.log("warn", "link broken", { i });
  assert.equal(lines.length, 10);
  await clock.advance(1000);
  peerLog.log("warn", "link broken", { i: 1000 });
  peerLog.log("warn", "link broken", { i: 1001 });
  assert.deepEqual(lines.slice(10), ['link broken {"i":1000,"leftOut":990}', 'link broken {"i":1001}']);
});

test("a flood of one message does not hide another", () => {
  const { lines, peerLog } = stage();
  for (let i = 0; i < 1000; i++) peerLog.log("warn", "link broken", {});
  peerLog.log("warn", "a request failed", {});
  assert.equal(lines.at(-1), "a request failed {}");
});

test("the level decides who hears of it", () => {
  const { lines, peerLog } = stage();
  peerLog.log("debug", "link broken", {});
  assert.deepEqual(lines, []);
});

test("a mistake that every node makes alike is told once, whoever makes it", () => {
  const { lines, peerLog } = stage("info");
  const fail = (code: string, node: string): void => peerLog.logFailure({ code, message: "no", retryable: false }, { node });
  for (const node of ["worker 0", "worker 1", "worker 0"]) fail("UNKNOWN_FUNCTION", node);
  fail("UNKNOWN_PLUG_IN", "worker 1");
  assert.deepEqual(lines, [
    'a request failed {"node":"worker 0","code":"UNKNOWN_FUNCTION","reason":"no"}',
    'a request failed {"node":"worker 1","code":"UNKNOWN_PLUG_IN","reason":"no"}',
  ]);
});

test("a fault that lasts is told once and then once a minute, with how many were left out; another fault is told beside it", async () => {
  const { lines, clock, peerLog } = stage();
  const logFault = (message: string): void => peerLog.logFailure({ code: "UNKNOWN_PARAMETER", message, retryable: false }, {});
  for (let second = 0; second < 60; second++) {
    for (let i = 0; i < 50; i++) logFault("no w");
    if (second === 30) logFault("no v");
    await clock.advance(1000);
  }
  const told = (reason: string): string => `a request failed {"code":"UNKNOWN_PARAMETER","reason":"${reason}"`;
  assert.deepEqual(lines, [`${told("no w")}}`, `${told("no v")}}`]);
  logFault("no w");
  assert.equal(lines.at(-1), `${told("no w")},"leftOut":2999}`);
});

test("faults that differ in every line are still bounded", () => {
  const { lines, peerLog } = stage();
  for (let i = 0; i < 10_000; i++) peerLog.logFailure({ code: "UNKNOWN_PARAMETER", message: `no ${i}`, retryable: false }, {});
  assert.equal(lines.length, 10);
});

test("the stack of what a handler threw is logged once for each place that throws, whatever the message", () => {
  const { lines, peerLog } = stage();
  const failure = { code: "HANDLER_FAILED", message: "oops", retryable: false };
  const fail = (stack: string): void => peerLog.logFailure(failure, { function: "f" }, stack);
  for (const i of [1, 2, 3]) fail(`Error: oops ${i}\n    at update (updaters.ts:7:3)`);
  fail("Error: oops\n    at other (updaters.ts:9:3)");
  const stacks = lines.filter((line) => line.startsWith("a handler threw"));
  assert.deepEqual(stacks, [
    'a handler threw {"function":"f","stack":"Error: oops 1\\n    at update (updaters.ts:7:3)"}',
    'a handler threw {"function":"f","stack":"Error: oops\\n    at other (updaters.ts:9:3)"}',
  ]);
  assert.equal(lines.length, 6);
});
