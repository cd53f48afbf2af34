// file-layer — the file system operations that checkpoints need, behind an interface, so that tests can use disks that
// fill up, tear and crash. It knows nothing of checkpoints but their error codes.
//
// Invariants:
//   FileLayer.L1. What the file system refuses becomes a CHECKPOINT_IO or CHECKPOINT_MISSING error that names the file
//       and the reason.

import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { WeighbridgeError } from "../../base/errors.ts";
import { foreign, torn } from "../../store/snapshot/snapshot-files.ts";

export type OpenFile = {
  /** Returns the bytes written, which may be fewer than given. `bytes` must not change before. */
  write(bytes: Uint8Array, position: number): Promise<number>;
  /** Returns the bytes read; 0 at the end of the file. */
  read(into: Uint8Array, position: number): Promise<number>;
  size(): Promise<number>;
  /** Resolves when everything written is on the disk. */
  sync(): Promise<void>;
  close(): Promise<void>;
};

export type FileLayer = {
  /** Creates a file; fails if one of this name exists. */
  create(path: string): Promise<OpenFile>;
  open(path: string): Promise<OpenFile>;
  /** Replaces a file of the new name, never a directory with something in it. */
  rename(from: string, to: string): Promise<void>;
  makeDirectory(path: string): Promise<void>;
  /** The names of what is in a directory. */
  list(path: string): Promise<readonly string[]>;
  /** Removes it with everything in it; does nothing if it does not exist. */
  remove(path: string): Promise<void>;
  /** Resolves when new, renamed and removed names in it are on the disk. */
  syncDirectory(path: string): Promise<void>;
};

export const realFiles: FileLayer = {
  create: async (path) => openFile(await open(path, "wx")),
  open: async (path) => openFile(await open(path, "r")),
  rename,
  makeDirectory,
  list: (path) => readdir(path),
  remove: (path) => rm(path, { recursive: true, force: true }),
  async syncDirectory(path) {
    if (process.platform === "win32") return; // Directories cannot be opened there; NTFS keeps a journal of names.
    // Not `await using`: an older Node has to read this file to come to the door's word that it is too old.
    const handle = await open(path, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
};

/** With its parents, one by one: Node's recursive mkdir reports a read-only file system as a missing directory. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "EEXIST" && (await stat(path)).isDirectory()) return;
    if (code !== "ENOENT" || dirname(path) === path) throw thrown;
    await makeDirectory(dirname(path));
    await makeDirectory(path); // another server of this process may have made it meanwhile
  }
}

/** `sync`: how much of the file is on the disk when it returns. */
export function openFile(handle: FileHandle, sync: "sync" | "datasync" = "sync"): OpenFile {
  return {
    write: async (bytes, position) => (await handle.write(bytes, 0, bytes.byteLength, position)).bytesWritten,
    read: async (into, position) => (await handle.read(into, 0, into.byteLength, position)).bytesRead,
    size: async () => (await handle.stat()).size,
    sync: () => handle[sync](),
    close: () => handle.close(),
  };
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EFBIG: "the file would be larger than is allowed here",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  EIO: "the disk failed",
  EMFILE: "too many open files",
  EEXIST: "it is already there",
  ENOTDIR: "a part of its path is not a directory",
};
/** These pass when somebody frees space or files. */
const RETRYABLE: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EMFILE"]);

/** FileLayer.L1. `what` failed, such as "cannot write /data/step-000001/…". Returns a WeighbridgeError as it is. */
export function fileError(what: string, cause: unknown): WeighbridgeError {
  if (cause instanceof WeighbridgeError) return cause;
  const { code = "unknown" } = cause as { readonly code?: string };
  if (code === "ENOENT") return new WeighbridgeError("CHECKPOINT_MISSING", `${what}: there is no such file or directory`, { cause });
  return new WeighbridgeError("CHECKPOINT_IO", `${what}: ${reasonText(cause)}`, { cause, retryable: RETRYABLE.has(code) });
}

/** Why the file system refused something: "the disk is full (ENOSPC)". */
export function reasonText(cause: unknown): string {
  const { code = "", message = String(cause) } = cause as { readonly code?: string; readonly message?: string };
  return REASONS[code] === undefined ? message : `${REASONS[code]} (${code})`;
}

/** Runs `step`; turns what it throws into an error that names `what`. */
export async function attempt<T>(what: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    throw fileError(what, cause);
  }
}

/** Fills `into` from `position` on. Throws CHECKPOINT_TORN if the file ends before. */
export async function readFully(file: OpenFile, into: Uint8Array, position: number, path: string): Promise<void> {
  const count = await attempt(`cannot read ${path}`, () => readUpTo(file, into, position));
  if (count < into.byteLength) throw torn(path, `ends at byte ${position + count}, but should go on to ${position + into.byteLength}`);
}

/** Fills `into` from `position` on as far as the file goes. Returns how many bytes that are. */
export async function readUpTo(file: OpenFile, into: Uint8Array, position: number): Promise<number> {
  let done = 0;
  for (let count = -1; done < into.byteLength && count !== 0; done += count) count = await file.read(into.subarray(done), position + done);
  return done;
}

export async function writeFully(file: OpenFile, bytes: Uint8Array, position: number, path: string): Promise<void> {
  const count = await attempt(`cannot write ${path}`, () => writeUpTo(file, bytes, position));
  if (count < bytes.byteLength) throw new WeighbridgeError("CHECKPOINT_IO", `cannot write ${path}: the file system takes no more bytes`);
}

/** Writes all bytes, or as many as the file system takes. Returns how many these are. */
export async function writeUpTo(file: OpenFile, bytes: Uint8Array, position: number): Promise<number> {
  let done = 0;
  for (let count = -1; done < bytes.byteLength && count !== 0; done += count)
    count = await file.write(bytes.subarray(done), position + done);
  return done;
}

/** Opens a file, and closes it after use, whether or not that throws. */
export async function withFile<T>(path: string, open: () => Promise<OpenFile>, use: (file: OpenFile) => Promise<T>): Promise<T> {
  const file = await attempt(`cannot open ${path}`, open);
  try {
    return await use(file);
  } finally {
    await attempt(`cannot close ${path}`, () => file.close());
  }
}

/** Reads a small file whole. */
export function readSmallFile(layer: FileLayer, path: string, bytesMax: number): Promise<Uint8Array> {
  return withFile(
    path,
    () => layer.open(path),
    async (file) => {
      const size = await attempt(`cannot read ${path}`, () => file.size());
      if (size > bytesMax) throw foreign(path, `has ${size} bytes; at most ${bytesMax} are expected`);
      const bytes = new Uint8Array(size);
      await readFully(file, bytes, 0, path);
      return bytes;
    },
  );
}

/**
 * Writes a small file under another name and renames it: after a crash the old one or the new one is there, whole. The
 * caller syncs its directory.
 */
export async function writeSmallFile(layer: FileLayer, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.tmp`;
  await attempt(`cannot remove ${temporary}`, () => layer.remove(temporary));
  await withFile(
    temporary,
    () => layer.create(temporary),
    async (file) => {
      await writeFully(file, bytes, 0, temporary);
      await attempt(`cannot write ${temporary}`, () => file.sync());
    },
  );
  await attempt(`cannot rename ${temporary}`, () => layer.rename(temporary, path));
}
