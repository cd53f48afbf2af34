// request-gate — the checks of every request before its handler: the vector clock (was it applied before?), the epoch
// (was it cut by this server's placement?), and, for kv, the owner of its keys. Functions check their decoded keys and
// blocks themselves (function-host.ts).
//
//   applied before                   answered again, whatever its epoch
//   an update with stamp 0           refused whole with BAD_REQUEST (functions: function-host.ts)
//   cut by the application (APP_CUT) served; nothing is checked
//   epoch 0                          a function whose target is a node; kv is refused
//   older epoch                      refused whole with WRONG_EPOCH, which carries the placement
//   newer epoch                      waits for the placement, and for the parts that come or go by it (epoch-wait.ts)
//   keys of another server           refused whole with WRONG_OWNER
//
// Invariants:
//   RequestGate.G1. A request that is refused here was not applied, and its stamp not counted: the caller may cut it
//       again.
//   RequestGate.G2. Frames of a channel are handled in the order of their arrival.
//   RequestGate.G3. Nothing is kept of a request of several frames once one of them was refused for its epoch.

import type { ClockEntry, VectorClock } from "../consistency/vector-clock.ts";
import { KV_CONTRACTS } from "../contracts/kv.ts";
import type { Arena } from "../kernel/arena.ts";
import { KEY_BYTES } from "../kernel/elements.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import { INLINE_BYTES_MAX } from "../peer/frame-batch.ts";
import { unstampedError } from "../peer/function-host.ts";
import { APP_CUT, type FrameHeader, type RequestLabel } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { isGuest, roleOf } from "../wire/node-id.ts";
import type { ArenaWatch } from "./arena-watch.ts";
import type { EpochWait } from "./epoch-wait.ts";
import { checkRange, type Ownership } from "./ownership.ts";

/** What all requests of a server pass. */
type GateState = {
  readonly arena: Arena;
  readonly clock: VectorClock;
  readonly watch: ArenaWatch;
  readonly ownership: Ownership;
  readonly epochWait: EpochWait;
  /** Of a server with a log: takes note of updates that are refused here (LoggedRequests.I5). */
  readonly refusals?: Refusals | undefined;
};

export type Refusals = { refusedAtGate(channel: Channel, header: FrameHeader, thrown: unknown): void };

export class RequestGate implements FunctionHandler {
  readonly #inner: FunctionHandler;
  /** Applications by their numbers: a shortcut around `#inner`. */
  readonly #served: ReadonlyMap<number, FunctionHandler> | undefined;
  readonly #arena: Arena;
  readonly #clock: VectorClock;
  readonly #watch: ArenaWatch;
  readonly #ownership: Ownership;
  readonly #epochWait: EpochWait;
  readonly #refusals: Refusals | undefined;
  /** The worker of the last update, and what is applied of its incarnation. */
  #worker = -1;
  #applied: ClockEntry = { incarnation: 0, stamp: 0 };
  /** The last buffer that a request was read from, as words: a view for each request would cost more than the check. */
  #buffer: Uint8Array | undefined;
  #words: Uint32Array = new Uint32Array(0);

  /** `served`: the kv applications that are ready. */
  constructor(
    inner: FunctionHandler,
    { arena, clock, watch, ownership, epochWait, refusals }: GateState,
    served?: ReadonlyMap<number, FunctionHandler>,
  ) {
    this.#inner = inner;
    this.#served = served;
    this.#arena = arena;
    this.#clock = clock;
    this.#watch = watch;
    this.#ownership = ownership;
    this.#epochWait = epochWait;
    this.#refusals = refusals;
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    if (header.payloadBytes <= INLINE_BYTES_MAX) return undefined; // small ones stay in the arena
    // It may be refused, or wait.
    if (header.epoch !== 0 && header.epoch !== this.#ownership.servedEpoch) return undefined;
    return this.#inner.destination?.(channel, header);
  }

  nameOf(label: RequestLabel): string | undefined {
    return this.#inner.nameOf?.(label);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const { channels } = this.#epochWait;
    const { servedEpoch, epoch } = this.#ownership;
    if (header.epoch > servedEpoch || (channels.size > 0 && channels.has(channel)) || (servedEpoch !== epoch && waits(channel, header)))
      this.#epochWait.add(this, channel, header, bytes, at, fresh); // RequestGate.G2
    else this.pass(channel, header, bytes, at, fresh);
  }

  /** For a request that need not wait, or has waited. */
  pass(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    if (this.#refusals === undefined) this.#check(channel, header, bytes, at);
    else this.#checkNoting(this.#refusals, channel, header, bytes, at);
    const isNew = header.stamp === 0 ? fresh : this.#advance(channel, header.stamp);
    const handler = this.#served?.get(header.app) ?? this.#inner;
    handler.handle(channel, header, bytes, at, isNew);
    const used = this.#arena.stateUsedBytes;
    if (used >= this.#watch.high || used < this.#watch.low) this.#watch.passed(used);
  }

  #check(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): void {
    if (header.functionId !== FunctionId.FUNCTION) this.#checkKv(channel, header, bytes, at);
    else if (header.epoch !== this.#ownership.epoch && header.epoch !== 0) this.#checkApplied(channel, header);
  }

  #checkNoting(refusals: Refusals, channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): void {
    try {
      this.#check(channel, header, bytes, at);
    } catch (thrown) {
      refusals.refusedAtGate(channel, header, thrown);
      throw thrown;
    }
  }

  /** As the vector clock's, without a lookup for the last incarnation (VectorClock.V1). */
  #advance(channel: Channel, stamp: number): boolean {
    let applied = this.#applied;
    if (channel.id !== this.#worker || channel.incarnation !== applied.incarnation) {
      applied = this.#clock.entryOf(channel.id, channel.incarnation);
      this.#worker = channel.id;
      this.#applied = applied;
    }
    if (stamp <= applied.stamp) return false;
    applied.stamp = stamp;
    return true;
  }

  abandon(channel: Channel, header: FrameHeader): void {
    this.#inner.abandon?.(channel, header);
  }

  #checkKv(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): void {
    const ownership = this.#ownership;
    const keyCount = header.arg0;
    if (header.stamp === 0 && header.functionId !== FunctionId.KV_PULL) throw unstampedError(nameOfKv(header.functionId));
    if ((header.flags & APP_CUT) !== 0) ownership.admitAppCut();
    else if (header.epoch !== ownership.epoch) this.#checkApplied(channel, header);
    else if (ownership.epoch !== 0 && keyCount > 0 && keyCount * KEY_BYTES <= header.payloadBytes) {
      if (ownership.isOnTheWay && header.stamp !== 0) ownership.admitRange();
      if (bytes !== this.#buffer) this.#lookAt(bytes);
      checkRange(ownership, this.#words, at >> 2, keyCount);
    } // else the application refuses invalid requests
  }

  /** Of another epoch only what was applied before goes on (RequestGate.G1). */
  #checkApplied(channel: Channel, header: FrameHeader): void {
    const { stamp, epoch } = header;
    if (stamp !== 0 && this.#clock.hasApplied(channel.id, channel.incarnation, stamp)) return;
    this.abandon(channel, header); // RequestGate.G3
    throw this.#ownership.wrongEpoch(epoch);
  }

  /** For a request that has waited for a placement which does not come. Throws WRONG_EPOCH. */
  refuse(channel: Channel, header: FrameHeader, epoch: number): never {
    this.abandon(channel, header); // RequestGate.G3
    const error = this.#ownership.wrongEpoch(epoch);
    this.#refusals?.refusedAtGate(channel, header, error);
    throw error;
  }

  #lookAt(bytes: Uint8Array): void {
    this.#buffer = bytes;
    this.#words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
  }
}

/**
 * Whether parts that come or go have to be there first (PartsExchange.E2): for all that is not refused, but of servers.
 */
function waits({ id }: Channel, { epoch }: FrameHeader): boolean {
  return epoch === 0 && (isGuest(id) || roleOf(id) === "worker");
}

function nameOfKv(functionId: number): string {
  return KV_CONTRACTS.find(({ id }) => id === functionId)?.name ?? `function ${functionId}`;
}
