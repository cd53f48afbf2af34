// events — Goal: a process with loggers of its own hears in order what becomes of its servers, each of its sessions
// logs to its own, and nothing of ours is written to its standard error, whatever happens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster } from "./cluster.ts";
import { type Running, script } from "./processes.ts";

/** The counts, and what MindSpore's variables say of them: a warning. */
const COUNTS = { DMLC_NUM_SERVER: "2", DMLC_NUM_WORKER: "1", MS_SERVER_NUM: "3" };

test("a server is killed and comes back: events in order, lines to the session's own logger, nothing to standard error", async () => {
  await using cluster = await Cluster.create({ servers: 2, workers: 1 });
  const scheduler = cluster.scheduler();
  const [first, killed] = [cluster.server(0), cluster.server(1)];
  const listener = cluster.run(process.execPath, [script("listener"), `weighbridge://127.0.0.1:${cluster.port}`], { env: COUNTS });
  await listener.says(/^listening$/);
  const again: Running[] = [];
  for (let time = 1; time <= 2; time++) {
    await (again[0] ?? killed).kill();
    await listener.says(/^event \{"type":"serverlost","server":1,"isPlanned":false,"isAwaited":false\}$/, time);
    again.unshift(cluster.server(1));
    await listener.says(/^event \{"type":"serverback","server":1,"hasState":false\}$/, time);
  }
  listener.endInput();
  for (const node of [listener, first, ...again.slice(0, 1), scheduler]) await node.succeeds();
  const events = [...listener.stdout.matchAll(/^event \{"type":"(\w+)"/gm)].map(([, type]) => type);
  assert.deepEqual(events, ["serverlost", "serverback", "serverlost", "serverback"], listener.transcript);
  assert.equal(listener.stderr, "", listener.transcript);
  for (const line of listener.stdout.trimEnd().split("\n")) assert.match(line, /^(?:listening$|event |worker: |guest: )/);
  const failed = /^(?:worker|guest): error a listener of the event "serverlost" has failed .*no such gauge as \d+, at .*listener\.ts/gm;
  assert.equal([...listener.stdout.matchAll(failed)].length, 4, listener.transcript);
  assert.match(listener.stdout, /^worker: warn DMLC_NUM_SERVER .* is used; MS_SERVER_NUM .* is ignored/m, "of the configuration");
  const whoSpeaks = (of: string): string[] => {
    const lines = [...listener.stdout.matchAll(new RegExp(`^${of}: .*"weighbridge":"([^"]+)"`, "gm"))];
    return [...new Set(lines.map(([, who = ""]) => who))];
  };
  assert.deepEqual(whoSpeaks("worker").sort(), ["worker", "worker 0"], listener.transcript);
  assert.ok(whoSpeaks("guest").length > 0 && whoSpeaks("guest").every((who) => who.startsWith("guest")), listener.transcript);
});
