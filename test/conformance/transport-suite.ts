// transport-suite — what every Transport must do (L1 to L5 in src/transport/transport.ts), as one function that registers the tests.
// A test never sleeps: it waits for calls, and what must not happen is checked at a moment at which it would have happened.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Address, Link, LinkReader, Listener, Transport } from "../../src/transport/transport.ts";

/** One transport, set up for one test. */
export type TransportBench = {
  readonly listening: Transport;
  readonly connecting: Transport;
  /** An address nobody uses. */
  freeAddress(): Address;
  /** Runs a test to its end; a simulated clock is driven here. */
  drive(body: Promise<void>): Promise<void>;
};

export type TransportKind = {
  readonly name: string;
  /** Addresses that this transport does not take. */
  readonly badAddresses: readonly Address[];
  /** False where the system does not tell an abrupt end from a plain one (unix sockets). */
  readonly tellsAbruptEnds: boolean;
  open(context: TestContext): TransportBench;
};

const DEADLINE_MS = 5000;
const KIB = 1024;
const MIB = 1024 * 1024;

/** A reader that keeps everything it is given, into views of varying sizes, and checks the contract while it does. */
class Recorder implements LinkReader {
  readonly #random: Random;
  readonly #viewBytesMax: number;
  readonly #waits: { readonly bytes: number; readonly resolve: () => void }[] = [];
  readonly #closedWaits: (() => void)[] = [];
  #view = new Uint8Array(0);
  link: Link | undefined;
  crc = 0;
  byteCount = 0;
  closedCount = 0;
  cause: Error | undefined;
  /** Called after each read. */
  onReceived: (bytes: Uint8Array) => void = () => {};

  constructor({ seed = 1, viewBytesMax = 64 * KIB }: { seed?: number; viewBytesMax?: number } = {}) {
    this.#random = new Random(seed);
    this.#viewBytesMax = viewBytesMax;
  }

  /** For `accept` and `open`. */
  readonly take = (link: Link): this => {
    this.link = link;
    return this;
  };

  view(): Uint8Array {
    assert.equal(this.closedCount, 0, "no view is asked for after the close");
    this.#view = new Uint8Array(1 + this.#random.below(this.#viewBytesMax));
    return this.#view;
  }

  received(byteCount: number): void {
    assert.equal(this.closedCount, 0, "L1: nothing is delivered after the close");
    assert.ok(byteCount >= 1 && byteCount <= this.#view.length, `L2: ${byteCount} bytes in a view of ${this.#view.length}`);
    const bytes = this.#view.subarray(0, byteCount);
    this.crc = crc32(bytes, this.crc);
    this.byteCount += byteCount;
    this.onReceived(bytes);
    while (this.#waits[0] !== undefined && this.#waits[0].bytes <= this.byteCount) this.#waits.shift()?.resolve();
  }

  closed(cause: Error | undefined): void {
    this.closedCount++;
    assert.equal(this.closedCount, 1, "L4: closed once");
    this.cause = cause;
    for (const resolve of this.#closedWaits.splice(0)) resolve();
  }

  /** Resolves when this many bytes have come in all; waits are made in ascending order. */
  async until(bytes: number): Promise<void> {
    if (this.byteCount < bytes) await new Promise<void>((resolve) => this.#waits.push({ bytes, resolve }));
  }

  async untilClosed(): Promise<void> {
    if (this.closedCount === 0) await new Promise<void>((resolve) => this.#closedWaits.push(resolve));
  }
}

/** Counts the calls of `flushed`. They may come from inside `write` (L3). */
class Flushes {
  readonly counts: number[] = [];
  readonly #waits: (() => void)[] = [];

  write(link: Link, chunks: readonly Uint8Array[]): void {
    const index = this.counts.push(0) - 1;
    link.write(chunks, () => {
      this.counts[index] = (this.counts[index] as number) + 1;
      assert.equal(this.counts[index], 1, `L3: write ${index} flushed once`);
      if (this.pendingCount === 0) for (const resolve of this.#waits.splice(0)) resolve();
    });
  }

  get pendingCount(): number {
    return this.counts.filter((count) => count === 0).length;
  }

  async all(): Promise<void> {
    if (this.pendingCount > 0) await new Promise<void>((resolve) => this.#waits.push(resolve));
  }
}

type Pair = {
  readonly near: Recorder;
  readonly far: Recorder;
  readonly nearLink: Link;
  readonly farLink: Link;
  readonly listener: Listener;
};

/** A connected pair: `near` connected, `far` accepted. */
async function connectPair(bench: TransportBench, near: Recorder = new Recorder(), far: Recorder = new Recorder()): Promise<Pair> {
  const accepted = Promise.withResolvers<Link>();
  const listener = await bench.listening.listen(bench.freeAddress(), (link) => {
    accepted.resolve(link);
    return far.take(link);
  });
  const nearLink = await bench.connecting.connect(listener.address, near.take, { deadlineMs: DEADLINE_MS });
  return { near, far, nearLink, farLink: await accepted.promise, listener };
}

/** Closes what a test left open, and waits for it. */
async function closePair({ near, far, nearLink, farLink, listener }: Pair): Promise<void> {
  farLink.resume();
  nearLink.resume();
  nearLink.close();
  await Promise.all([near.untilClosed(), far.untilClosed(), listener.close()]);
}

/** `round` exchanges of one byte over a link of their own: whatever was ready to happen meanwhile has happened then. */
async function letTimePass(bench: TransportBench, rounds: number): Promise<void> {
  const pair = await connectPair(bench);
  for (let round = 1; round <= rounds; round++) {
    pair.nearLink.write([randomBytes(1, round)], () => {});
    await pair.far.until(round);
    pair.farLink.write([randomBytes(1, round)], () => {});
    await pair.near.until(round);
  }
  await closePair(pair);
}

function randomBytes(length: number, seed: number): Uint8Array {
  const random = new Random(seed);
  const bytes = new Uint8Array(length);
  const words = new Uint32Array(bytes.buffer, 0, length >> 2);
  for (let i = 0; i < words.length; i++) words[i] = random.uint32();
  for (let i = words.length * 4; i < length; i++) bytes[i] = random.below(256);
  return bytes;
}

function inChunks(bytes: Uint8Array, random: Random, chunkBytesMax: number): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = random.below(chunkBytesMax + 1); // Empty ones included.
    chunks.push(bytes.subarray(at, at + length));
    at += length;
  }
  return chunks;
}

/** Sends back whatever `far` receives. */
function echo({ far, farLink }: Pair): void {
  far.onReceived = (bytes) => farLink.write([bytes.slice()], () => {});
}

/** Ends what a failed test left open, so that the process can end too. */
class Leftovers {
  readonly #links: Link[] = [];
  readonly #listeners: Listener[] = [];

  track(transport: Transport): Transport {
    const keep =
      (readerFor: (link: Link) => LinkReader) =>
      (link: Link): LinkReader => {
        this.#links.push(link);
        return readerFor(link);
      };
    return {
      listen: async (address, accept) => {
        const listener = await transport.listen(address, keep(accept));
        this.#listeners.push(listener);
        return listener;
      },
      connect: async (address, open, options) => await transport.connect(address, keep(open), options),
    };
  }

  end(): void {
    for (const link of this.#links) link.destroy();
    for (const listener of this.#listeners) void listener.close();
  }
}

export function testTransport(kind: TransportKind): void {
  const scenario = (name: string, body: (bench: TransportBench) => Promise<void>): void => {
    test(`${kind.name}: ${name}`, { timeout: 30_000 }, async (context) => {
      const bench = kind.open(context);
      const leftovers = new Leftovers();
      context.after(() => leftovers.end());
      const tracked = { ...bench, listening: leftovers.track(bench.listening), connecting: leftovers.track(bench.connecting) };
      await bench.drive(body(tracked));
    });
  };
  testDelivery(scenario);
  testFlow(scenario);
  testEnds(scenario, kind);
  testFaults(scenario);
  testAddresses(scenario, kind);
}

type Scenario = (name: string, body: (bench: TransportBench) => Promise<void>) => void;

function testDelivery(scenario: Scenario): void {
  scenario("echoes messages of every size, in any chunks, into any views (L1, L2)", async (bench) => {
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
    const link = await bench.connecting.connect(listener.address, near.take, { deadlineMs: DEADLINE_MS });
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
      { deadlineMs: DEADLINE_MS },
    );
    await near.until(1000);
    await far.until(2000);
    assert.equal(near.crc, crc32(randomBytes(1000, 11)));
    assert.equal(far.crc, crc32(randomBytes(2000, 12)));
    link.close();
    await Promise.all([near.untilClosed(), far.untilClosed(), listener.close()]);
  });
}

function testFlow(scenario: Scenario): void {
  scenario("holds writes back while the reader is paused, and delivers them all after (L3)", async (bench) => {
    const far = new Recorder({ viewBytesMax: 256 * KIB });
    const accepted = Promise.withResolvers<Link>();
    const listener = await bench.listening.listen(bench.freeAddress(), (link) => {
      link.pause();
      accepted.resolve(link);
      return far.take(link);
    });
    const near = new Recorder();
    const link = await bench.connecting.connect(listener.address, near.take, { deadlineMs: DEADLINE_MS });
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

  scenario("leaves the chunks alone after flushed (L3)", async (bench) => {
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

function testEnds(scenario: Scenario, kind: TransportKind): void {
  scenario("delivers everything written before a close, then closes both sides plainly (L4)", async (bench) => {
    const pair = await connectPair(bench);
    const bytes = randomBytes(8_000_000, 15);
    const flushes = new Flushes();
    flushes.write(pair.nearLink, [bytes.subarray(0, 1000), bytes.subarray(1000)]);
    flushes.write(pair.nearLink, []);
    pair.nearLink.close();
    assert.equal(pair.near.closedCount, 0, "L4: not from inside close");
    await Promise.all([pair.near.untilClosed(), pair.far.untilClosed(), flushes.all()]);
    assert.equal(pair.far.crc, crc32(bytes));
    assert.equal(pair.near.cause, undefined);
    assert.equal(pair.far.cause, undefined);
    await pair.listener.close();
  });

  scenario(
    "delivers everything written before a close although the other side is sending, and nothing to the closer any more",
    async (bench) => {
      const pair = await connectPair(bench);
      const flood = randomBytes(MIB, 16);
      const farFlushes = new Flushes();
      for (let i = 0; i < 8; i++) farFlushes.write(pair.farLink, [flood]);
      await pair.near.until(1);
      const last = randomBytes(400_000, 17);
      pair.nearLink.write([last], () => {});
      pair.nearLink.close();
      const receivedAtClose = pair.near.byteCount;
      await Promise.all([pair.near.untilClosed(), pair.far.untilClosed(), farFlushes.all()]);
      assert.equal(pair.far.crc, crc32(last));
      assert.equal(pair.near.byteCount, receivedAtClose, "L1: nothing after the close");
      await pair.listener.close();
    },
  );

  scenario("does not touch the reader's memory after close or destroy", async (bench) => {
    for (const end of ["close", "destroy"] as const) {
      const memory = new Uint8Array(64 * KIB);
      const far = new Recorder();
      const fourReads = Promise.withResolvers<void>();
      const closed = Promise.withResolvers<void>();
      let readCount = 0;
      const reader: LinkReader = {
        view: () => memory,
        received: () => {
          if (++readCount === 4) fourReads.resolve();
        },
        closed: () => closed.resolve(),
      };
      const listener = await bench.listening.listen(bench.freeAddress(), far.take);
      const link = await bench.connecting.connect(listener.address, () => reader, { deadlineMs: DEADLINE_MS });
      link.write([randomBytes(1, 1)], () => {});
      await far.until(1);
      far.link?.write([randomBytes(4 * MIB, 18)], () => {});
      await fourReads.promise;
      link[end]();
      memory.fill(77);
      await Promise.all([closed.promise, far.untilClosed()]);
      assert.equal(Buffer.compare(memory, new Uint8Array(64 * KIB).fill(77)), 0, `after ${end}`);
      await listener.close();
    }
  });

  scenario("flushes every write exactly once, whatever ends the link (L3)", async (bench) => {
    for (const end of ["near.close", "near.destroy", "far.close", "far.destroy"]) {
      const pair = await connectPair(bench);
      const flushes = new Flushes();
      pair.farLink.pause();
      for (let i = 0; i < 5; i++) flushes.write(pair.nearLink, [randomBytes(100, i), randomBytes(MIB, i)]);
      const [side, method] = end.split(".") as ["near" | "far", "close" | "destroy"];
      const link = side === "near" ? pair.nearLink : pair.farLink;
      link[method]();
      flushes.write(pair.nearLink, [randomBytes(100, 1)]);
      pair.farLink.resume();
      await Promise.all([pair.near.untilClosed(), pair.far.untilClosed()]);
      flushes.write(pair.nearLink, [randomBytes(100, 2)]);
      flushes.write(pair.nearLink, []);
      await flushes.all();
      assert.equal(flushes.counts.length, 8, end);
      await pair.listener.close();
    }
  });

  scenario("tells both sides of the end exactly once and never from inside a call (L4)", async (bench) => {
    const ends: readonly ((pair: Pair) => void)[] = [
      ({ nearLink }) => nearLink.close(),
      ({ farLink }) => farLink.close(),
      ({ nearLink }) => nearLink.destroy(),
      ({ farLink }) => farLink.destroy(),
      ({ nearLink, farLink }) => {
        nearLink.close();
        farLink.close();
      },
      ({ nearLink, farLink }) => {
        nearLink.destroy();
        farLink.destroy();
      },
      ({ nearLink, farLink }) => {
        nearLink.close();
        nearLink.close();
        nearLink.destroy();
        nearLink.destroy();
        nearLink.close();
        farLink.destroy();
      },
      ({ nearLink }) => {
        nearLink.write([randomBytes(MIB, 19)], () => {});
        nearLink.close();
        nearLink.destroy();
      },
    ];
    for (const end of ends) {
      const pair = await connectPair(bench);
      end(pair);
      assert.equal(pair.near.closedCount + pair.far.closedCount, 0, "L4: asynchronously");
      await Promise.all([pair.near.untilClosed(), pair.far.untilClosed()]);
      pair.nearLink.pause();
      pair.nearLink.resume();
      pair.nearLink.close();
      pair.farLink.destroy();
      await pair.listener.close();
      await letTimePass(bench, 2);
      assert.equal(pair.near.closedCount + pair.far.closedCount, 2);
    }
  });

  scenario("ends abruptly on destroy: the other side sees a prefix, and a cause where the system tells", async (bench) => {
    const pair = await connectPair(bench);
    const bytes = randomBytes(64 * MIB, 20);
    const prefix: Uint8Array[] = [];
    pair.far.onReceived = (part) => prefix.push(part.slice());
    pair.nearLink.write([bytes], () => {});
    await pair.far.until(1);
    pair.nearLink.destroy();
    await Promise.all([pair.near.untilClosed(), pair.far.untilClosed()]);
    assert.ok(pair.far.byteCount < bytes.length, "not everything can have left");
    assert.equal(Buffer.compare(Buffer.concat(prefix), bytes.subarray(0, pair.far.byteCount)), 0);
    assert.equal(pair.near.cause, undefined, "this side wanted it");
    if (kind.tellsAbruptEnds) assert.ok(pair.far.cause instanceof Error);
    await pair.listener.close();
  });

  scenario("lets a reader close or destroy its link while it receives", async (bench) => {
    for (const end of ["close", "destroy"] as const) {
      const pair = await connectPair(bench);
      pair.far.onReceived = () => pair.farLink[end]();
      pair.nearLink.write([randomBytes(MIB, 21)], () => {});
      await pair.far.untilClosed();
      await pair.near.untilClosed();
      assert.equal(pair.far.cause, undefined);
      await pair.listener.close();
    }
  });
}

function testFaults(scenario: Scenario): void {
  scenario("closes a link with the error its reader throws, and nothing else suffers (L5)", async (bench) => {
    const failing = new Recorder();
    const boom = new Error("boom");
    failing.onReceived = () => {
      throw boom;
    };
    const healthy = await connectPair(bench);
    const broken = await connectPair(bench, failing);
    const flushes = new Flushes();
    flushes.write(broken.nearLink, [randomBytes(10, 1)]);
    flushes.write(broken.farLink, [randomBytes(100_000, 22)]);
    await Promise.all([failing.untilClosed(), broken.far.untilClosed(), flushes.all()]);
    assert.equal(failing.cause, boom);
    healthy.nearLink.write([randomBytes(10, 2)], () => {});
    await healthy.far.until(10);
    await closePair(healthy);
    await broken.listener.close();
  });

  scenario("closes a link whose reader gives no view or an empty one, or throws something that is no error", async (bench) => {
    const faults: Partial<LinkReader>[] = [
      { view: () => new Uint8Array(0) },
      {
        view: () => {
          throw new Error("no view");
        },
      },
      {
        received: () => {
          throw "a string";
        },
      },
    ];
    for (const fault of faults) {
      const near = new Recorder();
      const far = new Recorder();
      const faulty: LinkReader = {
        view: fault.view ?? (() => new Uint8Array(10)),
        received: fault.received ?? (() => {}),
        closed: (cause) => far.closed(cause),
      };
      const listener = await bench.listening.listen(bench.freeAddress(), () => faulty);
      const link = await bench.connecting.connect(listener.address, near.take, { deadlineMs: DEADLINE_MS });
      link.write([randomBytes(1000, 1)], () => {});
      await Promise.all([near.untilClosed(), far.untilClosed()]);
      assert.ok(far.cause instanceof Error);
      await listener.close();
    }
  });

  scenario("drops a connection whose accept throws, and goes on listening", async (bench) => {
    let acceptCount = 0;
    const far = new Recorder();
    const listener = await bench.listening.listen(bench.freeAddress(), (link) => {
      if (++acceptCount === 1) throw new Error("not today");
      return far.take(link);
    });
    const first = new Recorder();
    await bench.connecting.connect(listener.address, first.take, { deadlineMs: DEADLINE_MS }).then(
      () => first.untilClosed(),
      (error) => assert.ok(isWeighbridgeError(error, "NO_ROUTE")), // The system may already know.
    );
    const second = new Recorder();
    const link = await bench.connecting.connect(listener.address, second.take, { deadlineMs: DEADLINE_MS });
    link.write([randomBytes(10, 1)], () => {});
    await far.until(10);
    link.close();
    await Promise.all([second.untilClosed(), far.untilClosed(), listener.close()]);
  });

  scenario("fails to connect with the error that open throws, and closes the other side", async (bench) => {
    const far = new Recorder();
    const listener = await bench.listening.listen(bench.freeAddress(), far.take);
    const boom = new Error("boom");
    await assert.rejects(
      bench.connecting.connect(
        listener.address,
        () => {
          throw boom;
        },
        { deadlineMs: DEADLINE_MS },
      ),
      boom,
    );
    await far.untilClosed();
    await listener.close();
  });
}

function testAddresses(scenario: Scenario, kind: TransportKind): void {
  const noReader = (): LinkReader => assert.fail("nobody is connected");

  scenario("says NO_ROUTE and the address when nobody listens there", async (bench) => {
    const address = bench.freeAddress();
    const listener = await bench.listening.listen(address, noReader);
    await listener.close();
    await assert.rejects(bench.connecting.connect(listener.address, noReader, { deadlineMs: DEADLINE_MS }), (error) => {
      assert.ok(isWeighbridgeError(error, "NO_ROUTE"));
      assert.ok(error.message.includes(listener.address), error.message);
      return error.retryable;
    });
  });

  scenario("says PORT_IN_USE and the address when it is taken, and takes it again once it is free", async (bench) => {
    const listener = await bench.listening.listen(bench.freeAddress(), (link) => new Recorder().take(link));
    await assert.rejects(bench.listening.listen(listener.address, noReader), (error) => {
      assert.ok(isWeighbridgeError(error, "PORT_IN_USE"));
      assert.ok(error.message.includes(listener.address) && error.message.includes("choose another"), error.message);
      return true;
    });
    const near = new Recorder();
    const link = await bench.connecting.connect(listener.address, near.take, { deadlineMs: DEADLINE_MS }); // The first one still listens.
    link.destroy();
    await near.untilClosed();
    await listener.close();
    const again = await bench.listening.listen(listener.address, noReader);
    assert.equal(again.address, listener.address);
    await again.close();
  });

  scenario("closes a listener twice without harm, and leaves its links alone", async (bench) => {
    const pair = await connectPair(bench);
    await pair.listener.close();
    await pair.listener.close();
    pair.nearLink.write([randomBytes(1000, 23)], () => {});
    await pair.far.until(1000);
    pair.farLink.write([randomBytes(1000, 24)], () => {});
    await pair.near.until(1000);
    await closePair(pair);
  });

  scenario("says BAD_ARGUMENT for addresses that are none of its own", async (bench) => {
    for (const address of ["", "nonsense", "http://host:1", ...kind.badAddresses]) {
      const bad = (error: unknown): boolean => isWeighbridgeError(error, "BAD_ARGUMENT") && error.message.includes(`"${address}"`);
      await assert.rejects(bench.listening.listen(address, noReader), bad, `listen ${address}`);
      await assert.rejects(bench.connecting.connect(address, noReader, { deadlineMs: DEADLINE_MS }), bad, `connect ${address}`);
    }
  });
}
