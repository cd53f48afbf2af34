// Goal: every function that a node serves is a contract, by one name and one number; nothing is asked of a node that
// src/contracts does not list.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { BUILT_IN_FUNCTIONS } from "../src/server/handlers/built-in-functions.ts";
import { SimCluster } from "../src/testing/sim-cluster.ts";
import { FunctionId } from "../src/wire/function-id.ts";
import { listedContracts } from "./support/listed-contracts.ts";

const root = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** Functions by name, and bundles of them, have no contract of their own. */
const BY_NAME: readonly number[] = [FunctionId.FUNCTION, FunctionId.BUNDLE];

test("every number of the wire but FUNCTION and BUNDLE is one contract's, and no two contracts have one name or one hash", async () => {
  const contracts = await listedContracts();
  const numbers = contracts.map(({ id }) => id).filter((id) => id !== undefined && id !== FunctionId.FUNCTION);
  const expected = Object.values(FunctionId).filter((id) => !BY_NAME.includes(id));
  assert.deepEqual(
    numbers.sort((a, b) => Number(a) - Number(b)),
    expected,
  );
  const names = contracts.map(({ name }) => name);
  assert.deepEqual(names.length, new Set(names).size);
  const hashes = contracts.map(({ nameHash }) => nameHash).filter((hash) => hash !== undefined);
  assert.equal(hashes.length, new Set(hashes).size);
});

test("a server serves exactly the functions whose contracts say so, and all of them are contracts", async () => {
  const contracts = await listedContracts();
  const named = contracts.filter(({ id, target }) => id === FunctionId.FUNCTION && !["scheduler", "worker"].includes(target));
  const served = BUILT_IN_FUNCTIONS.map(({ name }) => name);
  for (const { name } of named) assert.ok(served.includes(name), `no server serves ${name}`);
  for (const name of served)
    assert.ok(
      contracts.some((one) => one.name === name),
      `${name} is no contract`,
    );
});

test("what nodes of a running cluster answer to is what contracts list", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 1 });
  await cluster.start();
  const numbers = new Set((await listedContracts()).map(({ id }) => id));
  for (const { node } of [cluster.worker(0), cluster.server(0), cluster.scheduler]) {
    for (let id = 0; id < 1024; id++) if (node.peer.handlers[id] !== undefined) assert.ok(numbers.has(id), `${id} is served`);
  }
  await cluster.finalize();
});

test("numbers of functions are known to contracts, the frames' writers, the gate of servers and ps-lite's gateway alone", () => {
  const allowed =
    /^src\/(contracts|wire|pslite|testing)\/|^src\/peer\/(function-call|function-host|peer)\.ts$|^src\/server\/request-gate\.ts$/;
  const knowing = globSync("src/**/*.ts", { cwd: root })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => !path.endsWith(".test.ts") && /\bFunctionId\b[^;]*wire\/function-id\.ts"/.test(read(path)));
  assert.deepEqual(
    knowing.filter((path) => !allowed.test(path)),
    [],
  );
});
