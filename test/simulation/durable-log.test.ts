// The files of a durable log on a disk that loses what was not synced: a crash at every operation, damage, and no room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { SegmentLog } from "../../src/node/durable/segment-log.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { DIRECTORY, LogStage, pageOf } from "./log-stage.ts";

const PAGES = 24;

/**
 * Writes all pages, one after the other or several at once, trimming as a server does. Returns how many were
 * acknowledged.
 */
async function writeAll(log: SegmentLog, acknowledged: (last: number) => void): Promise<void> {
  await log.open(() => {});
  for (let number = 1; number <= PAGES; number += 2) {
    const writes = [log.write(pageOf(number)), log.write(pageOf(number + 1))];
    for (const write of writes) acknowledged(await write);
    const filled = number + 1 - ((number + 2) % 8);
    if (filled >= 7) log.trim(filled - 4);
  }
}

function bytesFrom(start: number, last: number): Uint8Array {
  return Buffer.concat(Array.from({ length: last - start + 1 }, (_, i) => pageOf(start + i).entries));
}

test("a crash at every operation, with the power: what was acknowledged is there, bit for bit, and nothing else (DurableLog.D1, DurableLog.D2)", async () => {
  let isOver = false;
  for (let operations = 1; !isOver; operations++) {
    const stage = new LogStage(operations);
    const { log, isDead, die } = stage.process(operations);
    let acknowledged = 0;
    const writing = writeAll(log, (last) => {
      acknowledged = last;
    });
    let isDone = false;
    void writing.then(() => {
      isDone = true;
    });
    while (!isDone && !isDead()) await stage.clock.advance(1);
    for (let i = 0; i < 5; i++) await setImmediate();
    isOver = isDone;
    die();
    stage.disk.failPower();
    const found = await stage.recover();
    const [first, last] = [found[0]?.first ?? 1, found.at(-1)?.last ?? 0];
    assert.ok(last >= acknowledged, `crash before operation ${operations}: ${acknowledged} acknowledged, ${last} found`);
    assert.ok(first === 1 || first % 8 === 3, `begins with entry ${first}`);
    assert.deepEqual(Buffer.concat(found.map(({ entries }) => entries)), Buffer.from(bytesFrom(first, last)), `operation ${operations}`);
  }
});

test("a crash at every operation, then a process that goes on, then the power fails: what either acknowledged is there (SegmentLog.W4)", async () => {
  let isOver = false;
  for (let operations = 1; !isOver; operations++) {
    const stage = new LogStage(operations);
    const { clock, disk } = stage;
    const first = stage.process(operations);
    const writing = writeAll(first.log, () => {});
    let isDone = false;
    void writing.then(() => {
      isDone = true;
    });
    while (!isDone && !first.isDead()) await clock.advance(1);
    for (let i = 0; i < 5; i++) await setImmediate();
    isOver = isDone;
    first.die();
    const second = stage.process();
    let last = 0;
    const goOn = async (): Promise<void> => {
      await second.log.open((page) => {
        last = page.last;
      });
      for (const to = last + 3; last < to; ) last = await second.log.write(pageOf(last + 1));
    };
    await clock.runUntil(goOn(), { untilMs: clock.nowMs() + 60_000 });
    second.die();
    disk.failPower();
    const found = await stage.recover();
    const start = found[0]?.first ?? 1;
    assert.equal(found.at(-1)?.last, last, `crash before operation ${operations}`);
    assert.deepEqual(Buffer.concat(found.map(({ entries }) => entries)), Buffer.from(bytesFrom(start, last)), `operation ${operations}`);
  }
});

test("while the disk is full nothing is acknowledged; then everything is", async () => {
  const stage = new LogStage(1);
  const { log } = stage.process();
  await stage.clock.runUntil(
    log.open(() => {}),
    { untilMs: 60_000 },
  );
  stage.disk.roomBytes = 1100;
  let acknowledged = 0;
  const writing = (async () => {
    for (let number = 1; number <= 8; number++) acknowledged = await log.write(pageOf(number));
  })();
  await stage.clock.advance(3000);
  const before = acknowledged;
  assert.ok(before < 8, `${before}`);
  stage.disk.roomBytes = Infinity;
  await stage.clock.runUntil(writing, { untilMs: stage.clock.nowMs() + 60_000 });
  assert.equal(acknowledged, 8);
  await stage.clock.runUntil(log.close(), { untilMs: stage.clock.nowMs() + 60_000 });
  await assert.rejects(log.write(pageOf(9)), throwsCode("CLOSED"));
});

for (const ending of ["nothing was written for a while", "the log was closed", "the process died at once"] as const)
  test(`a damaged byte in the last batch, after ${ending}, is ${ending === "the process died at once" ? "taken for unfinished" : "STATE_CORRUPT"} (SegmentLog.W5)`, async () => {
    const stage = new LogStage(3);
    const { clock } = stage;
    const { log, die } = stage.process();
    const write = async (): Promise<void> => {
      await log.open(() => {});
      for (let number = 1; number <= 3; number++) await log.write(pageOf(number));
    };
    await clock.runUntil(write(), { untilMs: 60_000 });
    if (ending === "nothing was written for a while") await clock.advance(1000);
    if (ending === "the log was closed") await clock.runUntil(log.close(), { untilMs: clock.nowMs() + 60_000 });
    die();
    stage.disk.failPower();
    const { layer } = stage.disk.mount(clock, 0);
    const file = await layer.open(`${DIRECTORY}/log-000000000001`);
    const bytes = new Uint8Array(await file.size());
    await file.read(bytes, 0);
    const at = Buffer.from(bytes).indexOf("entry 3 ");
    await file.write(Uint8Array.of((bytes[at] as number) ^ 4), at);
    if (ending !== "the process died at once")
      await assert.rejects(stage.recover(), throwsCode("STATE_CORRUPT", /log-\d+ is damaged at byte/));
    else assert.equal((await stage.recover()).at(-1)?.last, 2);
  });

test("a damaged byte before the last batch is STATE_CORRUPT, with its path and offset (StoredLog.S1)", async () => {
  const stage = new LogStage(2);
  const { log } = stage.process();
  await stage.clock.runUntil(
    writeAll(log, () => {}),
    { untilMs: 60_000 },
  );
  await stage.clock.runUntil(log.close(), { untilMs: stage.clock.nowMs() + 60_000 });
  const { layer } = stage.disk.mount(stage.clock, 0);
  const names = (await layer.list(DIRECTORY)).filter((name) => name.startsWith("log-"));
  const file = await layer.open(`${DIRECTORY}/${names.sort()[0]}`);
  const byte = new Uint8Array(1);
  await file.read(byte, 100);
  await file.write(Uint8Array.of((byte[0] as number) ^ 4), 100);
  await assert.rejects(stage.recover(), throwsCode("STATE_CORRUPT", /log-\d+ is damaged at byte \d+/));
});

test("segments that are not needed any more are used again: a log that goes on for long fills no more files with zeros", async () => {
  const stage = new LogStage(1);
  const { log } = stage.process();
  stage.disk.roomBytes = 2 ** 30;
  /** What so many further pages come to on the disk, in all that is written, for each byte of their entries. */
  const round = async (from: number): Promise<number> => {
    const before = stage.disk.roomBytes;
    let entryBytes = 0;
    for (let number = from; number < from + 2 * PAGES; number++) {
      const page = pageOf(number);
      entryBytes += page.entries.byteLength;
      await log.write(page);
      if (number % PAGES === 0) log.trim(number - 4);
    }
    return (before - stage.disk.roomBytes) / entryBytes;
  };
  const shares = async (): Promise<number[]> => {
    await log.open(() => {});
    const found = [];
    for (let from = 1; from < 12 * PAGES; from += 2 * PAGES) found.push(await round(from));
    await log.close();
    return found;
  };
  const [first = 0, ...later] = await stage.clock.runUntil(shares(), { untilMs: 600_000 });
  assert.ok(first > 1.9, `in the beginning files are filled: ${first}`);
  for (const share of later.slice(1)) assert.ok(share < 1.5, `${share} bytes were written for one`);
});
