// arena — one WebAssembly memory that holds parameters and the buffers of sockets, with its allocator. Not a garbage collector: whoever
// allocates releases, with the same byte count.
//
// The memory has its full size from the start (address space only: a page costs nothing until it is touched), so the views below stay
// valid for the arena's life. The allocator runs inside the kernel module and its state lies in the memory's first page; JavaScript and
// kernels therefore share it.
//
// Invariants:
//   A1. Addresses are multiples of 64, never 0, and at most 2^32 - 64 KiB: an address plus a length never wraps.
//   A2. A span belongs to one owner from `allocate` to `release`. Its bytes are arbitrary at first.
//   A3. Running out of room is an error before anything changed, never a trap.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { KernelMemory } from "./kernel-memory.ts";
import { instantiateSimdModule, type SimdExports } from "./simd-instance.ts";

const ARENA_BYTES_DEFAULT: number = 2 ** 32;

const PAGE_BYTES = 65_536;
/** The module's own first page, one guard page at the end and some room: less makes no sense. */
const PAGES_MIN = 4;
const PAGES_MAX = 65_536;
const SPAN_ALIGNMENT = 64;

export type ArenaOptions = {
  /** The size of the memory in bytes, rounded up to whole 64 KiB pages; up to 4 GiB, which is the default. */
  readonly bytesMax?: number | undefined;
  /** False asks for memory that cannot be shared with other threads. Defaults to true where the engine can. */
  readonly shared?: boolean | undefined;
};

export class Arena {
  readonly memory: KernelMemory;
  /** The whole memory as bytes, as 32-bit words and as floats: address >> 2 is an index of the latter two. */
  readonly bytes: Uint8Array<ArrayBufferLike>;
  readonly words: Uint32Array<ArrayBufferLike>;
  readonly floats: Float32Array<ArrayBufferLike>;
  /** The kernel module on this memory. For SimdKernels alone. */
  readonly module: SimdExports;
  /** Asked when there is no room: true when it gave memory back. It may be asked inside any call that allocates. */
  onFull: () => boolean = () => false;

  /** Throws BAD_ARGUMENT for an impossible size; takes less memory than asked for when the engine cannot give more. */
  constructor(options: ArenaOptions = {}) {
    const { bytesMax = ARENA_BYTES_DEFAULT, shared = true } = options;
    const pageCount = Math.ceil(bytesMax / PAGE_BYTES);
    if (!(pageCount >= PAGES_MIN && pageCount <= PAGES_MAX)) {
      throw new WeighbridgeError("BAD_ARGUMENT", `an arena has ${PAGES_MIN * PAGE_BYTES} to ${2 ** 32} bytes, not ${bytesMax}`);
    }
    this.memory = createMemory(pageCount, shared);
    const { buffer } = this.memory;
    this.bytes = new Uint8Array(buffer);
    this.words = new Uint32Array(buffer);
    this.floats = new Float32Array(buffer);
    this.module = instantiateSimdModule(this.memory);
    this.module.openArena(buffer.byteLength / PAGE_BYTES);
  }

  /** The size of the memory, which may be less than was asked for. */
  get bytesMax(): number {
    return this.bytes.byteLength;
  }

  /** Bytes that are allocated now, each span rounded up to what it really takes. */
  get usedBytes(): number {
    return this.module.usedBytes();
  }

  /** The address of `byteCount` bytes (at least 1) of the caller's own. Throws ARENA_FULL. */
  allocate(byteCount: number): number {
    let address = this.tryAllocate(byteCount);
    while (address === 0 && this.onFull()) address = this.tryAllocate(byteCount);
    if (address === 0) throw arenaFull(this, `${byteCount} bytes`);
    return address;
  }

  /** As `allocate`, but gives 0 when there is no room. */
  tryAllocate(byteCount: number): number {
    assert(byteCount >= 1, `a span has at least 1 byte, not ${byteCount}`);
    return byteCount <= this.bytesMax ? this.module.allocate(byteCount) >>> 0 : 0;
  }

  /** Gives a span back; `byteCount` is what was asked for. */
  release(address: number, byteCount: number): void {
    assert(address >= SPAN_ALIGNMENT && address % SPAN_ALIGNMENT === 0, `A1: ${address} is no address of a span`);
    this.module.release(address, byteCount);
  }

  /**
   * Brings memory that was never allocated into the process, up to `byteCount` bytes ahead and `pagesMax` pages in one call, so that a growing
   * table does not wait for page faults: for the idle turns of whoever knows that it grows. Returns how many pages; 0 when all are there.
   */
  touchAhead(byteCount: number, pagesMax: number): number {
    return this.module.touchAhead(Math.min(byteCount, this.bytesMax - 1), pagesMax);
  }

  /** How much of the memory that was never allocated `touchAhead` has brought into the process; 0 when allocations went beyond it. */
  get aheadBytes(): number {
    return this.module.aheadBytes();
  }
}

/** The error of A3; `what` completes "no room for …". */
export function arenaFull(arena: Arena, what: string): WeighbridgeError {
  return new WeighbridgeError("ARENA_FULL", `no room for ${what}: ${arena.usedBytes} of ${arena.bytesMax} arena bytes are in use`);
}

/** Halves the size until the engine agrees: an address space limit (ulimit -v, containers) refuses large reservations. */
function createMemory(pageCount: number, shared: boolean): WebAssembly.Memory {
  for (let pages = pageCount; shared && pages >= PAGES_MIN; pages = Math.ceil(pages / 2)) {
    const memory = tryMemory(pages, true);
    if (memory !== undefined) return memory;
  }
  for (let pages = pageCount; pages >= PAGES_MIN; pages = Math.ceil(pages / 2)) {
    const memory = tryMemory(pages, false);
    if (memory !== undefined) return memory;
  }
  throw new WeighbridgeError("ARENA_FULL", `the engine gives no WebAssembly memory, not even ${PAGES_MIN} pages`);
}

function tryMemory(pages: number, shared: boolean): WebAssembly.Memory | undefined {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  } catch {
    return undefined; // a RangeError: too large, or sharing is not allowed on this page
  }
}
