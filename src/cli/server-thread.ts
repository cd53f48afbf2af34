// server-thread — one of the built-in servers, on a thread of its own (node/launcher/server-threads.ts).

import { loadNodeConfig } from "../node/cannot-start.ts";
import { runServer } from "../node/run-server.ts";

await runServer(await loadNodeConfig({ env: process.env }), process.argv.slice(2).map(Number));
