// durable-files — the files of a durable log (segment-log.ts): opened to read and write, and synced without what only
// says when they were changed. Segments have their size from the start, so a sync writes their bytes alone.

import { type FileHandle, open } from "node:fs/promises";
import { type FileLayer, type OpenFile, realFiles } from "../checkpoint/file-layer.ts";

export const durableFiles: FileLayer = {
  ...realFiles,
  create: async (path) => openFile(await open(path, "wx+")),
  open: async (path) => openFile(await open(path, "r+")),
};

function openFile(handle: FileHandle): OpenFile {
  return {
    write: async (bytes, position) => (await handle.write(bytes, 0, bytes.byteLength, position)).bytesWritten,
    read: async (into, position) => (await handle.read(into, 0, into.byteLength, position)).bytesRead,
    size: async () => (await handle.stat()).size,
    sync: () => handle.datasync(),
    close: () => handle.close(),
  };
}
