// manage-routes — what each path of the scheduler's HTTP server answers (manage-server.ts): MindSpore's bodies and
// words, and what they mean here. Differences from MindSpore: docs/compatibility.md.

import { WeighbridgeError } from "../base/errors.ts";
import type { ManagedJob } from "../scheduler/scheduler-node.ts";
import type { StatusReply } from "../wire/control.ts";
import { count, list, object, optional, text } from "../wire/json-body.ts";
import { nameOf } from "../wire/node-id.ts";
import type { ScalingDirection, ScalingReport } from "../wire/scaling.ts";

export const GET_ROUTES: Readonly<Record<string, (job: ManagedJob) => unknown>> = {
  "/status": (job) => ({ ...job.status(), scaling: job.scaling.report() }),
  "/nodes": (job) => nodes(job.status()),
  "/state": (job) => state(job.status(), job.scaling.report()),
};

/** `body` is what JSON gave. Throws BAD_REQUEST, and as Scaling does. */
export const POST_ROUTES: Readonly<Record<string, (job: ManagedJob, body: unknown) => Promise<unknown>>> = {
  "/scaleout": async (job, body) => begun("out", await job.scaling.ask(scaleOut(body))),
  "/scalein": async (job, body) => begun("in", await job.scaling.ask({ leave: leaving(job.status(), body) })),
  "/scaleoutRollback": async (job) => rolledBack("out", await job.scaling.rollBack("out")),
  "/scaleinRollback": async (job) => rolledBack("in", await job.scaling.rollBack("in")),
};

function begun(direction: ScalingDirection, number: number): unknown {
  return { message: `Cluster begin to scale ${direction}.`, code: "0", number };
}

function rolledBack(direction: ScalingDirection, number: number): unknown {
  return { message: `Cluster scale ${direction} rollback success.`, code: "0", number };
}

const scaleOutShape = object({ worker_num: optional(count), server_num: count, timeout_ms: optional(count) });

function scaleOut(body: unknown): { readonly add: number; readonly timeoutMs?: number } {
  requireOnly(body, ["worker_num", "server_num", "timeout_ms"]);
  const { worker_num: workers = 0, server_num: add, timeout_ms: timeoutMs } = scaleOutShape(body, "the body");
  if (workers > 0)
    throw new WeighbridgeError("UNSUPPORTED", `worker_num is 0, not ${workers}: workers join a running job by themselves when they start`);
  return { add, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}

const scaleInShape = object({ node_ids: list(text) });

/** The ranks of the servers with these ids, as /nodes has them, or names such as "server 2". Throws BAD_REQUEST. */
function leaving({ nodes: known }: StatusReply, body: unknown): readonly number[] {
  requireOnly(body, ["node_ids"]);
  const { node_ids: ids } = scaleInShape(body, "the body");
  return ids.map((id) => {
    const found = known.filter(({ node, label }) => label === id || nameOf(node) === id);
    const [one, other] = found;
    if (one === undefined) throw new WeighbridgeError("BAD_REQUEST", `there is no node ${JSON.stringify(id)}; GET /nodes lists them`);
    if (other !== undefined)
      throw new WeighbridgeError(
        "BAD_REQUEST",
        `${JSON.stringify(id)} is ${found.map(({ node }) => nameOf(node)).join(" and ")}: use that name`,
      );
    if (one.role !== "server")
      throw new WeighbridgeError("BAD_REQUEST", `${JSON.stringify(id)} is ${nameOf(one.node)}, and only servers are scaled in`);
    return one.rank;
  });
}

/** A misspelt field must not be taken for one that was left out. */
function requireOnly(body: unknown, names: readonly string[]): void {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return; // the shape says it
  const unknown = Object.keys(body).find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw new WeighbridgeError("BAD_REQUEST", `the body has ${names.join(", ")}, and no ${JSON.stringify(unknown)}`);
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

function state({ phase, nodes: seated }: StatusReply, { current }: ScalingReport): unknown {
  const isMissed = seated.some(({ state: nodeState }) => nodeState === "dead");
  const scaling = { out: "CLUSTER_SCALE_OUT", in: "CLUSTER_SCALE_IN" };
  const running = isMissed ? "NODE_TIMEOUT" : current === undefined ? "CLUSTER_READY" : scaling[current.direction];
  const words = { forming: "CLUSTER_STARTING", running, failed: "CLUSTER_EXIT" };
  return { message: "Get cluster state successful.", cluster_state: words[phase], code: "0" };
}
