// checkpoint-directory — CheckpointDirectory keeps the checkpoints of a job: which there are, how one comes to be, and
// which go.
//
//   <root>/step-000120/                       a checkpoint: manifest.json and the servers' shard files
//   <root>/step-000123/
//   <root>/step-000124.pending-3f9a…/         one that is being written
//   <root>/step-000080.removed-77c1…/         one that is being removed
//   <root>/latest                             the name of the newest, for people and scripts; nothing here relies on it
//
// Invariants:
//   K1. A directory gets the name of a checkpoint in one step, by rename, when everything in it is on the disk; it
//       loses it in one step, too.
//   K2. Nothing that fails or dies on the way touches another checkpoint.
//   K3. One writer at a time: `begin` and `removeLeftovers` take pending directories for those of writers that died.

import { randomBytes } from "node:crypto";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { type CheckpointManifest, encodeManifest, MANIFEST_FILE } from "../../store/snapshot/checkpoint-manifest.ts";
import { attempt, type FileLayer, readSmallFile, realFiles, reasonText, withFile, writeSmallFile } from "./file-layer.ts";

const LATEST_FILE = "latest";
const LATEST_BYTES_MAX = 100;
const STEP_DIGITS = 6;
const STEP_NAME = /^step-(\d{6,16})$/;
const LEFTOVER_NAME = /^(step-\d{6,16}\.(pending|removed)-[0-9a-f]+|latest\.tmp)$/;
const NONCE_BYTES = 6;

export type StoredCheckpoint = { readonly step: number; readonly path: string };

/** One that is being written: servers write their shards into `path`. */
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

  /** What there is, oldest first. Whether it is whole is for a reader to say. A root that is not there has none. */
  async list(): Promise<readonly StoredCheckpoint[]> {
    const names = await this.#names();
    return names
      .map((name) => ({ step: stepOf(name), path: join(this.root, name) }))
      .filter((found): found is StoredCheckpoint => found.step !== undefined)
      .sort((one, other) => one.step - other.step);
  }

  /**
   * Makes the place for a new checkpoint, and the root if need be. Its step must be higher than that of every other.
   */
  async begin(step: number): Promise<PendingCheckpoint> {
    const newest = (await this.list()).at(-1);
    if (newest !== undefined && newest.step >= step) {
      throw new WeighbridgeError("BAD_ARGUMENT", `there is ${newest.path} already; step ${step} would not be newer`);
    }
    await this.removeLeftovers();
    const path = join(this.root, `${stepName(step)}.pending-${nonce()}`);
    await attempt(`cannot create ${path}`, () => this.#layer.makeDirectory(path));
    return { step, path };
  }

  /**
   * All shards are written: makes them a checkpoint. Throws, and leaves the pending one to `abandon`, if a file is not
   * what its server said.
   */
  async commit(pending: PendingCheckpoint, manifest: CheckpointManifest): Promise<CommittedCheckpoint> {
    if (manifest.step !== pending.step) {
      throw new WeighbridgeError("BAD_ARGUMENT", `a manifest of step ${manifest.step} for the checkpoint of step ${pending.step}`);
    }
    const bytes = encodeManifest(manifest, crc32);
    await this.#requireFiles(pending.path, manifest);
    await writeSmallFile(this.#layer, join(pending.path, MANIFEST_FILE), bytes);
    await this.#sync(pending.path);
    const path = join(this.root, stepName(pending.step));
    await attempt(`cannot rename ${pending.path} to ${path}`, () => this.#layer.rename(pending.path, path)); // K1
    await this.#sync(this.root);
    return { step: pending.step, path, warning: await this.#pointAt(path) };
  }

  /** Gives a pending checkpoint up. */
  async abandon(pending: PendingCheckpoint): Promise<void> {
    await attempt(`cannot remove ${pending.path}`, () => this.#layer.remove(pending.path));
  }

  /** Removes all but the newest `count`, at least one. Returns what was removed. */
  async keep(count: number): Promise<readonly StoredCheckpoint[]> {
    const all = await this.list();
    const old = all.slice(0, Math.max(0, all.length - Math.max(1, count)));
    for (const { path } of old) {
      const away = `${path}.removed-${nonce()}`;
      await attempt(`cannot rename ${path}`, () => this.#layer.rename(path, away)); // K1
      await attempt(`cannot remove ${away}`, () => this.#layer.remove(away));
    }
    return old;
  }

  /** Removes what writers left that died. Returns the names. K3: nobody else may be writing. */
  async removeLeftovers(): Promise<readonly string[]> {
    const leftovers = (await this.#names()).filter((name) => LEFTOVER_NAME.test(name));
    for (const name of leftovers) await attempt(`cannot remove ${name}`, () => this.#layer.remove(join(this.root, name)));
    return leftovers;
  }

  /** The name that `latest` says, or undefined if there is no such file. Throws CHECKPOINT_TORN if it says no name. */
  async latest(): Promise<string | undefined> {
    const path = join(this.root, LATEST_FILE);
    try {
      const text = new TextDecoder().decode(await readSmallFile(this.#layer, path, LATEST_BYTES_MAX));
      if (!text.endsWith("\n") || stepOf(text.slice(0, -1)) === undefined) {
        throw new WeighbridgeError("CHECKPOINT_TORN", `${path} says ${JSON.stringify(text)}, which is no checkpoint's name`);
      }
      return text.slice(0, -1);
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "CHECKPOINT_MISSING")) return undefined;
      throw thrown;
    }
  }

  /**
   * Why `latest` is of no use to those who read it, or undefined. One that is behind by a crash is none: the next
   * commit sets it right.
   */
  async latestProblem(): Promise<string | undefined> {
    try {
      const name = await this.latest();
      if (name === undefined || (await this.list()).some(({ step }) => stepName(step) === name)) return undefined;
      return `CHECKPOINT_MISSING: ${join(this.root, LATEST_FILE)} names ${name}, which is not there`;
    } catch (thrown) {
      if (isWeighbridgeError(thrown)) return `${thrown.code}: ${thrown.message}`;
      throw thrown;
    }
  }

  /** The commit stands without it, so that it cannot fail: what goes wrong is returned. */
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
        if (size !== bytes) {
          throw new WeighbridgeError("CHECKPOINT_TORN", `${join(path, file)} has ${size} bytes; server ${rank} wrote ${bytes}`);
        }
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
      return (await attempt(`cannot read ${this.root}`, () => this.#layer.list(this.root))).map(({ name }) => name);
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

/** What this asks of a file system; each throws an error with the system's code. */
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
 * Throws BAD_CONFIG, with the system's reason. A directory that is not there yet is judged by the one in which it would
 * be made.
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
