// shared-memory — memory that two processes of one host have in common: a file without a name (memfd), mapped by both.
// Node has no call for it; koffi, where installed, makes those that are needed.
//
// Invariants:
//   SharedMemory.M1. It is an optimisation: without Linux or koffi, or if the system refuses, links stay sockets.
//   SharedMemory.M2. The file is sealed at its size before anybody else sees it, and is mapped only if it is: a peer
//       that shortened it would end us with SIGBUS.
//   SharedMemory.M3. Nothing has a name in a file system: what a killed process had goes with it. Neither end keeps a
//       descriptor once both have mapped the memory.
//   SharedMemory.M4. A node has at most MAPPINGS_MAX mappings: 126 MB of addresses.

import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readFileSync, readlinkSync } from "node:fs";
import { unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { koffi, type NativeFunction, type NativeViews } from "../native-calls.ts";
import { SharedLink, type SharedLinkOptions } from "./shared-link.ts";

/** From <sys/mman.h>, <fcntl.h> and <linux/memfd.h>. */
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MADV_REMOVE = 9;
const F_ADD_SEALS = 1033;
const F_GET_SEALS = 1034;
const F_SEAL_SEAL = 1;
const F_SEAL_SHRINK = 2;
const F_SEAL_GROW = 4;
const SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const NAME: Uint8Array = new TextEncoder().encode("weighbridge\0");

export const MAPPINGS_MAX = 60;

const DESCRIPTOR_PATH = /^\/proc\/[1-9]\d{0,9}\/fd\/\d{1,9}$/;

/** Mapped memory; whoever has it unmaps it, and does not look at `buffer` any more. */
export type SharedMemory = {
  readonly buffer: ArrayBuffer;
  /** Copies so many bytes from the beginning of `source` there, or from there to the beginning of `target`. */
  copyIn(source: Uint8Array, to: number, byteCount: number): void;
  copyOut(from: number, target: Uint8Array, byteCount: number): void;
  /** Where a process of this host finds it until `hide`; empty for one that was opened. */
  readonly path: string;
  /** Closes the descriptor: who has not opened it by now cannot. */
  hide(): void;
  /** Gives pages back to the system; they read as zeros after. `from` and `byteCount` are multiples of a page. */
  discard(from: number, byteCount: number): void;
  unmap(): void;
};

export type SharedMemorySystem = {
  /** Names this host, process namespace and user: memory can be shared by processes that have the same. */
  readonly host: string;
  readonly log: Log;
  /** Throws if the system refuses. */
  create(byteCount: number): SharedMemory;
  /** Throws for what is no sealed memory of exactly this size, or cannot be opened. */
  open(path: string, byteCount: number): SharedMemory;
  /** Over a socket that has not started, a link that may go on in such memory. */
  link(options: Omit<SharedLinkOptions, "system">): SharedLink;
};

export type SharedMemoryOptions = {
  readonly log: Log;
  readonly platform?: string;
  /** Rejects if there are none. For tests. */
  readonly nativeCalls?: () => Promise<NativeViews>;
  /** Left out: of this process. For tests. */
  readonly host?: string;
};

/** Undefined where nothing can be done (SharedMemory.M1). */
export async function sharedMemory(options: SharedMemoryOptions): Promise<SharedMemorySystem | undefined> {
  const { log, platform = process.platform, nativeCalls = koffi } = options;
  if (platform !== "linux") return undefined;
  try {
    const native = await nativeCalls();
    const library = native.load("libc.so.6");
    const calls: MemoryCalls = {
      memfdCreate: library.func("int memfd_create(const char *name, unsigned int flags)"),
      fcntl: library.func("int fcntl(int fd, int command, int seals)"),
      mmap: library.func("int64_t mmap(int64_t at, size_t byteCount, int protection, int flags, int fd, int64_t offset)"),
      munmap: library.func("int munmap(int64_t at, size_t byteCount)"),
      madvise: library.func("int madvise(int64_t at, size_t byteCount, int advice)"),
      copyIn: library.func("int64_t memcpy(int64_t to, const void *from, size_t byteCount)"),
      copyOut: library.func("int64_t memcpy(void *to, int64_t from, size_t byteCount)"),
      view: (address, byteCount) => native.view(address, byteCount),
    };
    return new MappedMemories(calls, log, options.host ?? hostName());
  } catch (thrown) {
    log.debug("no shared memory: this system has none, or koffi is not installed", { reason: String(thrown) });
    return undefined;
  }
}

/** Who boots anew is another host; other namespaces and users cannot open our descriptors. Peers learn a digest. */
function hostName(): string {
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  const text = `${boot} ${readlinkSync("/proc/self/ns/pid")} ${process.geteuid?.()}`;
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

type MemoryCalls = {
  readonly memfdCreate: NativeFunction;
  readonly fcntl: NativeFunction;
  readonly mmap: NativeFunction;
  readonly munmap: NativeFunction;
  readonly madvise: NativeFunction;
  readonly copyIn: NativeFunction;
  readonly copyOut: NativeFunction;
  readonly view: (address: number, byteCount: number) => ArrayBuffer;
};

class MappedMemories implements SharedMemorySystem {
  readonly host: string;
  readonly log: Log;
  readonly #calls: MemoryCalls;
  #count = 0;

  constructor(calls: MemoryCalls, log: Log, host: string) {
    this.#calls = calls;
    this.log = log;
    this.host = host;
  }

  create(byteCount: number): SharedMemory {
    const fd = this.#calls.memfdCreate(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) throw refused("provides no memory");
    try {
      ftruncateSync(fd, byteCount);
      if (this.#calls.fcntl(fd, F_ADD_SEALS, SEALS) !== 0) throw refused("does not seal memory"); // SharedMemory.M2
      return this.#map(fd, byteCount, `/proc/${process.pid}/fd/${fd}`);
    } catch (thrown) {
      closeSync(fd);
      throw thrown;
    }
  }

  open(path: string, byteCount: number): SharedMemory {
    if (!DESCRIPTOR_PATH.test(path)) throw new WeighbridgeError("BAD_FRAME", "a peer offers memory where no descriptor is");
    const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK); // whatever it is, it does not hold us up
    try {
      const seals = this.#calls.fcntl(fd, F_GET_SEALS, 0);
      // SharedMemory.M2
      if (seals < 0 || (seals & SEALS) !== SEALS) throw refused("says that the memory is not sealed");
      const { size } = fstatSync(fd);
      if (size !== byteCount) throw refused(`says that the memory has ${size} bytes, not ${byteCount}`);
      return this.#map(fd, byteCount, "");
    } finally {
      closeSync(fd);
    }
  }

  link(options: Omit<SharedLinkOptions, "system">): SharedLink {
    return new SharedLink({ ...options, system: this });
  }

  /** Takes the descriptor if `path` is not empty. */
  #map(fd: number, byteCount: number, path: string): SharedMemory {
    // SharedMemory.M4
    if (this.#count >= MAPPINGS_MAX) throw refused(`has given ${MAPPINGS_MAX} memories, the most that we take`);
    const { mmap, munmap, madvise, copyIn, copyOut, view } = this.#calls;
    const at = mmap(0, byteCount, PROT_READ_WRITE, MAP_SHARED, fd, 0);
    if (at === -1) throw refused("maps no memory");
    this.#count++;
    let isOpen = path !== "";
    const hide = (): void => {
      if (isOpen) closeSync(fd);
      isOpen = false;
    };
    return {
      buffer: view(at, byteCount),
      copyIn: (source, to, copiedBytes) => void copyIn(at + to, source, copiedBytes),
      copyOut: (from, target, copiedBytes) => void copyOut(target, at + from, copiedBytes),
      path,
      hide,
      discard: (from, discardedBytes) => void madvise(at + from, discardedBytes, MADV_REMOVE),
      unmap: () => {
        hide();
        munmap(at, byteCount);
        this.#count--;
      },
    };
  }
}

function refused(what: string): WeighbridgeError {
  return unsupported(`the system ${what}`);
}
