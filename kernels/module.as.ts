// module — the list of what the kernel module exports. Addresses are u32 and come to JavaScript signed: read them with `>>> 0`.

export { allocate, openArena, release, usedBytes } from "./allocator.as";
export { createTable, destroyTable } from "./table.as";
export {
  addKnownRows, addRows, findKnown, findOrInsertRows, findOtherWord, findRow, findRows, gatherRows, insertRows, listRows, removeRows,
  rowCount, setWords, tableBytes,
} from "./rows.as";
export { add, axpy, checkAscending, copy, sum, zero } from "./vector.as";
