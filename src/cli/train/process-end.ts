// process-end — how a process of a training job ends: with exit code 0 when its work is done, otherwise with another
// exit code and a closing line that names the node, how far it was and the cause.
//
// Invariants:
//   ProcessEnd.E1. There is at most one closing line, and it is the last thing written.
//   ProcessEnd.E2. The first cause counts; what breaks because of it is not reported.
//   ProcessEnd.E3. The process ends whether or not anybody reads why, even if process.exit hangs: its launcher kills it
//       then (NodeProcess.N1). When the launcher is gone, the process kills itself.
//   ProcessEnd.E4. A process that was sent the reason while it started prints it as soon as it watches its launcher: it
//       listens for signals before (Job.J10).
//   ProcessEnd.E5. A process that gets a signal of its own, not one that ends the job with a reason, leaves first: a
//       server hands over to its standby.

import { writeSync } from "node:fs";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { SIGNAL_SAVE_MS } from "../../node/end-signal.ts";
import { watchLauncher } from "../../node/launcher/launcher-pipe.ts";
import { exitCodeFor, isOurs } from "../../node/launcher/process-errors.ts";

export type NodeOutcome = {
  /** "worker/0"; "scheduler". */
  readonly name: string;
  /**
   * How far it is: "at epoch 1 step 312". Empty if the node does not know, as for the scheduler; its cause includes it
   * then.
   */
  readonly position: () => string;
  /** The work of the process; resolves when the job is done. */
  readonly run: () => Promise<void>;
  /** Hands over what other processes may go on with (ProcessEnd.E5). */
  readonly leave?: () => Promise<void>;
};

const ENDING_SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP"];
/** The launcher writes the reason before it sends the signal, but the process may read it after the signal. */
const REASON_WAIT_MS = 250;

/** Runs the work, then ends this process. */
export function endProcess({ name, position, run, leave = async () => {} }: NodeOutcome): void {
  let isEnding = false;
  const fail = (cause: string, exitCode = 1, end = (): void => process.exit(exitCode)): void => {
    if (isEnding) return; // ProcessEnd.E2
    isEnding = true;
    stop(cause, end);
  };
  const stop = (cause: string, end: () => void): void => {
    try {
      writeSync(process.stderr.fd, `weighbridge: ${`${name} stopped ${position()}`.trimEnd()}: ${cause}\n`);
    } catch {
      // The launcher, which held the other end, is gone (EPIPE).
    } finally {
      end(); // ProcessEnd.E1, ProcessEnd.E3
    }
  };
  const kill = (): void => void process.kill(process.pid, "SIGKILL");
  for (const signal of ENDING_SIGNALS) {
    const leaveAndStop = (): void => {
      if (isEnding) return; // ProcessEnd.E2
      isEnding = true;
      const left = Promise.race([leave(), sleep(SIGNAL_SAVE_MS)]);
      const end = (): void => stop(`ended by ${signal}`, () => process.exit(128 + constants.signals[signal]));
      left.then(end, end); // what it could not hand over, it loses
    };
    process.on(signal, () => setTimeout(leaveAndStop, REASON_WAIT_MS));
  }
  process.on("uncaughtException", (thrown) => fail(causeOf(thrown), exitCodeFor(thrown)));
  // ProcessEnd.E4
  watchLauncher({ onReason: (reason) => fail(reason), onGone: () => fail("the launcher is gone", 1, kill) });
  run().then(
    () => {
      if (!isEnding) process.exit(0);
    },
    (thrown: unknown) => fail(causeOf(thrown), exitCodeFor(thrown)),
  );
}

/** One line, with the code of one of our errors; for a bug, also where it happened. */
export function causeOf(thrown: unknown): string {
  if (isOurs(thrown)) return `${thrown.code}: ${thrown.message.replaceAll("\n", " ")}`;
  return (thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)).replaceAll(/\s*\n\s*/g, " ");
}
