// launcher-pipe — a launched process's end of the pipe WATCH_FD. The launcher holds the other end: what it writes is why the job ends, a line; and
// however it ends itself, the system closes that end. The process of the scheduler writes who is dead (watch-pipe.ts).

import { writeSync } from "node:fs";
import { Socket } from "node:net";
import { type DeadNodes, onDeadNodes } from "./dead-nodes.ts";
import { LineStream } from "./line-stream.ts";
import { deadReportLine, GONE_LINE, GRACE_MS, WATCH_FD } from "./watch-pipe.ts";

export type LauncherWatch = {
  /** Why the job ends, shortly before this process gets SIGTERM. */
  readonly onWord?: (reason: string) => void;
  /** The launcher is gone. By default the process ends as the launcher would end it: politely, then not. */
  readonly onGone?: () => void;
};

/** Does not keep the process alive. */
export function watchLauncher({ onWord = () => {}, onGone = endSoon }: LauncherWatch = {}): void {
  const pipe = new Socket({ fd: WATCH_FD, readable: true, writable: false });
  const dismissDead = tellOfDeadNodes();
  pipe.on("error", () => {}); // A broken pipe closes as well.
  pipe.on("close", onGone);
  pipe
    .pipe(
      new LineStream((line) => {
        if (line === GONE_LINE) dismissDead();
        else onWord(line);
        return undefined;
      }),
    )
    .resume();
  pipe.unref();
}

/** Tells the launcher who is dead, each time that changes. Returns what to call when the processes of all of them are gone. */
function tellOfDeadNodes(): () => void {
  let [told, dismiss]: [string, DeadNodes["dismiss"]] = [deadReportLine({ names: [], isRestDone: false }), undefined];
  onDeadNodes((dead) => {
    dismiss = dead.dismiss;
    const line = deadReportLine({ names: dead.names, isRestDone: dismiss !== undefined });
    if (line !== told) tell(line);
    told = line;
  });
  return () => dismiss?.();
}

/** At once: the process may end in the same turn. */
function tell(line: string): void {
  try {
    writeSync(WATCH_FD, `${line}\n`);
  } catch {
    // The launcher is gone, which `onGone` sees to.
  }
}

function endSoon(): void {
  setTimeout(() => process.kill(process.pid, "SIGKILL"), GRACE_MS).unref();
  process.kill(process.pid, "SIGTERM");
}
