// log-pages — the pages that a head's log is written to. They lie in the arena, where the frames lie that are copied
// into them: a kernel copies several times as fast as a typed array does from shared memory. Not what is in a page
// (log-entry.ts).
//
// Invariants:
//   LogPages.P1. A page is given out again only when nobody reads it any more: the sink has what it holds.
//   LogPages.P2. A log needs no room: while the arena has none, pages lie on the heap.

import type { Arena } from "../../kernel/arena.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import { type CopyBytes, EntryPage } from "./log-entry.ts";

/** A block with its keys fits. */
const PAGE_BYTES = 768 * 1024;
const POOLED_PAGES_MAX = 16;

export type LogMemory = { readonly arena: Arena; readonly kernels: Pick<Kernels, "copy"> };

export class LogPages {
  readonly #memory: LogMemory;
  readonly #pool: EntryPage[] = [];

  constructor(memory: LogMemory) {
    this.#memory = memory;
  }

  /** An empty page with room for so much at least. */
  take(byteCount: number): EntryPage {
    if (byteCount > PAGE_BYTES) return new EntryPage(new Uint8Array(Math.ceil(byteCount / 8) * 8));
    return this.#pool.pop() ?? this.#make();
  }

  /** LogPages.P1 */
  give(page: EntryPage): void {
    if (page.bytes.length !== PAGE_BYTES) return;
    page.clear();
    if (this.#pool.length < POOLED_PAGES_MAX) this.#pool.push(page);
    else this.drop(page);
  }

  /** It is not used again. */
  drop({ bytes }: EntryPage): void {
    const { arena } = this.#memory;
    if (bytes.buffer === arena.bytes.buffer) arena.release(bytes.byteOffset, PAGE_BYTES);
  }

  close(): void {
    for (const page of this.#pool.splice(0)) this.drop(page);
  }

  /** LogPages.P2 */
  #make(): EntryPage {
    const { arena } = this.#memory;
    const address = arena.tryAllocateBeyond(PAGE_BYTES);
    if (address === 0) return new EntryPage(new Uint8Array(PAGE_BYTES));
    return new EntryPage(arena.bytes.subarray(address, address + PAGE_BYTES), this.#copy);
  }

  readonly #copy: CopyBytes = ({ bytes: target }, to, bytes, at, byteCount) => {
    if (bytes.buffer === target.buffer) this.#memory.kernels.copy(target.byteOffset + to, bytes.byteOffset + at, byteCount);
    else target.set(bytes.subarray(at, at + byteCount), to);
  };
}
