// entry — runs the command in a process that was launched with the right Node; people come in by bin/weighbridge.mjs.

import { main } from "./main.ts";

const exitCode = await main(process.argv.slice(2));
if (exitCode !== 0) process.exitCode = exitCode; // A script may have set its own.
