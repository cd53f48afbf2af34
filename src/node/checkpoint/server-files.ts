// server-files — ServerFiles keeps a server's checkpoints in the directory that its configuration names, and in no other: requests name numbers
// and what `begin` gave, never a path.

import { join } from "node:path";
import { WeighbridgeError } from "../../base/errors.ts";
import type { CheckpointManifest } from "../../store/snapshot/checkpoint-manifest.ts";
import type { ParameterRecord } from "../../store/snapshot/parameter-record.ts";
import type { ShardOwner } from "../../store/snapshot/shard-header.ts";
import type { CommittedSnapshot, ShardSink, SnapshotFiles, SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { CheckpointDirectory } from "./checkpoint-directory.ts";
import { type FileLayer, realFiles } from "./file-layer.ts";
import { openCheckpoint } from "./open-checkpoint.ts";
import { ShardWriter } from "./shard-writer.ts";

const PENDING_NAME = /^step-(\d{6,16})\.pending-[0-9a-f]+$/;

export class ServerFiles implements SnapshotFiles {
  readonly #directory: CheckpointDirectory;
  readonly #layer: FileLayer;

  constructor(root: string, layer: FileLayer = realFiles) {
    this.#directory = new CheckpointDirectory({ root, layer });
    this.#layer = layer;
  }

  async begin(stepMin = 0, step?: number): Promise<{ readonly step: number; readonly pending: string }> {
    const newest = (await this.#directory.list()).at(-1)?.step ?? -1;
    const begun = await this.#directory.begin(step ?? Math.max(stepMin, newest + 1));
    return { step: begun.step, pending: begun.path.slice(this.#directory.root.length).replace(/^[/\\]+/, "") };
  }

  shard(pending: string, owner: ShardOwner, parameters: readonly ParameterRecord[]): ShardSink {
    return new ShardWriter({ directory: this.#pathOf(pending), owner, parameters, layer: this.#layer });
  }

  async commit(pending: string, manifest: CheckpointManifest): Promise<CommittedSnapshot> {
    const path = this.#pathOf(pending);
    return await this.#directory.commit({ step: stepOf(pending), path }, manifest);
  }

  async abandon(pending: string): Promise<void> {
    await this.#directory.abandon({ step: stepOf(pending), path: this.#pathOf(pending) });
  }

  async keep(count: number): Promise<void> {
    await this.#directory.keep(count);
  }

  async open(step?: number): Promise<SnapshotSource> {
    return await openCheckpoint(this.#directory.root, { step, layer: this.#layer });
  }

  #pathOf(pending: string): string {
    stepOf(pending);
    return join(this.#directory.root, pending);
  }
}

/** Throws BAD_REQUEST for what is no name of a pending checkpoint: it came over the wire. */
function stepOf(pending: string): number {
  const digits = PENDING_NAME.exec(pending)?.[1];
  if (digits === undefined)
    throw new WeighbridgeError("BAD_REQUEST", `${JSON.stringify(pending)} names no checkpoint that is being written`);
  return Number(digits);
}
