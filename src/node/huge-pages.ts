// huge-pages — backs a server's memory with pages of 2 MiB. A table of some hundred megabytes is read at random, and
// with pages of 4 KiB nearly every row costs a walk through the page tables on top of its own cache misses. Linux
// provides large pages on request (transparent huge pages on "madvise", the usual setting); the request is a native
// call, made through koffi if it is installed.
//
// Invariants:
//   HugePages.H1. It is advice: without Linux, without koffi, or if the system refuses, a server works the same, only
//       slower.
//   HugePages.H2. The first SMALL_BYTES of state, and of the reserve behind it, keep small pages, so that a server with
//       few parameters is not rounded up to large ones: a million keys of one float took 19 MB in small pages and 23 to
//       25 in large ones, the read buffers of two links 4 MB. What is small is in the caches anyway.
//   HugePages.H3. Nothing is loaded for it before a server has its first parameter or sums: koffi takes as much memory
//       as they do.

import type { Log } from "../base/log.ts";
import type { KernelMemory } from "../kernel/inlined-module.ts";
import { type SystemCallOptions, systemFunction } from "./native-calls.ts";

/** From <sys/mman.h>. */
const MADV_HUGEPAGE = 14;

/** See HugePages.H2; a multiple of the large page. */
export const SMALL_BYTES: number = 32 << 20;

export type HugePagesOptions = SystemCallOptions & { readonly log: Log };

/** The memory of an arena, of which state takes the first `stateBytesMax` bytes. */
type ArenaMemory = { readonly memory: KernelMemory; readonly stateBytesMax: number };

/** Returns what to do with a new memory; undefined if nothing can be done (HugePages.H1). */
export async function hugePages(options: HugePagesOptions): Promise<((arena: ArenaMemory) => void) | undefined> {
  const { log } = options;
  const madvise = await systemFunction("int madvise(void *address, size_t byteCount, int advice)", options, (reason) =>
    log.debug("no huge pages: koffi is not installed, or does not work here", { reason }),
  );
  if (madvise === undefined) return undefined;
  return ({ memory: { buffer }, stateBytesMax }) => {
    for (const [from, to] of [
      [0, stateBytesMax],
      [stateBytesMax, buffer.byteLength],
    ] as const) {
      if (to - from <= SMALL_BYTES) continue;
      const advised = new Uint8Array(buffer, from + SMALL_BYTES, to - from - SMALL_BYTES);
      if (madvise(advised, advised.byteLength, MADV_HUGEPAGE) !== 0) log.debug("the system provides no huge pages");
    }
  };
}
