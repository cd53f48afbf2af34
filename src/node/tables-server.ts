// tables-server — the server of a process of a host map, on a thread of its own (tables-hosts.ts). Its directory is for
// the snapshots that the program asks for: none is taken at the end.

import { ServerNode } from "../server/server-node.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import { runServer } from "./run-server.ts";

await runServer(await loadNodeConfig({ env: process.env }), [], (node) => {
  if (node instanceof ServerNode) node.beforeEnd = async () => {};
});
