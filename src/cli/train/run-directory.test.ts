// Goal: each run has its own directory of checkpoints, and the newest that has one is found.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { continueRun, createRun, newestCheckpoint, prepareCheckpointTarget, tidyRun } from "./run-directory.ts";

class RunsStage implements Disposable {
  readonly path: string = mkdtempSync(join(tmpdir(), "runs-"));

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }

  /** A directory, as far as the search for checkpoints looks at it. */
  checkpoint(...names: string[]): string {
    const path = join(this.path, ...names);
    mkdirSync(path, { recursive: true });
    return path;
  }
}

test("runs are numbered, from the highest there is (RunDirectory.R1)", () => {
  using runs = new RunsStage();
  const directory = join(runs.path, "lenet");
  assert.equal(createRun(directory), join(directory, "run-1"));
  assert.equal(createRun(directory), join(directory, "run-2"));
  mkdirSync(join(directory, "run-10"));
  mkdirSync(join(directory, "run-x"));
  assert.equal(createRun(directory), join(directory, "run-11"));
});

test("a directory where no run can be is refused with the reason", () => {
  using runs = new RunsStage();
  writeFileSync(join(runs.path, "file"), "");
  assert.throws(() => createRun(join(runs.path, "file")), { code: "BAD_CONFIG", message: /nothing can be saved in .*file: .*ENOTDIR/ });
});

test("the newest checkpoint is that of the newest run that has one", async () => {
  using runs = new RunsStage();
  runs.checkpoint("run-2", "step-000100");
  const newest = runs.checkpoint("run-10", "step-000020");
  runs.checkpoint("run-10", "step-000010");
  runs.checkpoint("run-11", "step-000005.pending-00ff");
  runs.checkpoint("run-12");
  assert.equal(await newestCheckpoint(runs.path), newest);
  assert.equal(await newestCheckpoint(join(runs.path, "run-2")), join(runs.path, "run-2", "step-000100"), "a run may be named");
});

test("where no run has one, that is said", async () => {
  using runs = new RunsStage();
  runs.checkpoint("run-1");
  await assert.rejects(newestCheckpoint(runs.path), { code: "CHECKPOINT_MISSING" });
  await assert.rejects(newestCheckpoint(join(runs.path, "nowhere")), { code: "CHECKPOINT_MISSING" });
});

test("a run that saved nothing leaves nothing, another what it saved (RunDirectory.R3)", async () => {
  using runs = new RunsStage();
  runs.checkpoint("run-1", "step-000005.pending-00ff");
  runs.checkpoint("run-2", "step-000005");
  runs.checkpoint("run-2", "step-000006.pending-00ff");
  for (const run of ["run-1", "run-2", "run-3"]) await tidyRun(join(runs.path, run));
  assert.equal(existsSync(join(runs.path, "run-1")), false);
  assert.deepEqual(readdirSync(join(runs.path, "run-2")), ["step-000005"]);
});

test("a run that goes on saves beside its checkpoint, or, where a later one lies there, in a run of its own (RunDirectory.R2)", async () => {
  using runs = new RunsStage();
  const [early, late] = [runs.checkpoint("run-1", "step-000010"), runs.checkpoint("run-1", "step-000020")];
  assert.equal(await continueRun(late, 20), join(runs.path, "run-1"));
  assert.equal(await continueRun(early, 10), join(runs.path, "run-2"));
  assert.equal(await continueRun(late, 15), join(runs.path, "run-3"), "it was called by a clock, which no later step could follow");
  const [plain] = [runs.checkpoint("plain", "step-000010"), runs.checkpoint("plain", "step-000020")];
  assert.equal(await continueRun(plain, 10), join(runs.path, "plain", "run-1"));
});

test("a directory that is not there is made, with its parents; one that is there stays", () => {
  const root = mkdtempSync(join(tmpdir(), "runs-"));
  try {
    prepareCheckpointTarget(join(root, "a", "b"));
    assert.ok(existsSync(join(root, "a", "b")));
    prepareCheckpointTarget(join(root, "a", "b"));
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("a directory where nothing can be saved is refused at once, with the reason", () => {
  const root = mkdtempSync(join(tmpdir(), "runs-"));
  try {
    writeFileSync(join(root, "file"), "");
    assert.throws(() => prepareCheckpointTarget(join(root, "file", "below")), {
      code: "BAD_CONFIG",
      message: /nothing can be saved in .*below: .*\(ENOTDIR\)/,
    });
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("a directory that the system does not have is refused, and not tried for ever", {
  skip: existsSync("/proc/self") ? false : "this system has no /proc",
}, () => {
  assert.throws(() => prepareCheckpointTarget("/proc/weighbridge/lenet"), { code: "BAD_CONFIG" });
});
