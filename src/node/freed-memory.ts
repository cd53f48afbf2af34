// freed-memory — gives memory back that this process has freed and the C library keeps: loading a node's modules leaves
// about 9 MB, which is more than the thread of its pulse takes (docs/decisions/0083).

import { type SystemCallOptions, systemFunction } from "./native-calls.ts";

/** Above this the process has a heap of its own, which would be searched for longer than a loop should stand still. */
const RSS_BYTES_MAX = 256e6;

/** Resolves with whether anything was given back; never rejects. Takes about 1 ms of the calling thread. */
export async function giveBackFreedMemory(options: SystemCallOptions = {}, rssBytes: number = process.memoryUsage.rss()): Promise<boolean> {
  if (rssBytes > RSS_BYTES_MAX) return false;
  const trim = await systemFunction("int malloc_trim(size_t pad)", options);
  return trim?.(0) === 1;
}
