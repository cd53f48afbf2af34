// rendezvous-client — a worker's side of a rendezvous: it comes, waits, and remembers what it left, for a scheduler
// that is restarted.
//
// Invariants:
//   RendezvousClient.C1. What is remembered is bounded: the last REMEMBERED_MAX generations that were held, and what
//       fits a message.
//   RendezvousClient.C2. A rendezvous that lasts longer than LONG_MS says once in the log for whom it waits.

import type { Clock } from "../base/clock.ts";
import { type WaitOptions, waitFor } from "../base/deferred.ts";
import { badArgument, isWeighbridgeError, showValue, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, moreThanOptions, WAIT_NAMES } from "../base/known-options.ts";
import type { Membership } from "../cluster/membership.ts";
import { RENDEZVOUS } from "../contracts/coordination.ts";
import { LONG_MS } from "../contracts/long-waits.ts";
import type { RendezvousHeld, RendezvousName, RendezvousReply, RendezvousRequest, RendezvousValue } from "../wire/control.ts";
import { RENDEZVOUS_NAME_LENGTH_MAX, RENDEZVOUS_VALUE_LENGTH_MAX } from "../wire/control.ts";
import { idOf, nameOf } from "../wire/node-id.ts";
import type { LongWaits } from "./long-waits.ts";

export type RendezvousOptions = WaitOptions & {
  /** Which one of this name, 0, 1, 2 …: each is held once. */
  readonly generation: number;
  /** What this worker comes with; at most 1,024 characters. Defaults to "". */
  readonly value?: string | undefined;
};

/** How long one request waits at the scheduler. */
const ASK_MS = 1000;
const REMEMBERED_MAX = 16;
const REMEMBERED_LENGTH_MAX = 65_536;
const OPTION_NAMES: readonly string[] = ["generation", "value", ...WAIT_NAMES];
const LOOK_NAMES: readonly string[] = ["waitMs", ...OPTION_NAMES];
const WHAT = "the options of a rendezvous";

type RendezvousGround = {
  readonly membership: Membership;
  readonly clock: Clock;
  readonly longWaits?: Pick<LongWaits, "tell"> | undefined;
};

export class RendezvousClient {
  readonly #membership: Membership;
  readonly #clock: Clock;
  readonly #longWaits: RendezvousGround["longWaits"];
  readonly #held: RendezvousHeld[] = [];

  constructor({ membership, clock, longWaits }: RendezvousGround) {
    this.#membership = membership;
    this.#clock = clock;
    this.#longWaits = longWaits;
    membership.memory.rendezvous = () => this.#held;
  }

  /**
   * Waits until every worker that lives has come; resolves with everybody's value, by rank. Rejects with DEADLINE and
   * the ranks of those that are missing. Throws BAD_ARGUMENT.
   */
  async meet(name: string, options: RendezvousOptions): Promise<readonly RendezvousValue[]>;
  async meet(name: string, options: RendezvousOptions, more?: unknown): Promise<readonly RendezvousValue[]> {
    if (more !== undefined) throw moreThanOptions(more, "a rendezvous");
    const rendezvous = this.open(name, options);
    while (!(await rendezvous.isHeld()));
    return rendezvous.values;
  }

  /** For callers that do other things while they wait. Comes with the first look. `title` is for errors. */
  open(name: string, options: RendezvousOptions, title?: string): Rendezvous {
    checkWaitOptions(options, OPTION_NAMES, WHAT);
    const { generation, timeoutMs } = options;
    const look: Look = (restMs, waitMs) => this.look(name, { ...options, timeoutMs: restMs, waitMs });
    const tell = (waits: string): void => this.#longWaits?.tell(waits, "a wait for workers");
    return new Rendezvous({ look, clock: this.#clock, title: title ?? titleOf({ name, generation }), timeoutMs, tell });
  }

  /**
   * Comes, and waits for the others `waitMs` at most: then resolves with those who are missing. Throws BAD_ARGUMENT.
   */
  async look(name: string, options: RendezvousOptions & { readonly waitMs: number }): Promise<RendezvousReply> {
    checkWaitOptions(options, LOOK_NAMES, WHAT);
    const { generation, value = "", waitMs, timeoutMs, signal } = options;
    const request = checked({ name, generation, value, waitMs: Math.ceil(waitMs) });
    const reply = await waitFor(this.#membership.callScheduler(RENDEZVOUS, request), titleOf(request), this.#clock, { timeoutMs, signal });
    if (reply.values !== undefined) this.#remember({ name, generation, values: reply.values });
    return reply;
  }

  #remember(held: RendezvousHeld): void {
    if (this.#held.some(({ name, generation }) => name === held.name && generation === held.generation)) return;
    this.#held.push(held);
    while (this.#held.length > REMEMBERED_MAX || (this.#held.length > 1 && lengthOf(this.#held) > REMEMBERED_LENGTH_MAX))
      this.#held.shift(); // RendezvousClient.C1
  }
}

type Look = (timeoutMs: number | undefined, waitMs: number) => Promise<RendezvousReply>;
type RendezvousDetails = {
  readonly look: Look;
  readonly clock: Clock;
  readonly title: string;
  readonly timeoutMs?: number | undefined;
  /** Called once, when it lasts long, with what is waited for (RendezvousClient.C2). */
  readonly tell?: (waits: string) => void;
};

/** A rendezvous that this worker comes to. */
export class Rendezvous {
  /** Every worker's, by rank, once it was held. */
  values: readonly RendezvousValue[] = [];
  readonly #details: RendezvousDetails;
  readonly #until: number;
  #missing: readonly number[] = [];
  /** When this worker came. */
  #cameAtMs: number | undefined;
  #isTold = false;

  constructor(details: RendezvousDetails) {
    this.#details = details;
    this.#until = details.clock.nowMs() + (details.timeoutMs ?? Infinity);
  }

  /**
   * Looks whether all live workers have come; waits `waitMs` for them at most. Rejects with DEADLINE and the missing
   * ranks.
   */
  async isHeld(waitMs: number = ASK_MS): Promise<boolean> {
    const { look, clock, timeoutMs } = this.#details;
    this.#cameAtMs ??= clock.nowMs();
    const restMs = timeoutMs === undefined ? undefined : Math.max(0, this.#until - clock.nowMs());
    try {
      const { values, missing = [] } = await look(restMs, Math.min(waitMs, (restMs ?? Infinity) / 2));
      this.values = values ?? [];
      if (values !== undefined) return true;
      this.#missing = missing;
      if (clock.nowMs() - this.#cameAtMs >= LONG_MS) this.#tellOnce();
    } catch (thrown) {
      throw isWeighbridgeError(thrown, "DEADLINE") ? this.#missed() : thrown;
    }
    if (clock.nowMs() >= this.#until) throw this.#missed();
    return false;
  }

  /** RendezvousClient.C2 */
  #tellOnce(): void {
    const { title, tell } = this.#details;
    if (this.#isTold || this.#missing.length === 0) return;
    this.#isTold = true;
    tell?.(`at ${title} for ${this.#missing.map((rank) => nameOf(idOf("worker", rank))).join(", ")}`);
  }

  #missed(): WeighbridgeError {
    const { title, timeoutMs } = this.#details;
    const missing = this.#missing;
    const whom = missing.length === 0 ? "the scheduler" : `worker${missing.length > 1 ? "s" : ""} ${missing.join(", ")}`;
    return new WeighbridgeError("DEADLINE", `waited ${timeoutMs} ms at ${title} for ${whom}`, { retryable: true });
  }
}

function lengthOf(held: readonly RendezvousHeld[]): number {
  return held.reduce((sum, { values }) => sum + values.reduce((length, { value }) => length + value.length, 0), 0);
}

function checked(request: RendezvousRequest): RendezvousRequest {
  const { name, generation, value } = request;
  const isText = (text: unknown, lengthMax: number): boolean => typeof text === "string" && text.length <= lengthMax;
  if (!isText(name, RENDEZVOUS_NAME_LENGTH_MAX) || name === "") throw bad(`a name of 1 to ${RENDEZVOUS_NAME_LENGTH_MAX} characters`, name);
  if (!(Number.isSafeInteger(generation) && generation >= 0)) throw bad("a generation from 0 up", generation);
  if (!isText(value, RENDEZVOUS_VALUE_LENGTH_MAX))
    throw bad(`a text of at most ${RENDEZVOUS_VALUE_LENGTH_MAX} characters as its value`, value);
  return request;
}

function bad(expected: string, found: unknown): WeighbridgeError {
  return badArgument(`a rendezvous has ${expected}, not ${showValue(found)}`);
}

function titleOf({ name, generation }: RendezvousName): string {
  return `rendezvous ${generation} of "${name}"`;
}
