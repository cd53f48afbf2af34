// Goal: a process of a training job prints why it ends, however early it is sent the reason, and ends however late Node
// would. Real processes: each blocks its only thread, as a slow start or an exit that hangs does.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { Job } from "../../node/launcher/job.ts";
import type { ProcessPlan } from "../../node/launcher/job-plan.ts";

const BLOCK = "const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);";
const MODULE = JSON.stringify(pathToFileURL(join(import.meta.dirname, "process-end.ts")).href);
/** A node that works on until it is ended. */
const RUN = `import(${MODULE}).then(({ endProcess }) => endProcess({
  name: "worker/0",
  position: () => "at step 3",
  run: async () => { console.log("up"); await new Promise(() => setInterval(() => {}, 1000)); },
}));`;

function processPlan(name: string, code: string): ProcessPlan {
  return { name, role: "worker", ranks: [0], program: [process.execPath, "-e", code], env: {} };
}

test("a process that is sent the reason while it starts prints it (ProcessEnd.E4)", async () => {
  const plans = [processPlan("worker/0", `${BLOCK} block(500); ${RUN}`), processPlan("worker/1", "process.exit(7)")];
  const printed: Promise<string>[] = [];
  const job = new Job({ processes: plans, attach: ({ stderr }) => void printed.push(text(stderr)), isReasonPrinted: true });
  assert.equal((await job.outcome).kind, "failed");
  assert.equal(await printed[0], "weighbridge: worker/0 stopped at step 3: worker/1 ended with exit code 7\n");
});

test("a process that gets SIGTERM leaves before it ends, and what breaks because of that is not the cause (ProcessEnd.E5)", async () => {
  const code = `import(${MODULE}).then(({ endProcess }) => {
    const broken = Promise.withResolvers();
    endProcess({
      name: "server/0",
      position: () => "after clock 3",
      run: async () => { console.log("up"); setInterval(() => {}, 1000); await broken.promise; },
      leave: async () => { broken.reject(new Error("FENCED")); console.log("left"); },
    });
  });`;
  const child = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "pipe", "pipe"] });
  const [, stdout, stderr] = child.stdio as unknown as Readable[];
  const printed = [text(stdout!), text(stderr!)];
  const ended = once(child, "exit");
  await once(stdout!, "data");
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [143, null]);
  assert.deepEqual(await Promise.all(printed), ["up\nleft\n", "weighbridge: server/0 stopped after clock 3: ended by SIGTERM\n"]);
});

test("a process whose launcher is gone ends, though its exit hangs (ProcessEnd.E3)", async () => {
  const code = `${BLOCK} process.on("exit", () => block()); ${RUN}`;
  const child = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "pipe", "pipe"] });
  const [, stdout, stderr, pipe] = child.stdio as unknown as Readable[]; // `stdio` makes all of them pipes
  const printed = text(stderr!);
  const ended = once(child, "exit");
  try {
    await once(stdout!, "data");
    pipe!.destroy();
    assert.deepEqual(await ended, [null, "SIGKILL"]);
    assert.equal(await printed, "weighbridge: worker/0 stopped at step 3: the launcher is gone\n");
  } finally {
    child.kill("SIGKILL");
  }
});
