// Goal: snapshots are requested before their clocks come, clocks wait for one that is being taken, and no due clock is
// left out without a warning.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../api/session.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { lineLog } from "../../testing/memory-cluster.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { SnapshotSeries } from "./snapshot-series.ts";

/** A series every 5 clocks of a session at clock 4, whose checkpoints end as `save` says. */
function seriesOf(save: (clock: number) => Promise<void>) {
  const time = new SimClock();
  const [asked, warnings]: [number[], string[]] = [[], []];
  const checkpoint = ({ clock }: { readonly clock: number }): { readonly saved: Promise<void> } => {
    asked.push(clock);
    return { saved: save(clock) };
  };
  const log = lineLog((_, message, { clock } = {}) => warnings.push(`${message} ${String(clock)}`));
  return { time, asked, warnings, series: new SnapshotSeries({ clocks: 4, log, time, checkpoint } as unknown as Session, 5) };
}

test("snapshots are requested before their clocks, until the session has closed", async () => {
  const { series, asked } = seriesOf(async (clock) => {
    if (clock === 15) throw new WeighbridgeError("CLOSED", "it has closed");
  });
  await series.run();
  assert.deepEqual(asked, [5, 10, 15]);
  assert.ok(series.mayEnd(1000));
});

test("a snapshot that fails at once is followed by the next one after a pause; clocks that are due in it are left out with a warning", async () => {
  const { series, asked, time, warnings } = seriesOf(() =>
    Promise.reject(new WeighbridgeError("NODE_DEAD", "server 0 is dead", { retryable: true })),
  );
  const ended = series.run();
  await time.advance(900);
  assert.deepEqual(asked, [5]);
  await time.advance(1000);
  assert.deepEqual([series.mayEnd(14), asked], [true, [5, 10]]);
  assert.ok(series.mayEnd(16));
  await time.advance(1000);
  assert.deepEqual(asked, [5, 10, 20]);
  series.close();
  await time.runUntil(ended);
  const [none, left] = ["a snapshot was not taken", "a snapshot was left out"];
  assert.deepEqual(warnings, [`${none} 5`, `${none} 10`, `${left} 15`, `${none} 20`]);
});

test("servers without a checkpoint directory are asked once, and clocks wait for nothing", async () => {
  const { series, asked } = seriesOf(() => Promise.reject(new WeighbridgeError("UNSUPPORTED", "no directory")));
  await series.run();
  assert.deepEqual(asked, [5]);
  assert.ok(series.mayEnd(10));
});

test("a due clock waits while an earlier snapshot is taken, for a minute at most from when it began to wait (SnapshotSeries.S3)", async () => {
  const { series, asked, time, warnings } = seriesOf(() => new Promise<void>(() => {}));
  let opened = 0;
  series.onOpen = () => void opened++;
  void series.run();
  assert.deepEqual([asked, series.mayEnd(9)], [[5], true]);
  await time.advance(100_000); // slow clocks
  assert.ok(!series.mayEnd(10));
  await time.advance(59_999);
  assert.deepEqual([series.mayEnd(10), warnings], [false, []]);
  const before = opened;
  await time.advance(1);
  assert.equal(opened, before + 1);
  assert.ok(series.mayEnd(10) && series.mayEnd(15));
  assert.deepEqual(warnings, ["a snapshot was left out 10", "a snapshot was left out 15"]);
});
