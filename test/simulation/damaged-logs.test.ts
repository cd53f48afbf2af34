// Goal: a durable log that lost a part of its files is refused, or told; what a process leaves that was killed while it
// wrote is replayed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { BATCH_HEAD_BYTES, SEGMENT_HEAD_BYTES } from "../../src/node/durable/segment-bytes.ts";
import type { LogPage } from "../../src/server/replication/log-sink.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { DIRECTORY, LogStage, pageOf, segmentPath } from "./log-stage.ts";

/** Entry 7 is FILLED, as at the end of a planned stop. */
const LAST = 7;
const UNMARKED = /the log ends without its mark/;

/** A log of entries 1 to LAST in one segment, each in a batch of its own, and where each batch begins. */
async function written({ isClosed }: { readonly isClosed: boolean }): Promise<{ readonly stage: LogStage; readonly starts: number[] }> {
  const stage = new LogStage(1);
  const { log, die } = stage.process(Infinity, { segmentBytes: 8192 });
  const starts = [SEGMENT_HEAD_BYTES];
  const write = async (): Promise<void> => {
    await log.open(() => {});
    for (let number = 1; number <= LAST; number++) {
      const page = pageOf(number);
      await log.write(page);
      starts.push((starts.at(-1) as number) + BATCH_HEAD_BYTES + page.entries.byteLength);
    }
    if (isClosed) await log.close();
  };
  await stage.clock.runUntil(write(), { untilMs: 60_000 });
  die();
  return { stage, starts };
}

function lastOf(pages: readonly LogPage[]): number | undefined {
  return pages.at(-1)?.last;
}

for (const mayBeUnfinished of [false, true]) {
  const whose = mayBeUnfinished ? "a server that was stopped" : "a durable server";
  test(`a segment of ${whose} that is shorter than it was made is STATE_CORRUPT, with its path and both sizes`, async () => {
    for (const isClosed of [true, false]) {
      const { stage, starts } = await written({ isClosed });
      const whole = await stage.segment(1);
      assert.equal(whole.length, 8192);
      for (const size of [...starts, 4096, whole.length - 1]) {
        await stage.replaceSegment(1, whole.slice(0, size));
        const says = new RegExp(`${segmentPath(1)} is damaged at byte ${size}: it was made with 8192 bytes, and has ${size}`);
        await assert.rejects(stage.recover({ mayBeUnfinished }), throwsCode("STATE_CORRUPT", says));
      }
    }
  });

  test(`zeros in a log of ${whose} before a whole batch or a mark are STATE_CORRUPT`, async () => {
    const { stage, starts } = await written({ isClosed: true });
    const whole = await stage.segment(1);
    for (const [i, from] of starts.slice(0, -1).entries())
      for (const to of starts.slice(i + 1)) {
        await stage.replaceSegment(1, whole.slice().fill(0, from, to));
        const says = new RegExp(`is damaged at byte ${from}: .* the next one is at ${to}`);
        await assert.rejects(stage.recover({ mayBeUnfinished }), throwsCode("STATE_CORRUPT", says));
      }
  });

  test(`a log of ${whose} that ends without its mark is told in one line, with the byte and the number of its last entry; one with a mark is not`, async () => {
    const { stage, starts } = await written({ isClosed: false });
    assert.equal(lastOf(await stage.recover({ mayBeUnfinished })), LAST);
    assert.deepEqual(
      stage.warnings.map(({ fields }) => fields),
      [{ path: segmentPath(1), byte: starts.at(-1), entry: LAST }],
    );
    assert.match(stage.warnings[0]?.message ?? "", UNMARKED);
    const closed = await written({ isClosed: true });
    assert.equal(lastOf(await closed.stage.recover({ mayBeUnfinished })), LAST);
    assert.deepEqual(closed.stage.warnings, []);
  });
}

test("zeros up to the end of a log look like what was never written: the line names the byte and the last entry that is left", async () => {
  const { stage, starts } = await written({ isClosed: true });
  const whole = await stage.segment(1);
  for (const [left, from] of starts.entries())
    for (const cut of [from, from + 8]) {
      stage.warnings.length = 0;
      if (left === starts.length - 1 && cut > from) continue; // within the mark: its first bytes are enough
      await stage.replaceSegment(1, whole.slice().fill(0, cut));
      assert.equal(lastOf(await stage.recover()) ?? 0, left);
      assert.deepEqual(stage.warnings[0]?.fields, { path: segmentPath(1), byte: from, entry: left });
    }
});

test("a log whose last segment is missing is STATE_CORRUPT, with the path of the one before it", async () => {
  for (const isIdle of [false, true]) {
    const stage = new LogStage(2);
    const { clock } = stage;
    const { log } = stage.process();
    const step = async (work: Promise<unknown>): Promise<void> => {
      await clock.runUntil(work, { untilMs: clock.nowMs() + 60_000 });
      if (isIdle) await clock.advance(1000); // a mark
    };
    await step(log.open(() => {}));
    for (let number = 1; number <= LAST; number++) await step(log.write(pageOf(number)));
    await step(log.close());
    const { layer } = stage.disk.mount(clock, 0);
    const segments = (await layer.list(DIRECTORY)).filter((name) => name.startsWith("log-"));
    await layer.remove(segmentPath(segments.length));
    const says = new RegExp(
      `${segmentPath(segments.length - 1)} is damaged at byte \\d+: entry \\d+ follows it, in a segment that is missing`,
    );
    await assert.rejects(stage.recover(), throwsCode("STATE_CORRUPT", says));
  }
});

test("a log whose only segment is missing is STATE_CORRUPT, with its directory, and a directory of which only the lock is left begins", async () => {
  for (const mayBeUnfinished of [false, true]) {
    const { stage } = await written({ isClosed: true });
    const { layer } = stage.disk.mount(stage.clock, 0);
    await layer.remove(segmentPath(1));
    const says = new RegExp(`the log in ${DIRECTORY} has lost all of its segments`);
    await assert.rejects(stage.recover({ mayBeUnfinished }), throwsCode("STATE_CORRUPT", says));
  }
  assert.deepEqual(await new LogStage(1).recover(), []);
});

test("a segment that an earlier version has made has no size in its head, and is read as before", async () => {
  const { stage } = await written({ isClosed: true });
  const bytes = await stage.segment(1);
  const view = new DataView(bytes.buffer);
  view.setUint32(16, 1, true);
  bytes.fill(0, 40, SEGMENT_HEAD_BYTES);
  view.setUint32(40, crc32(bytes.subarray(0, 40)), true);
  await stage.replaceSegment(1, bytes);
  assert.equal(lastOf(await stage.recover()), LAST);
});

test("a log whose process is killed at any moment while it is removed is no log: the next process begins with none (SegmentLog.W7)", async () => {
  let isOver = false;
  for (let operations = 1; !isOver; operations++) {
    const { stage } = await written({ isClosed: true });
    const { log, isDead, die } = stage.process(operations);
    let isOpen = false;
    let isRemoving = false;
    const remove = async (): Promise<void> => {
      await log.open(() => {});
      isOpen = true;
      await log.remove();
      isOver = true;
    };
    void remove();
    while (!isOver && !isDead()) await stage.clock.advance(1);
    isRemoving = isOpen;
    die();
    if (operations % 2 === 0) stage.disk.failPower();
    const found = lastOf(await stage.recover()) ?? 0;
    assert.ok(found === LAST || (isRemoving && found === 0), `operation ${operations}: ${found}`);
  }
});
