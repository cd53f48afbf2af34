// simple-bodies — puts the frames of SIMPLE requests with long bodies together (wire/simple-frame.ts), and hands whole ones on.
//
// Invariants:
//   B1. Frames of one request come in order (the session sees to that); those of different requests may interleave.
//   B2. What is put together is bounded, and goes when its sender is gone (unfinished-requests.ts); a body of more than BODY_BYTES_MAX is refused.
//   B3. A request is handed on whole or not at all: once a frame was refused, the rest is refused too.

import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { joinBytes } from "../base/join-bytes.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import { FrameHeader } from "../wire/frame.ts";
import { BODY_BYTES_MAX, bodyTooLong, SimpleFlag } from "../wire/simple-frame.ts";
import { UnfinishedRequests } from "./unfinished-requests.ts";

type Body = { readonly totalBytes: number; readonly parts: Uint8Array[]; arrivedBytes: number };

export class SimpleBodies implements FunctionHandler {
  readonly #inner: FunctionHandler;
  readonly #unfinished: UnfinishedRequests<Body>;

  constructor(inner: FunctionHandler, clock: Clock) {
    this.#inner = inner;
    this.#unfinished = new UnfinishedRequests({ clock });
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const isPart = (header.flags & SimpleFlag.PART) !== 0;
    if (!isPart && header.arg3 === 0) {
      this.#inner.handle(channel, header, bytes, at, fresh);
      return;
    }
    const body = fresh ? this.#take(channel, header, bytes.slice(at, at + header.payloadBytes)) : undefined;
    if (isPart) {
      if (body !== undefined) throw bad("is complete before its last part");
      channel.acknowledge(header);
      return;
    }
    if (fresh && body === undefined) throw bad("ends before it is complete");
    const whole = body === undefined ? new Uint8Array(0) : joinBytes(body.parts); // who comes again has been served
    this.#inner.handle(channel, Object.assign(new FrameHeader(), header, { payloadBytes: whole.length }), whole, 0, fresh);
  }

  close(): void {
    this.#unfinished.close();
  }

  /** Adds a frame; returns the body when it is complete. Throws BAD_REQUEST or QUEUE_FULL, and forgets it (B3). */
  #take(channel: Channel, header: FrameHeader, payload: Uint8Array): Body | undefined {
    const { arg1: number, arg2: from, arg3: totalBytes } = header;
    const name = `${header.app}/${header.customer}/${number}`;
    const body = from === 0 ? { totalBytes, parts: [], arrivedBytes: 0 } : this.#unfinished.get(channel, name);
    this.#unfinished.delete(channel, name);
    if (body === undefined) throw bad("goes on whose beginning was refused, or never came");
    if (totalBytes > BODY_BYTES_MAX) throw new WeighbridgeError("BAD_REQUEST", bodyTooLong(totalBytes)); // B2
    const end = from + payload.length;
    if (body.arrivedBytes !== from || body.totalBytes !== totalBytes || end > totalBytes || payload.length === 0)
      throw bad(`has bytes ${from} to ${end} of ${totalBytes} after ${body.arrivedBytes} bytes`);
    body.parts.push(payload);
    body.arrivedBytes = end;
    if (end === totalBytes) return body;
    this.#unfinished.set(channel, name, body, end);
    return undefined;
  }
}

function bad(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_REQUEST", `a body ${what}`);
}
