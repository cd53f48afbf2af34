// guests — the clients of a job that are not counted: who is there, by number and token, since when, and when each last
// sent something. Pure; roster.ts asks it. Servers learn the list with the roster, and forget what a guest left there
// when it is no longer in it (docs/decisions/0069).
//
//   waiting ── the job runs ──► there ── LEAVE, or silent for the heartbeat timeout ──► forgotten, for good
//
// Invariants:
//   Guests.G1. A scheduler gives a number to one guest, and one after the other: none again before all were given.
//       Those of different schedulers may be the same; then tokens tell the guests apart, here and on servers
//       (GuestList.L2). One that was forgotten never counts again: its hellos, heartbeats and resumed registrations are
//       FENCED, so that nothing it sent before is applied by servers that forgot its stamps.
//   Guests.G2. At most GUESTS_MAX are there: the list fits a frame.
//   Guests.G3. A restarted scheduler knows the guests of the newest roster that a server brings, those that it has let
//       in itself, and no others.
//   Guests.G4. A new guest is answered once a server has heard of it, if one is alive: then the next scheduler does
//       (roster-push.ts).

import { WeighbridgeError } from "../base/errors.ts";
import { hashText } from "../keys/mix.ts";
import type { GuestStatus } from "../wire/control.ts";
import { FIRST_GUEST_ID, nameOf } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";
import type { GuestEntry } from "../wire/roster.ts";
import { LINK_GRACE_MS } from "./rank-slot.ts";

/** With their tokens they take a third of the largest frame. */
export const GUESTS_MAX = 2048;
/** From FIRST_GUEST_ID on. */
const GUEST_NUMBERS = 2 ** 31;

type Guest = GuestEntry & {
  /** As it names itself; "" until one that an earlier scheduler let in has come back. */
  label: string;
  /** When it came; undefined: before this scheduler was started. */
  readonly cameAtMs: number | undefined;
  heardAtMs: number;
  /** Since when it has no link to us; undefined while it has one. */
  downSinceMs: number | undefined;
};

type GuestName = Pick<RegisterRequest, "token" | "label">;

export class Guests {
  readonly #guests = new Map<number, Guest>();
  readonly #heartbeatTimeoutMs: number;
  #drawn = 0;

  /** A timeout of 0: only a closed link shows that a guest is gone. */
  constructor(heartbeatTimeoutMs: number) {
    this.#heartbeatTimeoutMs = heartbeatTimeoutMs;
  }

  get size(): number {
    return this.#guests.size;
  }

  has(node: number): boolean {
    return this.#guests.has(node);
  }

  /** For the servers. */
  entries(): GuestEntry[] {
    return [...this.#guests.values()].map(({ node, token }) => ({ node, token }));
  }

  /** For people. Those that came first, first. */
  status(nowMs: number): GuestStatus[] {
    const ago = (atMs: number): number => Math.max(0, Math.round(nowMs - atMs));
    return [...this.#guests.values()].map(({ node, label, cameAtMs, heardAtMs, downSinceMs }) => ({
      ...{ node, label, heartbeatAgeMs: ago(heardAtMs), linked: downSinceMs === undefined },
      ...(cameAtMs === undefined ? {} : { hereMs: ago(cameAtMs) }),
    }));
  }

  /**
   * Returns the number of the guest with this token, which is new, or lost our answer. `seed` differs for every
   * scheduler of every run. Throws QUEUE_FULL (Guests.G2).
   */
  admit({ token, label }: GuestName, seed: string, nowMs: number): number {
    const known = [...this.#guests.values()].find((guest) => guest.token === token);
    if (known === undefined && this.#guests.size >= GUESTS_MAX)
      throw new WeighbridgeError("QUEUE_FULL", `${GUESTS_MAX} guests are there already; try again when some have left`, {
        retryable: true,
      });
    const node = known?.node ?? this.#draw(seed);
    const cameAtMs = known === undefined ? nowMs : known.cameAtMs;
    this.#guests.set(node, { node, token, label, cameAtMs, heardAtMs: nowMs, downSinceMs: undefined });
    return node;
  }

  /** The guest is there in this scheduler's time, too. False if it is not known, or by another token (Guests.G1). */
  resume(node: number, { token, label }: GuestName, nowMs: number): boolean {
    const known = this.#guests.get(node);
    if (known?.token !== token) return false;
    known.label = label;
    known.heardAtMs = nowMs;
    known.downSinceMs = undefined;
    return true;
  }

  /** Guests.G3 */
  recall(guests: readonly GuestEntry[], nowMs: number): void {
    const before = [...this.#guests.values()];
    this.#guests.clear();
    for (const { node, token } of guests)
      this.#guests.set(node, { node, token, label: "", cameAtMs: undefined, heardAtMs: nowMs, downSinceMs: nowMs });
    for (const guest of before)
      if (guest.cameAtMs !== undefined || this.#guests.get(guest.node)?.token === guest.token) this.#guests.set(guest.node, guest);
  }

  /** It sent something. Throws FENCED (Guests.G1). */
  heard(node: number, nowMs: number): void {
    const guest = this.#guests.get(node);
    if (guest === undefined) throw this.forgotten(node);
    guest.heardAtMs = nowMs;
    guest.downSinceMs = undefined;
  }

  linkDown(node: number, nowMs: number): void {
    const guest = this.#guests.get(node);
    if (guest !== undefined) guest.downSinceMs ??= nowMs;
  }

  leave(node: number): void {
    this.#guests.delete(node);
  }

  /** Forgets those that were silent for too long, and may be judged (silence-verdicts.ts). Returns them. */
  expire(nowMs: number, mayJudge: (heardAtMs: number) => boolean = () => true): number[] {
    const silent = [...this.#guests.values()].filter((guest) => nowMs >= this.#endOf(guest) && mayJudge(guest.heardAtMs));
    for (const { node } of silent) this.#guests.delete(node);
    return silent.map(({ node }) => node);
  }

  /** When `expire` has to be called, if nothing else happens before. */
  dueMs(notBeforeMs: (heardAtMs: number) => number = () => -Infinity): number {
    let dueMs = Infinity;
    for (const guest of this.#guests.values()) dueMs = Math.min(dueMs, Math.max(this.#endOf(guest), notBeforeMs(guest.heardAtMs)));
    return dueMs;
  }

  /** Throws FENCED for a guest that is not there, or shows another token (Guests.G1). */
  check({ node, token }: { readonly node: number; readonly token?: string | undefined }): void {
    if (this.#guests.get(node)?.token !== token) throw this.forgotten(node);
  }

  forgotten(node: number): WeighbridgeError {
    const silent = this.#heartbeatTimeoutMs === 0 ? "without a link" : `silent for ${this.#heartbeatTimeoutMs} ms`;
    return new WeighbridgeError("FENCED", `${nameOf(node)} is no guest of this job any more: it left, or was ${silent}; connect again`);
  }

  #endOf({ heardAtMs, downSinceMs }: Guest): number {
    if (this.#heartbeatTimeoutMs > 0) return heardAtMs + this.#heartbeatTimeoutMs;
    return downSinceMs === undefined ? Infinity : downSinceMs + LINK_GRACE_MS;
  }

  #draw(seed: string): number {
    const first = hashText(seed) >>> 1;
    for (;;) {
      const node = FIRST_GUEST_ID + ((first + ++this.#drawn) % GUEST_NUMBERS);
      if (!this.#guests.has(node)) return node;
    }
  }
}
