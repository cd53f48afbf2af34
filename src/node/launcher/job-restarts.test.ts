// Goal: processes that fail, or were stopped, are started again where that is asked for (Job.J7), and no others.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { processPlan, RESTART, startJob, WAIT } from "../../../test/support/launched-job.ts";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import type { ProcessPlan } from "./job-plan.ts";
import { endText, type ProcessEnd } from "./node-process.ts";

/**
 * A scheduler that says how often it was started, reports a dead worker when it is first started, and fails as it is
 * told. `lives`: a file with a character for each start.
 */
function fallingScheduler(end: string, lives = join(temporaryDirectory("job"), "lives")): ProcessPlan {
  const count = JSON.stringify(lives);
  const code = `const fs = require("node:fs"); fs.appendFileSync(${count}, "|"); const lives = fs.readFileSync(${count}).length;
    fs.writeSync(3, "complete:\\n"); console.log("up");
    if (lives === 1) { fs.writeSync(3, "dead:worker/0\\n"); setTimeout(() => { ${end} }, 100); } else setTimeout(() => process.exit(0), 300);`;
  return { ...processPlan("scheduler", code), role: "scheduler" };
}

test("a scheduler that is killed is started again, and what it said of dead nodes is forgotten (Job.J4, Job.J7)", async () => {
  const told: string[] = [];
  const lives = join(temporaryDirectory("job"), "lives");
  // it ends once the scheduler was started again, however long that takes
  const look = `try { if (fs.statSync(${JSON.stringify(lives)}).size > 1) process.exit(0); } catch {}`;
  const worker: ProcessPlan = processPlan("worker/0", `const fs = require("node:fs"); setInterval(() => { ${look} }, 5)`);
  const { job } = startJob([fallingScheduler("process.kill(process.pid, 'SIGKILL')", lives), worker], {
    ...{ restart: RESTART, deadGraceMs: 10 },
    onRestart: (end) => told.push(endText(end)),
    onGivenUp: ({ name }) => told.push(`${name} is ended`),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["scheduler was ended by SIGKILL"]);
});

test("a worker that fails while the scheduler is being started again is started again, too (Job.J7)", async () => {
  const told: string[] = [];
  const [mark, fallen] = ["again", "fallen"].map((name) => JSON.stringify(join(temporaryDirectory("job"), name)));
  // it fails once the scheduler has fallen, however long either takes to start
  const fails = `const fs = require("node:fs");
    const look = () => { if (fs.existsSync(${fallen})) process.exit(3); };
    if (!fs.existsSync(${mark})) { fs.writeFileSync(${mark}, ""); setInterval(look, 5); }`;
  const scheduler = fallingScheduler(`fs.writeFileSync(${fallen}, ""); process.kill(process.pid, "SIGKILL")`);
  const { job } = startJob([scheduler, processPlan("worker/0", fails)], {
    restart: RESTART,
    onRestart: ({ plan }) => told.push(plan.name),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told.sort(), ["scheduler", "worker/0"]);
});

test("a process that is stopped, and leaves something to go on with, announces that its end is planned (EndSignal.E3)", async () => {
  const [launched, endSignal] = ["launched.ts", "../end-signal.ts"].map((path) => pathToFileURL(join(import.meta.dirname, path)).href);
  for (const isPlanned of [true, false]) {
    const code = `import(${JSON.stringify(endSignal)}).then(({ onEndSignal }) => { onEndSignal(async () => ${isPlanned}); ${WAIT} })`;
    const { job, up, processes } = startJob([{ ...processPlan("a", ""), program: [process.execPath, "--import", launched!, "-e", code] }]);
    await up;
    processes[0]?.signal("SIGTERM");
    const outcome = await job.outcome;
    assert.ok(outcome.kind === "failed");
    assert.deepEqual([outcome.culprit.signal, outcome.culprit.isPlanned], ["SIGTERM", isPlanned ? true : undefined]);
  }
});

/**
 * A server that is stopped so many times once the file `up` is there, each time as one whose state is saved, and then
 * ends as it is told.
 */
function stoppedServer(stops: number, end: string, up: string): ProcessPlan {
  const count = JSON.stringify(join(temporaryDirectory("job"), "lives"));
  const code = `const fs = require("node:fs"); fs.appendFileSync(${count}, "|"); const lives = fs.readFileSync(${count}).length;
    const stop = () => { fs.writeSync(3, "planned:\\n"); process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000); };
    const act = () => { if (lives <= ${stops}) stop(); else { ${end} } };
    const look = setInterval(() => { if (fs.existsSync(${up})) { clearInterval(look); setTimeout(act, 100); } }, 5);`;
  return { ...processPlan("server/0", code), role: "server" };
}

test("a process whose end is planned is started again at once, however often, and failures are counted as ever (Job.J7)", async () => {
  const up = JSON.stringify(join(temporaryDirectory("job"), "up"));
  const complete = `const fs = require("node:fs"); fs.writeSync(3, "complete:\\n"); fs.writeFileSync(${up}, ""); ${WAIT}`;
  const scheduler: ProcessPlan = { ...processPlan("scheduler", complete), role: "scheduler" };
  const told: string[] = [];
  const options = { restart: RESTART, onRestart: (end: ProcessEnd, delayMs: number) => told.push(`${endText(end)}, ${delayMs} ms`) };
  const { job } = startJob([scheduler, stoppedServer(4, "process.exit(3)", up)], options);
  const outcome = await job.outcome;
  assert.ok(outcome.kind === "failed");
  assert.equal(endText(outcome.culprit), "server/0 ended with exit code 3");
  const planned = Array.from({ length: 4 }, () => "server/0 was ended by SIGTERM, 0 ms");
  assert.deepEqual(told, [...planned, ...["server/0 ended with exit code 3, 100 ms", "server/0 ended with exit code 3, 100 ms"]]);
});

type FailingWorker = {
  /** What the scheduler does, and when: by default in the worker's pause. */
  readonly act: string;
  readonly when?: string;
  /** What the worker does before it fails. */
  readonly before?: string;
  readonly delayMs: number;
};

/**
 * A job whose worker/0 fails once the launcher knows that the cluster is complete. Files order what happens: `failed`
 * is there when the pause of the worker has begun, `more` when a worker has been started since. Returns what the
 * launcher said.
 */
async function failingWorkerJob({ act, when = 'is("failed")', before = "", delayMs }: FailingWorker): Promise<readonly string[]> {
  const folder = temporaryDirectory("job");
  const file = (name: string): string => JSON.stringify(join(folder, name));
  const files = `const fs = require("node:fs"), is = (name) => fs.existsSync(${JSON.stringify(folder)} + "/" + name);`;
  const asks = `${files} fs.writeSync(3, "complete:\\n"); setInterval(() => { if (is("more") && is("failed")) process.exit(0); }, 5);
    if (!is("failed")) { fs.writeSync(3, "workers:0,1\\n"); const wait = setInterval(() => { if (${when}) { clearInterval(wait); ${act} } }, 5); }`;
  const fails = `${files} if (is("failed")) fs.writeFileSync(${file("more")}, "");
    else setInterval(() => { if (is("complete")) { ${before} process.exit(3); } }, 5);`;
  const told: string[] = [];
  const workerOf = (rank: number): ProcessPlan => ({
    ...processPlan(`worker/${rank}`, `require("node:fs").writeFileSync(${file(rank === 1 ? "complete" : "more")}, "")`),
    ranks: [rank],
  });
  const { job } = startJob([{ ...processPlan("scheduler", asks), role: "scheduler" }, processPlan("worker/0", fails)], {
    workerOf,
    onRestart: ({ plan }) => {
      told.push(`${plan.name} is to return`);
      writeFileSync(join(folder, "failed"), "");
    },
    onAdded: ({ name }) => told.push(`${name} is started`),
    restart: { ...RESTART, delayMs, delayMsMax: delayMs },
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  return told;
}

test("a worker whose pause ends while the scheduler is in its own is started again, and the job goes on with both (Job.J7)", async () => {
  const told = await failingWorkerJob({ act: `process.kill(process.pid, "SIGKILL");`, delayMs: 300 });
  assert.deepEqual(told, ["worker/1 is started", "worker/0 is to return", "scheduler is to return"]);
});

test("a worker that waits in its pause is not started a second time when the scheduler says which there are to be (Job.J7, Job.J9)", async () => {
  const told = await failingWorkerJob({ act: `fs.writeSync(3, "workers:0,2\\n");`, delayMs: 600_000 }); // the job's end ends it
  assert.deepEqual(told, ["worker/1 is started", "worker/0 is to return", "worker/2 is started"]);
});

test("nor is one that has failed, while the launcher still reads what it wrote (Job.J7, Job.J9)", async () => {
  const pid = JSON.stringify(join(temporaryDirectory("job"), "pid"));
  const told = await failingWorkerJob({
    before: `fs.writeFileSync(${pid}, String(process.pid)); require("node:child_process").spawn("sleep", ["1"], { stdio: "inherit" });`,
    when: `(() => { try { process.kill(Number(fs.readFileSync(${pid})), 0); } catch ({ code }) { return code === "ESRCH"; } })()`,
    act: `fs.writeSync(3, "workers:0,2\\n");`,
    delayMs: 600_000,
  });
  assert.deepEqual(told.toSorted(), ["worker/0 is to return", "worker/1 is started", "worker/2 is started"]);
});

test("a scheduler that ends the job with one of our errors has told everybody, and is not started again (Job.J7)", async () => {
  const scheduler = fallingScheduler("console.error('weighbridge: NODE_DEAD: worker/1 died'); process.exit(1)");
  const outcome = await startJob([scheduler, processPlan("worker/0", WAIT)], { restart: RESTART }).job.outcome;
  assert.ok(outcome.kind === "failed");
  assert.equal(endText(outcome.culprit), "scheduler ended with exit code 1: weighbridge: NODE_DEAD: worker/1 died");
});

test("a scheduler is not started again where only servers and workers are to be (Job.J7)", async () => {
  const restart = { ...RESTART, roles: ["server", "worker"] as const };
  const outcome = await startJob([fallingScheduler("process.kill(process.pid, 'SIGKILL')")], { restart }).job.outcome;
  assert.ok(outcome.kind === "failed" && outcome.culprit.plan.name === "scheduler");
});

test("a copy that is to be started again when the job has ended well without it is not missed, and nobody waits (Job.J6, Job.J7)", async () => {
  const [up, killed, over] = ["up", "killed", "over"].map((name) => JSON.stringify(join(temporaryDirectory("job"), name)));
  const when = (path: string | undefined, then: string): string =>
    `const fs = require("node:fs"); const look = setInterval(() => { if (fs.existsSync(${path})) { clearInterval(look); setTimeout(() => { ${then}; }, 100); } }, 5);`;
  const says = `fs.writeSync(3, "complete:\\n"); fs.writeFileSync(${up}, "");`;
  const scheduler: ProcessPlan = { ...processPlan("scheduler", `${when(over, "process.exit(0)")} ${says}`), role: "scheduler" };
  const copy = (code: string): ProcessPlan => ({ ...processPlan("server/0", code), role: "server" });
  const kills = `fs.writeFileSync(${killed}, ""); process.kill(process.pid, "SIGKILL")`;
  const plans = [scheduler, copy(when(up, kills)), copy(when(killed, `fs.writeFileSync(${over}, ""); process.exit(0)`))];
  const told: string[] = [];
  const restart = { ...RESTART, delayMs: 60_000, delayMsMax: 60_000 };
  const { job } = startJob(plans, { restart, onRestart: ({ plan }) => told.push(plan.name) });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["server/0"]);
});

test("a copy that was started again, and has not joined when the job ends well without it, is ended and not missed (Job.J6, Job.J11)", async () => {
  const [up, again, over] = ["up", "again", "over"].map((name) => JSON.stringify(join(temporaryDirectory("job"), name)));
  const when = (path: string | undefined, then: string): string =>
    `const look = setInterval(() => { if (fs.existsSync(${path})) { clearInterval(look); ${then}; } }, 5);`;
  const plan = (name: string, code: string): ProcessPlan => ({
    ...processPlan(name, `const fs = require("node:fs"); ${code}`),
    role: "server",
  });
  const says = `fs.writeSync(3, "complete:\\n"); fs.writeFileSync(${up}, "");`;
  const scheduler: ProcessPlan = { ...plan("scheduler", `${says} ${when(over, "process.exit(0)")}`), role: "scheduler" };
  // started again, it starts for as long as the others need to end
  const isKilled = `fs.writeFileSync(${again}, ""); setTimeout(() => process.kill(process.pid, "SIGKILL"), 100)`;
  const copy = `if (fs.existsSync(${again})) { fs.writeFileSync(${over}, ""); ${WAIT} } else { fs.writeSync(3, "standby:\\n"); ${when(up, isKilled)} }`;
  const head = `fs.writeSync(3, "head:\\n"); ${when(over, "process.exit(0)")}`;
  const told: string[] = [];
  const { job } = startJob([scheduler, plan("server/0", copy), plan("server/0", head)], {
    ...{ restart: RESTART, deadGraceMs: 50 },
    onRestart: (end) => told.push(endText({ ...end, name: end.plan.name })),
    onGivenUp: ({ name }, why) => told.push(`${name} ${why}`),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["server/0 was ended by SIGKILL", "server/0 late"]);
});
