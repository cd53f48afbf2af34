// Where configuration comes from, who wins, and what is said when it makes no sense.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { INTERFACES } from "../../../test/support/network-interfaces.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { type ConfigSources, loadConfig } from "./config.ts";
import { schedulerAddresses } from "./node-addresses.ts";
import type { NodeConfig, NodeConfigOptions } from "./node-config.ts";

const BASE: NodeConfigOptions = { role: "worker", serverCount: 2, workerCount: 3, schedulerPort: 9700 };

function load(sources: ConfigSources): NodeConfig {
  return loadConfig({ interfaces: INTERFACES, warn: () => {}, ...sources });
}

function withBase(options: NodeConfigOptions): NodeConfig {
  return load({ options: { ...BASE, ...options } });
}

/** The lines of the error, without the heading. */
function problemsOf(sources: ConfigSources): string[] {
  try {
    load(sources);
  } catch (error) {
    assert.ok(error instanceof WeighbridgeError, String(error));
    assert.equal(error.code, "BAD_CONFIG");
    return error.message.split("\n").slice(1);
  }
  assert.fail("nothing was wrong");
}

function problemOf(sources: ConfigSources): string {
  const problems = problemsOf(sources);
  assert.equal(problems.length, 1, problems.join("\n"));
  return problems[0]!;
}

test("a range of workers goes up from one at least, and a durable server has no second copy", () => {
  assert.throws(() => withBase({ workerCount: 5, workerCountMax: 2 }), throwsCode("BAD_CONFIG", /workerCountMax.*at least workerCount, 5/));
  assert.throws(() => withBase({ workerCount: 0, workerCountMax: 3 }), throwsCode("BAD_CONFIG", /begin the range with 1/));
  assert.throws(
    () => withBase({ role: "server", durable: "here", replicas: 2 }),
    throwsCode("BAD_CONFIG", /replicated or durable, not both/),
  );
});

test("fills in every default when only the required keys are given", () => {
  const { socketDir, ...config } = withBase({});
  assert.ok(socketDir.startsWith(tmpdir()));
  assert.deepEqual(config, {
    role: "worker",
    serverCount: 2,
    workerCount: 3,
    job: undefined,
    schedulers: undefined,
    schedulerHost: "127.0.0.1",
    schedulerPort: 9700,
    host: "127.0.0.1",
    advertiseHost: "127.0.0.1",
    listenPort: 0,
    rank: undefined,
    transport: "tcp",
    van: "weighbridge",
    stateDir: "auto",
    etcd: undefined,
    etcdLeaseMs: 5000,
    placement: "ring",
    replicas: 1,
    threads: 1,
    heartbeatIntervalMs: 1000,
    heartbeatTimeoutMs: 5000,
    loopTimeoutMs: 30_000,
    startTimeoutMs: 60_000,
    requestTimeoutMs: undefined,
    linkTimeoutMs: 30_000,
    resendTimeoutMs: 0,
    faults: { dropPercent: 0, duplicatePercent: 0, reorderPercent: 0, delayMs: 0, seed: 1 },
    outboxMessagesMax: 65_536,
    outboxBytesMax: 2 * 2 ** 20,
    arenaBytesMax: 3 * 2 ** 30,
    wakefulLoop: "on",
    sharedMemory: "on",
    serve: "off",
    functions: undefined,
    checkpointDir: undefined,
    durable: undefined,
    restore: undefined,
    resume: undefined,
    workerCountMax: undefined,
    checkpointEvery: undefined,
    keep: undefined,
    logLevel: "info",
    logFormat: "text",
    managePort: 0,
    nodeId: undefined,
  });
});

test("lets options beat the command line, that the environment, and that the file", () => {
  const file = { path: "a.yml", text: "threads: 4\nstartTimeoutMs: 4\nlistenPort: 4\nlogLevel: error" };
  const env = { WEIGHBRIDGE_THREADS: "3", WEIGHBRIDGE_START_TIMEOUT_MS: "3", WEIGHBRIDGE_LISTEN_PORT: "3" };
  const config = load({ options: { ...BASE, threads: 1 }, commandLine: { threads: "2", startTimeout: "2ms" }, env, file });
  assert.deepEqual([config.threads, config.startTimeoutMs, config.listenPort, config.logLevel], [1, 2, 3, "error"]);
});

test("takes undefined, null and the empty text for nothing, everywhere", () => {
  const file = { path: "a.yml", text: "listenPort:\nhost: ''\nfaults:" };
  const config = load({
    options: { ...BASE, rank: undefined },
    commandLine: { listenPort: "" },
    env: { WEIGHBRIDGE_PORT: "  ", DMLC_ROLE: "" },
    file,
  });
  assert.deepEqual([config.listenPort, config.rank, config.host], [0, undefined, "127.0.0.1"]);
});

test("asks for every missing key at once, and names all that would set it", () => {
  const problems = problemsOf({});
  assert.deepEqual(
    problems.flatMap((line) => /^ *\d\. (\w+)/.exec(line)?.[1] ?? []),
    ["role", "serverCount", "workerCount"],
  );
  for (const name of ["--role", "WEIGHBRIDGE_ROLE", "DMLC_ROLE", "MS_ROLE", "option role", "config file"])
    assert.ok(problems[0]?.includes(name), name);
});

test("names the source, the expectation and the find in each place", () => {
  const base = { ...BASE, schedulerPort: undefined };
  const expected = "expected a whole number from 1 to 65535; found";
  assert.ok(problemOf({ options: { ...base, schedulerPort: 0 } }).includes(`schedulerPort (option): ${expected} 0`));
  assert.ok(problemOf({ options: base, commandLine: { schedulerPort: "x" } }).includes(`--scheduler-port (command line): ${expected} "x"`));
  const env = { WEIGHBRIDGE_SCHEDULER_PORT: "70000" };
  assert.ok(problemOf({ options: base, env }).includes(`WEIGHBRIDGE_SCHEDULER_PORT (environment): ${expected} "70000"`));
  assert.ok(problemOf({ options: base, env: { DMLC_PS_ROOT_PORT: "-1" } }).includes(`DMLC_PS_ROOT_PORT (environment): ${expected} "-1"`));
  const file = { path: "/etc/wb.yml", text: "schedulerPort: [1]" };
  assert.ok(problemOf({ options: base, file }).includes(`schedulerPort (file:/etc/wb.yml): ${expected} [1]`));
});

test("reports a bad value even when a weaker place has a good one, and never looks at what is overridden", () => {
  assert.match(problemOf({ options: BASE, commandLine: { threads: "many" }, env: { WEIGHBRIDGE_THREADS: "2" } }), /--threads/);
  assert.equal(load({ options: { ...BASE, threads: 2 }, env: { WEIGHBRIDGE_THREADS: "many" } }).threads, 2);
});

test("reports several problems together and does not call a broken key missing", () => {
  const env = { DMLC_ROLE: "boss", DMLC_NUM_SERVER: "one", DMLC_NUM_WORKER: "1", DMLC_PS_ROOT_PORT: "9000", PS_VERBOSE: "much" };
  assert.equal(problemsOf({ env }).length, 3);
});

test("names the nearest known option and flag for an unknown one", () => {
  assert.match(
    problemOf({ options: { ...BASE, workerCuont: 3 } as NodeConfigOptions }),
    /workerCuont \(option\).*did you mean workerCount\?/,
  );
  assert.match(problemOf({ options: { ...BASE, faults: { drop: 1 } } as NodeConfigOptions }), /did you mean faults\.dropPercent\?/);
  assert.match(problemOf({ options: BASE, commandLine: { worker: 3 } }), /--worker \(command line\).*did you mean --workers\?/);
});

test("refuses the old names of options, variables and keys of a file, with the new one", () => {
  const renamed = /its old name; fix: it is now called/;
  assert.match(
    problemOf({ options: { ...BASE, port: 1 } as NodeConfigOptions }),
    new RegExp(`port \\(option\\).*${renamed.source} listenPort`),
  );
  assert.match(problemOf({ options: BASE, file: { path: "a.yml", text: "port: 1" } }), /its old name; fix: it is now called listenPort/);
  assert.match(problemOf({ options: BASE, env: { WEIGHBRIDGE_PORT: "1" } }), /its old name; fix: it is now called WEIGHBRIDGE_LISTEN_PORT/);
});

test("a time has a unit on the command line; elsewhere a number is one of milliseconds", () => {
  for (const [text, ms] of [
    ["5s", 5000],
    ["1.5s", 1500],
    ["2min", 120_000],
    ["250ms", 250],
  ] as const) {
    assert.equal(load({ options: BASE, commandLine: { requestTimeout: text } }).requestTimeoutMs, ms);
    assert.equal(load({ options: BASE, env: { WEIGHBRIDGE_REQUEST_TIMEOUT_MS: text } }).requestTimeoutMs, ms);
  }
  assert.equal(load({ options: BASE, env: { WEIGHBRIDGE_REQUEST_TIMEOUT_MS: "5000" } }).requestTimeoutMs, 5000);
  assert.equal(load({ options: BASE, commandLine: { heartbeatTimeout: "0", heartbeatInterval: "0" } }).heartbeatTimeoutMs, 0);
  const refused = problemOf({ options: BASE, commandLine: { requestTimeout: "5000" } });
  assert.match(refused, /--request-timeout \(command line\): expected a time with its unit.*found "5000"; fix: write 5000ms or 5000s/);
});

test("checkpointEvery is a time or a number of steps, and a bare number is neither", () => {
  const every = (checkpointEvery: string): string | undefined =>
    load({ options: { ...BASE, checkpointEvery, checkpointDir: "ckpt" } }).checkpointEvery;
  assert.deepEqual([every("60s"), every("500steps"), every("none")], ["60s", "500steps", undefined]);
  for (const text of ["60", "0steps", "1.5steps", "50ms", "steps"])
    assert.match(
      problemOf({ options: { ...BASE, checkpointEvery: text, checkpointDir: "ckpt" } }),
      /expected a time such as 60s .* or a number of steps such as 500steps/,
    );
});

test("resume auto is the directory for checkpoints, and needs one", () => {
  assert.equal(load({ options: { ...BASE, checkpointDir: "ckpt" }, commandLine: { resume: "auto" } }).resume, "ckpt");
  assert.match(
    problemOf({ options: BASE, commandLine: { resume: "auto" } }),
    /as there is no checkpointDir; found "auto"; fix: name one, as --resume=DIR/,
  );
});

test("a rank of a worker is one that the start waits for, unless more are allowed by number", () => {
  assert.equal(withBase({ workerCount: 3 }).workerCountMax, undefined);
  assert.equal(withBase({ workerCount: 1, workerCountMax: 3, rank: 2 }).rank, 2);
  const refusal = (options: NodeConfigOptions): string => problemOf({ options: { ...BASE, ...options } });
  assert.match(refusal({ workerCountMax: 4, rank: 4 }), /rank \(option\): expected a rank from 0 to 3/);
});

test("takes the flags of nested keys as commander spells them", () => {
  assert.equal(load({ options: BASE, commandLine: { faultDropPercent: "5", faultSeed: "7" } }).faults.seed, 7);
});

test("binds a scheduler where it is to be reached, and everyone else to loopback", () => {
  const scheduler = withBase({ role: "scheduler", schedulerHost: "192.0.2.5" });
  assert.deepEqual([scheduler.host, scheduler.advertiseHost, scheduler.listenPort], ["192.0.2.5", "192.0.2.5", 9700]);
  assert.equal(withBase({ schedulerHost: "192.0.2.5" }).host, "127.0.0.1");
});

test("wants an address to advertise from a node that listens everywhere, unless it is the scheduler", () => {
  assert.match(problemOf({ options: { ...BASE, host: "0.0.0.0" } }), /advertiseHost \(default\).*set --advertise-host, .*DMLC_NODE_HOST/);
  assert.match(problemOf({ options: { ...BASE, host: "::" } }), /advertiseHost/);
  assert.equal(withBase({ host: "0.0.0.0", advertiseHost: "a.example" }).advertiseHost, "a.example");
  assert.equal(withBase({ host: "0.0.0.0", role: "scheduler" }).advertiseHost, "127.0.0.1");
  assert.equal(withBase({ host: "0.0.0.0", transport: "unix" }).host, "0.0.0.0");
});

test("refuses a scheduler's address that nobody can connect to, and a scheduler's port that is another", () => {
  assert.match(problemOf({ options: { ...BASE, schedulerHost: "0.0.0.0" } }), /schedulerHost/);
  assert.match(
    problemOf({ options: { ...BASE, role: "scheduler", listenPort: 1 } }),
    /listenPort \(option\): expected 9700, the schedulerPort/,
  );
  assert.match(problemOf({ options: { ...BASE, role: "scheduler", managePort: 9700 } }), /managePort/);
});

test("wants at least one node besides the scheduler, and this one among them", () => {
  const counts = (serverCount: number, workerCount: number, role: NodeConfig["role"]) => ({
    options: { ...BASE, serverCount, workerCount, role },
  });
  assert.match(problemOf(counts(0, 0, "scheduler")), /at least one server or worker/);
  assert.match(problemOf(counts(0, 1, "server")), /as this node is a server/);
  assert.match(problemOf(counts(1, 0, "worker")), /as this node is a worker/);
  assert.equal(load(counts(1, 0, "scheduler")).workerCount, 0);
  assert.equal(load(counts(0, 1, "worker")).serverCount, 0);
});

test("wants a rank below the count of its role, with room for all threads", () => {
  assert.equal(withBase({ rank: 2 }).rank, 2);
  assert.match(problemOf({ options: { ...BASE, rank: 3 } }), /a rank from 0 to 2, as there are 3 workers/);
  assert.equal(withBase({ role: "server", rank: 0, threads: 2 }).threads, 2);
  assert.match(problemOf({ options: { ...BASE, role: "server", rank: 1, threads: 2 } }), /a rank from 0 to 0/);
  assert.match(problemOf({ options: { ...BASE, role: "server", threads: 3 } }), /threads \(option\): expected at most 2, the serverCount/);
  assert.match(problemOf({ options: { ...BASE, role: "scheduler", rank: 1 } }), /there is one scheduler/);
});

test("fits the interval of heartbeats and the timeout to each other", () => {
  const beats = (options: NodeConfigOptions) => {
    const { heartbeatIntervalMs, heartbeatTimeoutMs } = withBase(options);
    return [heartbeatIntervalMs, heartbeatTimeoutMs];
  };
  assert.deepEqual(beats({ heartbeatIntervalMs: 10_000 }), [10_000, 50_000]);
  assert.equal(withBase({ heartbeatTimeoutMs: 20_000 }).loopTimeoutMs, 40_000);
  assert.deepEqual(beats({ heartbeatTimeoutMs: 500 }), [100, 500]);
  assert.deepEqual(beats({ heartbeatTimeoutMs: 2 }), [1, 2]);
  assert.deepEqual(beats({ heartbeatIntervalMs: 0 }), [0, 0]);
  assert.deepEqual(beats({ heartbeatTimeoutMs: 0 }), [0, 0]);
  assert.deepEqual(beats({ heartbeatIntervalMs: 100, heartbeatTimeoutMs: 0 }), [100, 0]);
  assert.deepEqual(beats({ heartbeatIntervalMs: 100, heartbeatTimeoutMs: 101 }), [100, 101]);
  assert.match(
    problemOf({ options: { ...BASE, heartbeatIntervalMs: 100, heartbeatTimeoutMs: 100 } }),
    /more than heartbeatIntervalMs, 100/,
  );
  assert.match(problemOf({ options: { ...BASE, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 100 } }), /would seem dead/);
});

test("turns resending on when messages are dropped on purpose, unless told otherwise", () => {
  assert.equal(withBase({ faults: { dropPercent: 1 } }).resendTimeoutMs, 1000);
  assert.equal(withBase({ faults: { dropPercent: 1 }, resendTimeoutMs: 0 }).resendTimeoutMs, 0);
});

test("refuses a folder for sockets that is relative or leaves no room for a socket's name", () => {
  assert.match(problemOf({ options: { ...BASE, socketDir: "sockets" } }), /an absolute path/);
  const socketDir = `/${"x".repeat(80)}`;
  assert.match(problemOf({ options: { ...BASE, transport: "unix", socketDir } }), /at most 80 bytes/);
  assert.equal(withBase({ socketDir }).socketDir, socketDir);
});

test("warns of a server that a scheduler elsewhere points nobody to, and of drops without resends", () => {
  const warnings: string[] = [];
  const warn = (warning: string) => warnings.push(warning);
  load({ options: { ...BASE, role: "server", schedulerHost: "203.0.113.9", faults: { dropPercent: 1 }, resendTimeoutMs: 0 }, warn });
  assert.equal(warnings.length, 2);
  assert.match(warnings[0]!, /only be reached from its own machine.*--host/);
  load({ options: { ...BASE, role: "server", schedulerHost: "203.0.113.9", host: "192.0.2.5" }, warn });
  load({ options: BASE, warn });
  assert.equal(warnings.length, 2);
});

test("warns of a worker of ps-lite's protocol that a scheduler elsewhere cannot answer, and of no other worker", () => {
  const warned = (options: NodeConfigOptions): string[] => {
    const warnings: string[] = [];
    load({ options: { ...BASE, role: "worker", ...options }, warn: (warning) => warnings.push(warning) });
    return warnings;
  };
  const [warning = "", ...more] = warned({ van: "zmq", schedulerHost: "scheduler.example" });
  assert.match(warning, /this worker can only be reached from its own machine.*scheduler\.example.*--host.*DMLC_NODE_HOST/);
  assert.deepEqual(more, []);
  assert.deepEqual(warned({ schedulerHost: "scheduler.example" }), [], "nobody dials a worker over our own protocol");
  assert.deepEqual(warned({ van: "zmq", schedulerHost: "127.0.0.1" }), []);
  assert.deepEqual(warned({ van: "zmq", schedulerHost: "scheduler.example", host: "worker.example" }), []);
});

test("reads the file that the option, the flag or the variable names, the first of them", () => {
  const folder = mkdtempSync(join(tmpdir(), "wb-config-"));
  try {
    const yaml = join(folder, "a.yml");
    const json = join(folder, "b.json");
    writeFileSync(yaml, "threads: 2");
    writeFileSync(json, '{ "threads": 1, "faults": { "seed": 9 } }');
    assert.equal(load({ options: { ...BASE, config: yaml }, commandLine: { config: json } }).threads, 2);
    assert.equal(load({ options: BASE, commandLine: { config: json }, env: { WEIGHBRIDGE_CONFIG: yaml } }).faults.seed, 9);
    assert.equal(load({ options: BASE, env: { WEIGHBRIDGE_CONFIG: yaml } }).threads, 2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("says which file could not be read and who named it, and nothing about keys that it might hold", () => {
  assert.match(
    problemOf({ env: { WEIGHBRIDGE_CONFIG: "/no/such.yml" } }),
    /WEIGHBRIDGE_CONFIG \(environment\).*"\/no\/such\.yml", but ENOENT/,
  );
});

test("refuses a section without a file", () => {
  assert.match(problemOf({ commandLine: { section: "w0" } }), /--section \(command line\): expected a config file/);
});

test("what a command prefers is weaker than everything that is said, and stronger than the defaults", () => {
  const defaults = { schedulerPort: 9800, logLevel: "warn" } as const;
  const { schedulerPort: _, ...counts } = BASE;
  assert.equal(load({ options: counts, defaults }).schedulerPort, 9800);
  assert.equal(load({ options: counts, defaults }).logLevel, "warn");
  assert.equal(load({ options: counts, defaults, env: { DMLC_PS_ROOT_PORT: "9900" } }).schedulerPort, 9900);
  const file = { path: "a.yaml", text: "schedulerPort: 9901" };
  assert.equal(load({ options: counts, defaults, file }).schedulerPort, 9901);
});

test("a script that is run by itself is told what starts a cluster for it; a node that knows its role is not", () => {
  const hint = /weighbridge launch .* -- script\.ts.*EmbeddedCluster/;
  assert.throws(() => loadConfig({}), hint);
  assert.throws(
    () => loadConfig({ options: { role: "server" } }),
    (error: Error) => !hint.test(error.message),
  );
});

test("refuses an arena that is smaller than links need or larger than WebAssembly can address, before anything starts", () => {
  for (const arenaBytesMax of [2 ** 20, 2 ** 33]) {
    assert.match(problemOf({ options: { ...BASE, arenaBytesMax } }), /arenaBytesMax \(option\): expected .* from 8388608 to 4294967296/);
  }
});

test("a list of schedulers gives the host and the port that nodes look at first, and all addresses", () => {
  const base = { role: "worker", serverCount: 1, workerCount: 1 } as const;
  const config = loadConfig({ options: base, env: { WEIGHBRIDGE_SCHEDULERS: "a.example:9700, [::1]:9701" } });
  assert.deepEqual([config.schedulers, config.schedulerHost, config.schedulerPort], ["a.example:9700,[::1]:9701", "a.example", 9700]);
  assert.deepEqual(schedulerAddresses(config), ["tcp://a.example:9700", "tcp://[::1]:9701"]);
  const file = { path: "cluster.yaml", text: "schedulers: [a:1, b:2]\n" };
  assert.equal(loadConfig({ options: base, file }).schedulers, "a:1,b:2");
  assert.equal(loadConfig({ options: base, commandLine: { schedulers: "a:1,b:2" } }).schedulerPort, 1);
  const scheduler = loadConfig({ options: { ...base, role: "scheduler", schedulerHost: "b", schedulers: "a:1,b:1" } });
  assert.deepEqual([scheduler.host, scheduler.listenPort, schedulerAddresses(scheduler)], ["b", 1, ["tcp://b:1"]]);
});

test("a list of schedulers that is none, or that its nodes cannot use, is refused", () => {
  const base = { role: "worker", serverCount: 1, workerCount: 1, schedulerPort: 1 } as const;
  for (const schedulers of ["a", "a:0", "a:70000", "a:1,", "a:1,a:1", "::1:9", "tcp://a:1", "a:1;b:2"])
    assert.throws(() => loadConfig({ options: { ...base, schedulers } }), throwsCode("BAD_CONFIG", /hosts with ports/), schedulers);
  for (const other of [{ transport: "unix" }, { van: "zmq" }] as const)
    assert.throws(() => loadConfig({ options: { ...base, ...other, schedulers: "a:1" } }), throwsCode("BAD_CONFIG", /one scheduler/));
});

test("members of etcd are URLs, and a scheduler that uses them has a job with a name", () => {
  const base = { role: "scheduler", serverCount: 1, workerCount: 1, schedulerPort: 1, job: "mnist" } as const;
  assert.equal(loadConfig({ options: { ...base, etcd: "http://a:2379/, https://b" } }).etcd, "http://a:2379,https://b");
  for (const etcd of ["a:2379", "http://a:2379/v3", "http://u:p@a", "http://a,http://a", "ftp://a", "http://"])
    assert.throws(() => loadConfig({ options: { ...base, etcd } }), throwsCode("BAD_CONFIG", /URLs such as/), etcd);
  assert.throws(
    () => loadConfig({ options: { ...base, job: undefined, etcd: "http://a" } }),
    throwsCode("BAD_CONFIG", /a job with a name.*--job/s),
  );
  assert.equal(loadConfig({ options: { ...base, role: "worker", job: undefined, etcd: "http://a" } }).etcd, "http://a", "of no effect");
});

test("what is suspicious is printed once by a process, however often it loads the configuration", async () => {
  const printed: string[] = [];
  const listen = ({ message }: Error): void => void printed.push(message);
  process.on("warning", listen);
  const options = { ...BASE, role: "worker", faults: { dropPercent: 3 }, resendTimeoutMs: 0 } as const;
  for (let i = 0; i < 3; i++) loadConfig({ options });
  await new Promise(setImmediate); // a warning of the process comes later
  process.off("warning", listen);
  assert.equal(printed.filter((message) => message.startsWith("faults.dropPercent is 3")).length, 1);
});
