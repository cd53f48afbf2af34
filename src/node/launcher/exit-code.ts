// exit-code — with which code a process ends that threw: 2 when somebody has to change the configuration or the command line, at whatever point that was
// found out, and 1 for everything else.

import { isOurs, OUR_LINE } from "./error-text.ts";

export const FAILED_EXIT_CODE = 1;
export const USAGE_EXIT_CODE = 2;

/** What the configurations of nodes come to when they meet: found out by the cluster, and yet mistakes in a configuration. */
const MISTAKES: ReadonlySet<string> = new Set(["BAD_CONFIG", "COUNT_MISMATCH", "PORT_IN_USE", "RANK_TAKEN"]);
/** The system's word for a host name that does not exist. */
const NO_SUCH_HOST = "ENOTFOUND";

export function exitCodeFor(thrown: unknown): number {
  if (!isOurs(thrown)) return FAILED_EXIT_CODE;
  const isMistake = MISTAKES.has(thrown.code) || (thrown.code === "SCHEDULER_UNREACHABLE" && hasCause(thrown, NO_SUCH_HOST));
  return isMistake ? USAGE_EXIT_CODE : FAILED_EXIT_CODE;
}

/** The exit code of a job that one of its processes ended. A program of a user may mean something else by 2: only our own line says what ours means. */
export function jobExitCode({ exitCode, reason }: { readonly exitCode: number | null; readonly reason: string | undefined }): number {
  return exitCode === USAGE_EXIT_CODE && OUR_LINE.test(reason ?? "") ? USAGE_EXIT_CODE : FAILED_EXIT_CODE;
}

function hasCause(error: Error, code: string): boolean {
  for (let cause = error.cause; cause instanceof Error; cause = cause.cause) if ("code" in cause && cause.code === code) return true;
  return false;
}
