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
import { StallingClock } from "../testing/stalling-clock.ts";
import type { Empty } from "../wire/control.ts";
import { Heartbeat, type HeartbeatOptions } from "./heartbeat.ts";

const RULES = { heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 5000 };

/** A node with a heartbeat and a scheduler that answers as `answer` says; `heard` has the times. */
async function pair(answer: () => Empty | Promise<Empty>, options: Partial<HeartbeatOptions> = {}, clock = new SimClock()) {
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
  const heartbeat = new Heartbeat({ channel, clock, log: SILENT_LOG, failed: (error) => failures.push(error), ...options });
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

test("a machine that stood still takes no scheduler for silent that stood still with it (Heartbeat.B2)", async () => {
  const time = new SimClock();
  const machine = new StallingClock(time);
  let isSlow = false;
  const { channel, heartbeat, heard } = await pair(
    async () => {
      if (isSlow) await new Promise<void>((resolve) => void time.after(10, resolve));
      return {};
    },
    { clock: machine },
    time,
  );
  heartbeat.start(RULES);
  await time.advance(1500);
  isSlow = true;
  const { link } = channel;
  await time.advance(505); // the second one is on its way
  machine.stall(20_000);
  await time.advance(1500);
  assert.ok(link !== undefined && channel.link === link);
  assert.ok(heard.length >= 3, "it goes on");
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

test("the link of a scheduler whose loop is busy is kept while its pulse answers, and given up when that falls silent (Heartbeat.B2)", async () => {
  let isRunning = true;
  let asked = 0;
  const ask = async (): Promise<void> => {
    asked++;
    if (!isRunning) throw new WeighbridgeError("LINK_LOST", "no pulse answers");
  };
  const { clock, channel, heartbeat, heard } = await pair(() => new Promise<Empty>(() => {}), { ask });
  heartbeat.start(RULES);
  await clock.advance(1500);
  const { link } = channel;
  await clock.advance(60_000);
  assert.ok(link !== undefined && channel.link === link);
  assert.deepEqual([heard.length, asked > 10], [1, true]);
  isRunning = false;
  await clock.advance(7000);
  assert.notEqual(channel.link, link);
});

test("a scheduler that answers is not asked for by its pulse", async () => {
  let asked = 0;
  const { clock, heartbeat } = await pair(() => ({}), { ask: async () => void asked++ });
  heartbeat.start(RULES);
  await clock.advance(60_000);
  assert.equal(asked, 0);
});

test("the pulse of the process speaks from the first heartbeat on until heartbeats stop, and not at all without a timeout (Heartbeat.B3)", async () => {
  const spoken: string[] = [];
  const speak = (): (() => void) => {
    spoken.push("speaks");
    return () => spoken.push("hushes");
  };
  const { heartbeat } = await pair(() => ({}), { speak });
  heartbeat.start(RULES);
  heartbeat.start(RULES);
  heartbeat.stop();
  heartbeat.stop();
  assert.deepEqual(spoken, ["speaks", "hushes", "speaks", "hushes"]);
  heartbeat.start({ heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 0 });
  assert.equal(spoken.length, 4);
});

test("while heartbeats pause none is sent, and the pulse still speaks; the next start goes on with both (Heartbeat.B3)", async () => {
  const spoken: string[] = [];
  const speak = (): (() => void) => {
    spoken.push("speaks");
    return () => spoken.push("hushes");
  };
  const { clock, heartbeat, heard } = await pair(() => ({}), { speak });
  heartbeat.start(RULES);
  heartbeat.pause();
  await clock.advance(5000);
  assert.deepEqual([heard, spoken], [[], ["speaks"]]);
  heartbeat.start(RULES);
  await clock.advance(1500);
  assert.deepEqual([heard, spoken], [[6], ["speaks", "hushes", "speaks"]]);
  heartbeat.stop();
});
