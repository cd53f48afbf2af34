// server-files — ServerFiles keeps a server's checkpoints in the directory that its configuration names. Requests
// contain step numbers, names that `begin` returned, and directories below that one, never a path.
//
//   <root>/step-000120/                  the job's checkpoints
//   <root>/models/7/step-000003/         a checkpoint saved under the directory "models/7"
//
// Invariants:
//   ServerFiles.F1. A name from the wire leads nowhere but below the root, and to no file of the job's own checkpoints.

import { basename, join } from "node:path";
import { badArgument, badRequest } from "../../base/errors.ts";
import type { CheckpointManifest } from "../../store/snapshot/checkpoint-manifest.ts";
import type { ParameterRecord } from "../../store/snapshot/parameter-record.ts";
import type { ShardOwner } from "../../store/snapshot/shard-header.ts";
import type { CommittedSnapshot, ShardSink, SnapshotFiles, SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { CheckpointDirectory, type PendingCheckpoint } from "./checkpoint-directory.ts";
import { attempt, type FileLayer, realFiles } from "./file-layer.ts";
import { openCheckpoint } from "./find-checkpoint.ts";
import { ShardWriter } from "./shard-writer.ts";

const PENDING_NAME = /^(?:(.+)\/)?(step-(\d{6,16})\.pending-[0-9a-f]+)$/;
/** ServerFiles.F1. No hidden name, and at the top none that a checkpoint has. */
const DIRECTORY_NAME = /^(?!step-\d|latest(?:\.tmp)?(?:\/|$))[A-Za-z0-9_%-][A-Za-z0-9._%-]*(?:\/[A-Za-z0-9_%-][A-Za-z0-9._%-]*)*$/;
const DIRECTORY_LENGTH_MAX = 200;

/** The parts of a name that `begin` returned. */
type PendingName = { readonly directory: string; readonly leaf: string; readonly step: number };

export class ServerFiles implements SnapshotFiles {
  readonly #root: string;
  readonly #layer: FileLayer;

  constructor(root: string, layer: FileLayer = realFiles) {
    this.#root = root;
    this.#layer = layer;
  }

  async begin(stepMin = 0, step?: number, directory = ""): Promise<{ readonly step: number; readonly pending: string }> {
    checkDirectory(directory);
    const checkpoints = this.#checkpointsIn(directory);
    const newest = (await checkpoints.list()).at(-1)?.step ?? -1;
    const begun = await checkpoints.begin(step ?? Math.max(stepMin, newest + 1));
    const leaf = basename(begun.path);
    return { step: begun.step, pending: directory === "" ? leaf : `${directory}/${leaf}` };
  }

  shard(pending: string, owner: ShardOwner, parameters: readonly ParameterRecord[]): ShardSink {
    return new ShardWriter({ directory: this.#pending(parsed(pending)).path, owner, parameters, layer: this.#layer });
  }

  async commit(pending: string, manifest: CheckpointManifest): Promise<CommittedSnapshot> {
    const name = parsed(pending);
    const committed = await this.#checkpointsIn(name.directory).commit(this.#pending(name), manifest);
    await this.#syncAbove(name.directory);
    return committed;
  }

  async abandon(pending: string): Promise<void> {
    const name = parsed(pending);
    await this.#checkpointsIn(name.directory).abandon(this.#pending(name));
  }

  async keep(count: number, pending: string): Promise<void> {
    await this.#checkpointsIn(parsed(pending).directory).keep(count);
  }

  async open(step?: number, directory = ""): Promise<SnapshotSource> {
    checkDirectory(directory);
    return await openCheckpoint(join(this.#root, directory), { step, layer: this.#layer });
  }

  #checkpointsIn(directory: string): CheckpointDirectory {
    return new CheckpointDirectory({ root: join(this.#root, directory), layer: this.#layer });
  }

  #pending({ directory, leaf, step }: PendingName): PendingCheckpoint {
    return { step, path: join(this.#root, directory, leaf) };
  }

  /** Syncs the directories that `begin` created: otherwise a power failure could remove them with what is in them. */
  async #syncAbove(directory: string): Promise<void> {
    const names = directory === "" ? [] : directory.split("/");
    for (let depth = names.length - 1; depth >= 0; depth--) {
      const path = join(this.#root, ...names.slice(0, depth));
      await attempt(`cannot sync ${path}`, () => this.#layer.syncDirectory(path));
    }
  }
}

/** ServerFiles.F1. Throws BAD_ARGUMENT. */
function checkDirectory(directory: string): void {
  if (directory === "" || (DIRECTORY_NAME.test(directory) && directory.length <= DIRECTORY_LENGTH_MAX)) return;
  const what = `names of letters, digits and "._%-" with "/" in between, below the servers' checkpoint directory`;
  throw badArgument(`a directory for files is ${what}, not ${JSON.stringify(directory)}`);
}

/** ServerFiles.F1. Throws BAD_REQUEST if it is not the name of a pending checkpoint: it came over the wire. */
function parsed(pending: string): PendingName {
  const [, directory = "", leaf, digits] = PENDING_NAME.exec(pending) ?? [];
  if (leaf !== undefined && (directory === "" || DIRECTORY_NAME.test(directory))) return { directory, leaf, step: Number(digits) };
  throw badRequest(`${JSON.stringify(pending)} names no checkpoint that is being written`);
}
