// tables-server — the server of a process of a host map, on a thread of its own (tables-hosts.ts).

import { loadNodeConfig } from "./cannot-start.ts";
import { runServer } from "./run-server.ts";

await runServer(await loadNodeConfig({ env: process.env }), []);
