// manage-server — the scheduler's HTTP server, for scripts and people: which nodes are there, and is the cluster
// complete. As MindSpore's, it listens on this machine only, and it only reads: no request changes the job.
//
//   GET /status   what `weighbridge status` shows, as JSON
//   GET /nodes    MindSpore's list of nodes       { message, code: "0", nodeIds: [{ nodeId, rankId, role, alive }] }
//   GET /state    MindSpore's word for the phase  { message, code: "0", cluster_state }
//   otherwise     404 or 405                      { error_message, code: "1" }

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { StatusReply } from "../wire/control.ts";

const LOOPBACK = "127.0.0.1";
/** A client that does not finish its request is cut off. */
const REQUEST_TIMEOUT_MS = 5000;

export type ManageServer = {
  /** The bound port. */
  readonly port: number;
  close(): Promise<void>;
};

/** Serves until it is closed. Throws PORT_IN_USE when the port is taken. */
export async function serveManagement(port: number, status: () => StatusReply): Promise<ManageServer> {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS }, (request, response) =>
    answer(request, response, status),
  );
  try {
    server.listen(port, LOOPBACK);
    await once(server, "listening");
  } catch (thrown) {
    throw cannotListen(port, thrown);
  }
  return {
    port: (server.address() as AddressInfo).port, // It listens on TCP, so it has a port.
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

const ROUTES: Readonly<Record<string, (status: StatusReply) => unknown>> = {
  "/status": (status) => status,
  "/nodes": nodes,
  "/state": state,
};

function answer({ method, url = "" }: IncomingMessage, response: ServerResponse, status: () => StatusReply): void {
  const path = url.split("?", 1)[0] ?? "";
  const route = Object.hasOwn(ROUTES, path) ? ROUTES[path] : undefined;
  if (route === undefined) send(response, 404, { error_message: `there is ${Object.keys(ROUTES).join(", ")}, and no ${path}`, code: "1" });
  else if (method !== "GET") send(response, 405, { error_message: `${path} is for GET, not ${method}`, code: "1" });
  else send(response, 200, route(status()));
}

function send(response: ServerResponse, code: number, body: unknown): void {
  response.writeHead(code, { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" });
  response.end(`${JSON.stringify(body)}\n`);
}

/** Nodes that wait for a rank have none yet. */
function nodes({ nodes: seated, waiting }: StatusReply): unknown {
  const rows = [
    ...seated.map(({ role, rank, label, state: nodeState }) => ({ role, rank: String(rank), label, isAlive: nodeState === "alive" })),
    ...waiting.map(({ role, rank, label }) => ({ role, rank: rank === undefined ? "" : String(rank), label, isAlive: true })),
    { role: "scheduler", rank: "0", label: "scheduler", isAlive: true },
  ];
  const nodeIds = rows.map(({ role, rank, label, isAlive }) => ({
    nodeId: label,
    rankId: rank,
    role: role.toUpperCase(),
    alive: String(isAlive),
  }));
  return { message: "Get nodes info successful.", code: "0", nodeIds };
}

function state({ phase, nodes: seated }: StatusReply): unknown {
  const isMissed = seated.some(({ state: nodeState }) => nodeState === "dead");
  const words = { forming: "CLUSTER_STARTING", running: isMissed ? "NODE_TIMEOUT" : "CLUSTER_READY", failed: "CLUSTER_EXIT" };
  return { message: "Get cluster state successful.", cluster_state: words[phase], code: "0" };
}

function cannotListen(port: number, thrown: unknown): WeighbridgeError {
  const isTaken = (thrown as NodeJS.ErrnoException).code === "EADDRINUSE";
  const reason = isTaken ? "it is taken; stop the process that listens there, or choose another port" : reasonOf(thrown);
  const where = `cannot listen on http://${LOOPBACK}:${port} (managePort, --manage-port, MS_SCHED_MANAGE_PORT)`;
  return new WeighbridgeError(isTaken ? "PORT_IN_USE" : "BAD_CONFIG", `${where}: ${reason}`, { cause: thrown });
}
