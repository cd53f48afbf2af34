// tell-errors — an uncaught error of ours ends the process with a line instead of a stack.

import { writeSync } from "node:fs";
import { inspect } from "node:util";
import { errorText, isOurs } from "./error-text.ts";
import { exitCodeFor } from "./exit-code.ts";

/** A script that handles its errors itself, or asks for details, gets what Node does. `withStack` tells the stack as well, before the line. */
export function tellErrorsInLines({ withStack = false }: { readonly withStack?: boolean } = {}): void {
  process.on("uncaughtExceptionMonitor", (error: unknown) => {
    if (!isOurs(error) || process.env.WEIGHBRIDGE_LOG_LEVEL === "debug" || process.listenerCount("uncaughtException") > 0) return;
    writeSync(process.stderr.fd, `${withStack ? `${inspect(error)}\n` : ""}${errorText(error)}\n`);
    process.exit(exitCodeFor(error));
  });
}
