// checkpoint-series — Goal: checkpoints that fail are neither the end of the series nor asked for without a pause; a
// job whose servers have no place for any takes none.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { takeCheckpoints } from "./checkpoint-series.ts";
import type { Session } from "./session.ts";

/** A session whose checkpoints end as `save` says; the clocks asked for. */
function sessionOf(time: SimClock, save: (clock: number) => Promise<void>): { readonly session: Session; readonly asked: number[] } {
  const asked: number[] = [];
  const checkpoint = async ({ clock }: { readonly clock: number }): Promise<void> => {
    asked.push(clock);
    await save(clock);
  };
  return { session: { clocks: 4, log: SILENT_LOG, time, checkpoint } as unknown as Session, asked };
}

test("checkpoints are asked for before their clocks, until the session has closed", async () => {
  const { session, asked } = sessionOf(new SimClock(), async (clock) => {
    if (clock === 15) throw new WeighbridgeError("CLOSED", "it has closed");
  });
  await takeCheckpoints(session, 5, () => false);
  assert.deepEqual(asked, [5, 10, 15]);
});

test("a checkpoint that fails at once is followed by the next one after a pause", async () => {
  const time = new SimClock();
  let isOver = false;
  const { session, asked } = sessionOf(time, () =>
    Promise.reject(new WeighbridgeError("NODE_DEAD", "server 0 is dead", { retryable: true })),
  );
  const series = takeCheckpoints(session, 5, () => isOver);
  await time.advance(900);
  assert.deepEqual(asked, [5]);
  await time.advance(2900);
  assert.deepEqual(asked, [5, 10, 15, 20]);
  isOver = true;
  await time.runUntil(series);
  assert.deepEqual(asked, [5, 10, 15, 20]);
});

test("servers without a place for checkpoints are asked once", async () => {
  const { session, asked } = sessionOf(new SimClock(), () => Promise.reject(new WeighbridgeError("UNSUPPORTED", "no directory")));
  await takeCheckpoints(session, 5, () => false);
  assert.deepEqual(asked, [5]);
});
