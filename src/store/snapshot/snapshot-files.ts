// snapshot-files — the interface of a server to the files of checkpoints, which node/checkpoint implements. Requests
// carry no paths: a checkpoint has a number, below the directory that the server was configured with. What is saved
// apart from the job's checkpoints (one parameter, Hetu's ParamSave) has a subdirectory of its own, and a number in it.

import { WeighbridgeError } from "../../base/errors.ts";
import type { CheckpointManifest, ServerRecord, ShardFileRecord } from "./checkpoint-manifest.ts";
import type { ParameterRecord } from "./parameter-record.ts";
import type { Chunk, ShardOwner } from "./shard-header.ts";

/** A chunk that is being written: each column is appended to until it is full, in any order. */
export type ChunkSink = {
  /** The bytes are read until the promise is fulfilled, and must not change before. */
  write(column: string, bytes: Uint8Array): Promise<void>;
};

/** What one server writes of a checkpoint. */
export type ShardSink = {
  /** The rows `from` to before `to` of a tensor. */
  openRows(parameter: string, rows: { readonly from: number; readonly to: number }): Promise<ChunkSink>;
  /**
   * Rows of a table whose keys all fall into the parts `from` to before `to`. The narrower the parts, the less a
   * restore has to read.
   */
  openParts(parameter: string, parts: { readonly from: number; readonly to: number; readonly rowCount: number }): Promise<ChunkSink>;
  /** Ends the files. Every chunk must be full, and every write fulfilled. The commit syncs the directory. */
  finish(): Promise<readonly ShardFileRecord[]>;
  /** Removes what was written. May be called at any time before `finish` is fulfilled, and more than once. */
  abandon(): Promise<void>;
};

/**
 * Some rows of a chunk. The bytes are valid until the promise that their consumer returned is fulfilled; then the next
 * batch is read into the same memory.
 */
export type SourceBatch = {
  readonly rowCount: number;
  /**
   * By the column's name; columns of the chunk come whole with every batch. Each begins at a multiple of 8 in its own
   * buffer.
   */
  readonly columns: ReadonlyMap<string, Uint8Array>;
};

/** A checkpoint that is open. */
export type SnapshotSource = {
  readonly path: string;
  readonly manifest: CheckpointManifest;
  /** The chunks of a parameter; those of a tensor by their rows. Empty for a parameter that has no rows. */
  chunks(parameter: string): readonly Chunk[];
  /**
   * Reads a whole column of a chunk into `into`, which may be in an arena and must have its length. On an error its
   * content is undefined.
   */
  readColumn(chunk: Chunk, column: string, into: Uint8Array): Promise<void>;
  /** Reads the rows of a chunk, all columns side by side, batch by batch; waits for `take` after each. */
  readRows(chunk: Chunk, take: (batch: SourceBatch) => void | Promise<void>): Promise<void>;
  close(): Promise<void>;
};

export type CommittedSnapshot = { readonly path: string; readonly warning: string | undefined };

export interface SnapshotFiles {
  /**
   * Makes the directory of a new checkpoint, newer than all beside it: of this step, or the next number above it.
   * Returns its number and a name for it. Throws BAD_ARGUMENT for an invalid directory.
   */
  begin(
    stepMin: number | undefined,
    step: number | undefined,
    directory?: string,
  ): Promise<{ readonly step: number; readonly pending: string }>;
  /** Throws BAD_REQUEST for a name that `begin` never returned. */
  shard(pending: string, owner: ShardOwner, parameters: readonly ParameterRecord[]): ShardSink;
  commit(pending: string, manifest: CheckpointManifest): Promise<CommittedSnapshot>;
  abandon(pending: string): Promise<void>;
  /** Removes all but the newest `count` of those beside the one that was begun under this name. */
  keep(count: number, pending: string): Promise<void>;
  /**
   * The checkpoint of this step, or the newest. Throws CHECKPOINT_MISSING, _TORN, _FOREIGN or _IO, and BAD_ARGUMENT.
   */
  open(step?: number, directory?: string): Promise<SnapshotSource>;
}

/** The file differs from what was written, as in "step-000001/manifest.json does not end with its checksum". */
export function torn(file: string, what: string, cause?: unknown): WeighbridgeError {
  return new WeighbridgeError("CHECKPOINT_TORN", `${file} ${what}`, { cause });
}

/** The file is of another format, version, job or model. */
export function foreign(file: string, what: string, cause?: unknown): WeighbridgeError {
  return new WeighbridgeError("CHECKPOINT_FOREIGN", `${file} ${what}`, { cause });
}

/** The parameters are as this server has them: `rowCount` of a table is its own. */
export type ServerReport = {
  readonly record: ServerRecord;
  readonly parameters: readonly ParameterRecord[];
  readonly workers: readonly { readonly rank: number; readonly clock: number }[];
};
