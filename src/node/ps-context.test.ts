// Goal: the PS context takes MindSpore's keys, tells what they mean here, and refuses the others: unknown ones with the
// nearest known, those of federated learning and TLS with the reason. A call sets all of its keys or none
// (PsContext.P1, PsContext.P2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";
import { loadConfig } from "./config/config.ts";
import { PsContext } from "./ps-context.ts";

function refuses(values: object, code: ErrorCode, message: RegExp): void {
  const context = new PsContext();
  assert.throws(
    () => context.set(values),
    (error) => isWeighbridgeError(error, code) && message.test(error.message),
  );
}

test("begins with the defaults, sets, gets and resets", () => {
  const context = new PsContext();
  assert.equal(context.get("enablePs"), false);
  context.set({ enablePs: true, workerNum: 4 });
  context.set({ serverNum: 2 });
  assert.deepEqual([context.get("enablePs"), context.get("workerNum"), context.get("serverNum")], [true, 4, 2]);
  context.reset();
  assert.deepEqual([context.get("enablePs"), context.get("workerNum")], [false, 0]);
});

test("means the same as the environment's MS_*", () => {
  const context = new PsContext();
  assert.deepEqual(context.nodeOptions, {});
  context.set({
    msRole: "MS_PSERVER",
    workerNum: 2,
    serverNum: 1,
    schedulerIp: "127.0.0.1",
    schedulerPort: 8118,
    schedulerManagePort: 11_202,
  });
  context.set({ configFilePath: "a.json", checkpointDir: "ckpt" });
  assert.deepEqual(context.nodeOptions, {
    config: "a.json",
    managePort: 11_202,
    role: "server",
    workerCount: 2,
    serverCount: 1,
    schedulerHost: "127.0.0.1",
    schedulerPort: 8118,
    checkpointDir: "ckpt",
  });
});

test("a management port that is set to 0 is off, whatever the environment says; one that is not set is the environment's", () => {
  const context = new PsContext();
  const env = { MS_ROLE: "MS_SCHED", MS_WORKER_NUM: "1", MS_SERVER_NUM: "1", MS_SCHED_PORT: "8118", WEIGHBRIDGE_MANAGE_PORT: "11202" };
  const managePort = (): number => loadConfig({ options: context.nodeOptions, env }).managePort;
  assert.equal(managePort(), 11_202);
  context.set({ schedulerManagePort: 0 });
  assert.equal(managePort(), 0);
  context.reset();
  assert.equal(managePort(), 11_202);
});

test("names the nearest key for one that does not exist", () => {
  refuses({ enable_pss: true }, "BAD_CONFIG", /no "enablePss"; did you mean enablePs\?/);
  refuses({ constructor: 1 }, "BAD_CONFIG", /no "constructor"; did you mean/);
  refuses({ workerNumber: 2 }, "BAD_CONFIG", /did you mean workerNum\?/);
  assert.throws(
    () => new PsContext().get("enablePS" as "enablePs"),
    (error) => isWeighbridgeError(error, "BAD_CONFIG"),
  );
});

test("refuses what is not offered, with the reason", () => {
  refuses({ enableSsl: true }, "UNSUPPORTED", /TLS/);
  refuses({ clientPassword: "x" }, "UNSUPPORTED", /TLS/);
  refuses({ flName: "Lenet" }, "UNSUPPORTED", /federated/);
  refuses({ dpEps: 50 }, "UNSUPPORTED", /federated/);
  refuses({ serverMode: "FEDERATED_LEARNING" }, "UNSUPPORTED", /federated/);
});

test("refuses values that cannot be, and sets nothing of such a call", () => {
  refuses({ enablePs: "yes" }, "BAD_CONFIG", /enablePs is true or false, not "yes"/);
  refuses({ schedulerPort: 70_000 }, "BAD_CONFIG", /port/);
  refuses({ workerNum: 1.5 }, "BAD_CONFIG", /whole number/);
  refuses({ msRole: "worker" }, "BAD_CONFIG", /MS_WORKER/);
  const context = new PsContext();
  assert.throws(() => context.set({ enablePs: true, serverNum: -1 }));
  assert.equal(context.get("enablePs"), false);
});

test("takes keys in MindSpore's own spelling, and refuses a key that is there twice", () => {
  const context = new PsContext();
  context.set({ enable_ps: true, scheduler_ip: "127.0.0.1" } as object);
  assert.deepEqual([context.get("enablePs"), context.get("schedulerIp")], [true, "127.0.0.1"]);
  assert.equal(context.get("enable_ps" as "enablePs"), true);
  refuses({ client_password: "x" }, "UNSUPPORTED", /TLS/);
  refuses({ fl_name: "Lenet" }, "UNSUPPORTED", /federated/);
  refuses({ enable_ps: true, enablePs: false }, "BAD_ARGUMENT", /both enable_ps and enablePs/);
});
