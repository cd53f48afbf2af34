// Goal: what servers load of a user's module, and what they say of one that has nothing for them.

import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { isWeighbridgeError } from "../base/errors.ts";
import { loadServerModule } from "./server-module.ts";

const directory = join(import.meta.dirname, "..", "..", ".weighbridge", `modules-${process.pid}`);
mkdirSync(directory, { recursive: true });
after(() => rmSync(directory, { recursive: true }));

function moduleOf(name: string, source: string): string {
  const path = join(directory, name);
  writeFileSync(path, source);
  return path;
}

const IDENTITY = "version: 1, deterministic: true";

test("functions, updaters and row types of a module are loaded, each once, with a hash of its source", async () => {
  const source = `
    import { psFunction, psRowType, psUpdater } from "weighbridge";
    export const f = psFunction({ name: "f", request: {}, response: {}, handler: () => ({}) });
    export const u = psUpdater({ name: "u", ${IDENTITY}, update: () => {} });
    export const r = psRowType({ name: "r", ${IDENTITY}, dtype: "f64", add: () => {} });
    export { u as again };
    export const other = 5;`;
  const one = await loadServerModule(moduleOf("one.ts", source));
  assert.deepEqual([one.functions.map(({ name }) => name), one.plugIns.updaters.map(({ name }) => name)], [["f"], ["u"]]);
  assert.deepEqual([one.plugIns.rowTypes.map(({ name }) => name), one.plugIns.module], [["r"], join(directory, "one.ts")]);
  const same = await loadServerModule(moduleOf("same.ts", source));
  const another = await loadServerModule(moduleOf("another.ts", `${source} // changed`));
  assert.match(one.plugIns.hash, /^[0-9a-f]{16}$/);
  assert.equal(same.plugIns.hash, one.plugIns.hash);
  assert.notEqual(another.plugIns.hash, one.plugIns.hash);
});

test("of a row type of tables a server loads its half, once however it is exported, and of those that every server has nothing", async () => {
  const rows = join(import.meta.dirname, "..", "faces", "tables", "rows");
  const path = moduleOf(
    "rows.ts",
    `
    import { customRow } from ${JSON.stringify(pathToFileURL(join(rows, "custom-row.ts")).href)};
    import { sparseRow } from ${JSON.stringify(pathToFileURL(join(rows, "sparse-row.ts")).href)};
    export const mine = customRow({ name: "mine", ${IDENTITY}, dtype: "i64", apply: () => {} });
    export const half = mine.plugIn;
    export const theirs = sparseRow("f32");`,
  );
  const { plugIns } = await loadServerModule(path);
  assert.deepEqual(
    plugIns.rowTypes.map(({ name, dtype }) => [name, dtype]),
    [["mine", "i64"]],
  );
});

test("a module that is missing, that throws or that has nothing for servers is BAD_CONFIG by its name", async () => {
  const fails = async (path: string, message: RegExp): Promise<void> =>
    await assert.rejects(loadServerModule(path), (thrown) => isWeighbridgeError(thrown, "BAD_CONFIG") && message.test(thrown.message));
  await fails(join(directory, "nowhere.ts"), /there is no module .*nowhere\.ts/);
  await fails(moduleOf("broken.ts", "throw new Error('boom');"), /broken\.ts cannot be loaded: boom/);
  await fails(
    moduleOf("plain.ts", "export const a = 1; export const b = { kind: 'updater' };"),
    /plain\.ts exports a, b, and none of that is made by psFunction, workerFunction, psUpdater, psRowType or customRow/,
  );
  await fails(
    moduleOf("bad.ts", `import { psUpdater } from "weighbridge"; export const u = psUpdater({ name: "u", ${IDENTITY} });`),
    /bad\.ts cannot be loaded: u: update is a function, not undefined/,
  );
});
