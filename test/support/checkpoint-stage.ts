// checkpoint-stage — a small model with some of everything, cut over any number of servers, for tests: a tensor in
// blocks of 3 rows, with a slot and a step count per block, and a table with keys, a slot per row and versions. Every
// value says where it belongs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CheckpointDirectory, type CommittedCheckpoint } from "../../src/node/checkpoint/checkpoint-directory.ts";
import { type FileLayer, realFiles } from "../../src/node/checkpoint/file-layer.ts";
import { ShardWriter, type ShardWriterOptions } from "../../src/node/checkpoint/shard-writer.ts";
import type { CheckpointManifest, ServerRecord } from "../../src/store/snapshot/checkpoint-manifest.ts";
import type { ParameterRecord } from "../../src/store/snapshot/parameter-record.ts";

const BLOCK_ROWS = 3;
export const PART_COUNT = 16;
const ROWS_PER_PART = 2;

const TRAINING = {
  initializer: { kind: "normal", mean: 0, deviation: 0.1 },
  consistency: { kind: "ssp", staleness: 2 },
  schedule: { kind: "constant" },
  settings: {},
  state: { stepCount: 41 },
} as const;

export const WEIGHTS: ParameterRecord = {
  name: "layer1/weights",
  kind: "tensor",
  shape: [10, 2, 2],
  rowCount: 10,
  width: 4,
  columns: [
    { name: "values", dtype: "F32", width: 4, per: "row" },
    { name: "momentum", dtype: "F32", width: 4, per: "row" },
    { name: "step", dtype: "U32", width: 1, per: "chunk" },
  ],
  optimizer: { kind: "momentum", learningRate: 0.1, momentum: 0.9 },
  ...TRAINING,
};

export const USERS: ParameterRecord = {
  name: "users",
  kind: "table",
  shape: [],
  rowCount: PART_COUNT * ROWS_PER_PART,
  width: 3,
  columns: [
    { name: "keys", dtype: "U64", width: 1, per: "row" },
    { name: "values", dtype: "F32", width: 3, per: "row" },
    { name: "accumulator", dtype: "F32", width: 1, per: "row" },
    { name: "version", dtype: "U32", width: 1, per: "row" },
  ],
  optimizer: { kind: "rowwise-adagrad", learningRate: 0.05 },
  ...TRAINING,
};

export function weightAt(row: number, column: number): number {
  return row * 10 + column + 0.5;
}

/** The keys of a part, up to the largest there is. */
export function keysOf(part: number): bigint[] {
  return Array.from({ length: ROWS_PER_PART }, (_, index) => 2n ** 64n - 1n - BigInt(part * ROWS_PER_PART + index));
}

export type SaveOptions = {
  readonly root: string;
  readonly step: number;
  readonly serverCount?: number;
  readonly job?: string;
  readonly layer?: FileLayer;
  readonly shard?: Partial<Pick<ShardWriterOptions, "fileBytesMax" | "headerBytes">>;
};

/** What a job with its servers does: begin, a shard each, commit; and give up on an error. */
export async function saveSample(options: SaveOptions): Promise<CommittedCheckpoint> {
  const { root, step, serverCount = 2, layer = realFiles } = options;
  const directory = new CheckpointDirectory({ root, layer });
  const pending = await directory.begin(step);
  try {
    const servers: ServerRecord[] = [];
    for (let rank = 0; rank < serverCount; rank++) servers.push(await writeSampleShard(options, pending.path, rank));
    return await directory.commit(pending, sampleManifest(options, servers));
  } catch (cause) {
    await directory.abandon(pending).catch(() => {}); // A test's crash stops this, too.
    throw cause;
  }
}

export function sampleManifest(
  { step, serverCount = 2, job = "job-a" }: SaveOptions,
  servers: readonly ServerRecord[],
): CheckpointManifest {
  return {
    job,
    step,
    clock: 40,
    createdAt: "2026-01-02T03:04:05.678Z",
    serverCount,
    partCount: PART_COUNT,
    parameters: [WEIGHTS, USERS],
    servers,
    workers: [
      { rank: 0, clock: 40 },
      { rank: 1, clock: 41 },
    ],
    state: { seed: "18446744073709551615" },
  };
}

export async function writeSampleShard(options: SaveOptions, directory: string, rank: number): Promise<ServerRecord> {
  const { step, serverCount = 2, job = "job-a", layer = realFiles, shard = { headerBytes: 2048 } } = options;
  const writer = new ShardWriter({ directory, owner: { job, step, server: rank }, parameters: [WEIGHTS, USERS], layer, ...shard });
  try {
    for (let block = 0; block * BLOCK_ROWS < WEIGHTS.rowCount; block++) {
      if (block % serverCount === rank) await writeBlock(writer, block);
    }
    const share = PART_COUNT / serverCount;
    await writeParts(writer, rank * share, (rank + 1) * share);
    const files = await writer.finish();
    return { rank, files, vectorClock: [{ worker: 9, incarnation: 1, stamp: 1000 + rank }], state: {} };
  } catch (cause) {
    await writer.abandon();
    throw cause;
  }
}

async function writeBlock(writer: ShardWriter, block: number): Promise<void> {
  const from = block * BLOCK_ROWS;
  const to = Math.min(from + BLOCK_ROWS, WEIGHTS.rowCount);
  const values = Float32Array.from({ length: (to - from) * WEIGHTS.width }, (_, index) =>
    weightAt(from + Math.floor(index / 4), index % 4),
  );
  const chunk = await writer.openRows(WEIGHTS.name, { from, to });
  await chunk.write("values", bytesOf(values));
  await chunk.write("momentum", bytesOf(values.map((value) => -value)));
  await chunk.write("step", bytesOf(Uint32Array.of(100 + block)));
}

/** In two pieces a column, as rows are gathered in batches. */
async function writeParts(writer: ShardWriter, from: number, to: number): Promise<void> {
  const keys = Array.from({ length: to - from }, (_, index) => keysOf(from + index)).flat();
  const chunk = await writer.openParts(USERS.name, { from, to, rowCount: keys.length });
  const middle = Math.floor(keys.length / 2);
  for (const batch of [keys.slice(0, middle), keys.slice(middle)]) {
    const ids = batch.map((key) => Number(2n ** 64n - 1n - key));
    await chunk.write("keys", bytesOf(BigUint64Array.from(batch)));
    await chunk.write("values", bytesOf(Float32Array.from(ids.flatMap((id) => [id, id + 0.25, id + 0.5]))));
    await chunk.write("accumulator", bytesOf(Float32Array.from(ids, (id) => id * 2)));
    await chunk.write("version", bytesOf(Uint32Array.from(ids, (id) => id + 7)));
  }
}

export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A folder that is gone at the end of the test. */
export function temporaryFolder(): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "weighbridge-checkpoint-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true, maxRetries: 10 }) };
}
