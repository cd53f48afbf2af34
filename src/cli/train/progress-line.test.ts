// Goal: how far a training is fits any width; what is missed least goes first.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fitProgress, progressFacts, type Standing } from "./progress-line.ts";

const STANDING: Standing = {
  sampleCount: 6_400,
  sampleTotal: 180_000,
  stepTotal: 2_814,
  batchSize: 64,
  seconds: 1.1,
  times: { computing: 0.61, sending: 0.042, servers: 0.216, workers: 0.132 },
  loss: 0.0432,
  epoch: 1,
  epochs: 3,
};

function line(columns: number, changes: Partial<Standing> = {}): string {
  const { bar, text } = fitProgress(0.04, progressFacts({ ...STANDING, ...changes }), columns);
  return bar + text;
}

test("a wide terminal shows all of it", () => {
  assert.match(
    line(120),
    /^ {2}[━╸─]{8} {2}step {3}100\/2,814 {2}30 s left {2}91 steps\/s {2}compute 61 send 4 servers 22 workers 13 % {2}loss 0\.043 {2}epoch 1\/3$/,
  );
});

test("beside one process the ratio stands behind the rate", () => {
  assert.match(line(140, { aloneRate: 69.4 }), / {2}91 steps\/s, 1\.31 of one process {2}compute/);
});

test("a share of less than half a percent is left out", () => {
  const times = { computing: 0.91, sending: 0.004, servers: 0.086, workers: 0 };
  assert.match(line(120, { times }), / {2}compute 91 servers 9 % {2}/);
});

test("on 80 columns steps, time left and where the time goes stay", () => {
  assert.match(line(80), /^ {2}step {3}100\/2,814 {2}30 s left {2}compute 61 send 4 servers 22 workers 13 %$/);
  const times = { computing: 0.7, sending: 0, servers: 0.3, workers: 0 };
  assert.match(line(80, { times }), / {2}30 s left {2}91 steps\/s {2}compute 70 servers 30 %/);
});

test("it is narrower than its terminal, whatever that is", () => {
  for (let columns = 1; columns <= 200; columns++) {
    assert.ok(line(columns).length < columns, `${line(columns).length} of ${columns}`);
    if (columns > 25) assert.match(line(columns), / {2}step {3}100\/2,814/);
  }
});

test("time that is left is told in what people count it in", () => {
  const left = (seconds: number): string | undefined =>
    / {2}(\S.*) left/
      .exec(line(200, { sampleCount: 90_000, seconds }))?.[1]
      ?.split("  ")
      .at(-1);
  assert.equal(left(99.5), "100 s");
  assert.equal(left(600), "10 min");
  assert.equal(left(9_000), "2 h 30 min");
  assert.match(line(200, { sampleCount: 0 }), / {2}\? left/);
  assert.match(line(200, { sampleCount: 180_000 }), / {2}step 2,814\/2,814 {2}done {2}/);
});
