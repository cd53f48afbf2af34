// Configuration files: flat keys, variables, Hetu's layouts, and what is wrong with a file.

import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test } from "node:test";
import { INTERFACES } from "../../../test/support/network-interfaces.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { type ConfigSources, loadConfig } from "./config.ts";
import type { NodeConfig } from "./node-config.ts";

/** As in Hetu's tests. */
const HETU = `
shared: &shared
  DMLC_PS_ROOT_URI : 127.0.0.1
  DMLC_PS_ROOT_PORT : 13200
  DMLC_NUM_WORKER : 2
  DMLC_NUM_SERVER : 1
  DMLC_PS_VAN_TYPE : p3
sched:
  <<: *shared
  DMLC_ROLE : scheduler
s0:
  <<: *shared
  DMLC_ROLE : server
  SERVER_ID : 0
  DMLC_PS_SERVER_URI : 127.0.0.1
  DMLC_PS_SERVER_PORT : 13201
w1:
  DMLC_ROLE : worker
  WORKER_ID : 1
  DMLC_PS_WORKER_PORT : 13211
`;
const NEEDED = "role: worker\nserverCount: 1\nworkerCount: 1\nschedulerPort: 9000\n";

function load(text: string, sources: ConfigSources = {}, path = "cluster.yml"): NodeConfig {
  return loadConfig({ interfaces: INTERFACES, warn: () => {}, file: { path, text }, ...sources });
}

function refusal(text: string, sources: ConfigSources = {}, path?: string): string {
  try {
    load(text, sources, path);
  } catch (error) {
    assert.ok(isWeighbridgeError(error, "BAD_CONFIG"), String(error));
    return error.message;
  }
  assert.fail("nothing was wrong");
}

test("reads a flat list of our keys, from YAML and from JSON", () => {
  assert.equal(load(`${NEEDED}faults: { dropPercent: 5, seed: 3 }\noutboxBytesMax: 1MiB`).outboxBytesMax, 2 ** 20);
  const json = { role: "worker", serverCount: 1, workerCount: 1, schedulerPort: 9000, faults: { seed: 3 } };
  assert.equal(load(JSON.stringify(json), {}, "cluster.json").faults.seed, 3);
});

test("reads a flat list of variables, of any family, also beside our keys", () => {
  const config = load(
    "DMLC_ROLE: server\nMS_WORKER_NUM: 2\nWEIGHBRIDGE_SERVER_COUNT: 3\nschedulerPort: 9000\nDMLC_LOCAL: true\nDMLC_TRACKER_URI: x",
  );
  assert.deepEqual([config.role, config.workerCount, config.serverCount, config.transport], ["server", 2, 3, "unix"]);
});

test("reads the chosen section of a file of Hetu's over what is shared", () => {
  const place = (section: string) => {
    const { role, rank, listenPort, workerCount, schedulerPort } = load(HETU, { options: { section } });
    return [role, rank, listenPort, workerCount, schedulerPort];
  };
  assert.deepEqual(place("sched"), ["scheduler", undefined, 13200, 2, 13200]);
  assert.deepEqual(place("s0"), ["server", 0, 13201, 2, 13200]);
  assert.deepEqual(place("w1"), ["worker", 1, 13211, 2, 13200]);
  assert.equal(load(HETU, { env: { WEIGHBRIDGE_SECTION: "s0" } }).role, "server");
});

test("uses what is shared alone when the role comes from elsewhere, and lists the sections when it does not", () => {
  assert.equal(load(HETU, { options: { role: "worker" } }).rank, undefined);
  assert.match(refusal(HETU), /1\. role .*choose a section of the file with --section: sched, s0, w1/);
});

test("names the sections there are for one that there is not", () => {
  assert.match(
    refusal(HETU, { commandLine: { section: "s1" } }),
    /--section \(command line\): expected a section of file:cluster\.yml: sched, s0, w1; found "s1"; fix: did you mean s0\?/,
  );
  assert.match(refusal(NEEDED, { options: { section: "s1" } }), /it has none/);
});

test("lets a section beat shared, and shared the flat keys", () => {
  const text = `${NEEDED}threads: 1\nlogLevel: error\nlistenPort: 1\nshared: { listenPort: 2, logLevel: warn }\na: { listenPort: 3 }`;
  const config = load(text, { options: { section: "a" } });
  assert.deepEqual([config.listenPort, config.logLevel, config.threads], [3, "warn", 1]);
});

test("names the nearest key for an unknown one, in every section", () => {
  assert.match(refusal(`${NEEDED}listenProt: 1`), /listenProt \(file:cluster\.yml\).*did you mean listenPort\?/);
  assert.match(refusal(`${NEEDED}DMLC_RNAK: 1`), /did you mean DMLC_RANK\?/);
  assert.match(refusal(`${NEEDED}PS_WHATEVER: 1`), /PS_WHATEVER/);
  assert.match(refusal(`${NEEDED}node: []`), /did you mean nodes\?/);
  assert.match(refusal(`${NEEDED}w9: { WORKERID: 1 }`), /WORKERID \(file:cluster\.yml section w9\).*did you mean WORKER_ID\?/);
  assert.match(refusal(`${NEEDED}faults: { drop: 1 }`), /did you mean faults\.dropPercent\?/);
  assert.match(refusal(`${NEEDED}fautls: { seed: 1 }`), /did you mean faults\?/);
  assert.match(refusal(`${NEEDED}shard: { listenPort: 1 }`), /did you mean shared\?/);
});

test("does not let a file name another file", () => {
  assert.match(refusal(`${NEEDED}config: other.yml`), /config \(file:cluster\.yml\): expected a known key/);
});

test("refuses a key that is spelled in two ways with two values", () => {
  assert.match(refusal(`${NEEDED}WEIGHBRIDGE_ROLE: server`), /role \(file:cluster\.yml\): expected the same role as WEIGHBRIDGE_ROLE/);
  assert.equal(load(`${NEEDED}WEIGHBRIDGE_ROLE: worker`).role, "worker");
});

test("says where a file is not YAML, not JSON, or not a mapping", () => {
  assert.match(refusal("role: [worker"), /cluster\.yml .*expected valid YAML or JSON; found .*line 1/s);
  assert.match(refusal("{ role: worker }", {}, "a.json"), /expected valid JSON/);
  assert.match(refusal("- role"), /a mapping from keys to values; found \["role"\]/);
  assert.match(refusal("role: worker\nrole: server"), /expected valid YAML/);
  assert.match(refusal(`${NEEDED}shared: 5`), /shared \(file:cluster\.yml\): expected a mapping/);
  assert.match(refusal(`${NEEDED}DMLC_RANK: [1]`), /DMLC_RANK \(file:cluster\.yml\): expected a text or a number; found \[1\]/);
});

test("takes an empty file for one that says nothing", () => {
  for (const path of ["a.yml", "a.json"]) assert.match(refusal("", {}, path), /3 problems/);
});

test("checks the launch part of Hetu's launcher and otherwise leaves it alone", () => {
  assert.equal(load(`${NEEDED}launch: { worker: 2, server: 1, scheduler: true }`).workerCount, 1);
  assert.match(
    refusal(`${NEEDED}launch: { graph_server: 1 }`),
    /launch\.graph_server \(file:cluster\.yml\): expected a known part of launch/,
  );
  assert.match(refusal(`${NEEDED}launch: { worker: many }`), /launch\.worker \(file:cluster\.yml\): expected a whole number/);
});

test("takes the counts from nodes that name only this machine", () => {
  for (const host of ["localhost", "127.0.0.1", hostname(), "198.51.100.5"]) {
    const config = load(`nodes: [{ host: "${host}", servers: 1, workers: 4, chief: true }]`, {
      options: { role: "worker", schedulerPort: 9000 },
    });
    assert.deepEqual([config.serverCount, config.workerCount], [1, 4], host);
  }
});

test("refuses nodes on other machines and says what is supported", () => {
  const two = "nodes:\n  - { host: node1, servers: 1, workers: 4, chief: true }\n  - { host: node2, servers: 1 }";
  assert.match(refusal(two), /nodes .*several machines are not supported yet; found node1, node2; fix: start one process per node/);
  assert.match(refusal("nodes: [{ host: node1, chief: true }]"), /expected one entry for this machine/);
});

test("checks nodes as Hetu does", () => {
  assert.match(refusal("nodes: [{ host: localhost, servers: 1 }]"), /exactly one entry with chief: true; found none/);
  assert.match(refusal("nodes: [{ host: a, chief: true }, { host: b, chief: true }]"), /exactly one entry with chief: true; found a, b/);
  assert.match(refusal("nodes: [{ host: localhost, server: 1, chief: true }]"), /nodes\[0\]\.server .*did you mean nodes\[0\]\.servers\?/);
  assert.match(refusal("nodes: [{ host: localhost, servers: -1, chief: true }]"), /nodes\[0\]\.servers .*found -1/);
  assert.match(refusal("nodes: []"), /nodes \(file:cluster\.yml\): expected a list/);
  assert.match(refusal("nodes: 5"), /nodes \(file:cluster\.yml\): expected a list.*found 5/);
});
