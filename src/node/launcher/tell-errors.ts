// tell-errors — an uncaught error of ours ends the process with a line instead of a stack.

import { writeSync } from "node:fs";
import { errorText, isOurs } from "./error-text.ts";
import { exitCodeFor } from "./exit-code.ts";

/** A script that handles its errors itself, or asks for details, gets what Node does. */
export function tellErrorsInLines(): void {
  process.on("uncaughtExceptionMonitor", (error: unknown) => {
    if (!isOurs(error) || process.env.WEIGHBRIDGE_LOG_LEVEL === "debug" || process.listenerCount("uncaughtException") > 0) return;
    writeSync(process.stderr.fd, `${errorText(error)}\n`);
    process.exit(exitCodeFor(error));
  });
}
