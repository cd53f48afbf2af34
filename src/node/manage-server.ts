// manage-server — the scheduler's HTTP server, for scripts and people: which nodes are there, is the cluster complete,
// and changes of the number of servers, in MindSpore's words (manage-routes.ts). As MindSpore's, it listens on this
// machine only.
//
//   GET  /status             what `weighbridge status --json` shows
//   GET  /nodes              MindSpore's list of nodes       { message, code: "0", nodeIds: [{ nodeId, rankId, role,
//                                                            alive }] }
//   GET  /state              MindSpore's word for the phase  { message, code: "0", cluster_state }
//   POST /scaleout           { worker_num, server_num,       { message, code: "0", number }
//                              timeout_ms, request_id }
//   POST /scalein            { node_ids }                    { message, code: "0", number }
//   POST /scaleoutRollback, /scaleinRollback                 { message, code: "0", number }
//   otherwise           400, 403, 404, 405, 413, 415, 503    { error_message, code: "1", error }
//
// Invariants:
//   ManageServer.M1. What changes something is a POST of JSON, to a host that is this machine by its name: no page of a
//       browser can send that here from elsewhere, and no answer has a header that would let it.
//   ManageServer.M2. A body is at most BODY_BYTES_MAX long. A request that makes no sense changes nothing.
//   ManageServer.M3. What is answered is durable (ManagedJob.M1). A scheduler that cannot write answers that
//       (ManagedJob.M2).

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { badRequest, type ErrorCode, isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { ManagedJob } from "../scheduler/managed-job.ts";
import { GET_ROUTES, POST_ROUTES } from "./manage-routes.ts";

const LOOPBACK = "127.0.0.1";
/** A client that does not finish its request is cut off. */
const REQUEST_TIMEOUT_MS = 5000;
const BODY_BYTES_MAX = 64 * 1024;
/** The names of this machine, which a page from elsewhere does not have (ManageServer.M1). */
const OWN_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

export type ManageServer = {
  /** The bound port. */
  readonly port: number;
  close(): Promise<void>;
};

/** Serves until it is closed. Throws PORT_IN_USE when the port is taken. */
export async function serveManagement(port: number, job: ManagedJob): Promise<ManageServer> {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    answer(request, response, job).catch((thrown: unknown) => refuse(response, statusOf(thrown), thrown));
  });
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

async function answer(request: IncomingMessage, response: ServerResponse, job: ManagedJob): Promise<void> {
  const { method, url = "" } = request;
  const path = url.split("?", 1)[0] ?? "";
  const get = Object.hasOwn(GET_ROUTES, path) ? GET_ROUTES[path] : undefined;
  const post = Object.hasOwn(POST_ROUTES, path) ? POST_ROUTES[path] : undefined;
  if (get === undefined && post === undefined) {
    const paths = [...Object.keys(GET_ROUTES), ...Object.keys(POST_ROUTES)].join(", ");
    refuse(response, 404, `there is ${paths}, and no ${path}`);
  } else if (get !== undefined) {
    if (method === "GET") send(response, 200, await get(job));
    else refuse(response, 405, `${path} is for GET, not ${method}`);
  } else if (post !== undefined) {
    if (method !== "POST") refuse(response, 405, `${path} is for POST, not ${method}`);
    else if (!OWN_HOST.test(request.headers.host ?? "")) refuse(response, 403, `${path} is for this machine alone`);
    else if (!isJson(request)) refuse(response, 415, `${path} takes application/json`);
    else await change(request, response, (body) => post(job, body));
  }
}

/** ManageServer.M2 */
async function change(request: IncomingMessage, response: ServerResponse, act: (body: unknown) => Promise<unknown>): Promise<void> {
  const text = await bodyOf(request);
  if (text === undefined) {
    refuse(response, 413, `a body has at most ${BODY_BYTES_MAX} bytes`);
    return;
  }
  let body: unknown;
  try {
    body = text.trim() === "" ? {} : JSON.parse(text);
  } catch (thrown) {
    refuse(response, 400, badRequest(`the body is not JSON: ${reasonOf(thrown)}`));
    return;
  }
  send(response, 200, await act(body));
}

/** Undefined if it is too long. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let byteCount = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    byteCount += chunk.length;
    if (byteCount <= BODY_BYTES_MAX) chunks.push(chunk); // the rest is read and dropped, so that the answer arrives
  }
  return byteCount > BODY_BYTES_MAX ? undefined : Buffer.concat(chunks).toString("utf8");
}

function isJson({ headers }: IncomingMessage): boolean {
  return (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() === "application/json";
}

/** Not the caller's fault: the scheduler cannot write its state, was replaced, or ends. */
const OUR_FAULTS: readonly ErrorCode[] = ["CLOSED", "DEADLINE", "FENCED", "STATE_HELD", "STATE_IO"];

/** As MindSpore, whatever the caller got wrong is 400. */
function statusOf(thrown: unknown): number {
  if (!isWeighbridgeError(thrown)) return 500;
  return OUR_FAULTS.includes(thrown.code) ? 503 : 400;
}

function refuse(response: ServerResponse, status: number, problem: unknown): void {
  const error: ErrorCode = isWeighbridgeError(problem) ? problem.code : status === 500 ? "HANDLER_FAILED" : "BAD_REQUEST";
  if (!response.headersSent) send(response, status, { error_message: reasonOf(problem), code: "1", error });
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" });
  response.end(`${JSON.stringify(body)}\n`);
}

function cannotListen(port: number, thrown: unknown): WeighbridgeError {
  const isTaken = (thrown as NodeJS.ErrnoException).code === "EADDRINUSE";
  const reason = isTaken ? "it is taken; stop the process that listens there, or choose another port" : reasonOf(thrown);
  const where = `cannot listen on http://${LOOPBACK}:${port} (managePort, --manage-port, MS_SCHED_MANAGE_PORT)`;
  return new WeighbridgeError(isTaken ? "PORT_IN_USE" : "BAD_CONFIG", `${where}: ${reason}`, { cause: thrown });
}
