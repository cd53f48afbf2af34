// typed-parts — Goal: parts of tables whose rows are not f32, or are updated by plain TypeScript, move with their
// columns and what waits in open rounds, bit for bit.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Log, SILENT_LOG } from "../../base/log.ts";
import { Random } from "../../base/random.ts";
import { rowsPull, rowsPush } from "../../contracts/rows.ts";
import type { RowSpans } from "../../kernel/row-element.ts";
import { PART_COUNT } from "../../keys/part.ts";
import { PlugIns } from "../../store/plug-ins.ts";
import { psRowType } from "../../store/row-types/ps-row-type.ts";
import { rowWords } from "../../store/row-types/row-type-spec.ts";
import { psUpdater } from "../../store/updaters/ps-updater.ts";
import { ParameterStage, type StageSpec } from "../../testing/parameter-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { PartState } from "./part-state.ts";

/** Smooths what is pushed, by a column of its own. */
const smoothed = psUpdater({
  name: "smoothed",
  version: 1,
  deterministic: true,
  dtypes: ["f32", "f64"],
  columns: (dim) => ({ mean: { dim, start: 0.5 }, steps: { dim: 1 } }),
  update: ({ elements, starts, columns, count, width }, gradients) => {
    for (let i = 0; i < count; i++) {
      elements[columns.steps![i]!]! += 1;
      for (let j = 0; j < width; j++) {
        const mean = columns.mean![i]! + j;
        elements[mean] = (elements[mean]! + gradients.elements[gradients.starts[i]! + j]!) / 2;
        elements[starts[i]! + j]! -= elements[mean]! / elements[columns.steps![i]!]!;
      }
    }
  },
});

/** Bits that are set stay set. */
const flags = psRowType({
  name: "flags",
  version: 1,
  deterministic: true,
  dtype: "i32",
  add: (sums: RowSpans<"i32">, updates: RowSpans<"i32">) => {
    for (let i = 0; i < sums.count; i++)
      for (let j = 0; j < sums.width; j++) sums.elements[sums.starts[i]! + j]! |= updates.elements[updates.starts[i]! + j]!;
  },
});

const WIDTH = 3;
const custom = { type: "custom", updater: "smoothed" } as const;
const KINDS: Readonly<Record<string, Extract<StageSpec, { kind: "table" }>>> = {
  "f64 with a user's updater": { kind: "table", width: WIDTH, rowType: "f64", optimizer: custom },
  "f32 with a user's updater": { kind: "table", width: WIDTH, optimizer: custom },
  "f64 with momentum": { kind: "table", width: WIDTH, rowType: "f64", optimizer: { type: "momentum" } },
  i64: { kind: "table", width: WIDTH, rowType: "i64" },
  "a user's row type": { kind: "table", width: WIDTH, rowType: { name: "flags", version: 1, element: "i32", elements: WIDTH } },
};
const KEYS = BigUint64Array.from({ length: 300 }, (_, i) => BigInt.asUintN(64, BigInt(i) * 0x9e37_79b9_7f4a_7c15n));

class Subject {
  readonly stage: ParameterStage;
  readonly state: PartState;
  readonly table: number;
  readonly #spec: Extract<StageSpec, { kind: "table" }>;

  constructor(spec: Extract<StageSpec, { kind: "table" }>, mode: Partial<Pick<StageSpec, "updates" | "staleness">>) {
    const plugIns = new PlugIns([{ module: "test", hash: "", updaters: [smoothed], rowTypes: [flags] }]);
    this.stage = new ParameterStage({ workers: 2, bytesMax: 2 ** 25, plugIns });
    this.state = new PartState(this.stage.parameters);
    this.#spec = spec;
    this.table = this.stage.create({ ...spec, name: "t", ...mode });
  }

  /** Any bits are numbers here, but for floats, which are made of finite ones. */
  async push(seed: number, rank: number, clock = 0): Promise<void> {
    const random = new Random(seed);
    const keys = KEYS.filter(() => random.chance(0.5));
    const words = new Uint32Array(keys.length * rowWords(this.#spec));
    const { rowType } = this.#spec;
    const floats = rowType === "f64" ? new Float64Array(words.buffer) : new Float32Array(words.buffer);
    if (rowType === "f64" || rowType === undefined) for (let i = 0; i < floats.length; i++) floats[i] = random.fraction() - 0.5;
    else for (let i = 0; i < words.length; i++) words[i] = random.below(2 ** 32);
    const pushNumber = this.stage.pushes(rank).next(this.table, clock);
    const gradients = new Float32Array(words.buffer);
    await this.stage.call(rank, rowsPush, { parameter: this.table, clock, scale: 1, pushNumber, keys, gradients });
  }

  async bits(clock = 0): Promise<string> {
    const { values } = await this.stage.call(0, rowsPull, { parameter: this.table, clock, keys: KEYS });
    return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("hex");
  }
}

/** Moves every part from one to the other, loading each page twice. */
function moveAll(from: Subject, to: Subject): void {
  for (let part = 0; part < PART_COUNT; part++) {
    const pages = [...from.state.savePart(part)];
    to.state.loadPart(pages);
    to.state.loadPart(pages);
    from.state.dropPart(part);
  }
  assert.equal(from.stage.parameters.table(from.table).store.rowCount, 0);
}

for (const [name, spec] of Object.entries(KINDS)) {
  test(`${name}: a part that moved goes on with the same bits, async`, async () => {
    const [stays, source, target] = [new Subject(spec, {}), new Subject(spec, {}), new Subject(spec, {})];
    for (const subject of [stays, source]) for (const seed of [1, 2, 3]) await subject.push(seed, seed % 2);
    moveAll(source, target);
    for (const subject of [stays, target]) for (const seed of [4, 5]) await subject.push(seed, seed % 2);
    assert.equal(await target.bits(), await stays.bits());
  });

  test(`${name}: what waits in an open round moves with its part, and counts once`, async () => {
    const sync = { updates: "sync", staleness: 0 } as const;
    const [stays, source, target] = [new Subject(spec, sync), new Subject(spec, sync), new Subject(spec, sync)];
    for (const subject of [stays, source]) {
      for (const rank of [0, 1]) await subject.push(10 + rank, rank);
      await subject.push(12, 0);
    }
    moveAll(source, target);
    for (const subject of [stays, target]) for (const rank of [0, 1]) subject.stage.advance(rank, 1);
    assert.equal(await target.bits(1), await stays.bits(1));
  });
}

test("a round that an updater throws in is in the server's log at once, with the parameter, the reason and the updater's stack", async () => {
  const told: string[] = [];
  const log: Log = { ...SILENT_LOG, error: (message, fields) => told.push(`${message} ${JSON.stringify(fields)}`) };
  const failing = psUpdater({
    name: "failing",
    version: 1,
    deterministic: true,
    update: () => {
      throw new Error("oops");
    },
  });
  const plugIns = new PlugIns([{ module: "failing.ts", hash: "", updaters: [failing], rowTypes: [] }]);
  const stage = new ParameterStage({ workers: 1, plugIns, log });
  const parameter = stage.create({ kind: "table", width: 1, updates: "sync", staleness: 0, optimizer: failing.with() });
  const gradients = Float32Array.of(1);
  await stage.call(0, rowsPush, { parameter, clock: 0, pushNumber: 1, scale: 1, keys: BigUint64Array.of(1n), gradients });
  assert.deepEqual(told, []);
  stage.advance(0, 1);
  assert.equal(told.length, 1);
  assert.match(told[0]!, /^a round failed \{"parameter":"w","reason":".*failing.*failing\.ts.*oops","stack":"Error: oops\\n +at /);
  await assert.rejects(stage.call(0, rowsPull, { parameter, clock: 0, keys: BigUint64Array.of(1n) }), throwsCode("HANDLER_FAILED", /oops/));
  stage.advance(0, 2);
  assert.equal(told.length, 1);
});
