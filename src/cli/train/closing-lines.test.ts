// Goal: a job that did not end well tells why once in full, with how to go on; every process in a line of its own.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProcessEnd } from "../../node/launcher/node-process.ts";
import { causeText, closingOf, endLines, shortCause } from "./closing-lines.ts";
import { planTraining } from "./train-plan.ts";

const PLAN = planTraining("lenet", { workers: 2, servers: 1, seed: 1, checkpoint: true, overlap: false }, 2);
const OWN =
  "worker/1 stopped at epoch 1 step 12: NOT_FINITE: epoch 1, step 12: the loss is not finite: fc3 is the first layer: lower the rate";

function culprit(changes: Partial<ProcessEnd> = {}): ProcessEnd {
  const plan = { name: "worker/1", role: "worker", ranks: [1], program: ["node"], env: {} } as const;
  return { plan, name: plan.name, exitCode: 1, signal: null, reason: `weighbridge: ${OWN}`, ...changes };
}

test("a process's closing line is known by its name", () => {
  assert.equal(closingOf("worker/1", `weighbridge: ${OWN}`), OWN.slice("worker/1 ".length));
  assert.equal(closingOf("worker/0", `weighbridge: ${OWN}`), undefined);
  assert.equal(closingOf("scheduler", "weighbridge: scheduler stopped: ended by SIGINT"), "stopped: ended by SIGINT");
  assert.equal(closingOf("scheduler", "The worker node id:x assign rank id:0"), undefined);
});

test("the cause is what the first that failed said itself, or how it ended and where", () => {
  assert.equal(causeText(culprit(), "at epoch 1 step 13"), OWN);
  const killed = culprit({ exitCode: null, signal: "SIGKILL", reason: undefined });
  assert.equal(causeText(killed, "at epoch 1 step 13"), "worker/1 was ended by SIGKILL at epoch 1 step 13");
});

test("the others tell it in short: who, where, and the code", () => {
  assert.equal(shortCause(OWN), "worker/1 stopped at epoch 1 step 12: NOT_FINITE");
  assert.equal(shortCause("scheduler stopped: PORT_IN_USE: it is taken"), "scheduler stopped: PORT_IN_USE");
  const killed = "server/1 was ended by SIGKILL at epoch 3 step 20";
  assert.equal(shortCause(killed), killed);
  assert.ok(shortCause(`worker/0 stopped at epoch 1 step 1: TypeError: ${"x".repeat(500)}`).length < 170);
});

test("the last lines tell the cause in full, and the command that goes on from what was saved", () => {
  const end = { hasResult: false, position: "at epoch 1 step 12", plan: PLAN, isTraining: true } as const;
  const failed = { kind: "failed", culprit: culprit() } as const;
  assert.deepEqual(endLines({ ...end, outcome: failed, checkpoint: ".weighbridge/lenet/run-2/step-000010" }), [
    `the job failed: ${OWN}`,
    "to resume from .weighbridge/lenet/run-2/step-000010: npx weighbridge train lenet --resume",
  ]);
  assert.deepEqual(endLines({ ...end, outcome: { kind: "interrupted", signal: "SIGINT" }, checkpoint: undefined }), [
    "the job was ended by SIGINT at epoch 1 step 12",
    "nothing of it was saved yet",
  ]);
  const early = { ...end, outcome: failed, checkpoint: undefined, isTraining: false };
  assert.equal(endLines(early).length, 1, "what has not begun cannot have been saved");
  assert.equal(
    endLines({ ...early, isTraining: true, plan: { ...PLAN, checkpointDir: undefined } as never }).length,
    1,
    "nor what is not to be",
  );
});

test("a job that is done has nothing to add; one without a result has not ended well", () => {
  const end = { outcome: { kind: "done" }, position: "at epoch 1 step 12", plan: PLAN, checkpoint: undefined, isTraining: true } as const;
  assert.deepEqual(endLines({ ...end, hasResult: true }), []);
  assert.match(
    endLines({ ...end, hasResult: false })[0] ?? "",
    /the job failed: no worker was left to report its result, at epoch 1 step 12/,
  );
});

test("output that cannot be written is the reason that is told; a reader that has gone is told nothing", () => {
  const end = { hasResult: false, position: "at epoch 1 step 12", plan: PLAN, checkpoint: undefined, isTraining: true } as const;
  const error = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  assert.deepEqual(endLines({ ...end, outcome: { kind: "unseen", error } }), [
    "the job was ended at epoch 1 step 12: standard output cannot be written: ENOSPC: no space left on device, write",
    "nothing of it was saved yet",
  ]);
  const gone = Object.assign(new Error("EPIPE: broken pipe, write"), { code: "EPIPE" });
  assert.deepEqual(endLines({ ...end, outcome: { kind: "unseen", error: gone } }), []);
});
