// simd-kernels — the Kernels that run: the AssemblyScript module of kernels/*.as.ts on the arena's memory. Most members
// *are* the module's exports, so a call costs only the step into WebAssembly.

import { assert } from "../base/assert.ts";
import { type Arena, stateFull } from "./arena.ts";
import type { Kernels, TableOptions } from "./kernels.ts";
import type { SimdExports } from "./simd-instance.ts";

export class SimdKernels implements Kernels {
  readonly add: Kernels["add"];
  readonly sum: Kernels["sum"];
  readonly axpy: Kernels["axpy"];
  readonly copy: Kernels["copy"];
  readonly zero: Kernels["zero"];
  readonly checkAscending: Kernels["checkAscending"];
  readonly destroyTable: Kernels["destroyTable"];
  readonly findRows: Kernels["findRows"];
  readonly findKnown: Kernels["findKnown"];
  readonly insertRows: Kernels["insertRows"];
  readonly findOrInsertRows: Kernels["findOrInsertRows"];
  readonly addRows: Kernels["addRows"];
  readonly addKnownRows: Kernels["addKnownRows"];
  readonly gatherRows: Kernels["gatherRows"];
  readonly gatherListedRows: Kernels["gatherListedRows"];
  readonly addListedRows: Kernels["addListedRows"];
  readonly setWords: Kernels["setWords"];
  readonly findOtherWord: Kernels["findOtherWord"];
  readonly removeRows: Kernels["removeRows"];
  readonly listRows: Kernels["listRows"];
  readonly listPart: Kernels["listPart"];
  readonly dropPart: Kernels["dropPart"];
  readonly keysAhead: Kernels["keysAhead"];
  readonly expectRows: Kernels["expectRows"];
  readonly segmentRowsMax: Kernels["segmentRowsMax"];
  readonly settleRows: Kernels["settleRows"];
  readonly #arena: Arena;
  readonly #module: SimdExports;

  constructor(arena: Arena) {
    const { module } = arena;
    this.#arena = arena;
    this.#module = module;
    this.add = module.add;
    this.sum = module.sum;
    this.axpy = module.axpy;
    this.copy = module.copy;
    this.zero = module.zero;
    this.checkAscending = module.checkAscending;
    this.destroyTable = module.destroyTable;
    this.findRows = module.findRows;
    this.findKnown = module.findKnown;
    this.insertRows = module.insertRows;
    this.findOrInsertRows = module.findOrInsertRows;
    this.addRows = module.addRows;
    this.addKnownRows = module.addKnownRows;
    this.gatherRows = module.gatherRows;
    this.gatherListedRows = module.gatherListedRows;
    this.addListedRows = module.addListedRows;
    this.setWords = module.setWords;
    this.findOtherWord = module.findOtherWord;
    this.removeRows = module.removeRows;
    this.listRows = module.listRows;
    this.listPart = module.listPart;
    this.dropPart = module.dropPart;
    this.keysAhead = module.keysAhead;
    this.expectRows = module.expectRows;
    this.segmentRowsMax = module.segmentRowsMax;
    this.settleRows = module.settleRows;
  }

  createTable(options: TableOptions): number {
    const { payloadBytes, secret, isAside = false } = options;
    assert(payloadBytes >= 4 && payloadBytes % 4 === 0, `a payload is a multiple of 4 bytes, not ${payloadBytes}`);
    const table = this.#module.createTable(payloadBytes, secret, isAside ? 1 : 0) >>> 0;
    if (table === 0) throw stateFull(this.#arena, "an empty table");
    return table;
  }

  rowCount(table: number): number {
    return this.#module.rowCount(table) >>> 0;
  }

  countPart(table: number, part: number): number {
    return this.#module.countPart(table, part) >>> 0;
  }

  tableBytes(table: number): number {
    return this.#module.tableBytes(table) >>> 0;
  }

  splitTo(table: number, hashTop: number, depth: number): boolean {
    return this.#module.splitTo(table, hashTop, depth) !== 0;
  }

  findRow(table: number, key: number): number {
    return this.#module.findRow(table, key) >>> 0;
  }
}
