// no-other-application — what the built-in server and scheduler say to a request of a kv application that they do not
// have: a program for every role was started in workers alone.

import type { ClusterNode } from "../cluster/cluster-node.ts";
import { simpleRequest } from "../contracts/kv.ts";
import { AppRegistry } from "../peer/app-registry.ts";

const SCRIPT = "a script with a KVServer or SimpleApp of its own runs on all nodes with weighbridge launch --all-roles";

/** Of a server that serves these. */
export function whyNoOther(appIds: readonly number[]): string {
  const served = appIds.length === 0 ? "no application" : `application ${appIds.join(", ")} alone`;
  return `and none comes: the built-in server serves ${served}; ${SCRIPT}; weighbridge server --apps names other applications that it sums`;
}

/** The built-in scheduler refuses every application. Call it before the node starts: requests may arrive at once. */
export function refuseApplications(node: ClusterNode): void {
  const none = new AppRegistry({ clock: node.clock });
  none.complete(`and none comes: the built-in scheduler serves no application; ${SCRIPT}`);
  node.peer.serveFrames(simpleRequest, none);
}
