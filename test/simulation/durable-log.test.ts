// The files of a durable log on a disk that loses what was not synced: a crash at every operation, damage, and no room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import type { FileLayer } from "../../src/node/checkpoint/file-layer.ts";
import { SegmentLog } from "../../src/node/durable/segment-log.ts";
import { EntryKind, EntryPage } from "../../src/server/replication/log-entry.ts";
import type { LogPage } from "../../src/server/replication/log-sink.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

const DIRECTORY = "/durable/server-0";
const PAGES = 24;

/** One entry; those before a FILL are IDENTITY (DurableLog.D3). */
function pageOf(number: number): LogPage {
  const kind =
    number % 8 === 3 ? EntryKind.IDENTITY : number % 8 === 4 ? EntryKind.FILL : number % 8 === 7 ? EntryKind.FILLED : EntryKind.WORKERS;
  const page = new EntryPage(new Uint8Array(512));
  page.addText(kind, new TextEncoder().encode(`entry ${number} ${"x".repeat((number * 37) % 300)}`));
  return { first: number, last: number, entries: page.bytes.subarray(0, page.length) };
}

class Stage {
  readonly clock: SimClock = new SimClock({ settle: SETTLING });
  readonly disk: SimDisk;
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.disk = new SimDisk(this.#random, "/durable");
  }

  /** A process that dies before its `operations`-th operation. */
  process(operations = Infinity): { readonly log: SegmentLog; readonly isDead: () => boolean; readonly die: () => void } {
    const mount = this.disk.mount(this.clock, 0);
    let left = operations;
    const counted = <T extends object>(target: T): T =>
      new Proxy(target, {
        get: (of, name) => {
          const member: unknown = Reflect.get(of, name);
          if (typeof member !== "function") return member;
          return async (...args: unknown[]) => {
            if (--left === 0) mount.die();
            const result: unknown = await (member as (...args: unknown[]) => Promise<unknown>).apply(of, args);
            return name === "create" || name === "open" ? counted(result as object) : result;
          };
        },
      });
    const layer = counted(mount.layer) as FileLayer;
    const self = { id: String(this.#random.below(2 ** 30)), host: "sim", pid: 1, startedAt: "" };
    const { clock } = this;
    const log = new SegmentLog({ directory: DIRECTORY, clock, log: SILENT_LOG, layer, self, isGone: () => true, segmentBytes: 1024 });
    return { log, isDead: () => left <= 0, die: () => mount.die() };
  }

  async recover(): Promise<LogPage[]> {
    const found: LogPage[] = [];
    const { log } = this.process();
    await this.clock.runUntil(
      log.open((page) => void found.push({ ...page, entries: page.entries.slice() })),
      { untilMs: this.clock.nowMs() + 60_000 },
    );
    await this.clock.runUntil(log.close(), { untilMs: this.clock.nowMs() + 60_000 });
    return found;
  }
}

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
    const stage = new Stage(operations);
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
    const stage = new Stage(operations);
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
  const stage = new Stage(1);
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
    const stage = new Stage(3);
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
  const stage = new Stage(2);
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
  const stage = new Stage(1);
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
