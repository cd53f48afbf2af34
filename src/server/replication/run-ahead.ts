// run-ahead — lets a head send a run of small pushes (wire/frame.ts) to its standby before it handles them, so that
// both work at once, and the standby's acknowledgement is there when the head has answers to send
// (docs/decisions/0082). Not the log (replica-log.ts), nor what becomes of other requests (logged-requests.ts).
//
//   head      run ──► LOG ──► handle each push ──────────────► acknowledged: the answers leave
//   standby            └────► acknowledge ──► repeat each push
//
// Invariants:
//   RunAhead.A1. A run is sent ahead only if the gate lets every push of it pass: one placement that stands, keys of
//       this server alone, an application that is served, and stamps that follow each other. So no push of it is
//       refused but by its handler.
//   RunAhead.A2. What a handler refuses depends on the request and on the state alone, both of which the standby has.
//       The head's refusals follow the run as entries, and the standby compares them with its own: one that differs
//       leaves the chain. Memory and a checkpoint that is being restored are neither: then no run is sent ahead.
//   RunAhead.A3. Between the run and what its handlers refuse the log has no other entry: the pushes of a run are
//       handled one after the other (FrameReader.R7). If they are not, the standby is given up.

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import { kvPush } from "../../contracts/kv.ts";
import type { Arena } from "../../kernel/arena.ts";
import { KEY_BYTES } from "../../kernel/elements.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import { APP_CUT, type FrameHeader, paddedBytes } from "../../wire/frame.ts";
import { nameOf } from "../../wire/node-id.ts";
import { type Ownership, ownsRawKeys } from "../ownership.ts";
import type { ReplicaLog } from "./replica-log.ts";

/** So much of the memory for state must be free: a table that grows takes twice what it has. */
const FREE_SHARE_MIN = 0.5;

type AheadServer = {
  readonly arena: Pick<Arena, "stateFreeBytes" | "stateBytesMax">;
  readonly ownership: Ownership;
  readonly apps: { readonly served: ReadonlyMap<number, FunctionHandler> };
  readonly parameters: { readonly isRestoring: boolean };
};

/** Of a head. */
export class RunAhead {
  readonly #log: ReplicaLog;
  readonly #server: AheadServer;
  /** The run that is being handled: whose it is, its next push, how many are to come, and to which sink it went. */
  #channel: Channel | undefined;
  #next = 0;
  #left = 0;
  #sinkNumber = 0;
  /** How many pushes the run has. */
  count = 0;
  #bytes: Uint8Array | undefined;
  #words: Uint32Array = new Uint32Array(0);

  constructor(log: ReplicaLog, server: AheadServer) {
    this.#log = log;
    this.#server = server;
  }

  /** Whether this new request is in the log already, with its run. The first one of a run that may be sent now is. */
  has(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    if (this.#left > 0 && channel === this.#channel && header.request === this.#next && this.#sinkNumber === this.#log.sinkNumber) {
      this.#next++;
      this.#left--;
      return true;
    }
    this.expectOver();
    if (header.more === 0 || !this.#log.takesAhead || !this.#maySend(header, bytes, at)) return false;
    this.#log.appendRun(channel, header, bytes, at);
    this.#channel = channel;
    this.#next = header.request + 1;
    this.#left = header.more;
    this.#sinkNumber = this.#log.sinkNumber;
    this.count = 1 + header.more;
    return true;
  }

  /** Whether the last push of the run is, or was, the one that is being handled. */
  get isOver(): boolean {
    return this.#left === 0;
  }

  /** RunAhead.A1, RunAhead.A2 */
  #maySend(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    const { ownership, apps, arena, parameters } = this.#server;
    const { functionId, flags, epoch, app, stamp, arg0: keyCount, payloadBytes, more } = header;
    if (functionId !== kvPush.id || stamp === 0 || (flags & APP_CUT) !== 0) return false;
    if (epoch === 0 || epoch !== ownership.epoch || ownership.isSettling || ownership.isOnTheWay) return false;
    if (!apps.served.has(app) || parameters.isRestoring || arena.stateFreeBytes < arena.stateBytesMax * FREE_SHARE_MIN) return false;
    if (keyCount === 0 || keyCount * KEY_BYTES > payloadBytes) return false;
    if (at + paddedBytes(payloadBytes) * (1 + more) > bytes.byteLength) return false; // it is kept without the others
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
    }
    const stride = paddedBytes(payloadBytes) >> 2;
    for (let i = 0, word = at >> 2; i <= more; i++, word += stride) {
      if (!ownsRawKeys(ownership, this.#words, word, keyCount)) return false;
    }
    return true;
  }

  /** Something else is about to be logged (RunAhead.A3). */
  expectOver(): void {
    if (this.#left === 0) return;
    const missing = this.#left;
    this.#left = 0;
    if (this.#sinkNumber !== this.#log.sinkNumber) return; // the standby that has it was given up
    const message = `${missing} of ${this.count} pushes of ${this.#channel?.name} that the standby has were not handled`;
    this.#log.giveUp(new WeighbridgeError("HANDLER_FAILED", message));
  }
}

/** How a push may be refused by its handler because of the request and the state alone (RunAhead.A2). */
const DETERMINED_CODES = new Set<string>(["BAD_REQUEST", "KEYS_NOT_ASCENDING", "UNSUPPORTED", "VALUE_LENGTH"]);

/** Whether its head has refused it, too; anything else, as a lack of memory, this standby alone may have met. */
export function isDetermined(thrown: unknown): boolean {
  return thrown instanceof WeighbridgeError && DETERMINED_CODES.has(thrown.code);
}

/** Of a standby: what it refused of the last run that came ahead, until its head has said the same (RunAhead.A2). */
export class RefusedAhead {
  /** Whether the last entry was such a run, or what the head refused of it. */
  isOpen = false;
  #node = 0;
  #incarnation = 0;
  #first = 0;
  #last = 0;
  readonly #stamps = new Set<number>();

  /** The run that is about to be repeated. */
  begin(node: number, incarnation: number, { stamp, more }: Pick<FrameHeader, "stamp" | "more">): void {
    this.isOpen = true;
    this.#node = node;
    this.#incarnation = incarnation;
    this.#first = stamp;
    this.#last = stamp + more;
  }

  add(stamp: number): void {
    this.#stamps.add(stamp);
  }

  /** The head has refused this update. Throws BAD_REQUEST if this standby has taken it. */
  compare(node: number, incarnation: number, stamp: number): void {
    if (!this.isOpen || node !== this.#node || incarnation !== this.#incarnation) return;
    if (stamp < this.#first || stamp > this.#last || this.#stamps.delete(stamp)) return;
    throw badRequest(`its head refused update ${stamp} of ${nameOf(node)}, which was taken here`);
  }

  /** Another entry follows. Throws BAD_REQUEST if the head has taken what this standby refused. */
  end(): void {
    this.isOpen = false;
    const [stamp] = this.#stamps;
    if (stamp === undefined) return;
    this.#stamps.clear();
    throw badRequest(`its head took update ${stamp} of ${nameOf(this.#node)}, which was refused here`);
  }

  /** There is no head any more: what was refused here is refused. */
  forget(): void {
    this.isOpen = false;
    this.#stamps.clear();
  }
}
