// Goal: a worker saves and restores while parts move from server to server. Every checkpoint there is has each row of
// every table once, and each value is that of a float64 model at the cut: exactly, where the worker waits for the
// checkpoint, and nothing but what it pushed since then, where it does not. So it is with a parameter that is saved and
// loaded by itself, and with what another number of servers restores.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { CheckpointDirectory } from "../../src/node/checkpoint/checkpoint-directory.ts";
import type { CheckpointReader } from "../../src/node/checkpoint/checkpoint-reader.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { type Changes, keepChanging } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import type { Tensor } from "../../src/worker/tensor.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

const ROOT = "/checkpoints";
const SAVES = 5;
const KEYS = BigUint64Array.from({ length: 60 }, (_, i) => BigInt(i) * 7919n);
const TENSORS = ["a", "b", "c"];
const PAUSE_MS_MAX = 20;
const WAIT = { timeoutMs: 120_000 };

/** Of every row of the table, then of every tensor. */
type Model = Float64Array;
/** What a checkpoint may have: from the first to the last model. */
type Bounds = { readonly from: Model; readonly to: Model };
type Job = { readonly session: Session; readonly table: Embedding; readonly tensors: readonly Tensor[] };

export type SaveTally = Record<"saved" | "refused", number>;

class MovingCheckpoints {
  readonly tally: SaveTally = { saved: 0, refused: 0 };
  readonly #seed: number;
  readonly #random: Random;
  readonly #changes: Changes;
  readonly #disk: SimDisk;
  /** By step. */
  readonly #bounds = new Map<number, Bounds>();
  #model: Model = new Float64Array(KEYS.length + TENSORS.length);
  #cluster!: SimCluster;

  constructor(seed: number, changes: Changes) {
    this.#seed = seed;
    this.#random = new Random(seed);
    this.#changes = changes;
    this.#disk = new SimDisk(new Random(seed + 7), ROOT);
  }

  async run(): Promise<void> {
    await this.#start(3);
    await this.#cluster.run(this.#save());
    await this.#checkDisk();
    await this.#start(2 + this.#random.below(3));
    await this.#cluster.run(this.#restore());
  }

  async #start(serverCount: number): Promise<void> {
    const cluster = new SimCluster({
      ...{ seed: this.#seed, serverCount, workerCount: 1, placement: "range", settle: SETTLING },
      network: { latencyMsMin: 0, latencyMsMax: 8 },
      optionsOf: () => ({ checkpointFiles: new ServerFiles(ROOT, this.#disk.mount(cluster.clock, 3).layer) }),
    });
    this.#cluster = cluster;
    await cluster.start();
    keepChanging(cluster, new Random(this.#seed), PAUSE_MS_MAX, this.#changes);
  }

  async #open(session: Session): Promise<Job> {
    const optimizer = { type: "sum" } as const;
    const table = await session.embedding("rows", { dim: 1, optimizer, ...WAIT });
    return { session, table, tensors: await Promise.all(TENSORS.map((name) => session.tensor(name, { shape: [1], optimizer, ...WAIT }))) };
  }

  async #save(): Promise<void> {
    const job = await this.#open(await Session.open(this.#cluster.worker(0).node));
    for (let save = 0; save < SAVES; save++) {
      await this.#push(job);
      job.session.clock();
      await this.#checkpoint(job);
      if (this.#random.chance(0.3)) await this.#saveAndLoad(job);
    }
    await this.#push(job);
    const { clocks } = job.session;
    await this.#checkpoint(job, true);
    assert.equal(job.session.clocks, clocks);
  }

  /** Multiples of a quarter: float32 adds them exactly. */
  async #push({ table, tensors }: Job): Promise<void> {
    const gradient = Float32Array.from(this.#model, () => this.#random.below(64) / 4);
    this.#model = this.#model.map((value, i) => value + (gradient[i] as number));
    const rows = table.push(KEYS, gradient.slice(0, KEYS.length), WAIT);
    await Promise.all([rows, ...tensors.map((tensor, i) => tensor.push(gradient.slice(KEYS.length + i, KEYS.length + i + 1), WAIT))]);
  }

  async #checkpoint(job: Job, isLast = false): Promise<void> {
    const from = this.#model;
    const isAwaited = isLast || this.#random.chance(0.6);
    const saving = job.session.checkpoint(WAIT).saved;
    const pushing = isAwaited ? Promise.resolve() : this.#push(job);
    try {
      const { step } = await saving;
      this.#bounds.set(step, { from, to: this.#model });
      this.tally.saved++;
    } catch (thrown) {
      if (isLast || !(isWeighbridgeError(thrown, "WRONG_EPOCH") && thrown.retryable)) throw thrown;
      this.tally.refused++;
    }
    await pushing;
  }

  async #saveAndLoad(job: Job): Promise<void> {
    const saved = this.#model;
    await job.session.saveParameter("rows", "apart", WAIT);
    await this.#push(job);
    await job.session.loadParameter("rows", "apart", WAIT);
    this.#model = this.#model.map((value, i) => (i < KEYS.length ? (saved[i] as number) : value));
    assert.deepEqual([...(await job.table.pull(KEYS, WAIT))], [...this.#model.subarray(0, KEYS.length)], "loaded as it was saved");
  }

  async #checkDisk(): Promise<void> {
    const { layer } = this.#disk.mount(this.#cluster.clock, 0);
    const stored = (await new CheckpointDirectory({ root: ROOT, layer }).list()).map(({ step }) => step);
    assert.deepEqual(new Set(stored), new Set(this.#bounds.keys()), "those that the worker was told of, and no others");
    for (const step of stored) {
      await using reader = await openCheckpoint(ROOT, { layer, step });
      const { from, to } = this.#bounds.get(step) as Bounds;
      for (const [i, value] of (await valuesIn(reader)).entries())
        assert.ok(
          value >= (from[i] as number) && value <= (to[i] as number),
          `step ${step}: value ${i} is ${value}, not ${from[i]} to ${to[i]}`,
        );
    }
  }

  /** The newest: its worker waited for it. */
  async #restore(): Promise<void> {
    const session = await Session.open(this.#cluster.worker(0).node);
    await session.restore(WAIT);
    const { table, tensors } = await this.#open(session);
    const values = await Promise.all([table.pull(KEYS, WAIT), ...tensors.map((tensor) => tensor.pull(WAIT))]);
    assert.deepEqual(
      values.flatMap((array) => [...array]),
      [...this.#model],
      "restored as it was at the cut",
    );
  }
}

/** In the order of the model. Each is there once. */
async function valuesIn(reader: CheckpointReader): Promise<readonly number[]> {
  const rows = new Map<bigint, number>();
  const floats: number[] = [];
  for (const name of ["rows", ...TENSORS])
    for (const chunk of reader.chunks(name))
      await reader.readRows(chunk, ({ columns, rowCount }) => {
        const columnOf = (column: string): ArrayBuffer => (columns.get(column) as Uint8Array).slice().buffer as ArrayBuffer;
        const values = new Float32Array(columnOf("values"));
        if (name !== "rows") floats.push(...values);
        else
          for (const [i, key] of new BigUint64Array(columnOf("keys")).subarray(0, rowCount).entries()) {
            assert.ok(!rows.has(key), `row ${key} is there twice`);
            rows.set(key, values[i] as number);
          }
      });
  assert.equal(floats.length, TENSORS.length, "each block is there once");
  return [
    ...Array.from(KEYS, (key) => {
      const value = rows.get(key);
      assert.ok(value !== undefined, `row ${key} is missing`);
      return value;
    }),
    ...floats,
  ];
}

export async function runMovingCheckpoints(seed: number, changes: Changes): Promise<SaveTally> {
  const story = new MovingCheckpoints(seed, changes);
  await story.run();
  return story.tally;
}
