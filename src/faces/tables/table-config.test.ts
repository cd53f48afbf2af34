// table-config — Goal: every field of the two configurations exists under its name, has the default that the guide
// states, and refuses what it cannot be with an error that names it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, showValue } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { checkGroupConfig, checkId, checkTableConfig, type TableConfig, type TableGroupConfig } from "./table-config.ts";

type FieldCase = {
  /** When it is left out; "required" where it must not be. */
  readonly initial: unknown;
  readonly right: readonly unknown[];
  readonly wrong: readonly unknown[];
};

const NO_NUMBER = ["1", null, true, [], {}, 1n, Number.NaN] as const;
const NO_WHOLE = [...NO_NUMBER, 1.5, -Infinity, 2 ** 53, -2] as const;
const NO_WORD = ["", "ssp", "random", 0, null, true, []] as const;
const NO_FLAG = ["true", 0, 1, null, [], Number.NaN] as const;
const NO_PATH = ["", 0, null, true, []] as const;
const HOSTS = [{ id: 0, host: "127.0.0.1", port: 9000 }] as const;

const count = (initial: unknown, least: number): FieldCase => ({ initial, right: [least, 7], wrong: [...NO_WHOLE, least - 1, Infinity] });
const rows = (initial: unknown): FieldCase => ({ initial, right: [1, 2 ** 28], wrong: [...NO_WHOLE, 0, -1, Infinity, 2 ** 28 + 1] });
const clock: FieldCase = { initial: -1, right: [-1, 1, 2 ** 32 - 1], wrong: [...NO_WHOLE, 0, 2 ** 32, Infinity] };
const rate = (initial: number): FieldCase => ({ initial, right: [0.5, 1000], wrong: [...NO_NUMBER, 0, -1, -Infinity] });
const flag: FieldCase = { initial: false, right: [true, false], wrong: NO_FLAG };
const folder: FieldCase = { initial: undefined, right: ["runs"], wrong: NO_PATH };

const GROUP: Readonly<Record<keyof TableGroupConfig, FieldCase>> = {
  numTables: count(1, 0),
  numLocalAppThreads: count(2, 1),
  consistencyModel: { initial: "SSP", right: ["SSP", "SSPPush", "SSPAggr"], wrong: [...NO_WORD, "LocalOOC"] },
  aggressiveClock: flag,
  snapshotClock: clock,
  snapshotDir: folder,
  resumeClock: clock,
  resumeDir: folder,
  statsPath: folder,
  bandwidthMbps: rate(40),
  updateSortPolicy: { initial: "Random", right: ["FIFO", "Random", "RelativeMagnitude"], wrong: [...NO_WORD, "FIFO_N_ReMag"] },
  oplogPushUpperBoundKb: rate(100),
  oplogPushStalenessTolerance: count(2, 0),
  serverPushRowThreshold: count(100, 1),
  hostMap: {
    initial: undefined,
    right: [HOSTS, [{ ...HOSTS[0], port: "9000" }]],
    wrong: [
      ...[null, "", {}, [], [null], [{}], [{ ...HOSTS[0], id: 1 }], [{ ...HOSTS[0], host: "" }], [...HOSTS, ...HOSTS]],
      ...[0, -1, 1.5, Number.NaN, 65_535, "90a", "", " 9000", "65535", "0x10"].map((port) => [{ ...HOSTS[0], port }]),
    ],
  },
  clientId: { initial: undefined, right: [0], wrong: [...NO_WHOLE, -1, 1, Infinity] },
};

const TABLE: Readonly<Record<keyof TableConfig, FieldCase>> = {
  staleness: { initial: 0, right: [0, 3, Infinity], wrong: [...NO_WHOLE, -1] },
  rowType: { ...count("required", 0), wrong: [undefined, ...NO_WHOLE, -1, Infinity] },
  rowCapacity: { ...count("required", 1), wrong: [undefined, ...NO_WHOLE, 0, Infinity] },
  processCacheCapacity: { ...rows("required"), wrong: [undefined, ...rows("required").wrong] },
  oplogCapacity: rows(9), // as the process cache
  processOplogCapacity: rows(undefined), // another word for it
  oplogDenseSerialized: flag,
  rowOplogType: { initial: 1, right: [0, 1, 2], wrong: [...NO_WHOLE, -1, 3, Infinity] },
  threadCacheCapacity: rows(1),
  noOplogReplay: flag,
};

const LEAST: TableConfig = { rowType: 0, rowCapacity: 4, processCacheCapacity: 9 };

/** What a field needs beside it. */
const BESIDE: Readonly<Record<string, TableGroupConfig>> = {
  snapshotDir: { hostMap: HOSTS, clientId: 0 },
  resumeDir: { hostMap: HOSTS, clientId: 0 },
  hostMap: { clientId: 0 },
  clientId: { hostMap: HOSTS },
};

const group = (config: object): object => checkGroupConfig(config);
const table = (config: object): object => checkTableConfig(3, { ...LEAST, ...config });

for (const [what, check, cases, least] of [
  ["group", group, GROUP, {}],
  ["table", table, TABLE, LEAST],
] as const)
  test(`every field of the configuration of a ${what} is checked by its name, and has a default`, () => {
    const defaults = check(least) as Readonly<Record<string, unknown>>;
    for (const [name, { initial, right, wrong }] of Object.entries<FieldCase>(cases)) {
      const beside = what === "group" ? (BESIDE[name] ?? {}) : {};
      if (initial !== "required") assert.equal(defaults[name], initial, `the default of ${name}`);
      for (const value of right) assert.doesNotThrow(() => check({ ...beside, [name]: value }), `${name}: ${showValue(value)}`);
      for (const value of wrong)
        assert.throws(
          () => check({ ...beside, [name]: value }),
          (thrown) => isWeighbridgeError(thrown, "BAD_ARGUMENT") && thrown.message.startsWith(`${name} is `),
          `${name}: ${showValue(value)} is refused`,
        );
    }
  });

test("an unknown field is refused with the nearest one; the list that it names is the one that is checked above", () => {
  for (const [check, cases, typed, meant] of [
    [group, GROUP, "consistancyModel", "consistencyModel"],
    [table, TABLE, "rowCapcity", "rowCapacity"],
  ] as const) {
    const listed = (thrown: unknown): boolean => {
      assert.ok(isWeighbridgeError(thrown, "BAD_ARGUMENT"));
      const [, names = ""] = /; there are (.*); did you mean (\w+)\?$/.exec(thrown.message) ?? [];
      assert.deepEqual(names.split(", ").toSorted(), Object.keys(cases).toSorted());
      return thrown.message.endsWith(`did you mean ${meant}?`);
    };
    assert.throws(() => check({ [typed]: 1 }), listed);
  }
  for (const config of [null, 3, "SSP"])
    assert.throws(() => checkGroupConfig(config as never), throwsCode("BAD_ARGUMENT", /the fields of a table group are an object/));
});

test("a port may be text, as Petuum has it, and is a number from then on", () => {
  const { hostMap } = group({ hostMap: [{ ...HOSTS[0], port: "9000" }], clientId: 0 }) as TableGroupConfig;
  assert.deepEqual(hostMap, HOSTS);
});

test("a field of Petuum's that means nothing here is refused with the reason, and no hint at another one", () => {
  for (const [check, typed, reason] of [
    [table, "tableInfo", /tableInfo: its fields stand beside the others here: staleness, rowType, rowCapacity/],
    [table, "oplogType", /oplogType: there is one kind of oplog/],
    [table, "oplog_type", /oplog_type: there is one kind of oplog/],
    [table, "processStorageType", /processStorageType: rows are evicted/],
    [table, "tableStaleness", /tableStaleness: it is staleness here/],
    [group, "numCommChannelsPerClient", /numCommChannelsPerClient: every process of the host map has one server/],
    [group, "bgIdleMilli", /bgIdleMilli: nothing polls here/],
    [group, "oocPathPrefix", /oocPathPrefix: rows are in memory/],
  ] as const) {
    assert.throws(() => check({ [typed]: 1 }), throwsCode("BAD_ARGUMENT", reason));
    assert.throws(
      () => check({ [typed]: 1 }),
      (thrown) => !/did you mean/.test((thrown as Error).message),
    );
  }
});

test("fields that do not go together are refused", () => {
  assert.throws(() => group({ clientId: 0 }), throwsCode("BAD_ARGUMENT", /clientId is for a hostMap/));
  assert.throws(
    () => group({ hostMap: HOSTS }),
    throwsCode("BAD_ARGUMENT", /clientId is the id of a host of hostMap, 0 to 0, not undefined/),
  );
  for (const name of ["snapshotDir", "resumeDir"])
    assert.throws(() => group({ [name]: "runs" }), throwsCode("BAD_ARGUMENT", /are for servers that init\(\) starts, from a hostMap/));
  const two = { hostMap: HOSTS, clientId: 0, snapshotDir: "runs", resumeDir: "others" };
  assert.throws(() => group(two), throwsCode("BAD_ARGUMENT", /are one directory/));
  assert.throws(() => table({ oplogCapacity: 3, processOplogCapacity: 4 }), throwsCode("BAD_ARGUMENT", /two words for one thing/));
  for (const config of [{ oplogCapacity: 3 }, { processOplogCapacity: 3 }, { oplogCapacity: 3, processOplogCapacity: 3 }])
    assert.equal((table(config) as TableConfig).oplogCapacity, 3);
});

test("ids of tables and of row types are whole numbers below 2^31", () => {
  for (const id of [0, 2 ** 31 - 1]) checkId({ id });
  for (const id of [...NO_WHOLE, -1, 2 ** 31, Infinity])
    assert.throws(
      () => checkId({ typeId: id as number }),
      throwsCode("BAD_ARGUMENT", /^typeId is a whole number from 0 to 2147483647, not/),
    );
});
