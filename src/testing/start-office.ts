// start-office — starts a node of any role in this process, with a Postoffice over it, for clusters of tests. A process
// that is one node loads that role alone (node/start.ts).

import { assert } from "../base/assert.ts";
import type { NodeOptions } from "../cluster/node-options.ts";
import { type OfficeNode, Postoffice } from "../faces/kv/postoffice.ts";
import { SchedulerNode, type SchedulerNodeOptions } from "../scheduler/scheduler-node.ts";
import { ServerNode, type ServerNodeOptions } from "../server/server-node.ts";
import type { Role } from "../wire/node-id.ts";
import type { WorkerMesh } from "../worker/worker-mesh.ts";
import { WorkerNode, type WorkerNodeOptions } from "../worker/worker-node.ts";
import { sessionServices } from "./session-services.ts";

/** The role, and what its node is started with; what belongs to another role is ignored. */
export type OfficeOptions = NodeOptions & { readonly role: Role } & Partial<WorkerNodeOptions & ServerNodeOptions & SchedulerNodeOptions>;

export async function startOffice(options: OfficeOptions): Promise<Postoffice> {
  const office = new Postoffice(nodeOf(options));
  await office.node.start();
  return office;
}

function nodeOf(options: OfficeOptions): OfficeNode {
  switch (options.role) {
    case "worker":
    case "guest":
      return new WorkerNode({
        sessions: sessionServices,
        ...options,
        isGuest: options.role === "guest",
      });
    case "server":
    case "standby":
      return new ServerNode({ ...options, isStandby: options.role === "standby" });
    case "scheduler":
      return new SchedulerNode(options);
  }
}

/** The links of a worker with the others. */
export function meshOf({ node }: Postoffice): WorkerMesh {
  assert(node instanceof WorkerNode && node.mesh !== undefined, "a worker that has registered has a mesh");
  return node.mesh;
}
