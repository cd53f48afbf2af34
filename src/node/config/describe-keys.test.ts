// The list of keys, as help and docs/configuration.md show it.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { describeKeys, foreignVariableTable, keyTable } from "./describe-keys.ts";
import { LAUNCHER_VARIABLES } from "./known-names.ts";

const PAGE = new URL("../../../docs/configuration.md", import.meta.url);

/** The page with a table put between its markers. */
function withTable(page: string, name: string, table: string): string {
  const pattern = new RegExp(`(<!-- ${name}: [^>]*-->\n).*?(<!-- /${name} -->)`, "s");
  assert.match(page, pattern, `docs/configuration.md has the markers of ${name}`);
  return page.replace(pattern, (_, open: string, close: string) => `${open}\n${table}\n\n${close}`);
}

test("docs/configuration.md shows the tables that the code makes (UPDATE_DOCS=1 rewrites them)", () => {
  const page = readFileSync(PAGE, "utf8");
  const current = withTable(withTable(page, "keys", keyTable()), "foreign-variables", foreignVariableTable());
  if (process.env.UPDATE_DOCS === "1") writeFileSync(PAGE, current);
  else assert.equal(page, current);
});

test("docs/configuration.md lists the variables of launchers that are ignored", () => {
  const page = readFileSync(PAGE, "utf8");
  for (const name of LAUNCHER_VARIABLES) assert.ok(page.includes(`\`${name}\``), name);
});

test("describes a key for commander, for the environment and for people", () => {
  const keys = new Map(describeKeys().map((key) => [key.name, key]));
  assert.deepEqual(keys.get("serverCount"), {
    name: "serverCount",
    flag: "-s, --servers <count>",
    flagKey: "servers",
    oldFlag: "--server-count",
    variable: "WEIGHBRIDGE_SERVER_COUNT",
    foreignVariables: ["DMLC_NUM_SERVER", "MS_SERVER_NUM"],
    expected: "a whole number from 0 to 65535",
    default: "required",
    description: "Servers in the cluster.",
    summary: "servers in the cluster",
  });
  assert.equal(keys.get("faults.dropPercent")?.flag, "--fault-drop-percent <percent>");
  assert.equal(keys.get("faults.dropPercent")?.flagKey, "faultDropPercent");
  assert.ok(keys.has("config") && keys.has("section"));
});

test("gives no two keys the same flag, letter or variable", () => {
  const keys = describeKeys();
  const letters = keys.map(({ flag }) => /^-(\w),/.exec(flag)?.[1]).filter((letter) => letter !== undefined);
  for (const names of [keys.map((key) => key.flagKey), keys.map((key) => key.variable), letters])
    assert.equal(new Set(names).size, names.length);
});
