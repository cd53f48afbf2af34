// process-errors — how an error ends a process: which line of ours a terminal shows, and the exit code, which is 2 when
// somebody has to change the configuration or the command line and 1 for everything else.

import { writeSync } from "node:fs";
import { inspect } from "node:util";

export const FAILED_EXIT_CODE = 1;
export const USAGE_EXIT_CODE = 2;

/** By shape, as the script may have loaded another copy of the package. */
export type OurError = Error & { readonly name: "WeighbridgeError"; readonly code: string };

export function isOurs(thrown: unknown): thrown is OurError {
  return thrown instanceof Error && thrown.name === "WeighbridgeError" && typeof (thrown as { code?: unknown }).code === "string";
}

/** A line of ours, as a launcher reads it. */
export const OUR_LINE: RegExp = /^(?:\[[^\]]*\] )?weighbridge: /;

export function errorText({ code, message }: OurError): string {
  return `weighbridge: ${code}: ${message}`;
}

/**
 * What the configurations of nodes come to when they meet: found out by the cluster, and yet mistakes in a
 * configuration.
 */
const MISTAKES: ReadonlySet<string> = new Set(["BAD_CONFIG", "COUNT_MISMATCH", "PORT_IN_USE", "RANK_TAKEN"]);
/** The system's word for a host name that does not exist. */
const NO_SUCH_HOST = "ENOTFOUND";

export function exitCodeFor(thrown: unknown): number {
  if (!isOurs(thrown)) return FAILED_EXIT_CODE;
  const isMistake = MISTAKES.has(thrown.code) || (thrown.code === "SCHEDULER_UNREACHABLE" && hasCause(thrown, NO_SUCH_HOST));
  return isMistake ? USAGE_EXIT_CODE : FAILED_EXIT_CODE;
}

/**
 * The exit code of a job that one of its processes ended. A program of a user may mean something else by 2: only our
 * own line says what ours means.
 */
export function jobExitCode({ exitCode, reason }: { readonly exitCode: number | null; readonly reason: string | undefined }): number {
  return exitCode === USAGE_EXIT_CODE && OUR_LINE.test(reason ?? "") ? USAGE_EXIT_CODE : FAILED_EXIT_CODE;
}

function hasCause(error: Error, code: string): boolean {
  for (let cause = error.cause; cause instanceof Error; cause = cause.cause) if ("code" in cause && cause.code === code) return true;
  return false;
}

/**
 * A script that handles its errors itself, or asks for details, gets what Node does. An uncaught error of ours ends the
 * process with a line instead of a stack; `withStack` prints the stack before the line.
 */
export function printErrorsInLines({ withStack = false }: { readonly withStack?: boolean } = {}): void {
  process.on("uncaughtExceptionMonitor", (error: unknown) => {
    if (!isOurs(error) || process.env.WEIGHBRIDGE_LOG_LEVEL === "debug" || process.listenerCount("uncaughtException") > 0) return;
    writeSync(process.stderr.fd, `${withStack ? `${inspect(error)}\n` : ""}${errorText(error)}\n`);
    process.exit(exitCodeFor(error));
  });
}
