// launched — loaded into every process of a job before its script (`node --import`): ends it when the launcher is gone,
// and tells of an error of ours in a line, with its stack when it is loaded as `launched?verbose`. It loads next to
// nothing, since every process of every job waits for it.

import { isMainThread } from "node:worker_threads";
import { watchLauncher } from "./launcher-pipe.ts";
import { printErrorsInLines } from "./process-errors.ts";

if (isMainThread) {
  printErrorsInLines({ withStack: new URL(import.meta.url).searchParams.has("verbose") });
  watchLauncher();
}
