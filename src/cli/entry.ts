// entry — runs the command in a process that has the right Node already; people start bin/weighbridge.mjs.

import { main } from "./main.ts";

const exitCode = await main(process.argv.slice(2));
if (exitCode !== 0) process.exitCode = exitCode; // A script may have set an exit code itself.
