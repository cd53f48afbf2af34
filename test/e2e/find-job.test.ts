// find-job — Goal: a command without an address finds the job that was started from its directory, and never takes
// another job for it; what it finds at the default port it changes only when told twice.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Processes, script, until } from "./processes.ts";

test("a job is found from its directory, by its address, and by nobody once it has ended", async () => {
  await using processes = new Processes();
  const here = temporaryDirectory("find-job");
  const record = join(here, ".weighbridge/job.json");
  const elsewhere = { cwd: temporaryDirectory("find-job-elsewhere") };
  const job = processes.weighbridge(["launch", "-s", 1, "-w", 1, "--", script("survivor"), "--until", join(here, "done")], {
    cwd: here,
  });
  const text = await until(() => readRecord(record), "the job to be recorded");
  const [, port = ""] = /"tcp:\/\/127\.0\.0\.1:(\d+)"/.exec(text) ?? [];
  assert.match(job.stderr, new RegExp(`^weighbridge: scheduler at 127\\.0\\.0\\.1:${port}, for npx weighbridge status\n`));

  const found = processes.weighbridge(["status"], { cwd: here });
  await found.succeeds();
  assert.match(found.stdout, new RegExp(`^scheduler +ready +127\\.0\\.0\\.1:${port} `, "m"));
  const named = processes.weighbridge(["status", `weighbridge://127.0.0.1:${port}`], elsewhere);
  await named.succeeds();
  const twice = processes.weighbridge(["status", `weighbridge://127.0.0.1:${port}`, "--scheduler-port", port], elsewhere);
  await twice.refuses(/^weighbridge: BAD_CONFIG: weighbridge:\S+ and --scheduler-port both name the scheduler: give one of them\n$/);
  const noJob = processes.weighbridge(["checkpoint", "inspect", `weighbridge://127.0.0.1:${port}`, "x"], elsewhere);
  await noJob.refuses(/checkpoint inspect asks no running job, and takes no weighbridge:/);

  // another run of the job: the same name, and the same address
  writeFileSync(record, text.replace(/("job": "[^/]*\/)[^"]*/, "$1another-run"));
  const other = processes.weighbridge(["status"], { cwd: here });
  await other.ends();
  assert.match(
    other.stderr,
    new RegExp(`^weighbridge: job \\S+, the last one started .* was at 127\\.0\\.0\\.1:${port}: another job answers`),
  );
  writeFileSync(record, text);

  writeFileSync(join(here, "done"), "");
  await job.succeeds();
  assert.equal(readRecord(record), undefined, "the record of a job that has ended");
});

test("scale and stop change a job that they find at the default port only with --yes", async (t) => {
  await using processes = new Processes();
  const here = temporaryDirectory("find-job");
  const scheduler = processes.weighbridge(["scheduler", "-s", 1, "-w", 1, "--job", "ctr", "--state-dir", "none"], { cwd: here });
  await until(() => scheduler.stdout !== "" || scheduler.stderr !== "", "the scheduler to listen, or to end");
  if (/PORT_IN_USE/.test(scheduler.stderr)) return t.skip("port 9700 is taken on this machine");
  await scheduler.says(/^waiting for .* at 127\.0\.0\.1:9700$/);
  const elsewhere = { cwd: temporaryDirectory("find-job-elsewhere") };
  for (const [command, ...args] of [["scale", "--workers", 2], ["stop"]] as const) {
    const unsure = processes.weighbridge([command, ...args], elsewhere);
    await unsure.refuses(/no job was named, .*; found job ctr at 127\.0\.0\.1:9700, the default port \(forming, 1 server, 1 worker, up /);
    assert.ok(unsure.stderr.endsWith(`weighbridge ${command} weighbridge://127.0.0.1:9700\n`), unsure.stderr);
    assert.match(unsure.stderr, /--yes/);
  }
  for (const [args, options] of [
    [["--yes"], elsewhere],
    [["weighbridge://127.0.0.1"], elsewhere],
    [[], { cwd: here }],
  ] as const) {
    const meant = processes.weighbridge(["scale", "--rollback", ...args], options);
    await meant.fails(/BAD_REQUEST/);
  }
  assert.ok(scheduler.isRunning, scheduler.transcript);
  const stopped = processes.weighbridge(["stop", "--yes"], elsewhere);
  await stopped.succeeds();
  assert.equal((await scheduler.ends()).signal ?? "SIGTERM", "SIGTERM");
});

test("a job that is gone is told, with what is looked at instead", async () => {
  await using processes = new Processes();
  const here = temporaryDirectory("find-job");
  const port = await freePort("127.0.0.1");
  const scheduler = processes.weighbridge(["scheduler", "-s", 1, "-w", 1, "--state-dir", "none", "--scheduler-port", port], { cwd: here });
  await scheduler.says(/^waiting for/);
  await scheduler.kill();
  const status = processes.weighbridge(["status"], { cwd: here });
  await status.ends();
  assert.match(
    status.stderr,
    new RegExp(`^weighbridge: job \\S+, the last one started from this directory, was at 127\\.0\\.0\\.1:${port}: no scheduler answers`),
  );
});

function readRecord(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
