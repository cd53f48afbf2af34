// checkpoint-files — file layers for tests: one that writes down what is asked of it, and can be made to fail. Around
// the real one, so that what is left behind lies on a real disk.

import { basename } from "node:path";
import { type FileLayer, type OpenFile, realFiles } from "../../src/node/checkpoint/file-layer.ts";

/** One thing that was asked of the file system, such as "sync server-000-000.safetensors.tmp". */
export type FileCall = { readonly verb: string; readonly path: string };

/**
 * Called before anything is done: throws what the file system is to say, or returns how many bytes a write may take.
 */
export type FileFault = (call: FileCall) => number | undefined;

export class FaultyFiles {
  /** What was asked so far, with the last part of the path only. */
  readonly calls: string[] = [];
  readonly layer: FileLayer;
  openCount = 0;

  constructor(fault: FileFault = () => undefined) {
    const ask = (verb: string, path: string): number | undefined => {
      this.calls.push(`${verb} ${basename(path)}`);
      return fault({ verb, path });
    };
    const opened = (path: string, file: OpenFile): OpenFile => {
      this.openCount++;
      return {
        write: async (bytes, position) => file.write(bytes.subarray(0, ask("write", path) ?? bytes.byteLength), position),
        async read(into, position) {
          ask("read", path);
          return file.read(into, position);
        },
        size: () => file.size(),
        async sync() {
          ask("sync", path);
          await file.sync();
        },
        close: async () => {
          this.openCount--;
          await file.close();
          ask("close", path);
        },
      };
    };
    this.layer = {
      create: async (path) => {
        ask("create", path);
        return opened(path, await realFiles.create(path));
      },
      open: async (path) => {
        ask("open", path);
        return opened(path, await realFiles.open(path));
      },
      async rename(from, to) {
        ask("rename", to);
        await realFiles.rename(from, to);
      },
      async makeDirectory(path) {
        ask("makeDirectory", path);
        await realFiles.makeDirectory(path);
      },
      async list(path) {
        ask("list", path);
        return realFiles.list(path);
      },
      async remove(path) {
        ask("remove", path);
        await realFiles.remove(path);
      },
      async syncDirectory(path) {
        ask("syncDirectory", path);
        await realFiles.syncDirectory(path);
      },
    };
  }
}

/** A directory of files in memory, to be read only: fast enough to try every byte. */
export function memoryFiles(files: ReadonlyMap<string, Uint8Array>): FileLayer {
  const refuse = async (): Promise<never> => {
    throw systemError("EROFS");
  };
  return {
    async open(path) {
      const bytes = files.get(path);
      if (bytes === undefined) throw systemError("ENOENT");
      return {
        write: refuse,
        async read(into, position) {
          const piece = bytes.subarray(position, position + into.byteLength);
          into.set(piece);
          return piece.byteLength;
        },
        size: async () => bytes.byteLength,
        sync: refuse,
        close: async () => {},
      };
    },
    list: async () => [...files.keys()].map((path) => basename(path)),
    create: refuse,
    rename: refuse,
    makeDirectory: refuse,
    remove: refuse,
    syncDirectory: refuse,
  };
}

/** An error as the system reports one. */
export function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: as the test wants it`), { code });
}
