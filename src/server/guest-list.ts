// guest-list — the guests that a server serves, as its roster lists them (docs/decisions/0069): who may dial it, and
// whose traces go when they are no longer listed. Not what those are: server.ts forgets them.
//
// Invariants:
//   GuestList.L1. A guest is served from the roster that lists it first to the one that does not. Then its conversation
//       ends with all that the server kept of it, stamps included: what it sends later meets no handler.
//   GuestList.L2. A guest is its number and its token. A number with another token is another guest, which has nothing
//       of the one before, also if no roster without either came here.

import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import type { GuestEntry } from "../wire/roster.ts";

export class GuestList {
  /** Ends the conversation with a guest that is gone. */
  onGone: (node: number) => void = () => {};
  /** By number: the token that its hellos show. */
  #tokens: ReadonlyMap<number, string> = new Map();

  get size(): number {
    return this.#tokens.size;
  }

  has(node: number): boolean {
    return this.#tokens.has(node);
  }

  /** Takes a newer list; returns those that are gone. */
  follow(guests: readonly GuestEntry[] = []): number[] {
    const before = this.#tokens;
    this.#tokens = new Map(guests.map(({ node, token }) => [node, token]));
    const gone: number[] = [];
    for (const [node, token] of before) if (this.#tokens.get(node) !== token) gone.push(node); // GuestList.L2
    for (const node of gone) this.onGone(node);
    return gone;
  }

  /** Throws NO_ROUTE for a guest that is not listed: it has not been yet, or is no longer (GuestList.L1). */
  check({ node, token }: { readonly node: number; readonly token?: string | undefined }): void {
    if (this.#tokens.get(node) === token && token !== undefined) return;
    throw new WeighbridgeError("NO_ROUTE", `${nameOf(node)} is no guest that this server knows`, { retryable: true });
  }
}
