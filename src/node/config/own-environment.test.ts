// Goal: a command that starts its own cluster hears nothing of another job that its environment describes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { variableOf } from "./config-key.ts";
import { KEY_NAMES } from "./config-keys.ts";
import { FILE_VARIABLES, FOREIGN_VARIABLES } from "./known-names.ts";
import { ownEnvironment } from "./own-environment.ts";

test("drops every variable that configures a node but those of the keys that are named", () => {
  const names = [...KEY_NAMES.map(variableOf), ...FILE_VARIABLES, ...FOREIGN_VARIABLES];
  const env = Object.fromEntries(names.map((name) => [name, "1"]));
  const kept = { WEIGHBRIDGE_LOG_LEVEL: "1", WEIGHBRIDGE_FAULT_DROP_PERCENT: "1" };
  assert.deepEqual(ownEnvironment({ ...env, PATH: "/bin" }, ["logLevel", "faults.dropPercent"]), { ...kept, PATH: "/bin" });
});

test("drops mistyped names of ps-lite and MindSpore, keeps mistyped ones of ours and names of other programs", () => {
  const others = { WEIGHBRIDGE_WORKERS: "2", PS_FORMAT: "pid", MS_TOPO_TIMEOUT: "30", HOME: "/root" };
  assert.deepEqual(ownEnvironment({ ...others, DMLC_NUM_SERVERS: "1", MS_SHCED_HOST: "x", DMLC_TRACKER_URI: "x" }, []), others);
});
