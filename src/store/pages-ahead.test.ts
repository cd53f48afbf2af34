// Goal: how many pages a call that makes rows touches first is counted, not timed: none where turns come between the
// calls, two large ones at most where they do not, through every slab, split and directory on the way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "../kernel/arena.ts";
import { SimdOptimizerKernels } from "../kernel/optimizer-kernels.ts";
import { simdRowKernels } from "../kernel/row-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { AHEAD_BYTES, bringPagesAhead, LARGE_PAGE_BYTES, TURN_BYTES_MAX, TURN_BYTES_MIN } from "./pages-ahead.ts";
import { TableStore } from "./table-store.ts";
import { resolveOptimizer } from "./updaters/optimizer-spec.ts";
import { Updater } from "./updaters/updater.ts";

const MIB = 2 ** 20;
const CALL_KEYS = 1_024;
const PAGES_LOOKED_AT = 4;
const ZEROS = new Uint8Array(LARGE_PAGE_BYTES);
/**
 * Where the index grows by every kind of step: rows of 16 floats with their AdaGrad sums, and rows of one float, which
 * are mostly index.
 */
const TABLES = [
  { width: 16, optimizer: "adagrad", rowCount: 150 * CALL_KEYS },
  { width: 1, optimizer: "sum", rowCount: 500 * CALL_KEYS },
] as const;

type Growth = (typeof TABLES)[number];

class GrowingTable {
  readonly arena = new Arena({ bytesMax: 128 * MIB });
  readonly store: TableStore;
  readonly #keys: number;
  readonly #gradients: number;
  readonly #rowCountMax: number;
  #called = 0;

  constructor({ width, optimizer, rowCount }: Growth) {
    const { arena } = this;
    this.#rowCountMax = rowCount;
    this.store = new TableStore({
      arena,
      kernels: new SimdKernels(arena),
      rowKernels: simdRowKernels(arena),
      width,
      updater: new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer({ type: optimizer }), {
        kind: "table",
        width,
      }),
      initializer: { recipe: 0, kernels: { initializeRows: () => {} } }, // zeros, as rows are made
      secret: 1n,
    });
    this.#keys = arena.allocate(CALL_KEYS * 8);
    this.#gradients = arena.allocate(CALL_KEYS * width * 4);
    arena.floats.fill(0.5, this.#gradients / 4, this.#gradients / 4 + CALL_KEYS * width);
  }

  get isFull(): boolean {
    return this.store.rowCount >= this.#rowCountMax;
  }

  /** One call with keys that are all new. */
  grow(): void {
    const { words } = this.arena;
    for (let i = 0; i < CALL_KEYS; i++) {
      words[this.#keys / 4 + i * 2] = this.#called * CALL_KEYS + i;
      words[this.#keys / 4 + i * 2 + 1] = 7;
    }
    this.#called++;
    this.store.update({ keys: this.#keys, keyCount: CALL_KEYS, gradients: this.#gradients });
    assert.equal(this.store.rowCount, this.#called * CALL_KEYS);
  }
}

for (const growth of TABLES) {
  const what = `rows of ${growth.width} (${growth.optimizer})`;

  test(`with a turn between the calls none of them needs a page that was not touched before: ${what}`, () => {
    const table = new GrowingTable(growth);
    let turnBytesMax = 0;
    let aheadBytesMin = AHEAD_BYTES;
    while (!table.isFull) {
      turnBytesMax = Math.max(turnBytesMax, bringPagesAhead(table.arena));
      table.grow();
      // 0 as soon as an allocation goes beyond what is touched
      aheadBytesMin = Math.min(aheadBytesMin, table.arena.aheadBytes);
    }
    assert.ok(aheadBytesMin >= AHEAD_BYTES / 8, `${aheadBytesMin} bytes were ready after a call`);
    assert.ok(turnBytesMax <= TURN_BYTES_MAX, `PagesAhead.P1: ${turnBytesMax} bytes in one turn`);
  });

  test(`without turns a call of 1,024 new keys is the first in two large pages at most: ${what}`, () => {
    const table = new GrowingTable(growth);
    const pages = Array.from({ length: table.arena.bytesMax / LARGE_PAGE_BYTES }, (_, i) =>
      table.arena.bytes.subarray(i * LARGE_PAGE_BYTES, (i + 1) * LARGE_PAGE_BYTES),
    );
    /** Memory is zero until it is written; pages come into use in order, so that looking at the next few is enough. */
    const takeWritten = (): number => {
      const written = pages.slice(0, PAGES_LOOKED_AT).findLastIndex((page) => Buffer.compare(page, ZEROS) !== 0) + 1;
      pages.splice(0, written);
      return written;
    };
    while (takeWritten() > 0); // what the arena, the optimizer and the requests lie in
    let [pagesMax, pagesTotal] = [0, 0];
    while (!table.isFull) {
      table.grow();
      const written = takeWritten();
      pagesMax = Math.max(pagesMax, written);
      pagesTotal += written;
    }
    assert.ok(pagesMax <= 2, `${pagesMax} large pages in one call`);
    assert.ok(pagesTotal * LARGE_PAGE_BYTES >= table.store.usedBytes - 2 * LARGE_PAGE_BYTES, `${pagesTotal} pages were seen at all`);
  });
}

test("a turn touches by what is lacking: one large page at most, less as it fills, and nothing once all is there (PagesAhead.P1, PagesAhead.P2, PagesAhead.P3)", () => {
  const arena = new Arena({ bytesMax: 64 * MIB });
  const turns: number[] = [];
  for (let bytes = bringPagesAhead(arena); bytes > 0; bytes = bringPagesAhead(arena)) turns.push(bytes);
  assert.equal(turns[0], TURN_BYTES_MAX);
  assert.deepEqual(
    turns,
    turns.toSorted((a, b) => b - a),
  );
  assert.ok(turns.slice(0, -1).every((bytes) => bytes >= TURN_BYTES_MIN));
  const total = turns.reduce((sum, bytes) => sum + bytes, 0);
  assert.ok(total >= AHEAD_BYTES - TURN_BYTES_MIN && total <= AHEAD_BYTES + TURN_BYTES_MIN, `${total} bytes`);

  arena.allocate(3 * MIB);
  const aheadBytes = arena.aheadBytes;
  assert.ok(aheadBytes > 4 * MIB && aheadBytes < 6 * MIB, `${aheadBytes} bytes`);
  const next = bringPagesAhead(arena);
  assert.ok(next > TURN_BYTES_MIN && next < TURN_BYTES_MAX, `${next} bytes`);
  assert.equal(arena.aheadBytes, aheadBytes + next);

  arena.allocate(20 * MIB);
  assert.equal(arena.aheadBytes, 0, "allocations went beyond it");
  assert.equal(bringPagesAhead(arena), TURN_BYTES_MAX);
});

test("touching ahead ends with the arena", () => {
  const arena = new Arena({ bytesMax: 2 * MIB });
  let total = 0;
  for (let bytes = bringPagesAhead(arena); bytes > 0; bytes = bringPagesAhead(arena)) total += bytes;
  assert.ok(total > MIB && total < 2 * MIB, `${total} bytes`);
});

test("an arena that is not to touch pages ahead touches none", () => {
  const arena = new Arena({ bytesMax: 64 * MIB, touchesAhead: false });
  assert.equal(bringPagesAhead(arena), 0);
  assert.equal(arena.aheadBytes, 0);
});
