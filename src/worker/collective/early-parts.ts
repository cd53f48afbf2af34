// early-parts — parts that came before their operation was called here, or before this member knew of their generation.
// They are unanswered until it is, so that their senders do not go on forever.
//
// Invariants:
//   EarlyParts.E1. Of one sender at most PARTS_OPEN_MAX parts of an operation are kept, of operations not far ahead,
//       and of one generation that is to come.
//   EarlyParts.E2. A part whose sender is gone is dropped: it is neither taken nor answered (KeptRequest.K1).

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import type { Channel } from "../../peer/channel.ts";
import { KeptRequest } from "../../peer/kept-request.ts";
import { OPERATIONS_OPEN_MAX, PARTS_OPEN_MAX } from "../../wire/collective-frame.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import type { PartLabel } from "./operation.ts";

export type EarlyPart = {
  readonly request: KeptRequest;
  readonly label: PartLabel;
  readonly payload: Uint8Array;
};

export class EarlyParts {
  #parts: EarlyPart[] = [];

  get count(): number {
    return this.#parts.length;
  }

  /**
   * Keeps a copy. `next`: the first operation not called here. Throws BAD_REQUEST for what cannot be needed
   * (EarlyParts.E1).
   */
  hold(channel: Channel, header: FrameHeader, label: PartLabel, payload: Uint8Array, next: number): void {
    const { generation, sequence } = label;
    this.#takeOut(({ request }) => !request.isOpen);
    const own = this.#parts.filter(({ request }) => request.channel === channel);
    if (own.some((part) => part.label.generation < generation)) this.#refuseBefore(channel, generation);
    const isFar = sequence >= next + 2 * OPERATIONS_OPEN_MAX; // it cannot have gone on further without us
    const count = own.filter((part) => part.label.generation === generation && part.label.sequence === sequence).length;
    if (isFar || count >= PARTS_OPEN_MAX) {
      const message = `${channel.name} is too far ahead: part ${label.index} of operation ${sequence}, while ${next} comes next here`;
      throw badRequest(message);
    }
    this.#parts.push({ request: new KeptRequest(channel, header), label, payload: payload.slice() });
  }

  /** Takes out what came for this operation, in the order of each sender. */
  take(generation: number, sequence: number): EarlyPart[] {
    return this.#takeOut(({ label }) => label.generation === generation && label.sequence === sequence);
  }

  /** Those of operations from this one on, and of all earlier generations, are refused. */
  refuse({ generation, from }: { readonly generation: number; readonly from: number }, error: WeighbridgeError): void {
    const isOver = (label: PartLabel): boolean =>
      label.generation < generation || (label.generation === generation && label.sequence >= from);
    for (const { request } of this.#takeOut(({ label }) => isOver(label))) request.fail(error);
  }

  #refuseBefore(channel: Channel, generation: number): void {
    const error = new WeighbridgeError("NODE_DEAD", `${channel.name} has begun generation ${generation}`, { retryable: true });
    const older = this.#takeOut(({ request, label }) => request.channel === channel && label.generation < generation);
    for (const { request } of older) request.fail(error);
  }

  /** Removes these parts, and returns those whose senders still wait for an answer. */
  #takeOut(isWanted: (part: EarlyPart) => boolean): EarlyPart[] {
    const taken = this.#parts.filter(isWanted);
    if (taken.length > 0) this.#parts = this.#parts.filter((part) => !isWanted(part));
    return taken.filter(({ request }) => request.isOpen); // EarlyParts.E2
  }
}
