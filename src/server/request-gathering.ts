// request-gathering — puts the frames of large PS function requests together, each frame read straight to its place in the arena.
//
// Invariants:
//   G1. Frames of one request come in order (the session sees to that); those of different requests may interleave.
//   G2. What is put together is bounded per server; a request beyond that is refused, and so are the frames that follow it.
//   G3. What a worker left unfinished goes when the worker is gone, or its link (unfinished-requests.ts, N2, N3).

import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Channel } from "../peer/channel.ts";
import { UnfinishedRequests } from "../peer/unfinished-requests.ts";
import type { FrameHeader } from "../wire/frame.ts";

type Gathering = { readonly address: number; readonly totalBytes: number; arrivedBytes: number };

/** A request in one piece; `release` gives its memory back. */
export type GatheredRequest = { readonly address: number; readonly byteCount: number; release(): void };

const GATHERED_BYTES_MAX = 2 ** 30;

export class RequestGathering {
  readonly #arena: Arena;
  readonly #bytesMax: number;
  /** By the number that the worker gave each. */
  readonly #unfinished: UnfinishedRequests<Gathering>;
  /** Of requests that are complete and have not been released. */
  #completeBytes = 0;

  constructor(arena: Arena, clock: Clock, bytesMax: number = GATHERED_BYTES_MAX) {
    this.#arena = arena;
    this.#bytesMax = bytesMax;
    this.#unfinished = new UnfinishedRequests({
      clock,
      bytesMax,
      workerBytesMax: bytesMax,
      dropped: (gathering) => this.#release(gathering),
    });
  }

  get bytes(): number {
    return this.#unfinished.bytes + this.#completeBytes;
  }

  /** Where this frame's payload belongs, for frames after the first. */
  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    const { arg1: number, arg2: from, payloadBytes } = header;
    const gathering = this.#unfinished.get(channel, number);
    if (gathering === undefined || gathering.arrivedBytes !== from || from + payloadBytes > gathering.totalBytes) return undefined;
    return this.#arena.bytes.subarray(gathering.address + from, gathering.address + from + payloadBytes);
  }

  /** Adds a frame; returns the request when it is complete. Throws BAD_REQUEST, QUEUE_FULL or ARENA_FULL and forgets the request (G2). */
  take(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): GatheredRequest | undefined {
    const { arg1: number, arg2: from, arg3: totalBytes, payloadBytes } = header;
    if (payloadBytes === 0) {
      this.#forget(channel, number);
      throw new WeighbridgeError("BAD_REQUEST", "its sender withdrew the request: memory that it was to be sent from is gone");
    }
    const gathering = from === 0 ? this.#begin(channel, number, totalBytes) : this.#unfinished.get(channel, number);
    if (gathering === undefined)
      throw new WeighbridgeError("BAD_REQUEST", "a part of a request whose beginning was refused, or never came");
    // G1
    if (gathering.arrivedBytes !== from || gathering.totalBytes !== totalBytes || from + payloadBytes > totalBytes) {
      this.#forget(channel, number);
      throw new WeighbridgeError(
        "BAD_REQUEST",
        `bytes ${from} to ${from + payloadBytes} of ${totalBytes}, after ${gathering.arrivedBytes} bytes`,
      );
    }
    const target = gathering.address + from;
    const isThere = bytes.buffer === this.#arena.bytes.buffer && bytes.byteOffset + at === target;
    if (!isThere) this.#arena.bytes.set(bytes.subarray(at, at + payloadBytes), target);
    gathering.arrivedBytes += payloadBytes;
    if (gathering.arrivedBytes < totalBytes) return undefined;
    this.#unfinished.delete(channel, number);
    this.#completeBytes += totalBytes;
    const release = (): void => {
      this.#completeBytes -= totalBytes;
      this.#release(gathering);
    };
    return { address: gathering.address, byteCount: totalBytes, release };
  }

  /** G3 */
  forgetWorker(id: number): void {
    this.#unfinished.forgetWorker(id);
  }

  close(): void {
    this.#unfinished.close();
  }

  #begin(channel: Channel, number: number, totalBytes: number): Gathering {
    this.#forget(channel, number);
    if (this.bytes + totalBytes > this.#bytesMax) {
      const message = `${this.bytes} bytes of unfinished requests are here already, and ${totalBytes} more do not fit`;
      throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
    }
    const gathering: Gathering = { address: this.#arena.allocate(Math.max(1, totalBytes)), totalBytes, arrivedBytes: 0 };
    this.#unfinished.set(channel, number, gathering, totalBytes);
    return gathering;
  }

  #forget(channel: Channel, number: number): void {
    const gathering = this.#unfinished.get(channel, number);
    if (gathering === undefined) return;
    this.#unfinished.delete(channel, number);
    this.#release(gathering);
  }

  #release({ address, totalBytes }: Gathering): void {
    this.#arena.release(address, Math.max(1, totalBytes));
  }
}
