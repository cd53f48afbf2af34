// train — Goal: what `npm start` runs learns, shows it, and can be gone on with; and however it ends, every process of
// it says the truth.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { packageFile } from "../../src/node/datasets/package-file.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { isAlive, Processes, type Running, until } from "./processes.ts";

/** Long enough to be killed in the middle, however slow the machine is. */
const LONG = ["train", "lenet", "-s", 2, "--epochs", 1000, "--limit", 1280, "--every", 10];

/** The process of a node, by the line that it is ready. */
async function pidOf(job: Running, role: "server" | "worker", rank: number): Promise<number> {
  const [, pid] = await job.says(new RegExp(`^ {2}${role}/${rank} ready(?: {2}\\S+)? {2}pid (\\d+)$`));
  return Number(pid);
}

/** Reads /proc. */
function childrenOf(job: Running): number[] {
  return readFileSync(`/proc/${job.pid}/task/${job.pid}/children`, "utf8").trim().split(" ").map(Number);
}

/** The one child of the launcher that is neither server nor worker. */
async function schedulerPid(job: Running): Promise<number> {
  const others = await Promise.all([pidOf(job, "server", 0), pidOf(job, "server", 1), pidOf(job, "worker", 0), pidOf(job, "worker", 1)]);
  const children = childrenOf(job);
  const rest = children.filter((pid) => !others.includes(pid));
  assert.equal(rest.length, 1, `${children.join(" ")} without ${others.join(" ")}`);
  return rest[0]!;
}

/**
 * All that live tell in their one closing line who they are, where, and the cause; the job tells it last, with an exit
 * code of 1.
 */
async function endsWithTheTruth(job: Running, cause: RegExp, survivors: readonly string[]): Promise<void> {
  await job.fails(new RegExp(`^weighbridge: the job failed: ${cause.source}.* at epoch \\d+ step \\d+$`, "m"));
  for (const name of survivors) {
    const closings = [...job.stdout.matchAll(new RegExp(`^ {2}\\[${name}\\] stopped.*: ${cause.source}.*step \\d+$`, "gm"))];
    assert.equal(closings.length, 1, `${name} has one closing line\n${job.transcript}`);
  }
}

suite("a training that ends well", () => {
  const common = ["train", "lenet", "-s", 2, "--limit", 1920, "--every", 10];
  /** What the first test saves there, the second goes on from. */
  const saved = ["--checkpoint-dir", temporaryDirectory("train")];

  test("registers, tells losses and progress, and says at the end what the model is worth and where it lies", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge([...common, ...saved]);
    await job.succeeds();
    await job.says(/^ {2}server\/1 ready {2}127\.0\.0\.1:\d+ {2}pid \d+$/);
    await job.says(/^ {2}worker\/1 ready {2}pid \d+$/);
    const [, first] = await job.says(/^ {2}epoch: 1 step: 1, loss is (\d\.\d{6})$/);
    const [, last] = await job.says(/^ {2}epoch: 1 step: 30, loss is (\d\.\d{6})$/);
    assert.ok(Number(first) > 1.9 && Number(last) < 1.5, job.transcript);
    await job.says(/step +\d+\/30 .*steps\/s {2}compute \d+(?: (?:send|servers|workers) \d+)* % {2}loss \d/);
    const [, accuracy] = await job.says(/^ {2}accuracy {5}(\d+\.\d\d) % of 10,000 digits/);
    assert.ok(Number(accuracy) > 60, job.transcript);
    assert.equal(job.count(/^ {2}\d {6}/), 10, "a line for each digit");
    const [, path] = await job.says(/^ {2}checkpoint {3}(\S+)$/);
    assert.ok(existsSync(join(String(path), "manifest.json")));
  });

  test("goes on from its checkpoint on another number of servers as if it had not been interrupted", async () => {
    await using processes = new Processes();
    const resumed = processes.weighbridge([...common, ...saved, "--resume", "--epochs", 2, "-s", 3]);
    await resumed.succeeds();
    const whole = processes.weighbridge([...common, "--epochs", 2, "--no-checkpoint", "-s", 1]);
    await whole.succeeds();
    await resumed.says(/^ {2}resumed {2}at epoch 2 step 1, from \S+run-1\/step-\d+$/);
    for (const line of [/^ {2}epoch: 2 step: 30, loss is (\S+)$/, /^ {2}accuracy +(\S+) %/]) {
      assert.equal((await resumed.says(line))[1], (await whole.says(line))[1], "the same numbers to the last bit");
    }
    const again = processes.weighbridge([...common, ...saved, "--resume", "--epochs", 2]);
    await again.refuses(/BAD_CONFIG: .*after epoch 2:/);
    const other = processes.weighbridge([...common, ...saved, "--resume", "--epochs", 3, "--batch-size", 32]);
    await other.refuses(/BAD_CONFIG: .*--batch-size was 64, and is 32 now/);
  });

  test("goes on with the workers that remain when one is killed and one is stopped, which is ended when they are done", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["train", "lenet", "--limit", 6400, "--every", 10, "--no-checkpoint", "-s", 1, "-w", 3], {
      env: { WEIGHBRIDGE_HEARTBEAT_TIMEOUT_MS: "2000" },
    });
    await job.says(/step: 20, loss/);
    const stopped = await pidOf(job, "worker", 2);
    process.kill(await pidOf(job, "worker", 0), "SIGKILL");
    process.kill(stopped, "SIGSTOP");
    try {
      await job.succeeds();
    } finally {
      if (isAlive(stopped)) process.kill(stopped, "SIGKILL"); // nobody else would, where this fails
    }
    await job.says(/^ {2}worker\/0 was ended by SIGKILL; the job goes on with 2 workers$/);
    await job.says(/^ {2}worker\/2 was declared dead, and all others are done: it is ended now$/);
    await job.says(/^ {2}lost +worker\/0, worker\/2: the others have done their work$/);
    const [, accuracy] = await job.says(/^ {2}accuracy {5}(\d+\.\d\d) %/);
    assert.ok(Number(accuracy) > 85, job.transcript);
  });

  for (const task of ["logistic", "mf", "wide-deep"]) {
    test(`learns ${task} from some of its data, on one server and one worker`, async () => {
      await using processes = new Processes();
      const job = processes.weighbridge(["train", task, "--limit", 20_000, "--epochs", 1, "-s", 1, "-w", 1, "--quiet", "--no-checkpoint"]);
      await job.succeeds();
      const [, , figure] = await job.says(/^ {2}(AUC|error) +(\d\.\d+)/);
      assert.ok(task === "mf" ? Number(figure) < 1.1 : Number(figure) > 0.52, job.transcript);
      await job.says(/^ {2}objective .*: (not )?reached$/);
      assert.equal(job.count(/step: /), 0, "quiet");
    });
  }
});

suite("Wide & Deep with rows that workers keep", () => {
  const common = ["train", "wide-deep", "-s", 2, "--limit", 10_000, "--quiet"];
  const cache = ["--cache-rows", 2_500];
  /** What the first test saves there, the second goes on from. */
  const saved = ["--checkpoint-dir", temporaryDirectory("train")];

  async function haveTheSameFigures(one: Running, other: Running): Promise<void> {
    await Promise.all([one.succeeds(), other.succeeds()]);
    for (const line of [/^ {2}AUC +(\d\.\d{4})/, /^ {2}log loss +(\d\.\d{4})/]) {
      assert.equal((await one.says(line))[1], (await other.says(line))[1]);
    }
  }

  test("learns the same as without", async () => {
    await using processes = new Processes();
    const cached = processes.weighbridge([...common, ...cache, ...saved]);
    await haveTheSameFigures(cached, processes.weighbridge([...common, "--no-checkpoint"]));
    await cached.says(/^ {2}row cache +found \d+\.\d % on the device/);
  });

  test("goes on from its checkpoint as if it had not been interrupted", async () => {
    await using processes = new Processes();
    const resumed = processes.weighbridge([...common, ...cache, ...saved, "--resume", "--epochs", 2]);
    await haveTheSameFigures(resumed, processes.weighbridge([...common, ...cache, "--epochs", 2, "--no-checkpoint"]));
  });
});

test("a cache with fewer rows than a batch has is told of, and the training goes on", async () => {
  await using processes = new Processes();
  const job = processes.weighbridge(["train", "wide-deep", "--limit", 2_048, "--quiet", "--no-checkpoint", "--cache-rows", 20]);
  await job.succeeds();
  await job.says(
    /\[worker\/1\] .*warn .*: a step needs more rows of \S+ than the cache has.*vocabCacheSize rowCount=\d+ vocabCacheSize=20$/,
  );
});

suite("a training that cannot go on", () => {
  test("a server is killed: every process names it, and what was saved can be gone on from", async () => {
    await using processes = new Processes();
    const directory = temporaryDirectory("train");
    const saved = ["--checkpoint-dir", directory, "--checkpoint-every", "5steps"];
    const job = processes.weighbridge([...LONG, ...saved]);
    await job.says(/step: 20, loss/, 2);
    process.kill(await pidOf(job, "server", 1), "SIGKILL");
    await endsWithTheTruth(job, /server\/1 was ended by SIGKILL/, ["scheduler", "server/0", "worker/0", "worker/1"]);
    const resumed = processes.weighbridge([...LONG, ...saved, "--resume", "--quiet"].filter((flag) => flag !== "--every" && flag !== 10));
    await resumed.says(/^ {2}resumed {2}at epoch \d+ step (1|6|11|16), from \S+run-1\/step-\d+$/);
  });

  test("what is saved after a worker's death has every sample of its epochs: the end of one, and no place in its middle", async () => {
    await using processes = new Processes();
    const saved = ["--checkpoint-dir", temporaryDirectory("train"), "--checkpoint-every", "1steps"];
    const job = processes.weighbridge([...LONG, ...saved], { env: { WEIGHBRIDGE_HEARTBEAT_TIMEOUT_MS: "2000" } });
    await job.says(/step: 20, loss/);
    process.kill(await pidOf(job, "worker", 1), "SIGKILL");
    const [, epoch] = await job.says(/epoch: (\d+) step: 20, loss/, 4);
    process.kill(await pidOf(job, "server", 1), "SIGKILL");
    await job.fails(/server\/1 was ended by SIGKILL .*at epoch \d+ step (\d|1\d|20)$/m);
    const resumed = processes.weighbridge([...LONG, ...saved, "--resume"]);
    const [, resumedAt, step] = await resumed.says(/^ {2}resumed {2}at epoch (\d+) step 1, from \S+step-(\d+)$/);
    assert.equal(Number(step), 20 * (Number(resumedAt) - 1), "called by the steps that are in it");
    assert.ok(Number(resumedAt) >= Number(epoch) - 1, `at epoch ${resumedAt} after ${epoch}`);
  });

  test("the scheduler is killed: every process names it", { skip: process.platform !== "linux" && "it reads /proc" }, async () => {
    await using processes = new Processes();
    const job = processes.weighbridge([...LONG, "--no-checkpoint"]);
    await job.says(/step: 20, loss/);
    process.kill(await schedulerPid(job), "SIGKILL");
    await endsWithTheTruth(job, /scheduler was ended by SIGKILL/, ["server/0", "server/1", "worker/0", "worker/1"]);
  });

  test("all workers are killed: every process names the last of them", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge([...LONG, "--no-checkpoint"]);
    await job.says(/step: 20, loss/);
    for (const rank of [0, 1]) process.kill(await pidOf(job, "worker", rank), "SIGKILL");
    await endsWithTheTruth(job, /worker\/\d was ended by SIGKILL/, ["scheduler", "server/0", "server/1"]);
  });

  test("Ctrl-C ends every process with its line", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge([...LONG, "--no-checkpoint"]);
    await job.says(/step: 20, loss/);
    job.signal("SIGINT");
    assert.equal((await job.ends()).code, 130);
    assert.match(job.stderr, /^weighbridge: the job was ended by SIGINT at epoch \d+ step \d+$/m);
    for (const name of ["scheduler", "server/0", "worker/1"])
      assert.match(job.stdout, new RegExp(`^ {2}\\[${name}\\] stopped.*: ended by SIGINT$`, "m"));
  });

  test("a launcher that is killed leaves nobody behind", { skip: process.platform !== "linux" && "it reads /proc" }, async () => {
    await using processes = new Processes();
    const job = processes.weighbridge([...LONG, "--no-checkpoint"]);
    await job.says(/step: 20, loss/);
    const pids = childrenOf(job);
    assert.equal(pids.length, 5, "scheduler, servers and workers");
    try {
      await job.kill();
      await until(() => !pids.some(isAlive), "every process of the job to end");
    } finally {
      for (const pid of pids) if (isAlive(pid)) process.kill(pid, "SIGKILL"); // nobody else would, where this fails
    }
  });

  test("a loss that is no number any more stops at the step, names the layer, and keeps the last good checkpoint", async () => {
    await using processes = new Processes();
    const directory = temporaryDirectory("train");
    const common = ["train", "lenet", "--limit", 640, "--checkpoint-dir", directory, "-s", 1, "-w", 1];
    await processes.weighbridge([...common, "--learning-rate", 0.05, "--quiet"]).succeeds();
    const good = readFileSync(join(directory, "run-1/latest"), "utf8");
    const job = processes.weighbridge([...common, "--learning-rate", 1e6]);
    await job.fails(/the job failed: worker\/\d stopped at epoch 1 step \d+: NOT_FINITE: epoch 1, step \d+: .*not finite: .*(fc|conv)/);
    assert.equal(readFileSync(join(directory, "run-1/latest"), "utf8"), good, "what was saved before is as it was");
    assert.deepEqual(readdirSync(directory), ["run-1"], "nothing was saved of it");
    const resumed = processes.weighbridge([...common, "--resume", "--epochs", 2]);
    await resumed.succeeds();
    await resumed.says(/^ {2}resumed {2}at epoch 2 step 1, from \S+run-1\/step-\d+$/);
  });
});

test("a model that its last update made useless is not saved, and not told as a result", async () => {
  await using processes = new Processes();
  const directory = temporaryDirectory("train");
  const job = processes.weighbridge(["train", "lenet", "--limit", 64, "--learning-rate", 1e20, "--checkpoint-dir", directory]);
  await job.fails(
    /the job failed: worker\/\d stopped at epoch 1 step 1: NOT_FINITE: samples 0 to \d+: the loss is \S+; not finite: .*(fc|conv)/,
  );
  assert.deepEqual(readdirSync(directory), [], "nothing was saved of it");
});

suite("what makes no sense is said before anything starts", () => {
  const bad: readonly (readonly [readonly (string | number)[], RegExp])[] = [
    [["lenet", "--quiet", "--every", 5], /BAD_CONFIG: --quiet and --every 5 contradict/],
    [["lenet", "--batch-size", 1], /BAD_CONFIG: --batch-size 1 leaves some of 2 workers/],
    [["lenet", "--cache-rows", 10], /BAD_CONFIG: --cache-rows: lenet has no embedding/],
    [["mf", "--cache-rows", 10, "--checkpoint-every", "5steps"], /BAD_CONFIG: --checkpoint-every and --cache-rows contradict/],
    [["lenet", "--resume", "--no-checkpoint"], /BAD_CONFIG: --resume and --no-checkpoint/],
    [["lenet", "--consistency", "sync"], /BAD_CONFIG: --consistency is bsp, asp or ssp:N/],
  ];
  for (const [args, message] of bad) {
    test(`refuses: weighbridge train ${args.join(" ")}`, async () => {
      await using processes = new Processes();
      const job = processes.weighbridge(["train", ...args]);
      await job.refuses(message);
      assert.equal(job.stdout, "");
    });
  }

  test("a data set that is missing or torn is named, with an exit code of 1", async () => {
    await using processes = new Processes();
    await processes.weighbridge(["train", "lenet", "--data", "/no/such/place"]).fails(/DATASET_MISSING: \/no\/such\/place/);
    const torn = join(temporaryDirectory("train"), "flights.parquet");
    writeFileSync(torn, readFileSync(packageFile("vega-datasets", "data/flights-3m.parquet")));
    truncateSync(torn, 1_000_000);
    await processes.weighbridge(["train", "logistic", "--data", torn]).fails(/DATASET_TORN: .*flights\.parquet is not whole/);
  });
});
