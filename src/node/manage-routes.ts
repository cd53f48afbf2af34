// manage-routes — what each path of the scheduler's HTTP server answers (manage-server.ts): MindSpore's bodies and
// words, and what they mean here. Differences from MindSpore: docs/compatibility.md.

import { badRequest } from "../base/errors.ts";
import type { ManagedJob } from "../scheduler/managed-job.ts";
import type { StatusReply } from "../wire/control.ts";
import { count, list, object, optional, text } from "../wire/json-body.ts";
import { nameOf } from "../wire/node-id.ts";
import { type RollBackReply, requestIdShape, type ScalingDirection, type ScalingReport } from "../wire/scaling.ts";

export const GET_ROUTES: Readonly<Record<string, (job: ManagedJob) => Promise<unknown>>> = {
  "/status": async (job) => {
    const [status, scaling] = await Promise.all([job.status(), job.scalingReport()]);
    return { ...status, scaling };
  },
  "/nodes": async (job) => nodes(await job.status()),
  "/state": async (job) => state(...(await Promise.all([job.status(), job.scalingReport()]))),
};

/** `body` is what JSON gave. Throws BAD_REQUEST, and as Scaling does. */
export const POST_ROUTES: Readonly<Record<string, (job: ManagedJob, body: unknown) => Promise<unknown>>> = {
  "/scaleout": async (job, body) => begun("out", await scaleOut(job, body)),
  "/scalein": async (job, body) => begun("in", await scaleIn(job, body)),
  "/scaleoutRollback": async (job) => rolledBack("out", await job.rollBack("out")),
  "/scaleinRollback": async (job) => rolledBack("in", await job.rollBack("in")),
};

/** `number`: of the change of the servers; undefined if only workers change. */
function begun(direction: ScalingDirection, number: number | undefined): unknown {
  return { message: `Cluster begin to scale ${direction}.`, code: "0", ...(number === undefined ? {} : { number }) };
}

function rolledBack(direction: ScalingDirection, { number }: RollBackReply): unknown {
  return { message: `Cluster scale ${direction} rollback success.`, code: "0", ...(number === undefined ? {} : { number }) };
}

const scaleOutShape = object({
  worker_num: optional(count),
  server_num: count,
  timeout_ms: optional(count),
  request_id: optional(requestIdShape),
});

async function scaleOut(job: ManagedJob, body: unknown): Promise<number | undefined> {
  requireOnly(body, ["worker_num", "server_num", "timeout_ms", "request_id"]);
  const { worker_num: workerCount = 0, server_num: serverCount, ...asked } = scaleOutShape(body, "the body");
  const { timeout_ms: timeoutMs, request_id: requestId } = asked;
  const areServers = serverCount > 0 || workerCount === 0; // a request for nothing is refused as one for no servers
  const how = { ...(timeoutMs === undefined ? {} : { timeoutMs }), ...(requestId === undefined ? {} : { requestId }) };
  return await job.change({
    ...(areServers ? { servers: { add: serverCount, ...how } } : {}),
    ...(workerCount > 0 ? { workers: { add: workerCount, ...how } } : {}),
  });
}

const scaleInShape = object({ node_ids: list(text) });

async function scaleIn(job: ManagedJob, body: unknown): Promise<number | undefined> {
  const { servers, workers } = leaving(await job.status(), body);
  return await job.change({
    ...(servers.length > 0 || workers.length === 0 ? { servers: { leave: servers } } : {}),
    ...(workers.length > 0 ? { workers: { leave: workers } } : {}),
  });
}

/** The ranks of the nodes with these ids, as /nodes has them, or names such as "server 2". Throws BAD_REQUEST. */
function leaving(
  { nodes: known }: StatusReply,
  body: unknown,
): { readonly servers: readonly number[]; readonly workers: readonly number[] } {
  requireOnly(body, ["node_ids"]);
  const { node_ids: ids } = scaleInShape(body, "the body");
  const named = ids.map((id) => {
    const found = known.filter(({ node, label }) => label === id || nameOf(node) === id);
    const [one, other] = found;
    if (one === undefined) throw badRequest(`there is no node ${JSON.stringify(id)}; GET /nodes lists them`);
    if (other !== undefined)
      throw badRequest(`${JSON.stringify(id)} is ${found.map(({ node }) => nameOf(node)).join(" and ")}: use that name`);
    if (one.role !== "server" && one.role !== "worker")
      throw badRequest(`${JSON.stringify(id)} is ${nameOf(one.node)}, and only servers and workers are scaled in`);
    return one;
  });
  const ranksOf = (role: string): number[] => named.filter((node) => node.role === role).map(({ rank }) => rank);
  return { servers: ranksOf("server"), workers: ranksOf("worker") };
}

/** A misspelt field must not be taken for one that was left out. */
function requireOnly(body: unknown, names: readonly string[]): void {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return; // the shape says it
  const unknown = Object.keys(body).find((name) => !names.includes(name));
  if (unknown !== undefined) throw badRequest(`the body has ${names.join(", ")}, and no ${JSON.stringify(unknown)}`);
}

/** Nodes that wait for a rank have none yet; slots that nobody has had are no nodes. */
function nodes({ nodes: registered, waiting }: StatusReply): unknown {
  const held = registered.filter(({ incarnation }) => incarnation > 0);
  const rows = [
    ...held.map(({ role, rank, label, state: nodeState }) => ({ role, rank: String(rank), label, isAlive: nodeState === "alive" })),
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

function state({ phase, nodes: registered }: StatusReply, { current, workers }: ScalingReport): unknown {
  const isMissed = registered.some(({ state: nodeState }) => nodeState === "dead");
  const scaling = { out: "CLUSTER_SCALE_OUT", in: "CLUSTER_SCALE_IN" };
  const ofWorkers = workers?.wishedCount === undefined ? undefined : workers.waitMs === undefined ? "in" : "out";
  const direction = current?.direction ?? ofWorkers;
  const running = isMissed ? "NODE_TIMEOUT" : direction === undefined ? "CLUSTER_READY" : scaling[direction];
  const words = { forming: "CLUSTER_STARTING", running, failed: "CLUSTER_EXIT" };
  return { message: "Get cluster state successful.", cluster_state: words[phase], code: "0" };
}
