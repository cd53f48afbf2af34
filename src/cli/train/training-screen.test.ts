// Goal: what people see of a training, on a terminal and elsewhere, without a training.

import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import type { WorkerReport } from "./report.ts";
import { planTraining, type TrainPlan } from "./train-plan.ts";
import { TrainingScreen } from "./training-screen.ts";

const PLAN = planTraining("lenet", { workers: 2, servers: 1, seed: 1, checkpoint: true, overlap: false, limit: 640 });

type Terminal = { readonly isTTY: boolean; columns: number };
type Shown = { readonly screen: TrainingScreen; readonly text: () => string; readonly out: Writable & Terminal };
type Circumstances = {
  readonly isTTY: boolean;
  readonly columns?: number;
  readonly plan?: TrainPlan;
  readonly now?: () => number;
  readonly resumedFrom?: string;
  readonly has?: (packageName: string) => boolean;
  readonly hasBench?: boolean;
  readonly aloneRate?: number;
};

function show({
  isTTY,
  columns = 80,
  plan = PLAN,
  now = () => 5000,
  resumedFrom,
  has = () => false,
  hasBench = true,
  aloneRate,
}: Circumstances): Shown {
  let written = "";
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written += chunk.toString();
      done();
    },
  });
  const out = Object.assign(stream, { isTTY, columns });
  const where = {
    scheduler: "127.0.0.1:9700",
    runDirectory: "/here/run-3",
    resumedFrom,
    aloneRate,
  };
  const screen = new TrainingScreen({ out: out as unknown as NodeJS.WriteStream, plan, now, has, hasBench, ...where });
  return { screen, text: () => stripVTControlCharacters(written), out };
}

function progress(rank: number, changes: object = {}): WorkerReport & { readonly kind: "progress" } {
  const counts = { epoch: 1, step: 5, loss: 0.5, sampleCount: 160, seconds: 1, waitShare: 0.25, sendShare: 0.05 };
  return { kind: "progress", rank, ...counts, exchanges: [], ...changes };
}

const { exchanges: _none, ...WORKER } = progress(0);
const DONE: WorkerReport = { ...WORKER, kind: "done", repeatedCount: 0, byteCount: 1_234_567, step: 10, sampleCount: 320 };
const RESULT: WorkerReport = {
  kind: "result",
  result: {
    facts: [["accuracy", "98 %"]],
    table: [
      ["digit", "right"],
      ["0", "99 %"],
    ],
    objective: { text: "97.5 %", isReached: true },
  },
};

test("losses are told in MindSpore's words", () => {
  const { screen, text } = show({ isTTY: false });
  screen.show({ kind: "loss", epoch: 1, step: 1, loss: 2.3022871 });
  assert.match(text(), /^ {2}epoch: 1 step: 1, loss is 2\.302287$/m);
});

test("progress sums up the workers: steps, rate, time left, where the time goes, loss", () => {
  const { screen, text } = show({ isTTY: true, columns: 120 });
  screen.show(progress(0));
  // worker 1 is ready 3 ms after worker 0, which waits for 4 ms
  screen.show(progress(0, { exchanges: [[1, 1000, 1000, 4000]] }));
  screen.show(progress(1, { loss: 1, waitShare: 0.35, exchanges: [[1, 4000, 4000, 1000]] }));
  const line = text().split("\r").at(-1) ?? "";
  assert.match(line, /━ *─*.* step {2}5\/10 {2}1 s left {2}5\.0 steps\/s {2}compute 65 send 5 servers 21 workers 9 % {2}loss 0\.750$/);
});

test("what to try next says what to install for it, where it is not there", () => {
  const { screen, text } = show({ isTTY: false });
  for (const report of [progress(0), DONE, RESULT]) screen.show(report);
  screen.close();
  assert.match(text(), /its data: npm install vega-datasets hyparquet\n {4}npx weighbridge train wide-deep$/m);
  const equipped = show({ isTTY: false, has: () => true });
  for (const report of [progress(0), DONE, RESULT]) equipped.screen.show(report);
  equipped.screen.close();
  assert.match(equipped.text(), /will be late\n {4}npx weighbridge train wide-deep$/m);
});

test("the bench is a thing to try next where it came along", () => {
  for (const hasBench of [true, false]) {
    const { screen, text } = show({ isTTY: false, hasBench });
    for (const report of [progress(0), DONE, RESULT]) screen.show(report);
    screen.close();
    assert.equal(text().includes("npx weighbridge bench"), hasBench);
  }
});

test("what runs, where it can be asked, and where it saves are told first", () => {
  const { screen, text } = show({ isTTY: false, resumedFrom: "/here/run-3/step-10", plan: { ...PLAN, startsAt: { epoch: 1, step: 0 } } });
  screen.open();
  assert.match(text(), /^ {2}address {2}127\.0\.0\.1:9700, for npx weighbridge status$/m);
  assert.match(text(), /^ {2}resumed {2}at epoch 2 step 1, from \/here\/run-3\/step-10$/m);
  assert.match(text(), /^ {2}saves {4}after each epoch, in \/here\/run-3$/m);
});

test("the opening and the summary fit a terminal of 80 columns; commands are not folded", () => {
  const big = planTraining("lenet", {
    workers: { least: 2, most: 32 },
    servers: 16,
    replicas: 2,
    seed: 1,
    checkpoint: true,
    overlap: false,
  });
  const { screen, text } = show({ isTTY: true, plan: { ...big, checkpointEvery: "60s" }, resumedFrom: "/here/run-3/step-10" });
  screen.open();
  screen.show({ kind: "ready", rank: 0, data: "MNIST, ".repeat(12), model: "LeNet-5, ".repeat(12) } as WorkerReport);
  screen.show({ ...DONE, cache: { device: 70, host: 10, server: 20 } } as WorkerReport);
  screen.show(RESULT);
  screen.close(Array.from({ length: 12 }, (_, rank) => `worker/${rank}`));
  const lines = text().split(/[\r\n]/);
  for (const line of lines) assert.ok(/^ +npx /.test(line) || line.length <= 80, `${line.length}: ${line}`);
  assert.ok(lines.filter((line) => line.startsWith("           ")).length > 3, "what does not fit continues below the facts");
});

test("a terminal that changes its width gets its line anew at once", () => {
  const { screen, text, out } = show({ isTTY: true, columns: 120 });
  screen.show(progress(0));
  out.columns = 60;
  out.emit("resize");
  const line = text().split("\r").at(-1)?.trimEnd() ?? "";
  assert.match(line, /^ {2}step {2}3\/10 .*servers/);
  assert.ok(line.length < 60, line);
  screen.close();
  assert.equal(out.listenerCount("resize"), 0);
});

test("elsewhere than on a terminal lines become rarer the longer it takes", () => {
  let now = 1000;
  const { screen, text } = show({ isTTY: false, now: () => now });
  const told: number[] = [];
  for (let second = 0; second < 600; second++, now += 1000) {
    const before = text().length;
    screen.show(progress(0, { seconds: 1, sampleCount: 1 }));
    if (text().length > before) told.push(second);
  }
  assert.ok(told.length > 20 && told.length < 100, `${told.length} lines`);
  assert.ok(told.at(-1)! - told.at(-2)! > 5 * (told[1]! - told[0]!), String(told));
});

test("what is saved on the way is told, not each time where that is often, and not by those who are quiet", () => {
  let now = 0;
  const { screen, text } = show({ isTTY: false, now: () => now, plan: { ...PLAN, epochs: 2 } });
  for (const step of [1, 2, 3]) screen.show({ kind: "checkpoint", path: `/here/run-3/step-${step}`, epoch: 0 });
  now += 10_000;
  screen.show({ kind: "checkpoint", path: "/here/run-3/step-4", epoch: 1 });
  screen.show({ kind: "checkpoint", path: "/here/run-3/step-5", epoch: 2 });
  assert.deepEqual(text().match(/saved .*/g), ["saved /here/run-3/step-1", "saved /here/run-3/step-4, and 2 before it"]);
  assert.equal(screen.checkpoint, "/here/run-3/step-5");
  const quiet = show({ isTTY: false, plan: { ...PLAN, every: 0, epochs: 2 } });
  quiet.screen.show({ kind: "checkpoint", path: "/here/run-3/step-1", epoch: 0 });
  assert.equal(quiet.text(), "");
});

test("no mark of success where the objective was missed", () => {
  const { screen, text } = show({ isTTY: false });
  screen.show(DONE);
  screen.show({ kind: "result", result: { facts: [["accuracy", "91 %"]], objective: { text: "97.5 %", isReached: false } } });
  assert.equal(screen.close(), true);
  assert.doesNotMatch(text(), /✓/);
  assert.match(text(), /^ {2}• 10 steps in/m);
  assert.match(text(), /objective {4}97\.5 %: not reached/);
});

test("how to go on from the checkpoint is told in full", () => {
  const { screen, text } = show({ isTTY: false, plan: { ...PLAN, workers: 4, data: "my data" } });
  screen.show({ kind: "checkpoint", path: "/here/run-3/step-10", epoch: 1 });
  for (const report of [DONE, RESULT]) screen.show(report);
  screen.close();
  assert.match(text(), /^ {4}npx weighbridge train lenet --resume --epochs 3 -w 4 --limit 640 --data 'my data'$/m);
});

test("a progress line fits its terminal, whatever its width", () => {
  for (const columns of [40, 60, 80, 100, 120, 200]) {
    const { screen, text } = show({ isTTY: true, columns });
    screen.show(progress(0));
    screen.show(progress(1));
    for (const line of text().split(/[\r\n]/)) assert.ok(line.length < columns, `${line.length} of ${columns}: ${line}`);
  }
});

test("elsewhere than on a terminal nothing is written over", () => {
  const { screen, text } = show({ isTTY: false });
  screen.open();
  screen.show(progress(0));
  screen.note("something");
  assert.doesNotMatch(text(), /\r/);
  assert.match(text(), /^ {2}step {2}3\/10 .* servers 25 %/m);
});

test("the summary tells quality, throughput and where the checkpoint lies", () => {
  const { screen, text } = show({ isTTY: false });
  screen.show({ kind: "checkpoint", path: "/here/step-10", epoch: 1 });
  screen.show(DONE);
  screen.show({ ...DONE, rank: 1 });
  screen.show(RESULT);
  assert.equal(screen.close(), true);
  assert.match(text(), /✓ 10 steps in 1\.0 s/);
  assert.match(text(), /accuracy {5}98 %\n {2}objective {4}97\.5 %: reached/);
  assert.match(text(), /throughput {3}640 samples\/s, 10 steps\/s/);
  assert.match(text(), /time {9}of workers: computing 70\.0 %, sending 5\.0 %, waiting for servers 25\.0 %, for other workers 0\.0 %/);
  assert.match(text(), /moved {8}2\.47 MB/);
  assert.match(text(), /checkpoint {3}\/here\/step-10/);
  assert.doesNotMatch(text(), /repeated/);
});

test("a job that is compared with one process says what it has gained", () => {
  const { screen, text } = show({ isTTY: false, aloneRate: 8 });
  screen.open();
  for (const report of [progress(0), DONE, RESULT]) screen.show(report);
  screen.close();
  assert.match(text(), /^ {2}compared with one process, which makes 8\.0 steps\/s$/m);
  assert.match(text(), /throughput {3}640 samples\/s, 10 steps\/s, 1\.25 of one process$/m);
});

test("work that was repeated after a death is told", () => {
  const { screen, text } = show({ isTTY: false });
  screen.show({ ...DONE, repeatedCount: 3 });
  screen.show(RESULT);
  screen.close();
  assert.match(text(), /repeated {5}3 parts of batches/);
});

test("the summary names the workers that the training has lost", () => {
  const { screen, text } = show({ isTTY: false });
  screen.show(DONE);
  screen.show(RESULT);
  screen.close(["worker 1"]);
  assert.match(text(), /lost {9}worker 1: the others have done their work/);
});

test("where rows were found is told of workers that keep some", () => {
  const { screen, text } = show({ isTTY: false });
  screen.show({ ...DONE, cache: { device: 70, host: 10, server: 20 } });
  screen.show({ ...DONE, rank: 1, cache: { device: 90, host: 10, server: 0 } });
  screen.show(RESULT);
  screen.close();
  assert.match(text(), /row cache {4}found 80\.0 % on the device, 10\.0 % on the host, 10\.0 % on the servers/);
});

test("without a result there is no summary", () => {
  const { screen, text } = show({ isTTY: false });
  screen.show(DONE);
  assert.equal(screen.close(), false);
  assert.doesNotMatch(text(), /✓/);
});

test("quiet shows no progress and no losses of its own, but the result", () => {
  const { screen, text } = show({ isTTY: true, plan: { ...PLAN, every: 0 } });
  screen.show(progress(0));
  assert.equal(text(), "");
  assert.equal(screen.position, "at epoch 1 step 5");
});

test("where it is before the first step is said as well", () => {
  assert.equal(show({ isTTY: false }).screen.position, "before the first step");
});

test("a registration line fits a terminal of 80 columns, and what does not is broken between words, on a terminal alone", () => {
  const fits = "The server node id:1234567,node ip: 127.0.0.1,node port:37849 assign rank id:1";
  const long = "The server node id:1234567,node ip: 127.0.0.1,node port:37849 assign rank id:123";
  for (const isTTY of [true, false]) {
    const { screen, text } = show({ isTTY });
    screen.note(fits);
    screen.note(long);
    const broken = "  The server node id:1234567,node ip: 127.0.0.1,node port:37849 assign rank\n    id:123";
    assert.deepEqual(text().replaceAll("\r", ""), `  ${fits}\n${isTTY ? broken : `  ${long}`}\n`);
  }
});
