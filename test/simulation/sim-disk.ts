// sim-disk — the disk that simulated servers share: directories and files in memory, whose operations take simulated
// time. It can be full, a process that uses it can die in the middle of anything, and the power can fail. What a real
// file system does beyond that is not here.
//
// Invariants:
//   SimDisk.M1. What was asked by a process that died is done or not, and never answered.
//   SimDisk.M2. After a power failure a file that was synced is whole, and a directory that was synced has the names it
//       had then. What was not synced may be there, be as it was before, or, for the bytes of a file behind those that
//       were synced, be there up to a point.

import { basename, dirname } from "node:path";
import type { Clock } from "../../src/base/clock.ts";
import type { Random } from "../../src/base/random.ts";
import type { FileLayer, OpenFile } from "../../src/node/checkpoint/file-layer.ts";
import { systemError } from "../support/checkpoint-files.ts";

type FileNode = { bytes: Uint8Array; synced: Uint8Array };
type DirectoryNode = { entries: Map<string, TreeNode>; synced: Map<string, TreeNode> };
type TreeNode = FileNode | DirectoryNode;

/** What one process has of the disk. */
export type Mount = {
  readonly layer: FileLayer;
  /** The process is no more (SimDisk.M1). */
  die(): void;
};

export class SimDisk {
  /** Bytes that can still be written. */
  roomBytes: number = Infinity;
  /** Whether it answers nothing from now on. */
  isMute = false;
  readonly #random: Random;
  readonly #root: DirectoryNode = { entries: new Map(), synced: new Map() };

  /** `directory` is there, and was synced. */
  constructor(random: Random, directory: string) {
    this.#random = random;
    this.#makeDirectory(directory);
    this.#syncAll(this.#root);
  }

  /** `delayMsMax` for each operation, once before and once after it is done; 0 takes no time at all. */
  mount(clock: Clock, delayMsMax: number): Mount {
    let isAlive = true;
    const pause = async (): Promise<void> => {
      if (delayMsMax > 0) await new Promise<void>((resolve) => clock.after(this.#random.below(delayMsMax + 1), resolve));
      if (!isAlive || this.isMute) await new Promise<never>(() => {}); // SimDisk.M1
    };
    const timed = async <T>(operation: () => T): Promise<T> => {
      await pause();
      const result = operation();
      await pause();
      return result;
    };
    return {
      layer: this.#layer(timed),
      die(): void {
        isAlive = false;
      },
    };
  }

  /** SimDisk.M2. Every process that used it has died before. */
  failPower(): void {
    const fail = (node: TreeNode): void => {
      if ("bytes" in node) {
        const choice = this.#random.below(3);
        if (choice === 0) node.bytes = node.synced.slice();
        const kept = sameCount(node.bytes, node.synced);
        if (choice === 1) node.bytes = upTo(kept + this.#random.below(node.bytes.length - kept + 1), node);
        node.synced = node.bytes.slice();
        return;
      }
      if (this.#random.chance(0.5)) node.entries = new Map(node.synced);
      node.synced = new Map(node.entries);
      for (const child of node.entries.values()) fail(child);
    };
    fail(this.#root);
  }

  #layer(timed: <T>(operation: () => T) => Promise<T>): FileLayer {
    return {
      create: (path) =>
        timed(() => {
          const { entries } = this.#parentOf(path);
          if (entries.has(basename(path))) throw systemError("EEXIST");
          const file: FileNode = { bytes: new Uint8Array(0), synced: new Uint8Array(0) };
          entries.set(basename(path), file);
          return this.#open(file, timed);
        }),
      open: (path) =>
        timed(() => {
          const file = this.#find(path);
          if (!("bytes" in file)) throw systemError("EISDIR");
          return this.#open(file, timed);
        }),
      rename: (from, to) => timed(() => this.#rename(from, to)),
      makeDirectory: (path) => timed(() => void this.#makeDirectory(path)),
      list: (path) => timed(() => [...this.#directoryAt(path).entries.keys()]),
      remove: (path) =>
        timed(() => {
          try {
            this.#parentOf(path).entries.delete(basename(path));
          } catch {
            // What lies nowhere is removed already.
          }
        }),
      syncDirectory: (path) =>
        timed(() => {
          const directory = this.#directoryAt(path);
          directory.synced = new Map(directory.entries);
        }),
    };
  }

  #open(file: FileNode, timed: <T>(operation: () => T) => Promise<T>): OpenFile {
    return {
      // What is written is what was there when it was asked for: nobody may change it before the answer.
      write: (bytes, position) => timed(() => this.#write(file, bytes, position)),
      read: (into, position) =>
        timed(() => {
          const piece = file.bytes.subarray(position, position + into.byteLength);
          into.set(piece);
          return piece.byteLength;
        }),
      size: () => timed(() => file.bytes.byteLength),
      sync: () =>
        timed(() => {
          file.synced = file.bytes.slice();
        }),
      close: () => timed(() => {}),
    };
  }

  /** Now and then takes fewer bytes than it was given, as file systems may. */
  #write(file: FileNode, bytes: Uint8Array, position: number): number {
    const wanted = this.#random.chance(0.1) ? 1 + this.#random.below(bytes.byteLength) : bytes.byteLength;
    const count = Math.min(wanted, this.roomBytes);
    if (count === 0 && bytes.byteLength > 0) throw systemError("ENOSPC");
    this.roomBytes -= count;
    const end = Math.max(file.bytes.byteLength, position + count);
    const grown = new Uint8Array(end);
    grown.set(file.bytes);
    grown.set(bytes.subarray(0, count), position);
    file.bytes = grown;
    return count;
  }

  #rename(from: string, to: string): void {
    const source = this.#parentOf(from).entries;
    const node = source.get(basename(from));
    if (node === undefined) throw systemError("ENOENT");
    const target = this.#parentOf(to).entries;
    const there = target.get(basename(to));
    if (there !== undefined && "entries" in there && there.entries.size > 0) throw systemError("ENOTEMPTY");
    source.delete(basename(from));
    target.set(basename(to), node);
  }

  #makeDirectory(path: string): DirectoryNode {
    if (path === "/") return this.#root;
    const { entries } = this.#makeDirectory(dirname(path));
    const there = entries.get(basename(path));
    if (there !== undefined && "bytes" in there) throw systemError("ENOTDIR");
    const directory = there ?? { entries: new Map<string, TreeNode>(), synced: new Map<string, TreeNode>() };
    entries.set(basename(path), directory);
    return directory;
  }

  #parentOf(path: string): DirectoryNode {
    return this.#directoryAt(dirname(path));
  }

  #directoryAt(path: string): DirectoryNode {
    const node = this.#find(path);
    if ("bytes" in node) throw systemError("ENOTDIR");
    return node;
  }

  #find(path: string): TreeNode {
    if (path === "/") return this.#root;
    const node = this.#directoryAt(dirname(path)).entries.get(basename(path));
    if (node === undefined) throw systemError("ENOENT");
    return node;
  }

  #syncAll(directory: DirectoryNode): void {
    directory.synced = new Map(directory.entries);
    for (const child of directory.entries.values()) if ("entries" in child) this.#syncAll(child);
  }
}

/** The bytes that were written up to this point, and behind it those that were synced. */
function upTo(point: number, { bytes, synced }: FileNode): Uint8Array {
  const found = new Uint8Array(Math.max(point, synced.length));
  found.set(synced);
  found.set(bytes.subarray(0, point));
  return found;
}

/** How many bytes at the beginning are the same. */
function sameCount(one: Uint8Array, other: Uint8Array): number {
  const difference = one.findIndex((byte, i) => byte !== other[i]);
  return difference < 0 ? one.byteLength : difference;
}
