// chatter — writes lines in pieces, so that they would mix if anybody let them. Asked to end, it says so.

import { setImmediate as turn } from "node:timers/promises";

process.once("SIGTERM", () => {
  console.error("asked to end");
  process.exit(143);
});
for (let line = 0; line < 200; line++) {
  process.stdout.write(`${line} `);
  for (let piece = 0; piece < 20; piece++) {
    process.stdout.write("ä".repeat(50));
    if (piece % 7 === 0) await turn();
  }
  process.stdout.write(".\n");
}
