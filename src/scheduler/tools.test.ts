// Goal: a program of the command line that runs is listed as a tool, whatever the job does; nothing waits for it, and
// nothing is left of one that is gone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { STATUS } from "../contracts/control.ts";
import { toolHere } from "../contracts/tools.ts";
import { callJson } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import { ControlCluster, HEARTBEAT_TIMEOUT_MS, SCHEDULER_ADDRESS } from "../testing/control-cluster.ts";
import type { GuestStatus } from "../wire/control.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";

const NOTICE = { label: "laptop:4711", command: "scale" };

class Stage extends ControlCluster {
  readonly tool: Peer = this.peer("laptop");

  /** The tool says that it is there. Returns how often it is to say so. */
  async here(): Promise<number> {
    const asked = callJson(this.tool.dial(SCHEDULER_ID, SCHEDULER_ADDRESS, 0), toolHere, NOTICE, this.clock);
    return (await this.run(asked)).heartbeatIntervalMs;
  }

  async listed(): Promise<readonly GuestStatus[]> {
    const peer = this.peer("other");
    const status = await this.run(callJson(peer.dial(SCHEDULER_ID, SCHEDULER_ADDRESS, 0), STATUS, {}, this.clock));
    await peer.close();
    return status.guests ?? [];
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.clock.runUntil(promise, { untilMs: this.clock.nowMs() + 1000 });
  }
}

test("a tool is listed while its link lasts, in a job that forms too, and no count or barrier knows it (Tools.T1)", async () => {
  const stage = new Stage({ serverCount: 1, workerCount: 1 });
  const scheduler = await stage.scheduler();
  assert.equal(await stage.here(), 1000);
  await stage.clock.advance(500);
  const [listed, ...others] = await stage.listed();
  assert.deepEqual(others, []);
  const { hereMs = 0, heartbeatAgeMs, ...tool } = listed ?? assert.fail("not listed");
  assert.deepEqual(tool, { node: undefined, kind: "tool", ...NOTICE, linked: true });
  assert.ok(hereMs >= 500 && heartbeatAgeMs >= 500, `${hereMs} ${heartbeatAgeMs}`);
  assert.deepEqual([scheduler.status().nodes, scheduler.status().waiting], [[], []]);
  assert.equal(scheduler.missing(), "server 0, worker 0");
  stage.network.crash("laptop");
  await stage.clock.advance(100);
  assert.deepEqual(await stage.listed(), []);
});

test("one that goes on saying so stays, and one that is silent for the heartbeat timeout is cut off (Tools.T2)", async () => {
  const stage = new Stage();
  const { scheduler } = await stage.formed();
  await stage.here();
  for (let beat = 0; beat < 10; beat++) {
    await stage.clock.advance(HEARTBEAT_TIMEOUT_MS / 2);
    await stage.here();
  }
  const { hereMs = 0, heartbeatAgeMs } = scheduler.status().guests?.[0] ?? assert.fail("not listed");
  assert.ok(hereMs >= 5 * HEARTBEAT_TIMEOUT_MS && heartbeatAgeMs < 100, `${hereMs} ${heartbeatAgeMs}`);
  stage.network.isolate("laptop");
  await stage.clock.advance(HEARTBEAT_TIMEOUT_MS - 100);
  assert.equal(scheduler.status().guests?.length, 1);
  await stage.clock.advance(200);
  assert.equal(scheduler.status().guests, undefined);
});

test("without heartbeats a tool says once that it is there, and stays until its link ends", async () => {
  const stage = new Stage();
  const { scheduler } = await stage.formed({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  assert.equal(await stage.here(), 0);
  await stage.clock.advance(10 * HEARTBEAT_TIMEOUT_MS);
  assert.equal(scheduler.status().guests?.length, 1);
  await stage.tool.close();
  await stage.clock.advance(100);
  assert.equal(scheduler.status().guests, undefined);
});
