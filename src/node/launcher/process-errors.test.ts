// Goal: mistakes in a configuration end a process with 2, whenever they are found out; everything else that goes wrong
// with 1.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, WeighbridgeError } from "../../base/errors.ts";
import { exitCodeFor, jobExitCode } from "./process-errors.ts";

test("counts that disagree, a rank that is taken and a port in use end with 2 as other mistakes in a configuration do", () => {
  const codes: readonly ErrorCode[] = ["BAD_CONFIG", "COUNT_MISMATCH", "RANK_TAKEN", "PORT_IN_USE"];
  for (const code of codes) assert.equal(exitCodeFor(new WeighbridgeError(code, "x")), 2, code);
  const others: readonly ErrorCode[] = ["NODE_DEAD", "DEADLINE", "BAD_ARGUMENT", "ARENA_FULL", "SCHEDULER_UNREACHABLE"];
  for (const code of others) assert.equal(exitCodeFor(new WeighbridgeError(code, "x")), 1, code);
  assert.equal(exitCodeFor(new TypeError("x")), 1);
});

test("a scheduler whose host name does not exist ends with 2, one that is not there with 1", () => {
  const unreachable = (code: string) => {
    const cause = Object.assign(new Error("getaddrinfo"), { code });
    return new WeighbridgeError("SCHEDULER_UNREACHABLE", "x", { cause: new WeighbridgeError("NO_ROUTE", "x", { cause }) });
  };
  assert.equal(exitCodeFor(unreachable("ENOTFOUND")), 2);
  assert.equal(exitCodeFor(unreachable("ECONNREFUSED")), 1);
});

test("a job ends with 2 when the process that ended it did, and said why itself", () => {
  assert.equal(jobExitCode({ exitCode: 2, reason: "weighbridge: PORT_IN_USE: cannot listen" }), 2);
  assert.equal(jobExitCode({ exitCode: 2, reason: "[server/1] weighbridge: BAD_CONFIG: no module" }), 2);
  assert.equal(jobExitCode({ exitCode: 2, reason: "weighbridge: server/0 stopped before the first step: PORT_IN_USE: x" }), 2);
  assert.equal(jobExitCode({ exitCode: 2, reason: "usage: train.py [-h]" }), 1);
  assert.equal(jobExitCode({ exitCode: 2, reason: undefined }), 1);
  assert.equal(jobExitCode({ exitCode: 1, reason: "weighbridge: NODE_DEAD: x" }), 1);
});
