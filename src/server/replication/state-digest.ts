// state-digest — what the state of one part comes to, as one number, for a head and a standby to compare: they have the
// same bits, or one of them is wrong (ReplicaLog.I2). Rows count in any order: tables lie in memory by secrets of their
// own.

import { freeBuffer } from "../../base/free-buffer.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { freePages, PartState } from "../parameters/part-state.ts";

const PRIME = 0x01000193;
const BASIS = 0x811c9dc5;

/** As `digestOf` of the next parts from this one on: so many, or as many as come to so many bytes. */
export function digestOfParts(
  parameters: Parameters,
  from: number,
  { partsMax, bytesMax }: { readonly partsMax: number; readonly bytesMax: number },
): { readonly to: number; readonly digest: number } {
  const marks = partsMax > 1 ? new PartState(parameters).marks() : undefined;
  const count = { bytes: 0 };
  let [to, digest] = [from, 0];
  for (; to < from + partsMax && count.bytes < bytesMax; to++)
    if (marks?.[to] !== 0) digest = (digest + digestOfPart(parameters, to, count)) >>> 0;
  return { to, digest: (digest + Math.imul(to - from, digestOfClocks(parameters.pacer))) >>> 0 };
}

/**
 * Of this part, and of the clocks of workers. Not of the vector clock: a head counts the stamps of requests that it
 * refused, and of those that leave no trace; nor of blocks that a read has made, which are as they begin.
 */
export function digestOf(parameters: Parameters, part: number): number {
  return digestOfParts(parameters, part, { partsMax: 1, bytesMax: Infinity }).digest;
}

/** Without the clocks. Adds to `count` the bytes that it read. */
function digestOfPart(parameters: Parameters, part: number, count: { bytes: number }): number {
  let sum = 0;
  for (const page of new PartState(parameters).savePart(part)) {
    switch (page.kind) {
      case "rows":
      case "data":
        count.bytes += page.images.payloads.byteLength;
        sum += ofRows(page.images);
        break;
      case "pulledRows":
        sum += mix(ofRows(page.pulled.images), page.pulled.rank);
        break;
      case "openRows": {
        const { holder, clock, image } = page;
        const gradients = image.gradients.length / Math.max(1, image.keys.length);
        for (const [i, key] of image.keys.entries())
          sum += ofNumbers(
            [Number(key & 0xffff_ffffn), Number(key >> 32n), holder.worker, clock],
            image.gradients.subarray(i * gradients, (i + 1) * gradients),
          );
        break;
      }
      case "block": {
        const { index, values, slots, step, isStarted } = page.image;
        count.bytes += values.byteLength + slots.byteLength;
        if (isStarted) sum += mix(ofNumbers([index, step], values), ofBytes(slots));
        break;
      }
      case "openBlock": {
        const { block, holder, clock, image } = page;
        sum += ofNumbers([block, holder.worker, clock], image.gradients);
        break;
      }
    }
    freePages([page]);
  }
  for (const [owner, store] of parameters.sums.all) {
    if (owner === "data") continue;
    for (const images of store.savePart(part)) {
      count.bytes += images.payloads.byteLength;
      sum += mix(ofRows(images), Number(owner));
      freeBuffer(images.payloads);
    }
  }
  return sum >>> 0;
}

function digestOfClocks(pacer: Parameters["pacer"]): number {
  let sum = mix(BASIS, pacer.clockMin);
  for (const { worker, incarnation, clock } of pacer.members()) sum += ofNumbers([worker, incarnation, clock]);
  return sum >>> 0;
}

function ofRows({ keys, payloads }: { readonly keys: BigUint64Array; readonly payloads: Uint8Array }): number {
  const rowBytes = payloads.length / Math.max(1, keys.length);
  let sum = 0;
  for (const [i, key] of keys.entries()) {
    const row = payloads.subarray(i * rowBytes, (i + 1) * rowBytes);
    sum = (sum + ofNumbers([Number(key & 0xffff_ffffn), Number(key >> 32n)], row)) >>> 0;
  }
  return sum;
}

function ofNumbers(numbers: readonly number[], bytes?: ArrayBufferView): number {
  let hash = BASIS;
  for (const number of numbers) hash = mix(mix(hash, number), Math.floor(number / 2 ** 32));
  return bytes === undefined ? hash : mix(hash, ofBytes(bytes));
}

function ofBytes({ buffer, byteOffset, byteLength }: ArrayBufferView): number {
  let hash = BASIS;
  for (const byte of new Uint8Array(buffer, byteOffset, byteLength)) hash = Math.imul(hash ^ byte, PRIME);
  return hash >>> 0;
}

function mix(hash: number, value: number): number {
  return Math.imul(hash ^ (value >>> 0), PRIME) >>> 0;
}
