// end-signal — ends a node's process on SIGTERM: a server leaves first, so that calls to it fail at once and not after
// the heartbeat timeout. Process 1 of a container has no default action for signals: without this it would not end at
// all. A program that listens for the signal itself decides for itself.
//
// Invariants:
//   EndSignal.E1. The process ends when all nodes in it that listen here have left, SIGNAL_LEAVE_MS later at the
//       latest.
//   EndSignal.E2. Only servers, and every node of process 1, listen: the system ends all others by itself.

import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, parentPort } from "node:worker_threads";

/** As long as a container or a launcher waits, and less. */
const SIGNAL_LEAVE_MS = 2000;
/** What a process tells its server threads, which get no signals themselves. */
export const LEAVE_MESSAGE = "weighbridge: leave";

const SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM"];
/** Process 1 has no default action for these either. */
const INIT_SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP"];
/** Tells our listeners from those of the program, in whichever copy of this module they were made. */
const LISTENER_NAME = "weighbridgeEndSignal";

/** Calls `leave` before a signal ends this process, where that is ours to do (E2). Returns what stops listening. */
export function onEndSignal(leave: (() => Promise<void>) | undefined): () => void {
  if (!isMainThread) return leave === undefined ? () => {} : onThreadMessage(leave);
  const signals = process.pid === 1 ? INIT_SIGNALS : leave === undefined ? [] : SIGNALS;
  const listener = {
    [LISTENER_NAME]: (signal: NodeJS.Signals): void => {
      if (listenersOf(signal).some(({ name }) => name !== LISTENER_NAME)) return; // the program's own
      const left = Promise.race([leave?.(), sleep(SIGNAL_LEAVE_MS)]);
      const done = (): void => {
        process.off(signal, listener);
        if (listenersOf(signal).length === 0) endBy(signal); // E1
      };
      left.then(done, done);
    },
  }[LISTENER_NAME] as (signal: NodeJS.Signals) => void;
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}

/** Ends this process as the signal does where nobody listens. */
function endBy(signal: NodeJS.Signals): void {
  if (process.pid === 1) process.exit(128 + constants.signals[signal]);
  process.kill(process.pid, signal);
}

function listenersOf(signal: NodeJS.Signals): { readonly name: string }[] {
  return process.listeners(signal) as { readonly name: string }[]; // functions, all of them
}

function onThreadMessage(leave: () => Promise<void>): () => void {
  const listener = (message: unknown): void => {
    if (message !== LEAVE_MESSAGE) return;
    const end = (): void => process.exit(0); // of a thread, that is the thread's
    Promise.race([leave(), sleep(SIGNAL_LEAVE_MS)]).then(end, end);
  };
  parentPort?.on("message", listener);
  parentPort?.unref(); // It keeps nobody alive.
  return () => parentPort?.off("message", listener);
}
