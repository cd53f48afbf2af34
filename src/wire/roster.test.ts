// Goal: whoever waits for a cluster is told which ranks are missing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { missingText, type WaitingNode } from "./roster.ts";

const COUNTS = { serverCount: 2, workerCount: 3 };
const node = (role: "server" | "worker", rank?: number): WaitingNode => ({ role, rank });

test("ranks that nobody asked for are missing; a node that takes any rank has the lowest of those", () => {
  assert.equal(missingText(COUNTS, []), "server 0, server 1, worker 0, worker 1, worker 2");
  assert.equal(missingText(COUNTS, [node("server", 1), node("worker", 0), node("worker", 2)]), "server 0, worker 1");
  assert.equal(missingText(COUNTS, [node("server"), node("worker", 0), node("worker")]), "server 1, worker 2");
  assert.equal(missingText({ serverCount: 1, workerCount: 1 }, [node("server", 0), node("worker")]), "");
});

test("of many the first are named, and the others counted", () => {
  const text = missingText({ serverCount: 0, workerCount: 1000 }, [node("worker", 1)]);
  assert.equal(text, "worker 0, worker 2, worker 3, worker 4, worker 5, worker 6, worker 7, worker 8 and 991 more");
});
