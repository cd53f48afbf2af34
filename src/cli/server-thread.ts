// server-thread — one of the servers built in, on a thread of its own (node/launcher/server-threads.ts).

import { runServer } from "../node/built-in.ts";
import { loadNodeConfig } from "../node/cannot-start.ts";

await runServer(await loadNodeConfig({ env: process.env }), process.argv.slice(2).map(Number));
