// launched — loaded into every process of a job before its script (`node --import`): ends the process when the launcher
// is gone, and prints one of our errors as a line, with its stack if loaded as `launched?verbose`. It loads next to
// nothing, because every process of every job waits for it.

import { isMainThread } from "node:worker_threads";
import { watchLauncher } from "./launcher-pipe.ts";
import { printErrorsInLines } from "./process-errors.ts";

if (isMainThread) {
  printErrorsInLines({ withStack: new URL(import.meta.url).searchParams.has("verbose") });
  watchLauncher();
}
