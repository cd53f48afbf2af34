// transport-delivery — what every Transport must do with bytes: all of them, in order, whatever their sizes; and not
// faster than they are read.

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { Random } from "../../src/base/random.ts";
import type { Link, LinkReader } from "../../src/transport/transport.ts";
import {
  closePair,
  connectPair,
  DEADLINE_MS,
  echo,
  Flushes,
  inChunks,
  KIB,
  letTimePass,
  MIB,
  type Pair,
  Recorder,
  randomBytes,
  type Scenario,
} from "./transport-bench.ts";

export function testDelivery(scenario: Scenario): void {
  scenario("echoes messages of every size, in any chunks, into any views (Link.L1, Link.L2)", async (bench) => {
    const pair = await connectPair(bench, new Recorder({ seed: 2 }), new Recorder({ seed: 3 }));
    echo(pair);
    const random = new Random(4);
    const flushes = new Flushes();
    let sent = 0;
    let crc = 0;
    for (const size of [0, 1, 2, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097, 16_383, 16_384, 65_535, 65_536, 65_537, 70_000]) {
      const bytes = randomBytes(size, size + 1);
      crc = crc32(bytes, crc);
      sent += size;
      flushes.write(pair.nearLink, inChunks(bytes, random, Math.max(1, size / 3)));
      await pair.near.until(sent);
      assert.equal(pair.near.byteCount, sent);
      assert.equal(pair.near.crc, crc, `after a message of ${size} bytes`);
    }
    await flushes.all();
    await closePair(pair);
  });

  scenario("delivers every length from 0 to 300 bytes through views of a few bytes", async (bench) => {
    const pair = await connectPair(bench, new Recorder(), new Recorder({ seed: 5, viewBytesMax: 7 }));
    let crc = 0;
    let sent = 0;
    for (let size = 0; size <= 300; size++) {
      const bytes = randomBytes(size, size);
      crc = crc32(bytes, crc);
      sent += size;
      pair.nearLink.write([bytes], () => {});
    }
    await pair.far.until(sent);
    assert.equal(pair.far.crc, crc);
    await closePair(pair);
  });

  scenario("echoes 8 MB, both directions busy at once", async (bench) => {
    const pair = await connectPair(bench);
    echo(pair);
    const bytes = randomBytes(8_000_000, 6);
    const flushes = new Flushes();
    const random = new Random(7);
    for (const chunk of inChunks(bytes, random, 512 * KIB)) flushes.write(pair.nearLink, [chunk]);
    await pair.near.until(bytes.length);
    assert.equal(pair.far.crc, crc32(bytes));
    assert.equal(pair.near.crc, crc32(bytes));
    await flushes.all();
    await closePair(pair);
  });

  scenario("sends thousands of chunks as one write, and writes without any byte", async (bench) => {
    const pair = await connectPair(bench);
    const bytes = randomBytes(100_000, 8);
    const chunks = inChunks(bytes, new Random(9), 60);
    assert.ok(chunks.length > 3000);
    const flushes = new Flushes();
    flushes.write(pair.nearLink, []);
    flushes.write(pair.nearLink, [new Uint8Array(0)]);
    flushes.write(pair.nearLink, chunks);
    flushes.write(pair.nearLink, [new Uint8Array(0), new Uint8Array(0)]);
    await flushes.all();
    await pair.far.until(bytes.length);
    assert.equal(pair.far.byteCount, bytes.length);
    assert.equal(pair.far.crc, crc32(bytes));
    await closePair(pair);
  });

  scenario("sends from and receives into shared memory", async (bench) => {
    const memory = new Uint8Array(new SharedArrayBuffer(100_000));
    memory.set(randomBytes(memory.length, 10));
    const landing = new Uint8Array(new SharedArrayBuffer(memory.length + 1));
    const landed = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    let fill = 0;
    const reader: LinkReader = {
      view: () => landing.subarray(fill),
      received: (byteCount) => {
        fill += byteCount;
        if (fill === memory.length) landed.resolve();
      },
      closed: () => closed.resolve(),
    };
    const near = new Recorder();
    const listener = await bench.listening.listen(bench.freeAddress(), () => reader);
    const link = await bench.connecting.connect(listener.address, near.take, { timeoutMs: DEADLINE_MS });
    link.write([memory.subarray(0, 64), memory.subarray(64)], () => {});
    await landed.promise;
    assert.equal(Buffer.compare(landing.subarray(0, fill), memory), 0);
    link.close();
    await Promise.all([near.untilClosed(), closed.promise, listener.close()]);
  });

  scenario("keeps interleaved writers on several links apart", async (bench) => {
    const pairs: Pair[] = [];
    for (let i = 0; i < 4; i++) pairs.push(await connectPair(bench, new Recorder({ seed: i }), new Recorder({ seed: 10 + i })));
    const crcs = pairs.map(() => ({ near: 0, far: 0 }));
    for (let round = 0; round < 50; round++) {
      for (const [i, pair] of pairs.entries()) {
        const down = randomBytes(1000 + round, 1000 * i + round);
        const up = randomBytes(500 + round, 2000 * i + round);
        const crc = crcs[i] as { near: number; far: number };
        crc.far = crc32(down, crc.far);
        crc.near = crc32(up, crc.near);
        pair.nearLink.write([down.subarray(0, 10), down.subarray(10)], () => {});
        pair.farLink.write([up], () => {});
      }
    }
    for (const [i, pair] of pairs.entries()) {
      await pair.far.until(50 * 1000 + (50 * 49) / 2);
      await pair.near.until(50 * 500 + (50 * 49) / 2);
      assert.deepEqual({ near: pair.near.crc, far: pair.far.crc }, crcs[i]);
      await closePair(pair);
    }
  });

  scenario("delivers what accept and open write before they return", async (bench) => {
    const near = new Recorder();
    const far = new Recorder();
    const listener = await bench.listening.listen(bench.freeAddress(), (link) => {
      link.write([randomBytes(1000, 11)], () => {});
      return far.take(link);
    });
    const link = await bench.connecting.connect(
      listener.address,
      (opened) => {
        opened.write([randomBytes(2000, 12)], () => {});
        return near.take(opened);
      },
      { timeoutMs: DEADLINE_MS },
    );
    await near.until(1000);
    await far.until(2000);
    assert.equal(near.crc, crc32(randomBytes(1000, 11)));
    assert.equal(far.crc, crc32(randomBytes(2000, 12)));
    link.close();
    await Promise.all([near.untilClosed(), far.untilClosed(), listener.close()]);
  });
}

export function testFlow(scenario: Scenario): void {
  scenario("holds writes back while the reader is paused, and delivers them all after (Link.L3)", async (bench) => {
    const far = new Recorder({ viewBytesMax: 256 * KIB });
    const accepted = Promise.withResolvers<Link>();
    const listener = await bench.listening.listen(bench.freeAddress(), (link) => {
      link.pause();
      accepted.resolve(link);
      return far.take(link);
    });
    const near = new Recorder();
    const link = await bench.connecting.connect(listener.address, near.take, { timeoutMs: DEADLINE_MS });
    const flushes = new Flushes();
    const chunk = randomBytes(MIB, 13);
    let crc = 0;
    const writeCount = 96; // More than any system buffers for a reader that reads nothing.
    for (let i = 0; i < writeCount; i++) {
      flushes.write(link, [chunk]);
      crc = crc32(chunk, crc);
    }
    await letTimePass(bench, 20);
    assert.equal(far.byteCount, 0, "a link paused from the beginning delivers nothing");
    assert.ok(flushes.pendingCount > 0, "not everything can have left while nobody reads");
    (await accepted.promise).resume();
    await far.until(writeCount * MIB);
    await flushes.all();
    assert.equal(far.crc, crc);
    link.close();
    await Promise.all([near.untilClosed(), far.untilClosed(), listener.close()]);
  });

  scenario("can be paused and resumed after every read", async (bench) => {
    const pair = await connectPair(bench, new Recorder(), new Recorder({ viewBytesMax: 2000 }));
    let resumeSoon = Promise.resolve();
    pair.far.onReceived = () => {
      pair.farLink.pause();
      resumeSoon = resumeSoon.then(() => pair.farLink.resume());
    };
    const bytes = randomBytes(200_000, 14);
    pair.nearLink.write([bytes], () => {});
    await pair.far.until(bytes.length);
    assert.equal(pair.far.crc, crc32(bytes));
    await resumeSoon;
    pair.far.onReceived = () => {};
    await closePair(pair);
  });

  scenario("leaves the chunks alone after flushed (Link.L3)", async (bench) => {
    const pair = await connectPair(bench);
    const chunk = new Uint8Array(300_000);
    let crc = 0;
    for (let round = 0; round < 10; round++) {
      chunk.fill(round);
      crc = crc32(chunk, crc);
      await new Promise<void>((resolve) => pair.nearLink.write([chunk.subarray(0, 64), chunk.subarray(64)], resolve));
      chunk.fill(255);
    }
    await pair.far.until(10 * chunk.length);
    assert.equal(pair.far.crc, crc);
    await closePair(pair);
  });
}
