// params — Goal: the command line looks into a running job without changing it, and ends it.

import assert from "node:assert/strict";
import { basename } from "node:path";
import { after, before, test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Processes, type Running, script } from "./processes.ts";

/** What the command printed as JSON. */
async function jsonOf(running: Running): Promise<Record<string, unknown>> {
  await running.succeeds();
  return JSON.parse(running.stdout) as Record<string, unknown>;
}

class Job extends Processes {
  readonly port: number;
  readonly cwd: string = temporaryDirectory("params");

  private constructor(port: number) {
    super();
    this.port = port;
  }

  static async create(): Promise<Job> {
    return new Job(await freePort("127.0.0.1"));
  }

  /** `weighbridge ...args`, in the directory of the job. */
  ask(...args: readonly string[]): Running {
    return this.weighbridge(args, { cwd: this.cwd });
  }

  launch(): Running {
    return this.ask(
      "launch",
      "-s",
      "2",
      "-w",
      "1",
      "--port",
      String(this.port),
      "--checkpoint-dir",
      "ckpt",
      "--",
      script("some-parameters"),
    );
  }
}

/** Of the tests that look, and of the one after them that ends it. */
const job = await Job.create();
const launch = job.launch();
before(async () => void (await launch.says(/made/)));
after(async () => await job[Symbol.asyncDispose]());

test("params lists the parameters of the last job of this directory, and of the one that an address names", async () => {
  const list = job.ask("params");
  await list.succeeds();
  const same = job.ask("params", "list");
  await same.succeeds();
  assert.equal(same.stdout, list.stdout);
  assert.match(list.stdout, /^job [\w-]+: 3 parameters\n\nname +kind +shape +dtype +optimizer +consistency\n/);
  assert.match(list.stdout, /\nw +tensor +30 × 2 +f32 +sgd +bsp\n$/);
  const elsewhere = job.weighbridge(["params", `weighbridge://127.0.0.1:${job.port}`, "--json"], { cwd: temporaryDirectory("params") });
  const { parameters } = (await jsonOf(elsewhere)) as { parameters: { name: string; kind: string; dtype: string }[] };
  assert.deepEqual(
    parameters.map(({ name, kind, dtype }) => [name, kind, dtype]),
    [
      ["users", "embedding", "f32"],
      ["点击次数", "embedding", "i64"],
      ["w", "tensor", "f32"],
    ],
  );
});

test("params show tells what lies on which server, params get prints rows, and neither makes one", async () => {
  type Shown = { optimizer: object; consistency: string; servers: { server: number; rows?: number; elements?: number; bytes: number }[] };
  const rowCount = async (): Promise<number> => {
    const { servers } = (await jsonOf(job.ask("params", "show", "users", "--json"))) as Shown;
    assert.deepEqual(
      servers.map(({ server, bytes }) => [server, bytes > 10_000]),
      [
        [0, true],
        [1, true],
      ],
    );
    return servers.reduce((sum, { rows = 0 }) => sum + rows, 0);
  };
  assert.equal(await rowCount(), 1001);
  const { rows } = await jsonOf(job.ask("params", "get", "users", "17", "5000", "18446744073709551615", "--json"));
  const fresh = [0.5, 0.5, 0.5, 0.5];
  const [known, ...others] = rows as { key: string; exists: boolean; values: number[] }[];
  assert.deepEqual([known?.key, known?.exists, known?.values.map((value) => value.toFixed(3))], ["17", true, Array(4).fill("0.400")]);
  assert.deepEqual(others, [
    { key: "5000", exists: false, values: fresh },
    { key: "18446744073709551615", exists: false, values: fresh },
  ]);
  const named = job.ask("params", "get", "users", "user:5", "17", "--string");
  await named.succeeds();
  assert.match(named.stdout, /\nuser:5 {2}0\.6 0\.6 0\.6 0\.6\n {3}17\* {2}0\.5 0\.5 0\.5 0\.5\n\n\* no row yet/);
  assert.equal(await rowCount(), 1001, "no row was made");

  const tensor = (await jsonOf(job.ask("params", "show", "w", "--json"))) as Shown;
  assert.equal(tensor.consistency, "bsp");
  assert.equal(
    tensor.servers.reduce((sum, { elements = 0 }) => sum + elements, 0),
    60,
  );
  const first = job.ask("params", "get", "w");
  await first.succeeds();
  assert.match(
    first.stdout,
    /^w: tensor of f32, 30 × 2\n\n0 {2}0\.25 0\.25\n1 {2}0\.25 0\.25\n[\s\S]*\n9 {2}0\.25 0\.25\n… 20 more rows\n$/,
  );
  const one = await jsonOf(job.ask("params", "get", "w", "29", "--json"));
  assert.deepEqual(one.rows, [{ row: 29, values: [0.25, 0.25] }]);
  const counts = await jsonOf(job.ask("params", "get", "点击次数", "1", "--json"));
  assert.deepEqual(counts.rows, [{ key: "1", exists: true, values: ["1152921504606846976"] }]);
});

test("params refuses what names no parameter, no key and no row", async () => {
  await Promise.all([
    job.ask("params", "show", "user").fails(/UNKNOWN_PARAMETER: job [\w-]+ has no parameter "user"; did you mean users\?; list them/),
    job.ask("params", "get", "users", "user:5").refuses(/a key must be a whole number from 0 to 2\^64 - 1, got "user:5"; with --string/),
    job.ask("params", "get", "users").refuses(/params get needs keys: users is an embedding/),
    job.ask("params", "get", "w", "30").refuses(/w has rows 0 to 29, got "30"/),
    job.ask("params", "get", "w", "a", "--string").refuses(/w is a tensor: its rows have numbers/),
  ]);
});

test("scale and checkpoint save print one JSON document, without progress", async () => {
  const [same, saved] = await Promise.all([
    jsonOf(job.ask("scale", "--servers", "2", "--json")),
    jsonOf(job.ask("checkpoint", "save", "--step", "7", "--json")),
  ]);
  assert.deepEqual(same, { servers: 2, outcome: "unchanged" });
  assert.deepEqual([saved.step, saved.clock, basename(String(saved.path))], [7, 0, "step-000007"]);
  const { number, ...more } = await jsonOf(job.ask("scale", "--servers", "3", "--json"));
  assert.deepEqual([typeof number, more], ["number", { servers: 3, outcome: "done" }]);
  const { servers } = (await jsonOf(job.ask("params", "show", "users", "--json"))) as { servers: { server: number; rows: number }[] };
  assert.deepEqual(
    [servers.length, servers.reduce((sum, { rows }) => sum + rows, 0), servers.every(({ rows }) => rows > 0)],
    [3, 1001, true],
    "rows moved, and each counts once",
  );
});

test("stop ends the job of this directory, and waits for its end", async () => {
  const stop = job.ask("stop");
  await stop.succeeds();
  assert.match(stop.stdout, new RegExp(`^job [\\w-]+ at 127\\.0\\.0\\.1:${job.port}: SIGTERM to its launcher, pid ${launch.pid}\\n`));
  assert.match(stop.stdout, /\njob [\w-]+ has ended, after [\d.]+ m?s\n$/);
  assert.equal((await launch.ends()).code, 143, launch.transcript);
});

test("stop ends a job that serves guests in order, wherever it was started, and says so in JSON", async () => {
  await using other = await Job.create();
  const serving = other.ask("launch", "-s", "1", "-w", "0", "--port", String(other.port));
  const address = `weighbridge://127.0.0.1:${other.port}`;
  const elsewhere = { cwd: temporaryDirectory("params") };
  for (;;) if ((await other.weighbridge(["status", address, "--check"], elsewhere).ends()).code === 0) break;
  const foreign = other.weighbridge(["stop", address], { ...elsewhere, env: { XDG_STATE_HOME: temporaryDirectory("params-state") } });
  await foreign.refuses(
    /BAD_CONFIG: there is no record of job [\w-]+\S* at 127\.0\.0\.1:\d+ in \S*params-state\S*running, where jobs of this user/,
  );
  const { ended, pid } = await jsonOf(other.weighbridge(["stop", address, "--json"], elsewhere));
  assert.deepEqual([ended, pid], [true, serving.pid]);
  await serving.succeeds();
});

test("stop leaves no workers behind of a scheduler that was started by itself", async () => {
  await using other = await Job.create();
  const cluster = ["-s", "1", "-w", "1", "--scheduler-port", String(other.port)];
  other.ask("scheduler", ...cluster);
  other.ask("server", ...cluster, "--rank", "0");
  await other.ask("worker", ...cluster, "--rank", "0", script("some-parameters")).says(/made/);
  await other
    .ask("stop")
    .refuses(/was started by itself, and the job has nodes that stop cannot end: worker\/0 \(pid \d+\); end those first/);
});
