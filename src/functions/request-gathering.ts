// request-gathering — puts the frames of large PS function requests together, each frame read straight to its place in the arena.
//
// Invariants:
//   G1. Frames of one request come in order (the session sees to that); those of different requests may interleave.
//   G2. What is put together is bounded per server; a request beyond that is refused, and so are the frames that follow it.
//   G3. What a worker left unfinished goes with its life.

import { WeighbridgeError } from "../base/errors.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Channel } from "../peer/channel.ts";
import type { FrameHeader } from "../wire/frame.ts";

type Gathering = { readonly address: number; readonly totalBytes: number; arrivedBytes: number };

/** A request in one piece; `release` gives its memory back. */
export type GatheredRequest = { readonly address: number; readonly byteCount: number; release(): void };

const GATHERED_BYTES_MAX = 2 ** 30;

export class RequestGathering {
  readonly #arena: Arena;
  readonly #bytesMax: number;
  #bytes = 0;
  /** By worker, the unfinished requests of its present life by their number. */
  readonly #unfinished = new Map<number, { readonly incarnation: number; readonly gatherings: Map<number, Gathering> }>();

  constructor(arena: Arena, bytesMax: number = GATHERED_BYTES_MAX) {
    this.#arena = arena;
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Where this frame's payload belongs, for frames after the first. */
  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    const { arg1: number, arg2: from, payloadBytes } = header;
    const gathering = this.#of(channel).get(number);
    if (gathering === undefined || gathering.arrivedBytes !== from || from + payloadBytes > gathering.totalBytes) return undefined;
    return this.#arena.bytes.subarray(gathering.address + from, gathering.address + from + payloadBytes);
  }

  /** Adds a frame; returns the request when it is complete. Throws BAD_REQUEST, QUEUE_FULL or ARENA_FULL and forgets the request (G2). */
  take(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): GatheredRequest | undefined {
    const { arg1: number, arg2: from, arg3: totalBytes, payloadBytes } = header;
    const gatherings = this.#of(channel);
    if (payloadBytes === 0) {
      this.#forget(gatherings, number);
      throw new WeighbridgeError("BAD_REQUEST", "its sender withdrew the request: memory that it was to be sent from is gone");
    }
    const gathering = from === 0 ? this.#begin(gatherings, number, totalBytes) : gatherings.get(number);
    if (gathering === undefined)
      throw new WeighbridgeError("BAD_REQUEST", "a part of a request whose beginning was refused, or never came");
    // G1
    if (gathering.arrivedBytes !== from || gathering.totalBytes !== totalBytes || from + payloadBytes > totalBytes) {
      this.#forget(gatherings, number);
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
    gatherings.delete(number);
    return { address: gathering.address, byteCount: totalBytes, release: () => this.#release(gathering) };
  }

  /** G3 */
  forgetWorker(id: number): void {
    const known = this.#unfinished.get(id);
    if (known === undefined) return;
    for (const gathering of known.gatherings.values()) this.#release(gathering);
    this.#unfinished.delete(id);
  }

  close(): void {
    for (const id of [...this.#unfinished.keys()]) this.forgetWorker(id);
  }

  #of({ id, incarnation }: Channel): Map<number, Gathering> {
    const known = this.#unfinished.get(id);
    if (known?.incarnation === incarnation) return known.gatherings;
    this.forgetWorker(id);
    const gatherings = new Map<number, Gathering>();
    this.#unfinished.set(id, { incarnation, gatherings });
    return gatherings;
  }

  #begin(gatherings: Map<number, Gathering>, number: number, totalBytes: number): Gathering {
    this.#forget(gatherings, number);
    if (this.#bytes + totalBytes > this.#bytesMax) {
      throw new WeighbridgeError(
        "QUEUE_FULL",
        `${this.#bytes} bytes of unfinished requests are here already, and ${totalBytes} more do not fit`,
        {
          retryable: true,
        },
      );
    }
    const gathering: Gathering = { address: this.#arena.allocate(Math.max(1, totalBytes)), totalBytes, arrivedBytes: 0 };
    this.#bytes += totalBytes;
    gatherings.set(number, gathering);
    return gathering;
  }

  #forget(gatherings: Map<number, Gathering>, number: number): void {
    const gathering = gatherings.get(number);
    if (gathering === undefined) return;
    gatherings.delete(number);
    this.#release(gathering);
  }

  #release({ address, totalBytes }: Gathering): void {
    this.#arena.release(address, Math.max(1, totalBytes));
    this.#bytes -= totalBytes;
  }
}
