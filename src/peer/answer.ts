// answer — one frame back to the caller: an acknowledgement, values or a failure. Used when it cannot be written at
// once or has to be kept; most acknowledgements go straight into the batch and never become an object.

import { BLOCK_BYTES, FrameHeader, fillAnswerHeader, HEADER_BYTES, Kind, type RequestLabel, setExtent } from "../wire/frame.ts";
import { type FrameBatch, type Held, INLINE_BYTES_MAX } from "./frame-batch.ts";

/** The label of a request whose header is about to be overwritten. */
export function labelOf(header: FrameHeader): RequestLabel {
  const { functionId, priority, request, app, customer, command, stamp } = header;
  return { functionId, priority, request, app, customer, command, stamp };
}

/** The same label, to be kept: one that is a reused header is copied. */
export function keptLabel(label: RequestLabel): RequestLabel {
  return label instanceof FrameHeader ? labelOf(label) : label;
}

export type AnswerOptions = {
  readonly kind?: typeof Kind.REPLY | typeof Kind.FAILURE;
  readonly flags?: number;
  readonly payload?: Uint8Array;
  /** Released once the payload has left, or never will. */
  readonly held?: Held;
  /** For an answer in several frames: bytes of all of them, and where this one begins. */
  readonly totalBytes?: number;
  readonly offsetBytes?: number;
};

export class Answer {
  readonly priority: number;
  readonly label: RequestLabel;
  readonly options: AnswerOptions;

  constructor(label: RequestLabel, options: AnswerOptions = {}) {
    this.priority = label.priority;
    this.label = label;
    this.options = options;
  }

  get isCall(): false {
    return false;
  }

  /** False when writing it lets go of what it was written from. */
  get isRepeatable(): boolean {
    return this.options.held === undefined;
  }

  /** Whether its bytes were made just now, and their memory is free for the next once it has left. */
  get isFresh(): boolean {
    return this.options.held?.isFresh === true;
  }

  /** What it takes in a queue and on the wire. */
  get byteCount(): number {
    return HEADER_BYTES + (this.options.payload?.length ?? 0);
  }

  writeTo(header: FrameHeader, batch: FrameBatch): void {
    const { kind = Kind.REPLY, flags = 0, payload, held } = this.options;
    fillAnswerHeader(header, this.label, kind);
    const payloadBytes = payload?.length ?? 0;
    const { totalBytes = payloadBytes, offsetBytes = 0 } = this.options;
    header.flags = flags;
    header.payloadBytes = payloadBytes;
    setExtent(header, totalBytes, offsetBytes);
    if (payload === undefined || payloadBytes <= INLINE_BYTES_MAX) {
      const at = batch.begin(header, payloadBytes);
      if (payload !== undefined) batch.page.bytes.set(payload, at);
      held?.release();
    } else {
      batch.begin(header, 0);
      batch.attach(payload);
      batch.pad(payloadBytes);
      if (held !== undefined) batch.hold(held);
    }
  }

  /** The same answer, to a request that was made again under another number. Only for one that holds no memory. */
  relabelled(label: RequestLabel): Answer {
    return new Answer(label, this.options);
  }

  /** The answer will not leave after all (the link is gone). */
  discard(): void {
    this.options.held?.release();
  }
}

/** An answer of any length, cut into frames of a block; `parts` follow each other. Each frame releases `held` once. */
export function answerFrames(
  label: RequestLabel,
  parts: readonly Uint8Array[],
  options: Pick<AnswerOptions, "flags" | "held"> = {},
): Answer[] {
  const totalBytes = parts.reduce((sum, part) => sum + part.length, 0);
  const answers: Answer[] = [];
  let offsetBytes = 0;
  for (const part of parts) {
    for (let from = 0; from < part.length; from += BLOCK_BYTES) {
      const payload = part.subarray(from, Math.min(part.length, from + BLOCK_BYTES));
      answers.push(new Answer(label, { ...options, payload, totalBytes, offsetBytes }));
      offsetBytes += payload.length;
    }
  }
  if (answers.length === 0) answers.push(new Answer(label, options));
  return answers;
}
