// collective-group — one generation of workers as one member sees it: numbers the operations, gives parts to them, and
// ends them when a member is gone. Its members never change; the next generation is another group (collective.ts).
//
// Invariants:
//   CollectiveGroup.R1. When a member dies, is restarted or calls something else, every operation that is open fails
//       with an error that names it, here and at every other member: who finds out tells the others. A member that was
//       taken for dead, and that nobody tells, learns it from the scheduler.
//   CollectiveGroup.R2. A member that leaves says from which operation on. Those before are not concerned: it has done
//       its share of them.
//   CollectiveGroup.R3. An operation that has failed touches the caller's memory no more: links that may be reading it
//       or writing to it are cut.
//   CollectiveGroup.R4. No operation ends in the turn in which it was called, also of a member that is alone: whoever
//       calls one after the other lets its node handle what comes.
//   CollectiveGroup.R5. An array of a member that is transferred away, or shrinks, before its operation ended ends the
//       generation with BUFFER_DETACHED, as a death does.

import { assert } from "../../base/assert.ts";
import type { Clock } from "../../base/clock.ts";
import { badRequest, type ErrorCode, WeighbridgeError } from "../../base/errors.ts";
import { detachedError } from "../../peer/call.ts";
import type { Channel } from "../../peer/channel.ts";
import { CollectiveKind, OPERATIONS_OPEN_MAX, overShape } from "../../wire/collective-frame.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import type { Member } from "../../wire/generation.ts";
import { decodeJson, encodeJson } from "../../wire/json-body.ts";
import { nameOf } from "../../wire/node-id.ts";
import type { RosterView } from "../../wire/roster.ts";
import type { EarlyPart, EarlyParts } from "./early-parts.ts";
import { describeSubject, type Operation, type OperationContext, type PartLabel } from "./operation.ts";
import { PartCall } from "./part-call.ts";
import { PartStream } from "./part-stream.ts";

export type CollectiveGroupOptions = {
  readonly generation: number;
  /** By rank. */
  readonly members: readonly Member[];
  readonly position: number;
  /** By position; undefined for this member itself. */
  readonly channels: readonly (Channel | undefined)[];
  readonly early: EarlyParts;
  readonly clock: Clock;
};

/** Operations from `from` on cannot be. */
type End = { readonly from: number; readonly error: WeighbridgeError };

export class CollectiveGroup implements OperationContext {
  readonly generation: number;
  readonly members: readonly Member[];
  readonly position: number;
  readonly memberCount: number;
  readonly #channels: readonly (Channel | undefined)[];
  readonly #early: EarlyParts;
  readonly #clock: Clock;
  /** Called and not ended, in order. */
  readonly #operations = new Map<number, Operation>();
  /** The last ones that ended, for members that send parts of something else under their number. */
  readonly #ended = new Map<number, string>();
  /** From which operation on a member takes no part, by position. */
  readonly #leavesAt: number[];
  /** Operations into whose memory a link is reading. */
  readonly #landings = new Map<Channel, Operation>();
  /** Members that cannot be reached, by position. */
  readonly #gone = new Set<number>();
  #next = 1;
  #end: End | undefined;

  constructor({ generation, members, position, channels, early, clock }: CollectiveGroupOptions) {
    this.generation = generation;
    this.members = members;
    this.position = position;
    this.memberCount = members.length;
    this.#channels = channels;
    this.#early = early;
    this.#clock = clock;
    this.#leavesAt = members.map(() => Infinity);
  }

  /** Why operations fail, if they do. */
  get failure(): WeighbridgeError | undefined {
    return this.#end?.error;
  }

  /** Whether an operation is open: parts of it may have to leave, or to come. */
  get isBusy(): boolean {
    return this.#operations.size > 0;
  }

  /** Gives the operation its number and begins it, now or when earlier ones are done. */
  call(operation: Operation): void {
    operation.sequence = this.#next++;
    if (this.#end !== undefined && operation.sequence >= this.#end.from) {
      operation.done.reject(this.#end.error);
      return;
    }
    this.#operations.set(operation.sequence, operation);
    this.#beginDue();
  }

  // OperationPlace

  streamTo(position: number, operation: Operation): PartStream {
    const channel = this.#channels[position];
    assert(channel !== undefined, "nobody sends to itself");
    return new PartStream({
      channel,
      generation: this.generation,
      operation,
      length: operation.lengthTo(position),
      detached: () => this.#detached(operation),
      failed: (sequence, error) => this.#partFailed(position, sequence, error),
    });
  }

  finished(operation: Operation): void {
    const { sequence } = operation;
    if (this.#operations.get(sequence) !== operation) return; // it has failed meanwhile
    if (!operation.isIntact) {
      void this.break(this.#detached(operation)); // CollectiveGroup.R5
      return;
    }
    this.#operations.delete(sequence);
    this.#ended.set(sequence, operation.describe());
    this.#ended.delete(sequence - 2 * OPERATIONS_OPEN_MAX);
    operation.done.resolve();
    this.#beginDue();
  }

  // Parts.

  /** See FunctionHandler. */
  destination(channel: Channel, label: PartLabel, byteCount: number): Uint8Array | undefined {
    const operation = label.kind === CollectiveKind.OVER ? undefined : this.#operations.get(label.sequence);
    const from = this.#positionOf(channel);
    if (operation?.hasBegun !== true || from < 0 || operation.differs(label) !== undefined || !operation.isIntact) return undefined;
    const destination = operation.destination(from, label, byteCount);
    if (destination !== undefined) this.#landings.set(channel, operation);
    return destination;
  }

  /** Takes a part of this generation, once: answers it, or keeps it for later. What it throws goes to the sender. */
  take(channel: Channel, header: FrameHeader, label: PartLabel, payload: Uint8Array): void {
    this.#landings.delete(channel);
    if (label.kind === CollectiveKind.OVER) {
      this.takeOver(channel, payload);
      channel.acknowledge(header);
      return;
    }
    const from = this.#memberAt(channel);
    const { sequence } = label;
    if (this.#end !== undefined && sequence >= this.#end.from) throw this.#end.error;
    const operation = this.#operations.get(sequence);
    if (operation === undefined && sequence < this.#next) throw this.#differs(from, label, this.#ended.get(sequence) ?? "over");
    if (operation?.hasBegun !== true) {
      this.#early.hold(channel, header, label, payload, this.#next);
      return;
    }
    this.#deliver(operation, from, label, payload);
    channel.acknowledge(header);
  }

  /** A part that waited: as `take`, later. */
  takeEarly({ request, label, payload }: EarlyPart): void {
    request.serve(() => {
      const from = this.#memberAt(request.channel);
      const operation = this.#operations.get(label.sequence);
      if (operation === undefined) throw this.#end?.error ?? this.#differs(from, label, "over");
      this.#deliver(operation, from, label, payload);
      request.channel.acknowledge(request.label);
    });
  }

  // The end.

  /** Takes note of who is there, and of what is over (CollectiveGroup.R1). */
  follow({ nodes, endedGeneration = 0 }: RosterView): void {
    for (const [position, { node, incarnation }] of this.members.entries()) {
      const entry = nodes.find((candidate) => candidate.node === node);
      const isThere = entry?.state === "alive" && entry.incarnation === incarnation;
      if (isThere && entry.address !== "") this.#gone.delete(position);
      else this.#gone.add(position); // without an address it takes no part any more, and may never have been dialed
      if (isThere || this.#leavesAt[position] !== Infinity) continue; // CollectiveGroup.R2
      const what = entry?.state === "dead" ? "is dead" : entry?.state === "left" ? "has left" : "was restarted";
      void this.break(new WeighbridgeError("NODE_DEAD", `${nameOf(node)} ${what}`, { retryable: true }));
    }
    if (this.#end !== undefined || endedGeneration < this.generation) return;
    const message = `generation ${this.generation} is over: ${nameOf(this.#node(this.position))} was taken for dead, or another worker left it`;
    void this.break(new WeighbridgeError("NODE_DEAD", message, { retryable: true }));
  }

  /** Nothing of this generation can be relied on: all operations fail with `error`, here and elsewhere. */
  async break(error: WeighbridgeError): Promise<void> {
    if (this.#end?.from === 0) return;
    this.#fail({ from: 0, error });
    await this.#tellAll();
  }

  /** Ends this member's part. Resolves when all others know, and have what was sent before, or are gone. */
  async leave(error: WeighbridgeError): Promise<void> {
    const [first = this.#next] = this.#operations.keys();
    if (this.#end === undefined || first < this.#end.from) this.#fail({ from: first, error });
    await this.#tellAll();
  }

  /** This node cannot go on, and can tell nobody. */
  abandon(error: WeighbridgeError): void {
    if (this.#end?.from !== 0) this.#fail({ from: 0, error });
  }

  /** A member says from where on it takes no part. */
  takeOver(channel: Channel, payload: Uint8Array): void {
    const from = this.#memberAt(channel);
    const { from: sequence, code, message } = decodeJson(overShape, "the end of a generation", payload);
    const error = new WeighbridgeError(code as ErrorCode, message, { retryable: true });
    if (sequence > 0) this.#leavesAt[from] = Math.min(sequence, this.#leavesAt[from] ?? Infinity); // CollectiveGroup.R2
    if (this.#end === undefined || sequence < this.#end.from) this.#fail({ from: sequence, error });
  }

  /** Never rejects: a member that cannot be reached is gone. */
  async #tellAll(): Promise<void> {
    const others = [...this.members.keys()].filter((position) => position !== this.position && !this.#gone.has(position));
    await Promise.all(others.map((position) => this.#tell(position)));
  }

  #tell(position: number): Promise<void> {
    const channel = this.#channels[position];
    assert(channel !== undefined && this.#end !== undefined, "there is an end, and others who do not know it");
    const { promise, resolve } = Promise.withResolvers<void>();
    const label = { generation: this.generation, sequence: 0, kind: CollectiveKind.OVER, root: 0, length: 0, index: 0 };
    channel.send(new PartCall({ label, payload: this.#overBody(this.#end), acknowledged: () => resolve(), failed: () => resolve() }), true);
    return promise;
  }

  #overBody({ from, error: { code, message } }: End): Uint8Array {
    return encodeJson({ from, code, message });
  }

  #fail(end: End): void {
    this.#end = end;
    const cut = new Set<Channel>();
    const over = this.#overBody(end);
    for (const [sequence, operation] of [...this.#operations]) {
      if (sequence < end.from) continue;
      this.#operations.delete(sequence);
      for (const stream of operation.streams) if (stream.revoke(over)) cut.add(stream.channel);
      for (const [channel, landing] of this.#landings) if (landing === operation) cut.add(channel);
      operation.done.reject(end.error);
    }
    for (const channel of cut) {
      this.#landings.delete(channel);
      channel.link?.destroy(); // CollectiveGroup.R3; the conversation goes on over the next link
    }
    this.#early.refuse({ generation: this.generation, from: Math.max(1, end.from) }, end.error);
  }

  /** Whether that does not matter any more. */
  #partFailed(position: number, sequence: number, error: WeighbridgeError): boolean {
    if (this.#end !== undefined && sequence >= this.#end.from) return true;
    // CollectiveGroup.R2: it has taken the part.
    if (sequence < (this.#leavesAt[position] ?? Infinity) && this.#leavesAt[position] !== Infinity) return true;
    void this.break(error);
    return false;
  }

  /** CollectiveGroup.R5 */
  #detached(operation: Operation): WeighbridgeError {
    const what = `${operation.describe()} of ${nameOf(this.#node(this.position))}`;
    return new WeighbridgeError("BUFFER_DETACHED", `${what}: ${detachedError({ isUpdate: false, sendCount: 0 }).message}`);
  }

  #beginDue(): void {
    const [first = this.#next] = this.#operations.keys();
    for (const operation of [...this.#operations.values()]) {
      if (this.#operations.get(operation.sequence) !== operation) return; // it has failed, and all behind it
      if (operation.sequence >= first + OPERATIONS_OPEN_MAX) return;
      if (!operation.hasBegun) this.#begin(operation);
    }
  }

  #begin(operation: Operation): void {
    if (!operation.isIntact) {
      void this.break(this.#detached(operation)); // CollectiveGroup.R5
      return;
    }
    operation.hasBegun = true;
    if (this.memberCount === 1) {
      this.#clock.afterInput(() => this.finished(operation)); // CollectiveGroup.R4
      return;
    }
    operation.begin(this);
    for (const part of this.#early.take(this.generation, operation.sequence)) this.takeEarly(part);
  }

  #deliver(operation: Operation, from: number, label: PartLabel, payload: Uint8Array): void {
    if (operation.differs(label) !== undefined) throw this.#differs(from, label, operation.describe());
    try {
      if (!operation.isIntact) throw this.#detached(operation); // CollectiveGroup.R5
      operation.take(from, label, payload);
    } catch (thrown) {
      if (thrown instanceof WeighbridgeError) void this.break(thrown);
      throw thrown;
    }
  }

  /** Another member calls something else under this number: what the error says is the same on both sides. */
  #differs(from: number, label: PartLabel, own: string): WeighbridgeError {
    const [here, there] = [nameOf(this.#node(this.position)), nameOf(this.#node(from))];
    const what = `${own} at ${here} and ${describeSubject(label)} at ${there}`;
    const message = `operation ${label.sequence} of generation ${this.generation} is ${what}: all workers must call the same, in the same order`;
    const error = new WeighbridgeError("SPEC_MISMATCH", message);
    void this.break(error);
    return error;
  }

  #node(position: number): number {
    return this.members[position]?.node ?? 0;
  }

  #memberAt(channel: Channel): number {
    const position = this.#positionOf(channel);
    if (position >= 0) return position;
    throw badRequest(`${channel.name} is no member of generation ${this.generation}`);
  }

  /** −1 for one that is no member, in this incarnation. */
  #positionOf({ id, incarnation }: Channel): number {
    return this.members.findIndex((member) => member.node === id && member.incarnation === incarnation);
  }
}
