// launcher-pipe — a launched process's end of the pipe WATCH_FD. The launcher holds the other end: what it writes is why the job ends, a line; and
// however it ends itself, the system closes that end.

import { Socket } from "node:net";
import { LineStream } from "./line-stream.ts";
import { GRACE_MS, WATCH_FD } from "./watch-pipe.ts";

export type LauncherWatch = {
  /** Why the job ends, shortly before this process gets SIGTERM. */
  readonly onWord?: (reason: string) => void;
  /** The launcher is gone. By default the process ends as the launcher would end it: politely, then not. */
  readonly onGone?: () => void;
};

/** Does not keep the process alive. */
export function watchLauncher({ onWord = () => {}, onGone = endSoon }: LauncherWatch = {}): void {
  const pipe = new Socket({ fd: WATCH_FD, readable: true, writable: false });
  pipe.on("error", () => {}); // A broken pipe closes as well.
  pipe.on("close", onGone);
  pipe
    .pipe(
      new LineStream((line) => {
        onWord(line);
        return undefined;
      }),
    )
    .resume();
  pipe.unref();
}

function endSoon(): void {
  setTimeout(() => process.kill(process.pid, "SIGKILL"), GRACE_MS).unref();
  process.kill(process.pid, "SIGTERM");
}
