// arena — one WebAssembly memory for parameters and the buffers of sockets, and its allocator. Not a garbage collector:
// the owner of a span releases it, with the byte count that it allocated.
//
// The memory has its full size from the start (an untouched page costs address space only), so the views below stay
// valid as long as the arena. The allocator runs in the kernel module and keeps its state in the first page of the
// memory: JavaScript and kernels share it.
//
// Invariants:
//   Arena.A1. Addresses are multiples of 64, never 0, and at most 2^32 - 64 KiB: an address plus a length never wraps.
//   Arena.A2. A span belongs to one owner from `allocate` to `release`. Its bytes are arbitrary at first.
//   Arena.A3. Running out of room is an error before anything changed, never a trap.
//   Arena.A4. State (rows, tables, blocks) does not use the reserve; work (answers, requests, checkpoints) may. So a
//       server that is full of state can still be read, saved and updated. Two kinds of state may enter the reserve: a
//       block whose old values are still being sent (`tryMove`), and some rows of a checkpoint that is being restored
//       (`overdraw`). As many bytes of the rest then stay free until these are released.
//   Arena.A5. Work that does not fit in the reserve (a sync round for all rows, the rows that a checkpoint keeps) lies
//       beyond `bytesMax`, in address space up to 4 GiB that costs nothing until it is touched. State never stays
//       there.
//   Arena.A6. Threads that share a memory keep each other out while one of them allocates, releases or uses a table.

import { AssertionError } from "../base/assert.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import type { KernelMemory } from "./inlined-module.ts";
import { instantiateSimdModule, type SimdExports } from "./simd-instance.ts";

const ARENA_BYTES_DEFAULT: number = 2 ** 32;

const PAGE_BYTES = 65_536;
/** The module's own first page, a guard page at the end, and some room. */
const PAGES_MIN = 4;
const PAGES_MAX = 65_536;
const SPAN_ALIGNMENT = 64;
/** The reserve (Arena.A4) is this share of the arena, within limits: some needs do not shrink with the arena. */
const RESERVE_SHARE = 1 / 8;
const RESERVE_SHARE_MAX = 1 / 4;
const RESERVE_BYTES_MIN = 8 * 2 ** 20;
const RESERVE_BYTES_MAX = 256 * 2 ** 20;
/** The rest is for answers, whatever moves. */
const MOVED_SHARE_MAX = 1 / 2;
/** Of the reserve: what rows that are restored may take beyond those that were saved, whose index was another. */
const OVERDRAWN_SHARE_MAX = 1 / 4;

type ArenaOptions = {
  /** The size of the memory in bytes, rounded up to whole 64 KiB pages; up to 4 GiB, which is the default. */
  readonly bytesMax?: number | undefined;
  /** False: memory that cannot be shared with other threads. Defaults to true where the engine can. */
  readonly shared?: boolean | undefined;
  /** Keeps a reserve for work (Arena.A4): for servers. Defaults to false. */
  readonly reserve?: boolean | undefined;
  /** How far work may go beyond `bytesMax` if there is a reserve (Arena.A5). Defaults to the end of the addresses. */
  readonly beyondBytesMax?: number | undefined;
  /** False: `touchAhead` does nothing, for a server of which little is wanted for a short time. Defaults to true. */
  readonly touchesAhead?: boolean | undefined;
  /** The memory of an arena without a reserve that another thread opened: its spans are those of both (Arena.A6). */
  readonly opened?: KernelMemory | undefined;
};

/** What memory is for (Arena.A4). "move" is state whose present span is held: it is moved, or not kept at all. */
export type MemoryUse = "state" | "work" | "move";

export class Arena {
  readonly memory: KernelMemory;
  /** The whole memory as bytes, as 32-bit words and as floats: address >> 2 is an index of the latter two. */
  readonly bytes: Uint8Array<ArrayBufferLike>;
  readonly words: Uint32Array<ArrayBufferLike>;
  readonly floats: Float32Array<ArrayBufferLike>;
  /** The kernel module on this memory. For SimdKernels alone. */
  readonly module: SimdExports;
  /** The requested size, or less if the engine has less; work may go beyond it (Arena.A5). */
  readonly bytesMax: number;
  /** The size of the reserve (Arena.A4); 0 when there is none. */
  readonly reserveBytes: number;
  /** How much tables may overdraw now; 0 but for a moment. Nobody else writes it. */
  overdraftBytes = 0;
  /** Called when `byteCount` bytes do not fit, within any call that allocates. True if it has released memory. */
  onFull: (use: MemoryUse, byteCount: number) => boolean = () => false;
  readonly #reserveStart: number;
  /** Room beyond `bytesMax` (Arena.A5). */
  readonly #beyondBytes: number;
  readonly #touchesAhead: boolean;

  /** Throws BAD_ARGUMENT for an impossible size. Has less memory if the engine cannot provide as much. */
  constructor(options: ArenaOptions = {}) {
    const { bytesMax = ARENA_BYTES_DEFAULT, shared = true, reserve = false, beyondBytesMax = Infinity, opened } = options;
    const pageCount = Math.ceil(bytesMax / PAGE_BYTES);
    if (!(pageCount >= PAGES_MIN && pageCount <= PAGES_MAX)) {
      throw badArgument(`an arena has ${PAGES_MIN * PAGE_BYTES} to ${2 ** 32} bytes, not ${bytesMax}`);
    }
    const beyondPages = reserve ? Math.min(PAGES_MAX - pageCount, Math.floor(beyondBytesMax / PAGE_BYTES)) : 0;
    this.memory = opened ?? createMemory(pageCount, beyondPages, shared);
    this.#touchesAhead = options.touchesAhead ?? true;
    const { buffer } = this.memory;
    this.bytesMax = Math.min(buffer.byteLength, pageCount * PAGE_BYTES);
    this.#beyondBytes = buffer.byteLength - this.bytesMax;
    this.bytes = new Uint8Array(buffer);
    this.words = new Uint32Array(buffer);
    this.floats = new Float32Array(buffer);
    this.reserveBytes = reserve ? Math.floor(reserveBytesOf(this.bytesMax) / PAGE_BYTES) * PAGE_BYTES : 0;
    this.#reserveStart = this.bytesMax - PAGE_BYTES - this.reserveBytes;
    this.module = instantiateSimdModule(this.memory);
    if (opened === undefined) this.module.openArena(buffer.byteLength / PAGE_BYTES, (this.reserveBytes + this.#beyondBytes) / PAGE_BYTES);
  }

  /** Bytes that are allocated now, each span rounded up to what it really takes. */
  get usedBytes(): number {
    return this.module.usedBytes() + this.module.reserveUsedBytes();
  }

  /** For how much more state there is room. */
  get stateFreeBytes(): number {
    return Math.max(0, this.stateBytesMax - this.stateUsedBytes);
  }

  /** How much of `stateBytesMax` state cannot have: it is in use, or owed to the reserve (Arena.A4). */
  get stateUsedBytes(): number {
    return this.module.stateUsedBytes();
  }

  /** The bytes that state can have at most. */
  get stateBytesMax(): number {
    return this.bytesMax - this.reserveBytes;
  }

  /** State that lies in the reserve (`tryMove`, `overdraw`). */
  get movedBytes(): number {
    return this.module.lentBytes();
  }

  /** The address of `byteCount` bytes (at least 1) of the caller's own, for work (Arena.A4). Throws ARENA_FULL. */
  allocate(byteCount: number): number {
    let address = this.tryAllocate(byteCount);
    while (address === 0 && this.onFull("work", byteCount)) address = this.tryAllocate(byteCount);
    // answers leave
    if (address === 0) throw arenaFull(this, `${byteCount} bytes`, { retryable: byteCount <= this.reserveBytes / 2 });
    return address;
  }

  /** As `allocate`, but gives 0 when there is no room. */
  tryAllocate(byteCount: number): number {
    if (!(byteCount >= 1)) throw new AssertionError(`a span has at least 1 byte, not ${byteCount}`);
    return byteCount <= this.bytes.byteLength ? this.module.allocateWork(byteCount) >>> 0 : 0;
  }

  /** Room beyond `bytesMax` (Arena.A5). 0 if there is none. */
  tryAllocateBeyond(byteCount: number): number {
    if (!(byteCount >= 1)) throw new AssertionError(`a span has at least 1 byte, not ${byteCount}`);
    const fits = this.module.reserveUsedBytes() + byteCount <= this.#beyondBytes;
    return fits ? this.module.allocateReserve(byteCount) >>> 0 : 0;
  }

  /** For work as large as the state itself: beyond `bytesMax` while there is room, then as `allocate` (Arena.A5). */
  allocateBulk(byteCount: number): number {
    return this.tryAllocateBeyond(byteCount) || this.allocate(byteCount);
  }

  /** As `allocateBulk`, but gives 0 when there is no room. */
  tryAllocateBulk(byteCount: number): number {
    return this.tryAllocateBeyond(byteCount) || this.tryAllocate(byteCount);
  }

  /** As `allocate`, for state (Arena.A4). */
  allocateState(byteCount: number): number {
    let address = this.tryAllocateState(byteCount);
    while (address === 0 && this.onFull("state", byteCount)) address = this.tryAllocateState(byteCount);
    if (address === 0) throw stateFull(this, `${byteCount} bytes`);
    return address;
  }

  /** As `allocateState`, but gives 0 when there is no room. */
  tryAllocateState(byteCount: number): number {
    if (!(byteCount >= 1)) throw new AssertionError(`a span has at least 1 byte, not ${byteCount}`);
    return byteCount <= this.bytesMax ? this.module.allocate(byteCount) >>> 0 : 0;
  }

  /**
   * Room for state whose present span is released soon: in the reserve if nowhere else (Arena.A4). 0 if there is none.
   */
  tryMove(byteCount: number): number {
    // the old span is free again soon: the debt to the reserve does not count
    const address = this.tryAllocate(byteCount);
    if (address < this.#reserveStart || this.movedBytes + byteCount <= this.#movedBytesMax) return address;
    this.release(address, byteCount);
    return 0;
  }

  /**
   * Calls `run`, which makes rows that must not be refused: while it runs, tables may use some of the reserve
   * (Arena.A4) if nothing else is left. Only tables may allocate state meanwhile.
   */
  overdraw<T>(run: () => T): T {
    this.overdraftBytes = Math.floor(this.reserveBytes * OVERDRAWN_SHARE_MAX);
    this.module.setOverdraft(this.overdraftBytes);
    try {
      return run();
    } finally {
      this.overdraftBytes = 0;
      this.module.setOverdraft(0);
    }
  }

  /** How much state the reserve takes at most: the rest is for answers. */
  get #movedBytesMax(): number {
    return Math.floor((this.reserveBytes + this.#beyondBytes) * MOVED_SHARE_MAX);
  }

  /** The span at this address is state until `releaseState`; if it lies in the reserve, the reserve is owed as much. */
  noteState(address: number, byteCount: number): void {
    this.#lend(address, byteCount);
  }

  /** Whether a span lies in the reserve or beyond it, where state does not stay (Arena.A4, Arena.A5). */
  isInReserve(address: number): boolean {
    return address >= this.#reserveStart;
  }

  /**
   * Room outside of the reserve for state that lies in it and is about to be overwritten. 0 if it lies elsewhere or
   * there is none.
   */
  tryMoveBack(address: number, byteCount: number): number {
    if (address < this.#reserveStart) return 0;
    this.#lend(address, -byteCount); // it makes room for itself
    const back = this.tryAllocateState(byteCount);
    this.#lend(address, byteCount);
    return back;
  }

  /** As `release`, for a span of `noteState`. */
  releaseState(address: number, byteCount: number): void {
    this.#lend(address, -byteCount);
    this.release(address, byteCount);
  }

  /** Releases a span; `byteCount` is the count that was allocated. */
  release(address: number, byteCount: number): void {
    if (address < SPAN_ALIGNMENT || address % SPAN_ALIGNMENT !== 0)
      throw new AssertionError(`Arena.A1: ${address} is no address of a span`);
    this.module.release(address, byteCount);
  }

  /**
   * Touches memory that was never allocated, up to `byteCount` bytes ahead and at most `pagesMax` pages, so that a
   * growing table does not wait for page faults. The server calls it in idle turns. Returns the number of pages
   * touched.
   */
  touchAhead(byteCount: number, pagesMax: number): number {
    return this.#touchesAhead ? this.module.touchAhead(Math.min(byteCount, this.bytesMax - 1), pagesMax) : 0;
  }

  /** State of so many bytes came to this address, or is about to go from it. Only the reserve counts it. */
  #lend(address: number, byteCount: number): void {
    if (address >= this.#reserveStart) this.module.lend(byteCount);
  }

  /** How much never allocated memory `touchAhead` has brought into the process. 0 once allocations went beyond it. */
  get aheadBytes(): number {
    return this.module.aheadBytes();
  }
}

/** The error of Arena.A4: no room for more state. `what` completes "no room for …". */
export function stateFull(arena: Arena, what: string): WeighbridgeError {
  const { stateUsedBytes, stateBytesMax, reserveBytes } = arena;
  if (reserveBytes === 0) return arenaFull(arena, what);
  const kept = `${reserveBytes} more are kept for reads and checkpoints, which go on`;
  const used = `${stateUsedBytes} of ${stateBytesMax} arena bytes are in use; ${kept}`;
  return new WeighbridgeError("ARENA_FULL", `no room for ${what}: ${used}; start servers with a larger --arena-bytes-max, or more of them`);
}

/** The error of Arena.A3; `what` completes "no room for …". */
export function arenaFull(arena: Arena, what: string, options: { readonly retryable?: boolean } = {}): WeighbridgeError {
  return new WeighbridgeError("ARENA_FULL", `no room for ${what}: ${arena.usedBytes} of ${arena.bytesMax} arena bytes are in use`, options);
}

/**
 * The size, in whole MiB, of an arena with a reserve that has room for so much state. May exceed what an arena can
 * have.
 */
export function arenaBytesFor(stateBytes: number): number {
  const rounded = (bytes: number): number => Math.ceil(bytes / 2 ** 20) * 2 ** 20;
  let bytes = rounded(stateBytes);
  while (bytes <= ARENA_BYTES_DEFAULT && bytes - reserveBytesOf(bytes) - 2 * PAGE_BYTES < stateBytes)
    bytes = rounded(Math.max(bytes + 1, stateBytes + reserveBytesOf(bytes)));
  return bytes;
}

function reserveBytesOf(arenaBytes: number): number {
  const wanted = Math.max(arenaBytes * RESERVE_SHARE, RESERVE_BYTES_MIN);
  return Math.min(wanted, arenaBytes * RESERVE_SHARE_MAX, RESERVE_BYTES_MAX);
}

/**
 * Tries without the part beyond `bytesMax`, then half the size, until the engine agrees: `ulimit -v` and containers
 * limit it.
 */
function createMemory(pageCount: number, beyondPages: number, shared: boolean): WebAssembly.Memory {
  const whole = beyondPages > 0 ? tryMemory(pageCount + beyondPages, shared) : undefined;
  if (whole !== undefined) return whole;
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
