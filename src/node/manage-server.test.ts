// manage-server.test — Goal: the scheduler's HTTP tells who is there in MindSpore's words and in ours, changes nothing,
// and whoever misuses it gets an answer.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import type { StatusReply } from "../wire/control.ts";
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

async function get(port: number, path: string, method = "GET"): Promise<{ readonly code: number; readonly body: unknown }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
  return { code: response.status, body: await response.json() };
}

test("/status is our own reply; /nodes and /state are MindSpore's, for every phase", async () => {
  let status: StatusReply = STATUS;
  const server = await serveManagement(0, () => status);
  try {
    assert.deepEqual((await get(server.port, "/status")).body, JSON.parse(JSON.stringify(STATUS)));
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

test("what is not there, and what would change something, is refused in words", async () => {
  const server = await serveManagement(0, () => STATUS);
  try {
    assert.deepEqual(await get(server.port, "/scaleout", "POST"), {
      code: 404,
      body: { error_message: "there is /status, /nodes, /state, and no /scaleout", code: "1" },
    });
    assert.equal((await get(server.port, "/__proto__")).code, 404);
    assert.deepEqual(await get(server.port, "/nodes", "DELETE"), {
      code: 405,
      body: { error_message: "/nodes is for GET, not DELETE", code: "1" },
    });
  } finally {
    await server.close();
  }
});

test("a client that says nothing, or nonsense, keeps nobody from being answered, nor the server from closing", async () => {
  const server = await serveManagement(0, () => STATUS);
  const silent = connect(server.port, "127.0.0.1");
  const rude = connect(server.port, "127.0.0.1");
  for (const socket of [silent, rude]) socket.on("error", () => {});
  rude.write("\0\x01\x02 nonsense\r\n\r\n");
  assert.equal((await get(server.port, "/state")).code, 200);
  await server.close();
});

test("a port in use is named with what sets it", async () => {
  const server = await serveManagement(0, () => STATUS);
  try {
    await assert.rejects(
      serveManagement(server.port, () => STATUS),
      (error) => {
        assert.ok(isWeighbridgeError(error, "PORT_IN_USE"));
        assert.match(
          error.message,
          new RegExp(`127\\.0\\.0\\.1:${server.port} \\(managePort, --manage-port, MS_SCHED_MANAGE_PORT\\): it is taken`),
        );
        return true;
      },
    );
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

  const taken = await serveManagement(managePort, () => STATUS);
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
