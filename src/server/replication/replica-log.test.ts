// replica-log.test — Goal: nothing leaves before the sink has the entries that it follows from, entries reach the sink
// in order, and what is kept for a slow one is bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENT_LOG } from "../../base/log.ts";
import { Arena } from "../../kernel/arena.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { StallingClock } from "../../testing/stalling-clock.ts";
import { StubLink } from "../../testing/stub-link.ts";
import { EntryKind } from "./log-entry.ts";
import { LogPages } from "./log-pages.ts";
import type { LogPage, LogSink, LogWriteEnd } from "./log-sink.ts";
import { ReplicaLog } from "./replica-log.ts";

const KEPT_BYTES_MAX = 4096;

/** A sink that has a page when the test says so. */
class SlowSink implements LogSink {
  readonly name = "the standby";
  readonly takesAhead = true;
  readonly pages: LogPage[] = [];
  readonly #answers: LogWriteEnd[] = [];

  write(page: LogPage, end: LogWriteEnd): void {
    this.pages.push(page);
    this.#answers.push(end);
  }

  /** It has the oldest page that it had not. */
  take(): void {
    const at = this.pages.length - this.#answers.length;
    this.#answers.shift()?.written(this.pages[at]?.last ?? 0);
  }
}

class Stage {
  readonly clock: SimClock = new SimClock();
  readonly machine: StallingClock = new StallingClock(this.clock);
  readonly sink: SlowSink = new SlowSink();
  readonly link: StubLink = new StubLink();
  readonly log: ReplicaLog;

  constructor() {
    const arena = new Arena({ bytesMax: 2 ** 20 });
    const kernels = { copy: () => assert.fail("texts are not copied by kernels") };
    this.log = new ReplicaLog({ clock: this.machine, log: SILENT_LOG, keptBytesMax: KEPT_BYTES_MAX }, new LogPages({ arena, kernels }));
  }

  /** Entries of one turn. */
  readonly append = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) this.log.appendText(EntryKind.WORKERS, { i });
    await this.clock.advance(1);
  };
}

test("a write waits for the entries that were there when it was made, and for no later ones (ReplicaLog.I1, Availability.I1)", async () => {
  const { log, sink, link, append, clock } = new Stage();
  log.sendTo(sink);
  const output = log.holdBack(link);
  output.write([new Uint8Array(8)], () => {});
  assert.equal(link.byteCount, 8, "nothing was there to wait for");
  await append(2);
  output.write([new Uint8Array(16)], () => {});
  await append(1);
  output.write([new Uint8Array(32)], () => {});
  assert.equal(link.byteCount, 8);
  sink.take();
  await clock.advance(1);
  assert.deepEqual([log.acknowledged, link.byteCount], [2, 24]);
  sink.take();
  await clock.advance(1);
  assert.deepEqual([log.acknowledged, link.byteCount], [3, 56]);
});

test("what a server tells of itself waits for the entries that were there, and for nothing once they are acknowledged (ReplicaLog.I1, Availability.I1)", async () => {
  const { log, sink, append, clock } = new Stage();
  log.sendTo(sink);
  assert.equal(log.whenCommitted(), undefined, "nothing was there to wait for");
  const committed: number[] = [];
  for (const count of [2, 1]) {
    await append(count);
    const { position } = log;
    void log.whenCommitted()?.then(() => committed.push(position));
  }
  await clock.advance(1);
  assert.deepEqual(committed, []);
  for (const reached of [[2], [2, 3]]) {
    sink.take();
    await clock.advance(1);
    assert.deepEqual(committed, reached);
  }
  assert.equal(log.whenCommitted(), undefined);
});

test("pages reach the sink in order, those from before it came too (ReplicaLog.I2, Availability.I2)", async () => {
  const { log, sink, append } = new Stage();
  for (const count of [1, 3]) await append(count);
  log.sendTo(sink);
  await append(2);
  assert.deepEqual(
    sink.pages.map(({ first, last }) => [first, last]),
    [
      [1, 1],
      [2, 4],
      [5, 6],
    ],
  );
  assert.equal(log.position, 6);
});

test("a sink that takes nothing fills the log; there is room again when it has taken half (ReplicaLog.I8, Availability.I8)", async () => {
  const { log, sink, append, clock } = new Stage();
  log.sendTo(sink);
  while (!log.isFull) await append(1);
  let hasRoom = false;
  void log.whenRoom().then(() => {
    hasRoom = true;
  });
  const keptPages = sink.pages.length;
  for (let taken = 0; taken < keptPages && !hasRoom; taken++) {
    sink.take();
    await clock.advance(1);
    if (hasRoom) assert.ok(taken + 1 >= keptPages / 2 - 1 && taken + 1 < keptPages, `${taken + 1} of ${keptPages} pages`);
  }
  assert.ok(hasRoom && !log.isFull);
});

test("what waits for a standby that is given up leaves, and without one nothing is kept (ReplicaLog.L1)", async () => {
  const { log, sink, link, append } = new Stage();
  log.sendTo(sink);
  const output = log.holdBack(link);
  while (!log.isFull) await append(1);
  output.write([new Uint8Array(8)], () => {});
  assert.equal(link.byteCount, 0);
  log.stop();
  assert.deepEqual([link.byteCount, log.isFull, log.isOn], [8, false, false]);
});

test("a log that is stopped or closed while entries are not acknowledged leaves no timer behind", async () => {
  for (const end of ["stop", "close"] as const) {
    const { log, sink, append, clock } = new Stage();
    log.sendTo(sink);
    await append(1);
    assert.equal(clock.pendingCount, 1, "it watches its standby");
    log[end]();
    assert.equal(clock.pendingCount, 0, end);
  }
  const { log, sink, append, clock } = new Stage();
  log.sendTo(sink);
  log.onLate = () => log.stop();
  await append(1);
  await clock.advance(log.lateMs);
  assert.equal(clock.pendingCount, 0, "also by whoever hears that it is late");
});

test("a machine that stood still takes no standby for late that stood still with it; one that does not answer is (ReplicaLog.L3)", async () => {
  const { log, sink, append, clock, machine } = new Stage();
  let lateCount = 0;
  log.onLate = () => lateCount++;
  log.sendTo(sink);
  await append(1);
  machine.stall(10 * log.lateMs);
  await clock.advance(0.8 * log.lateMs);
  assert.equal(lateCount, 0);
  await clock.advance(0.2 * log.lateMs);
  assert.equal(lateCount, 1);
});
