// server — a server's engine: the arena its state and its sockets share, the vector clock that makes updates count once, and the
// applications. What the state means is the functions' business.

import type { Clock } from "../base/clock.ts";
import { VectorClock } from "../consistency/vector-clock.ts";
import { AppDirectory } from "../functions/app-directory.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import type { ReadBuffers } from "../peer/connection.ts";
import type { Peer } from "../peer/peer.ts";
import type { FrameHeader } from "../wire/frame.ts";
import { READ_BUFFER_BYTES } from "../wire/frame-reader.ts";
import { FunctionId } from "../wire/function-id.ts";

/** Several blocks fit, so that the end of one frame and the next one are read together and handled where they lie. */
const SERVER_READ_BYTES = 2 * READ_BUFFER_BYTES;

export class Server {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly clock: VectorClock = new VectorClock();
  readonly apps: AppDirectory;

  constructor(options: { readonly arena: Arena; readonly clock: Clock }) {
    this.arena = options.arena;
    this.kernels = new SimdKernels(options.arena);
    this.apps = new AppDirectory({ clock: options.clock });
  }

  /** Serves the functions of applications on this peer. */
  serve(peer: Peer): void {
    const handler = new OnceHandler(this.apps, this.clock);
    for (const functionId of [FunctionId.KV_PUSH, FunctionId.KV_PULL, FunctionId.KV_PUSH_PULL]) peer.serve(functionId, handler);
  }
}

/** Asks the vector clock before anything is applied: what a restore or a reconnect brings again is answered, not applied. */
class OnceHandler implements FunctionHandler {
  readonly #apps: AppDirectory;
  readonly #clock: VectorClock;

  constructor(apps: AppDirectory, clock: VectorClock) {
    this.#apps = apps;
    this.#clock = clock;
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return this.#apps.destination(channel, header);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const isNew = header.stamp === 0 ? fresh : this.#clock.advance(channel.id, channel.incarnation, header.stamp);
    this.#apps.handle(channel, header, bytes, at, isNew);
  }
}

/** Read buffers inside the arena: kernels work on a frame where the socket put it. */
export class ArenaReadBuffers implements ReadBuffers {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  take(): Uint8Array {
    const address = this.#arena.allocate(SERVER_READ_BYTES);
    return this.#arena.bytes.subarray(address, address + SERVER_READ_BYTES);
  }

  give(buffer: Uint8Array): void {
    this.#arena.release(buffer.byteOffset, SERVER_READ_BYTES);
  }
}
