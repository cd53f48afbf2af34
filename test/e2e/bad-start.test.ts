// bad-start — Goal: a cluster that was set up wrongly ends on every process, with an error that names the culprit and
// the fix.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { suite, test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Processes, type Running, script } from "./processes.ts";

const START_TIMEOUT_MS = 20_000;

type Node = readonly (string | number)[];

/** Starts nodes that all know of this port. */
async function startAll(processes: Processes, nodes: readonly Node[], env: Record<string, string> = {}): Promise<Running[]> {
  const port = await freePort("127.0.0.1");
  const flags = ["--scheduler-port", port, "--start-timeout", `${START_TIMEOUT_MS}ms`];
  return nodes.map(([role, ...rest]) =>
    processes.weighbridge([role as string, ...flags, ...rest, ...(role === "worker" ? [script("pusher")] : [])], { env }),
  );
}

async function allFail(nodes: readonly Running[], message: RegExp): Promise<void> {
  for (const node of nodes) {
    await node.fails(message);
    assert.doesNotMatch(node.stderr, /\n {4}at /, `${node.name} shows a stack`);
  }
}

async function allRefuse(nodes: readonly Running[], message: RegExp): Promise<void> {
  for (const node of nodes) {
    await node.refuses(message);
    assert.doesNotMatch(node.stderr, /\n {4}at /, `${node.name} shows a stack`);
  }
}

// Two at a time: they mostly wait.
suite("bad start", { concurrency: 2 }, () => {
  test("two nodes with one rank", async () => {
    await using processes = new Processes();
    const counts = ["-s", 2, "-w", 1];
    const nodes = await startAll(processes, [
      ["scheduler", ...counts],
      ["server", ...counts, "--rank", 0, "--node-id", "alpha"],
      ["server", ...counts, "--rank", 0, "--node-id", "beta"],
      ["worker", ...counts],
    ]);
    await allRefuse(
      nodes,
      /^weighbridge: RANK_TAKEN: (the scheduler: )?"(alpha|beta)" and "(alpha|beta)" both ask to be server 0; .*--rank/m,
    );
  });

  test("counts that disagree between nodes", async () => {
    await using processes = new Processes();
    const nodes = await startAll(processes, [
      ["scheduler", "-s", 1, "-w", 2],
      ["server", "-s", 1, "-w", 2],
      ["worker", "-s", 1, "-w", 2],
      ["worker", "-s", 1, "-w", 3, "--node-id", "gamma"],
    ]);
    await allRefuse(
      nodes,
      /^weighbridge: COUNT_MISMATCH: (the scheduler: )?worker \("gamma"\) was started for 1 server and 3 workers, but the scheduler/m,
    );
  });

  test("a node that never comes", async () => {
    await using processes = new Processes();
    const flags = ["-s", 1, "-w", 2, "--start-timeout", "2000ms"];
    const nodes = await startAll(processes, [
      ["scheduler", ...flags],
      ["server", ...flags],
      ["worker", ...flags],
    ]);
    await allFail(nodes, /^weighbridge: DEADLINE: (the scheduler: )?the cluster was not complete after 2000 ms: .*[01] of 2 workers/m);
  });

  test("no scheduler there", async () => {
    await using processes = new Processes();
    const flags = ["-s", 1, "-w", 1, "--start-timeout", "500ms"];
    const nodes = await startAll(processes, [
      ["server", ...flags],
      ["worker", ...flags],
    ]);
    await allFail(nodes, /^weighbridge: SCHEDULER_UNREACHABLE: no scheduler at tcp:\/\/127\.0\.0\.1:\d+ after 500 ms .*ECONNREFUSED/m);
  });

  test("a port in use, and somebody else listening there", async () => {
    await using stranger = await listening();
    const { port } = stranger.server.address() as AddressInfo;
    await using processes = new Processes();
    const flags = ["-s", 1, "-w", 1, "--scheduler-port", port, "--start-timeout", "1500ms"];
    const scheduler = processes.weighbridge(["scheduler", ...flags]);
    const server = processes.weighbridge(["server", ...flags]);
    const worker = processes.weighbridge(["worker", ...flags, script("pusher")]);
    const job = processes.weighbridge(["launch", ...flags, "--", script("member")]);
    const taken = new RegExp(`^weighbridge: PORT_IN_USE: cannot listen on tcp://127\\.0\\.0\\.1:${port}: it is taken; .*another port`, "m");
    await scheduler.refuses(taken);
    assert.equal(scheduler.stdout, "", "it does not say that it waits there");
    for (const node of [server, worker]) await node.fails(new RegExp(`^weighbridge: [A-Z_]+: .*tcp://127\\.0\\.0\\.1:${port}`, "m"));
    await job.refuses(taken); // by the launcher itself: its nodes would talk to the stranger
  });

  test("a server's own port in use", async () => {
    await using stranger = await listening();
    const { port } = stranger.server.address() as AddressInfo;
    await using processes = new Processes();
    const counts = ["-s", 2, "-w", 1];
    const [server, ...others] = await startAll(processes, [
      ["server", ...counts, "--listen-port", port, "--node-id", "alpha"],
      ["scheduler", ...counts],
      ["server", ...counts],
      ["worker", ...counts],
    ]);
    const taken = `cannot listen on tcp://127\\.0\\.0\\.1:${port}: it is taken; .*another port`;
    await server?.refuses(new RegExp(`^weighbridge: PORT_IN_USE: ${taken}`, "m"));
    await allRefuse(
      others,
      new RegExp(`^weighbridge: PORT_IN_USE: (the scheduler: )?server \\("alpha"\\) cannot take part: ${taken}`, "m"),
    );
  });

  test("a host name that does not exist, and an address of another machine", async () => {
    await using processes = new Processes();
    const flags = ["-s", 1, "-w", 1, "--scheduler-port", 9700, "--start-timeout", "500ms"];
    const nameless = processes.weighbridge(["scheduler", ...flags, "--scheduler-host", "nobody.invalid"]);
    // A job of its own: two schedulers of one job would share their state.
    const elsewhere = processes.weighbridge(["scheduler", ...flags, "--job", "elsewhere", "--host", "192.0.2.1"]);
    const lost = processes.weighbridge(["worker", ...flags, "--scheduler-host", "nobody.invalid", script("pusher")]);
    await nameless.refuses(/^weighbridge: BAD_CONFIG: cannot listen on tcp:\/\/nobody\.invalid:9700: the host name/m);
    await elsewhere.refuses(
      /^weighbridge: BAD_CONFIG: cannot listen on tcp:\/\/192\.0\.2\.1:9700: the host is not an address of this machine/m,
    );
    await lost.refuses(/^weighbridge: SCHEDULER_UNREACHABLE: no scheduler at tcp:\/\/nobody\.invalid:9700 after 500 ms .*the host name/m);
  });

  test("an unknown key, on every process and in every place", async () => {
    await using processes = new Processes();
    const counts = ["-s", 1, "-w", 1];
    const nodes = await startAll(
      processes,
      [["scheduler", ...counts], ["server", ...counts], ["worker", ...counts], ["status"]].slice(0, 3),
      {
        WEIGHBRIDGE_HEARTBEAT_TIMEOUT: "1000",
      },
    );
    const job = processes.weighbridge(["launch", ...counts, "--", script("member")], { env: { DMLC_NUM_SERVERS: "1" } });
    await allRefuse(
      nodes,
      /BAD_CONFIG: .*\n {2}1\. WEIGHBRIDGE_HEARTBEAT_TIMEOUT \(environment\): .*did you mean WEIGHBRIDGE_HEARTBEAT_TIMEOUT_MS\?/,
    );
    await allRefuse([job], /BAD_CONFIG: .*\n {2}1\. DMLC_NUM_SERVERS \(environment\): .*did you mean DMLC_NUM_SERVER\?/);
  });

  test("a script that is not there, which the others hear of at once", async () => {
    await using processes = new Processes();
    const flags = ["-s", 1, "-w", 1, "--scheduler-port", await freePort("127.0.0.1"), "--start-timeout", `${START_TIMEOUT_MS}ms`];
    const others = ["scheduler", "server"].map((role) => processes.weighbridge([role, ...flags]));
    const worker = processes.weighbridge(["worker", ...flags, "--node-id", "gamma", "no-such-script.ts"]);
    await worker.refuses(/^weighbridge: BAD_CONFIG: there is no script no-such-script\.ts/m);
    await allRefuse(
      others,
      /^weighbridge: BAD_CONFIG: (the scheduler: )?worker \("gamma"\) cannot take part: there is no script no-such-script\.ts/m,
    );
  });

  test("a launch without servers", async () => {
    await using processes = new Processes();
    const job = processes.weighbridge(["launch", "-s", 0, "-w", 1, "--", script("member")]);
    await job.refuses(/^weighbridge: BAD_CONFIG: a launch needs at least 1 server, .* not 0: set --servers/m);
    assert.equal(job.stdout, "", "nothing was started");
  });

  test("a missing value, on every process", async () => {
    await using processes = new Processes();
    const nodes = await startAll(processes, [
      ["scheduler", "-w", 1],
      ["server", "-w", 1],
      ["worker", "-w", 1],
      ["launch", "-s", 1],
    ]);
    const launched = nodes.pop() as Running;
    await allRefuse(
      nodes,
      /BAD_CONFIG: 1 problem .*\n {2}1\. serverCount \(required\): .*set --servers, WEIGHBRIDGE_SERVER_COUNT, DMLC_NUM_SERVER/,
    );
    const missing =
      /BAD_CONFIG: 1 problem .*\n {2}1\. workerCount \(required\): .*set --workers, WEIGHBRIDGE_WORKER_COUNT, DMLC_NUM_WORKER/;
    await allRefuse([launched], missing);
  });
});

async function listening(): Promise<AsyncDisposable & { readonly server: Server }> {
  const server = createServer((socket) => void socket.on("error", () => {}).resume());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    server,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}
