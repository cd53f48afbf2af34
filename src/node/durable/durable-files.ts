// durable-files — the files of a durable log (segment-log.ts): opened to read and write, and synced without what only
// says when they were changed. Segments have their size from the start, so a sync writes their bytes alone.

import { open } from "node:fs/promises";
import { type FileLayer, openFile, realFiles } from "../checkpoint/file-layer.ts";

export const durableFiles: FileLayer = {
  ...realFiles,
  create: async (path) => openFile(await open(path, "wx+"), "datasync"),
  open: async (path) => openFile(await open(path, "r+"), "datasync"),
};
