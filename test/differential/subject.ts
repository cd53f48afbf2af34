// subject — one parameter under test: the handles of all workers, and the plain model that goes through the same. Draws
// calls, makes them on both sides, compares.
//
//   bound of a comparison   2e-4 of max(1, |value|) for f32 against f64, what the pull's codec may lose, and what int8
//                           has lost in pushes so far

import assert from "node:assert/strict";
import type { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Random } from "../../src/base/random.ts";
import { engineConsistency } from "../../src/store/consistency.ts";
import { TensorShape } from "../../src/store/tensor-shape.ts";
import { clipScale } from "../../src/store/updaters/gradient-norm.ts";
import { resolveSchedule } from "../../src/store/updaters/learning-rate-schedule.ts";
import { type ResolvedOptimizer, resolveOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { SQUARING_TYPES } from "../../src/testing/optimizer-types.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import type { CachedEmbedding } from "../../src/worker/cache/cached-embedding.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import type { Tensor } from "../../src/worker/tensor.ts";
import { type DrawnCache, type DrawnParameter, drawConsistency, drawSchedule, pick, UNSUMMABLE } from "./drawn-parameter.ts";
import { joinInto, type PlainGradients, type PlainMode, PlainParameter, type PlainState } from "./plain-parameter.ts";

export type Stage = { readonly sessions: readonly Session[]; readonly servers: number };

const ROUNDING = 2e-4;
/** Gradients are multiples of this, which fp16 and bf16 carry exactly, sums of a few too. */
const GRAIN = 1 / 8;
const ROWS_MAX = 12;

/** Whether others see at once what goes through the cache, and it what others push. */
const isExact = ({ pullBound, pushBound }: DrawnCache): boolean => pullBound === 0 && pushBound === 0;

/** Some rows by name, some of them twice, and their gradients. */
type DrawnPush = {
  readonly rows: readonly string[];
  readonly gradients: Float32Array;
  /** What it should be: a refusal with this code, nothing at all, or gradients to apply. */
  readonly expected: { readonly code: string } | "nothing" | PlainGradients;
  readonly scale: number;
};

export class Subject {
  readonly #drawn: DrawnParameter;
  readonly #random: Random;
  readonly #where: string;
  readonly #width: number;
  readonly #names: readonly string[];
  readonly #initial = new Map<string, Float32Array>();
  readonly #rounds: boolean;
  #plain: PlainParameter;
  #stage: Stage = { sessions: [], servers: 0 };
  #workerCount = 0;
  #tensors: Tensor[] = [];
  #tables: Embedding[] = [];
  #cache: CachedEmbedding | undefined;
  #saved: PlainState | undefined;
  #isChanged = false;
  #hasResidual = false;
  #lost = 0;
  /** Calls that nobody has waited for: what comes after them sees them all the same. */
  #underWay: Promise<unknown>[] = [];

  constructor(drawn: DrawnParameter, random: Random, where: string) {
    this.#drawn = drawn;
    this.#random = random;
    this.#where = `${where}, ${drawn.kind} ${JSON.stringify(drawn.name.slice(0, 20))} ${JSON.stringify(drawn.options)}`;
    const shape = drawn.kind === "tensor" ? new TensorShape(drawn.options.shape) : undefined;
    this.#width = shape?.width ?? (drawn.kind === "table" ? drawn.options.dim : 1);
    this.#names = drawn.kind === "table" ? drawn.keys.map(String) : Array.from({ length: shape?.rowCount ?? 0 }, (_, row) => `${row}`);
    this.#rounds = drawn.options.link?.push === "int8" || drawn.options.link?.push === "int8-centred";
    this.#plain = this.#newPlain();
  }

  /** The initial values are those of any cluster: here of one server, and without a link. */
  async learn(session: Session): Promise<void> {
    const { name, options } = this.#drawn;
    const init = { init: options.init ?? { type: "constant" as const }, optimizer: "sum" } as const;
    const values =
      this.#drawn.kind === "tensor"
        ? await (await session.tensor(name, { shape: this.#drawn.options.shape, ...init })).pull()
        : await (await session.embedding(name, { dim: this.#width, ...init })).pull(this.#drawn.keys);
    for (const [i, row] of this.#names.entries()) this.#initial.set(row, values.slice(i * this.#width, (i + 1) * this.#width));
  }

  async enter(stage: Stage): Promise<void> {
    this.#stage = stage;
    this.#plain.setWorkers(stage.sessions.length);
    this.#workerCount = stage.sessions.length;
    await this.#open();
    await this.compareAll();
  }

  /** One call by a worker, drawn by chance. */
  async act(drawnRank: number): Promise<void> {
    const rank = this.#countsPushesLate() ? 0 : drawnRank;
    const roll = this.#random.fraction();
    if (roll < 0.12) await this.#arrive();
    if (roll < 0.04) await this.#change(rank);
    else if (roll < 0.06) await this.#clear(rank);
    else if (roll < 0.09) await this.#saveOrLoad(rank);
    else if (roll < 0.12) await this.#misuse(rank);
    else if (this.#drawn.kind === "tensor") await this.#actOnTensor(rank);
    else if (this.#drawn.cache !== undefined && (rank === 0 || !isExact(this.#drawn.cache))) await this.#actOnCache();
    else await this.#actOnTable(rank);
  }

  /**
   * Whether a server may not know yet how often other workers have pushed (consistency.md, N3): then one worker pushes.
   */
  #countsPushesLate(): boolean {
    const { clocks = 0 } = this.#stage.sessions[0] ?? {};
    return this.#drawn.optimizer.type === "lazyAdam" && this.#plain.modeAt(clocks).updates === "async";
  }

  /** What waits in workers goes to the servers: before a clock ends, so that the model need not know when. */
  async settle(): Promise<void> {
    await this.#arrive();
    if (this.#hasResidual) for (const tensor of this.#tensors) await tensor.flushResidual();
    this.#hasResidual = false;
    if (this.#random.chance(0.5)) await this.#cache?.flush();
  }

  endClock(clock: number): void {
    this.#plain.endClock(clock);
  }

  async compareAll(): Promise<void> {
    await this.#cache?.flush();
    for (const rank of this.#stage.sessions.keys()) {
      const values = this.#drawn.kind === "tensor" ? await this.#tensor(rank).pull() : await this.#table(rank).pull(this.#drawn.keys);
      this.#plain.notePull(rank, this.#names);
      this.#compare(this.#names, values, `all, worker ${rank}`);
    }
  }

  async #open(): Promise<void> {
    const { name } = this.#drawn;
    if (this.#drawn.kind === "tensor") {
      const { options } = this.#drawn;
      this.#tensors = await Promise.all(this.#stage.sessions.map((session) => session.tensor(name, options)));
      return;
    }
    const { options, cache } = this.#drawn;
    this.#tables = await Promise.all(this.#stage.sessions.map((session) => session.embedding(name, options)));
    this.#cache = cache && this.#table(0).cached(cache);
  }

  async #actOnTensor(rank: number): Promise<void> {
    const tensor = this.#tensor(rank);
    const kind = pick(this.#random, ["push", "pull", "pushPull", "pushRows", "pullRows", "pushRowsPull", "pushPullRows"] as const);
    if (kind === "pull") {
      const values = await tensor.pull();
      if (!this.#hasResidual) this.#compare(this.#names, values, kind);
      this.#plain.notePull(rank, this.#names);
      return;
    }
    const isWhole = kind === "push" || kind === "pushPull";
    const asked = kind === "pullRows" || kind === "pushPullRows" ? this.#drawRows() : this.#names;
    if (kind === "pullRows") {
      const values = await tensor.pullRows(asked.map(Number));
      if (!this.#hasResidual) this.#compare(asked, values, kind);
      this.#plain.notePull(rank, asked);
      return;
    }
    const keepsResidual = isWhole && typeof this.#drawn.options.link?.push === "object";
    const isCoded = isWhole || typeof this.#drawn.options.link?.push !== "object"; // rows go past top-k
    const push = this.#drawPush(isWhole, isCoded, rank);
    const rows = push.rows.map(Number);
    if (keepsResidual) this.#hasResidual = true;
    const values = await this.#expect(
      push,
      rank,
      async () => {
        if (kind === "push") await tensor.push(push.gradients);
        else if (kind === "pushRows") await tensor.pushRows(rows, push.gradients);
        else if (kind === "pushPull") return await tensor.pushPull(push.gradients, "all");
        else if (kind === "pushRowsPull") return await tensor.pushPull({ rows, gradients: push.gradients }, "all");
        else return await tensor.pushPull({ rows, gradients: push.gradients }, asked.map(Number));
        return undefined;
      },
      kind !== "push" && kind !== "pushRows",
    );
    if (values !== undefined) this.#plain.notePull(rank, asked);
    if (values !== undefined && !this.#hasResidual) this.#compare(asked, values, kind);
  }

  async #actOnTable(rank: number): Promise<void> {
    const table = this.#table(rank);
    const kind = pick(this.#random, ["push", "pull", "pushPull"] as const);
    const asked = this.#drawRows();
    if (kind === "pull") {
      this.#compare(asked, await table.pull(asked.map(BigInt)), kind);
      this.#plain.notePull(rank, asked);
      return;
    }
    const push = this.#drawPush(false, true, rank);
    const keys = this.#listOf(push.rows);
    const values = await this.#expect(
      push,
      rank,
      async () => {
        if (kind === "pushPull") return await table.pushPull({ keys, gradients: push.gradients }, this.#listOf(asked));
        await table.push(keys, push.gradients);
        return undefined;
      },
      kind === "pushPull",
    );
    if (values !== undefined) this.#plain.notePull(rank, asked);
    if (values !== undefined) this.#compare(asked, values, kind);
  }

  async #actOnCache(): Promise<void> {
    const cache = this.#cache as CachedEmbedding;
    const kind = pick(this.#random, ["lookup", "lookup", "update", "update", "pushPull", "flush", "bypass", "others"] as const);
    const asked = this.#drawRows();
    if (kind === "flush") return await cache.flush();
    if (kind === "bypass") return await cache.bypass(this.#random.chance(0.4));
    if (kind === "lookup") {
      this.#compare(asked, await cache.pull(this.#listOf(asked)), kind, true);
      this.#plain.notePull(0, asked);
      return;
    }
    if (kind === "others") {
      await cache.flush();
      this.#compare(asked, await this.#table(this.#workerCount - 1).pull(asked.map(BigInt)), kind);
      this.#plain.notePull(this.#workerCount - 1, asked);
      return;
    }
    const push = this.#drawPush(false, false);
    const keys = this.#listOf(push.rows);
    const into = new Float32Array(asked.length * this.#width);
    const values = await this.#expect(
      push,
      0,
      async () => {
        if (kind === "pushPull") await cache.pushPull({ keys, gradients: push.gradients }, this.#listOf(asked), { into });
        else await cache.push(keys, push.gradients);
        return kind === "pushPull" ? into : undefined;
      },
      kind === "pushPull",
    );
    if (values !== undefined) this.#plain.notePull(0, asked);
    if (values !== undefined) this.#compare(asked, values, `cached ${kind}`, true);
  }

  /** Rates, schedules and consistencies change for everybody. */
  async #change(rank: number): Promise<void> {
    const handle = this.#handle(rank);
    await this.#cache?.flush(); // what waits would be applied at the new rate
    const { optimizer, kind } = this.#drawn;
    if (this.#random.chance(0.5) && "learningRate" in optimizer) {
      if (this.#drawn.kind === "table" && (this.#drawn.cache?.pushBound ?? 0) > 0) return;
      const learningRate = 0.01 + 0.1 * this.#random.fraction();
      const schedule = drawSchedule(this.#random);
      await handle.configure({ learningRate, schedule });
      this.#plain.set({ learningRate, schedule: resolveSchedule(schedule, "schedule") });
      return;
    }
    if (this.#drawn.kind === "table" && this.#drawn.options.versions) return;
    if (UNSUMMABLE.has(optimizer.type)) {
      const refused = handle.configure({ consistency: { bsp: true, reduce: "mean" } });
      await assert.rejects(refused, throwsCode("BAD_ARGUMENT"), `${this.#where}: a mean of values`);
    }
    const consistency = drawConsistency(this.#random, optimizer);
    const mode = engineConsistency(consistency);
    const averages = typeof this.#drawn.options.consistency === "object" && "bsp" in this.#drawn.options.consistency;
    // Workers tell all servers of a push only if it was made so (docs/guides/consistency.md).
    if (kind === "table" && mode.reduce === "mean" && !averages) return;
    this.#plain.changeMode(await handle.configure({ consistency }), mode);
    this.#isChanged = true;
  }

  async #clear(rank: number): Promise<void> {
    if (this.#cache !== undefined) await this.#cache.close();
    // Of others it would go to the one that is made anew.
    if (this.#hasResidual) for (const tensor of this.#tensors) await tensor.flushResidual();
    await this.#handle(rank).drop();
    this.#plain = this.#newPlain();
    this.#plain.setWorkers(this.#workerCount);
    this.#saved = undefined;
    this.#isChanged = false;
    this.#lost = 0;
    this.#hasResidual = false;
    await this.#open();
  }

  /** One parameter alone, to a directory of its own and back. */
  async #saveOrLoad(rank: number): Promise<void> {
    const session = this.#stage.sessions[rank] as Session;
    if (this.#isChanged || this.#drawn.options.consistency !== "asp" || this.#hasResidual) return;
    await this.#cache?.flush();
    if (this.#saved === undefined) {
      await session.saveParameter(this.#drawn.name, "alone");
      this.#saved = this.#plain.save();
    } else {
      await session.loadParameter(this.#drawn.name, "alone");
      this.#plain.load(this.#saved, this.#workerCount);
    }
  }

  /** What cannot be is refused, and changes nothing. */
  async #misuse(rank: number): Promise<void> {
    const refuses = async (code: string, call: () => Promise<unknown>): Promise<void> => {
      await assert.rejects(call(), (error) => isWeighbridgeError(error) && error.code === code, `${this.#where}: ${code}`);
    };
    if (this.#drawn.kind === "tensor") {
      const tensor = this.#tensor(rank);
      await refuses("VALUE_LENGTH", () => tensor.push(new Float32Array(tensor.size + 1)));
      await refuses("OUT_OF_RANGE", () => tensor.pushRows([this.#names.length], new Float32Array(this.#width)));
      await refuses("OUT_OF_RANGE", () => tensor.pullRows([0, this.#names.length]));
      return;
    }
    const table = this.#table(rank);
    await refuses("VALUE_LENGTH", () => table.push([0], new Float32Array(this.#width + 1)));
    if (this.#drawn.options.rows === undefined) return;
    await refuses("OUT_OF_RANGE", () => table.push([0, this.#names.length], new Float32Array(2 * this.#width).fill(1)));
    await refuses("OUT_OF_RANGE", () => table.pull([2n ** 64n - 1n]));
  }

  async #arrive(): Promise<void> {
    await Promise.all(this.#underWay.splice(0));
  }

  /**
   * Makes a call, and does in the model what it should do; its values, unless it is refused. A lone worker does not
   * wait for all of its pushes.
   */
  async #expect(
    { expected, scale }: DrawnPush,
    rank: number,
    call: () => Promise<Float32Array | undefined>,
    gives = true,
  ): Promise<Float32Array | undefined> {
    const { clocks: clock } = this.#stage.sessions[rank] as Session;
    if (typeof expected === "object" && "code" in expected) {
      const what = `${this.#where}: ${expected.code}`;
      await assert.rejects(call(), (error) => isWeighbridgeError(error) && error.code === expected.code, what);
      return undefined;
    }
    if (expected !== "nothing") this.#plain.push({ worker: rank, clock, scale, gradients: expected });
    if (gives || this.#workerCount > 1 || this.#random.chance(0.3)) return await call();
    this.#underWay.push(call());
    return undefined;
  }

  #drawRows(): string[] {
    return Array.from({ length: 1 + this.#random.below(ROWS_MAX) }, () => pick(this.#random, this.#names));
  }

  /** `rank`: of a worker that pushes past any cache. */
  #drawPush(isWhole: boolean, isCoded: boolean, rank?: number): DrawnPush {
    if (!isWhole && rank !== undefined && this.#random.chance(0.1) && this.#overflows(rank)) return this.#drawHuge();
    const isBad = this.#random.chance(0.06);
    const drawn = this.#drawRows();
    const rows = isWhole ? this.#names : isBad ? [...new Set(drawn)] : drawn;
    const gradients = Float32Array.from({ length: rows.length * this.#width }, () => (this.#random.below(17) - 8) * GRAIN);
    const bad = this.#random.below(gradients.length);
    if (isBad) gradients[bad] = pick(this.#random, [NaN, Infinity, -Infinity]);
    const { optimizer, options } = this.#drawn;
    const { nonFinite = "refuse" } = optimizer;
    const finite = gradients.map((x) => (Number.isFinite(x) ? x : 0));
    const summed = new Map<string, Float64Array>();
    for (const [i, row] of rows.entries()) {
      const gradient = Float64Array.from(finite.subarray(i * this.#width, (i + 1) * this.#width));
      joinInto(summed, new Map([[row, gradient]]), 1, optimizer.type as ResolvedOptimizer["type"]);
    }
    const norm = Math.sqrt([...summed.values()].reduce((sum, row) => row.reduce((total, x) => total + x * x, sum), 0));
    const scale = clipScale(norm, "clipNorm" in optimizer ? (optimizer.clipNorm ?? null) : null);
    if (this.#rounds && isCoded) this.#lost += [...summed.values()].reduce((most, row) => Math.max(most, ...row.map(Math.abs)), 0) / 250;
    if (!isBad) return { rows, gradients, scale, expected: summed };
    if (nonFinite === "refuse") return { rows, gradients, scale, expected: { code: "NOT_FINITE" } };
    if (nonFinite === "skip") return { rows, gradients, scale, expected: "nothing" };
    const carriesNone = typeof options.link?.push === "object" || (isCoded && this.#rounds);
    return { rows, gradients, scale, expected: carriesNone ? { code: "BAD_ARGUMENT" } : summed };
  }

  /**
   * Whether the square of a finite gradient that this worker pushes now is more than a float32 holds, and what becomes
   * of it is known at once.
   */
  #overflows(rank: number): boolean {
    const { optimizer, options } = this.#drawn;
    const { clocks } = this.#stage.sessions[rank] as Session;
    const isSquared = optimizer.type !== "lazyAdam" && (SQUARING_TYPES as readonly string[]).includes(optimizer.type);
    const isClipped = ("clipNorm" in optimizer && optimizer.clipNorm) || ("clipValue" in optimizer && optimizer.clipValue);
    return isSquared && !isClipped && options.link === undefined && this.#plain.modeAt(clocks).updates === "async";
  }

  /**
   * One row with one element that is finite, and whose square is not: refused, skipped, or as if that element were 0
   * (of row-wise sums, the row).
   */
  #drawHuge(): DrawnPush {
    const { type, nonFinite = "refuse" } = this.#drawn.optimizer;
    const row = pick(this.#random, this.#names);
    const gradients = new Float32Array(this.#width).fill(GRAIN);
    const huge = this.#random.below(this.#width);
    gradients[huge] = pick(this.#random, [1e25, -3e38]);
    const left = Float64Array.from(gradients, (x, j) => (type === "rowWiseAdagrad" || j === huge ? 0 : x));
    const expected = nonFinite === "refuse" ? { code: "NOT_FINITE" } : nonFinite === "skip" ? ("nothing" as const) : new Map([[row, left]]);
    return { rows: [row], gradients, scale: 1, expected };
  }

  #compare(rows: readonly string[], values: Float32Array, what: string, isPlain = false): void {
    const pull = isPlain ? "f32" : (this.#drawn.options.link?.pull ?? "f32");
    const most = values.reduce((max, x) => Math.max(max, Math.abs(x)), 0);
    const losses = { f32: 0, fp16: 1 / 2000, bf16: 1 / 250, int8: most / 250, "int8-centred": most / 250 } as const;
    const lossOf = losses[pull as keyof typeof losses];
    for (const [i, row] of rows.entries()) {
      const model = this.#plain.valuesOf(row);
      for (let j = 0; j < model.length; j++) {
        const expected = model[j] as number;
        const actual = values[i * this.#width + j] as number;
        const size = Math.max(1, Math.abs(expected));
        const loss = pull === "fp16" || pull === "bf16" ? size * lossOf : lossOf;
        if (Math.abs(actual - expected) <= ROUNDING * size + this.#lost + loss) continue;
        assert.fail(`${this.#where}: ${what} of ${this.#stage.servers} servers: row ${row}, element ${j} is ${actual}, not ${expected}`);
      }
    }
  }

  #newPlain(): PlainParameter {
    const { optimizer, options } = this.#drawn;
    const mode: PlainMode = engineConsistency(options.consistency ?? "asp");
    return new PlainParameter({
      optimizer: resolveOptimizer(optimizer),
      mode,
      initial: (row) => this.#initial.get(row) as Float32Array,
    });
  }

  /** Keys in one of the forms that a caller may choose. */
  #listOf(rows: readonly string[]): BigUint64Array | bigint[] {
    const keys = rows.map(BigInt);
    return this.#random.chance(0.5) ? BigUint64Array.from(keys) : keys;
  }

  #tensor(rank: number): Tensor {
    return this.#tensors[rank] as Tensor;
  }

  #table(rank: number): Embedding {
    return this.#tables[rank] as Embedding;
  }

  #handle(rank: number): Tensor | Embedding {
    return this.#drawn.kind === "tensor" ? this.#tensor(rank) : this.#table(rank);
  }
}
