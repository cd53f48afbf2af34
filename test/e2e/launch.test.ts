// launch — Goal: the processes of a job end together, however it ends, and whoever started them learns why.

import assert from "node:assert/strict";
import { join } from "node:path";
import { suite, test } from "node:test";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { DEADLINE_MS, isAlive, Processes, ROOT, type Running, script, until } from "./processes.ts";

const NODE_COUNT = 4;

/** Starts a job whose nodes print their process ids and then do as they are told. */
function launch(processes: Processes, ...args: readonly string[]): Running {
  return launchIn(processes, ROOT, ...args);
}

function launchIn(processes: Processes, cwd: string, ...args: readonly string[]): Running {
  return processes.weighbridge(["launch", "-s", 1, "-w", 2, "--all-roles", "--", script("member"), ...args], { cwd });
}

async function pidsOf(job: Running): Promise<number[]> {
  await job.says(/^\[[a-z]+(\/\d)?\] pid \d+$/, NODE_COUNT);
  return [...job.stdout.matchAll(/ pid (\d+)$/gm)].map(([, pid]) => Number(pid));
}

/** Whatever the others wrote while they were ended, the last line says what happened. */
function assertLast(job: Running, line: string): void {
  assert.equal(job.stderr.trimEnd().split("\n").at(-1), line, job.transcript);
}

async function allGone(pids: readonly number[]): Promise<void> {
  await until(() => !pids.some(isAlive), `processes ${pids.join(", ")} to be gone`, DEADLINE_MS);
}

// Two at a time: they mostly wait.
suite("launch", { concurrency: 2 }, () => {
  test("the launcher prints what is suspicious in its environment once; a process prints what its script alone says", async () => {
    await using processes = new Processes();
    const warnings = ({ stderr }: Running): number => [...stderr.matchAll(/faults\.dropPercent is 3 and resendTimeoutMs is 0/g)].length;
    const own = processes.weighbridge(["launch", "-w", 2, "--", script("suspicious"), "own"]);
    await own.succeeds();
    assert.equal(warnings(own), 2, own.transcript);
    const env = { WEIGHBRIDGE_FAULT_DROP_PERCENT: "3", WEIGHBRIDGE_RESEND_TIMEOUT_MS: "0" };
    const told = processes.weighbridge(["launch", "-w", 2, "--", script("suspicious")], { env });
    await told.fails(/^/);
    assert.equal(warnings(told), 1, told.transcript);
  });

  test("one worker fails: the job ends with its exit code and its error, and nobody is left", async () => {
    await using processes = new Processes();
    const job = launch(processes, "--fail");
    const pids = await pidsOf(job);
    await job.fails(/^weighbridge: worker\/1 ended with exit code 3: Error: out of data$/m);
    assertLast(job, "weighbridge: worker/1 ended with exit code 3: Error: out of data");
    assert.match(job.stderr, /^\[worker\/1\] Error: out of data$/m);
    await allGone(pids);
  });

  for (const name of ["scheduler", "server/0", "worker/0"]) {
    test(`the ${name} is killed: the job ends and names it and the signal, and nobody is left`, async () => {
      await using processes = new Processes();
      const job = launch(processes);
      const pids = await pidsOf(job);
      const [, victim] = await job.says(new RegExp(`^\\[${name}\\] pid (\\d+)$`));
      process.kill(Number(victim), "SIGKILL");
      await job.fails(new RegExp(`^weighbridge: ${name} was ended by SIGKILL`, "m"));
      assertLast(job, `weighbridge: ${name} was ended by SIGKILL`);
      await allGone(pids);
    });
  }

  test("a worker that is stopped and declared dead is ended when all others are done, and launch exits with 1", async () => {
    await using processes = new Processes();
    const flags = ["-s", 1, "-w", 2, "--heartbeat-timeout", "1000ms"];
    const job = processes.weighbridge(["launch", ...flags, "--all-roles", "--", script("member"), "--leave-on-death"]);
    await pidsOf(job);
    const [, victim] = await job.says(/^\[worker\/1\] pid (\d+)$/);
    process.kill(Number(victim), "SIGSTOP");
    try {
      await job.says(/^\[worker\/0\] worker 1 is dead$/);
      assert.ok(isAlive(Number(victim)), "not before the others are done");
      await job.fails(/^weighbridge: worker\/1 was declared dead, and all others are done: it is ended now, and the job exits with 1$/m);
      await allGone([Number(victim)]);
    } finally {
      if (isAlive(Number(victim))) process.kill(Number(victim), "SIGKILL"); // nobody else would, where this fails
    }
  });

  for (const [signal, exitCode] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    test(`${signal} reaches every process, and the job ends`, async () => {
      await using processes = new Processes();
      const job = launch(processes);
      const pids = await pidsOf(job);
      job.signal(signal);
      assert.equal((await job.ends()).code, exitCode, job.transcript);
      assert.equal(job.count(new RegExp(`^\\[.*\\] got ${signal}$`)), NODE_COUNT, job.transcript);
      assert.match(job.stderr, new RegExp(`^weighbridge: ended by ${signal}$`, "m"));
      await allGone(pids);
    });
  }

  test("who does not end when asked is killed after a while", async () => {
    await using processes = new Processes();
    const job = launch(processes, "--stubborn");
    const pids = await pidsOf(job);
    const interruptedAt = performance.now();
    job.signal("SIGINT");
    assert.equal((await job.ends()).code, 130, job.transcript);
    assert.ok(performance.now() - interruptedAt > 4500, "they had their time");
    await allGone(pids);
  });

  test("a launcher that is killed leaves nobody behind", async () => {
    await using processes = new Processes();
    const job = launch(processes);
    const pids = await pidsOf(job);
    await job.kill();
    await allGone(pids);
  });

  test("a job whose output is read no more ends without a word, as by SIGPIPE", async () => {
    await using processes = new Processes();
    const job = processes.shell(["launch", "-s", 1, "-w", 1, "--", script("chatter")], "| head -n 1");
    assert.equal((await job.ends()).code, 141, job.transcript);
    assert.match(job.stderr, /^weighbridge: scheduler at [^\n]+\n$/, "the line it begins with, and no other");
  });

  test("a job whose output finds no room ends with the reason", {
    skip: process.platform !== "linux" && "there is no /dev/full",
  }, async () => {
    await using processes = new Processes();
    const job = processes.shell(["launch", "-s", 1, "-w", 1, "--", script("chatter")], "> /dev/full");
    await job.fails(/^weighbridge: standard output cannot be written: ENOSPC: .*; the job was ended$/m);
    assert.doesNotMatch(job.stderr, /SIGTERM/);
  });

  test("a function that the servers do not have is told once, in the last line, however many nodes run into it", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--", "examples/05-own-function/main.ts"]);
    await job.fails(
      /^weighbridge: worker\/\d ended with exit code 1: .*UNKNOWN_FUNCTION: no function "largestRows" on server 0, server 1: .*--functions \(examples\S+main\.ts:\d+:\d+\)$/m,
    );
    assert.equal([...job.stderr.matchAll(/UNKNOWN_FUNCTION/g)].length, 1, job.transcript);
  });

  test("a KVWorker whose application the built-in servers do not have is told at once, with --all-roles", async () => {
    await using processes = new Processes();
    const startedAt = performance.now();
    const job = processes.weighbridge(["launch", "-w", 1, "--", script("other-app")]);
    await job.fails(
      /^weighbridge: worker.0 ended .*UNKNOWN_APP: server.0: this node has no application 1, .* application 0 alone; .*--all-roles;/m,
    );
    assert.ok(performance.now() - startedAt < 10_000, "it did not wait for the application");
  });

  test("a program for every role that is started in workers alone names --all-roles, and does not end with wrong numbers", async () => {
    await using processes = new Processes();
    const example = (name: string): string => join(ROOT, "examples", name, "main.ts");
    const handle = processes.weighbridge(["launch", "-s", 1, "-w", 2, "--", example("03-own-handle")]);
    await handle.refuses(/BAD_CONFIG: \S+main\.ts gives a KVServer a handle, .*: add --all-roles, or --worker-only if they are to sum$/m);
    const app = processes.weighbridge(["launch", "-s", 1, "-w", 1, "--", example("02-simple-app")]);
    await app.fails(/UNKNOWN_APP: .*this node has no application 7, and none comes: the built-in \w+ serves .* --all-roles/);
  });

  test("the scheduler refuses an application that only a script would have, and names --all-roles", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", 1, "-w", 1, "--", script("ask-scheduler")]);
    await job.fails(/UNKNOWN_APP: .*this node has no application 7, .*the built-in scheduler serves no application; .* --all-roles/);
  });

  test("an updater that the servers do not have is reported in one line, the last one", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--", script("plug-in-trainer"), "second"]);
    await job.fails(
      /^weighbridge: worker\/\d ended with exit code 1: .*UNKNOWN_PLUG_IN: server \d: this server has no updater .*--functions/m,
    );
    assert.equal([...job.stderr.matchAll(/UNKNOWN_/g)].length, 1, job.transcript);
  });

  test("a launch says first where its scheduler is, and the command that it shows looks at the cluster", async () => {
    await using processes = new Processes();
    const cwd = temporaryDirectory("launch");
    const job = launchIn(processes, cwd);
    await pidsOf(job);
    assert.match(job.stderr, /^weighbridge: scheduler at 127\.0\.0\.1:\d+, for npx weighbridge status\n/);
    const status = processes.weighbridge(["status"], { cwd });
    await status.succeeds();
    assert.match(status.stdout, /3 of 3 nodes are there/);
    job.signal("SIGINT");
    await job.ends();
    assert.doesNotMatch(job.stdout, /scheduler at/);
  });

  test("lines of many processes never break into each other", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", 1, "-w", 3, "--all-roles", "--", script("chatter")]);
    await job.succeeds();
    const lines = job.stdout.trimEnd().split("\n");
    assert.equal(lines.length, 5 * 200);
    for (const line of lines) assert.match(line, /^\[(scheduler|server\/0|worker\/[012])\] (\d+ )(ä{50}){20}\.$/);
  });

  for (const [args, message] of [
    [["-s", "1", "-w", "1", "--", "no-such.ts"], /^weighbridge: BAD_CONFIG: there is no script no-such\.ts/],
    [["-s", "0", "-w", "0", "--", "x.ts"], /at least one server or worker/],
    [["-w", "0", "--", "x.ts"], /^weighbridge: BAD_CONFIG: there are no workers \(-w 0\) to run x\.ts/],
    [["-w", "1", "--all-roles", "--worker-only", "--", "x.ts"], /--worker-only' cannot be used with option '--all-roles/],
    [["-s", "2", "-w", "1", "--threads", "2", "--all-roles", "--", "sh"], /--threads 2 needs a script that Node runs/],
  ] as const) {
    test(`refuses: weighbridge launch ${args.join(" ")}`, async () => {
      await using processes = new Processes();
      await processes.weighbridge(["launch", ...args]).refuses(message);
    });
  }

  test("fails with a command that is not there", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", "1", "-w", "1", "--", "no-such-command"]);
    await job.fails(/^weighbridge: .+ could not be started: spawn no-such-command ENOENT/m);
  });
});
