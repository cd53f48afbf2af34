// Goal: a job's processes end together. Real ones, as a job is nothing without them; each is a line of JavaScript.

import assert from "node:assert/strict";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { processPlan, RESTART, startJob, WAIT } from "../../../test/support/launched-job.ts";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import { ECHO_MS } from "../signal-echo.ts";
import type { JobOptions } from "./job.ts";
import type { ProcessPlan } from "./job-plan.ts";
import { endText, type ProcessEnd } from "./node-process.ts";

test("is done when all have ended well", async () => {
  const { job, processes } = startJob([processPlan("a", "0"), processPlan("b", "setTimeout(() => {}, 50)")]);
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.ok(processes.every(({ isRunning }) => !isRunning));
});

test("fails with the first that fails, and ends the others (Job.J1, Job.J2)", async () => {
  const told: string[] = [];
  const plans = [processPlan("a", WAIT), processPlan("b", "console.error('no luck'); process.exit(7)")];
  const { job, processes } = startJob(plans, { onFailure: (culprit) => void told.push(endText(culprit)) });
  const outcome = await job.outcome;
  assert.ok(outcome.kind === "failed" && outcome.culprit.exitCode === 7);
  assert.deepEqual(told, ["b ended with exit code 7: no luck"]);
  assert.ok(processes.every(({ isRunning }) => !isRunning));
});

test("the scheduler is ended last, when all others have ended (Job.J5)", async () => {
  const order: string[] = [];
  const slow = `process.on("SIGTERM", () => setTimeout(() => process.exit(0), 100)); ${WAIT}`;
  const scheduler: ProcessPlan = { ...processPlan("s", WAIT), role: "scheduler" };
  const { job, up, processes } = startJob([scheduler, processPlan("a", slow)]);
  for (const { plan, ended } of processes) void ended.then(() => order.push(plan.name));
  await up;
  job.interrupt("SIGTERM");
  await job.outcome;
  assert.deepEqual(order, ["a", "s"]);
});

test("what a killed process wrote before is not the reason of its end", async () => {
  const { job, up, processes } = startJob([processPlan("a", `console.error("a warning"); ${WAIT}`)]);
  await up;
  process.kill(Number(processes[0]?.pid), "SIGKILL");
  const outcome = await job.outcome;
  assert.ok(outcome.kind === "failed");
  assert.equal(endText(outcome.culprit), "a was ended by SIGKILL");
});

test("a process that cannot be started is a failure", async () => {
  const missing: ProcessPlan = { ...processPlan("a", ""), program: ["/no/such/program"] };
  const outcome = await startJob([missing, processPlan("b", WAIT)]).job.outcome;
  assert.ok(outcome.kind === "failed");
  assert.match(endText(outcome.culprit), /^a could not be started: .*ENOENT/);
});

/** Watches its launcher as the processes of a launch do, and hangs in its exit. */
function hangingPlan(name: string, exitCode: number): ProcessPlan {
  const hang = `process.on("exit", () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));`;
  const launched = pathToFileURL(join(import.meta.dirname, "launched.ts")).href;
  const code = `${hang} console.error("weighbridge: BAD_DATA: no luck"); process.exit(${exitCode})`;
  return { ...processPlan(name, ""), program: [process.execPath, "--import", launched, "-e", code] };
}

test("a process that fails and hangs in its exit is killed, and has failed as it said (NodeProcess.N1)", async () => {
  const { job, processes } = startJob([processPlan("a", WAIT), hangingPlan("b", 7)], { exitGraceMs: 100 });
  const outcome = await job.outcome;
  assert.ok(outcome.kind === "failed");
  assert.equal(endText(outcome.culprit), "b ended with exit code 7: weighbridge: BAD_DATA: no luck");
  assert.ok(processes.every(({ isRunning }) => !isRunning));
});

test("a process that hangs in its exit when it is done is killed, too, and has ended well (NodeProcess.N1)", async () => {
  const { job, processes } = startJob([hangingPlan("a", 0)], { exitGraceMs: 20 });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.equal(processes[0]?.hasFailed, false);
});

test("an interrupt is forwarded; who ignores it is killed after the grace", async () => {
  const stubborn = `process.on("SIGINT", () => {}); ${WAIT}`;
  const { job, up } = startJob([processPlan("a", WAIT), processPlan("b", stubborn)], { graceMs: 100 });
  await up;
  job.interrupt("SIGINT");
  assert.deepEqual(await job.outcome, { kind: "interrupted", signal: "SIGINT" });
});

test("a signal that comes twice, since another process has passed it on, is one: nobody is killed in the middle of an orderly end (Job.J13)", async () => {
  const orderly = `process.on("SIGINT", () => setTimeout(() => process.exit(0), 100)); ${WAIT}`;
  const { job, up, processes } = startJob([processPlan("a", orderly)], { graceMs: 3_600_000, nowMs: () => 0 });
  await up;
  job.interrupt("SIGINT");
  job.interrupt("SIGINT");
  assert.deepEqual(await job.outcome, { kind: "interrupted", signal: "SIGINT" });
  assert.equal((await processes[0]?.ended)?.signal, null);
});

test("the second interrupt does not wait for the grace", async () => {
  let nowMs = 0;
  const options = { graceMs: 3_600_000, nowMs: () => nowMs };
  const { job, up } = startJob([processPlan("a", `process.on("SIGINT", () => {}); ${WAIT}`)], options);
  await up;
  job.interrupt("SIGINT");
  nowMs = ECHO_MS;
  job.interrupt("SIGINT");
  assert.deepEqual(await job.outcome, { kind: "interrupted", signal: "SIGINT" });
});

test("an end by a signal names it", async () => {
  const outcome = await startJob([processPlan("a", "process.kill(process.pid, 'SIGKILL')")]).job.outcome;
  assert.ok(outcome.kind === "failed");
  assert.equal(endText(outcome.culprit), "a was ended by SIGKILL");
});

test("goes on without a process that can be done without, as long as that is so", async () => {
  const asked: string[][] = [];
  const isDispensable: JobOptions["isDispensable"] = ({ plan }, running) => {
    asked.push([plan.name, ...running.map(({ name }) => name)]);
    return running.length > 0;
  };
  const plans = [processPlan("a", WAIT), processPlan("b", `process.on("SIGUSR2", () => process.exit(0)); ${WAIT}`)];
  for (const lastSignal of ["SIGUSR2", "SIGKILL"] as const) {
    const { job, up, processes } = startJob(plans, { isDispensable });
    await up;
    processes[0]?.signal("SIGKILL");
    await processes[0]?.ended;
    processes[1]?.signal(lastSignal);
    const outcome = await job.outcome;
    if (lastSignal === "SIGUSR2") assert.deepEqual(outcome, { kind: "incomplete", names: ["a"] });
    else assert.ok(outcome.kind === "failed" && outcome.culprit.plan.name === "b");
  }
  assert.deepEqual(asked, [["a", "b"], ["a", "b"], ["b"]]);
});

test("goes on without a process whose servers another one has, once the cluster was complete (Job.J6)", async () => {
  const tells = "require('node:fs').writeSync(3, 'complete:\\n'); console.log('up'); setInterval(() => {}, 1000)";
  const scheduler: ProcessPlan = { ...processPlan("s", `process.on("SIGUSR2", () => process.exit(0)); ${tells}`), role: "scheduler" };
  const copy = (name: string): ProcessPlan => ({ ...processPlan(name, `process.on("SIGTERM", () => {}); ${WAIT}`), role: "server" });
  const lost: string[] = [];
  const { job, up, processes } = startJob([scheduler, copy("a"), copy("b"), copy("c")], {
    onCopyLost: ({ plan }) => lost.push(plan.name),
    deadGraceMs: 50,
  });
  await up;
  processes[1]?.signal("SIGKILL");
  await processes[1]?.ended;
  processes[2]?.signal("SIGSTOP"); // it outlives the scheduler, and is ended
  processes[0]?.signal("SIGUSR2");
  assert.deepEqual(await job.outcome, { kind: "incomplete", names: ["b", "c"] });
  assert.deepEqual(lost, ["a"]);
});

test("of two processes with the same servers the end of the last one is a failure, and says that no other is left (Job.J6)", async () => {
  const tells = "require('node:fs').writeSync(3, 'complete:\\n'); console.log('up'); setInterval(() => {}, 1000)";
  const scheduler: ProcessPlan = { ...processPlan("s", tells), role: "scheduler" };
  const copy = (name: string): ProcessPlan => ({ ...processPlan(name, WAIT), role: "server" });
  const lost: string[] = [];
  const { job, up, processes } = startJob([scheduler, copy("a"), copy("b")], {
    onCopyLost: ({ plan }) => lost.push(plan.name),
    onLastCopyLost: ({ plan }) => lost.push(`the last, ${plan.name}`),
  });
  await up;
  for (const process of processes.slice(1)) {
    process.signal("SIGKILL");
    await process.ended;
  }
  assert.equal((await job.outcome).kind, "failed");
  assert.deepEqual(lost, ["a", "the last, b"]);
});

test("before the cluster is complete, a server process that was killed is no failure while another one with its servers runs; one that gives a reason is (Job.J6)", async () => {
  const scheduler: ProcessPlan = { ...processPlan("s", `process.on("SIGUSR2", () => process.exit(0)); ${WAIT}`), role: "scheduler" };
  const fails = `process.on("SIGUSR1", () => { console.error("no disk"); process.exit(1); }); ${WAIT}`;
  const copy = (name: string): ProcessPlan => ({ ...processPlan(name, fails), role: "server" });
  const outcomeOf = async (...signals: readonly NodeJS.Signals[]) => {
    const lost: string[] = [];
    const options: Partial<JobOptions> = { onCopyLost: (end) => lost.push(endText(end)), deadGraceMs: 50 };
    const { job, up, processes } = startJob([scheduler, copy("a"), copy("b")], options);
    await up;
    for (const [index, signal] of signals.entries()) {
      processes[index + 1]?.signal(signal);
      await processes[index + 1]?.ended;
    }
    processes[0]?.signal("SIGUSR2");
    const outcome = await job.outcome;
    return [...lost, outcome.kind === "failed" ? endText(outcome.culprit) : outcome.kind];
  };
  assert.deepEqual(await outcomeOf("SIGKILL"), ["a was ended by SIGKILL", "incomplete"]);
  assert.deepEqual(await outcomeOf("SIGUSR1"), ["a ended with exit code 1: no disk"]);
  assert.deepEqual(await outcomeOf("SIGKILL", "SIGKILL"), ["a was ended by SIGKILL", "b was ended by SIGKILL"]);
});

test("a process that is killed when no worker works any more, and another one with its server has ended well, is no failure (Job.J6)", async () => {
  const tells = "require('node:fs').writeSync(3, 'complete:\\n'); console.log('up'); setInterval(() => {}, 1000)";
  const ends = `process.on("SIGUSR2", () => process.exit(0)); ${tells}`;
  const copy = (name: string): ProcessPlan => ({ ...processPlan(name, ends), role: "server" });
  for (const isAtWork of [true, false]) {
    const lost: string[] = [];
    const plans: ProcessPlan[] = [
      { ...processPlan("s", ends), role: "scheduler" },
      copy("a"),
      copy("b"),
      { ...processPlan("w", ends), role: "worker" },
    ];
    const { job, up, processes } = startJob(plans, { onCopyLost: ({ plan }) => lost.push(plan.name), deadGraceMs: 50 });
    await up;
    for (const ended of isAtWork ? [2] : [2, 3]) {
      processes[ended]?.signal("SIGUSR2");
      await processes[ended]?.ended;
    }
    processes[1]?.signal("SIGKILL");
    await processes[1]?.ended;
    processes[0]?.signal("SIGUSR2");
    assert.equal((await job.outcome).kind, isAtWork ? "failed" : "done");
    assert.deepEqual(lost, isAtWork ? [] : ["a"]);
  }
});

test("of two processes with the same server, the one that says so is named as the standby, until it leads", async () => {
  const reports = (line: string): string => `require("node:fs").writeSync(3, "${line}:\\n"); ${WAIT}`;
  const takesOver = `process.on("SIGUSR2", () => { require("node:fs").writeSync(3, "head:\\n"); console.log("told"); }); ${reports("standby")}`;
  const names: string[] = [];
  for (const code of [reports("standby"), reports("head"), takesOver]) {
    const { job, up, processes } = startJob([{ ...processPlan("server/0", code), role: "server" }]);
    await up;
    const [copy] = processes;
    if (code === takesOver) {
      const told = new Promise((resolve) => copy?.stdout.once("data", resolve));
      copy?.signal("SIGUSR2");
      await told;
    }
    copy?.signal("SIGKILL");
    const outcome = await job.outcome;
    assert.ok(outcome.kind === "failed");
    names.push(endText(outcome.culprit).replace(String(copy?.pid), "PID"));
  }
  assert.deepEqual(names, [
    "the standby of server/0 (process PID) was ended by SIGKILL",
    "server/0 (process PID) was ended by SIGKILL",
    "server/0 (process PID) was ended by SIGKILL",
  ]);
});

test("the others are told why the job ends before they are ended", async () => {
  const listens = `
    const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", (word) => { console.log("told: " + word); process.exit(0); });
    process.on("SIGTERM", () => {});
    console.log("up");`;
  const { job, up, processes } = startJob([processPlan("a", listens), processPlan("b", WAIT)]);
  let text = "";
  processes[0]?.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  await up;
  processes[1]?.signal("SIGKILL");
  assert.equal((await job.outcome).kind, "failed");
  assert.match(text, /told: b was ended by SIGKILL/);
});

test("the scheduler hears that the job is ended before others are: it lets nobody take over (Job.J5)", async () => {
  const listens = `
    const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", (line) => console.log("told: " + line));
    console.log("up");`;
  const scheduler: ProcessPlan = { ...processPlan("s", listens), role: "scheduler" };
  const patient = `process.on("SIGINT", () => setTimeout(() => process.exit(0), 100)); ${WAIT}`;
  const { job, up, processes } = startJob([scheduler, { ...processPlan("a", patient), role: "server" }]);
  await up;
  const told = new Promise((resolve) => processes[0]?.stdout.once("data", resolve));
  job.interrupt("SIGINT");
  assert.equal(String(await told), "told: ending:\n\n");
  assert.ok(processes[1]?.isRunning);
  assert.equal((await job.outcome).kind, "interrupted");
});

test("a process that still starts when the job fails reads the reason before it is ended, if it prints it (Job.J10)", async () => {
  const slow = `
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", (word) => { console.log("told: " + word); process.exit(0); });
    process.on("SIGTERM", () => {});
    require("node:fs").writeSync(3, "watching:\\n");`;
  const { job, processes } = startJob([processPlan("a", slow), processPlan("b", "process.exit(7)")], { isReasonPrinted: true });
  let text = "";
  processes[0]?.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  assert.equal((await job.outcome).kind, "failed");
  assert.match(text, /told: b ended with exit code 7/);
});

test("one that never comes to read it is killed after the grace (Job.J10)", async () => {
  const plans = [processPlan("a", WAIT), processPlan("b", "process.exit(7)")];
  const { job, processes } = startJob(plans, { isReasonPrinted: true, graceMs: 100 });
  assert.equal((await job.outcome).kind, "failed");
  assert.equal((await processes[0]?.ended)?.signal, "SIGKILL");
});

/** Ends when it gets SIGUSR2; told "dead" by SIGUSR1, it says so of worker/1 as a scheduler's process does. */
const SCHEDULER = `
  process.on("SIGUSR1", () => { require("node:fs").writeSync(3, "dead:worker/1\\n"); console.log("told"); });
  process.on("SIGUSR2", () => process.exit(0)); ${WAIT}`;

function frozenWorkerJob(options: Partial<JobOptions> = {}) {
  const scheduler: ProcessPlan = { ...processPlan("scheduler", SCHEDULER), role: "scheduler" };
  const worker: ProcessPlan = { ...processPlan("worker/1", WAIT), ranks: [1] };
  const given: string[] = [];
  const started = startJob([scheduler, worker], { deadGraceMs: 50, onGivenUp: ({ name }) => void given.push(name), ...options });
  return { ...started, given };
}

test("a process that was declared dead is ended when all others have ended well, and the job is incomplete (Job.J4, Job.J11)", async () => {
  const { job, up, processes, given } = frozenWorkerJob();
  await up;
  processes[1]?.signal("SIGSTOP");
  processes[0]?.signal("SIGUSR1");
  await new Promise((resolve) => processes[0]?.stdout.once("data", resolve));
  assert.ok(processes[1]?.isRunning && given.length === 0, "not before: it may sit at a breakpoint");
  processes[0]?.signal("SIGUSR2");
  assert.deepEqual(await job.outcome, { kind: "incomplete", names: ["worker/1"] });
  assert.deepEqual(given, ["worker/1"]);
  assert.equal((await processes[1]?.ended)?.signal, "SIGKILL", "it was stopped, so that SIGTERM did not reach it");
});

test("a process that runs on and was not declared dead is waited for", async () => {
  const { job, up, processes, given } = frozenWorkerJob({ deadGraceMs: 0 });
  await up;
  processes[0]?.signal("SIGUSR2");
  await processes[0]?.ended;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.ok(processes[1]?.isRunning && given.length === 0);
  processes[1]?.signal("SIGKILL");
  assert.equal((await job.outcome).kind, "failed");
});

test("a process that was declared dead is ended when all others wait for it alone, and they are told that it is gone (Job.J4)", async () => {
  const waits = `
    const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", (line) => process.exit(String(line) === "gone:\\n" ? 0 : 9));
    process.on("SIGUSR1", () => require("node:fs").writeSync(3, "only-dead:worker/1\\n"));
    console.log("up");`;
  const scheduler: ProcessPlan = { ...processPlan("scheduler", waits), role: "scheduler" };
  const worker: ProcessPlan = { ...processPlan("worker/1", WAIT), ranks: [1] };
  const { job, up, processes } = startJob([scheduler, worker], { deadGraceMs: 50 });
  await up;
  processes[1]?.signal("SIGSTOP");
  processes[0]?.signal("SIGUSR1");
  assert.deepEqual(await job.outcome, { kind: "incomplete", names: ["worker/1"] });
});

test("a worker that ends well without having closed its session is told at once, and the job is incomplete (Job.J11)", async () => {
  const ends = `require("node:fs").writeSync(3, "unclosed:worker/0\\n"); process.exit(0)`;
  const scheduler: ProcessPlan = { ...processPlan("scheduler", SCHEDULER), role: "scheduler" };
  const unclosed = Promise.withResolvers<string>();
  const { job, up, processes } = startJob([scheduler, processPlan("worker/0", `console.log("up"); ${ends}`)], {
    onUnclosed: unclosed.resolve,
  });
  await up;
  assert.equal(await unclosed.promise, "worker/0");
  assert.ok(processes[0]?.isRunning, "the others go on");
  processes[0]?.signal("SIGUSR2");
  assert.deepEqual(await job.outcome, { kind: "incomplete", names: ["worker/0"] });
});

test("a worker of somebody else's that has not closed its session is told as the scheduler reports it (Job.J11)", async () => {
  const tells = `require("node:fs").writeSync(3, "unclosed:worker/7\\n"); process.exit(0)`;
  const told: string[] = [];
  const { job } = startJob([{ ...processPlan("scheduler", tells), role: "scheduler" }], { onUnclosed: (name) => void told.push(name) });
  assert.deepEqual([await job.outcome, told], [{ kind: "incomplete", names: ["worker/7"] }, ["worker/7"]]);
});

test("a node that this job did not start is not given up, whoever waits for it", async () => {
  const waits = `
    const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", () => process.exit(9));
    require("node:fs").writeSync(3, "only-dead:worker/7\\n");
    setTimeout(() => process.exit(0), 100);
    console.log("up");`;
  const scheduler: ProcessPlan = { ...processPlan("scheduler", waits), role: "scheduler" };
  assert.deepEqual(await startJob([scheduler]).job.outcome, { kind: "done" });
});

test("a job whose output cannot be written ends, with that as the reason and not a signal, and its processes are told", async () => {
  const listens = `
    const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", (word) => { console.log("told: " + word); process.exit(0); });
    process.on("SIGTERM", () => {});
    console.log("up");`;
  const { job, up, processes } = startJob([processPlan("a", listens)]);
  let text = "";
  processes[0]?.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  await up;
  const error = new Error("ENOSPC: no space left");
  job.loseOutput(error, "the disk is full");
  job.loseOutput(new Error("later"), "later");
  assert.deepEqual(await job.outcome, { kind: "unseen", error });
  assert.match(text, /told: the disk is full/);
});

/** The name of a file that is not there yet, as code. */
function overFile(): string {
  return JSON.stringify(join(temporaryDirectory("job"), "over"));
}

/** What a process does once this file is there, however long that takes. */
function whenThere(file: string, then: string): string {
  return `const look = setInterval(() => { if (require("node:fs").existsSync(${file})) { clearInterval(look); ${then}; } }, 5);`;
}

/** A scheduler's process that reports these lines, one after the other, then makes the file `over`, and ends. */
function reporting(lines: readonly string[], over = overFile()): ProcessPlan {
  const code = `const fs = require("node:fs"); const lines = ${JSON.stringify(lines)};
    const end = () => { fs.writeFileSync(${over}, ""); process.exit(0); };
    const next = () => { const line = lines.shift(); if (line === undefined) end(); fs.writeSync(3, line + "\\n"); setTimeout(next, 50); };
    next();`;
  return { ...processPlan("scheduler", code), role: "scheduler" };
}

test("a server that the scheduler wants and that has no process is started, once; its failure before it has parts is none of the job's (Job.J8)", async () => {
  const told: string[] = [];
  const serversOf = (rank: number): ProcessPlan[] => [
    { ...processPlan(`server/${rank}`, "process.exit(3)"), role: "server", ranks: [rank] },
  ];
  const server: ProcessPlan = { ...processPlan("server/0", "setTimeout(() => {}, 100)"), role: "server" };
  const listens = `const fs = require("node:fs"); const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", () => { fs.writeSync(3, "servers:0,1/0\\nservers:0/0\\n"); process.exit(0); });
    fs.writeSync(3, "complete:\\nservers:0/0\\nservers:0,1/0\\nservers:0,1/0\\n");`;
  const { job } = startJob([{ ...processPlan("scheduler", listens), role: "scheduler" }, server], {
    serversOf,
    onAdded: ({ name }) => told.push(`${name} is started`),
    onServerLost: (end) => told.push(endText(end)),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["server/1 is started", "server/1 ended with exit code 3"]);
});

test("the scheduler hears of a server that it wants when one of its processes has ended, though the other runs (Job.J8)", async () => {
  const listens = `const fs = require("node:fs"); const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", (line) => process.exit(String(line) === "lost:1\\n" ? 0 : 9));
    fs.writeSync(3, "complete:\\nservers:0,1/0\\n"); console.log("up");`;
  const scheduler: ProcessPlan = { ...processPlan("scheduler", listens), role: "scheduler" };
  const copy = (code: string): ProcessPlan => ({ ...processPlan("server/1", code), role: "server", ranks: [1] });
  const serversOf = (): ProcessPlan[] => [copy("process.exit(3)"), copy(WAIT)];
  assert.deepEqual(await startJob([scheduler], { serversOf, deadGraceMs: 50 }).job.outcome, { kind: "done" });
});

test("a server that failed for one change is started again for the next one that wants it (Job.J8)", async () => {
  const told: string[] = [];
  const listens = `const fs = require("node:fs"); const pipe = new (require("node:net").Socket)({ fd: 3 }); let losses = 0;
    const wish = () => fs.writeSync(3, "servers:0,1/0\\n");
    pipe.on("data", () => { if (++losses === 2) process.exit(0); wish(); fs.writeSync(3, "servers:0/0\\n"); wish(); });
    fs.writeSync(3, "complete:\\nservers:0/0\\n"); wish();`;
  const serversOf = (rank: number): ProcessPlan[] =>
    rank === 0 ? [] : [{ ...processPlan("server/1", "process.exit(3)"), role: "server", ranks: [1] }];
  const { job } = startJob([{ ...processPlan("scheduler", listens), role: "scheduler" }], {
    ...{ serversOf, deadGraceMs: 50 },
    onAdded: ({ name }) => told.push(name),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["server/1", "server/1"]);
});

test("a rank that is wanted again gets the process that it lacks, and keeps the one that runs (Job.J8)", async () => {
  const told: string[] = [];
  const listens = `const fs = require("node:fs"); const pipe = new (require("node:net").Socket)({ fd: 3 }); let losses = 0;
    const wish = () => fs.writeSync(3, "servers:0,1/0\\n");
    pipe.on("data", () => { if (++losses === 2) process.exit(0); fs.writeSync(3, "servers:0/0\\n"); wish(); });
    fs.writeSync(3, "complete:\\nservers:0/0\\n"); wish();`;
  const copy = (code: string): ProcessPlan => ({ ...processPlan("server/1", code), role: "server", ranks: [1] });
  const serversOf = (rank: number): ProcessPlan[] => (rank === 0 ? [] : [copy(WAIT), copy("process.exit(3)")]);
  const { job } = startJob([{ ...processPlan("scheduler", listens), role: "scheduler" }], {
    ...{ serversOf, deadGraceMs: 50 },
    onAdded: ({ program }) => told.push(program.includes(WAIT) ? "runs" : "fails"),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["runs", "fails", "fails"]);
});

test("a server that was added and has parts is one of the job: its failure ends it (Job.J8)", async () => {
  const serversOf = (rank: number): ProcessPlan[] => [
    { ...processPlan(`server/${rank}`, "process.exit(3)"), role: "server", ranks: [rank] },
  ];
  const { job } = startJob([reporting(["complete:", "servers:1/1"]), processPlan("worker/0", WAIT)], { serversOf });
  const outcome = await job.outcome;
  assert.ok(outcome.kind === "failed");
  assert.equal(outcome.culprit.plan.name, "server/1");
});

test("of a rank that two processes hold both are started; one that fails is a copy that is lost, and the job goes on (Job.J6, Job.J8)", async () => {
  const told: string[] = [];
  const copy = (code: string): ProcessPlan => ({ ...processPlan("server/1", code), role: "server", ranks: [1] });
  const over = overFile();
  const listens = `const fs = require("node:fs"); const pipe = new (require("node:net").Socket)({ fd: 3 });
    pipe.on("data", () => { fs.writeSync(3, "servers:0,1/0,1\\nservers:0,1/0,1\\n"); fs.writeFileSync(${over}, ""); process.exit(0); });
    fs.writeSync(3, "complete:\\nservers:0,1/0\\n");`;
  const { job } = startJob([{ ...processPlan("scheduler", listens), role: "scheduler" }], {
    serversOf: (rank) => (rank === 1 ? [copy("process.exit(3)"), copy(whenThere(over, "process.exit(0)"))] : []),
    onAdded: ({ name }) => told.push(`${name} is started`),
    onCopyLost: (end) => told.push(endText(end)),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["server/1 is started", "server/1 is started", "server/1 ended with exit code 3"]);
});

test("a worker that the scheduler wants and that does not run is started, once (Job.J9)", async () => {
  const told: string[] = [];
  const over = overFile();
  const workerOf = (rank: number): ProcessPlan => ({
    ...processPlan(`worker/${rank}`, whenThere(over, "process.exit(0)")),
    ...{ role: "worker", ranks: [rank] },
  });
  const { job } = startJob([reporting(["complete:", "workers:0", "workers:0,1"], over)], {
    workerOf,
    onAdded: ({ name }) => told.push(`${name} is started`),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["worker/0 is started", "worker/1 is started"]);
});

test("the end of a worker that is to leave is no failure, and it is not started again (Job.J9)", async () => {
  const lost: string[] = [];
  const over = overFile();
  const workerOf = (rank: number): ProcessPlan => ({
    ...processPlan(`worker/${rank}`, whenThere(over, "setTimeout(() => process.exit(3), 300)")),
    ...{ role: "worker", ranks: [rank] },
  });
  const restart = { ...RESTART, delayMs: 1 };
  const options = { workerOf, restart, onServerLost: (end: ProcessEnd) => lost.push(endText(end)) };
  const { job } = startJob([reporting(["complete:", "workers:1", "workers:"], over)], options);
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(lost, ["worker/1 ended with exit code 3"]);
});

test("a server that was started for a change is ended with the job, when the scheduler has ended well before it came (Job.J6, Job.J8)", async () => {
  const serversOf = (rank: number): ProcessPlan[] => [{ ...processPlan(`server/${rank}`, WAIT), role: "server", ranks: [rank] }];
  const ended: string[] = [];
  const { job } = startJob([reporting(["complete:", "servers:0,1/0"]), { ...processPlan("server/0", ""), role: "server" }], {
    ...{ serversOf, deadGraceMs: 50 },
    onGivenUp: ({ name }) => ended.push(name),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(ended, ["server/1"]);
});

test("a process that was started again is not the one that the scheduler has declared dead (Job.J4, Job.J7)", async () => {
  const mark = JSON.stringify(join(temporaryDirectory("job"), "again"));
  const up = overFile();
  const waits = `const fs = require("node:fs"); fs.writeSync(3, "complete:\\n"); fs.writeFileSync(${up}, "");
    const look = () => fs.existsSync(${mark}) ? fs.writeSync(3, "only-dead:worker/0\\n") && setTimeout(() => process.exit(0), 300) : setTimeout(look, 10);
    look();`;
  const fails = `const fs = require("node:fs");
    if (fs.existsSync(${mark} + ".first")) { fs.writeFileSync(${mark}, ""); setTimeout(() => process.exit(0), 600); }
    else { fs.writeFileSync(${mark} + ".first", ""); ${whenThere(up, "setTimeout(() => process.exit(3), 100)")} }`;
  const told: string[] = [];
  const restart = { ...RESTART, delayMs: 1 };
  const plans: ProcessPlan[] = [
    { ...processPlan("scheduler", waits), role: "scheduler" },
    { ...processPlan("worker/0", fails), ...{ role: "worker", ranks: [0] } },
  ];
  const { job } = startJob(plans, {
    restart,
    onRestart: () => told.push("again"),
    onGivenUp: ({ name }) => told.push(`${name} is ended`),
  });
  assert.deepEqual(await job.outcome, { kind: "done" });
  assert.deepEqual(told, ["again"]);
});
