// Goal: workers reduce among themselves while frames are lost, doubled and swapped, links break, and nodes of every
// role die, are restarted, or are taken for dead and come back. Every sum that an operation ends with is that of its
// generation's members, to the bit, although callers write to their arrays as soon as an operation has ended; nobody
// hangs; who is left goes on.

import assert from "node:assert/strict";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { SimCluster, type SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { meshOf } from "../../src/testing/start-office.ts";
import { DIRECT_BYTES_MAX } from "../../src/wire/collective-frame.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { Collective } from "../../src/worker/collective.ts";
import { SETTLING } from "../support/settling.ts";

/** Just too long to go directly, and several parts long. */
const RING = DIRECT_BYTES_MAX / 4 + 5;
const LONG = 200_003;

/** What the worker of this rank brings to an operation. */
export function contribution(length: number, { rank, salt }: { readonly rank: number; readonly salt: number }): Float32Array {
  const random = new Random(rank * 7919 + salt);
  const [scale, shift] = [random.fraction() * 100, random.fraction()];
  const values = new Float32Array(length);
  for (let i = 0; i < length; i++) values[i] = scale * (((i * 37) % 1009) / 1009 - shift);
  return values;
}

/**
 * The sum of all, in the order that is promised: of ranks when it is short, otherwise from member s on in segment s.
 */
function expectedSum(length: number, ranks: readonly number[], salt: number): Float32Array {
  const all = ranks.map((rank) => contribution(length, { rank, salt }));
  const count = ranks.length;
  const isDirect = 4 * length <= DIRECT_BYTES_MAX;
  const sum = new Float32Array(length);
  for (let segment = 0; segment < count; segment++) {
    const [from, to] = [Math.floor((length * segment) / count), Math.floor((length * (segment + 1)) / count)];
    for (let k = 0; k < count; k++) {
      const values = all[(isDirect ? k : segment + k) % count] as Float32Array;
      if (k === 0) sum.set(values.subarray(from, to), from);
      else for (let i = from; i < to; i++) sum[i] = (sum[i] as number) + (values[i] as number);
    }
  }
  return sum;
}

function assertSameBits(actual: Float32Array, expected: Float32Array, what: string): void {
  const [a, b] = [new Uint32Array(actual.buffer), new Uint32Array(expected.buffer)];
  assert.equal(a.length, b.length, what);
  const i = a.findIndex((bits, at) => bits !== b[at]);
  assert.equal(i, -1, `${what}: float ${i} is ${actual[i]}, not ${expected[i]}`);
}

function collectiveCluster(options: Partial<SimClusterOptions> & { readonly workerCount: number }): SimCluster {
  return new SimCluster({ seed: 1, serverCount: 0, settle: SETTLING, ...options });
}

async function openAll(cluster: SimCluster, workerCount: number): Promise<Collective[]> {
  const offices = Array.from({ length: workerCount }, (_, rank) => cluster.worker(rank));
  return await cluster.run(Promise.all(offices.map(openAt)));
}

async function openAt(office: Postoffice): Promise<Collective> {
  return await Collective.open(meshOf(office));
}

/** Many operations, several open at a time, over links that lose, double, swap and break. */
export async function runReduces(seed: number): Promise<void> {
  const random = new Random(seed);
  const workerCount = 2 + random.below(4);
  const cluster = collectiveCluster({
    seed,
    workerCount,
    faults: { dropPercent: random.below(3) * 4, duplicatePercent: random.below(3) * 4, reorderPercent: random.below(3) * 4, delayMs: 20 },
    network: { latencyMsMin: 0, latencyMsMax: 1 + random.below(20), breakChance: random.below(3) * 0.01 },
    heartbeatTimeoutMs: 60_000,
  });
  await cluster.start();
  const collectives = await openAll(cluster, workerCount);
  const plan = Array.from({ length: 12 }, () => ({
    kind: ["reduce", "reduce", "exchange", "broadcast"][random.below(4)] as string,
    length: [0, 1, 100, RING, RING + 4001, random.chance(0.1) ? LONG : 777][random.below(6)] as number,
    root: random.below(workerCount),
    isAwaited: random.chance(0.4),
  }));
  const ranks = collectives.map((_, rank) => rank);
  const work = async (collective: Collective, rank: number): Promise<void> => {
    let open: Promise<void>[] = [];
    for (const [salt, { kind, length, root, isAwaited }] of plan.entries()) {
      const what = `worker ${rank}, operation ${salt}: ${kind} of ${length}`;
      if (kind === "reduce") open.push(reduce(collective, { rank, ranks, salt, length }));
      else if (kind === "exchange") open.push(exchange(collective, { rank, ranks, salt, length }));
      else open.push(broadcast(collective, { rank, root, salt, length }, what));
      if (isAwaited) await Promise.all(open);
      if (isAwaited) open = [];
    }
    await Promise.all(open);
  };
  await cluster.run(Promise.all(collectives.map(work)));
  cluster.network.breakChance = 0;
  await cluster.run(Promise.all(collectives.map((collective) => collective.close({ timeoutMs: 60_000 }))));
  await cluster.finalize();
}

type Call = { readonly rank: number; readonly ranks: readonly number[]; readonly salt: number; readonly length: number };

/** Reduces, checks, and then spoils the array, as a caller may. */
async function reduce(collective: Collective, { rank, ranks, salt, length }: Call): Promise<void> {
  const values = contribution(length, { rank, salt });
  try {
    await collective.allReduce(values);
    assertSameBits(values, expectedSum(length, ranks, salt), `worker ${rank} of ${ranks.join(", ")}, sum ${salt} of ${length}`);
  } finally {
    values.fill(NaN);
  }
}

async function exchange(collective: Collective, { rank, ranks, salt, length }: Call): Promise<void> {
  const bytesOf = (from: number, to: number): Uint8Array => new Uint8Array((length * (to + 1)) >> 1).fill(from * 16 + to + salt);
  const outgoing = ranks.map((to) => bytesOf(rank, to));
  const received = await collective.exchange(outgoing);
  for (const [i, from] of ranks.entries())
    assert.deepEqual(received[i], bytesOf(from, rank), `worker ${rank}, exchange ${salt}: from ${from}`);
  for (const part of outgoing) part.fill(0);
}

async function broadcast(
  collective: Collective,
  { rank, root, salt, length }: { readonly rank: number; readonly root: number; readonly salt: number; readonly length: number },
  what: string,
): Promise<void> {
  const values = rank === root ? contribution(length, { rank, salt }) : new Float32Array(length);
  await collective.broadcast(values, root);
  assertSameBits(values, contribution(length, { rank: root, salt }), what);
  values.fill(NaN);
}

const STEPS = 6;

/** What may happen to a caller while nodes die. DEADLINE is none of it: that would be a hang. */
function isMishap(thrown: unknown): boolean {
  const codes = ["NODE_DEAD", "ABORTED", "CLOSED", "FENCED"] as const;
  return codes.some((code) => isWeighbridgeError(thrown, code)) || String(thrown).includes("is not running");
}

class Churn {
  readonly random: Random;
  readonly cluster: SimCluster;
  readonly workerCount: number;
  readonly #length: number;
  /** How many sums ended well. */
  sumCount = 0;
  reformCount = 0;

  constructor(seed: number) {
    this.random = new Random(seed);
    const { random } = this;
    this.workerCount = 2 + random.below(3);
    this.#length = [10, RING, random.chance(0.1) ? LONG : RING + 333][random.below(3)] as number;
    this.cluster = collectiveCluster({
      seed,
      workerCount: this.workerCount,
      network: {
        latencyMsMin: 0,
        latencyMsMax: 1 + random.below(15),
        breakChance: random.below(2) * 0.003,
        // Slow links are still writing from the arrays when a death is noticed.
        ...(random.chance(0.5) ? { bytesPerMs: 20 + random.below(300), windowBytes: 4096 } : {}),
      },
      heartbeatIntervalMs: 100,
      heartbeatTimeoutMs: 1000,
    });
  }

  async run(): Promise<void> {
    const { cluster } = this;
    await cluster.start();
    const ranks = Array.from({ length: this.workerCount }, (_, rank) => rank);
    const workers = ranks.map((rank) => this.#workUntilDone(rank));
    await cluster.run(Promise.all([...workers, this.#chaos(1 + this.random.below(3))]));
    cluster.network.breakChance = 0;
    await cluster.finalize();
  }

  async #chaos(rounds: number): Promise<void> {
    for (let round = 0; round < rounds; round++) {
      await this.#sleep(this.random.below(300));
      const victim = this.random.chance(0.25) ? SCHEDULER_ID : idOf("worker", this.random.below(this.workerCount));
      if (victim !== SCHEDULER_ID && this.random.chance(0.3)) await this.#cutOff(victim);
      else await this.#killAndRestart(victim);
    }
  }

  /** Long enough to be taken for dead, most of the time; then it is heard of again, in the same incarnation. */
  async #cutOff(victim: number): Promise<void> {
    const { cluster } = this;
    cluster.network.isolate(cluster.hostOf(victim), { breakLinks: this.random.chance(0.5) });
    await this.#sleep(500 + this.random.below(2500));
    cluster.network.heal(cluster.hostOf(victim));
  }

  async #killAndRestart(victim: number): Promise<void> {
    const { cluster } = this;
    cluster.kill(victim);
    await this.#sleep(this.random.below(2) * this.random.below(3000));
    await cluster.startNode(victim);
  }

  async #workUntilDone(rank: number): Promise<void> {
    for (;;) {
      try {
        const collective = await openAt(this.cluster.worker(rank));
        await this.#work(collective, rank);
        await collective.close({ timeoutMs: 60_000 });
        return;
      } catch (thrown) {
        if (!isMishap(thrown)) throw thrown;
        await this.#sleep(50);
      }
    }
  }

  /** Steps until all are done; after a mishap with those who are left, from where the lowest rank is. */
  async #work(collective: Collective, rank: number): Promise<void> {
    const done = Float32Array.of(0);
    for (let isAgreed = false; ; ) {
      try {
        if (!isAgreed) await collective.broadcast(done, collective.members[0] as number);
        isAgreed = true;
        while ((done[0] as number) < STEPS) {
          const hasNewcomers = await this.#step(collective, rank, done[0] as number);
          done[0] = (done[0] as number) + 1;
          if (!hasNewcomers) continue;
          isAgreed = false;
          break;
        }
        if (isAgreed) return;
        await collective.reform();
      } catch (thrown) {
        if (!isMishap(thrown) || collective.isClosed) throw thrown;
        isAgreed = false;
        await this.#reform(collective);
      }
    }
  }

  async #reform(collective: Collective): Promise<void> {
    for (;;) {
      try {
        this.reformCount++;
        await collective.reform();
        return;
      } catch (thrown) {
        if (!isMishap(thrown) || collective.isClosed) throw thrown;
      }
    }
  }

  /** Two operations at a time; true when somebody waits to be let in. */
  async #step(collective: Collective, rank: number, step: number): Promise<boolean> {
    await this.#sleep(this.random.below(30));
    const { members, generation, newcomers } = collective;
    const flag = Float32Array.of(newcomers.length > 0 ? 1 : 0);
    const salt = generation * 1000 + step;
    const sums = [collective.allReduce(flag), reduce(collective, { rank, ranks: members, salt, length: this.#length })];
    const failed = (await Promise.allSettled(sums)).find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    this.sumCount++;
    return (flag[0] as number) > 0;
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>((wake) => this.cluster.clock.after(ms, wake));
  }
}

/** Throws when a sum is wrong or somebody hangs. */
export async function runChurn(seed: number): Promise<{ readonly sumCount: number; readonly reformCount: number }> {
  const churn = new Churn(seed);
  await churn.run();
  return churn;
}
