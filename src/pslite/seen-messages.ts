// seen-messages — which messages of a node have come before, so that one that is sent again is taken once (PS_RESEND).
// Pure. ps-lite keeps every signature for ever and leaves the customer out of it; here memory is bounded, and two
// customers are two.
//
// Invariants:
//   W1. Within the newest WINDOW timestamps of a kind of message, a timestamp is new exactly once.
//   W2. What is older than that has been seen: nobody has as many messages unacknowledged.

import type { PsMeta } from "./wire/ps-meta.ts";

const WINDOW = 2 ** 20;
const KINDS_MAX = 4096;

type Window = { readonly bits: Uint32Array; newest: number };

export class SeenMessages {
  readonly #windows = new Map<string, Window>();

  /** True when this message came before. */
  isSeen(meta: PsMeta): boolean {
    const window = this.#windows.get(kindOf(meta));
    const { timestamp } = meta;
    if (window === undefined || timestamp < 0 || timestamp > window.newest) return false;
    if (timestamp <= window.newest - WINDOW) return true; // W2
    return ((window.bits[(timestamp % WINDOW) >> 5] as number) & (1 << (timestamp & 31))) !== 0;
  }

  /** The same, and notes that it came. */
  hasSeen(meta: PsMeta): boolean {
    const { timestamp } = meta;
    if (timestamp < 0) return false;
    const kind = kindOf(meta);
    let window = this.#windows.get(kind);
    if (window === undefined) {
      if (this.#windows.size >= KINDS_MAX) this.#windows.clear();
      window = { bits: new Uint32Array(WINDOW / 32), newest: -1 };
      this.#windows.set(kind, window);
    }
    if (timestamp <= window.newest - WINDOW) return true; // W2
    clearUpTo(window, timestamp);
    const word = (timestamp % WINDOW) >> 5;
    const bit = 1 << (timestamp & 31);
    const isSeen = ((window.bits[word] as number) & bit) !== 0;
    window.bits[word] = (window.bits[word] as number) | bit;
    return isSeen;
  }
}

function kindOf({ command, appId, customerId, simpleApp, request }: PsMeta): string {
  return `${command}/${appId}/${customerId}/${simpleApp}/${request}`;
}

/** Makes `timestamp` the newest if it is, and forgets what the window leaves behind. */
function clearUpTo(window: Window, timestamp: number): void {
  if (timestamp <= window.newest) return;
  if (timestamp - window.newest >= WINDOW) window.bits.fill(0);
  else {
    for (let seen = window.newest + 1; seen <= timestamp; seen++) {
      const word = (seen % WINDOW) >> 5;
      window.bits[word] = (window.bits[word] as number) & ~(1 << (seen & 31));
    }
  }
  window.newest = timestamp;
}
