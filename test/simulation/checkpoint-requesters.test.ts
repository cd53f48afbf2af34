// Goal: whoever asks for a checkpoint and goes away, or asks servers that have lost something, leaves the others free
// to take theirs, and the checkpoints that there are as they were.

import assert from "node:assert/strict";
import { test } from "node:test";
import { restoreCheckpoint, takeCheckpoint } from "../../src/api/checkpoint.ts";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { type ClusterRequest, withServers } from "../../src/cli/cluster-client.ts";
import { checkpointActivate, checkpointDiscard, checkpointLoad, checkpointSave } from "../../src/contracts/checkpoints.ts";
import type { Contract } from "../../src/contracts/contract.ts";
import { parameterClear } from "../../src/contracts/parameters.ts";
import { relayCall } from "../../src/contracts/tools.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { FileLayer } from "../../src/node/checkpoint/file-layer.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import type { Fields, FieldValues } from "../../src/wire/function-schema.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { systemError } from "../support/checkpoint-files.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

const ROOT = "/checkpoints";
const createdAt = new Date(0).toISOString();

let clusterCount = 0;

class Stage {
  readonly disk: SimDisk;
  readonly cluster: SimCluster = new SimCluster({
    seed: ++clusterCount,
    serverCount: 2,
    workerCount: 2,
    settle: SETTLING,
    optionsOf: () => ({ checkpointFiles: new ServerFiles(ROOT, this.faulty({ ...this.disk.mount(this.cluster.clock, 2).layer })) }),
  });
  sessions: readonly Session[] = [];
  /** What becomes of the servers' file layers. */
  faulty: (layer: FileLayer) => FileLayer = (layer) => layer;

  constructor(disk: SimDisk = new SimDisk(new Random(1), ROOT)) {
    this.disk = disk;
  }

  async start(): Promise<void> {
    await this.open();
    for (const session of this.sessions) await this.run(session.tensor("w", { shape: [4], optimizer: "sum" }));
  }

  /** Without a parameter. */
  async open(): Promise<void> {
    await this.cluster.start();
    this.sessions = await this.run(Promise.all([0, 1].map((rank) => Session.open(this.cluster.worker(rank).node))));
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.cluster.run(promise);
  }

  session(rank: number): Session {
    const session = this.sessions[rank];
    assert.ok(session !== undefined);
    return session;
  }

  clockAll(): void {
    for (const session of this.sessions) session.clock();
  }

  async sleep(ms: number): Promise<void> {
    await this.run(new Promise<void>((wake) => this.cluster.clock.after(ms, wake)));
  }

  /** What lies where checkpoints are, without the random ends of names. */
  async names(): Promise<string[]> {
    const names = await this.disk.mount(this.cluster.clock, 0).layer.list(ROOT);
    return names.map((name) => name.replace(/-[0-9a-f]{12}$/, "")).sort();
  }

  commandLine(host: string): ClusterRequest {
    const { clock, network } = this.cluster;
    const waits = { findMs: 10_000, timeoutMs: 600_000 };
    return {
      command: "checkpoint save",
      targets: [{ kind: "named", addresses: ["sim://scheduler:1"] }],
      ...waits,
      transport: network.host(host),
      clock,
    };
  }
}

test("a worker that only uses the kv face is not waited for: what it has pushed is cut where it is", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  const cluster: SimCluster = new SimCluster({
    ...{ seed: ++clusterCount, serverCount: 2, workerCount: 2, settle: SETTLING },
    optionsOf: (node) =>
      node === idOf("worker", 1) ? { sessions: undefined } : { checkpointFiles: new ServerFiles(ROOT, disk.mount(cluster.clock, 2).layer) },
  });
  await cluster.start();
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 0);
  const kv = new KVWorker(cluster.worker(1), 0);
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const tensor = await cluster.run(session.tensor("w", { shape: [4], optimizer: "sum", consistency: "bsp" }));
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(1n, 2n ** 63n), Float32Array.of(3, 4))));
  for (let clock = 0; clock < 3; clock++) {
    await cluster.run(tensor.push(new Float32Array(4).fill(1)));
    session.clock();
  }
  const saved = await cluster.run(session.checkpoint({ timeoutMs: 5000 }).saved);
  assert.equal(saved.clock, 3);
  cluster.kill(idOf("server", 1)); // the next one hears of it, too
  await cluster.run(cluster.startNode(idOf("server", 1)));
  await cluster.clock.advance(1000);
  session.clock();
  assert.equal(await cluster.run(session.call(checkpointSave.survey, { server: 1 }, {}).then(({ clockMin }) => clockMin)), 4);
  await cluster.run(session.close({ barrier: false }));
});

test("the DEADLINE of a checkpoint names who is waited for", async () => {
  const stage = new Stage();
  await stage.cluster.start();
  const session = await stage.run(Session.open(stage.cluster.worker(0).node));
  session.clock();
  const late = throwsCode("DEADLINE", /it waits for the slowest to reach clock 1: 1 of 2 workers have not joined: worker 1/);
  await stage.run(assert.rejects(session.checkpoint({ timeoutMs: 500 }).saved, late));
  await stage.run(Session.open(stage.cluster.worker(1).node));
  const behind = throwsCode("DEADLINE", /it waits for the slowest to reach clock 1: worker 1 at clock 0/);
  await stage.run(assert.rejects(session.checkpoint({ timeoutMs: 500 }).saved, behind));
});

test("a worker's second checkpoint while its first is being taken is QUEUE_FULL, and the first is saved", async () => {
  const stage = new Stage();
  await stage.start();
  const first = stage.session(0).checkpoint().saved;
  await stage.run(assert.rejects(stage.session(0).checkpoint().saved, throwsCode("QUEUE_FULL", /this worker is taking a checkpoint/)));
  assert.equal((await stage.run(first)).clock, 0);
  stage.clockAll();
  assert.equal((await stage.run(stage.session(0).checkpoint().saved)).clock, 1);
  await stage.cluster.finalize();
});

test("a command line that is killed while it waits for a clock, or after the cut, keeps nobody from taking a checkpoint", async () => {
  for (const whenKilled of ["waiting", "frozen"] as const) {
    const stage = new Stage();
    await stage.start();
    const clock = whenKilled === "waiting" ? 5 : 0;
    let isFrozen = false;
    const onCut = (): void => {
      isFrozen = true;
      stage.cluster.network.crash("command-line");
    };
    const doomed = withServers(stage.commandLine("command-line"), (servers) => takeCheckpoint(servers, { createdAt, clock, onCut }));
    doomed.catch(() => {}); // it was killed: nobody hears of it
    await stage.sleep(500);
    if (whenKilled === "waiting") {
      await stage.run(assert.rejects(stage.session(0).checkpoint().saved, throwsCode("QUEUE_FULL", /the command line .* is taking/)));
      stage.cluster.network.crash("command-line");
    }
    assert.equal(isFrozen, whenKilled === "frozen");
    await stage.sleep(500);
    assert.equal((await stage.run(stage.session(0).checkpoint().saved)).clock, 0, whenKilled);
    assert.deepEqual(await stage.names(), ["latest", "step-000000"]);
  }
});

test("a command line that is silent for the heartbeat timeout keeps nobody from taking a checkpoint any longer (Tools.T2)", async () => {
  const stage = new Stage();
  await stage.start();
  const doomed = withServers(stage.commandLine("command-line"), (servers) => takeCheckpoint(servers, { createdAt, clock: 5 }));
  doomed.catch(() => {}); // it is never heard of again
  await stage.sleep(500);
  stage.cluster.network.isolate("command-line"); // its links stay open
  await stage.sleep(500);
  await stage.run(assert.rejects(stage.session(0).checkpoint().saved, throwsCode("QUEUE_FULL", /the command line .* is taking/)));
  await stage.sleep(5000);
  assert.equal((await stage.run(stage.session(0).checkpoint().saved)).clock, 0);
  assert.deepEqual(await stage.names(), ["latest", "step-000000"]);
});

test("a command line whose call comes when its server is known to be dead is told at once, and does not wait for it", async () => {
  const stage = new Stage();
  await stage.start();
  const calls = withServers({ ...stage.commandLine("command-line"), timeoutMs: undefined }, async (servers) => {
    await servers.call(0, checkpointSave.survey, {});
    stage.cluster.kill(idOf("server", 0));
    // When it is found out.
    await assert.rejects(servers.call(0, checkpointSave.survey, {}), throwsCode("NODE_DEAD", /server 0 is dead/));
    await assert.rejects(
      servers.call(0, checkpointSave.abandon, { id: "", pending: undefined }),
      throwsCode("NODE_DEAD", /server 0 is dead/),
    );
  });
  await stage.run(calls);
});

test("two command lines at one time: the second is told, and the first gets what it asked for", async () => {
  const stage = new Stage();
  await stage.start();
  const take = (host: string, clock: number) =>
    withServers(stage.commandLine(host), (servers) => takeCheckpoint(servers, { createdAt, clock }));
  const first = take("one", 1);
  await stage.sleep(300);
  await stage.run(assert.rejects(take("two", 1), throwsCode("QUEUE_FULL", /the command line .* is taking/)));
  stage.clockAll();
  assert.equal((await stage.run(first)).clock, 1);
  await stage.cluster.finalize();
});

test("a worker that gives up waiting for its checkpoint leaves nothing behind, wherever it was", async () => {
  const stage = new Stage();
  await stage.start();
  await stage.run(stage.session(0).checkpoint().saved);
  for (const timeoutMs of [1, 2, 3, 5, 8, 13, 21, 34]) {
    await stage.run(stage.session(0).checkpoint({ timeoutMs }).saved).catch((error: unknown) => {
      assert.ok(isWeighbridgeError(error, "DEADLINE"), String(error));
    });
    await stage.sleep(200);
    assert.deepEqual(
      (await stage.names()).filter((name) => name.includes("pending")),
      [],
      `given up after ${timeoutMs} ms`,
    );
    const { path } = await stage.run(stage.session(1).checkpoint().saved);
    assert.match(path, /step-\d+$/, "another worker may take one at once");
  }
  await stage.cluster.finalize();
});

test("no checkpoint is taken of servers of which one has lost its parameters, and those that there are stay", async () => {
  const stage = new Stage();
  await stage.start();
  await stage.run(stage.session(0).checkpoint().saved);
  const victim = idOf("server", 1);
  stage.cluster.kill(victim);
  await stage.run(stage.cluster.startNode(victim));
  await stage.sleep(500);
  await stage.run(stage.session(0).rejoin());
  await stage.run(stage.session(1).rejoin());
  await stage.run(
    assert.rejects(
      stage.session(0).checkpoint({ keep: 1 }).saved,
      throwsCode("UNKNOWN_PARAMETER", /server 1 does not have "w", which server 0 has; it was restarted/),
    ),
  );
  assert.deepEqual(await stage.names(), ["latest", "step-000000"]);
});

/** One key, which lies on server 0, as most small keys do. */
async function pushSums(stage: Stage): Promise<void> {
  for (const rank of [0, 1]) new KVServer(stage.cluster.server(rank), 0);
  const kv = new KVWorker(stage.cluster.worker(0), 0);
  await stage.run(kv.wait(kv.push(BigUint64Array.of(1n, 2n ** 64n - 1n), Float32Array.of(3, 4)))); // of both servers
  await stage.sleep(10);
}

async function restart(stage: Stage, node: number): Promise<void> {
  stage.cluster.kill(node);
  await stage.run(stage.cluster.startNode(node));
  await stage.sleep(500);
}

test("no checkpoint is taken after a server was restarted without the sums that it held, also behind a new scheduler", async () => {
  for (const isSchedulerNew of [false, true]) {
    const stage = new Stage();
    await stage.open();
    await pushSums(stage);
    await stage.run(stage.session(0).checkpoint().saved);
    if (isSchedulerNew) {
      await restart(stage, SCHEDULER_ID);
      await stage.sleep(3000);
    }
    await restart(stage, idOf("server", 0));
    for (const rank of [0, 1]) {
      await stage.run(stage.session(rank).rejoin());
      await stage.run(
        assert.rejects(
          stage.session(rank).checkpoint({ keep: 1 }).saved,
          throwsCode("UNKNOWN_PARAMETER", /server 0 was restarted \(incarnation 2\) without the sums of incarnation 1/),
        ),
      );
    }
    await restart(stage, idOf("server", 0));
    await stage.run(stage.session(1).rejoin());
    await stage.run(
      assert.rejects(stage.session(1).checkpoint().saved, throwsCode("UNKNOWN_PARAMETER", /incarnation 3\) without .* incarnation 1/)),
    );
    assert.deepEqual(await stage.names(), ["latest", "step-000000"]);
  }
});

test("a checkpoint without the sums of a server is refused by the name of that server, whichever it is", async () => {
  for (const rank of [0, 1]) {
    const stage = new Stage();
    await stage.open();
    await pushSums(stage);
    await restart(stage, idOf("server", rank));
    await stage.run(stage.session(0).rejoin());
    const refusal = new RegExp(
      `no checkpoint is taken: server ${rank} was restarted \\(incarnation 2\\) without the sums of incarnation 1`,
    );
    await stage.run(assert.rejects(stage.session(0).checkpoint().saved, throwsCode("UNKNOWN_PARAMETER", refusal)));
  }
});

test("a server that was restarted before there were sums, or was restored with them, takes part in checkpoints", async () => {
  const stage = new Stage();
  await stage.open();
  await restart(stage, idOf("server", 0));
  await pushSums(stage);
  for (const session of stage.sessions) await stage.run(session.rejoin());
  await stage.run(stage.session(0).checkpoint().saved);
  for (const rank of [0, 1]) await restart(stage, idOf("server", rank));
  for (const session of stage.sessions) await stage.run(session.rejoin());
  await stage.run(Promise.all(stage.sessions.map((session) => session.restore())));
  await stage.run(stage.session(0).checkpoint({ step: 7 }).saved);
  assert.ok((await stage.names()).includes("step-000007"));
});

test("a checkpoint is taken whether or not older ones can be removed, and says so", async () => {
  const stage = new Stage();
  stage.faulty = (layer) => ({
    ...layer,
    rename: async (from, to) => {
      if (to.includes(".removed-")) throw systemError("EPERM");
      await layer.rename(from, to);
    },
  });
  await stage.start();
  await stage.run(stage.session(0).checkpoint().saved);
  const { path, warning } = await stage.run(stage.session(0).checkpoint({ keep: 1 }).saved);
  assert.equal(path, `${ROOT}/step-000001`);
  assert.match(warning ?? "", /older checkpoints were to be removed: .*permission denied/);
  assert.deepEqual(await stage.names(), ["latest", "step-000000", "step-000001"]);
  await stage.cluster.finalize();
});

test("a worker that gives its restore up, or dies over it, takes nothing from one that has loaded the same", async () => {
  for (const how of ["gives up", "dies"] as const) {
    const first = new Stage();
    await first.start();
    const { step } = await first.run(first.session(0).checkpoint().saved);
    await first.cluster.finalize();
    const stage = new Stage(first.disk);
    await stage.open();
    const callBoth = async <Q extends Fields, R extends Fields>(
      rank: number,
      fn: Contract<Q, R>,
      request: FieldValues<Q>,
    ): Promise<void> => {
      for (const server of [0, 1]) await stage.run(stage.session(rank).call(fn, { server }, request));
    };
    await callBoth(0, checkpointLoad, { step: undefined });
    await callBoth(1, checkpointLoad, { step });
    if (how === "gives up") await callBoth(0, checkpointDiscard, {});
    else stage.cluster.kill(idOf("worker", 0));
    await stage.sleep(5000);
    await callBoth(1, checkpointActivate, { step });
    assert.deepEqual(
      (await stage.run(stage.session(1).parameters())).map(({ name }) => name),
      ["w"],
      how,
    );
  }
});

test("a restore reports whether the servers had restored that checkpoint before", async () => {
  const first = new Stage();
  await first.start();
  const { step } = await first.run(first.session(0).checkpoint().saved);
  await first.cluster.finalize();
  const stage = new Stage(first.disk);
  await stage.open();
  const restored = await stage.run(stage.session(0).restore());
  assert.deepEqual([restored.step, restored.wasRestored], [step, false]);
  const again = await stage.run(stage.session(1).restore({ step }));
  assert.deepEqual(again, { ...restored, wasRestored: true });
  const outside = await stage.run(withServers(stage.commandLine("command-line"), (servers) => restoreCheckpoint(servers)));
  assert.deepEqual(outside, again);
  await stage.cluster.finalize();
});

test("who is no node calls the functions of checkpoints through the scheduler, and no others", async () => {
  const stage = new Stage();
  await stage.start();
  const { survey } = checkpointSave;
  await stage.run(
    withServers(stage.commandLine("command-line"), async (servers) => {
      assert.deepEqual(await servers.call(1, survey, {}), { clockMin: 0, names: ["w"], gone: undefined, waits: "" });
      await assert.rejects(
        servers.call(0, parameterClear, { parameter: 1, edition: 0, pushNumber: 0 }),
        throwsCode("UNKNOWN_FUNCTION", /wb\/parameter\/clear cannot be called through/),
      );
      await assert.rejects(servers.call(2, survey, {}), throwsCode("NO_ROUTE", /no server 2 among 2/));
      await assert.rejects(servers.call(0, { ...survey, signatureHash: 7 }, {}), throwsCode("SPEC_MISMATCH", /wb\/checkpoint\/survey/));
    }),
  );
  const relayed = { server: 0, caller: "9", name: survey.name, signature: survey.signatureHash, request: new Uint8Array(0) };
  await stage.run(
    assert.rejects(
      stage.session(0).call(relayCall, { server: 0 }, relayed),
      throwsCode("BAD_REQUEST", /comes from the scheduler, not from worker 0/),
    ),
  );
  await stage.cluster.finalize();
});
