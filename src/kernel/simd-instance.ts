// simd-instance — instantiates the inlined kernel module on a given memory. Only the Arena and SimdKernels know it.

import { InlinedModule, type KernelMemory } from "./inlined-module.ts";
import { MEMORY_FLAG_OFFSET, SIMD_MODULE } from "./simd-module.ts";

/** The exports as they come (see Kernels): addresses above 2 GiB are negative until `>>> 0`. */
export type SimdExports = {
  openArena(pageCount: number, reservePageCount: number): void;
  usedBytes(): number;
  reserveUsedBytes(): number;
  allocate(byteCount: number): number;
  allocateWork(byteCount: number): number;
  allocateReserve(byteCount: number): number;
  lend(byteCount: number): void;
  lentBytes(): number;
  stateUsedBytes(): number;
  setOverdraft(byteCount: number): void;
  release(address: number, byteCount: number): void;
  touchAhead(byteCount: number, pagesMax: number): number;
  aheadBytes(): number;

  add(target: number, source: number, floatCount: number): void;
  sum(target: number, left: number, right: number, floatCount: number): void;
  axpy(target: number, source: number, scale: number, floatCount: number): void;
  copy(target: number, source: number, byteCount: number): void;
  zero(target: number, byteCount: number): void;
  checkAscending(keys: number, keyCount: number): number;
  addElements(type: number, target: number, source: number, count: number): void;
  reduceSpans(
    type: number,
    result: number,
    sources: number,
    sourceCount: number,
    targets: number,
    targetCount: number,
    offset: number,
    byteCount: number,
  ): void;
  copySpan(targets: number, targetCount: number, offset: number, source: number, byteCount: number): void;
  addRowElements(type: number, rows: number, rowCount: number, offset: number, width: number, values: number): void;

  updateRows(optimizer: number, rows: number, rowCount: number, width: number, gradients: number, hyper: number): void;
  updateBlock(
    optimizer: number,
    target: number,
    source: number,
    slots: number,
    slotStride: number,
    gradients: number,
    rowCount: number,
    width: number,
    hyper: number,
  ): void;
  updateBlockRows(
    optimizer: number,
    values: number,
    slots: number,
    slotStride: number,
    rows: number,
    rowCount: number,
    width: number,
    gradients: number,
    hyper: number,
  ): void;
  useJob(address: number): void;
  fillRows(rows: number, rowCount: number, offset: number, floatCount: number, value: number): void;
  repeatRows(rows: number, rowCount: number, offset: number, floatCount: number): void;
  fillFloats(target: number, floatCount: number, value: number): void;
  checkFinite(address: number, floatCount: number): number;
  greatestMagnitude(address: number, floatCount: number): number;
  zeroNonFinite(address: number, floatCount: number): number;
  initialize(recipe: number, target: number, floatCount: number, firstIndex: number): void;
  initializeRows(recipe: number, rows: number, keys: number, rowCount: number, width: number): void;
  encodeFp16(source: number, floatCount: number, target: number): void;
  decodeFp16(source: number, floatCount: number, target: number): void;
  encodeBf16(source: number, floatCount: number, target: number): void;
  decodeBf16(source: number, floatCount: number, target: number): void;
  encodeInt8Rows(source: number, rowCount: number, width: number, centred: number, target: number): number;
  decodeInt8Rows(source: number, rowCount: number, width: number, centred: number, target: number): number;
  selectTopK(
    gradient: number,
    residual: number,
    floatCount: number,
    keepCount: number,
    indices: number,
    values: number,
    scratch: number,
  ): number;
  scatterFloats(indices: number, count: number, values: number, target: number): void;
  encodeDeltaKeys(keys: number, keyCount: number, target: number): number;
  decodeDeltaKeys(source: number, byteCount: number, keyCount: number, keys: number): number;
  signKeys(keys: number, keyCount: number, signature: number): void;
  packWords(source: number, wordCount: number, wordsMax: number, target: number): number;
  unpackWords(source: number, byteCount: number, wordCount: number, target: number): number;

  createTable(payloadBytes: number, secret: bigint, isAside: number): number;
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
  gatherListedRows(rows: number, keys: number, keyCount: number, payloadBytes: number, out: number): number;
  addListedRows(rows: number, keys: number, keyCount: number, payloadBytes: number, values: number): number;
  setWords(table: number, keys: number, keyCount: number, word: number): void;
  findOtherWord(table: number, keys: number, keyCount: number, word: number): number;
  removeRows(table: number, keys: number, keyCount: number): number;
  listRows(table: number, cursor: number, rowsOut: number): number;
  listPart(table: number, part: number, cursor: number, rowsOut: number): number;
  countPart(table: number, part: number): number;
  dropPart(table: number, part: number): number;
  expectRows(table: number, rowCount: number): void;
  segmentRowsMax(table: number): number;
  splitTo(table: number, hashTop: number, depth: number): number;
  settleRows(table: number): void;
  spareRows(table: number): number;
  keysAhead(table: number, cursor: number, keys: number, keyCount: number, out: number): number;

  findDuplicates(keys: number, keyCount: number, secret: number, scratch: number, uniqueKeys: number, indexes: number): number;
  sumDuplicates(rows: number, keyCount: number, width: number, indexes: number, rowsTo: number, known: number, out: number): number;
  mergeDuplicates(
    merge: number,
    rows: number,
    keyCount: number,
    width: number,
    indexes: number,
    rowsTo: number,
    known: number,
    out: number,
  ): number;
  firstForeignKey(keys: number, keyCount: number, owned: number, partBits: number): number;
  mixKeys(keys: number, keyCount: number, out: number): void;
  partitionKeys(
    keys: number,
    keyCount: number,
    owners: number,
    partBits: number,
    ownerCount: number,
    scratch: number,
    spans: number,
    keysOut: number,
    sources: number,
  ): void;
  gatherByIndex(rows: number, indexes: number, rowCount: number, width: number, out: number): void;
  scatterByIndex(rows: number, indexes: number, rowCount: number, width: number, out: number): void;

  hasCertainRoom(table: number, keyCount: number): number;
  findValues(table: number, keys: number, keyCount: number, touchBytes: number, rowsOut: number, owned: number): number;
  locateValues(table: number, keys: number, keyCount: number, touchBytes: number, rowsOut: number, freshOut: number, owned: number): number;
  insertValues(table: number, keys: number, keyCount: number, freshOut: number, owned: number): number;
  readRows(rows: number, rowCount: number, offset: number, byteCount: number, out: number): void;
  writeRows(rows: number, rowCount: number, offset: number, byteCount: number, from: number): void;
  addWords(rows: number, rowCount: number, offset: number, amounts: number): void;
  staleRows(
    rows: number,
    rowCount: number,
    offset: number,
    known: number,
    bound: number,
    first: number,
    indexesOut: number,
    versionsOut: number,
  ): number;
  standIn(rows: number, rowCount: number, keys: number, indexes: number, spares: number, spareBytes: number, sparesOut: number): number;
};

const MODULE = new InlinedModule({ base64: SIMD_MODULE, memoryFlagOffset: MEMORY_FLAG_OFFSET });

export function instantiateSimdModule(memory: KernelMemory): SimdExports {
  return MODULE.instantiate(memory) as SimdExports;
}
