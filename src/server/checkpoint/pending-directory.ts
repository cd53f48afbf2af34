// pending-directory — the directory of a checkpoint until the checkpoint exists: the first server of the job makes it,
// and commits or removes it. What servers write into it is the business of checkpoint-service.ts.
//
//   begin ──► pending ──► commit: it is a checkpoint
//                └──────► abandon, or its owner is gone: it is removed
//
// Invariants:
//   PendingDirectory.D1. Only what `begin` named is committed, and only by its owner.
//   PendingDirectory.D2. One directory is made or removed at a time. One that is given up while it is being made is
//       removed before the next one begins: a directory of checkpoints has one writer (CheckpointDirectory.K3).

import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { InTurn } from "../../base/in-turn.ts";
import type { Log } from "../../base/log.ts";
import type * as contracts from "../../contracts/checkpoints.ts";
import type { CheckpointManifest } from "../../store/snapshot/checkpoint-manifest.ts";
import type { SnapshotFiles } from "../../store/snapshot/snapshot-files.ts";

/** `pending` is its name once it exists, "" before. */
type Begun = { pending: string; readonly owner: string };

export class PendingDirectory {
  readonly #files: () => SnapshotFiles;
  readonly #log: Log;
  #begun: Begun | undefined;
  /** PendingDirectory.D2 */
  readonly #turns = new InTurn();

  /** `files` throws UNSUPPORTED if the server has no directory for checkpoints. */
  constructor(files: () => SnapshotFiles, log: Log) {
    this.#files = files;
    this.#log = log;
  }

  async begin(request: contracts.Begin, owner: string): Promise<contracts.Begun> {
    if (this.#begun !== undefined && this.#begun.owner !== owner) throw busyWith(this.#begun.owner);
    void this.#removeBegun(); // its owner may have left one
    const begun: Begun = { pending: "", owner };
    this.#begun = begun;
    return await this.#turns.run(() => this.#make(begun, request));
  }

  async #make(begun: Begun, { step, stepMin, directory }: contracts.Begin): Promise<contracts.Begun> {
    try {
      const made = await this.#files().begin(stepMin, step, directory);
      begun.pending = made.pending;
      if (this.#begun === begun) return made;
      await this.#remove(made.pending); // it was given up meanwhile
    } catch (thrown) {
      if (this.#begun === begun) this.#begun = undefined;
      throw thrown;
    }
    throw new WeighbridgeError("ABORTED", "the checkpoint was given up");
  }

  async commit({ pending, manifest, keep }: contracts.Commit, owner: string): Promise<contracts.Committed> {
    // PendingDirectory.D1
    if (this.#begun?.pending !== pending || this.#begun.owner !== owner) throw unknownSave(pending);
    const { path, warning } = await this.#files().commit(pending, manifest as unknown as CheckpointManifest);
    this.#begun = undefined;
    return { path, warning: (await this.#keep(keep, pending)) ?? warning };
  }

  /** The checkpoint is complete, whatever happens to older ones: returns the failure. */
  async #keep(keep: number | undefined, pending: string): Promise<string | undefined> {
    try {
      if (keep !== undefined) await this.#files().keep(keep, pending);
      return undefined;
    } catch (thrown) {
      return `older checkpoints were to be removed: ${reasonOf(thrown)}`;
    }
  }

  /** Removes what this owner began. An owner without the name has not received the answer to its `begin`. */
  async abandon(pending: string | undefined, owner: string): Promise<void> {
    if (this.#begun?.owner === owner && (pending === undefined || this.#begun.pending === pending)) await this.#removeBegun();
  }

  async #removeBegun(): Promise<void> {
    const pending = this.#begun?.pending ?? "";
    this.#begun = undefined;
    if (pending !== "") await this.#turns.run(() => this.#remove(pending));
  }

  async #remove(pending: string): Promise<void> {
    await this.#files()
      .abandon(pending)
      .catch((thrown: unknown) => {
        this.#log.warn("files of a checkpoint that was given up are left", { reason: reasonOf(thrown) });
      });
  }
}

/** Somebody else takes a checkpoint. */
export function busyWith(owner: string): WeighbridgeError {
  return new WeighbridgeError("QUEUE_FULL", `${owner} is taking a checkpoint; there is one at a time`, { retryable: true });
}

/** The caller takes no checkpoint of this name. */
export function unknownSave(id: string): WeighbridgeError {
  const why = "it was given up, or this server was restarted";
  return new WeighbridgeError("BAD_REQUEST", `no checkpoint ${JSON.stringify(id)} of yours is being taken here: ${why}`, {
    retryable: true,
  });
}
