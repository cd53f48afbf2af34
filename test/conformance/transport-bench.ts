// transport-bench — what the tests of transports are made with: readers that check the contract while they read
// (Link.L1 to L5), counted writes, connected pairs. A test never sleeps: it waits for calls, and what
// must not happen is checked at a moment at which it would have happened.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { crc32 } from "node:zlib";
import { Random } from "../../src/base/random.ts";
import type { SharedMemorySystem } from "../../src/node/transport/shared-memory.ts";
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
  open(context: TestContext, sharedMemory?: SharedMemorySystem): TransportBench;
};

export const DEADLINE_MS = 5000;
export const KIB = 1024;
export const MIB: number = 1024 * 1024;

/** A reader that keeps everything it is given, into views of varying sizes, and checks the contract while it does. */
export class Recorder implements LinkReader {
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
    assert.equal(this.closedCount, 0, "Link.L1: nothing is delivered after the close");
    assert.ok(byteCount >= 1 && byteCount <= this.#view.length, `Link.L2: ${byteCount} bytes in a view of ${this.#view.length}`);
    const bytes = this.#view.subarray(0, byteCount);
    this.crc = crc32(bytes, this.crc);
    this.byteCount += byteCount;
    this.onReceived(bytes);
    while (this.#waits[0] !== undefined && this.#waits[0].bytes <= this.byteCount) this.#waits.shift()?.resolve();
  }

  closed(cause: Error | undefined): void {
    this.closedCount++;
    assert.equal(this.closedCount, 1, "Link.L4: closed once");
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

/** Counts the calls of `flushed`. They may come from inside `write` (Link.L3). */
export class Flushes {
  readonly counts: number[] = [];
  readonly #waits: (() => void)[] = [];

  write(link: Link, chunks: readonly Uint8Array[]): void {
    const index = this.counts.push(0) - 1;
    link.write(chunks, () => {
      this.counts[index] = (this.counts[index] as number) + 1;
      assert.equal(this.counts[index], 1, `Link.L3: write ${index} flushed once`);
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

export type Pair = {
  readonly near: Recorder;
  readonly far: Recorder;
  readonly nearLink: Link;
  readonly farLink: Link;
  readonly listener: Listener;
};

/** A connected pair: `near` connected, `far` accepted. */
export async function connectPair(bench: TransportBench, near: Recorder = new Recorder(), far: Recorder = new Recorder()): Promise<Pair> {
  const accepted = Promise.withResolvers<Link>();
  const listener = await bench.listening.listen(bench.freeAddress(), (link) => {
    accepted.resolve(link);
    return far.take(link);
  });
  const nearLink = await bench.connecting.connect(listener.address, near.take, { timeoutMs: DEADLINE_MS });
  return { near, far, nearLink, farLink: await accepted.promise, listener };
}

/** Closes what a test left open, and waits for it. */
export async function closePair({ near, far, nearLink, farLink, listener }: Pair): Promise<void> {
  farLink.resume();
  nearLink.resume();
  nearLink.close();
  await Promise.all([near.untilClosed(), far.untilClosed(), listener.close()]);
}

/** `round` exchanges of one byte over a link of their own: whatever was ready to happen meanwhile has happened then. */
export async function letTimePass(bench: TransportBench, rounds: number): Promise<void> {
  const pair = await connectPair(bench);
  for (let round = 1; round <= rounds; round++) {
    pair.nearLink.write([randomBytes(1, round)], () => {});
    await pair.far.until(round);
    pair.farLink.write([randomBytes(1, round)], () => {});
    await pair.near.until(round);
  }
  await closePair(pair);
}

export function randomBytes(length: number, seed: number): Uint8Array {
  const random = new Random(seed);
  const bytes = new Uint8Array(length);
  const words = new Uint32Array(bytes.buffer, 0, length >> 2);
  for (let i = 0; i < words.length; i++) words[i] = random.uint32();
  for (let i = words.length * 4; i < length; i++) bytes[i] = random.below(256);
  return bytes;
}

export function inChunks(bytes: Uint8Array, random: Random, chunkBytesMax: number): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = random.below(chunkBytesMax + 1); // Empty ones included.
    chunks.push(bytes.subarray(at, at + length));
    at += length;
  }
  return chunks;
}

/** Sends back whatever `far` receives. */
export function echo({ far, farLink }: Pair): void {
  far.onReceived = (bytes) => farLink.write([bytes.slice()], () => {});
}

/** Ends what a failed test left open, so that the process can end too. */
export class Leftovers {
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

/** Registers one test. */
export type Scenario = (name: string, body: (bench: TransportBench) => Promise<void>) => void;
