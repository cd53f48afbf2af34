// Goal: what psUpdater and psRowType take and refuse.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { PlugIns } from "../plug-ins.ts";
import { psRowType } from "../row-types/ps-row-type.ts";
import { psUpdater } from "./ps-updater.ts";

const UPDATER = { name: "u", version: 1, deterministic: true, update: () => {} } as const;
const ROW_TYPE = { name: "r", version: 1, deterministic: true, dtype: "i32", add: () => {} } as const;

function refused(make: () => unknown, message: RegExp): void {
  assert.throws(make, (thrown) => {
    assert.ok(isWeighbridgeError(thrown, "BAD_ARGUMENT"), String(thrown));
    assert.match(thrown.message, message);
    return true;
  });
}

test("an updater has a name, a version, a promise and an update; what is left out has its default", () => {
  const updater = psUpdater({ ...UPDATER, settings: { rate: 1, mode: "plain", on: true } });
  assert.deepEqual([updater.dtypes, updater.columns(3), updater.settings], [["f32"], {}, { rate: 1, mode: "plain", on: true }]);
  assert.deepEqual(updater.with({ rate: 2 }), { type: "custom", updater: "u", version: 1, settings: { rate: 2 } });
  refused(() => psUpdater(null as never), /an updater is described by an object with name, version/);
  refused(() => psUpdater({ ...UPDATER, name: "no spaces" }), /a name is a letter and up to 63/);
  refused(() => psUpdater({ ...UPDATER, version: 0 }), /u: a version is a whole number from 1 up, not 0/);
  refused(() => psUpdater({ ...UPDATER, deterministic: undefined } as never), /u: deterministic is true or false, not undefined/);
  refused(() => psUpdater({ ...UPDATER, update: 5 } as never), /u: update is a function, not 5/);
  refused(() => psUpdater({ ...UPDATER, load: "it" } as never), /u: load is a function, not "it"/);
  refused(() => psUpdater({ ...UPDATER, dtypes: ["f16"] } as never), /u: dtypes must be a list of f32, f64, i32 and i64/);
  refused(
    () => psUpdater({ ...UPDATER, settings: { rate: Number.NaN } }),
    /u: the default of rate is a finite number, a text or a flag, not NaN/,
  );
  refused(() => psUpdater({ ...UPDATER, column: () => ({}) } as never), /u: an updater has no "column"; .*did you mean columns\?/);
});

test("a row type has a dtype and an add, and no name of ours", () => {
  const rowType = psRowType(ROW_TYPE);
  assert.deepEqual([rowType.elements(5), rowType.apply], [5, rowType.add]);
  refused(() => psRowType({ ...ROW_TYPE, name: "f64" }), /not called f64: that is one of ours/);
  refused(() => psRowType({ ...ROW_TYPE, dtype: "u8" } as never), /r: rows must be of f32, f64, i32 and i64, got "u8"/);
  refused(() => psRowType({ ...ROW_TYPE, add: undefined } as never), /r: add is a function, not undefined/);
  refused(() => psRowType({ ...ROW_TYPE, encode: {} } as never), /r: encode is a function/);
});

test("members of a plug-in are done when they return: one that is async, or a generator, is refused", () => {
  refused(
    () => psUpdater({ ...UPDATER, update: async () => {} }),
    /u: update is done when it returns, and cannot be of the kind AsyncFunction/,
  );
  refused(() => psRowType({ ...ROW_TYPE, add: async () => {} }), /r: add is done when it returns, and cannot be of the kind AsyncFunction/);
  refused(
    () => psRowType({ ...ROW_TYPE, *encode() {} } as never),
    /r: encode is done when it returns, and cannot be of the kind GeneratorFunction/,
  );
});

test("a name that two modules export is BAD_CONFIG, with both", () => {
  const module = { hash: "", updaters: [psUpdater(UPDATER)], rowTypes: [] };
  assert.throws(
    () =>
      new PlugIns([
        { ...module, module: "a.ts" },
        { ...module, module: "b.ts" },
      ]),
    (thrown) => isWeighbridgeError(thrown, "BAD_CONFIG") && /"u" is exported twice, by a\.ts and b\.ts/.test(thrown.message),
  );
});
