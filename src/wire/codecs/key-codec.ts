// key-codec — a key list on the wire, in one of three forms: its keys, their differences, or only its name, if the
// receiver holds the list already (key-cache.ts).
//
//   offset   type   field
//        0   u8     form         0 RAW, 1 DELTA, 2 NAMED
//        1   u8     flags        1 REMEMBER: hold the list, it will be named. Only with RAW and DELTA
//        2   u16                 0
//        4   u32    keyCount     k, at least 1
//        8   u32    bodyBytes    RAW: 8 × k, NAMED: 0
//       12   u32                 0
//       16   u64    signature    of the list, if NAMED or REMEMBER; otherwise 0
//       24   body   RAW: u64 × k, strictly ascending   DELTA: as kernels/codec-keys.as.ts │ zeros to a multiple of 8
//
// Invariants:
//   KeyCodec.K1. What is read is a strictly ascending list, whatever the bytes are; otherwise a typed error.
//   KeyCodec.K2. A section has its own length, so that values can follow it, 8-byte aligned.

import { assert } from "../../base/assert.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { CODEC_COUNT_MAX, type CodecKernels, DeltaStatus, deltaKeysBound } from "../../kernel/codec-kernels.ts";
import { KEY_BYTES } from "../../kernel/elements.ts";
import { type CodecContext, malformed } from "./value-codec.ts";

export const KeyForm = { RAW: 0, DELTA: 1, NAMED: 2 } as const;

export const KEY_SECTION_HEADER_BYTES = 24;
export const REMEMBER = 1;

/** What a list is called: two lists with one name are taken to be the same. */
export type KeyListName = { readonly keyCount: number; readonly signature: bigint };

/** With the zeros behind a body (KeyCodec.K2). */
export const padded = (byteCount: number): number => Math.ceil(byteCount / KEY_BYTES) * KEY_BYTES;

export function keysNotAscending(index: number, keyCount: number): WeighbridgeError {
  return new WeighbridgeError("KEYS_NOT_ASCENDING", `key ${index} of ${keyCount} is not greater than the one before it`);
}

/** The most bytes that a section takes, in any form. */
export function keySectionBound(keyCount: number): number {
  return KEY_SECTION_HEADER_BYTES + padded(deltaKeysBound(keyCount));
}

/** The name of a list. `scratch` is 8 bytes. */
export function nameOfKeys({ arena, codecKernels }: CodecContext, keys: number, keyCount: number, scratch: number): KeyListName {
  codecKernels.signKeys(keys, keyCount, scratch);
  return { keyCount, signature: new DataView(arena.memory.buffer).getBigUint64(scratch, true) };
}

export type WriteKeysJob = {
  readonly keys: number;
  readonly keyCount: number;
  /** keySectionBound bytes, at a multiple of 8. */
  readonly target: number;
  readonly form: "raw" | "delta";
  /** What the receiver should remember the list as. */
  readonly remember?: KeyListName | undefined;
};

/** Writes a list with its keys; returns the section's length. Throws KEYS_NOT_ASCENDING. */
export function writeKeys({ arena, kernels, codecKernels }: CodecContext, job: WriteKeysJob): number {
  const { keys, keyCount, target, form, remember } = job;
  assert(keyCount >= 1 && keyCount <= CODEC_COUNT_MAX, `a section has at least one key, not ${keyCount}`);
  const body = target + KEY_SECTION_HEADER_BYTES;
  let bodyBytes = keyCount * KEY_BYTES;
  if (form === "delta") bodyBytes = codecKernels.encodeDeltaKeys(keys, keyCount, body);
  const wrong = form === "raw" || bodyBytes < 0 ? kernels.checkAscending(keys, keyCount) : -1;
  if (wrong >= 0) throw keysNotAscending(wrong, keyCount);
  if (form === "raw") kernels.copy(body, keys, bodyBytes);
  arena.bytes.fill(0, body + bodyBytes, body + padded(bodyBytes));
  writeHeader(arena, target, form === "raw" ? KeyForm.RAW : KeyForm.DELTA, keyCount, bodyBytes, remember);
  return KEY_SECTION_HEADER_BYTES + padded(bodyBytes);
}

/** Writes a list as its name alone; returns the section's length. */
export function writeName(arena: Arena, target: number, name: KeyListName): number {
  writeHeader(arena, target, KeyForm.NAMED, name.keyCount, 0, name);
  return KEY_SECTION_HEADER_BYTES;
}

function writeHeader(arena: Arena, at: number, form: number, keyCount: number, bodyBytes: number, name: KeyListName | undefined): void {
  const view = new DataView(arena.memory.buffer, at, KEY_SECTION_HEADER_BYTES);
  view.setUint32(0, form | (name !== undefined && form !== KeyForm.NAMED ? REMEMBER << 8 : 0), true);
  view.setUint32(4, keyCount, true);
  view.setUint32(8, bodyBytes, true);
  view.setUint32(12, 0, true);
  view.setBigUint64(16, name?.signature ?? 0n, true);
}

export type DecodeDeltasJob = {
  readonly source: number;
  readonly byteCount: number;
  readonly keyCount: number;
  /** keyCount × 8 bytes. */
  readonly target: number;
};

const DELTA_PROBLEMS: Readonly<Record<number, string>> = {
  [DeltaStatus.TOO_SHORT]: "ends before its last key",
  [DeltaStatus.TOO_LONG]: "goes on behind its last key",
  [DeltaStatus.WRONG_LENGTH]: "has a length that no encoder writes",
  [DeltaStatus.NOT_ASCENDING]: "passes 2^64 - 1",
};

/** Throws BAD_REQUEST for bytes that are not exactly keyCount delta-coded keys. */
export function decodeKeyDeltas(codecKernels: CodecKernels, { source, byteCount, keyCount, target }: DecodeDeltasJob): void {
  if (byteCount > deltaKeysBound(keyCount)) throw malformed(`${byteCount} bytes for ${keyCount} delta-coded keys`);
  const status = codecKernels.decodeDeltaKeys(source, byteCount, keyCount, target);
  if (status !== DeltaStatus.DONE) throw malformed(`a list of ${keyCount} delta-coded keys ${DELTA_PROBLEMS[status]}`);
}
