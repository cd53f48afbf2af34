// examples — Goal: the examples do what they say, as their READMEs start them and in a few other ways.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { DEADLINE_MS, Processes, script } from "./processes.ts";

const ROOT = join(import.meta.dirname, "../..");
const socketDir = temporaryDirectory("sockets");

const launches: readonly (readonly [args: readonly (string | number)[], said: RegExp, times: number])[] = [
  [["-s", 2, "-w", 2, "--all-roles", "--", "examples/01-push-pull/main.ts"], /^\[worker\/\d\] pushed 1000 keys .* are right$/, 2],
  [["-s", 2, "-w", 2, "--all-roles", "--", "examples/02-simple-app/main.ts"], /^\[worker\/\d\] worker \d asked 3 nodes/, 2],
  [["-s", 2, "-w", 3, "--all-roles", "--", "examples/03-own-handle/main.ts"], /^\[worker\/\d\] after 200 rounds in step/, 3],
  [["-s", 2, "-w", 2, "--", "examples/04-sparse-logistic-regression/main.ts", 40_000], /^\[worker\/0\] AUC 0\.(5[5-9]|6\d)/, 1],
  [
    ["-s", 2, "-w", 1, "--functions", "examples/05-own-function/functions.ts", "--", "examples/05-own-function/main.ts"],
    /the largest rows are 999, 998, 997$/,
    1,
  ],
  [["-s", 2, "-w", 2, "--", "examples/07-tensorflow-js/main.ts", 4000], /^\[worker\/0\] accuracy 0\.(8\d|9)/, 1],
  [["-s", 2, "-w", 2, "--", "examples/08-jax-js/main.ts", 200], /^\[worker\/0\] (9\d\.\d|100\.0) % of 1000 new points/, 1],
  [["-s", 3, "-w", 1, "--threads", 2, "--all-roles", "examples/01-push-pull/main.ts"], /^\[worker\/0\] pushed 1000 keys/, 1],
  [["-s", 1, "-w", 2, "--transport", "unix", "--socket-dir", socketDir, "--all-roles", "examples/01-push-pull/main.ts"], /are right$/, 2],
  [
    ["-s", 2, "-w", 2, "--fault-drop-percent", 5, "--resend-timeout", "100ms", "--all-roles", "examples/01-push-pull/main.ts"],
    /are right$/,
    2,
  ],
  [["-s", 2, "-w", 1, "--", script("arguments"), "--epochs", "3"], /^\[worker\/0\] arguments --epochs 3, sum 1$/, 1],
  [["-s", 2, "-w", 1, "--threads", 2, "--", script("arguments")], /^\[worker\/0\] arguments , sum 1$/, 1],
];

for (const [args, said, times] of launches) {
  test(`weighbridge launch ${args.join(" ")}`, async () => {
    await using processes = new Processes();
    const launch = processes.weighbridge(["launch", ...args]);
    await launch.succeeds();
    assert.equal(launch.count(said), times, launch.transcript);
  });
}

test("node examples/12-local-sum/main.ts: devices that are threads all hold the sums that mshadow-ps measures", () => {
  for (const [devices, sums] of [
    [["0", "1", "2"], "3 3 3 / 6 6 6"],
    [["1", "2"], "2 2 2 / 5 5 5"],
  ] as const) {
    const example = spawnSync(process.execPath, [join(ROOT, "examples/12-local-sum/main.ts"), ...devices], {
      encoding: "utf8",
      timeout: DEADLINE_MS,
    });
    assert.equal(example.status, 0, example.stderr);
    const after = example.stdout.split("\n").filter((line) => line.includes("after"));
    assert.deepEqual(
      after.sort(),
      devices.map((device) => `device ${device} after: ${sums}`),
    );
  }
});

for (const [example, workers, said] of [
  ["10-matrix-factorization", 2, /^\[worker\/0\] staleness [028]: objective 1\.\d+ → [01]\.\d+ in 6 clocks/],
  ["11-lda", 4, /^\[worker\/0\] staleness [028]: log-likelihood -6\.\d+ → -[56]\.\d+ per flight in 6 clocks/],
] as const)
  test(`weighbridge launch -w ${workers} examples/${example}/main.ts draws the objective over the time for three bounds of staleness`, async () => {
    await using processes = new Processes();
    const picture = join(temporaryDirectory("picture"), "objective.svg");
    const launch = processes.weighbridge(["launch", "-w", workers, `examples/${example}/main.ts`, 6, picture]);
    await launch.succeeds();
    assert.equal(launch.count(said), 3, launch.transcript);
    const lines = [...readFileSync(picture, "utf8").matchAll(/<path class="line s\d" d="(M[^"h]*)"/g)].map(([, path = ""]) => path);
    assert.deepEqual(
      lines.map((path) => path.split("L").length),
      [7, 7, 7],
      "a point for each clock",
    );
  });

test("node examples/14-cuda-net/main.ts trains on a card, or says what is missing for it", async () => {
  await using processes = new Processes();
  const run = processes.run(process.execPath, ["examples/14-cuda-net/main.ts", "2", "1"]);
  await run.succeeds();
  assert.equal(run.count(/round 0: test-err=0\.[01]\d+|no CUDA on this machine: .*; device: "cpu" needs none$/), 1, run.transcript);
});

test("three workers with two devices each share a sum through a server: each sees 3, 6 or 9, the last one 9 (dist_async_sum)", async () => {
  await using processes = new Processes();
  const launch = processes.weighbridge(["launch", "-s", 1, "-w", 3, "--", "examples/13-dist-async-sum/main.ts"]);
  await launch.succeeds();
  const said = [...launch.transcript.matchAll(/^\[worker\/\d\] both devices hold (?:0 ){6}\/ ([369])(?: \1){5}$/gm)].map(([, sum]) =>
    Number(sum),
  );
  assert.equal(said.length, 3, launch.transcript);
  assert.equal(Math.max(...said), 9);
});

test("a training that is stopped and taken up on another number of servers comes to the same bits", async () => {
  await using processes = new Processes();
  const folder = temporaryDirectory("resume");
  const example = ["--", "examples/06-resume/main.ts"];
  const first = processes.weighbridge(["launch", "-s", 2, "-w", 1, "--checkpoint-dir", folder, ...example]);
  await first.succeeds();
  assert.equal(first.count(/saved .*step-000025$/), 1, first.transcript);
  // The last one was taken at the end of the job.
  assert.deepEqual(readdirSync(folder).sort(), ["latest", "step-000025", "step-000060"]);
  const second = processes.weighbridge(["launch", "-s", 3, "-w", 1, "--restore", join(folder, "step-000025"), ...example]);
  await second.succeeds();
  assert.equal(second.count(/going on at step 25, on 3 servers$/), 1, second.transcript);
  const [line] = /line .*, rows .*$/m.exec(first.transcript) ?? [];
  assert.ok(line !== undefined && second.transcript.includes(line), `${first.transcript}\n${second.transcript}`);
});

test("a command that Node does not run finds its role where ps-lite's programs do", async () => {
  await using processes = new Processes();
  const print = "echo role $DMLC_ROLE of $DMLC_NUM_SERVER and $DMLC_NUM_WORKER, worker $WORKER_ID, rank $WEIGHBRIDGE_RANK";
  const launch = processes.weighbridge(["launch", "-s", 1, "-w", 2, "--all-roles", "--", "sh", "-c", print]);
  await launch.succeeds();
  assert.equal(launch.count(/^\[worker\/1\] role worker of 1 and 2, worker 1, rank 1$/), 1, launch.transcript);
  assert.equal(launch.count(/^\[scheduler\] role scheduler of 1 and 2, worker , rank 0$/), 1, launch.transcript);
  assert.equal(launch.count(/^\[server\/0\] role server of 1 and 2, worker , rank 0$/), 1, launch.transcript);
});
