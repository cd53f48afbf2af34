// benches — Goal: every bench starts and reports a figure. Tiny sizes: what the figures are says nothing.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { suite, test } from "node:test";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Processes, ROOT } from "./processes.ts";

type Bench = {
  readonly args?: readonly (string | number)[];
  /** Given, the bench is a worker's script, and these are the flags of its launch. */
  readonly launch?: readonly (string | number)[];
  /** What it writes first that it has measured. */
  readonly figure: RegExp;
};

const checkpointDir = ["--checkpoint-dir", temporaryDirectory("benches")];
const BENCHES: Readonly<Record<string, Bench>> = {
  "all-reduce": {
    launch: ["-s", 1, "-w", 2],
    args: ["--seconds", 0.01, "--floats", 65_536],
    figure: /all-reduce of \d+ floats: [\d.]+ GB\/s/,
  },
  "cache-hits": { args: ["--runs", 1], figure: /rows: pinned, read and let go \d+ ns/ },
  checkpoint: {
    ...{ launch: ["-s", 1, "-w", 1, ...checkpointDir], args: ["--megabytes", 12, "--seconds", 0.1] },
    figure: /saved \S+step-\d+: \d+ rows and \d+ × 1024/,
  },
  codecs: { args: ["--round-ms", 1, "--only", "fp16"], figure: /\| fp16 \| 50 % \| [\d.]+/ },
  crowd: {
    ...{ launch: ["-s", 1, "-w", 3], args: ["--after", 0.05, "--seconds", 0.1] },
    figure: /3 workers, 4 pushes at a time: [\d,]+ requests\/s, p50/,
  },
  devices: { args: ["--rounds", 1, "--steps", 3], figure: /^LeNet-5.*\d/ },
  "embedding-cache": { args: ["--rows", 1000, "--iterations", 1], figure: /^10 % +0 .*\d\.\d/ },
  // Where there is no card these two say so.
  "gpu-keys": { figure: /no CUDA on this machine|in the calls/ },
  "gpu-rounds": { figure: /no CUDA on this machine|GB\/s/ },
  "kv-checkpoint": {
    ...{ launch: ["-s", 1, "-w", 1, ...checkpointDir], args: ["--megabytes", 4, "--seconds", 0.1] },
    figure: /saved \S+step-\d+: \d+ keys of 64 and 1 of 262144/,
  },
  "learning-rates": {
    args: ["--workers", 1, "--samples", 64, "--optimizer", "sgd", "--rates", 0.1],
    figure: /^sgd +0\.1 +\d+\.\d/,
  },
  main: { args: ["--quick", "--case", "push-4B-w1", "--regime", "free"], figure: /^push-4B-w1 .*\d/ },
  moving: { args: ["--rows", 4096, "--seconds", 0.1], figure: /moved 1 MiB in [\d.]+ s and \d+ steps; 0 of 4096 rows are wrong/ },
  nn: { args: ["--round-ms", 1], figure: /\| forward, loss, backward \| [\d.]+/ },
  optimizers: { args: ["copy"], figure: /^copy +[\d.]+ GB\/s/ },
  overlap: { launch: ["-s", 1, "-w", 1], args: ["--pairs", 1], figure: /rows, 0 cached: on [\d.]+ steps\/s/ },
  "own-updater": { args: [256], figure: /[\d.]+ M rows\/s/ },
  paired: { args: ["--other", ROOT, "--starts", 1, "--turns", 1, "--ms", 20, "push-4B-w1"], figure: /^push-4B-w1 +[\d.]+ / },
  "process-tables": { args: ["inc"], figure: /^inc of a cached dense row, one thread +[\d.]+ M\/s/ },
  "pulse-memory": { args: [1], figure: /private/ },
  pslite: { args: ["--rounds", 1, "--warm-up-ms", 10, "push-1MB-w8"], figure: /^push-1MB-w8 +[\d.]+ / },
  "row-cache": { launch: ["-s", 1, "-w", 1], args: ["--seconds", 0.03, "--warm-up-steps", 2], figure: /10\.0 % .*\d M/ },
  "shared-model": { args: [1, 3], figure: /GB\/s/ },
  "shared-model-overlap": { args: [1], figure: /with overlap, [\d.]+ without: 0\.\d/ },
  "throttled-overlap": { args: ["--steps", 1], figure: /with overlap, [\d.]+ without: [\d.]+/ },
  "string-keys": { args: ["--rounds", 1, "--round-ms", 1], figure: /^10 bytes, ASCII: [\d.]+ M keys\/s/ },
  tables: { args: ["lists"], figure: /rate \d+ M keys\/s/ },
  training: {
    args: ["--models", "lenet", "--columns", "one,1x1", "--rounds", 1, "--seconds", 0.05, "--warm-up", 0],
    figure: /^\| LeNet, .* \| [\d,]+ \| [\d,]+ \(\d+\.\d\d, waits \d+ %\) \|$/,
  },
};

/** Those that people run: no other file of the bench imports or starts them. */
function programs(): string[] {
  const files = globSync("bench/*.ts", { cwd: ROOT }).filter((file) => !file.endsWith(".test.ts"));
  const sources = files.map((file) => readFileSync(join(ROOT, file), "utf8")).join("\n");
  return files.map((file) => basename(file, ".ts")).filter((name) => !sources.includes(`"./${name}.ts"`));
}

test("every program of the bench is run here", () => {
  assert.deepEqual(Object.keys(BENCHES).sort(), programs().sort());
});

// Two at a time: those that launch nodes mostly wait.
suite("a bench reports a figure", { concurrency: 2 }, () => {
  for (const [name, { args = [], launch, figure }] of Object.entries(BENCHES)) {
    test(`bench/${name}.ts ${args.join(" ").replace(ROOT, ".")}`, async () => {
      await using processes = new Processes();
      const file = `bench/${name}.ts`;
      const bench =
        launch === undefined
          ? processes.run(process.execPath, [file, ...args.map(String)])
          : processes.weighbridge(["launch", ...launch, "--", file, ...args]);
      await bench.says(figure);
    });
  }
});
