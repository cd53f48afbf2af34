// Goal: a job that saves checkpoints goes through one run after the other, each on another number of servers and each
// with its own mishaps: frames lost, doubled and swapped, links that break, a disk that is full for a while, servers
// that die in the middle of a save or of a restore, power failures. Whatever happens: every checkpoint there is is
// whole; the newest that a worker was told of is still there after a power failure; a restored cluster is exactly at
// the cut, whichever parts move while it is cut, written or loaded (the bits of an undisturbed job for sync updates,
// nothing lost and nothing beyond the bound for others); nobody hangs; and the job ends with the bits of an undisturbed
// one.

import assert from "node:assert/strict";
import { join } from "node:path";
import { Session } from "../../src/api/session.ts";
import type { WaitOptions } from "../../src/base/deferred.ts";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { CheckpointDirectory } from "../../src/node/checkpoint/checkpoint-directory.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { verifyCheckpoint } from "../../src/node/checkpoint/verify-checkpoint.ts";
import { type Changes, keepChanging } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { OfficeOptions } from "../../src/testing/start-office.ts";
import { rankOf, roleOf } from "../../src/wire/node-id.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import type { Tensor } from "../../src/worker/tensor.ts";
import { SETTLING } from "../support/settling.ts";
import { type Mount, SimDisk } from "./sim-disk.ts";

const WORKERS = 2;
const CLOCKS = 10;
const STALENESS = 2;
const RUNS = 4;
const KEYS = Array.from({ length: 24 }, (_, i) => i * 7919);
const TENSORS = ["a", "b", "c"];
const ROOT = "/checkpoints";
/** Between two changes of the placement. */
const PAUSE_MS_MAX = 30;
/** Whatever takes longer than this hangs. */
const DEADLINE_MS = 240_000;
/**
 * So long after a worker has stopped the other one stops waiting for its clock: all that has to fail by itself has
 * failed by then.
 */
const AFTERMATH_MS = 30_000;

type Model = { readonly bsp: readonly Tensor[]; readonly rounds: Embedding; readonly counts: Embedding };

async function modelOf(session: Session, wait: WaitOptions): Promise<Model> {
  const bsp: Tensor[] = [];
  for (const name of TENSORS) {
    bsp.push(await session.tensor(name, { shape: [9], consistency: "bsp", optimizer: { type: "adam" }, ...wait }));
  }
  const rounds = await session.embedding("rounds", { dim: 2, consistency: "bsp", optimizer: { type: "adagrad" }, ...wait });
  const counts = await session.embedding("counts", { dim: 1, optimizer: "sum", consistency: { ssp: STALENESS }, ...wait });
  return { bsp, rounds, counts };
}

/** One clock of one worker: the same gradients whenever it is done. */
async function train(session: Session, { bsp, rounds, counts }: Model, wait: WaitOptions): Promise<void> {
  const wave = (length: number, of: number): Float32Array =>
    Float32Array.from({ length }, (_, i) => Math.sin(i + of + 3 * session.rank + session.clocks));
  const pushes = [
    ...bsp.map((tensor, i) => tensor.push(wave(9, i), wait)),
    rounds.push(KEYS, wave(2 * KEYS.length, 5), wait),
    counts.push(KEYS, new Float32Array(KEYS.length).fill(1), wait),
  ];
  session.clock();
  const outcomes = await Promise.allSettled([counts.pull(KEYS, wait), ...pushes]);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

/** What parameters with sync updates have come to, as one array. */
async function syncState({ bsp, rounds }: Model, wait: WaitOptions): Promise<readonly number[]> {
  const values = await Promise.all([...bsp.map((tensor) => tensor.pull(wait)), rounds.pull(KEYS, wait)]);
  return values.flatMap((array) => [...array]);
}

/** The sync state of a job that nothing disturbs, at the beginning of each clock. */
export async function undisturbed(): Promise<readonly (readonly number[])[]> {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: WORKERS, settle: SETTLING });
  await cluster.start();
  const states: (readonly number[])[] = [];
  const job = async (rank: number): Promise<void> => {
    const session = await Session.open(cluster.worker(rank).node);
    const model = await modelOf(session, {});
    for (;;) {
      const state = await syncState(model, {});
      if (rank === 0) states.push(state);
      if (session.clocks === CLOCKS) return;
      await train(session, model, {});
    }
  };
  await cluster.run(Promise.all([job(0), job(1)]));
  await cluster.finalize();
  return states;
}

type Cut = { readonly step: number; readonly clock: number };

/** What happened over all runs, so that a test can tell that enough did. */
export type Tally = Record<"saved" | "failed" | "restored" | "serverDeaths" | "powerFailures" | "restoreRetries", number>;

export class Checkpoints {
  readonly tally: Tally = { saved: 0, failed: 0, restored: 0, serverDeaths: 0, powerFailures: 0, restoreRetries: 0 };
  readonly #seed: number;
  readonly #random: Random;
  readonly #disk: SimDisk;
  readonly #reference: readonly (readonly number[])[];
  /** The newest step that a worker was told of, and its clock. */
  #told: Cut | undefined;
  /** The checkpoint with which the last run began, and what was in it. */
  #base: (Cut & { readonly counts: readonly number[] }) | undefined;
  #cluster!: SimCluster;
  #mounts = new Map<number, Mount>();
  #starts: "restored" | "empty" = "empty";
  #deaths = 0;
  #stopChanging: () => void = () => {};
  #over = new AbortController();

  /** Given, parts move from server to server all the time; counts how often. */
  readonly #changes: Changes | undefined;

  constructor(seed: number, reference: readonly (readonly number[])[], changes?: Changes) {
    this.#seed = seed;
    this.#changes = changes;
    this.#random = new Random(seed);
    this.#disk = new SimDisk(new Random(seed + 7), ROOT);
    this.#reference = reference;
  }

  async run(): Promise<void> {
    for (let run = 0; run < RUNS; run++) await this.#runOnce(run);
  }

  async #runOnce(run: number): Promise<void> {
    const random = this.#random;
    const isLast = run === RUNS - 1;
    const newest = await this.#newest();
    this.#starts = newest !== undefined && random.chance(0.5) ? "restored" : "empty";
    this.#cluster = this.#makeCluster(run);
    await this.#cluster.start();
    if (this.#changes !== undefined)
      this.#stopChanging = keepChanging(this.#cluster, new Random(this.#seed + run), PAUSE_MS_MAX, this.#changes);
    const storm = isLast ? Promise.resolve() : this.#storm();
    const jobs = [0, 1].map((rank) => this.#job(rank, newest).catch((thrown: unknown) => this.#stopped(thrown)));
    const outcomes = await this.#cluster.run(Promise.allSettled([...jobs, storm]));
    const isDisturbed = this.#deaths > 0 || outcomes.some(({ status }) => status === "rejected");
    const others: readonly ErrorCode[] = this.#deaths > 0 ? ["QUEUE_FULL"] : []; // from a server that is restoring
    for (const outcome of outcomes) if (outcome.status === "rejected" && !isMishap(outcome.reason, ...others)) throw outcome.reason;
    assert.ok(!(isLast && isDisturbed), `run ${run}: nothing was to disturb the last one`);
    if (isDisturbed) this.#killAll();
    else await this.#cluster.finalize();
    if (random.chance(0.3)) this.#failPower();
    await this.#checkDisk(`run ${run}`);
  }

  #stopped(thrown: unknown): never {
    this.#stopChanging();
    this.#cluster.clock.after(AFTERMATH_MS, () => this.#over.abort());
    throw thrown;
  }

  get #wait(): WaitOptions {
    return { timeoutMs: DEADLINE_MS, signal: this.#over.signal };
  }

  #makeCluster(run: number): SimCluster {
    const random = this.#random;
    this.#mounts = new Map();
    this.#deaths = 0;
    this.#over = new AbortController();
    return new SimCluster({
      seed: this.#seed * RUNS + run + 1000,
      serverCount: (this.#changes === undefined ? 1 : 2) + random.below(3),
      ...(this.#changes === undefined ? {} : { placement: "range" }),
      workerCount: WORKERS,
      faults: {
        dropPercent: random.below(3) * 3,
        duplicatePercent: random.below(3) * 3,
        reorderPercent: random.below(3) * 3,
        delayMs: 20,
      },
      network: { latencyMsMin: 0, latencyMsMax: 1 + random.below(15), breakChance: random.below(3) * 0.005 },
      heartbeatTimeoutMs: 5000,
      settle: SETTLING,
      optionsOf: (node) => this.#optionsOf(node),
    });
  }

  /** A server's disk ends with its incarnation. */
  #optionsOf(node: number): Partial<OfficeOptions> {
    if (roleOf(node) !== "server") return {};
    const mount = this.#disk.mount(this.#cluster.clock, 1 + this.#random.below(8));
    this.#mounts.set(node, mount);
    const { layer } = mount;
    return {
      checkpointFiles: new ServerFiles(ROOT, layer),
      ...(this.#starts === "restored" ? { restoreFrom: () => openCheckpoint(ROOT, { layer }) } : {}),
    };
  }

  /** One worker, from where the run begins to the end, or to the first mishap. */
  async #job(rank: number, newest: Cut | undefined): Promise<void> {
    let deaths = this.#deaths;
    const session = await Session.open(this.#cluster.worker(rank).node, this.#wait);
    if (newest !== undefined && this.#starts === "empty") deaths = await this.#restore(session);
    const start = newest?.clock ?? 0;
    assert.equal(session.clocks, start, `worker ${rank} stands at the cut`);
    const model = await modelOf(session, this.#wait);
    await this.#checkRestored(model, newest, deaths);
    await session.barrier(this.#wait);
    const saves: Promise<void>[] = [];
    while (session.clocks < CLOCKS) {
      this.#requireNoDeath(deaths);
      if (this.#random.chance(0.2)) saves.push(this.#save(session));
      await train(session, model, this.#wait);
    }
    await Promise.all(saves);
    const state = await syncState(model, this.#wait);
    this.#requireNoDeath(deaths);
    assert.deepEqual(state, this.#reference[CLOCKS], `worker ${rank} ends with the bits of an undisturbed job`);
  }

  /**
   * With a server that died its share of the parameters is gone: a run ends there, and what was being saved has to fail
   * by itself.
   */
  #requireNoDeath(deaths: number): void {
    if (this.#deaths !== deaths) throw new WeighbridgeError("NODE_DEAD", "the run ends with the death of a server");
  }

  async #checkRestored(model: Model, newest: Cut | undefined, deaths: number): Promise<void> {
    const clock = newest?.clock ?? 0;
    const state = await syncState(model, this.#wait);
    const counts = await model.counts.pull(KEYS, this.#wait);
    this.#requireNoDeath(deaths);
    assert.deepEqual(state, this.#reference[clock], `rounds before clock ${clock}, and no others`);
    if (newest === undefined) {
      assert.deepEqual(new Set(counts), new Set([0]));
      return;
    }
    this.#checkCounts([...counts], newest);
    this.tally.restored++;
  }

  /**
   * Of every worker all updates before the cut are in, and at most as many more as its bound lets it be ahead
   * (spec/consistency.md, D2). Workers begin at the cut, so that what was in beyond it is made again, and stays. The
   * same checkpoint has the same counts, whenever and however often it is restored.
   */
  #checkCounts(counts: readonly number[], { step, clock }: Cut): void {
    const base = this.#base;
    if (base?.step === step) assert.deepEqual(counts, base.counts, `step ${step} is what it was before`);
    const beyondMax = (base === undefined ? 0 : Math.max(...base.counts) - WORKERS * base.clock) + WORKERS * (STALENESS + 1);
    for (const count of counts) {
      assert.ok(count >= WORKERS * clock && count <= WORKERS * clock + beyondMax, `${count} updates at clock ${clock}`);
    }
    this.#base = { step, clock, counts };
  }

  /**
   * A server that dies meanwhile may be started again: then the restore has to succeed. Returns how many deaths there
   * were before.
   */
  async #restore(session: Session): Promise<number> {
    for (let attempts = 0; ; attempts++) {
      const deaths = this.#deaths;
      try {
        await session.restore(this.#wait);
        return deaths;
      } catch (thrown) {
        if (!(isMishap(thrown) || this.#isForgotten(thrown)) || attempts > 40) throw thrown;
        this.tally.restoreRetries++;
        await this.#sleep(500);
      }
    }
  }

  async #save(session: Session): Promise<void> {
    const clock = session.clocks;
    try {
      const taken = await session.checkpoint({ ...(this.#random.chance(0.3) ? { keep: 2 } : {}), ...this.#wait }).saved;
      assert.equal(taken.clock, clock);
      this.tally.saved++;
      if (taken.step > (this.#told?.step ?? -1)) this.#told = { step: taken.step, clock };
    } catch (thrown) {
      const hasMoved = this.#changes !== undefined && isWeighbridgeError(thrown, "WRONG_EPOCH") && thrown.retryable;
      if (!hasMoved && !this.#isForgotten(thrown) && !isMishap(thrown, "QUEUE_FULL", "CHECKPOINT_IO")) throw thrown;
      this.tally.failed++;
    }
  }

  /** A server that was restarted in the middle knows nothing of what it had begun. */
  #isForgotten(thrown: unknown): boolean {
    return this.#deaths > 0 && isWeighbridgeError(thrown, "BAD_REQUEST") && thrown.retryable;
  }

  /** A disk that is full for a while, and often the death of a server, early or late, for a while or for good. */
  async #storm(): Promise<void> {
    const random = this.#random;
    const isEarly = random.chance(0.5);
    await this.#sleep(random.below(isEarly ? 100 : 300));
    if (random.chance(0.3)) this.#disk.roomBytes = random.below(4000);
    await this.#sleep(random.below(isEarly ? 100 : 600));
    this.#disk.roomBytes = Infinity;
    if (random.chance(0.3)) return;
    const servers = this.#cluster.nodes().filter((node) => roleOf(node) === "server");
    const victim = servers[random.below(servers.length)] as number;
    this.#kill(victim);
    this.#deaths++;
    this.tally.serverDeaths++;
    if (random.chance(0.3)) return;
    await this.#sleep(random.below(500));
    const office = await this.#cluster.startNode(victim);
    assert.equal(office.myRank, rankOf(victim));
  }

  #kill(node: number): void {
    this.#mounts.get(node)?.die();
    this.#cluster.kill(node);
  }

  #killAll(): void {
    for (const node of this.#cluster.nodes()) {
      try {
        this.#cluster.office(node);
      } catch {
        continue; // the storm has killed it
      }
      this.#kill(node);
    }
  }

  #failPower(): void {
    for (const mount of this.#mounts.values()) mount.die();
    this.#disk.failPower();
    this.tally.powerFailures++;
  }

  /** Every checkpoint there is is whole, and the newest that a worker was told of is there. */
  async #checkDisk(when: string): Promise<void> {
    const { layer } = this.#disk.mount(this.#cluster.clock, 0);
    const stored = await new CheckpointDirectory({ root: ROOT, layer }).list();
    for (const { path } of stored) {
      const { problems, manifest } = await verifyCheckpoint(path, layer);
      assert.deepEqual(problems, [], `${when}: ${path}`);
      const rowCounts = (manifest?.parameters ?? []).filter(({ kind }) => kind === "table").map(({ rowCount }) => rowCount);
      if ((manifest?.clock ?? 0) > 0) assert.deepEqual(new Set(rowCounts), new Set([KEYS.length]), `${when}: ${path} has each row once`);
    }
    const told = this.#told;
    if (told === undefined) return;
    const found = stored.find(({ step }) => step === told.step);
    assert.ok(found !== undefined, `${when}: step ${told.step} was told of, and there are ${stored.map(({ step }) => step).join(", ")}`);
    const { manifest } = await verifyCheckpoint(join(found.path), layer);
    assert.equal(manifest?.clock, told.clock, `${when}: the cut of step ${told.step}`);
  }

  async #newest(): Promise<Cut | undefined> {
    if (this.#cluster === undefined) return undefined;
    const { layer } = this.#disk.mount(this.#cluster.clock, 0);
    if ((await new CheckpointDirectory({ root: ROOT, layer }).list()).length === 0) return undefined;
    await using reader = await openCheckpoint(ROOT, { layer });
    return { step: reader.manifest.step, clock: reader.manifest.clock };
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>((wake) => this.#cluster.clock.after(ms, wake));
  }
}

/** What may come of a call while servers die. DEADLINE is none of it: that would be a hang. */
function isMishap(thrown: unknown, ...others: readonly ErrorCode[]): boolean {
  const codes: readonly ErrorCode[] = ["NODE_DEAD", "CLOSED", "ABORTED", "NOT_JOINED", "UNKNOWN_PARAMETER", ...others];
  return codes.some((code) => isWeighbridgeError(thrown, code));
}
