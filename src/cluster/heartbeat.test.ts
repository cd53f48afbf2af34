// heartbeat.test — Goal: heartbeats come regularly, one at a time, and a link that went silent without closing is given
// up in time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { HEARTBEAT } from "../contracts/control.ts";
import { serveJson } from "../peer/call-function.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { SimNetwork } from "../testing/sim-network.ts";
import type { Empty } from "../wire/control.ts";
import { Heartbeat } from "./heartbeat.ts";

const RULES = { heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 5000 };

/** A node with a heartbeat and a scheduler that answers as `answer` says; `heard` has the times. */
async function pair(answer: () => Empty | Promise<Empty>) {
  const clock = new SimClock();
  const network = new SimNetwork({ clock, seed: 1 });
  const open = (host: string): Peer =>
    new Peer({ transport: network.host(host), clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), acceptsAnonymous: true });
  const scheduler = open("scheduler");
  scheduler.id = 1;
  const heard: number[] = [];
  scheduler.serve(
    serveJson(HEARTBEAT, () => {
      heard.push(Math.round(clock.nowMs() / 1000));
      return answer();
    }),
  );
  await scheduler.listen("sim://scheduler:1");
  const channel = open("node").dial(1, "sim://scheduler:1", 0);
  const failures: unknown[] = [];
  const heartbeat = new Heartbeat({ channel, clock, log: SILENT_LOG, failed: (error) => failures.push(error) });
  return { clock, network, channel, heartbeat, heard, failures };
}

test("heartbeats come once per interval, until they are stopped", async () => {
  const { clock, heartbeat, heard } = await pair(() => ({}));
  heartbeat.start(RULES);
  await clock.advance(4500);
  assert.deepEqual(heard, [1, 2, 3, 4]);
  heartbeat.stop();
  await clock.advance(5000);
  assert.equal(heard.length, 4);
});

test("an interval of 0 sends none", async () => {
  const { clock, heartbeat, heard } = await pair(() => ({}));
  heartbeat.start({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  await clock.advance(10_000);
  assert.deepEqual(heard, []);
});

test("a slow scheduler gets one heartbeat at a time (Heartbeat.B1)", async () => {
  const { clock, heartbeat, heard } = await pair(() => {
    const late = new Deferred<Empty>();
    clock.after(2500, () => late.resolve({}));
    return late.promise;
  });
  heartbeat.start(RULES);
  await clock.advance(7500);
  assert.deepEqual(heard, [1, 4, 7]);
});

test("a link that is open and silent is given up after the timeout, and not before (Heartbeat.B2)", async () => {
  const { clock, network, channel, heartbeat } = await pair(() => ({}));
  heartbeat.start(RULES);
  await clock.advance(1500);
  network.crash("scheduler", { silent: true });
  await clock.advance(5000);
  assert.notEqual(channel.link, undefined); // The first one without an answer left at 2 s.
  await clock.advance(1000);
  assert.equal(channel.link, undefined);
});

test("without a timeout a silent link is kept", async () => {
  const { clock, network, channel, heartbeat } = await pair(() => ({}));
  heartbeat.start({ heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 0 });
  await clock.advance(1500);
  network.crash("scheduler", { silent: true });
  await clock.advance(60_000);
  assert.notEqual(channel.link, undefined);
});

test("a heartbeat that is refused is reported, and the next one is tried", async () => {
  const { clock, heartbeat, heard, failures } = await pair(() => {
    throw new WeighbridgeError("FENCED", "worker 0 was replaced");
  });
  heartbeat.start(RULES);
  await clock.advance(2500);
  assert.deepEqual([heard, failures.length], [[1, 2], 2]);
});
