// checkpoint-directory — CheckpointDirectory keeps the checkpoints of a job: it lists, creates and removes them.
//
//   <root>/step-000120/                       a checkpoint: manifest.json and the servers' shard files
//   <root>/step-000123/
//   <root>/step-000124.pending-3f9a…/         one that is being written
//   <root>/step-000080.removed-77c1…/         one that is being removed
//   <root>/latest                             the name of the newest, for people and scripts; never read here
//
// Invariants:
//   CheckpointDirectory.K1. A directory gets the name of a checkpoint in one step, by rename, when everything in it is
//       on the disk, and loses it in one step.
//   CheckpointDirectory.K2. A failure or crash on the way touches no other checkpoint.
//   CheckpointDirectory.K3. One writer at a time: `begin` and `removeLeftovers` treat pending directories as those of
//       writers that died.

import { randomBytes } from "node:crypto";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { badArgument, isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { type CheckpointManifest, encodeManifest, MANIFEST_FILE } from "../../store/snapshot/checkpoint-manifest.ts";
import { torn } from "../../store/snapshot/snapshot-files.ts";
import { attempt, type FileLayer, readSmallFile, realFiles, reasonText, withFile, writeSmallFile } from "./file-layer.ts";

const LATEST_FILE = "latest";
const LATEST_BYTES_MAX = 100;
const STEP_DIGITS = 6;
const STEP_NAME = /^step-(\d{6,16})$/;
const LEFTOVER_NAME = /^(step-\d{6,16}\.(pending|removed)-[0-9a-f]+|latest\.tmp)$/;
const NONCE_BYTES = 6;

export type StoredCheckpoint = { readonly step: number; readonly path: string };

/** A checkpoint that is being written: servers write their shards into `path`. */
export type PendingCheckpoint = { readonly step: number; readonly path: string };

export type CommittedCheckpoint = StoredCheckpoint & {
  /** What went wrong after the checkpoint was complete. */
  readonly warning: string | undefined;
};

export type CheckpointDirectoryOptions = {
  readonly root: string;
  readonly layer?: FileLayer;
};

export class CheckpointDirectory {
  readonly root: string;
  readonly #layer: FileLayer;

  constructor({ root, layer = realFiles }: CheckpointDirectoryOptions) {
    this.root = root;
    this.#layer = layer;
  }

  /** All checkpoints, oldest first; a reader finds out whether one is complete. Empty if the root does not exist. */
  async list(): Promise<readonly StoredCheckpoint[]> {
    const names = await this.#names();
    return names
      .map((name) => ({ step: stepOf(name), path: join(this.root, name) }))
      .filter((found): found is StoredCheckpoint => found.step !== undefined)
      .sort((one, other) => one.step - other.step);
  }

  /**
   * Creates the directory for a new checkpoint, and the root if need be. Throws BAD_ARGUMENT unless the step is higher
   * than every other.
   */
  async begin(step: number): Promise<PendingCheckpoint> {
    const newest = (await this.list()).at(-1);
    if (newest !== undefined && newest.step >= step) {
      throw badArgument(`${newest.path} exists already; step ${step} would not be newer`);
    }
    await this.removeLeftovers();
    const path = join(this.root, `${stepName(step)}.pending-${nonce()}`);
    await attempt(`cannot create ${path}`, () => this.#layer.makeDirectory(path));
    return { step, path };
  }

  /**
   * Turns the written shards into a checkpoint. Throws, and leaves the pending one to `abandon`, if a file does not
   * have the size that its server reported.
   */
  async commit(pending: PendingCheckpoint, manifest: CheckpointManifest): Promise<CommittedCheckpoint> {
    if (manifest.step !== pending.step) {
      throw badArgument(`a manifest of step ${manifest.step} for the checkpoint of step ${pending.step}`);
    }
    const bytes = encodeManifest(manifest, crc32);
    await this.#requireFiles(pending.path, manifest);
    await writeSmallFile(this.#layer, join(pending.path, MANIFEST_FILE), bytes);
    await this.#sync(pending.path);
    const path = join(this.root, stepName(pending.step));
    // CheckpointDirectory.K1
    await attempt(`cannot rename ${pending.path} to ${path}`, () => this.#layer.rename(pending.path, path));
    await this.#sync(this.root);
    return { step: pending.step, path, warning: await this.#pointAt(path) };
  }

  /** Removes a pending checkpoint. */
  async abandon(pending: PendingCheckpoint): Promise<void> {
    await attempt(`cannot remove ${pending.path}`, () => this.#layer.remove(pending.path));
  }

  /** Removes all but the newest `count`, at least one. Returns what was removed. */
  async keep(count: number): Promise<readonly StoredCheckpoint[]> {
    const all = await this.list();
    const old = all.slice(0, Math.max(0, all.length - Math.max(1, count)));
    for (const { path } of old) {
      const away = `${path}.removed-${nonce()}`;
      await attempt(`cannot rename ${path}`, () => this.#layer.rename(path, away)); // CheckpointDirectory.K1
      await attempt(`cannot remove ${away}`, () => this.#layer.remove(away));
    }
    return old;
  }

  /** Removes what dead writers left. Returns the names. CheckpointDirectory.K3: nobody else may be writing. */
  async removeLeftovers(): Promise<readonly string[]> {
    const leftovers = (await this.#names()).filter((name) => LEFTOVER_NAME.test(name));
    for (const name of leftovers) await attempt(`cannot remove ${name}`, () => this.#layer.remove(join(this.root, name)));
    return leftovers;
  }

  /**
   * The name in `latest`, or undefined if there is no such file. Throws CHECKPOINT_TORN if it holds no checkpoint's
   * name.
   */
  async latest(): Promise<string | undefined> {
    const path = join(this.root, LATEST_FILE);
    try {
      const text = new TextDecoder().decode(await readSmallFile(this.#layer, path, LATEST_BYTES_MAX));
      if (!text.endsWith("\n") || stepOf(text.slice(0, -1)) === undefined) {
        throw torn(path, `holds ${JSON.stringify(text)}, which is not a checkpoint's name`);
      }
      return text.slice(0, -1);
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "CHECKPOINT_MISSING")) return undefined;
      throw thrown;
    }
  }

  /**
   * Why `latest` is of no use, or undefined. One that is behind after a crash is no problem: the next commit corrects
   * it.
   */
  async latestProblem(): Promise<string | undefined> {
    try {
      const name = await this.latest();
      if (name === undefined || (await this.list()).some(({ step }) => stepName(step) === name)) return undefined;
      return `CHECKPOINT_MISSING: ${join(this.root, LATEST_FILE)} names ${name}, which does not exist`;
    } catch (thrown) {
      if (isWeighbridgeError(thrown)) return `${thrown.code}: ${thrown.message}`;
      throw thrown;
    }
  }

  /** The commit is valid without it: returns what goes wrong instead of throwing. */
  async #pointAt(path: string): Promise<string | undefined> {
    try {
      await writeSmallFile(this.#layer, join(this.root, LATEST_FILE), new TextEncoder().encode(`${basename(path)}\n`));
      await this.#sync(this.root);
      return undefined;
    } catch (cause) {
      return `${path} is complete, but ${LATEST_FILE} could not be written: ${reasonOf(cause)}`;
    }
  }

  async #requireFiles(path: string, manifest: CheckpointManifest): Promise<void> {
    for (const { rank, files } of manifest.servers) {
      for (const { file, bytes } of files) {
        const size = await this.#sizeOf(join(path, file), rank);
        if (size !== bytes) throw torn(join(path, file), `has ${size} bytes; server ${rank} wrote ${bytes}`);
      }
    }
  }

  async #sizeOf(path: string, rank: number): Promise<number> {
    try {
      return await withFile(
        path,
        () => this.#layer.open(path),
        (file) => file.size(),
      );
    } catch (cause) {
      if (!isWeighbridgeError(cause, "CHECKPOINT_MISSING")) throw cause;
      const hint = `server ${rank} wrote it; do all servers see the same directory?`;
      throw new WeighbridgeError("CHECKPOINT_MISSING", `${cause.message}; ${hint}`, { cause });
    }
  }

  async #sync(path: string): Promise<void> {
    await attempt(`cannot sync ${path}`, () => this.#layer.syncDirectory(path));
  }

  async #names(): Promise<readonly string[]> {
    try {
      return await attempt(`cannot read ${this.root}`, () => this.#layer.list(this.root));
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "CHECKPOINT_MISSING")) return [];
      throw thrown;
    }
  }
}

export function stepName(step: number): string {
  return `step-${String(step).padStart(STEP_DIGITS, "0")}`;
}

/** Undefined if this is not the name of a checkpoint. */
export function stepOf(name: string): number | undefined {
  const digits = STEP_NAME.exec(name)?.[1];
  const step = Number(digits);
  return digits !== undefined && stepName(step) === name ? step : undefined;
}

function nonce(): string {
  return randomBytes(NONCE_BYTES).toString("hex");
}

/** What a check of a directory needs of a file system; each throws an error with the system's code. */
export type DirectoryProbe = {
  readonly exists: (path: string) => boolean;
  readonly isDirectory: (path: string) => boolean;
  /** Throws unless names can be added there. */
  readonly requireWritable: (path: string) => void;
};

const realDirectories: DirectoryProbe = {
  exists: existsSync,
  isDirectory: (path) => statSync(path).isDirectory(),
  requireWritable: (path) => accessSync(path, constants.W_OK | constants.X_OK),
};

/**
 * Throws BAD_CONFIG, with the system's reason. For a directory that does not exist yet it checks the nearest existing
 * parent.
 */
export function requireWritableDirectory(path: string, probe: DirectoryProbe = realDirectories): void {
  let nearest = resolve(path);
  try {
    while (!probe.exists(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
    if (!probe.isDirectory(nearest)) throw Object.assign(new Error(`${nearest} is a file`), { code: "ENOTDIR" });
    probe.requireWritable(nearest);
  } catch (thrown) {
    throw unwritableError(path, thrown);
  }
}

export function unwritableError(path: string, cause: unknown): WeighbridgeError {
  const message = `nothing can be saved in ${path}: ${reasonText(cause)}; name another directory with --checkpoint-dir`;
  return new WeighbridgeError("BAD_CONFIG", message, { cause });
}
