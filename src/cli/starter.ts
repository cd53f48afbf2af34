// starter — ends this command when the process that started it for a user is gone: bin/weighbridge.mjs on an old Node,
// or npm. When they are killed with SIGKILL they cannot pass it on, and the job would run on unnoticed. A shell may
// end: that is how people leave jobs running.

import { writeSync } from "node:fs";
import { GRACE_MS } from "../node/launcher/launcher-pipe.ts";

const POLL_MS = 1000;
/** `npm start` and `npx`. A script run with `npm run` may start something and end. */
const NPM_COMMANDS: ReadonlySet<string> = new Set(["start", "exec"]);

export type StarterHooks = {
  /** The npm command that runs this one. */
  readonly npmCommand: string | undefined;
  readonly parentPid: () => number;
  readonly onGone: (starter: string) => void;
  /** Calls `poll` now and then; returns a function that stops it. */
  readonly every: (poll: () => void) => () => void;
};

/** Does not keep the process alive. */
export function watchStarter(surroundings: Partial<StarterHooks> = {}): void {
  const { npmCommand, parentPid, onGone, every } = { ...REAL, ...surroundings };
  if (process.channel !== undefined && process.channel !== null) {
    process.once("disconnect", () => onGone("the command that started this one"));
    process.channel.unref(); // The listener would keep the process alive.
  }
  if (npmCommand === undefined || !NPM_COMMANDS.has(npmCommand)) return;
  const before = parentPid();
  const stop = every(() => {
    if (parentPid() === before) return;
    stop();
    onGone("npm");
  });
}

const REAL: StarterHooks = {
  npmCommand: process.env.npm_command,
  parentPid: () => process.ppid,
  onGone: endSoon,
  every: (poll) => {
    const timer = setInterval(poll, POLL_MS).unref();
    return () => clearInterval(timer);
  },
};

/** As if the starter had passed a signal on; a command that ignores it ends all the same. */
function endSoon(starter: string): void {
  try {
    writeSync(process.stderr.fd, `weighbridge: ${starter} is gone, so this ends\n`);
  } catch {
    // The reader of standard error is gone, too.
  }
  setTimeout(() => process.kill(process.pid, "SIGKILL"), 2 * GRACE_MS).unref();
  process.kill(process.pid, "SIGTERM");
}
