// Goal: what workers do with each other and beside plain pushes and pulls is exact while parts move from server to
// server: pushes with pulls, raw and cached rows, encoded links, data, groups that keep pace, partial reduces,
// collectives, rendezvous and barriers.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { TensorWorker } from "../../src/faces/tensors/tensor-worker.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { type Changes, keepChanging, moveAny } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { openRawRows } from "../../src/worker/raw-rows.ts";
import { SETTLING } from "../support/settling.ts";

const SERVERS = 3;
const WORKERS = 2;
const ROUNDS = 10;
const STALENESS = 1;
const PAUSE_MS_MAX = 15;
const KEYS = BigUint64Array.from({ length: 30 }, (_, i) => BigInt(i) * 7919n);
const [WIDTH, ROWS] = [2, 6];
const ROW_NUMBERS = [1, 4];
const LINK = { push: "fp16", pull: "fp16", keys: "delta", keyCache: true } as const;
const WAIT = { timeoutMs: 60_000 };

const ones = (count: number): Float32Array => new Float32Array(count).fill(1);

class MovingParts {
  readonly #cluster: SimCluster;
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#cluster = new SimCluster({ seed, serverCount: SERVERS, workerCount: WORKERS, placement: "range", settle: SETTLING });
  }

  async run(changes: Changes, changing: "parts" | "servers"): Promise<void> {
    const cluster = this.#cluster;
    await cluster.start();
    keepChanging(cluster, this.#random, PAUSE_MS_MAX, changes, changing === "parts" ? undefined : moveAny);
    await cluster.run(Promise.all([0, 1].map((rank) => this.#work(rank))));
  }

  async #work(rank: number): Promise<void> {
    const session = await Session.open(this.#cluster.worker(rank).node);
    await Promise.all([
      this.#keepPace(new TensorWorker(session)),
      this.#leaveData(new TensorWorker(session), rank),
      this.#meet(session),
      this.#writeRaw(session, rank),
      this.#pushAndPull(session, rank),
    ]);
    await session.barrier(WAIT);
  }

  /** Under SSP, so that answers have to wait at the servers while parts leave. */
  async #pushAndPull(session: Session, rank: number): Promise<void> {
    const consistency = { ssp: STALENESS } as const;
    /** All of its own pushes, and of the other worker those that its bound promises, and allows. */
    const isExpected = (value: number, round: number): boolean =>
      value >= round + Math.max(0, round - 1 - STALENESS) && value <= round + Math.min(ROUNDS, round + 1 + STALENESS);
    const optimizer = { type: "sum" } as const;
    const [table, tensor, encoded] = await Promise.all([
      session.embedding("rows", { dim: WIDTH, optimizer, consistency }),
      session.tensor("tensor", { shape: [ROWS, WIDTH], optimizer, consistency }),
      session.tensor("encoded", { shape: [ROWS, WIDTH], optimizer, consistency, link: LINK }),
    ]);
    const gradients = ones(WIDTH * KEYS.length);
    for (let round = 1; round <= ROUNDS; round++) {
      const reads = [
        table.pushPull({ keys: KEYS, gradients }, KEYS, WAIT),
        tensor.pushPull(ones(ROWS * WIDTH), "all", WAIT),
        encoded.pushPull(ones(ROWS * WIDTH), "all", WAIT),
        table.pull(KEYS, WAIT),
      ];
      if (this.#random.chance(0.3)) this.#cluster.network.breakLinks(`worker-${rank}`, `server-${this.#random.below(SERVERS)}`);
      for (const values of await Promise.all(reads))
        assert.ok(
          values.every((value) => isExpected(value, round)),
          `worker ${rank} reads ${values.join(" ")} in round ${round}`,
        );
      session.clock();
    }
    await session.barrier(WAIT);
    const pushed = { rows: ROW_NUMBERS, gradients: ones(WIDTH * ROW_NUMBERS.length) };
    await tensor.pushPull(pushed, ROW_NUMBERS, WAIT);
    await tensor.pushPull({ rows: ROW_NUMBERS, gradients: pushed.gradients }, "all", WAIT);
    session.clock();
    session.clock();
    await session.barrier(WAIT);
    const expected = WORKERS * ROUNDS;
    const whole = Float32Array.from({ length: ROWS * WIDTH }, (_, i) =>
      ROW_NUMBERS.includes(Math.floor(i / WIDTH)) ? expected + 2 * WORKERS : expected,
    );
    assert.deepEqual(await table.pull(KEYS, WAIT), new Float32Array(WIDTH * KEYS.length).fill(expected));
    assert.deepEqual(await tensor.pull(WAIT), whole);
    assert.deepEqual(await encoded.pull(WAIT), new Float32Array(ROWS * WIDTH).fill(expected));
  }

  /** One worker writes rows with what their optimizer keeps; both read them. */
  async #writeRaw(session: Session, rank: number): Promise<void> {
    const table = await session.embedding("raw", { dim: WIDTH, optimizer: { type: "adagrad" }, consistency: "bsp" });
    if (rank !== 0) return;
    const raw = table.raw(openRawRows, new Arena({ shared: false, bytesMax: 2 ** 24 }));
    await raw.claim();
    for (let round = 1; round <= ROUNDS; round++) {
      const rows = Float32Array.from({ length: raw.rowFloats * KEYS.length }, (_, i) => round * 1000 + i);
      await raw.write(KEYS, rows);
      const read = new Float32Array(rows.length);
      await raw.read(KEYS, read);
      assert.deepEqual(read, rows, `raw rows of round ${round}`);
    }
  }

  async #leaveData(hetu: TensorWorker, rank: number): Promise<void> {
    const indexes = Array.from({ length: 20 }, (_, i) => WORKERS * i + rank);
    const lengths = indexes.map((index) => index % 4);
    const floatCount = lengths.reduce((sum, length) => sum + length, 0);
    for (let round = 1; round <= ROUNDS; round++) {
      await hetu.waitData(hetu.pushData(indexes, ones(floatCount), lengths, WAIT));
      const into = new Float32Array(floatCount);
      await hetu.waitData(hetu.pullData(indexes, into, lengths, WAIT));
      assert.deepEqual(into, ones(floatCount).fill(round), `data of worker ${rank} in round ${round}`);
    }
  }

  /** Groups of all workers: nobody is more than one version ahead, and both find each other. */
  async #keepPace(hetu: TensorWorker): Promise<void> {
    const group = 2n ** 40n + 7n;
    const start = await hetu.sspInit(group, { size: WORKERS, tolerance: 1 }, WAIT);
    for (let round = 1; round <= ROUNDS; round++) {
      await hetu.sspSync(group, start + round, WAIT);
      assert.deepEqual(await hetu.preduceGetPartner(group, { want: WORKERS, waitMs: 30_000 }, WAIT), [0, 1], `partners in round ${round}`);
    }
  }

  async #meet(session: Session): Promise<void> {
    const collective = await session.collective(WAIT);
    for (let round = 1; round <= ROUNDS; round++) {
      const values = Float32Array.of(session.rank, round);
      await collective.allReduce(values, WAIT);
      assert.deepEqual(values, Float32Array.of(1, WORKERS * round));
      const met = await session.rendezvous.meet("round", { generation: round, value: `${session.rank}`, ...WAIT });
      assert.equal(met.length, WORKERS);
    }
  }
}

export async function runMovingParts(seed: number, changes: Changes, changing: "parts" | "servers" = "parts"): Promise<void> {
  await new MovingParts(seed).run(changes, changing);
}
