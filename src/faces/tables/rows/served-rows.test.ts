// Goal: rows of every type of tables on whole clusters of two and three servers: applied, joined, saved and restored
// there as in the process cache, and refused with the codes that a user is told.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { DtypeOption, EmbeddingOptions } from "../../../api/parameter-options.ts";
import type { Session } from "../../../api/session.ts";
import { Random } from "../../../base/random.ts";
import { ELEMENT_NAMES, elementsAt, ROW_ELEMENTS, type RowArray, type RowElement } from "../../../kernel/row-element.ts";
import { EmbeddedCluster } from "../../../node/embedded-cluster.ts";
import type { RowPlace, UpdateOf } from "../../../store/row-types/column-updates.ts";
import { throwsCode } from "../../../testing/throws-code.ts";
import type { Embedding } from "../../../worker/embedding.ts";
import type { TableRowType } from "../table-row-type.ts";
import { customRow } from "./custom-row.ts";
import { multiplicativeRow } from "./dense-row.ts";
import { sortedRow, sparseFeatureRow, sparseRow } from "./sparse-row.ts";

const CAPACITY = 6;
const PACKED = { link: { push: "packed", pull: "packed" } } as const;

/** Hours of a clock: 12 is 0. */
const hoursOptions = {
  name: "hours",
  version: 1,
  deterministic: true,
  dtype: "f64",
  apply: ({ cells, start }: RowPlace<"f64">, column: number, update: number) => {
    if (update === 13) throw new Error("thirteen");
    cells[start + column] = (((cells[start + column]! + update) % 12) + 12) % 12;
  },
} as const;
const hours = customRow(hoursOptions);

type Choices = Pick<EmbeddingOptions, "consistency" | "link">;

async function tableOf(session: Session, name: string, rowType: TableRowType, choices: Choices = {}): Promise<Embedding<RowElement>> {
  const stored = (rowType.plugIn ?? rowType.element) as DtypeOption;
  return await session.embedding(name, { dim: CAPACITY, dtype: stored, optimizer: "sum", ...choices });
}

/** Zeros for so many spans, side by side. */
function zeros(rowType: TableRowType, count: number): RowArray {
  const length = rowType.elements(CAPACITY) * count;
  return elementsAt(rowType.element, new ArrayBuffer(length * ROW_ELEMENTS[rowType.element].bytes), 0, length);
}

function placeOf(rowType: TableRowType, cells: RowArray, i: number): RowPlace {
  const length = rowType.elements(CAPACITY);
  return { cells, start: i * length, length };
}

/** Small whole numbers: exact in every order. Factors of −1, 1 and 2 for rows of products. */
function updateOf({ name, element }: TableRowType, random: Random): UpdateOf<RowElement> {
  const update = name.startsWith("multiplicative") ? ([-1, 1, 2][random.below(3)] as number) : random.below(7) - 3;
  return (element === "i64" ? BigInt(update) : update) as UpdateOf<RowElement>;
}

function columnOf({ name }: TableRowType, random: Random): number {
  return random.below(CAPACITY) * (name.startsWith("s") ? 300_000_007 : 1);
}

const ROW_TYPES: readonly TableRowType[] = [
  ...ELEMENT_NAMES.flatMap((element) => [sparseRow(element), sortedRow(element), multiplicativeRow(element)] as unknown as TableRowType[]),
  sparseFeatureRow("f32", { dim: 2_000_000_000 }) as unknown as TableRowType,
  hours as unknown as TableRowType,
];

for (const { servers, carried, choices } of [
  { servers: 2, carried: "as they are", choices: {} },
  { servers: 3, carried: "as they are", choices: {} },
  { servers: 2, carried: "packed", choices: PACKED },
]) {
  test(`rows of every type that travel ${carried} are on ${servers} servers what the process cache made of the same updates`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers, plugIns: [hours.plugIn] });
    const random = new Random(servers);
    const keys = Array.from({ length: 40 }, (_, i) => i);
    for (const [number, rowType] of ROW_TYPES.entries()) {
      const table = await tableOf(cluster.session, `table ${number}`, rowType, choices);
      const cached = await table.pull(keys);
      for (let round = 0; round < 5; round++) {
        const named = [...keys, ...keys.slice(0, 10)]; // some of them twice
        const updates = zeros(rowType, named.length);
        for (const [i, key] of named.entries()) {
          for (let j = random.below(4); j > 0; j--) {
            const [column, update] = [columnOf(rowType, random), updateOf(rowType, random)];
            rowType.add(placeOf(rowType, updates, i), column, update);
            rowType.apply(placeOf(rowType, cached, key), column, update);
          }
        }
        await table.push(named, updates);
      }
      assert.deepEqual(await table.pull(keys), cached, `${rowType.name}: servers and cache`);
    }
  });
}

test("of a packed row and a packed update only the words that are not 0 travel, behind a bit for each", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1 });
  const { session } = cluster;
  const loads = (): { sent: number; received: number } => {
    const all = [...session.takeLoads().values()];
    return { sent: all.reduce((sum, load) => sum + load.sentBytes, 0), received: all.reduce((sum, load) => sum + load.receivedBytes, 0) };
  };
  const dim = 10_000;
  const bytesOf = async (
    name: string,
    rowType: DtypeOption,
    choices: Choices,
    update: RowArray,
  ): Promise<{ sent: number; received: number }> => {
    const table = (await session.embedding(name, {
      dim,
      dtype: rowType,
      optimizer: "sum",
      ...choices,
    })) as unknown as Embedding<RowElement>;
    session.startRecord();
    await table.push([1], update);
    const { sent } = loads();
    assert.deepEqual(await table.pull([1]), update);
    return { sent, received: loads().received };
  };
  const dense = new Float64Array(dim);
  for (const column of [0, 77, dim - 1]) dense[column] = 0.1;
  const whole = await bytesOf("whole", "f64", {}, dense);
  const packed = await bytesOf("packed", "f64", PACKED, dense);
  assert.ok(whole.sent >= 80_000 && whole.received >= 80_000, JSON.stringify(whole));
  assert.ok(packed.sent < 2500 + 3 * 8 + 200 && packed.received < 2500 + 3 * 8 + 200, JSON.stringify(packed));
  const sparse = sparseRow("i32");
  const span: RowPlace<"i32"> = { cells: new Int32Array(sparse.elements(dim)), start: 0, length: sparse.elements(dim) };
  for (const column of [5, 1_000_000]) sparse.add(span, column, 3);
  const small = await bytesOf("small", sparse.plugIn as unknown as DtypeOption, PACKED, span.cells);
  assert.ok(small.sent < 2501 + 5 * 4 + 200 && small.received < 2501 + 5 * 4 + 200, JSON.stringify(small));
});

test("updates of one clock are joined by column before they are applied, in rank order, whoever comes first", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const pulled = cluster.sessions.map(async (session) => {
    const rowType = sortedRow("i64");
    const table = await tableOf(session, "joined", rowType as unknown as TableRowType, { consistency: "bsp" });
    const updates = zeros(rowType as unknown as TableRowType, 1);
    const span = placeOf(rowType as unknown as TableRowType, updates, 0) as RowPlace<"i64">;
    rowType.add(span, 100 + session.rank, 5n);
    rowType.add(span, 7, session.rank === 0 ? 3n : -3n);
    rowType.add(span, 8, 9n);
    await table.push([1], updates);
    session.clock();
    const accessor = rowType.accessor({ cells: (await table.pull([1])) as BigInt64Array, start: 0, length: updates.length });
    accessor.slot = 0;
    return [...accessor];
  });
  const expected = [
    [8, 18n],
    [100, 5n],
    [101, 5n],
  ];
  for (const entries of await Promise.all(pulled)) assert.deepEqual(entries, expected);
});

test("columns that do not fit a row on a server are OUT_OF_RANGE, what no writer makes BAD_REQUEST, what a user's row type throws HANDLER_FAILED, and nothing of the push is applied", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns: [hours.plugIn] });
  const rowType = sparseRow("f64") as unknown as TableRowType;
  const table = await tableOf(cluster.session, "sparse", rowType);
  const spanOf = (columns: readonly number[]): RowArray => {
    const updates = zeros(rowType, 1);
    for (const column of columns) rowType.add(placeOf(rowType, updates, 0), column, 1);
    return updates;
  };
  await table.push([1], spanOf([1, 2, 3, 4]));
  const before = await table.pull([1]);
  await assert.rejects(
    table.push([1], spanOf([4, 5, 6, 7])),
    throwsCode("OUT_OF_RANGE", /server \d: row type "sparse.f64" of weighbridge threw.*room for 6 columns.*raise rowCapacity/),
  );
  const torn = spanOf([1, 2]);
  new Uint32Array(torn.buffer)[0] = 1;
  await assert.rejects(table.push([1], torn), throwsCode("BAD_REQUEST", /malformed sparse row: more than the 1 entries/));
  await assert.rejects(
    table.push([1, 1], new Float64Array([...(spanOf([1, 2, 3, 4]) as Float64Array), ...(spanOf([5, 6, 7]) as Float64Array)])),
    throwsCode("HANDLER_FAILED", /row type "sparse.f64" cannot add updates: .*room for 6 columns/),
  );
  assert.deepEqual(await table.pull([1]), before);
  const own = await tableOf(cluster.session, "own", hours as unknown as TableRowType);
  await own.push([1], Float64Array.of(4, 0, 0, 0, 0, 0));
  await assert.rejects(
    own.push([1], Float64Array.of(3, 13, 0, 0, 0, 0)),
    throwsCode("HANDLER_FAILED", /"hours" of this program.*thirteen/),
  );
  assert.deepEqual(await own.pull([1]), Float64Array.of(4, 0, 0, 0, 0, 0));
  await own.push([1], Float64Array.of(9, 1, 0, 0, 0, 0));
  assert.deepEqual(await own.pull([1]), Float64Array.of(1, 1, 0, 0, 0, 0));
});

test("a round whose updates do not fit a row stops its table, as every round that fails, and says why", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const rowType = sparseRow("i32") as unknown as TableRowType;
  const outcomes = cluster.sessions.map(async (session) => {
    const table = await tableOf(session, "rounds", rowType, { consistency: "bsp" });
    for (let clock = 0; clock < 2; clock++) {
      const updates = zeros(rowType, 1);
      for (let i = 0; i < 2; i++) rowType.add(placeOf(rowType, updates, 0), 4 * session.rank + 2 * clock + i, 1);
      await table.push([1], updates);
      session.clock();
      if (clock === 0) assert.equal(new Int32Array((await table.pull([1])) as Int32Array)[0], 4);
    }
    return await table.pull([1]);
  });
  for (const outcome of await Promise.allSettled(outcomes)) {
    assert.equal(outcome.status, "rejected");
    assert.match(String((outcome as PromiseRejectedResult).reason), /room for 6 columns.*raise rowCapacity/);
  }
});

test("a checkpoint of two servers is restored on three with rows of every type as they were", async () => {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-table-rows-"));
  const random = new Random(5);
  const keys = Array.from({ length: 100 }, (_, i) => i);
  try {
    const expected: RowArray[] = [];
    {
      await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns: [hours.plugIn], checkpointDir: directory });
      for (const [number, rowType] of ROW_TYPES.entries()) {
        const table = await tableOf(cluster.session, `table ${number}`, rowType);
        const updates = zeros(rowType, keys.length);
        for (const key of keys) rowType.add(placeOf(rowType, updates, key), columnOf(rowType, random), updateOf(rowType, random));
        await table.push(keys, updates);
        expected.push(await table.pull(keys));
      }
      await cluster.session.checkpoint().saved;
    }
    await using cluster = await EmbeddedCluster.start({ servers: 3, plugIns: [hours.plugIn], restore: directory });
    for (const [number, rowType] of ROW_TYPES.entries()) {
      const table = await tableOf(cluster.session, `table ${number}`, rowType);
      assert.deepEqual(await table.pull(keys), expected[number], rowType.name);
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("rows of another version of a user's row type are loaded by the newer one, which says how, or refused", async () => {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-table-rows-"));
  try {
    {
      await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns: [hours.plugIn], checkpointDir: directory });
      const table = await tableOf(cluster.session, "hours", hours as unknown as TableRowType);
      await table.push([1, 2], Float64Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0));
      await cluster.session.checkpoint().saved;
    }
    const newer = { ...hoursOptions, version: 2 };
    await assert.rejects(
      EmbeddedCluster.start({ servers: 2, plugIns: [customRow(newer).plugIn], restore: directory }),
      throwsCode("CHECKPOINT_FOREIGN", /"hours" of version 1, which row type "hours" of this program, version 2, cannot load/),
    );
    const minutes = customRow({
      ...newer,
      load: ({ columns }, version) => {
        assert.equal(version, 1);
        const values = columns.values!;
        for (let i = 0; i < values.length; i++) values[i] = values[i]! * 60;
      },
    });
    await using cluster = await EmbeddedCluster.start({ servers: 3, plugIns: [minutes.plugIn], restore: directory });
    const table = await tableOf(cluster.session, "hours", minutes as unknown as TableRowType);
    assert.deepEqual(await table.pull([2]), Float64Array.of(420, 480, 540, 600, 660, 0));
  } finally {
    rmSync(directory, { recursive: true });
  }
});
