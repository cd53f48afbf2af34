// pslite-notes — what is found in the bytes of one connection of ps-lite's protocol, as lines that tests compare.

import { decodeMeta, encodeMeta, metaBytesMax, PsMeta } from "../../src/pslite/wire/ps-meta.ts";
import { FRAME_HEADER_BYTES_MAX, writeFrameHeader } from "../../src/pslite/wire/zmtp.ts";
import { type PartFate, ZmtpReader, type ZmtpSink } from "../../src/pslite/wire/zmtp-reader.ts";
import { bytesOf, hexText } from "./pslite-recording.ts";

/** Everything a reader found, as lines. */
export class Notes implements ZmtpSink {
  readonly lines: string[] = [];
  readonly metas: Uint8Array[] = [];
  readonly #fate: PartFate;
  #stream = "";
  #left = 0;
  #isMeta = false;
  readonly #view = new Uint8Array(3);

  constructor(fate: PartFate) {
    this.#fate = fate;
  }

  greeted(): void {
    this.lines.push("greeting");
  }

  command(name: string, body: Uint8Array): void {
    this.lines.push(`${name} ${hexText(body)}`);
  }

  mayBegin(): boolean {
    return true;
  }

  begin(index: number, byteCount: number, isLast: boolean): PartFate {
    this.lines.push(`part ${index} of ${byteCount} bytes${isLast ? ", the last" : ""}`);
    this.#isMeta = index === 0;
    this.#left = byteCount;
    return index === 0 ? "whole" : this.#fate;
  }

  whole(bytes: Uint8Array, at: number, byteCount: number): void {
    const part = bytes.slice(at, at + byteCount);
    if (this.#isMeta) this.metas.push(part);
    this.lines.push(hexText(part));
  }

  view(): Uint8Array {
    return this.#view;
  }

  streamed(byteCount: number): void {
    this.#stream += hexText(this.#view.subarray(0, byteCount));
    this.#left -= byteCount;
    if (this.#left > 0) return;
    this.lines.push(this.#stream);
    this.#stream = "";
  }
}

/** Feeds bytes in pieces of at most `pieceBytes`. */
export function feed(reader: ZmtpReader, bytes: Uint8Array, pieceBytes: number): void {
  for (let at = 0; at < bytes.length; ) {
    const view = reader.view();
    const piece = bytes.subarray(at, at + Math.min(pieceBytes, view.length));
    view.set(piece);
    reader.received(piece.length);
    at += piece.length;
  }
}

/**
 * The messages of a connection as lines: each meta in words and in the bytes of what `mask` leaves of it, each further
 * part in bytes. The notes that our own nodes add to control messages are left out.
 */
export function messagesOf(hex: string, mask: (meta: PsMeta) => void = () => {}): string[] {
  const notes = new Notes("whole");
  feed(new ZmtpReader(notes), bytesOf(hex), hex.length);
  return notes.lines.map((line, i) => {
    if (!(notes.lines[i - 1] ?? "").startsWith("part 0 ")) return line.replace(/ of \d+ bytes/, "");
    const meta = new PsMeta();
    const bytes = bytesOf(line);
    decodeMeta(bytes, 0, bytes.length, meta);
    meta.body = meta.command === 0 ? meta.body.slice() : new Uint8Array(0);
    mask(meta);
    const masked = new Uint8Array(metaBytesMax(meta));
    return `${meta.toString()}: ${hexText(masked.subarray(0, encodeMeta(meta, masked, 0)))}`;
  });
}

/** The metas of all messages of a connection. */
export function metasOf(hex: string): PsMeta[] {
  const notes = new Notes("skip");
  feed(new ZmtpReader(notes), bytesOf(hex), hex.length);
  return notes.metas.map((bytes) => {
    const meta = new PsMeta();
    decodeMeta(bytes, 0, bytes.length, meta);
    return meta;
  });
}

/** A message as a node of ps-lite would send it: a meta with these fields, and further parts. */
export function messageBytes(fields: Partial<PsMeta>, types: readonly number[] = [], parts: readonly Uint8Array[] = []): Uint8Array {
  const meta = Object.assign(new PsMeta(), fields);
  meta.dataTypes.push(...types);
  const bytes = new Uint8Array(metaBytesMax(meta));
  const bodies = [bytes.subarray(0, encodeMeta(meta, bytes, 0)), ...parts];
  return Buffer.concat(
    bodies.map((body, i) => {
      const frame = new Uint8Array(FRAME_HEADER_BYTES_MAX + body.length);
      const at = writeFrameHeader(frame, 0, body.length, i === bodies.length - 1);
      frame.set(body, at);
      return frame.subarray(0, at + body.length);
    }),
  );
}
