// end-signal — ends a node's process on SIGTERM, and a server that keeps its state on Ctrl-C, too: a server leaves
// first, so that calls to it fail at once and not after the heartbeat timeout. Process 1 of a container has no default
// action for signals: without this it would not end at all. If the program listens for the signal itself, this does
// nothing.
//
// Invariants:
//   EndSignal.E1. The process ends when all nodes in it that listen here have left, after SIGNAL_LEAVE_MS at the
//       latest, or after what a server needs that saves its state first, or fills its standby.
//   EndSignal.E2. Only servers, schedulers with standbys, and every node of process 1 listen: the system ends all
//       others by itself. Ctrl-C (SIGINT) they hear only if there is a directory for their state.
//       A second Ctrl-C ends a server at once, the first one passed on by another process does not (signal-echo.ts).
//   EndSignal.E3. An end after which another process goes on with what the node had is announced to the launcher.

import { channel } from "node:diagnostics_channel";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, parentPort } from "node:worker_threads";
import { SignalEcho } from "./signal-echo.ts";

/** Less than a container or a launcher waits. */
export const SIGNAL_LEAVE_MS = 2000;
/** For a server that saves its state, or fills its standby: what ends processes decides how long it waits. */
export const SIGNAL_SAVE_MS = 600_000;
/** What a process sends to its server threads, which get no signals themselves. */
export const LEAVE_MESSAGE = "weighbridge: leave";

/** The channel of diagnostics for announcements (EndSignal.E3), and what a thread sends to its process instead. */
export const PLANNED_END = "weighbridge:planned-end";

const SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM"];
/** Process 1 has no default action for these either. */
const INIT_SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP"];
/** For a server that keeps its state in a directory: a second SIGINT ends it at once, as people expect of Ctrl-C. */
const KEEPER_SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT"];
/** What a configuration says of how a node leaves. */
type Leaving = { readonly checkpointDir?: string | undefined; readonly durable?: string | undefined; readonly replicas?: number };
/** What the process does: left out, it ends as by the signal, by the time of this machine. */
type Ending = { readonly end?: (signal: NodeJS.Signals) => void; readonly nowMs?: () => number };
/** Distinguishes our listeners from the program's, whichever copy of this module added them. */
const LISTENER_NAME = "weighbridgeEndSignal";

/**
 * Calls `leave` before a signal ends this process, if that is our task (EndSignal.E2), and waits for it (EndSignal.E1);
 * it returns whether the end is planned (EndSignal.E3). Returns a function that stops listening.
 */
export function onEndSignal(
  leave: (() => Promise<boolean>) | undefined,
  { checkpointDir, durable, replicas = 1 }: Leaving = {},
  { end = endProcess, nowMs }: Ending = {},
): () => void {
  const leaveMs = checkpointDir === undefined && replicas === 1 ? SIGNAL_LEAVE_MS : SIGNAL_SAVE_MS;
  if (!isMainThread) return leave === undefined ? () => {} : onThreadMessage(leave, leaveMs);
  const own = checkpointDir === undefined && durable === undefined ? SIGNALS : KEEPER_SIGNALS;
  const signals = process.pid === 1 ? INIT_SIGNALS : leave === undefined ? [] : own;
  let isLeaving = false;
  const echo = new SignalEcho(nowMs);
  const listener = {
    [LISTENER_NAME]: (signal: NodeJS.Signals): void => {
      if (listenersOf(signal).some(({ name }) => name !== LISTENER_NAME)) return; // the program's own
      const isEcho = echo.isEcho(signal);
      if (isLeaving && signal === "SIGINT" && !isEcho) end(signal);
      if (isLeaving) return;
      isLeaving = true;
      const left = Promise.race([leave?.(), sleep(leaveMs, undefined, { ref: false })]);
      const done = (isPlanned: unknown): void => {
        stop();
        if (isPlanned === true) channel(PLANNED_END).publish(signal);
        if (listenersOf(signal).length > 0) return; // EndSignal.E1
        end(signal);
      };
      left.then(done, done);
    },
  }[LISTENER_NAME] as (signal: NodeJS.Signals) => void;
  const stop = (): void => {
    for (const signal of signals) process.off(signal, listener);
  };
  for (const signal of signals) process.on(signal, listener);
  return stop;
}

/** As the signal does by default, whoever listens for it here. */
function endProcess(signal: NodeJS.Signals): void {
  if (process.pid === 1) process.exit(128 + constants.signals[signal]);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

function listenersOf(signal: NodeJS.Signals): { readonly name: string }[] {
  return process.listeners(signal) as { readonly name: string }[]; // all of them are functions
}

function onThreadMessage(leave: () => Promise<boolean>, leaveMs: number): () => void {
  const listener = (message: unknown): void => {
    if (message !== LEAVE_MESSAGE) return;
    const end = (isPlanned: unknown): void => {
      if (isPlanned === true) parentPort?.postMessage(PLANNED_END);
      process.exit(0); // in a thread, this ends the thread only
    };
    Promise.race([leave(), sleep(leaveMs)]).then(end, end);
  };
  parentPort?.on("message", listener);
  parentPort?.unref(); // It does not keep the thread alive.
  return () => parentPort?.off("message", listener);
}
