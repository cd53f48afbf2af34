// typed-subject — one table whose rows are not f32 under a built-in optimizer: f64, i32 and i64, a user's row type and
// a user's updater. As Subject, it draws calls, makes them on the cluster and on a plain model, and compares. The model
// keeps a map of rows and knows no servers, rounds in arenas or frames.
//
//   integers        equal to the last bit; they wrap
//   floats          within 1e-12 (f64) or 1e-6 (f32) of max(1, |value|): a mean divides in another order

import assert from "node:assert/strict";
import type { DtypeOption } from "../../src/api/parameter-options.ts";
import type { Session } from "../../src/api/session.ts";
import type { Random } from "../../src/base/random.ts";
import type { RowArray, RowElement } from "../../src/kernel/row-element.ts";
import { type Consistency, engineConsistency } from "../../src/store/consistency.ts";
import type { PlugInModule } from "../../src/store/plug-ins.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import { residues, runningMean } from "../e2e/scripts/plug-ins.ts";
import { pick } from "./drawn-parameter.ts";
import type { Stage } from "./subject.ts";

/** What servers of a job with typed subjects load. */
export const PLUG_INS: readonly PlugInModule[] = [{ module: "plug-ins.ts", hash: "", updaters: [runningMean], rowTypes: [residues] }];

type Element = number | bigint;
/** A row of the model. */
type PlainRow = { readonly values: Element[]; updateCount: number };

/** A row type and an updater: how they are asked for, and what they do to one element. */
type TypedKind = {
  readonly name: string;
  readonly element: RowElement;
  readonly rowType: DtypeOption;
  readonly optimizer: OptimizerSpec;
  readonly start: Element;
  readonly draw: (random: Random) => Element;
  /** Two updates of one row become one. */
  readonly join: (one: Element, other: Element) => Element;
  /** `count`: of the row's updates, this one among them. */
  readonly update: (value: Element, update: Element, count: number) => Element;
};

const SUM = { type: "sum" } as const;
const PRIME = 65_521;
const drawEighths = (random: Random): number => (random.below(33) - 16) / 8;
const drawInt32 = (random: Random): number => random.uint32() | 0;
const drawInt64 = (random: Random): bigint => BigInt.asIntN(64, (BigInt(random.uint32()) << 32n) | BigInt(random.uint32()));
const add = (one: Element, other: Element): number => Number(one) + Number(other);
const wrap32 = (one: Element, other: Element): number => add(one, other) | 0;
const wrap64 = (one: Element, other: Element): bigint => BigInt.asIntN(64, BigInt(one) + BigInt(other));
const modulo = (one: Element, other: Element): number => add(one, other) % PRIME;
const least = (one: Element, other: Element): number => Math.min(Number(one), Number(other));
const mean = (value: Element, update: Element, count: number): number => Number(value) + (Number(update) - Number(value)) / count;

const f64 = { element: "f64", rowType: "f64", start: 0.5, draw: drawEighths, join: add } as const;
const i32 = { element: "i32", rowType: "i32", start: -3, draw: drawInt32 } as const;
export const TYPED_KINDS: readonly TypedKind[] = [
  { ...f64, name: "f64 sums", optimizer: SUM, update: add },
  {
    ...f64,
    name: "f64 sgd",
    optimizer: { type: "sgd", learningRate: 0.5 },
    update: (value, update) => Number(value) - 0.5 * Number(update),
  },
  { ...i32, name: "i32 sums", optimizer: SUM, join: wrap32, update: wrap32 },
  { ...i32, name: "i32 minima", optimizer: { type: "min" }, join: least, update: least },
  { name: "i64 sums", element: "i64", rowType: "i64", optimizer: SUM, start: 2n, draw: drawInt64, join: wrap64, update: wrap64 },
  {
    ...{ name: "a user's rows", element: "i32", rowType: residues, optimizer: SUM, start: 1 },
    ...{ draw: (random) => random.below(PRIME), join: modulo, update: modulo },
  },
  { ...f64, name: "a user's updater of f64", optimizer: runningMean.with(), update: mean },
  {
    ...{ name: "a user's updater of f32", element: "f32", rowType: "f32", start: 0.5, draw: drawEighths, join: add },
    ...{ optimizer: runningMean.with(), update: (value, update, count) => Math.fround(mean(value, update, count)) },
  },
];

const ARRAYS = { f32: Float32Array, f64: Float64Array, i32: Int32Array, i64: BigInt64Array } as const;
const BOUNDS: Readonly<Record<RowElement, number>> = { f32: 1e-6, f64: 1e-12, i32: 0, i64: 0 };
const ROWS_MAX = 12;

export class TypedSubject {
  readonly #kind: TypedKind;
  readonly #random: Random;
  readonly #where: string;
  readonly #dim: number;
  readonly #consistency: Consistency;
  readonly #keys: readonly bigint[];
  #rows = new Map<bigint, PlainRow>();
  /** Updates of the open clock by worker, where they wait for its end. */
  readonly #round = new Map<number, Map<bigint, Element[]>>();
  #saved: ReadonlyMap<bigint, PlainRow> | undefined;
  #stage: Stage = { sessions: [], servers: 0 };
  #tables: readonly Embedding<RowElement>[] = [];

  constructor(kind: TypedKind, random: Random, where: string) {
    this.#kind = kind;
    this.#random = random;
    this.#dim = pick(random, [1, 2, 5, 16]);
    this.#consistency = drawTypedConsistency(random, kind);
    this.#where = `${where}, ${kind.name}, dim ${this.#dim}, ${JSON.stringify(this.#consistency)}`;
    this.#keys = [0n, 1n, 2n ** 53n + 1n, 2n ** 64n - 1n, ...Array.from({ length: 20 }, () => BigInt.asUintN(64, drawInt64(random)))];
  }

  async enter(stage: Stage): Promise<void> {
    this.#stage = stage;
    await this.#open();
    await this.compareAll();
  }

  /** One call by a worker, drawn by chance. */
  async act(rank: number): Promise<void> {
    const roll = this.#random.fraction();
    if (roll < 0.03) await this.#clear(rank);
    else if (roll < 0.08) await this.#saveOrLoad(rank);
    else if (roll < 0.11) await this.#misuse(rank);
    else if (roll < 0.35) await this.#pull(rank, this.#drawKeys());
    else await this.#push(rank, this.#random.chance(0.4));
  }

  async settle(): Promise<void> {} // every call was waited for

  endClock(_clock: number): void {
    const ranked = [...this.#round].sort(([one], [other]) => one - other).map(([, updates]) => updates);
    this.#round.clear();
    const joined = new Map<bigint, Element[]>();
    for (const updates of ranked) for (const [key, update] of updates) this.#joinInto(joined, key, update);
    const isMean = engineConsistency(this.#consistency).reduce === "mean";
    for (const [key, update] of joined) this.#update(key, isMean ? update.map((x) => Number(x) / ranked.length) : update);
  }

  async compareAll(): Promise<void> {
    for (const rank of this.#stage.sessions.keys()) await this.#pull(rank, this.#keys);
  }

  async #open(): Promise<void> {
    const { name, rowType, optimizer, start } = this.#kind;
    // A user's row type makes its own rows.
    const init = typeof rowType === "string" ? { init: { type: "constant", value: Number(start) } as const } : {};
    const options = { dim: this.#dim, dtype: rowType, optimizer, consistency: this.#consistency, ...init };
    const tables = this.#stage.sessions.map((session) => session.embedding<DtypeOption>(name, options));
    this.#tables = await Promise.all(tables);
  }

  async #pull(rank: number, keys: readonly bigint[]): Promise<void> {
    this.#compare(keys, await this.#table(rank).pull(BigUint64Array.from(keys)), `pull by worker ${rank}`);
  }

  async #push(rank: number, pulls: boolean): Promise<void> {
    const keys = this.#drawKeys();
    const gradients = this.#drawArray(keys.length * this.#dim);
    const own = new Map<bigint, Element[]>();
    for (const [i, key] of keys.entries()) this.#joinInto(own, key, [...gradients].slice(i * this.#dim, (i + 1) * this.#dim));
    if (engineConsistency(this.#consistency).updates === "async") for (const [key, update] of own) this.#update(key, update);
    else {
      const waiting = this.#round.get(rank) ?? new Map<bigint, Element[]>();
      this.#round.set(rank, waiting);
      for (const [key, update] of own) this.#joinInto(waiting, key, update);
    }
    if (!pulls) return await this.#table(rank).push(keys, gradients);
    const asked = this.#drawKeys();
    this.#compare(asked, await this.#table(rank).pushPull({ keys, gradients }, asked), `pushPull by worker ${rank}`);
  }

  async #clear(rank: number): Promise<void> {
    await this.#table(rank).drop();
    this.#rows.clear();
    this.#round.clear();
    this.#saved = undefined;
    await this.#open();
  }

  /** Alone, to a directory of its own and back. */
  async #saveOrLoad(rank: number): Promise<void> {
    if (this.#consistency !== "asp") return;
    const session = this.#stage.sessions[rank] as Session;
    if (this.#saved === undefined) {
      await session.saveParameter(this.#kind.name, "alone");
      this.#saved = copyOf(this.#rows);
    } else {
      await session.loadParameter(this.#kind.name, "alone");
      this.#rows = copyOf(this.#saved);
    }
  }

  /** What cannot be is refused, and changes nothing. */
  async #misuse(rank: number): Promise<void> {
    const table = this.#table(rank);
    await assert.rejects(table.push([0], this.#drawArray(this.#dim + 1)), throwsCode("VALUE_LENGTH", /./), this.#where);
    const foreign = this.#kind.element === "i64" ? new Int32Array(this.#dim) : new BigInt64Array(this.#dim);
    await assert.rejects(table.push([0], foreign as never), throwsCode("BAD_ARGUMENT", /gradients must be a/), this.#where);
  }

  #joinInto(target: Map<bigint, Element[]>, key: bigint, update: readonly Element[]): void {
    const known = target.get(key);
    target.set(key, known === undefined ? [...update] : known.map((x, j) => this.#kind.join(x, update[j] as Element)));
  }

  #update(key: bigint, update: readonly Element[]): void {
    const row = this.#rows.get(key) ?? { values: new Array<Element>(this.#dim).fill(this.#kind.start), updateCount: 0 };
    this.#rows.set(key, row);
    row.updateCount++;
    for (const [j, x] of update.entries()) row.values[j] = this.#kind.update(row.values[j] as Element, x, row.updateCount);
  }

  #compare(keys: readonly bigint[], values: RowArray, what: string): void {
    const bound = BOUNDS[this.#kind.element];
    for (const [i, key] of keys.entries()) {
      const row = this.#rows.get(key)?.values;
      for (let j = 0; j < this.#dim; j++) {
        const expected = row?.[j] ?? this.#kind.start;
        const actual = values[i * this.#dim + j] as Element;
        if (actual === expected) continue;
        const size = Math.max(1, Math.abs(Number(expected)));
        if (Math.abs(Number(actual) - Number(expected)) <= bound * size && bound > 0) continue;
        assert.fail(`${this.#where}: ${what} of ${this.#stage.servers} servers: key ${key}, element ${j} is ${actual}, not ${expected}`);
      }
    }
  }

  #drawKeys(): bigint[] {
    return Array.from({ length: 1 + this.#random.below(ROWS_MAX) }, () => pick(this.#random, this.#keys));
  }

  #drawArray(length: number): RowArray {
    const elements = Array.from({ length }, () => this.#kind.draw(this.#random));
    return this.#kind.element === "i64" ? BigInt64Array.from(elements, BigInt) : new ARRAYS[this.#kind.element](elements.map(Number));
  }

  #table(rank: number): Embedding<RowElement> {
    return this.#tables[rank] as Embedding<RowElement>;
  }
}

/** A mean is for floats, and of what is added. */
function drawTypedConsistency(random: Random, { element }: TypedKind): Consistency {
  const isFloat = element === "f32" || element === "f64";
  return pick<Consistency>(random, ["asp", "asp", { ssp: random.below(3) }, "bsp", isFloat ? { bsp: true, reduce: "mean" } : "bsp"]);
}

function copyOf(rows: ReadonlyMap<bigint, PlainRow>): Map<bigint, PlainRow> {
  return new Map([...rows].map(([key, { values, updateCount }]) => [key, { values: [...values], updateCount }]));
}
