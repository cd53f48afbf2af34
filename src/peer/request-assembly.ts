// request-assembly — assembles requests of several frames; each frame is read straight to its destination.
//
// Invariants:
//   RequestAssembly.G1. Frames of one request come in order (the channel sees to that); those of different requests may
//       interleave.
//   RequestAssembly.G2. Unfinished requests are bounded, each one and all of a node. A request beyond that is refused,
//       with the frames that follow it.
//   RequestAssembly.G3. A node's unfinished requests are dropped when the node or its link is gone
//       (PartialRequests.N2, PartialRequests.N3).

import type { Clock } from "../base/clock.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";
import type { FrameHeader } from "../wire/frame.ts";
import { READ_BUFFER_BYTES } from "../wire/frame-reader.ts";
import { FunctionFlag } from "../wire/function-id.ts";
import type { Channel } from "./channel.ts";
import type { ReadBuffers } from "./connection.ts";
import { PartialRequests } from "./partial-requests.ts";

/** Memory for one request, from `at` on in `bytes`, until released. */
export type RequestRoom = { readonly bytes: Uint8Array; readonly at: number; release(): void };

/** The memory of a node in which requests are assembled. */
export type RequestMemory = {
  /** The longest request, and all of them together. */
  readonly requestBytesMax: number;
  readonly bytesMax: number;
  /** Of one node. */
  readonly nodeBytesMax: number;
  /** Throws ARENA_FULL. */
  allocate(byteCount: number): RequestRoom;
  /** Whether handlers that work in place can read these bytes where they are. */
  holds(bytes: Uint8Array): boolean;
};

export type Unfinished = { readonly room: RequestRoom; readonly totalBytes: number; arrivedBytes: number };

/** A request in one piece; `release` gives its memory back. */
export type WholeRequest = RequestRoom & { readonly byteCount: number };

export class RequestAssembly {
  readonly #memory: RequestMemory;
  /** By their functions, applications and the numbers that their senders gave them. */
  readonly unfinished: PartialRequests<Unfinished>;
  /** Of requests that are complete and have not been released. */
  #completeBytes = 0;

  constructor({ memory, clock }: { readonly memory: RequestMemory; readonly clock: Clock }) {
    const { bytesMax, nodeBytesMax } = memory;
    this.#memory = memory;
    this.unfinished = new PartialRequests({ clock, bytesMax, workerBytesMax: nodeBytesMax, dropped: ({ room }) => room.release() });
  }

  get bytes(): number {
    return this.unfinished.bytes + this.#completeBytes;
  }

  /** Where this frame's payload belongs, for frames after the first. */
  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    const { arg2: from, payloadBytes } = header;
    const request = this.unfinished.get(channel, nameOf(header));
    if (request === undefined || request.arrivedBytes !== from || from + payloadBytes > request.totalBytes) return undefined;
    const { bytes, at } = request.room;
    return bytes.subarray(at + from, at + from + payloadBytes);
  }

  /**
   * Adds a frame; returns the request after its last. Throws BAD_REQUEST, QUEUE_FULL or ARENA_FULL
   * (RequestAssembly.G2).
   */
  take(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): WholeRequest | undefined {
    const { arg2: from, arg3: totalBytes, payloadBytes } = header;
    const name = nameOf(header);
    if (payloadBytes === 0) {
      this.unfinished.refuse(channel, name);
      throw badRequest("its sender withdrew the request: the memory that it was sent from is gone");
    }
    const isLast = (header.flags & FunctionFlag.PART) === 0;
    const end = from + payloadBytes;
    const request = this.unfinished.take(channel, name, {
      isFirst: from === 0,
      isLast,
      begin: () => this.#begin(totalBytes),
      add: (unfinished) => {
        const { room, arrivedBytes } = unfinished;
        const isNext = arrivedBytes === from && unfinished.totalBytes === totalBytes; // RequestAssembly.G1
        if (!isNext || end > totalBytes || isLast !== (end === totalBytes))
          throw badRequest(`${isLast ? "its last" : "a"} part has bytes ${from} to ${end} of ${totalBytes}, after ${arrivedBytes} bytes`);
        const isThere = bytes.buffer === room.bytes.buffer && bytes.byteOffset + at === room.bytes.byteOffset + room.at + from;
        if (!isThere) room.bytes.set(bytes.subarray(at, at + payloadBytes), room.at + from);
        unfinished.arrivedBytes = end;
      },
      byteCountOf: () => totalBytes,
    });
    if (request === undefined) return undefined;
    const { room } = request;
    this.#completeBytes += totalBytes;
    const release = (): void => {
      this.#completeBytes -= totalBytes;
      room.release();
    };
    return { bytes: room.bytes, at: room.at, byteCount: totalBytes, release };
  }

  /** A frame of this request was refused elsewhere. */
  abandon(channel: Channel, header: FrameHeader): void {
    this.unfinished.refuse(channel, nameOf(header));
  }

  #begin(totalBytes: number): Unfinished {
    const { requestBytesMax, bytesMax } = this.#memory;
    if (totalBytes > requestBytesMax) throw badRequest(`a request of ${totalBytes} bytes is over the limit of ${requestBytesMax}`);
    if (this.bytes + totalBytes > bytesMax) {
      const message = `${this.bytes} bytes of unfinished requests are here already, and ${totalBytes} more do not fit`;
      throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
    }
    return { room: this.#memory.allocate(totalBytes), totalBytes, arrivedBytes: 0 };
  }
}

function nameOf({ functionId, app, customer, arg1: number }: FrameHeader): string {
  return `${functionId}/${app}/${customer}/${number}`;
}

/** The longest request to a node without an arena. */
export const REQUEST_BYTES_MAX: number = 64 * 1024 * 1024;
const BYTES_MAX: number = 2 ** 30;

/** Ordinary memory, for nodes without an arena. */
export class PlainMemory implements RequestMemory {
  readonly requestBytesMax: number = REQUEST_BYTES_MAX;
  readonly bytesMax: number = BYTES_MAX;
  readonly nodeBytesMax: number = BYTES_MAX / 2;

  allocate(byteCount: number): RequestRoom {
    return { bytes: new Uint8Array(byteCount), at: 0, release: () => {} };
  }

  holds(): boolean {
    return true;
  }
}

const FREE_MAX = 8;

export class PlainReadBuffers implements ReadBuffers {
  readonly #free: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#free.pop() ?? new Uint8Array(READ_BUFFER_BYTES);
  }

  give(buffer: Uint8Array): void {
    if (this.#free.length < FREE_MAX) this.#free.push(buffer);
  }
}
