// Goal: what optimizers count and remember goes through a checkpoint as it is, and checkpoints from before are read as
// they were meant.

import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsPull, rowsPush } from "../../contracts/rows.ts";
import { tensorPull, tensorPush } from "../../contracts/tensors.ts";
import { PART_COUNT } from "../../keys/placement.ts";
import type { CheckpointManifest } from "../../store/snapshot/checkpoint-manifest.ts";
import type { ColumnRecord, ParameterRecord } from "../../store/snapshot/parameter-record.ts";
import { requireSameModel } from "../../store/snapshot/same-model.ts";
import type { Chunk } from "../../store/snapshot/shard-header.ts";
import type { ShardSink, SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { ALL_ROWS, floatsOf, ParameterStage, type StageSpec } from "../../testing/parameter-stage.ts";
import type { Parameter } from "../parameters/parameters.ts";
import { restoreParameter } from "./parameter-restore.ts";
import { snapshotOf } from "./parameter-snapshot.ts";

/** A checkpoint of one parameter in memory: the bytes of each column of each chunk. */
type Saved = { record: ParameterRecord; readonly chunks: { readonly chunk: Chunk; readonly columns: Map<string, Uint8Array> }[] };

async function save(stage: ParameterStage): Promise<Saved> {
  const saved: Saved["chunks"] = [];
  const open = (kind: "rows" | "parts", parameter: string, from: number, to: number, rowCount: number) => {
    const key = kind === "rows" ? { kind, parameter, from, to } : { kind, parameter, from, to, ordinal: saved.length };
    const columns = new Map<string, Uint8Array>();
    saved.push({ chunk: { file: "memory", key, rowCount, sections: new Map() }, columns });
    return Promise.resolve({ write: async (column: string, bytes: Uint8Array) => void columns.set(column, new Uint8Array(bytes)) });
  };
  const sink: ShardSink = {
    openRows: (name, { from, to }) => open("rows", name, from, to, to - from),
    openParts: (name, { from, to, rowCount }) => open("parts", name, from, to, rowCount),
    finish: async () => [],
    abandon: async () => {},
  };
  const snapshot = snapshotOf("w", stage.parameters, stage.ownership);
  await snapshot.write(sink);
  return { record: snapshot.record, chunks: saved };
}

/** The only server that wrote these chunks. */
const writer = (chunks: Saved["chunks"]): object => ({ rank: 0, state: {}, files: chunks.map(({ chunk }) => ({ file: chunk.file })) });

/** The parameter again, on a server that has so many workers. */
async function load(
  spec: StageSpec,
  { record, chunks }: Saved,
  workers = 2,
  { serverCount, rank }: { readonly serverCount: number; readonly rank: number } = { serverCount: 1, rank: 0 },
): Promise<{ stage: ParameterStage; parameter: Parameter; readCount: number }> {
  const stage = new ParameterStage({ workers });
  const servers = Array.from({ length: serverCount }, (_, server) => server);
  if (serverCount > 1) stage.ownership.adopt({ epoch: 9, policy: "range", servers }, rank);
  let readCount = 0;
  const number = stage.create(spec);
  const parameter = stage.parameters.get(number);
  const source: SnapshotSource = {
    path: "memory",
    manifest: { partCount: PART_COUNT, servers: [writer(chunks)] } as unknown as CheckpointManifest,
    chunks: () => chunks.map(({ chunk }) => chunk),
    readColumn: async (chunk, column, into) => into.set(chunks.find((one) => one.chunk === chunk)!.columns.get(column)!),
    readRows: async (chunk, take) => {
      readCount++;
      const { columns } = chunks.find((one) => one.chunk === chunk)!;
      await take({ rowCount: chunk.rowCount, columns });
    },
    close: async () => {},
  };
  await restoreParameter(parameter, { source, record, host: stage.parameters.host, ownership: stage.ownership, number });
  return { stage, parameter, readCount };
}

const TENSOR: StageSpec = { kind: "tensor", shape: [3, 1], optimizer: { type: "adam", learningRate: 0.1 } };

const pushed = (stage: ParameterStage, parameter: number, gradients: readonly number[]) =>
  stage.call(0, tensorPush, {
    parameter,
    block: 0,
    clock: 0,
    pushNumber: stage.pushes(0).next(parameter, 0),
    scale: 1,
    rows: ALL_ROWS,
    gradients: Float32Array.from(gradients),
  });
const pushedRows = (stage: ParameterStage, parameter: number, rows: readonly number[]) =>
  stage.call(0, tensorPush, {
    ...{ parameter, block: 0, clock: 0, pushNumber: stage.pushes(0).next(parameter, 0), scale: 1, rows: Uint32Array.from(rows) },
    gradients: new Float32Array(rows.length).fill(1),
  });
const valuesOf = async (stage: ParameterStage, parameter: number) => [
  ...floatsOf((await stage.call(0, tensorPull, { parameter, block: 0, clock: 0, rows: ALL_ROWS })).values),
];

test("the steps of a tensor's rows go through a checkpoint: what follows is the same", async () => {
  const stage = new ParameterStage();
  const w = stage.create(TENSOR);
  await pushed(stage, w, [1, 2, 3]);
  await pushedRows(stage, w, [2]);
  await pushedRows(stage, w, [2, 0]);
  const { stage: again } = await load(TENSOR, await save(stage));
  for (const one of [stage, again]) {
    await pushedRows(one, w, [0, 1, 2]);
    await pushed(one, w, [-1, -2, -3]);
  }
  assert.deepEqual(await valuesOf(again, w), await valuesOf(stage, w));
});

test("a block's count of steps beyond 2^32 is saved whole", async () => {
  const stage = new ParameterStage();
  stage.create(TENSOR);
  const tensor = stage.parameters.tensorOf("w");
  tensor.store.openBlock(0, 2 ** 33 + 5);
  const { stage: again } = await load(TENSOR, await save(stage));
  assert.equal(again.parameters.tensorOf("w").store.block(0).step, 2 ** 33 + 5);
});

test("a checkpoint from before, with a u32 step and no steps of rows, is read as it was meant: its rows have the steps of their block", async () => {
  const stage = new ParameterStage();
  const w = stage.create(TENSOR);
  await pushed(stage, w, [1, 2, 3]);
  await pushed(stage, w, [1, 2, 3]);
  const saved = await save(stage);
  const rowSteps = saved.record.columns.find(({ name }) => name === "rowSteps");
  const step: ColumnRecord = { ...rowSteps!, name: "step", per: "chunk" }; // a word of 32 bits
  const columns = saved.record.columns.filter(({ name }) => name !== "step" && name !== "rowSteps");
  const old = { ...saved.record, columns: [...columns, step] };
  requireSameModel("old", [old], [saved.record]);
  saved.chunks[0]!.columns.set("step", new Uint8Array(Uint32Array.of(2).buffer));
  saved.chunks[0]!.columns.delete("rowSteps");
  const { stage: again } = await load(TENSOR, { ...saved, record: old });
  assert.equal(again.parameters.tensorOf("w").store.block(0).step, 2);
  for (const one of [stage, again]) await pushedRows(one, w, [1]);
  assert.deepEqual(await valuesOf(again, w), await valuesOf(stage, w));
});

for (const kind of ["table", "tensor"] as const) {
  test(`what workers pulled of a ${kind} of DC-ASGD is in no checkpoint: each counts as having pulled what was restored`, async () => {
    const optimizer = { type: "dcAsgd", learningRate: 0.5, lambda: 1 } as const;
    const spec: StageSpec = kind === "table" ? { kind, width: 1, versions: true, optimizer } : { kind, shape: [1], optimizer };
    const keys = BigUint64Array.of(7n);
    const push = async (stage: ParameterStage, rank: number): Promise<void> => {
      const at = { parameter: w, clock: 0, pushNumber: stage.pushes(rank).next(w, 0), scale: 1, gradients: Float32Array.of(1) };
      if (kind === "table") await stage.call(rank, rowsPush, { ...at, keys });
      else await stage.call(rank, tensorPush, { ...at, block: 0, rows: ALL_ROWS });
    };
    const pull = async (stage: ParameterStage, rank: number): Promise<number> => {
      const at = { parameter: w, clock: 0 };
      const { values } =
        kind === "table"
          ? await stage.call(rank, rowsPull, { ...at, keys })
          : await stage.call(rank, tensorPull, { ...at, block: 0, rows: ALL_ROWS });
      return floatsOf(values)[0] as number;
    };
    const stage = new ParameterStage();
    const w = stage.create(spec);
    await push(stage, 0);
    await pull(stage, 0);
    await push(stage, 1);
    const saved = await save(stage);
    assert.deepEqual(
      saved.record.columns.map(({ name }) => name),
      kind === "table" ? ["keys", "values", "meanSquare", "version"] : ["values", "meanSquare", "step"],
    );
    const [values = 0] = new Float32Array(saved.chunks[0]!.columns.get("values")!.buffer);
    // One from before has a column for each worker.
    const old = structuredClone(saved);
    for (const rank of [0, 1]) {
      const column: ColumnRecord = { name: `pulled${rank}`, dtype: "F32", width: 1, per: "row" };
      const at = old.record.columns.findIndex(({ name }) => name === "meanSquare") + 1 + rank;
      old.record = { ...old.record, columns: old.record.columns.toSpliced(at, 0, column) };
      old.chunks[0]!.columns.set(column.name, new Uint8Array(Float32Array.of(99).buffer));
    }
    requireSameModel("old", [old.record], [saved.record]);
    for (const one of [saved, old]) {
      for (const rank of [0, 1, 2]) {
        const { stage: again } = await load(spec, one, 3);
        await push(again, rank);
        assert.equal(await pull(again, rank), values - 0.5, `worker ${rank} is not late`);
        const { stage: later } = await load(spec, one, 3);
        await push(later, 1);
        await push(later, rank);
        assert.notEqual(await pull(later, rank), values - 1, `worker ${rank} has not seen the push in between`);
      }
    }
  });
}

test("a table is saved in the order of its parts, and of many servers each reads the chunks that it owns parts of, and no others", async () => {
  const spec: StageSpec = { kind: "table", width: 32 };
  const stage = new ParameterStage();
  const w = stage.create(spec);
  for (let from = 0; from < 60_000; from += 4000) {
    const keys = BigUint64Array.from({ length: 4000 }, (_, i) => BigInt(from + i));
    const pushNumber = stage.pushes(0).next(w, 0);
    await stage.call(0, rowsPush, { parameter: w, clock: 0, pushNumber, scale: 1, keys, gradients: new Float32Array(4000 * 32).fill(1) });
  }
  const saved = await save(stage);
  const spans = saved.chunks.map(({ chunk }) => chunk.key);
  assert.ok(spans.length >= 8, `${spans.length} chunks`);
  for (const { from, to } of spans) assert.ok(to - from < PART_COUNT / 4, `a chunk has the parts ${from} to ${to}`);
  let [rowCount, readCount] = [0, 0];
  for (let rank = 0; rank < 8; rank++) {
    const server = { serverCount: 8, rank };
    const again = await load(spec, saved, 2, server);
    rowCount += again.stage.parameters.table(w).store.rowCount;
    readCount += again.readCount;
    const own = spans.filter(({ from, to }) => again.stage.ownership.ownsAnyOf({ from, to }));
    assert.equal(again.readCount, own.length);
  }
  assert.equal(rowCount, 60_000);
  assert.ok(readCount <= spans.length + 2 * 8, `${readCount} reads of ${spans.length} chunks by 8 servers`);
});
