// frame-ranges — the payload of a written frame as parts of a message: what lies in the page is copied, what is attached is referred to.

import { COPY_BYTES_MAX, type MessageBatch } from "./message-batch.ts";
import type { WrittenFrame } from "./written-frames.ts";

/** Adds `[from, to)` of the frame's payload to the message: what is attached goes from where it lies. */
export function addRange(batch: MessageBatch, frame: WrittenFrame, from: number, to: number): void {
  const { page, at, inlineBytes } = frame;
  if (from < inlineBytes) batch.copy(page, at + from, at + Math.min(to, inlineBytes));
  let partFrom = inlineBytes;
  for (const part of frame.attached) {
    const partTo = partFrom + part.length;
    if (to > partFrom && from < partTo)
      addBytes(batch, part.subarray(Math.max(from, partFrom) - partFrom, Math.min(to, partTo) - partFrom));
    partFrom = partTo;
  }
}

/** The same, to be kept until the message is sent. */
export function keepRange(parts: Uint8Array[], frame: WrittenFrame, from: number, to: number): void {
  const { page, at, inlineBytes } = frame;
  if (from < Math.min(to, inlineBytes)) parts.push(page.slice(at + from, at + Math.min(to, inlineBytes)));
  let partFrom = inlineBytes;
  for (const part of frame.attached) {
    const partTo = partFrom + part.length;
    if (to > partFrom && from < partTo) parts.push(part.subarray(Math.max(from, partFrom) - partFrom, Math.min(to, partTo) - partFrom));
    partFrom = partTo;
  }
}

export function addPart(batch: MessageBatch, parts: readonly Uint8Array[], isLast: boolean): void {
  batch.part(
    parts.reduce((sum, { length }) => sum + length, 0),
    isLast,
  );
  for (const part of parts) addBytes(batch, part);
}

function addBytes(batch: MessageBatch, bytes: Uint8Array): void {
  if (bytes.length <= COPY_BYTES_MAX) batch.copy(bytes, 0, bytes.length);
  else batch.attach(bytes);
}
