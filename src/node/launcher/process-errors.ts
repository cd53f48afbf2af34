// process-errors — how an error ends a process: the line that a terminal shows, and the exit code, which is 2 if the
// configuration or the command line has to be changed and 1 for everything else.

import { writeSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { scriptPlace } from "./script-place.ts";
import { tellSourceLines } from "./source-lines.ts";

export const FAILED_EXIT_CODE = 1;
export const USAGE_EXIT_CODE = 2;

/** By shape, because the script may have loaded another copy of the package. */
export type OurError = Error & { readonly name: "WeighbridgeError"; readonly code: string };

export function isOurs(thrown: unknown): thrown is OurError {
  return thrown instanceof Error && thrown.name === "WeighbridgeError" && typeof (thrown as { code?: unknown }).code === "string";
}

/** A line of ours, as a launcher reads it. */
export const OUR_LINE: RegExp = /^(?:\[[^\]]*\] )?weighbridge: /;

export function errorText({ code, message }: OurError): string {
  return `weighbridge: ${code}: ${message}`;
}

/** Mistakes in configurations that the cluster finds when its nodes meet. */
const MISTAKES: ReadonlySet<string> = new Set(["BAD_CONFIG", "COUNT_MISMATCH", "PORT_IN_USE", "RANK_TAKEN"]);
/** The system's word for a host name that does not exist. */
const NO_SUCH_HOST = "ENOTFOUND";

export function exitCodeFor(thrown: unknown): number {
  if (!isOurs(thrown)) return FAILED_EXIT_CODE;
  const isMistake = MISTAKES.has(thrown.code) || (thrown.code === "SCHEDULER_UNREACHABLE" && hasCause(thrown, NO_SUCH_HOST));
  return isMistake ? USAGE_EXIT_CODE : FAILED_EXIT_CODE;
}

/**
 * The exit code of a job that one of its processes ended. A user's program may mean something else by 2: only our own
 * line shows what ours means.
 */
export function jobExitCode({ exitCode, reason }: { readonly exitCode: number | null; readonly reason: string | undefined }): number {
  return exitCode === USAGE_EXIT_CODE && OUR_LINE.test(reason ?? "") ? USAGE_EXIT_CODE : FAILED_EXIT_CODE;
}

function hasCause(error: Error, code: string): boolean {
  for (let cause = error.cause; cause instanceof Error; cause = cause.cause) if ("code" in cause && cause.code === code) return true;
  return false;
}

/**
 * Ends the process on one of our uncaught errors with a line instead of a stack. The line ends with the place in the
 * script that the error came from; `withStack` prints the stack before it. A script that handles uncaught errors
 * itself, or logs at "debug", gets Node's output. The stack of any uncaught error leads to our sources. `layOut` breaks
 * the line.
 */
export function printErrorsInLines({
  withStack = false,
  layOut = (text) => text,
}: {
  readonly withStack?: boolean;
  readonly layOut?: (text: string) => string;
} = {}): void {
  process.on("uncaughtExceptionMonitor", (error: unknown) => {
    tellSourceLines(error);
    if (!isOurs(error) || process.env.WEIGHBRIDGE_LOG_LEVEL === "debug" || process.listenerCount("uncaughtException") > 0) return;
    writeSync(process.stderr.fd, `${withStack ? `${inspect(error)}\n` : ""}${layOut(placedText(error))}\n`);
    process.exit(exitCodeFor(error));
  });
}

/** With the place in the script: "weighbridge: VALUE_LENGTH: … (train.ts:6:11)". */
function placedText(error: OurError): string {
  const root = fileURLToPath(new URL(".", import.meta.resolve("weighbridge/package.json")));
  const place = scriptPlace(error.stack ?? "", { root, cwd: process.cwd() });
  return place === undefined ? errorText(error) : `${errorText(error)} (${place})`;
}
