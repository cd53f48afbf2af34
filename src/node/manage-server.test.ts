// manage-server.test — Goal: the scheduler's HTTP tells who is there in MindSpore's words and in ours, changes the
// servers when it is asked rightly, and whoever misuses it gets an answer.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { JobChange } from "../scheduler/known-requests.ts";
import type { ManagedJob } from "../scheduler/managed-job.ts";
import type { StatusReply } from "../wire/control.ts";
import { idOf } from "../wire/node-id.ts";
import type { RollBackReply, ScalingReport } from "../wire/scaling.ts";
import { loadConfig } from "./config/config.ts";
import { freePort } from "./launcher/free-port.ts";
import { serveManagement } from "./manage-server.ts";
import { startNode } from "./start.ts";

const SERVER = { node: 8, role: "server", rank: 0, address: "tcp://192.0.2.1:7000", incarnation: 1, label: "a:1" } as const;
const STATUS: StatusReply = {
  job: "job-1",
  phase: "running",
  serverCount: 1,
  workerCount: 1,
  uptimeMs: 5,
  nodes: [{ ...SERVER, state: "alive", heartbeatAgeMs: 3, linked: true }],
  waiting: [{ role: "worker", rank: undefined, address: "", label: "b:2" }],
};

const REPORT: ScalingReport = { wishedCount: 1, shares: [{ rank: 0, parts: 4096 }], queued: [], ended: [] };

/** A job that takes every change, and keeps what was asked for. */
function jobOf(
  status: () => StatusReply = () => STATUS,
  report: () => ScalingReport = () => REPORT,
): ManagedJob & { readonly asked: unknown[] } {
  const asked: unknown[] = [];
  const note = async (what: unknown): Promise<number> => asked.push(what);
  const rollBack = async (direction?: string): Promise<RollBackReply> => ({ number: await note(direction) });
  const change = async (what: JobChange): Promise<number | undefined> => {
    const number = await note(what);
    return what.servers === undefined ? undefined : number;
  };
  return { status: async () => status(), scalingReport: async () => report(), change, rollBack, asked };
}

async function get(port: number, path: string, method = "GET"): Promise<{ readonly code: number; readonly body: unknown }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
  return { code: response.status, body: await response.json() };
}

test("/status is our own reply; /nodes and /state are MindSpore's, for every phase", async () => {
  let status: StatusReply = STATUS;
  const server = await serveManagement(
    0,
    jobOf(() => status),
  );
  try {
    assert.deepEqual((await get(server.port, "/status")).body, JSON.parse(JSON.stringify({ ...STATUS, scaling: REPORT })));
    assert.deepEqual(await get(server.port, "/nodes?x=1"), {
      code: 200,
      body: {
        message: "Get nodes info successful.",
        code: "0",
        nodeIds: [
          { nodeId: "a:1", rankId: "0", role: "SERVER", alive: "true" },
          { nodeId: "b:2", rankId: "", role: "WORKER", alive: "true" },
          { nodeId: "scheduler", rankId: "0", role: "SCHEDULER", alive: "true" },
        ],
      },
    });
    const dead: StatusReply = { ...STATUS, nodes: [{ ...SERVER, state: "dead", heartbeatAgeMs: 3, linked: false }] };
    for (const [next, word] of [
      [STATUS, "CLUSTER_READY"],
      [{ ...STATUS, phase: "forming" }, "CLUSTER_STARTING"],
      [{ ...STATUS, phase: "failed" }, "CLUSTER_EXIT"],
      [dead, "NODE_TIMEOUT"],
    ] as const) {
      status = next;
      const { body } = await get(server.port, "/state");
      assert.deepEqual(body, { message: "Get cluster state successful.", cluster_state: word, code: "0" });
    }
  } finally {
    await server.close();
  }
});

test("of a replicated server that comes, /status has the free slot of its standby and whom the change waits for; /nodes has nodes alone", async () => {
  const free = { ...SERVER, node: 102, role: "standby", state: "left", incarnation: 0, label: "", linked: false } as const;
  const status: StatusReply = { ...STATUS, replicas: 2, nodes: [...STATUS.nodes, { ...free, heartbeatAgeMs: undefined }], waiting: [] };
  const change = { number: 1, direction: "out", step: "waiting", from: [], to: [0], awaited: [], awaitedStandbys: [0] } as const;
  const report: ScalingReport = { ...REPORT, current: { ...change, fillingStandbys: [], waitMs: 5 } };
  const server = await serveManagement(
    0,
    jobOf(
      () => status,
      () => report,
    ),
  );
  try {
    const { body } = await get(server.port, "/status");
    assert.deepEqual(body, JSON.parse(JSON.stringify({ ...status, scaling: report })));
    const { nodeIds } = (await get(server.port, "/nodes")).body as { readonly nodeIds: readonly { readonly nodeId: string }[] };
    assert.deepEqual(
      nodeIds.map(({ nodeId }) => nodeId),
      ["a:1", "scheduler"],
    );
  } finally {
    await server.close();
  }
});

type Post = { readonly body?: string; readonly headers?: Readonly<Record<string, string>>; readonly method?: string };

async function post(port: number, path: string, { body = "", headers = {}, method = "POST" }: Post = {}): Promise<unknown> {
  const type = { "content-type": "application/json" };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { ...type, ...headers }, body });
  assert.equal(response.headers.get("access-control-allow-origin"), null);
  return { code: response.status, body: await response.json() };
}

test("changes of the servers and workers are asked for in MindSpore's bodies, and answered in its words", async () => {
  const [server0] = STATUS.nodes;
  const job = jobOf(() => ({ ...STATUS, nodes: [server0!, { ...server0!, node: 11, role: "worker", rank: 1, label: "c:3" }] }));
  const server = await serveManagement(0, job);
  const words = async (path: string, body: string): Promise<unknown> => {
    const reply = (await post(server.port, path, { body })) as { code: number; body: { message: string; code: string; number: number } };
    assert.deepEqual([reply.code, reply.body.code, reply.body.number], [200, "0", job.asked.length]);
    return reply.body.message;
  };
  try {
    assert.equal(await words("/scaleout", '{"worker_num": 0, "server_num": 2}'), "Cluster begin to scale out.");
    assert.equal(await words("/scaleout", '{"server_num": 1, "timeout_ms": 5000}'), "Cluster begin to scale out.");
    assert.equal(await words("/scalein", '{"node_ids": ["a:1"]}'), "Cluster begin to scale in."); // rank 0 may leave
    assert.equal(await words("/scalein", '{"node_ids": ["server 0"]}'), "Cluster begin to scale in.");
    assert.equal(await words("/scaleoutRollback", ""), "Cluster scale out rollback success.");
    assert.equal(await words("/scaleinRollback", "{}"), "Cluster scale in rollback success.");
    const servers = [{ add: 2 }, { add: 1, timeoutMs: 5000 }, { leave: [0] }, { leave: [0] }].map((one) => ({ servers: one }));
    assert.deepEqual(job.asked.splice(0), [...servers, "out", "in"]);
    const reply = await post(server.port, "/scaleout", { body: '{"worker_num": 2, "server_num": 0}' });
    assert.deepEqual(reply, { code: 200, body: { message: "Cluster begin to scale out.", code: "0" } });
    await post(server.port, "/scaleout", { body: '{"worker_num": 1, "server_num": 1, "timeout_ms": 5000}' });
    await post(server.port, "/scalein", { body: '{"node_ids": ["worker 1", "server 0"]}' });
    await post(server.port, "/scaleout", { body: '{"server_num": 1, "request_id": "a"}' });
    const more = { add: 1, timeoutMs: 5000 };
    const both = [
      { servers: more, workers: more },
      { servers: { leave: [0] }, workers: { leave: [1] } },
      { servers: { add: 1, requestId: "a" } },
    ];
    assert.deepEqual(job.asked, [{ workers: { add: 2 } }, ...both], "workers, too");
  } finally {
    await server.close();
  }
});

test("/state has MindSpore's words for a change under way", async () => {
  for (const direction of ["out", "in"] as const) {
    const current = { number: 1, direction, step: "moving", from: [0], to: [0, 1], awaited: [] } as const;
    const server = await serveManagement(
      0,
      jobOf(undefined, () => ({ ...REPORT, current })),
    );
    try {
      const { body } = await get(server.port, "/state");
      assert.equal((body as { cluster_state: string }).cluster_state, `CLUSTER_SCALE_${direction.toUpperCase()}`);
    } finally {
      await server.close();
    }
  }
});

test("/state has them for workers that are waited for, and for workers that leave", async () => {
  const workers = { presentCount: 2, wishedCount: 3, leaving: [], countMin: 2, countMax: 5 };
  for (const [report, word] of [
    [{ ...workers, waitMs: 5000 }, "CLUSTER_SCALE_OUT"],
    [{ ...workers, wishedCount: 2, leaving: [2] }, "CLUSTER_SCALE_IN"],
    [{ ...workers, wishedCount: undefined }, "CLUSTER_READY"],
  ] as const) {
    const server = await serveManagement(
      0,
      jobOf(undefined, () => ({ ...REPORT, workers: report })),
    );
    try {
      const { body } = await get(server.port, "/state");
      assert.equal((body as { cluster_state: string }).cluster_state, word);
    } finally {
      await server.close();
    }
  }
});

test("what is not there, makes no sense or comes from elsewhere is refused in words, and changes nothing", async () => {
  const job = jobOf();
  const server = await serveManagement(0, job);
  const { port } = server;
  const refused = async (path: string, how: Post, code: number, message: RegExp): Promise<void> => {
    const reply = (await post(port, path, how)) as { code: number; body: { error_message: string; code: string; error: string } };
    assert.deepEqual([reply.code, reply.body.code, reply.body.error], [code, "1", "BAD_REQUEST"], path);
    assert.match(reply.body.error_message, message);
  };
  try {
    await refused("/scale", {}, 404, /there is \/status, .*\/scaleinRollback, and no \/scale$/);
    await refused("/__proto__", {}, 404, /no \/__proto__/);
    assert.deepEqual(await get(port, "/nodes", "DELETE"), {
      code: 405,
      body: { error_message: "/nodes is for GET, not DELETE", code: "1", error: "BAD_REQUEST" },
    });
    assert.equal((await get(port, "/scaleout")).code, 405);
    assert.equal((await get(port, "/scaleout", "OPTIONS")).code, 405); // a page's question before a POST of JSON
    const body = '{"worker_num": 0, "server_num": 2}';
    await refused("/scaleout", { body, headers: { "content-type": "text/plain" } }, 415, /application\/json/);
    await refused("/scaleout", { body: '{"server_num": 2' }, 400, /not JSON/);
    await refused("/scaleout", { body: "[2]" }, 400, /the body must be an object, but is a list/);
    await refused("/scaleout", { body: "" }, 400, /server_num must be a whole number from 0 up, but is left out/);
    await refused("/scaleout", { body: '{"server_num": -1}' }, 400, /server_num must be a whole number/);
    await refused("/scaleout", { body: '{"server_num": 1.5}' }, 400, /server_num must be a whole number/);
    await refused("/scaleout", { body: '{"server_num": 1, "server_nun": 1}' }, 400, /no "server_nun"/);
    await refused("/scalein", { body: '{"node_ids": "a:1"}' }, 400, /node_ids must be a list/);
    await refused("/scalein", { body: '{"node_ids": ["z:9"]}' }, 400, /there is no node "z:9"; GET \/nodes lists them/);
    await refused("/scalein", { body: `{"node_ids": ["${"x".repeat(70_000)}"]}` }, 413, /at most 65536 bytes/);
    assert.deepEqual(job.asked, []);
  } finally {
    await server.close();
  }
});

test("a page that reaches this machine under another name is refused", async () => {
  const job = jobOf();
  const server = await serveManagement(0, job);
  const body = '{"server_num": 2}';
  const lines = ["POST /scaleout HTTP/1.1", "Host: page.example", "Content-Type: application/json", `Content-Length: ${body.length}`];
  const socket = connect(server.port, "127.0.0.1");
  socket.end(`${lines.join("\r\n")}\r\nConnection: close\r\n\r\n${body}`);
  let reply = "";
  for await (const chunk of socket) reply += String(chunk);
  assert.match(reply, /^HTTP\/1\.1 403 /);
  assert.deepEqual(job.asked, []);
  await server.close();
});

test("two nodes of one id, and a standby's id, are no server's", async () => {
  const [node] = STATUS.nodes;
  assert.ok(node !== undefined);
  const nodes = [node, { ...node, node: 10, rank: 1 }, { ...node, node: idOf("standby", 0), role: "standby" as const, label: "b:2" }];
  const server = await serveManagement(
    0,
    jobOf(() => ({ ...STATUS, nodes })),
  );
  const message = async (id: string): Promise<string> => {
    const reply = (await post(server.port, "/scalein", { body: JSON.stringify({ node_ids: [id] }) })) as {
      body: { error_message: string };
    };
    return reply.body.error_message;
  };
  try {
    assert.equal(await message("a:1"), '"a:1" is server 0 and server 1: use that name');
    assert.match(await message("b:2"), /^"b:2" is .*, and only servers and workers are scaled in$/);
  } finally {
    await server.close();
  }
});

test("what the scheduler refuses has its code, and what is not the caller's fault is 503", async () => {
  const job = jobOf();
  for (const [code, status] of [
    ["UNSUPPORTED", 400],
    ["STATE_IO", 503],
    ["DEADLINE", 503],
  ] as const) {
    const refusal = async (): Promise<never> => {
      throw new WeighbridgeError(code, "not now");
    };
    const server = await serveManagement(0, { ...job, change: refusal, status: refusal });
    try {
      const answer = { code: status, body: { error_message: "not now", code: "1", error: code } };
      assert.deepEqual(await post(server.port, "/scaleout", { body: '{"server_num": 2}' }), answer);
      assert.deepEqual(await get(server.port, "/nodes"), answer);
    } finally {
      await server.close();
    }
  }
});

test("a client that says nothing, or nonsense, keeps nobody from being answered, nor the server from closing", async () => {
  const server = await serveManagement(0, jobOf());
  const silent = connect(server.port, "127.0.0.1");
  const rude = connect(server.port, "127.0.0.1");
  for (const socket of [silent, rude]) socket.on("error", () => {});
  rude.write("\0\x01\x02 nonsense\r\n\r\n");
  assert.equal((await get(server.port, "/state")).code, 200);
  await server.close();
});

test("a port in use is named with what sets it", async () => {
  const server = await serveManagement(0, jobOf());
  try {
    await assert.rejects(serveManagement(server.port, jobOf()), (error) => {
      assert.ok(isWeighbridgeError(error, "PORT_IN_USE"));
      assert.match(
        error.message,
        new RegExp(`127\\.0\\.0\\.1:${server.port} \\(managePort, --manage-port, MS_SCHED_MANAGE_PORT\\): it is taken`),
      );
      return true;
    });
  } finally {
    await server.close();
  }
});

test("MS_SCHED_MANAGE_PORT opens it on the scheduler, from before the cluster is complete until the end; a port in use ends the start of all", async () => {
  const [port, managePort] = await Promise.all([freePort("127.0.0.1"), freePort("127.0.0.1")]);
  const env = {
    MS_SCHED_HOST: "127.0.0.1",
    MS_SCHED_PORT: `${port}`,
    MS_SERVER_NUM: "1",
    MS_WORKER_NUM: "0",
    WEIGHBRIDGE_SERVE: "off", // a job without workers would serve until it is told to end
    WEIGHBRIDGE_LOG_LEVEL: "silent",
  };
  const node = async (role: string) =>
    await startNode(loadConfig({ env: { ...env, MS_ROLE: role, MS_SCHED_MANAGE_PORT: `${managePort}` } }));
  const starting = node("MS_SCHED");
  for (;;) {
    const state = await get(managePort, "/state").catch(() => undefined);
    if (state === undefined) continue; // not there yet
    assert.deepEqual((state.body as { cluster_state: string }).cluster_state, "CLUSTER_STARTING");
    break;
  }
  const offices = await Promise.all([starting, node("MS_PSERVER")]);
  assert.deepEqual((await get(managePort, "/state")).body, {
    message: "Get cluster state successful.",
    cluster_state: "CLUSTER_READY",
    code: "0",
  });
  await Promise.all(offices.map((office) => office.finalize()));
  await assert.rejects(get(managePort, "/state"));

  const taken = await serveManagement(managePort, jobOf());
  try {
    const outcomes = await Promise.allSettled([node("MS_SCHED"), node("MS_PSERVER")]);
    for (const outcome of outcomes) {
      assert.ok(outcome.status === "rejected" && isWeighbridgeError(outcome.reason, "PORT_IN_USE"), JSON.stringify(outcome));
      assert.match(outcome.reason.message, /managePort/);
    }
  } finally {
    await taken.close();
  }
});
