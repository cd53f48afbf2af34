// log-call — a head's LOG to its standby (contracts/between-servers.ts) as a call of one frame, and how the standby
// reads and answers it. The bytes are those of the contract. With small requests a LOG goes out for every batch that
// was read, so that what a call of any function allocates, for its fields, its promise and its response, would cost as
// much as what it carries.
//
//   payload   0 f64 number of the first entry │ 8 u64 bytes of entries │ 16 entries (log-entry.ts)
//   answer    0 f64 number of the last entry that the standby has
//
// Invariants:
//   LogCall.C1. A LOG that does not fit a frame, or that is not read here, is a call of the contract like any other.

import type { Clock } from "../../base/clock.ts";
import { badRequest, type WeighbridgeError } from "../../base/errors.ts";
import { replicaLog } from "../../contracts/between-servers.ts";
import type { Call } from "../../peer/call.ts";
import { CONTROL_PRIORITY, callFunction } from "../../peer/call-function.ts";
import type { Channel } from "../../peer/channel.ts";
import { type FrameBatch, INLINE_BYTES_MAX } from "../../peer/frame-batch.ts";
import { type FrameHeader, PAYLOAD_BYTES_MAX } from "../../wire/frame.ts";
import { FunctionFlag } from "../../wire/function-id.ts";
import type { LogPage, LogSink, LogWriteEnd } from "./log-sink.ts";

const FIELDS_BYTES = 16;
const ANSWER_BYTES = 8;

/** A number as it is in a payload. */
const number = new Float64Array(1);
const numberBytes = new Uint8Array(number.buffer);
const numberWords = new Uint32Array(number.buffer);

/** A standby, through this channel: it has what it has acknowledged. */
export function standbySink(channel: Channel, clock: Clock): LogSink {
  return {
    name: "the standby",
    takesAhead: true,
    write: (page, end) => {
      const { first, entries } = page;
      if (FIELDS_BYTES + entries.length > PAYLOAD_BYTES_MAX) {
        // LogCall.C1
        callFunction(channel, replicaLog, { first, entries }, { clock }).then(({ applied }) => end.written(applied), end.failed);
      } else channel.send(new LogCall(page, channel.nextCallNumber(), end), true);
    },
  };
}

/** Not derived from Call: a derived class is slow to construct. */
class LogCall implements Call {
  readonly priority: number = CONTROL_PRIORITY;
  readonly epoch: number = 0;
  request = 0;
  stamp = 0;
  sentAtMs = 0;
  sendCount = 0;
  readonly #first: number;
  readonly #entries: Uint8Array;
  readonly #entryBytes: number;
  readonly #number: number;
  readonly #end: LogWriteEnd;

  constructor({ first, entries }: LogPage, callNumber: number, end: LogWriteEnd) {
    this.#first = first;
    this.#entries = entries;
    this.#entryBytes = entries.length;
    this.#number = callNumber;
    this.#end = end;
  }

  get isCall(): true {
    return true;
  }

  get functionId(): number {
    return replicaLog.id;
  }

  get isUpdate(): boolean {
    return false;
  }

  get isRead(): boolean {
    return false;
  }

  get isIdempotent(): boolean {
    return true;
  }

  get byteCount(): number {
    return FIELDS_BYTES + this.#entryBytes;
  }

  get isIntact(): boolean {
    return this.#entries.length === this.#entryBytes;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    const { byteCount } = this;
    this.#label(header, 0, byteCount);
    const isInline = byteCount <= INLINE_BYTES_MAX;
    const at = batch.begin(header, isInline ? byteCount : FIELDS_BYTES);
    const { words, bytes } = batch.page;
    const word = at >> 2;
    number[0] = this.#first;
    words[word] = numberWords[0] as number;
    words[word + 1] = numberWords[1] as number;
    words[word + 2] = this.#entryBytes;
    words[word + 3] = 0;
    if (isInline) bytes.set(this.#entries, at + FIELDS_BYTES);
    else batch.attach(this.#entries); // a multiple of 8 bytes
  }

  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    this.#label(header, FunctionFlag.PART, 0);
    batch.begin(header, 0);
  }

  #label(header: FrameHeader, flags: number, payloadBytes: number): void {
    header.clearRest();
    header.flags = flags;
    header.payloadBytes = payloadBytes;
    header.command = replicaLog.nameHash;
    header.arg0 = replicaLog.signatureHash;
    header.arg1 = this.#number;
    header.arg3 = this.byteCount;
  }

  destination(): undefined {
    return undefined;
  }

  answered({ payloadBytes }: FrameHeader, bytes: Uint8Array, at: number): boolean {
    if (payloadBytes !== ANSWER_BYTES) throw badRequest(`the answer to ${replicaLog.name} has ${payloadBytes} bytes, not ${ANSWER_BYTES}`);
    for (let i = 0; i < ANSWER_BYTES; i++) numberBytes[i] = bytes[at + i] as number;
    this.#end.written(number[0] as number);
    return true;
  }

  failed(error: WeighbridgeError): void {
    this.#end.failed(error);
  }

  mustFollow(): boolean {
    return false;
  }
}

/** A LOG of one frame as a standby reads it; `at` is where its entries begin. Reused for the next one. */
export type ReadLog = { first: number; at: number; byteCount: number };

/** Whether this request is a LOG of one frame, which `log` then has; anything else is left to its host (LogCall.C1). */
export function readLog(header: FrameHeader, bytes: Uint8Array, at: number, log: ReadLog): boolean {
  const { command, arg0, arg3, flags, payloadBytes } = header;
  if (command !== replicaLog.nameHash || arg0 !== replicaLog.signatureHash) return false;
  if (arg3 !== payloadBytes || (flags & FunctionFlag.PART) !== 0 || payloadBytes < FIELDS_BYTES) return false;
  for (let i = 0; i < 8; i++) numberBytes[i] = bytes[at + 8 + i] as number;
  log.byteCount = (numberWords[0] as number) + (numberWords[1] as number) * 2 ** 32;
  if (log.byteCount !== payloadBytes - FIELDS_BYTES || log.byteCount % 8 !== 0) return false;
  for (let i = 0; i < 8; i++) numberBytes[i] = bytes[at + i] as number;
  log.first = number[0] as number;
  log.at = at + FIELDS_BYTES;
  return true;
}

/** Answers a LOG at once, while it is being handled: this standby has all entries up to this one. */
export function acknowledgeLog(channel: Channel, header: FrameHeader, applied: number): void {
  number[0] = applied;
  channel.answerCopy(header, numberBytes, 0, ANSWER_BYTES);
  channel.flush();
}
