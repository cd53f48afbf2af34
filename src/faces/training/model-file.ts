// model-file — what a training keeps in this process, as the bytes of a safetensors file: values, and what it needs to
// continue (the optimizer's slots and step counts, running means). Parameters on servers are in their checkpoints, not
// here.
//
//   <parameter>              its values in its own shape
//   <parameter>/slots        the optimizer's slots, one after the other          metadata: step:<parameter>
//   <statistic>              a running mean or variance
//   (the file)               the clock of the next step                          metadata: clocks
//   <table>/keys, /rows      U64 [n] and F32 [n, …]: rows of this process, each with its slots   metadata: step:<table>

import { bytesOf } from "../../base/bytes.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import {
  decodeHeader,
  decodeHeaderBytes,
  encodeHeader,
  LENGTH_BYTES,
  layOutTensors,
  type NamedShape,
  type SafetensorsHeader,
} from "../../store/snapshot/safetensors.ts";
import type { EmbeddingLookup } from "./embedding-lookup.ts";
import { LocalRows } from "./local-rows.ts";
import { lookupsOf, type Network } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";

type Part = NamedShape & { readonly values: Float32Array | BigUint64Array };

const STEP = "step:";
const CLOCKS = "clocks";

/** Undefined if nothing of the network lives here. */
export function encodeModel(network: Network, open: OpenNetwork): Uint8Array | undefined {
  const metadata: Record<string, string> = { format: "pt", [CLOCKS]: String(open.clocks) };
  for (const { parameter, updater } of open.routes.values()) {
    if (updater !== undefined) metadata[`${STEP}${parameter.name}`] = String(updater.step);
  }
  const tables = localTables(network).flatMap(({ lookup, source }): Part[] => {
    const { keys, rows, rowFloats, step } = source.save();
    metadata[`${STEP}${lookup.tableName}`] = String(step);
    return [
      { name: `${lookup.tableName}/keys`, dtype: "U64", shape: [keys.length], values: keys },
      { name: `${lookup.tableName}/rows`, dtype: "F32", shape: [keys.length, rowFloats], values: rows },
    ];
  });
  const parts = [...tables, ...denseParts(network, open)]; // those of 8 bytes first, so that all are aligned
  if (parts.length === 0) return undefined;
  const entries = layOutTensors(parts.map(({ name, dtype, shape }) => ({ name, dtype, shape })));
  const header = encodeHeader(entries, { metadata });
  const bytes = new Uint8Array(header.byteLength + (entries.at(-1)?.dataTo ?? 0));
  bytes.set(header);
  for (const [i, { values }] of parts.entries()) {
    bytes.set(bytesOf(values), header.byteLength + entries[i]!.dataFrom);
  }
  return bytes;
}

/** Loads what `encodeModel` wrote. Throws CHECKPOINT_TORN or CHECKPOINT_FOREIGN, naming `file`, and changes nothing. */
export function decodeModel(bytes: Uint8Array, file: string, network: Network, open: OpenNetwork): void {
  const source = { file, fileBytes: bytes.byteLength };
  const headerBytes = decodeHeaderBytes(bytes.subarray(0, LENGTH_BYTES), source);
  const header = decodeHeader(bytes.subarray(LENGTH_BYTES, LENGTH_BYTES + headerBytes), source);
  const saved: SavedModel = { bytes, file, header };
  const dense = denseParts(network, open).map((part) => ({ part, data: dataOf(saved, part) }));
  const tables = localTables(network).map(({ lookup, source: rows }) => ({ rows, saved: tableOf(saved, lookup, rows) }));
  for (const { part, data } of dense) part.values.set(new Float32Array(data));
  for (const { rows, saved: table } of tables) rows.load(table);
  for (const { parameter, updater } of open.routes.values()) {
    if (updater !== undefined) updater.step = stepOf(saved, parameter.name);
  }
  open.resumeAt(countOf(saved, CLOCKS));
}

type SavedModel = { readonly bytes: Uint8Array; readonly file: string; readonly header: SafetensorsHeader };

/** The bytes of a part, in a buffer of their own. A length below 0 accepts any. */
function dataOf({ bytes, file, header }: SavedModel, { name, dtype, shape }: NamedShape): ArrayBuffer {
  const entry = header.entries.find((candidate) => candidate.name === name);
  const isSame = entry?.shape.length === shape.length && entry.shape.every((length, i) => shape[i]! < 0 || length === shape[i]);
  if (entry?.dtype === dtype && isSame) {
    const { dataFrom, dataTo } = entry;
    return new Uint8Array(bytes.subarray(header.dataStart + dataFrom, header.dataStart + dataTo)).buffer;
  }
  const there = entry === undefined ? "does not have it" : `has ${entry.dtype} [${entry.shape.join(", ")}]`;
  const wanted = shape.map((length) => (length < 0 ? "any" : length)).join(", ");
  throw new WeighbridgeError("CHECKPOINT_FOREIGN", `${name} is ${dtype} [${wanted}] in this model; ${file} ${there}`);
}

function tableOf(saved: SavedModel, { tableName }: EmbeddingLookup, { rowFloats }: LocalRows): Parameters<LocalRows["load"]>[0] {
  const keys = new BigUint64Array(dataOf(saved, { name: `${tableName}/keys`, dtype: "U64", shape: [-1] }));
  const rows = new Float32Array(dataOf(saved, { name: `${tableName}/rows`, dtype: "F32", shape: [keys.length, rowFloats] }));
  return { keys, rows, rowFloats, step: stepOf(saved, tableName) };
}

function stepOf(saved: SavedModel, name: string): number {
  return countOf(saved, `${STEP}${name}`);
}

/** 0 for a file that does not have it. */
function countOf({ header }: SavedModel, key: string): number {
  const count = Number(header.metadata[key] ?? 0);
  return Number.isSafeInteger(count) && count >= 0 ? count : 0;
}

function localTables(network: Network): { readonly lookup: EmbeddingLookup; readonly source: LocalRows }[] {
  return lookupsOf(network).flatMap((lookup) => (lookup.source instanceof LocalRows ? [{ lookup, source: lookup.source }] : []));
}

function denseParts({ stages }: Network, { routes }: OpenNetwork): (NamedShape & { readonly values: Float32Array })[] {
  const parts: (NamedShape & { readonly values: Float32Array })[] = [];
  for (const { parameter, updater } of routes.values()) {
    if (updater === undefined) continue;
    const { name, shape, values } = parameter;
    parts.push({ name, dtype: "F32", shape, values });
    const { slots } = updater;
    if (slots.length > 0) parts.push({ name: `${name}/slots`, dtype: "F32", shape: [slots.length], values: slots });
  }
  for (const { name, values } of stages.flatMap(({ statistics }) => statistics)) {
    parts.push({ name, dtype: "F32", shape: [values.length], values });
  }
  return parts;
}
