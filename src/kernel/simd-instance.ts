// simd-instance — turns the inlined kernel module into an instance on a given memory. Only the Arena and SimdKernels know it.

import { assert } from "../base/assert.ts";
import { MEMORY_FLAG_OFFSET, SIMD_MODULE } from "./simd-module.ts";

const FLAG_SHARED = 3;
const FLAG_PLAIN = 1;

/** What the module exports, as it comes: addresses above 2 GiB are negative until `>>> 0`. See Kernels for what each does. */
export type SimdExports = {
  openArena(pageCount: number): void;
  usedBytes(): number;
  allocate(byteCount: number): number;
  release(address: number, byteCount: number): void;

  add(target: number, source: number, floatCount: number): void;
  sum(target: number, left: number, right: number, floatCount: number): void;
  axpy(target: number, source: number, scale: number, floatCount: number): void;
  copy(target: number, source: number, byteCount: number): void;
  zero(target: number, byteCount: number): void;
  checkAscending(keys: number, keyCount: number): number;

  createTable(payloadBytes: number, secret: bigint): number;
  destroyTable(table: number): void;
  rowCount(table: number): number;
  tableBytes(table: number): number;
  findRow(table: number, key: number): number;
  findRows(table: number, keys: number, keyCount: number, rowsOut: number): number;
  findKnown(table: number, keys: number, keyCount: number): number;
  insertRows(table: number, keys: number, keyCount: number): number;
  findOrInsertRows(table: number, keys: number, keyCount: number, rowsOut: number): number;
  addRows(table: number, keys: number, keyCount: number, values: number): number;
  addKnownRows(table: number, keys: number, keyCount: number, values: number): number;
  gatherRows(table: number, keys: number, keyCount: number, out: number): number;
  setWords(table: number, keys: number, keyCount: number, word: number): void;
  findOtherWord(table: number, keys: number, keyCount: number, word: number): number;
  removeRows(table: number, keys: number, keyCount: number): number;
  listRows(table: number, cursor: number, rowsOut: number): number;
};

export function instantiateSimdModule(memory: WebAssembly.Memory): SimdExports {
  const binary = Uint8Array.from(atob(SIMD_MODULE), (character) => character.charCodeAt(0));
  assert(binary[MEMORY_FLAG_OFFSET] === FLAG_SHARED, "the kernel module is built for shared memory");
  if (memory.buffer instanceof ArrayBuffer) binary[MEMORY_FLAG_OFFSET] = FLAG_PLAIN;
  const instance = new WebAssembly.Instance(new WebAssembly.Module(binary), { env: { memory } });
  return instance.exports as SimdExports;
}
