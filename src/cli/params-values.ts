// params-values — reads rows of a parameter for `weighbridge params get`. The command joins the job as a guest
// meanwhile.

import { Session } from "../api/session.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { parameterSize } from "../contracts/parameters.ts";
import { hashKey } from "../keys/hash-key.ts";
import { nodeSessions } from "../node/node-sessions.ts";
import { startWorker } from "../node/worker-root.ts";
import type { ParameterSpec, TensorSpec } from "../store/parameter-spec.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import { serverRanks } from "../wire/roster.ts";
import { type ClusterRequest, type FoundScheduler, guestConfig, relayedCalls } from "./cluster-client.ts";
import type { ShownRow } from "./params-text.ts";

/** Rows of a tensor that are shown where none is named. */
const FIRST_ROWS = 10;
/** A tensor of more elements is not read whole. */
const WHOLE_MAX = 1_000_000;
const KEY_MAX = 2n ** 64n - 1n;

export type Reading = {
  readonly number: number;
  readonly spec: ParameterSpec;
  /** Keys, or numbers of rows. */
  readonly words: readonly string[];
  readonly areStrings: boolean;
  /** All rows of a tensor of which none is named; otherwise the first ones. */
  readonly isWhole: boolean;
};

/** `more`: so many rows of a tensor come behind them. */
export type ReadRows = { readonly rows: readonly ShownRow[]; readonly more?: number };

/** Makes no row. Throws BAD_CONFIG for words that name no row, and what joining and reading throw. */
export async function readRows(request: ClusterRequest, found: FoundScheduler, reading: Reading): Promise<ReadRows> {
  const { spec } = reading;
  return spec.kind === "tensor" ? await tensorRows(request, found, spec, reading) : await embeddingRows(request, found, reading);
}

async function embeddingRows(
  request: ClusterRequest,
  found: FoundScheduler,
  { number, spec: { name }, words, areStrings }: Reading,
): Promise<ReadRows> {
  if (words.length === 0) throw usage(`params get needs keys: ${name} is an embedding, such as in: weighbridge params get ${name} 17`);
  const keys = BigUint64Array.from(words, (word) => (areStrings ? hashKey(word) : keyOf(word)));
  const { call } = relayedCalls(request, found);
  const held = await Promise.all(serverRanks(found.status).map((server) => call(server, parameterSize, { parameter: number, keys })));
  const rows = await withGuest(request, found, async (session) => {
    const embedding = await session.embedding(name);
    const values = await embedding.pull(keys);
    return words.map((label, i) => {
      const isMissing = held.every(({ found: here }) => here[i] === 0);
      return { label, values: embedding.row(values, i), isMissing };
    });
  });
  return { rows };
}

async function tensorRows(
  request: ClusterRequest,
  found: FoundScheduler,
  { name, shape: sizes }: TensorSpec,
  { words, areStrings, isWhole }: Reading,
): Promise<ReadRows> {
  const shape = new TensorShape(sizes);
  if (areStrings) throw usage(`${name} is a tensor: its rows have numbers, and --string is for keys of embeddings`);
  const named = words.map((word) => rowOf(word, name, shape));
  const { rowCount, width, hasRows, floatCount } = shape;
  if (!hasRows && floatCount > WHOLE_MAX) throw usage(`${name} has rows of ${width} elements, which cannot be read one by one`);
  if (named.length === 0 && isWhole && floatCount > WHOLE_MAX)
    throw usage(`${name} has ${floatCount} elements: name the rows that are to be printed`);
  return await withGuest(request, found, async (session) => {
    const tensor = await session.tensor(name);
    const isLine = width === 1 && named.length === 0; // a vector, or a scalar
    const shownCount = isWhole ? rowCount : Math.min(rowCount, isLine ? FIRST_ROWS * FIRST_ROWS : FIRST_ROWS);
    const rows = named.length > 0 ? named : Array.from({ length: shownCount }, (_, row) => row);
    const values = hasRows ? await tensor.pullRows(rows) : pick(await tensor.pull(), rows, width);
    const more = named.length > 0 ? 0 : rowCount - rows.length;
    if (isLine) return { rows: [{ label: "", values }], more };
    return { rows: rows.map((row, i) => ({ label: String(row), values: values.subarray(i * width, (i + 1) * width) })), more };
  });
}

function pick(values: Float32Array, rows: readonly number[], width: number): Float32Array {
  const picked = new Float32Array(rows.length * width);
  for (const [i, row] of rows.entries()) picked.set(values.subarray(row * width, (row + 1) * width), i * width);
  return picked;
}

function keyOf(word: string): bigint {
  const key = /^\d+$/.test(word) ? BigInt(word) : KEY_MAX + 1n;
  if (key <= KEY_MAX) return key;
  throw usage(`a key must be a whole number from 0 to 2^64 - 1, got ${JSON.stringify(word)}; with --string, keys are strings`);
}

function rowOf(word: string, name: string, { rowCount }: TensorShape): number {
  const row = /^\d+$/.test(word) ? Number(word) : rowCount;
  if (row < rowCount) return row;
  throw usage(`${name} has rows 0 to ${rowCount - 1}, got ${JSON.stringify(word)}`);
}

function usage(message: string): WeighbridgeError {
  return new WeighbridgeError("BAD_CONFIG", message);
}

/** Joins the job as a guest, which makes nothing and waits for no clock. */
async function withGuest<T>({ timeoutMs }: ClusterRequest, found: FoundScheduler, use: (session: Session) => Promise<T>): Promise<T> {
  const wait = { timeoutMs };
  const node = await startWorker(guestConfig(found), { ...wait, sessions: nodeSessions, isGuest: true });
  let session: Session | undefined;
  try {
    session = await Session.open(node, wait);
    return await use(session);
  } finally {
    await (session?.close() ?? node.close());
  }
}
