// launched — loaded into every process of a job before its script (`node --import`): ends the process when the launcher
// is gone, and prints one of our errors as a line, with its stack if loaded as `launched?verbose`; `launched?restart`
// says that the launcher starts processes again. A scheduler is recorded as the last job of its directory. It loads
// next to nothing, because every process of every job waits for it.

import { isMainThread } from "node:worker_threads";
import { recordScheduler } from "../last-job.ts";
import { watchLauncher } from "./launcher-pipe.ts";
import { printErrorsInLines } from "./process-errors.ts";

if (isMainThread) {
  const { searchParams } = new URL(import.meta.url);
  printErrorsInLines({ withStack: searchParams.has("verbose") });
  recordScheduler({ launcher: process.ppid });
  watchLauncher({ isRestarting: searchParams.has("restart") });
}
