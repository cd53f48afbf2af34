// pulled-values — Goal: DC-ASGD compares with what the pushing worker pulled last, for any number of workers, and what
// is remembered of them comes and goes with them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsPull, rowsPush } from "../../contracts/rows.ts";
import { tensorPull, tensorPush } from "../../contracts/tensors.ts";
import { floatsOf, ParameterStage, type StageSpec } from "../../testing/parameter-stage.ts";
import { idOf } from "../../wire/node-id.ts";

const OPTIMIZER = { type: "dcAsgd", learningRate: 0.5, lambda: 1 } as const;
const WIDTH = 3;
const KEYS = BigUint64Array.from({ length: 500 }, (_, i) => BigInt(i * 7919));
const init = { type: "uniform", low: -1, high: 1, seed: 3 } as const;
const TABLE: StageSpec = { kind: "table", width: WIDTH, init, optimizer: OPTIMIZER };
const TENSOR: StageSpec = { kind: "tensor", shape: [KEYS.length, WIDTH], init, optimizer: OPTIMIZER };

/** A parameter, and the workers of these ranks, of which the server knew `workers` when it began. */
class Subject {
  readonly stage: ParameterStage;
  readonly number: number;
  readonly #isTable: boolean;

  constructor(spec: StageSpec, { workers, joined = [] }: { readonly workers: number; readonly joined?: readonly number[] }) {
    this.stage = new ParameterStage({ workers });
    for (const rank of joined) this.stage.parameters.pacer.join(this.stage.holder(rank));
    this.number = this.stage.create(spec);
    this.#isTable = spec.kind === "table";
  }

  async push(rank: number, gradient: number, rows?: readonly number[]): Promise<void> {
    const { stage, number: parameter } = this;
    const count = rows?.length ?? KEYS.length;
    const at = { parameter, clock: 0, pushNumber: stage.pushes(rank).next(parameter, 0), scale: 1 };
    const gradients = new Float32Array(count * WIDTH).fill(gradient);
    const keys = rows === undefined ? KEYS : BigUint64Array.from(rows, (row) => KEYS[row] as bigint);
    if (this.#isTable) await stage.call(rank, rowsPush, { ...at, keys, gradients });
    else await stage.call(rank, tensorPush, { ...at, block: 0, rows: Uint32Array.from(rows ?? []), gradients });
  }

  async pull(rank: number, rows?: readonly number[]): Promise<number[]> {
    const { stage, number: parameter } = this;
    const at = { parameter, clock: 0 };
    const keys = rows === undefined ? KEYS : BigUint64Array.from(rows, (row) => KEYS[row] as bigint);
    if (this.#isTable) return [...floatsOf((await stage.call(rank, rowsPull, { ...at, keys })).values)];
    return [...floatsOf((await stage.call(rank, tensorPull, { ...at, block: 0, rows: Uint32Array.from(rows ?? []) })).values)];
  }

  get usedBytes(): number {
    return this.stage.arena.usedBytes;
  }
}

for (const spec of [TABLE, TENSOR]) {
  test(`a ${spec.kind} takes any number of workers, also more than it began with: the same bits as if all had been there`, async () => {
    const all = new Subject(spec, { workers: 41 });
    const few = new Subject(spec, { workers: 1, joined: [7, 40] });
    for (const subject of [all, few]) {
      await subject.push(0, 1);
      await subject.pull(40, [3, 8, 9]);
      await subject.push(7, 0.5, [1, 3, 8]);
      await subject.pull(7);
      await subject.push(0, 0.25, [8, 9]);
      await subject.push(40, 1);
      await subject.push(7, 1, [8]);
      await subject.push(40, -1, [3, 9, 11]);
    }
    assert.deepEqual(await few.pull(0), await all.pull(0));
  });

  test(`what a worker pulled of a ${spec.kind} is remembered from its first pull on, and until the worker is gone`, async () => {
    const subject = new Subject(spec, { workers: 3 });
    const { parameters } = subject.stage;
    for (const rank of [0, 1, 2]) await subject.push(rank, 1); // nobody has pulled
    const { store } = parameters.get(subject.number);
    const [before, own] = [subject.usedBytes, store.usedBytes];
    await subject.pull(2);
    const once = subject.usedBytes - before;
    assert.ok(once >= KEYS.length * WIDTH * 4, `${once} bytes`);
    assert.ok(store.usedBytes > own);
    await subject.pull(2);
    assert.equal(subject.usedBytes - before, once, "the same worker again takes no more");
    await subject.pull(1);
    for (const rank of [1, 2]) parameters.forgetWorker(idOf("worker", rank));
    assert.equal(subject.usedBytes, before);
    assert.equal(store.usedBytes, own);
    await subject.pull(1);
    parameters.get(subject.number).close();
  });

  test(`a worker whose pulls of a ${spec.kind} were forgotten is compared with what the values began with, as one that never pulled`, async () => {
    const [forgotten, never] = [new Subject(spec, { workers: 2 }), new Subject(spec, { workers: 2 })];
    for (const subject of [forgotten, never]) await subject.push(0, 1);
    await forgotten.pull(1);
    forgotten.stage.parameters.forgetWorker(idOf("worker", 1));
    for (const subject of [forgotten, never]) await subject.push(1, 1);
    assert.deepEqual(await forgotten.pull(0), await never.pull(0));
  });
}

test("rows that are removed take what workers pulled of them along", async () => {
  const subject = new Subject(TABLE, { workers: 2 });
  const { arena, parameters } = subject.stage;
  const { store } = parameters.table(subject.number);
  await subject.push(0, 1);
  await subject.pull(1);
  const keys = arena.allocate(KEYS.byteLength);
  new BigUint64Array(arena.memory.buffer, keys, KEYS.length).set(KEYS);
  store.remove(keys, KEYS.length);
  const anew = new Subject(TABLE, { workers: 2 });
  for (const one of [subject, anew]) {
    await one.push(0, 1);
    await one.push(1, 1);
  }
  assert.deepEqual(await subject.pull(0), await anew.pull(0));
});

test("on a full server a pull is answered without being remembered, and its worker counts as having just pulled (PulledBlock.M2)", async () => {
  const [full, roomy] = [new Subject(TENSOR, { workers: 2 }), new Subject(TENSOR, { workers: 2 })];
  for (const subject of [full, roomy]) await subject.push(0, 1);
  const { arena } = full.stage;
  const taken: { readonly address: number; readonly bytes: number }[] = [];
  for (let bytes = 2 ** 22; bytes >= 1024; bytes /= 2) {
    for (let address = arena.tryAllocateState(bytes); address !== 0; address = arena.tryAllocateState(bytes))
      taken.push({ address, bytes });
  }
  assert.deepEqual(await full.pull(1), await roomy.pull(1));
  for (const { address, bytes } of taken) arena.release(address, bytes);
  for (const subject of [full, roomy]) await subject.push(1, 1);
  assert.deepEqual(await full.pull(0), await roomy.pull(0), "nothing came between its pull and its push");
});
