// guide — Goal: the script of docs/guides/train-your-own-model.md runs as it stands there, and learns what it is said to learn.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { Processes, ROOT } from "./processes.ts";

test("the guide's own model trains on two servers and two workers", async () => {
  const guide = readFileSync(join(ROOT, "docs/guides/train-your-own-model.md"), "utf8");
  const script = /```ts\n(import .*?)```/s.exec(guide)?.[1];
  assert.ok(script !== undefined, "the guide begins with a script");
  const directory = join(ROOT, ".weighbridge", `guide-${process.pid}`); // within the package, so that it can import it by name
  mkdirSync(directory, { recursive: true });
  try {
    writeFileSync(join(directory, "spiral.ts"), script);
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--worker-only", "--", join(directory, "spiral.ts")]);
    await job.succeeds(60_000);
    await job.says(/\[worker 0\] epoch: 1 step: 1, loss is \d\.\d{6}$/);
    for (const rank of [0, 1]) {
      const [, accuracy] = await job.says(new RegExp(`\\[worker ${rank}\\] accuracy (\\d\\.\\d+); waited`));
      assert.ok(Number(accuracy) > 0.95, job.transcript);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
