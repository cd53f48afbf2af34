// part-state — Goal: a part moves from the parameters of one server to those of another, with all that optimizers keep
// and what waits in open rounds, and nobody could tell afterwards: the same bits as on a server that had it all along.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { dataPull, dataPush } from "../../contracts/beside-parameters.ts";
import { rowsPull, rowsPush } from "../../contracts/rows.ts";
import { tensorPull, tensorPush } from "../../contracts/tensors.ts";
import { PART_COUNT, partOf } from "../../keys/part.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import { OPTIMIZER_TYPES } from "../../testing/optimizer-types.ts";
import { ALL_ROWS, floatsOf, ParameterStage, type StageSpec } from "../../testing/parameter-stage.ts";
import { PartState } from "./part-state.ts";

const WIDTH = 3;
const ROWS_PER_BLOCK = Math.floor(2 ** 17 / WIDTH);
/** The second block is short. */
const BLOCKS = [0, 1];
const ROWS = ROWS_PER_BLOCK + 800;
const KEYS = BigUint64Array.from({ length: 400 }, (_, i) => BigInt.asUintN(64, BigInt(i) * 0x9e37_79b9_7f4a_7c15n));
const SYNC = { updates: "sync", staleness: 0 } as const;

const partOfKey = (key: bigint): number => partOf(Number(key & 0xffff_ffffn), Number(key >> 32n));

/** A stage with a table and a tensor, and what workers do to it, by chance. */
class Subject {
  readonly stage = new ParameterStage({ workers: 2, bytesMax: 2 ** 26 });
  readonly state = new PartState(this.stage.parameters);
  readonly table: number;
  readonly tensor: number;

  constructor(optimizer: OptimizerSpec, mode: Partial<Pick<StageSpec, "updates" | "staleness">> = {}) {
    const init = { type: "uniform", low: -1, high: 1, seed: 3 } as const;
    this.table = this.stage.create({ kind: "table", name: "t", width: WIDTH, versions: mode.updates !== "sync", init, optimizer, ...mode });
    const shape = [ROWS, WIDTH];
    this.tensor = this.stage.create({ kind: "tensor", name: "w", shape, init, optimizer, ...mode });
  }

  partOfBlock(block: number): number {
    return partOf(block, this.tensor);
  }

  async push(seed: number, rank: number, clock = 0): Promise<void> {
    const random = new Random(seed);
    const { stage, table, tensor } = this;
    const floats = (count: number): Float32Array => Float32Array.from({ length: count }, () => random.fraction() - 0.5);
    const keys = KEYS.filter(() => random.chance(0.5));
    const number = (parameter: number): number => stage.pushes(rank).next(parameter, clock);
    const common = { clock, scale: 1 };
    await stage.call(rank, rowsPush, {
      ...{ parameter: table, ...common, pushNumber: number(table) },
      ...{ keys, gradients: floats(keys.length * WIDTH) },
    });
    const pushNumber = number(tensor);
    for (const block of BLOCKS) {
      const at = { parameter: tensor, block, ...common, pushNumber };
      if (seed % 2 === 0)
        await stage.call(rank, tensorPush, {
          ...at,
          rows: ALL_ROWS,
          gradients: floats((block === 0 ? ROWS_PER_BLOCK : ROWS - ROWS_PER_BLOCK) * WIDTH),
        });
      else await stage.call(rank, tensorPush, { ...at, rows: Uint32Array.of(1, 5, 700), gradients: floats(3 * WIDTH) });
    }
  }

  /** Their bits. */
  async values(clock = 0, rank = 0): Promise<string> {
    const { stage, table, tensor } = this;
    const rows = await stage.call(rank, rowsPull, { parameter: table, clock, keys: KEYS });
    const blocks = await Promise.all(
      BLOCKS.map((block) => stage.call(rank, tensorPull, { parameter: tensor, block, clock, rows: ALL_ROWS })),
    );
    const bytes = [rows, ...blocks].map(({ values }) => Buffer.from(values.buffer, values.byteOffset, values.byteLength));
    return Buffer.concat(bytes).toString("latin1");
  }

  /** All parts that have anything. */
  parts(): Set<number> {
    return new Set([...[...KEYS].map(partOfKey), ...BLOCKS.map((block) => this.partOfBlock(block))]);
  }
}

/** Moves every part from one to the other, loading each page twice. */
function moveAll(from: Subject, to: Subject): void {
  for (const part of from.parts()) {
    const count = from.state.countPart(part);
    const pages = [...from.state.savePart(part)];
    to.state.loadPart(pages);
    to.state.loadPart(pages);
    assert.equal(from.state.dropPart(part), count);
    assert.equal(from.state.countPart(part), 0);
    assert.equal(to.state.countPart(part), count);
  }
  const { store } = from.stage.parameters.table(from.table);
  assert.equal(store.rowCount, 0);
  assert.deepEqual(from.stage.parameters.tensor(from.tensor).store.blockIndexes, []);
}

for (const type of OPTIMIZER_TYPES) {
  test(`${type}: a part that moved goes on with the same bits, async`, async () => {
    const optimizer = { type } as OptimizerSpec;
    const [stays, source, target] = [new Subject(optimizer), new Subject(optimizer), new Subject(optimizer)];
    for (const subject of [stays, source])
      for (const seed of [1, 2, 3, 4]) {
        await subject.push(seed, seed % 2);
        await subject.values(0, seed % 2); // DC-ASGD remembers it
      }
    // The target's workers push elsewhere: it hears of the numbers with the clock, and so knows lazyAdam's steps.
    for (const rank of [0, 1])
      for (const parameter of [target.table, target.tensor]) for (let i = 0; i < 2; i++) target.stage.pushes(rank).next(parameter, 0);
    for (const subject of [stays, source, target]) for (const rank of [0, 1]) subject.stage.advance(rank, 1);
    moveAll(source, target);
    for (const subject of [stays, target]) for (const seed of [5, 6, 7]) await subject.push(seed, seed % 2, 1);
    assert.ok((await target.values(1)) === (await stays.values(1)), "the same bits");
  });
}

test("open rounds move with their part, each contribution once, and are applied in the order of the ranks", async () => {
  for (const type of ["sgd", "adam", "lazyAdam", "assign"] as const) {
    const optimizer = { type } as OptimizerSpec;
    const [stays, source, target] = [new Subject(optimizer, SYNC), new Subject(optimizer, SYNC), new Subject(optimizer, SYNC)];
    for (const subject of [stays, source]) {
      await subject.push(1, 1);
      await subject.push(2, 0);
      await subject.push(3, 1); // a second push of the same clock
      await subject.push(4, 0, 1); // a clock that is still to come
    }
    moveAll(source, target);
    assert.equal(source.stage.arena.usedBytes < target.stage.arena.usedBytes, true);
    for (const subject of [stays, target]) {
      await subject.push(5, 1, 0); // and one behind the move
      for (const clock of [1, 2]) for (const rank of [0, 1]) subject.stage.advance(rank, clock);
    }
    for (const rank of [0, 1]) source.stage.advance(rank, 2); // nothing of it is left there
    assert.ok((await target.values(2)) === (await stays.values(2)), `${type}: the same bits`);
    assert.equal(source.stage.parameters.table(source.table).store.rowCount, 0);
  }
});

test("what a worker pushed twice to a row at a clock is added up first, also on the server to which its part alone moved (UpdateRounds.U3)", async () => {
  const [stays, source, target] = [
    new Subject({ type: "sum" }, SYNC),
    new Subject({ type: "sum" }, SYNC),
    new Subject({ type: "sum" }, SYNC),
  ];
  const keys = KEYS.slice(0, 1);
  const push = async ({ stage, table }: Subject, rank: number, value: number): Promise<void> => {
    const pushNumber = stage.pushes(rank).next(table, 0);
    const gradients = new Float32Array(WIDTH).fill(value);
    await stage.call(rank, rowsPush, { parameter: table, clock: 0, scale: 1, pushNumber, keys, gradients });
  };
  for (const subject of [stays, source]) {
    await push(subject, 0, 1);
    // one of them is lost when it is added to 1, both together are not
    for (let i = 0; i < 2; i++) await push(subject, 1, 2 ** -24);
  }
  target.state.loadPart(source.state.savePart(partOfKey(keys[0] as bigint)));
  const read = async ({ stage, table }: Subject): Promise<number[]> => {
    for (const rank of [0, 1]) stage.advance(rank, 1);
    return [...floatsOf((await stage.call(0, rowsPull, { parameter: table, clock: 1, keys })).values)];
  };
  assert.deepEqual(await read(target), await read(stays));
});

test("a part is moved alone: those of its rows and blocks, and what waits for them, and no others", async () => {
  const [source, target] = [new Subject({ type: "sgd" }, SYNC), new Subject({ type: "sgd" }, SYNC)];
  await source.push(1, 0);
  const part = partOfKey(KEYS[0] as bigint);
  const own = [...KEYS].filter((key) => partOfKey(key) === part).length;
  const before = source.stage.parameters.table(source.table).store.rowCount;
  target.state.loadPart(source.state.savePart(part));
  assert.ok(target.state.countPart(part) <= own);
  assert.equal(target.stage.parameters.table(target.table).store.rowCount, target.state.countPart(part));
  source.state.dropPart(part);
  for (const rank of [0, 1]) for (const { stage } of [source, target]) stage.advance(rank, 1);
  assert.equal(source.stage.parameters.table(source.table).store.rowCount, before - target.state.countPart(part));
  let left = 0;
  for (let other = 0; other < PART_COUNT; other++) left += source.state.countPart(other);
  assert.equal(left, source.stage.parameters.table(source.table).store.rowCount + BLOCKS.length);
});

test("the parts that are marked are those that have pages, with open rounds, pulled rows and data; of many rows all are", async () => {
  const paged = ({ state }: Subject): number[] => [...Array(PART_COUNT).keys()].filter((part) => [...state.savePart(part)].length > 0);
  const marked = ({ state }: Subject): number[] => [...state.marks().entries()].flatMap(([part, mark]) => (mark === 0 ? [] : part));
  for (const subject of [new Subject({ type: "sgd" }, SYNC), new Subject({ type: "dcAsgd" })]) {
    assert.deepEqual(marked(subject), []);
    for (const rank of [0, 1]) await subject.push(rank, rank);
    await subject.stage.call(1, rowsPull, { parameter: subject.table, clock: 0, keys: KEYS });
    const data = subject.stage.parameters.sums.of("data");
    for (const width of [2, 5000]) data.put({ width, keys: BigUint64Array.of(BigInt(width)), payloads: new Uint8Array(4 * width) });
    assert.ok(marked(subject).length > BLOCKS.length);
    assert.deepEqual(marked(subject), paged(subject));
  }
  const full = new Subject({ type: "sgd" });
  const keys = BigUint64Array.from({ length: PART_COUNT + 1 }, (_, i) => BigInt(i));
  full.stage.parameters.sums.of("data").put({ width: 1, keys, payloads: new Uint8Array(4 * keys.length) });
  assert.equal(marked(full).length, PART_COUNT);
});

test("a page of a parameter that is not there, of another kind or of a round that is over is refused", async () => {
  const [source, target] = [new Subject({ type: "sgd" }, SYNC), new Subject({ type: "sgd" }, SYNC)];
  await source.push(1, 0);
  const pages = [...source.parts()].flatMap((part) => [...source.state.savePart(part)]);
  const refuses = (code: "UNKNOWN_PARAMETER" | "BAD_REQUEST" | "STALE_UPDATE", list: typeof pages): void =>
    assert.throws(
      () => target.state.loadPart(list),
      (error) => isWeighbridgeError(error, code),
    );
  const [first] = pages;
  assert.ok(first !== undefined && first.kind !== "data");
  refuses("UNKNOWN_PARAMETER", [{ ...first, parameter: "nobody" }]);
  refuses("BAD_REQUEST", [{ ...first, parameter: first.parameter === "t" ? "w" : "t" }]);
  for (const rank of [0, 1]) target.stage.advance(rank, 1);
  const rounds = pages.filter(({ kind }) => kind === "openRows" || kind === "openBlock");
  for (const page of rounds.slice(0, 3)) refuses("STALE_UPDATE", [page]);
  refuses("STALE_UPDATE", rounds.filter(({ kind }) => kind === "openBlock").slice(0, 1));
});

test("arrays of data move with their part, and load twice as once; those of other parts stay", async () => {
  const [from, to] = [new Subject({ type: "sum" }), new Subject({ type: "sum" })];
  const [first, second] = [KEYS[0] as bigint, KEYS[1] as bigint];
  const indexes = BigUint64Array.of(first, second);
  const push = { indexes, lengths: Uint32Array.of(2, 1), values: Float32Array.of(1, 2, 3) };
  await from.stage.call(0, dataPush, push);
  await from.stage.call(1, dataPush, push);
  const pages = [...from.state.savePart(partOfKey(first))];
  to.state.loadPart(pages);
  to.state.loadPart(pages);
  assert.equal(from.state.dropPart(partOfKey(first)), 1);
  const found = async ({ stage }: Subject, index: bigint): Promise<number[]> => [
    ...(await stage.call(0, dataPull, { indexes: BigUint64Array.of(index) })).values,
  ];
  assert.deepEqual([await found(to, first), await found(from, second)], [[2, 4], [6]]);
  await assert.rejects(found(from, first), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
  assert.equal(to.state.dropPart(partOfKey(first)), 1);
});
