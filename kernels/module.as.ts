// module — the list of what the kernel module exports. Addresses are u32 and come to JavaScript signed: read them with
// `>>> 0`.

export {
  aheadBytes, allocate, allocateReserve, allocateWork, lend, lentBytes, openArena, release, reserveUsedBytes, setOverdraft, stateUsedBytes,
  touchAhead, usedBytes,
} from "./allocator.as";
export { addElements, addRowElements } from "./elements.as";
export { checkFinite, greatestMagnitude, zeroNonFinite } from "./finite.as";
export { initialize, initializeRows } from "./initializers.as";
export { updateBlock, updateBlockRows, updateRows } from "./optimizers.as";
export { useJob } from "./optimizers/job.as";
export { fillFloats, fillRows, repeatRows } from "./slots.as";
export { decodeBf16, decodeFp16, encodeBf16, encodeFp16 } from "./codec-half.as";
export { decodeInt8Rows, encodeInt8Rows } from "./codec-int8.as";
export { decodeDeltaKeys, encodeDeltaKeys, signKeys } from "./codec-keys.as";
export { scatterFloats, selectTopK } from "./codec-top-k.as";
export { packWords, unpackWords } from "./codec-words.as";
export { createTable, destroyTable, spareRows } from "./table.as";
export { expectRows, segmentRowsMax, settleRows, splitTo } from "./table-growth.as";
export {
  addKnownRows, addListedRows, addRows, findKnown, findOrInsertRows, findOtherWord, findRow, findRows, gatherListedRows, gatherRows, hasCertainRoom, insertRows,
  keysAhead, listRows, removeRows, rowCount, setWords, tableBytes,
} from "./rows.as";
export { countPart, dropPart, listPart } from "./table-parts.as";
export { findDuplicates, mergeDuplicates, sumDuplicates } from "./duplicates.as";
export { firstForeignKey } from "./ownership.as";
export { gatherByIndex, mixKeys, partitionKeys, scatterByIndex } from "./partition.as";
export { copySpan, reduceSpans } from "./reduce.as";
export { addWords, findValues, insertValues, locateValues, readRows, staleRows, standIn, writeRows } from "./row-lists.as";
export { add, axpy, checkAscending, copy, sum, zero } from "./vector.as";
