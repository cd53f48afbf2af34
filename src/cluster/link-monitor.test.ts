// link-monitor.test — Goal: silence is judged by what this node could have heard, and a link that opens but carries
// nothing does not keep calls waiting. Whole clusters with cut links are test/simulation/cut-links.test.ts's.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "../base/clock.ts";
import { SILENT_LOG } from "../base/log.ts";
import { jsonContract } from "../contracts/contract.ts";
import type { HEARTBEAT } from "../contracts/control.ts";
import { callJson, serveJson } from "../peer/call-function.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { SimNetwork } from "../testing/sim-network.ts";
import { emptyShape } from "../wire/control.ts";
import { FunctionId } from "../wire/function-id.ts";
import { LinkMonitor } from "./link-monitor.ts";

const RULES = { heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 5000 };
const LINK_TIMEOUT_MS = 20_000;
const SERVER = 8;
const WORKER = 9;
/** A function that the server answers never. */
const SLOW: typeof HEARTBEAT = jsonContract({
  ...{ id: FunctionId.SIMPLE, name: "slow", target: "server" },
  request: emptyShape,
  response: emptyShape,
});

/** A worker with a call that its server has parked; the worker watches its links by `watchClock`. */
async function parked({
  watchClock = (clock) => clock,
  isSchedulerAway = () => false,
  rules = RULES,
  successorMs,
  waits,
  suspected,
}: Partial<Parked> = {}) {
  const clock = new SimClock();
  const network = new SimNetwork({ clock, seed: 1 });
  const open = (host: string, id: number): Peer => {
    const peer = new Peer({ transport: network.host(host), clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers() });
    peer.id = id;
    peer.incarnation = 1;
    peer.job = "job";
    return peer;
  };
  const [server, worker] = [open("server", SERVER), open("worker", WORKER)];
  const watch = (peer: Peer, by: Clock): LinkMonitor =>
    new LinkMonitor({
      ...{ peer, clock: by, log: SILENT_LOG, linkTimeoutMs: LINK_TIMEOUT_MS, isSchedulerAway, isAwaited: () => true },
      successorMs: () => successorMs,
      ...(waits === undefined ? {} : { waits }),
      ...(suspected === undefined ? {} : { suspected }),
    });
  watch(server, clock);
  server.serve(serveJson(SLOW, () => new Promise<object>(() => {})));
  await server.listen("sim://server:1");
  const channel = worker.dial(SERVER, "sim://server:1", 1);
  await clock.advance(100);
  const failures: string[] = [];
  const monitor = watch(worker, watchClock(clock));
  monitor.start(rules);
  const call = (): void => void callJson(channel, SLOW, {}, clock).catch((error: Error) => failures.push(error.message));
  return { clock, network, worker, channel, failures, call, monitor };
}

type Parked = {
  readonly rules: typeof RULES;
  readonly watchClock: (clock: SimClock) => Clock;
  readonly isSchedulerAway: () => boolean;
  readonly successorMs: number;
  readonly waits: { readonly untilMs: number };
  readonly suspected: () => void;
};

test("a node that was held up for minutes takes nobody for silent (LinkMonitor.A1)", async () => {
  const HELD_UP_MS = 600_000;
  let isHeldUp = true;
  const late = (clock: SimClock): Clock => ({
    nowMs: () => clock.nowMs(),
    after: (delayMs, fire) => clock.after(isHeldUp ? HELD_UP_MS : delayMs, fire),
    soon: (run) => clock.soon(run),
    afterInput: (run) => clock.afterInput(run),
  });
  const { clock, channel, failures, call } = await parked({ watchClock: late });
  call();
  await clock.advance(100);
  const { link } = channel;
  isHeldUp = false;
  await clock.advance(2 * HELD_UP_MS);
  assert.ok(link !== undefined && channel.link === link);
  assert.deepEqual(failures, []);
});

test("a call that is parked is no silence, however long it takes (LinkMonitor.A2)", async () => {
  const { clock, channel, failures, call } = await parked();
  call();
  await clock.advance(100);
  const { link } = channel;
  await clock.advance(10 * LINK_TIMEOUT_MS);
  assert.ok(link !== undefined && channel.link === link);
  assert.deepEqual(failures, []);
});

test("a link that opens again and again but carries nothing does not keep a call waiting (LinkMonitor.A3)", async () => {
  const { clock, network, worker, failures, call } = await parked();
  const { linksOpened } = worker.metrics;
  call();
  // After each hello nothing comes through: as where small packets pass and large ones do not.
  worker.events = {
    linkUp: () => network.partition("server", "worker", { isOneWay: true }),
    linkDown: () => void clock.after(1, () => network.heal()),
  };
  network.partition("server", "worker", { isOneWay: true });
  await clock.advance(LINK_TIMEOUT_MS + 100);
  assert.ok(worker.metrics.linksOpened >= linksOpened + 2, `${worker.metrics.linksOpened - linksOpened} more links`);
  assert.equal(failures.length, 1);
  assert.match(failures[0] ?? "", /server 0 could not be reached over sim:\/\/server:1/);
});

for (const isAway of [false, true])
  test(`calls wait for a server that comes back, and not for ever${isAway ? ", also while the scheduler is away" : ""}`, async () => {
    const successorMs = 3 * LINK_TIMEOUT_MS;
    const { clock, network, failures, call } = await parked({ successorMs, isSchedulerAway: () => isAway });
    call();
    await clock.advance(100);
    network.crash("server");
    await clock.advance(successorMs - RULES.heartbeatIntervalMs);
    assert.deepEqual(failures, []);
    await clock.advance(2 * RULES.heartbeatIntervalMs);
    assert.match(failures.join(), /server 0 could not be reached over sim:\/\/server:1/);
  });

test("calls to a server that comes back last as long as the callers that waited when their time was over, and later ones do not prolong that (LinkMonitor.A7)", async () => {
  const successorMs = 3 * LINK_TIMEOUT_MS;
  const waits = { untilMs: 0 };
  const { clock, network, failures, call } = await parked({ successorMs, waits });
  call();
  await clock.advance(100);
  network.crash("server");
  waits.untilMs = clock.nowMs() + 5 * successorMs;
  await clock.advance(2 * successorMs);
  assert.deepEqual(failures, []);
  waits.untilMs = Infinity; // another one came later
  await clock.advance(3 * successorMs + 2 * RULES.heartbeatIntervalMs);
  assert.match(failures.join(), /server 0 could not be reached over sim:\/\/server:1/);
  call();
  await clock.advance(10 * successorMs);
  assert.equal(failures.length, 1, "that one waits by its own deadline");
});

test("an idle link is left alone, and asked only while the scheduler is away (LinkMonitor.A5)", async () => {
  let isAway = false;
  const { clock, network, channel } = await parked({ isSchedulerAway: () => isAway });
  const { link } = channel;
  network.partition("server", "worker");
  await clock.advance(10 * RULES.heartbeatTimeoutMs);
  assert.ok(link !== undefined && channel.link === link, "nobody waits for anything");
  isAway = true;
  await clock.advance(RULES.heartbeatTimeoutMs + 1000);
  assert.notEqual(channel.link, link);
});

test("without heartbeats a link that is there is left alone, however long a call waits on it (LinkMonitor.A6)", async () => {
  const { clock, worker, channel, failures, call } = await parked({ rules: { heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 } });
  call();
  await clock.advance(100);
  const { link } = channel;
  const { framesSent } = worker.metrics;
  await clock.advance(10 * LINK_TIMEOUT_MS);
  assert.ok(link !== undefined && channel.link === link);
  assert.deepEqual([failures, worker.metrics.framesSent], [[], framesSent]);
});

test("calls to a node that the scheduler knows as busy wait, and its link stays open, for as long as it is; then it is judged (LinkMonitor.A9)", async () => {
  let isBusy = true;
  const told: (readonly number[])[] = [];
  const stage = await parked({
    suspected: () => {
      const { monitor } = stage;
      told.push(monitor.suspects() ?? []);
      if (isBusy) monitor.busy([SERVER]);
    },
  });
  const { clock, network, channel, failures, call } = stage;
  call();
  await clock.advance(100);
  const { link } = channel;
  network.crash("server", { silent: true });
  await clock.advance(10 * LINK_TIMEOUT_MS);
  assert.ok(link !== undefined && channel.link === link);
  assert.deepEqual([failures, told.length > 10, told[0]], [[], true, [SERVER]]);
  isBusy = false;
  await clock.advance(2 * LINK_TIMEOUT_MS);
  assert.equal(failures.length, 1);
});
