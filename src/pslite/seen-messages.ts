// seen-messages — which messages of a node have arrived before, so that a resent one is handled once (PS_RESEND). Pure.
// ps-lite keeps every signature forever and leaves the customer out of it; here memory is bounded, and two customers
// are distinct.
//
// Invariants:
//   SeenMessages.W1. Within the newest WINDOW timestamps of a kind of message, a timestamp is new exactly once.
//   SeenMessages.W2. Older ones count as seen: no node has that many messages unacknowledged.
//   SeenMessages.W3. Timestamps are counted modulo MODULUS: our own nodes wrap around after that many requests.
//   SeenMessages.W4. A kind of message costs a bit for each timestamp between its first and its newest, at most WINDOW:
//       most kinds have few messages.

import type { PsMeta } from "./wire/ps-meta.ts";

const WINDOW = 2 ** 20;
const MODULUS_BITS = 29;
const SHIFT = 32 - MODULUS_BITS;
const KINDS_MAX = 4096;
const WINDOW_MIN = 1024;

/** One bit for each timestamp, at its number modulo their count, which is a power of two. */
type Window = { bits: Uint32Array; newest: number };

export class SeenMessages {
  readonly #windows = new Map<string, Window>();

  /** Whether this message came before. */
  isSeen(meta: PsMeta): boolean {
    const window = this.#windows.get(kindOf(meta));
    if (window === undefined) return false;
    const age = ageOf(meta.timestamp, window);
    if (age < 0) return false;
    return age >= WINDOW || (age < bitCountOf(window) && hasBit(window, meta.timestamp)); // SeenMessages.W2
  }

  /** Records that this message arrived. */
  add(meta: PsMeta): void {
    const { timestamp } = meta;
    const kind = kindOf(meta);
    let window = this.#windows.get(kind);
    if (window === undefined) {
      const [oldest] = this.#windows.keys();
      if (this.#windows.size >= KINDS_MAX && oldest !== undefined) this.#windows.delete(oldest);
      window = { bits: new Uint32Array(WINDOW_MIN / 32), newest: timestamp };
      this.#windows.set(kind, window);
    }
    const age = ageOf(timestamp, window);
    if (age >= WINDOW) return;
    if (age < 0) advance(window, timestamp, -age);
    else while (age >= bitCountOf(window)) grow(window);
    setBit(window, timestamp);
  }
}

function kindOf({ command, appId, customerId, simpleApp, request }: PsMeta): string {
  return `${command}/${appId}/${customerId}/${simpleApp}/${request}`;
}

/** How far behind the newest it is; below 0 if it is newer (SeenMessages.W3). */
function ageOf(timestamp: number, { newest }: Window): number {
  return ((newest - timestamp) << SHIFT) >> SHIFT;
}

function bitCountOf({ bits }: Window): number {
  return bits.length * 32;
}

function wordOf({ bits }: Window, timestamp: number): number {
  return (timestamp >>> 5) & (bits.length - 1);
}

function hasBit(window: Window, timestamp: number): boolean {
  return ((window.bits[wordOf(window, timestamp)] as number) & (1 << (timestamp & 31))) !== 0;
}

function setBit(window: Window, timestamp: number): void {
  const word = wordOf(window, timestamp);
  window.bits[word] = (window.bits[word] as number) | (1 << (timestamp & 31));
}

/** Makes `timestamp` the newest, `count` after the last one. What is overwritten is WINDOW older (SeenMessages.W1). */
function advance(window: Window, timestamp: number, count: number): void {
  while (bitCountOf(window) < WINDOW && !isFree(window, count)) grow(window);
  const bitCount = bitCountOf(window);
  if (count >= bitCount) window.bits.fill(0);
  else for (let i = 0; i < count; i++) clearBit(window, timestamp - i);
  window.newest = timestamp;
}

/** Whether the next `count` timestamps overwrite no bit that was seen. */
function isFree(window: Window, count: number): boolean {
  const bitCount = bitCountOf(window);
  if (count >= bitCount) return window.bits.every((word) => word === 0);
  for (let i = 1; i <= count; i++) if (hasBit(window, window.newest + i)) return false;
  return true;
}

function clearBit(window: Window, timestamp: number): void {
  const word = wordOf(window, timestamp);
  window.bits[word] = (window.bits[word] as number) & ~(1 << (timestamp & 31));
}

/** Doubles the bits; those that were seen are kept. */
function grow(window: Window): void {
  const { bits, newest } = window;
  const larger: Window = { bits: new Uint32Array(2 * bits.length), newest };
  for (let age = 0; age < bits.length * 32; age++) if (hasBit(window, newest - age)) setBit(larger, newest - age);
  window.bits = larger.bits;
}
