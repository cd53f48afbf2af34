// own-plug-ins — Goal: row types and updaters of a user's module, in real processes: saved by two servers and restored
// by three, and told of when a server does not have them, or has others.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { temporaryFolder } from "../support/checkpoint-stage.ts";
import { Cluster } from "./cluster.ts";
import { Processes, ROOT, script } from "./processes.ts";

const MODULE = script("plug-ins");

test("a module's row type and updater are saved by two servers and restored by three, bit for bit", async () => {
  using folder = temporaryFolder();
  await using processes = new Processes();
  const run = async (servers: number, half: string, flags: readonly string[]): Promise<readonly (string | undefined)[]> => {
    const common = ["launch", "-s", servers, "-w", 1, "--functions", MODULE, ...flags, "--", script("plug-in-trainer"), half];
    const job = processes.weighbridge(common);
    await job.succeeds();
    return [(await job.says(/outcome ([0-9a-f]{64})$/))[1], /saved (.*)$/m.exec(job.transcript)?.[1]];
  };
  const [before, saved] = await run(2, "first", ["--checkpoint-dir", folder.path]);
  assert.ok(saved !== undefined); // the newest one is that of the end of the job
  assert.deepEqual(await run(3, "second", ["--restore", saved]), [before, undefined]);
});

test("a server without the module, or with another one, is named with it when a parameter is made", async () => {
  const directory = join(ROOT, ".weighbridge", `plug-ins-${process.pid}`);
  mkdirSync(directory, { recursive: true });
  const other = join(directory, "plug-ins.ts");
  writeFileSync(other, `${readFileSync(MODULE, "utf8")}\n// another source\n`);
  try {
    for (const [flags, message] of [
      [
        [],
        /UNKNOWN_PLUG_IN: server 1: this server has no updater "runningMean"; it has none of its own: start every server with --functions/,
      ],
      [
        ["--functions", other],
        /SPEC_MISMATCH: table: servers have different modules with the updater "runningMean": server 0 version 1 of \/.*\/scripts\/plug-ins\.ts \(source [0-9a-f]{16}\), server 1 version 1 of \/.*plug-ins-\d+\/plug-ins\.ts \(source [0-9a-f]{16}\)/,
      ],
    ] as const) {
      await using cluster = await Cluster.create({ servers: 2, workers: 1 });
      cluster.scheduler();
      cluster.weighbridge(["server", ...cluster.flags, "--rank", 0, "--functions", MODULE]);
      cluster.weighbridge(["server", ...cluster.flags, "--rank", 1, ...flags]);
      await cluster.worker(0, "plug-in-trainer", "second").fails(message);
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
});
