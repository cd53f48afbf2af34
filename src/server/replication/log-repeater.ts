// log-repeater — repeats the entries of a log: a standby those of its head, a durable server its own when it comes
// back. Each frame goes to the handler that served it at the head, and a stand-in takes the answers. Not when a standby
// may do so (standby-log.ts), nor what becomes of the server afterwards (replica.ts).
//
// Invariants (with Replica.I2, Replica.I5 and Replica.I6):
//   LogRepeater.L1. Entries are repeated in the order of their numbers, each once; those that were repeated before are
//       skipped.

import { badRequest, isWeighbridgeError } from "../../base/errors.ts";
import { Answer, labelOf } from "../../peer/answer.ts";
import { type Failure, failureShape, toFailure } from "../../wire/failure.ts";
import { FrameHeader, HEADER_BYTES, Kind, paddedBytes, stepRun } from "../../wire/frame.ts";
import { decodeHeader } from "../../wire/frame-reader.ts";
import { count, decodeJson, encodeJson, list, object, optional } from "../../wire/json-body.ts";
import { rankOf } from "../../wire/node-id.ts";
import { type RosterEntry, rosterEntryShape } from "../../wire/roster.ts";
import { type ExchangeRepeater, repeatExchange } from "./exchange-entries.ts";
import { answersOf, type FilledImage, loadParts, loadServer, type PartsImage, type ServerImage } from "./fill-state.ts";
import { EntryKind, EntryReader, type ReadEntry, textOf } from "./log-entry.ts";
import type { LogPolicy } from "./log-policy.ts";
import { identityShape, type ServerIdentity } from "./log-sink.ts";
import { unpack } from "./packed-body.ts";
import type { ReplicaOptions, ReplicatedServer } from "./replica.ts";
import { isDetermined, RefusedAhead } from "./run-ahead.ts";
import { StandInChannel } from "./stand-in-channel.ts";
import { digestOfParts } from "./state-digest.ts";

const workersShape = object({ nodes: list(rosterEntryShape), goneGuests: optional(list(count)) });
const refusedShape = object({ node: count, incarnation: count, request: count, stamp: count, failure: failureShape });
const digestShape = object({ part: count, to: optional(count), digest: count });

/** Of a server that repeats a log. */
export class LogRepeater {
  /** What repeats the steps of parts that come and go. */
  exchange: ExchangeRepeater | undefined;
  /** The last entry that was repeated. */
  applied = 0;
  /** Whether entries come from the server's own disk. */
  isComingBack = false;
  /** Whether parts are still to come. Digests of what has not come make no sense. */
  isFilling = false;
  /** Of a durable server: who it is, or was when it ended. */
  identity: ServerIdentity | undefined;
  workers: readonly RosterEntry[] = [];
  /** What it knows of each worker's requests; a head that was a standby still has them. */
  readonly standIns: Map<number, StandInChannel> = new Map();
  readonly #server: ReplicatedServer;
  readonly #policies: ReadonlyMap<number, LogPolicy>;
  readonly #host: ReplicaOptions["host"];
  readonly #header = new FrameHeader();
  readonly #entries = new EntryReader();
  readonly #refusedAhead = new RefusedAhead();
  /** What the entries lie in that are being repeated, and its words. */
  #bytes: Uint8Array = new Uint8Array(0);
  #words: Uint32Array = new Uint32Array(0);
  #hasBegun = false;

  constructor(server: ReplicatedServer, policies: ReadonlyMap<number, LogPolicy>, host: ReplicaOptions["host"]) {
    this.#server = server;
    this.#policies = policies;
    this.#host = host;
  }

  /** Whether what it has of the log is certain to be its state: nothing is missing that other entries stand for. */
  get isWhole(): boolean {
    return this.#hasBegun && !this.isFilling;
  }

  /** There is no head any more. */
  takeOver(): void {
    this.#refusedAhead.forget();
  }

  followWorkers(workers: readonly RosterEntry[], goneGuests: readonly number[]): void {
    this.workers = workers;
    this.#server.followWorkers(workers);
    this.#server.forgetGuests(goneGuests);
    for (const node of goneGuests) this.standIns.delete(node);
  }

  /** What follows in the log was cut by this placement. */
  #isNow(identity: ServerIdentity): void {
    this.identity = identity;
    const { placement } = identity.roster;
    if (placement !== undefined && this.#server.ownership.epoch === 0) this.exchange?.repeatPlacement(placement, rankOf(identity.node));
  }

  /** The rank of a standby, or that which the disk of a durable server has. */
  get #rank(): number {
    return rankOf(this.identity?.node ?? this.#host.id);
  }

  /** Repeats the entries from byte `at` on, numbered from `first` on. Throws if one cannot be repeated. */
  repeat(first: number, bytes: Uint8Array, at: number, byteCount: number): void {
    if (!this.#hasBegun && (bytes[at] === EntryKind.FILL || this.isComingBack)) this.applied = first - 1;
    if (first > this.applied + 1) throw badRequest(`entry ${first} came after entry ${this.applied}`);
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    }
    let index = first;
    const entry = this.#entries;
    entry.begin(bytes, at, byteCount);
    while (entry.next()) {
      const known = this.applied + 1 - index; // so many frames of this entry were repeated before
      index += entry.count;
      if (known >= entry.count) continue;
      if (this.#refusedAhead.isOpen && entry.kind !== EntryKind.REFUSED) this.#refusedAhead.end();
      if (entry.count > 1) this.#repeatRun(entry, bytes, known);
      else {
        this.#repeatOne(entry, bytes);
        this.applied++;
      }
      if (entry.kind !== EntryKind.IDENTITY) this.#hasBegun = true; // DurableLog.D3
    }
  }

  #repeatOne(entry: Readonly<ReadEntry>, entries: Uint8Array): void {
    switch (entry.kind) {
      case EntryKind.NOTHING:
        break;
      case EntryKind.THROWN:
        this.#repeatThrown(entry, entries);
        break;
      case EntryKind.FRAME:
      case EntryKind.KV:
      case EntryKind.READ_END:
        this.#repeatFrame(entry, entries);
        break;
      case EntryKind.REFUSED: {
        const { node, incarnation, request, stamp, failure } = decodeJson(refusedShape, "a refusal", textOf(entry, entries));
        this.#refusedAhead.compare(node, incarnation, stamp);
        this.#server.clock.advance(node, incarnation, stamp);
        this.#standInOf(node, incarnation).keep(stamp, { request, answers: [failureAnswer(stamp, failure)] });
        break;
      }
      case EntryKind.WORKERS: {
        const { nodes, goneGuests = [] } = decodeJson(workersShape, "the workers of a log", textOf(entry, entries));
        this.followWorkers(nodes, goneGuests);
        break;
      }
      case EntryKind.DIGEST: {
        const { part, to = part + 1, digest } = decodeJson(digestShape, "a digest", textOf(entry, entries));
        const { digest: own } = digestOfParts(this.#server.parameters, part, { partsMax: to - part, bytesMax: Infinity });
        if (own !== digest) throw badRequest(`part ${part} comes to ${own} here, and to ${digest} at its head`);
        break;
      }
      case EntryKind.FILL: {
        if (this.#hasBegun && this.isComingBack) break; // it has all that comes with it
        if (this.#hasBegun) throw badRequest("a standby is filled once, from the start");
        this.isFilling = true;
        const image = unpack(entries, entry) as ServerImage;
        if (image.placement !== undefined) this.exchange?.repeatPlacement(image.placement, this.#rank);
        loadServer(this.#server, image, ({ worker, incarnation }) => this.#standInOf(worker, incarnation));
        break;
      }
      case EntryKind.PARTS:
        if (this.isComingBack && !this.isFilling) break;
        // It copies what it loads.
        loadParts(this.#server.parameters, unpack(entries, { ...entry, isKept: true }) as PartsImage);
        break;
      case EntryKind.FILLED:
        if (this.isComingBack && !this.isFilling) break;
        this.isFilling = false;
        this.#filled(unpack(entries, entry) as FilledImage);
        break;
      case EntryKind.IDENTITY:
        this.#isNow(decodeJson(identityShape, "an identity", textOf(entry, entries)));
        break;
      default:
        if (repeatExchange(entry, entries, this.exchange, this.#rank)) break;
        throw badRequest(`there is no entry of kind ${entry.kind}`);
    }
  }

  #repeatFrame({ kind, at, node, incarnation }: Readonly<ReadEntry>, entries: Uint8Array): void {
    const header = this.#header;
    decodeHeader(this.#words, at >> 2, header);
    const { clock, functions } = this.#server;
    const handler = kind === EntryKind.KV ? this.#server.kvHandlerOf(header.app) : functions;
    const standIn = this.#standInOf(node, incarnation);
    standIn.begin(header);
    if (kind === EntryKind.READ_END) {
      const kept = Object.assign(new FrameHeader(), header);
      standIn.whenSettled(header.request, () => handler.abandon?.(standIn, kept));
      return;
    }
    if (header.stamp !== 0) clock.advance(node, incarnation, header.stamp); // Replica.I5
    try {
      handler.handle(standIn, header, entries, at + HEADER_BYTES, true);
    } catch (thrown) {
      if (this.isFilling && this.#policies.get(header.command) === "repeated") return; // a part may be missing
      if (!isWeighbridgeError(thrown, "ANSWER_LOST")) throw thrown; // LoggedRequests.I7
    }
  }

  /** RepeatedFunction.R2. Without all parts a function may do anything: what it made of its own state is replaced. */
  #repeatThrown(entry: Readonly<ReadEntry>, entries: Uint8Array): void {
    try {
      this.#repeatFrame(entry, entries);
    } catch {
      return; // as its head did; why is the next entry
    }
    if (!this.isFilling) throw badRequest("a function threw at its head, and not here");
  }

  /** The frames of a run but the first `known` ones. */
  #repeatRun({ kind, count, at, bodyBytes, node, incarnation }: Readonly<ReadEntry>, entries: Uint8Array, known: number): void {
    const header = this.#header;
    decodeHeader(this.#words, at >> 2, header);
    const stride = paddedBytes(header.payloadBytes);
    if (bodyBytes !== HEADER_BYTES + count * stride)
      throw badRequest(`${count} frames of ${header.payloadBytes} bytes do not fit an entry of ${bodyBytes}`);
    const handler = this.#server.kvHandlerOf(header.app);
    const standIn = this.#standInOf(node, incarnation);
    const applied = header.stamp === 0 ? undefined : this.#server.clock.entryOf(node, incarnation);
    const isAhead = kind === EntryKind.KV_AHEAD;
    if (isAhead) this.#refusedAhead.begin(node, incarnation, header);
    header.more = 0;
    for (let i = 0; i < count; i++) {
      if (i >= known) {
        standIn.begin(header);
        if (applied !== undefined && header.stamp > applied.stamp) applied.stamp = header.stamp; // Replica.I5
        try {
          handler.handle(standIn, header, entries, at + HEADER_BYTES + i * stride, true);
        } catch (thrown) {
          this.#refusedInRun(standIn, header, thrown, isAhead);
        }
        this.applied++;
      }
      stepRun(header);
    }
  }

  /** A frame of a run could not be repeated: of one that came ahead its head says whether that is so there, too. */
  #refusedInRun(standIn: StandInChannel, { request, stamp }: FrameHeader, thrown: unknown, isAhead: boolean): void {
    if (isWeighbridgeError(thrown, "ANSWER_LOST")) return; // LoggedRequests.I7
    if (!isAhead || !isDetermined(thrown)) throw thrown;
    this.#refusedAhead.add(stamp);
    standIn.keep(stamp, { request, answers: [failureAnswer(stamp, toFailure(thrown))] });
  }

  /** What depends on all parts is as the head has it, instead of what was made here while some were missing. */
  #filled({ answers, own }: FilledImage): void {
    this.#server.ownState.load(own);
    for (const standIn of this.standIns.values()) standIn.forgetAnswers();
    for (const { worker, incarnation, kept } of answers) {
      if ((this.standIns.get(worker)?.incarnation ?? 0) > incarnation) continue;
      const standIn = this.#standInOf(worker, incarnation);
      for (const one of kept) standIn.keep(one.stamp, { request: one.request, answers: answersOf(one) });
    }
  }

  #standInOf(node: number, incarnation: number): StandInChannel {
    const known = this.standIns.get(node);
    if (known?.incarnation === incarnation) return known;
    const made = new StandInChannel(this.#host, node, incarnation);
    this.standIns.set(node, made);
    return made;
  }
}

/** It gets the label of the request that asks for it. */
function failureAnswer(stamp: number, failure: Failure): Answer {
  return new Answer({ ...labelOf(new FrameHeader()), stamp }, { kind: Kind.FAILURE, payload: encodeJson(failure) });
}
