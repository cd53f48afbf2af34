// checkpoint-manifest — manifest.json: a checkpoint's description, JSON for people and tools, with a checksum at its
// end:
//
//   {
//     "format": "weighbridge-checkpoint",
//     …
//     "crc32": "89abcdef"          of all bytes before the 8 digits; only the rest of these lines may follow
//   }
//
// The state itself is in the shard files (shard-header.ts). The checksum of each header binds it to the manifest.
//
// Invariants, of what is written and of everything that is accepted:
//   CheckpointManifest.M1. There are serverCount servers; servers and workers ascend by rank.
//   CheckpointManifest.M2. Parameters have different names, files different names, and a file's name is no path.
//   CheckpointManifest.M3. Fields kept word for word come back equal (json-value.ts).

import { badArgument, badRequest, isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { type Check, count, list, object, text } from "../../wire/json-body.ts";
import { type JsonObject, jsonObject } from "../../wire/json-value.ts";
import { duplicateKey } from "./duplicate-key.ts";
import { type ParameterRecord, parameterProblem, parameterShape } from "./parameter-record.ts";
import { foreign, torn } from "./snapshot-files.ts";

export const MANIFEST_FILE = "manifest.json";
const MANIFEST_FORMAT = "weighbridge-checkpoint";
const MANIFEST_VERSION = 1;

/** The CRC-32 of zlib and PNG; `previous` continues one. Injected: Node's is far faster than ours. */
type Crc32 = (bytes: Uint8Array, previous?: number) => number;

export type ShardFileRecord = {
  /** Its name in the checkpoint's directory. */
  readonly file: string;
  readonly bytes: number;
  /** The checksum of everything before its data. The header holds the checksums of the rest. */
  readonly headerCrc32: string;
};

/** The last update of a worker that a server had applied. */
export type ClockRecord = { readonly worker: number; readonly incarnation: number; readonly stamp: number };

/** The contribution of one server, which it sends to the worker that commits the checkpoint. */
export type ServerRecord = {
  readonly rank: number;
  readonly files: readonly ShardFileRecord[];
  readonly vectorClock: readonly ClockRecord[];
  /** Kept word for word (CheckpointManifest.M3). */
  readonly state: JsonObject;
};

type WorkerRecord = { readonly rank: number; readonly clock: number };

export type CheckpointManifest = {
  readonly job: string;
  /** The checkpoint's number; later ones have higher numbers. */
  readonly step: number;
  /** The cut: every update of an earlier clock is in, of every worker. */
  readonly clock: number;
  /** As ISO 8601. */
  readonly createdAt: string;
  readonly serverCount: number;
  /** Into how many parts the keys are cut. */
  readonly partCount: number;
  readonly parameters: readonly ParameterRecord[];
  readonly servers: readonly ServerRecord[];
  readonly workers: readonly WorkerRecord[];
  /** Of the job as a whole. Kept word for word. */
  readonly state: JsonObject;
};

const SHARD_FILE_NAME = /^[a-z0-9][a-z0-9._-]{0,199}\.safetensors$/;
const CHECKSUM = /^[0-9a-f]{8}$/;
const TRAILER = /^([0-9a-f]{8})"\n\}\n$/;
const TRAILER_BYTES = 12;

const checksum: Check<string> = (value, path) => {
  if (typeof value === "string" && CHECKSUM.test(value)) return value;
  throw badRequest(`${path} must be a checksum of 8 hexadecimal digits`);
};
const shardFileName: Check<string> = (value, path) => {
  if (typeof value === "string" && SHARD_FILE_NAME.test(value)) return value;
  throw badRequest(`${path} must be the name of a safetensors file, but is ${JSON.stringify(value)}`);
};

const serverRecordShape: Check<ServerRecord> = object({
  rank: count,
  files: list(object({ file: shardFileName, bytes: count, headerCrc32: checksum })),
  vectorClock: list(object({ worker: count, incarnation: count, stamp: count })),
  state: jsonObject,
});

const manifestShape: Check<CheckpointManifest> = object({
  job: text,
  step: count,
  clock: count,
  createdAt: text,
  serverCount: count,
  partCount: count,
  parameters: list(parameterShape),
  servers: list(serverRecordShape),
  workers: list(object({ rank: count, clock: count })),
  state: jsonObject,
});

export function checksumText(crc32: number): string {
  return crc32.toString(16).padStart(8, "0");
}

/** Throws BAD_ARGUMENT if the manifest contradicts itself or holds what JSON cannot keep. */
export function encodeManifest(manifest: CheckpointManifest, crc32: Crc32): Uint8Array<ArrayBuffer> {
  let checked: CheckpointManifest;
  try {
    checked = manifestShape(manifest, "manifest");
  } catch (cause) {
    throw new WeighbridgeError("BAD_ARGUMENT", reasonOf(cause), { cause });
  }
  const problem = manifestProblem(checked);
  if (problem !== undefined) throw badArgument(`the manifest makes no sense: ${problem}`);
  const json = JSON.stringify({ format: MANIFEST_FORMAT, version: MANIFEST_VERSION, ...checked }, null, 2);
  const body = `${json.slice(0, -"\n}".length)},\n  "crc32": "`;
  const encoder = new TextEncoder();
  return encoder.encode(`${body}${checksumText(crc32(encoder.encode(body)))}"\n}\n`);
}

type ManifestSource = {
  /** For messages. */
  readonly file: string;
  readonly crc32: Crc32;
};

/** Throws CHECKPOINT_TORN if bytes changed or are missing, CHECKPOINT_FOREIGN if it is no manifest that we can read. */
export function decodeManifest(bytes: Uint8Array, { file, crc32 }: ManifestSource): CheckpointManifest {
  const json = textOf(bytes, file);
  const recorded = TRAILER.exec(json.slice(-TRAILER_BYTES))?.[1];
  const value = parse(json, { file, hasTrailer: recorded !== undefined });
  if (typeof value !== "object" || value === null || (value as JsonObject).format !== MANIFEST_FORMAT) {
    throw foreign(file, `is JSON, but no manifest of a checkpoint: it has no "format": "${MANIFEST_FORMAT}"`);
  }
  const { version } = value as JsonObject;
  if (version !== MANIFEST_VERSION)
    throw foreign(file, `is of version ${JSON.stringify(version)}; this Weighbridge reads version ${MANIFEST_VERSION}`);
  const counted = checksumText(crc32(bytes.subarray(0, bytes.byteLength - TRAILER_BYTES)));
  if (recorded === undefined) throw torn(file, "does not end with its checksum");
  if (recorded !== counted) throw torn(file, `was changed after it was written: its checksum is ${counted}, not ${recorded}`);
  try {
    const manifest = manifestShape(value, "manifest");
    const problem = manifestProblem(manifest);
    if (problem !== undefined) throw foreign(file, `makes no sense: ${problem}`);
    return manifest;
  } catch (cause) {
    if (isWeighbridgeError(cause, "BAD_REQUEST")) throw foreign(file, `makes no sense: ${cause.message}`, cause);
    throw cause;
  }
}

function textOf(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw torn(file, "is not text in UTF-8", cause);
  }
}

function parse(json: string, { file, hasTrailer }: { readonly file: string; readonly hasTrailer: boolean }): unknown {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    const how = hasTrailer ? "is not JSON" : "is not JSON, or not all of it";
    throw torn(file, `${how}: ${reasonOf(cause)}`, cause);
  }
  const twice = duplicateKey(json);
  if (twice !== undefined) throw torn(file, `says ${JSON.stringify(twice)} twice`);
  return value;
}

function manifestProblem({ serverCount, partCount, parameters, servers, workers }: CheckpointManifest): string | undefined {
  if (serverCount === 0 || servers.length !== serverCount) return `${serverCount} servers wrote it, yet ${servers.length} are listed`;
  if (!ascend(servers)) return "its servers do not ascend by rank"; // CheckpointManifest.M1
  if (partCount === 0 || !Number.isInteger(Math.log2(partCount))) return `the number of parts, ${partCount}, is not a power of two`;
  if (!ascend(workers)) return "its workers do not ascend by rank"; // CheckpointManifest.M1
  const file = repeated(servers.flatMap(({ files }) => files.map((record) => record.file)));
  if (file !== undefined) return `the file ${file} is listed twice`; // CheckpointManifest.M2
  const parameter = repeated(parameters.map(({ name }) => name));
  // CheckpointManifest.M2
  if (parameter !== undefined) return `the parameter ${JSON.stringify(parameter)} is listed twice`;
  return parameters.map(parameterProblem).find((problem) => problem !== undefined);
}

function ascend(nodes: readonly { readonly rank: number }[]): boolean {
  return nodes.every(({ rank }, index) => rank > (nodes[index - 1]?.rank ?? -1));
}

function repeated(names: readonly string[]): string | undefined {
  const seen = new Set<string>();
  return names.find((name) => seen.has(name) || !seen.add(name));
}
