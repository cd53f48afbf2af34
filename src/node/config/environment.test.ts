// Goal: every variable of ps-lite, Hetu and MindSpore does what it does there, or says why not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { INTERFACES } from "../../../test/support/network-interfaces.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { loadConfig } from "./config.ts";
import type { NodeConfig } from "./node-config.ts";

type Environment = Readonly<Record<string, string>>;

const DMLC: Environment = {
  DMLC_ROLE: "worker",
  DMLC_NUM_SERVER: "2",
  DMLC_NUM_WORKER: "3",
  DMLC_PS_ROOT_URI: "127.0.0.1",
  DMLC_PS_ROOT_PORT: "9000",
};
const MS: Environment = { MS_ROLE: "MS_WORKER", MS_SERVER_NUM: "2", MS_WORKER_NUM: "3", MS_SCHED_HOST: "127.0.0.1", MS_SCHED_PORT: "9000" };

function load(env: Environment, warn: (warning: string) => void = () => {}): NodeConfig {
  return loadConfig({ env, interfaces: INTERFACES, warn });
}

/** ps-lite's environment with more in it. */
function dmlc(env: Environment): NodeConfig {
  return load({ ...DMLC, ...env });
}

function refusal(env: Environment): string {
  try {
    load(env);
  } catch (error) {
    assert.ok(isWeighbridgeError(error, "BAD_CONFIG"), String(error));
    return error.message;
  }
  assert.fail("nothing was wrong");
}

test("starts from ps-lite's five variables alone, and from MindSpore's", () => {
  for (const env of [DMLC, MS]) {
    const { role, serverCount, workerCount, schedulerHost, schedulerPort } = load(env);
    assert.deepEqual([role, serverCount, workerCount, schedulerHost, schedulerPort], ["worker", 2, 3, "127.0.0.1", 9000]);
  }
});

test("knows all of MindSpore's roles", () => {
  const role = (word: string) => load({ ...MS, MS_ROLE: word }).role;
  assert.deepEqual(["MS_SCHED", "MS_PSERVER", "MS_SERVER", "MS_WORKER"].map(role), ["scheduler", "server", "server", "worker"]);
  assert.match(
    refusal({ ...MS, MS_ROLE: "worker" }),
    /MS_ROLE \(environment\): expected MS_SCHED, MS_PSERVER, MS_SERVER or MS_WORKER; found "worker"/,
  );
});

test("reads MindSpore's further variables", () => {
  const config = load({ ...MS, MS_SCHED_MANAGE_PORT: "11202", MS_NODE_ID: "gpu-7", MS_INTERFACE: "eth1", MS_COMM_TYPE: "tcp" });
  assert.deepEqual([config.managePort, config.nodeId, config.host, config.transport], [11202, "gpu-7", "198.51.100.5", "tcp"]);
  assert.match(refusal({ ...MS, MS_COMM_TYPE: "ib" }), /MS_COMM_TYPE.*found "ib".*use tcp/);
});

test("lets our names beat ps-lite's without a word, and ps-lite's beat MindSpore's with a warning that names both", () => {
  const warnings: string[] = [];
  const env = { ...DMLC, ...MS, DMLC_NUM_WORKER: "4", WEIGHBRIDGE_SERVER_COUNT: "9" };
  const config = load(env, (warning) => warnings.push(warning));
  assert.deepEqual([config.workerCount, config.serverCount], [4, 9]);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /DMLC_NUM_WORKER \(environment\) says 4 and is used; MS_WORKER_NUM \(environment\) says 3 and is ignored/);
});

test("refuses two variables of one family that differ, and takes two that agree", () => {
  assert.equal(dmlc({ WORKER_ID: "1", DMLC_RANK: "1" }).rank, 1);
  assert.match(
    refusal({ ...DMLC, WORKER_ID: "1", DMLC_RANK: "2" }),
    /WORKER_ID \(environment\): expected the same rank as DMLC_RANK \(environment\), 2; found 1/,
  );
  assert.equal(dmlc({ WORKER_ID: "1", DMLC_RANK: "2", WEIGHBRIDGE_RANK: "0" }).rank, 0);
});

test("takes a rank, a host and a port from the variables of its own role only", () => {
  const workers = { WORKER_ID: "2", DMLC_PS_WORKER_URI: "192.0.2.2", DMLC_PS_WORKER_PORT: "4082" };
  const servers = { SERVER_ID: "1", DMLC_PS_SERVER_URI: "192.0.2.1", DMLC_PS_SERVER_PORT: "4081" };
  const place = (role: string) => {
    const { rank, host, listenPort } = dmlc({ ...workers, ...servers, PORT: "5000", DMLC_ROLE: role });
    return [rank, host, listenPort];
  };
  assert.deepEqual(place("worker"), [2, "192.0.2.2", 4082]);
  assert.deepEqual(place("server"), [1, "192.0.2.1", 4081]);
  assert.deepEqual(place("scheduler"), [undefined, "127.0.0.1", 9000]);
  assert.equal(dmlc({ PORT: "5000" }).listenPort, 5000);
  assert.equal(dmlc({ DMLC_WORKER_ID: "1" }).rank, 1);
});

test("finds the address of an interface, and lists them all when there is none of that name", () => {
  assert.equal(dmlc({ DMLC_INTERFACE: "eth1" }).host, "198.51.100.5");
  assert.equal(dmlc({ DMLC_INTERFACE: "eth1", DMLC_NODE_HOST: "203.0.113.7" }).host, "203.0.113.7");
  assert.match(
    refusal({ ...DMLC, DMLC_INTERFACE: "ib0" }),
    /DMLC_INTERFACE .*found "ib0"; fix: name one of lo \(127\.0\.0\.1\), .*eth1 \(198\.51\.100\.5\)/,
  );
});

test("listens everywhere in Kubernetes and advertises the pod's own address or the one it is told", () => {
  const pod = (env: Environment) => {
    const { host, advertiseHost } = dmlc({ DMLC_USE_KUBERNETES: "1", ...env });
    return [host, advertiseHost];
  };
  assert.deepEqual(pod({}), ["0.0.0.0", "192.0.2.50"]);
  assert.deepEqual(pod({ DMLC_NODE_HOST: "203.0.113.7" }), ["0.0.0.0", "203.0.113.7"]);
  assert.deepEqual(pod({ DMLC_INTERFACE: "eth1" }), ["0.0.0.0", "198.51.100.5"]);
  assert.deepEqual(pod({ DMLC_ROLE: "scheduler", DMLC_PS_ROOT_URI: "sched.example" }), ["0.0.0.0", "sched.example"]);
  assert.equal(dmlc({ DMLC_USE_KUBERNETES: "0" }).host, "127.0.0.1");
});

test("does not advertise ps-lite's address when told to listen at another", () => {
  assert.equal(dmlc({ WEIGHBRIDGE_HOST: "198.51.100.5", DMLC_NODE_HOST: "203.0.113.7" }).advertiseHost, "198.51.100.5");
  assert.equal(dmlc({ WEIGHBRIDGE_HOST: "0.0.0.0", DMLC_NODE_HOST: "203.0.113.7" }).advertiseHost, "203.0.113.7");
});

test("takes zmq and p3 for ps-lite's protocol, and refuses RDMA with a reason", () => {
  assert.deepEqual([dmlc({}).van, dmlc({ DMLC_PS_VAN_TYPE: "zmq" }).van], ["weighbridge", "zmq"]);
  const local = dmlc({ DMLC_PS_VAN_TYPE: "p3", DMLC_LOCAL: "1" });
  assert.deepEqual([local.van, local.transport], ["p3", "unix"]);
  assert.equal(dmlc({ DMLC_LOCAL: "0" }).transport, "tcp");
  assert.match(
    refusal({ ...DMLC, DMLC_PS_VAN_TYPE: "ibverbs" }),
    /DMLC_PS_VAN_TYPE \(environment\): expected zmq or p3; found "ibverbs"; fix: .*no RDMA/,
  );
  assert.match(refusal({ ...DMLC, DMLC_LOCAL: "constructor" }), /DMLC_LOCAL \(environment\): expected 0 or 1/);
});

test("reads heartbeats in seconds, and an explicit 0 as off", () => {
  const config = dmlc({ PS_HEARTBEAT_INTERVAL: "2", PS_HEARTBEAT_TIMEOUT: "7.5" });
  assert.deepEqual([config.heartbeatIntervalMs, config.heartbeatTimeoutMs], [2000, 7500]);
  assert.equal(dmlc({ PS_HEARTBEAT_INTERVAL: "0" }).heartbeatTimeoutMs, 0);
  assert.match(refusal({ ...DMLC, PS_HEARTBEAT_TIMEOUT: "soon" }), /PS_HEARTBEAT_TIMEOUT \(environment\): expected a number of seconds/);
  assert.match(
    refusal({ ...DMLC, PS_HEARTBEAT_INTERVAL: "9", PS_HEARTBEAT_TIMEOUT: "9" }),
    /PS_HEARTBEAT_TIMEOUT \(environment\): expected more than/,
  );
});

test("resends as ps-lite does, and whenever messages are dropped", () => {
  const timeout = (env: Environment) => dmlc(env).resendTimeoutMs;
  assert.equal(timeout({ PS_RESEND: "1" }), 1000);
  assert.equal(timeout({ PS_RESEND: "1", PS_RESEND_TIMEOUT: "250" }), 250);
  assert.equal(timeout({ PS_RESEND_TIMEOUT: "250" }), 0);
  assert.equal(timeout({ PS_RESEND: "0", PS_RESEND_TIMEOUT: "250" }), 0);
  assert.equal(timeout({ PS_DROP_MSG: "10" }), 1000);
  assert.equal(timeout({ PS_DROP_MSG: "10", PS_RESEND_TIMEOUT: "250" }), 250);
  assert.equal(timeout({ PS_DROP_MSG: "10", PS_RESEND: "0" }), 0);
  assert.equal(dmlc({ PS_DROP_MSG: "10" }).faults.dropPercent, 10);
  assert.match(refusal({ ...DMLC, PS_RESEND: "1", PS_RESEND_TIMEOUT: "x" }), /PS_RESEND_TIMEOUT \(environment\)/);
  assert.match(refusal({ ...DMLC, PS_RESEND: "yes", PS_RESEND_TIMEOUT: "250" }), /PS_RESEND \(environment\): expected 0 or 1/);
  assert.match(refusal({ ...DMLC, PS_DROP_MSG: "101" }), /PS_DROP_MSG/);
});

test("reads the water mark and the verbosity", () => {
  assert.equal(dmlc({ DMLC_PS_WATER_MARK: "64" }).outboxMessagesMax, 64);
  assert.match(refusal({ ...DMLC, DMLC_PS_WATER_MARK: "0" }), /DMLC_PS_WATER_MARK/);
  assert.deepEqual(
    ["0", "1", "2", "3"].map((level) => dmlc({ PS_VERBOSE: level }).logLevel),
    ["warn", "info", "debug", "debug"],
  );
});

test("names the nearest variable for an unknown one of ours or of ps-lite's", () => {
  assert.match(refusal({ ...DMLC, DMLC_PS_ROOT_PROT: "1" }), /DMLC_PS_ROOT_PROT \(environment\).*did you mean DMLC_PS_ROOT_PORT\?/);
  assert.match(refusal({ ...DMLC, WEIGHBRIDGE_WORKERS: "1" }), /did you mean WEIGHBRIDGE_WORKER_COUNT\?/);
  assert.match(refusal({ ...DMLC, DMLC_ENABLE_RDMA: "1" }), /DMLC_ENABLE_RDMA/);
});

test("leaves PS_ and MS_ variables of other programs alone, but not a slip for one of these", () => {
  assert.equal(dmlc({ PS_FORMAT: "pid", MS_TOPO_TIMEOUT: "30", PS1: "$", MSYSTEM: "x" }).role, "worker");
  assert.match(refusal({ ...DMLC, PS_HEARTBEAT_INTERVALL: "1" }), /did you mean PS_HEARTBEAT_INTERVAL\?/);
  assert.match(refusal({ ...MS, MS_SHCED_HOST: "1" }), /did you mean MS_SCHED_HOST\?/);
});

test("ignores what the launchers of the family set for themselves, and unknown variables that are empty", () => {
  const env = {
    DMLC_TRACKER_URI: "192.0.2.1",
    DMLC_TRACKER_PORT: "9091",
    DMLC_JOB_CLUSTER: "local",
    DMLC_TASK_ID: "0",
    DMLC_NODE_RANK: "0",
    DMLC_NUM_ATTEMPT: "1",
  };
  assert.equal(dmlc({ ...env, DMLC_WHATEVER: "" }).role, "worker");
});

const LINKS: Environment = {
  WEIGHBRIDGE_PORT: "tcp://192.0.2.9:9700",
  WEIGHBRIDGE_SERVICE_HOST: "192.0.2.9",
  WEIGHBRIDGE_SERVICE_PORT: "9700",
  WEIGHBRIDGE_SCHEDULER_PORT: "tcp://192.0.2.11:8000",
  WEIGHBRIDGE_SCHEDULER_SERVICE_HOST: "192.0.2.11",
  WEIGHBRIDGE_SCHEDULER_SERVICE_PORT: "8000",
  WEIGHBRIDGE_SCHEDULER_SERVICE_PORT_HTTP: "8000",
  WEIGHBRIDGE_SCHEDULER_PORT_8000_TCP: "tcp://192.0.2.11:8000",
  WEIGHBRIDGE_SCHEDULER_PORT_8000_TCP_PROTO: "tcp",
  WEIGHBRIDGE_SCHEDULER_PORT_8000_TCP_PORT: "8000",
  WEIGHBRIDGE_SCHEDULER_PORT_8000_TCP_ADDR: "192.0.2.11",
  WEIGHBRIDGE_MANAGE_PORT: "udp://192.0.2.12:53",
  DMLC_PS_WORKER_PORT: "tcp://192.0.2.13:80",
  MS_SCHED_SERVICE_HOST: "192.0.2.14",
};

test("takes no service link of Kubernetes for a key, whatever the service is called (ConfigSource.S1)", () => {
  const { listenPort, schedulerPort, managePort } = dmlc(LINKS);
  assert.deepEqual([listenPort, schedulerPort, managePort], [0, 9000, 0]);
});

test("reads a key that has the name of a service link when its value is none (ConfigSource.S2)", () => {
  assert.equal(dmlc({ ...LINKS, WEIGHBRIDGE_LISTEN_PORT: "9001" }).listenPort, 9001);
  assert.match(
    refusal({ ...DMLC, WEIGHBRIDGE_LISTEN_PORT: "http://192.0.2.9" }),
    /WEIGHBRIDGE_LISTEN_PORT \(environment\): expected a whole number/,
  );
});

test("warns that the scheduler's port is the default one when a service link stands in its place", () => {
  const { DMLC_PS_ROOT_PORT: _, ...rest } = DMLC;
  const warnings: string[] = [];
  assert.equal(load({ ...rest, ...LINKS }, (warning) => warnings.push(warning)).schedulerPort, 9700);
  const link = 'WEIGHBRIDGE_SCHEDULER_PORT is "tcp://192.0.2.11:8000", a service link of Kubernetes, and is not read';
  assert.deepEqual(warnings, [`${link}; schedulerPort is 9700`]);
  load({ ...DMLC, ...LINKS }, assert.fail);
});

test("still names the nearest key for an unknown variable of ours beside service links", () => {
  assert.match(
    refusal({ ...DMLC, ...LINKS, WEIGHBRIDGE_SCHEDULER_PROT: "1" }),
    /WEIGHBRIDGE_SCHEDULER_PROT .*did you mean WEIGHBRIDGE_SCHEDULER_PORT\?/,
  );
  assert.match(refusal({ ...DMLC, WEIGHBRIDGE_SERVER_HOST: "1" }), /WEIGHBRIDGE_SERVER_HOST .*did you mean /);
});

test("leaves a web service's PORT alone: it is ps-lite's only where DMLC_ROLE is set", () => {
  const env = {
    WEIGHBRIDGE_ROLE: "worker",
    WEIGHBRIDGE_SERVER_COUNT: "1",
    WEIGHBRIDGE_WORKER_COUNT: "1",
    WEIGHBRIDGE_SCHEDULER_PORT: "9000",
  };
  assert.equal(load({ ...env, PORT: "8080" }).listenPort, 0);
  assert.equal(load({ ...MS, PORT: "8080" }).listenPort, 0);
  assert.equal(load({ ...env, PORT: "unix:/run/app.sock" }).listenPort, 0);
  assert.equal(dmlc({ PORT: "5000" }).listenPort, 5000);
});
