// launched — loaded into every process of a job before its script (`node --import`): ends it when the launcher is gone, and tells of an
// error of ours in a line. It loads next to nothing, since every process of every job waits for it.
//
// The launcher holds the other end of the pipe WATCH_FD and never writes. However it ends, the system closes that end.

import { Socket } from "node:net";
import { isMainThread } from "node:worker_threads";
import { tellErrorsInLines } from "./tell-errors.ts";
import { GRACE_MS, WATCH_FD } from "./watch-pipe.ts";

if (isMainThread) {
  tellErrorsInLines();
  const pipe = new Socket({ fd: WATCH_FD, readable: true, writable: false });
  pipe.on("error", () => {}); // A broken pipe closes as well.
  pipe.on("close", endSoon);
  pipe.resume();
  pipe.unref();
}

/** As the launcher would end it: politely, then not. */
function endSoon(): void {
  setTimeout(() => process.kill(process.pid, "SIGKILL"), GRACE_MS).unref();
  process.kill(process.pid, "SIGTERM");
}
