// fuzz.test — Goal: a hundred thousand frames of any kind, from a seed, against a real server and a real scheduler, and
// not one of them harms anybody: each is answered, ignored or closes its own link; what is wrong is counted and logged;
// memory stays bounded; and an honest worker on the same nodes gets exactly what it should, in between and afterwards,
// over links that never broke.
//
// The seed is in every failure. WEIGHBRIDGE_FUZZ_SEED and WEIGHBRIDGE_FUZZ_FRAMES choose others.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { joinBytes } from "../src/base/bytes.ts";
import { Random } from "../src/base/random.ts";
import type { KVWorker } from "../src/faces/kv/kv-worker.ts";
import type { PeerMetrics } from "../src/peer/channel-host.ts";
import type { Address } from "../src/transport/transport.ts";
import { Kind } from "../src/wire/frame.ts";
import { FrameFuzzer, headerText, type Legality, legalityOf, numbersTaken } from "./hostile/frame-fuzzer.ts";
import { failureOf, type RawClient } from "./hostile/raw-client.ts";
import { simulatedWorld, socketWorld, TargetCluster, type World } from "./hostile/target-cluster.ts";

const SEED = Number(process.env.WEIGHBRIDGE_FUZZ_SEED ?? 1);
const FRAME_COUNT = Number(process.env.WEIGHBRIDGE_FUZZ_FRAMES ?? 100_000);
const SOCKET_FRAME_COUNT = 5_000;
/** From so many frames on, every kind of mistake is among them. */
const FRAME_COUNT_FOR_ALL = 50_000;

/** How likely a frame that must break the link is let through: most links should live to send many. */
const DEADLY_CHANCE = 0.02;
/** How often a round waits at most for the end of a link: ten seconds over TCP, which a busy machine may need. */
const SETTLED_MAX = 500;
/** Failures are shorter; values are not looked at. */
const KEPT_BYTES_MAX = 4096;
/** What an answer says whose handler failed by a mistake of ours. */
const OWN_ERROR = /AssertionError|TypeError|RangeError|ReferenceError|Error: /;
const HONEST_WIDTH = 3;
const HEAP_GROWTH_BYTES_MAX = 128 * 1024 * 1024;

/** Pushes and pulls, and knows what must come back. */
class HonestUse {
  readonly #sums = new Map<string, number>();

  /** Some pushes, then a pull of all their keys without a wait in between. */
  async check(cluster: TargetCluster, random: Random): Promise<void> {
    for (const kv of [cluster.kv, cluster.handleKv]) {
      const ids = [...new Set(Array.from({ length: 1 + random.below(20) }, () => random.below(64)))].sort((a, b) => a - b);
      const keys = BigUint64Array.from(ids, (id) => (0xa5a5_a5a5n << 32n) | BigInt(id));
      for (let i = random.below(3); i >= 0; i--) this.#push(kv, keys, random);
      const values = new Float32Array(keys.length * HONEST_WIDTH);
      await cluster.world.run(kv.wait(kv.pull(keys, values), { timeoutMs: 10_000 }));
      assert.deepEqual([...values], this.#expected(kv, keys));
    }
  }

  #push(kv: KVWorker, keys: BigUint64Array, random: Random): void {
    const values = Float32Array.from({ length: keys.length * HONEST_WIDTH }, () => random.below(100) - 50);
    kv.push(keys, values);
    for (const [i, value] of values.entries()) {
      const name = this.#nameOf(kv, keys, i);
      this.#sums.set(name, (this.#sums.get(name) ?? 0) + value);
    }
  }

  #expected(kv: KVWorker, keys: BigUint64Array): number[] {
    return Array.from({ length: keys.length * HONEST_WIDTH }, (_, i) => this.#sums.get(this.#nameOf(kv, keys, i)) ?? 0);
  }

  #nameOf(kv: KVWorker, keys: BigUint64Array, i: number): string {
    return `${kv.app}/${keys[Math.floor(i / HONEST_WIDTH)]}/${i % HONEST_WIDTH}`;
  }
}

class Assault {
  readonly cluster: TargetCluster;
  readonly codes: Map<string, number> = new Map();
  frameCount = 0;
  closedCount = 0;
  readonly #random: Random;
  readonly #fuzzer: FrameFuzzer;

  constructor(cluster: TargetCluster, random: Random) {
    this.cluster = cluster;
    this.#random = random;
    this.#fuzzer = new FrameFuzzer(random);
  }

  /** One link, from its opening to its end. */
  async round(): Promise<void> {
    const random = this.#random;
    const { cluster } = this;
    const address = random.chance(0.75) ? cluster.serverAddress : cluster.world.schedulerAddress;
    const roll = random.fraction();
    if (roll < 0.15) await this.#asStranger(address, () => this.#fuzzer.garbage());
    else if (roll < 0.35) await this.#asStranger(address, () => this.#fuzzer.hello(cluster.identity));
    else await this.#asPeer(address);
  }

  async #asStranger(address: Address, makeBytes: () => Uint8Array): Promise<void> {
    const client = await this.cluster.stranger(address);
    for (let i = this.#random.below(3); i >= 0; i--) this.#send(client, [makeBytes()]);
    await this.#end(client);
  }

  async #asPeer(address: Address): Promise<void> {
    const random = this.#random;
    const client = await this.#helloCame(address);
    client.keptBytesMax = KEPT_BYTES_MAX;
    const isServer = address === this.cluster.serverAddress;
    const frames: Uint8Array[] = [];
    // What is early waits for ten seconds; src/server/request-gate.test.ts tells what becomes of it.
    const isSent = (legality: Legality): boolean => legality === "legal" || (legality !== "early" && random.chance(DEADLY_CHANCE));
    for (let i = 1 + random.below(200); i > 0; i--) {
      const { nextRequest } = client;
      let bytes: Uint8Array;
      do bytes = isServer ? this.#fuzzer.serverRequest(nextRequest) : this.#fuzzer.schedulerRequest(nextRequest);
      while (!isSent(legalityOf(bytes)));
      client.nextRequest += numbersTaken(bytes, nextRequest);
      frames.push(bytes);
    }
    if (random.chance(0.1)) client.pause();
    const isWhole = this.#send(client, frames);
    await this.cluster.settle();
    client.resume();
    await this.cluster.settle();
    const fatal = frames.find((bytes) => legalityOf(bytes) !== "legal");
    const legality = fatal === undefined ? "legal" : legalityOf(fatal);
    const isJudged = isServer && isWhole && legality !== "missized";
    for (let i = 0; isJudged && legality === "illegal" && !client.isClosed && i < SETTLED_MAX; i++) await this.cluster.settle();
    if (isJudged) assert.equal(client.isClosed, legality === "illegal", fatal === undefined ? "of legal frames only" : headerText(fatal));
    await this.#end(client);
  }

  /** A link that has said hello, to the scheduler sometimes as nobody. */
  async #helloCame(address: Address): Promise<RawClient> {
    const { cluster } = this;
    if (address !== cluster.serverAddress && this.#random.chance(0.5)) return await cluster.anonymous(address);
    try {
      return await cluster.intrude(address);
    } catch {
      await cluster.registerAgain(); // one of our own frames ended our registration
      return await cluster.intrude(address);
    }
  }

  /** As one write, as one write for each, or cut anywhere, even before the end; tells whether all was sent. */
  #send(client: RawClient, frames: readonly Uint8Array[]): boolean {
    const random = this.#random;
    this.frameCount += frames.length;
    const whole = joinBytes(frames);
    const kept = random.chance(0.1) ? whole.subarray(0, random.below(whole.length)) : whole;
    if (random.chance(0.3)) {
      for (const frame of frames) client.send(frame);
      return true;
    }
    for (let from = 0; from < kept.length; ) {
      const to = random.chance(0.5) ? kept.length : Math.min(kept.length, from + 1 + random.below(kept.length));
      client.send(kept.subarray(from, to));
      from = to;
    }
    return kept === whole;
  }

  async #end(client: RawClient): Promise<void> {
    const random = this.#random;
    await this.cluster.settle();
    if (client.isClosed) this.closedCount++;
    for (const frame of client.frames) {
      if (frame.header.kind !== Kind.FAILURE) continue;
      const { code, message } = failureOf(frame);
      this.codes.set(code, (this.codes.get(code) ?? 0) + 1);
      if (OWN_ERROR.test(message)) assert.fail(`${message}: answered to ${frame.header.toString()}`);
    }
    if (random.chance(0.5)) client.close();
    else client.destroy();
  }
}

/** Collects garbage, so that what is left is really held. */
function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

async function fuzz(world: World, seed: number, frameCount: number): Promise<void> {
  const cluster = await TargetCluster.start(world);
  const random = new Random(seed);
  const honest = new HonestUse();
  const assault = new Assault(cluster, random);
  const { stackTraceLimit } = Error;
  // Most frames are refused with an error: to note where it arose took a quarter of the time.
  Error.stackTraceLimit = 0;
  try {
    await honest.check(cluster, random);
    const bytesBefore = heapBytes();
    while (assault.frameCount < frameCount) {
      await assault.round();
      if (random.chance(0.2)) await honest.check(cluster, random);
    }
    await honest.check(cluster, random);
    assertUnharmed(cluster);
    if (frameCount >= FRAME_COUNT_FOR_ALL) assertTold(cluster, assault, frameCount);
    const grownBytes = heapBytes() - bytesBefore;
    assert.ok(grownBytes < HEAP_GROWTH_BYTES_MAX, `the heap grew by ${Math.round(grownBytes / 2 ** 20)} MiB`);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    await cluster.close();
  }
}

function assertUnharmed({ scheduler, server, worker }: TargetCluster): void {
  for (const office of [scheduler, server, worker]) assert.equal(office.failure, undefined);
  assert.equal(worker.metrics.linksBroken, 0);
  assert.equal(worker.metrics.resends, 0);
  assert.equal(worker.roster.nodes.find(({ node }) => node === worker.nodeId)?.state, "alive");
}

/** What was wrong was counted, by kind, and told. */
function assertTold({ scheduler, server, log }: TargetCluster, { codes, closedCount }: Assault, frameCount: number): void {
  const counted: readonly (keyof PeerMetrics)[] = ["badFrames", "badHellos", "requestsFailed", "gaps", "duplicates", "orphanAnswers"];
  for (const name of counted) assert.ok(server.metrics[name] + scheduler.metrics[name] > 0, `${name} is 0`);
  const expected = ["BAD_REQUEST", "KEYS_NOT_ASCENDING", "NO_ROUTE", "UNKNOWN_FUNCTION", "UNSUPPORTED", "VALUE_LENGTH"];
  for (const code of expected) assert.ok(codes.has(code), `nobody was told ${code}, only ${[...codes.keys()].join(", ")}`);
  assert.ok(closedCount > 0);
  assert.ok((log.counts.get("link broken") ?? 0) > 0);
  assert.ok((log.counts.get("a request failed") ?? 0) > 0);
  const lineCount = [...log.counts.values()].reduce((sum, count) => sum + count, 0);
  assert.ok(lineCount < frameCount, `${lineCount} log lines for ${frameCount} frames`);
}

async function withSeed(seed: number, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (thrown) {
    throw new Error(`seed ${seed}: ${thrown instanceof Error ? thrown.message : String(thrown)}`, { cause: thrown });
  }
}

test(`${FRAME_COUNT} fuzzed frames harm nobody (seed ${SEED})`, async () => {
  await withSeed(SEED, async () => await fuzz(simulatedWorld(), SEED, FRAME_COUNT));
});

test(`${SOCKET_FRAME_COUNT} fuzzed frames over TCP harm nobody (seed ${SEED})`, async () => {
  await withSeed(SEED, async () => await fuzz(await socketWorld(), SEED, SOCKET_FRAME_COUNT));
});

test("the fuzzer makes frames of every kind, and the same ones from the same seed", () => {
  const texts = (seed: number): string[] => {
    const fuzzer = new FrameFuzzer(new Random(seed));
    return Array.from({ length: 2000 }, (_, i) => headerText(i % 2 === 0 ? fuzzer.serverRequest(i + 1) : fuzzer.schedulerRequest(i + 1)));
  };
  assert.deepEqual(texts(SEED), texts(SEED));
  for (const kind of ["REQUEST", "REPLY", "FAILURE", "NOTICE"]) assert.ok(texts(SEED).some((text) => text.startsWith(kind)));
});
