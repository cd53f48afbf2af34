// pulse — the pulse of this process (cluster/pulse.ts): a thread speaks for its nodes, whatever their loops do. It
// starts with the first node, ends with the last, and keeps no process alive.
//
// Invariants:
//   ProcessPulse.T1. The nodes of the main thread, and those of the threads that get `optionsOfThread`, have one such
//       thread together. The others send their messages to it through a port, without the main loop. Any other thread
//       that has a node, as one that a user started, has a pulse of its own, which ends with it.
//   ProcessPulse.T2. Without the thread, because it failed or could not start, nodes are judged by their heartbeats
//       alone: nothing else fails.
//   ProcessPulse.T3. When a thread ends its port closes, and the pulse falls silent for the nodes of that thread,
//       whatever the main loop does. Threads that it starts do not get its port.
//   ProcessPulse.T4. A process with a pulse is about as large as it would be without: once it runs, what was freed
//       since the start is given back.

import { randomUUID } from "node:crypto";
import { connect } from "node:net";
import { MessageChannel, MessagePort, Worker, type WorkerOptions, workerData } from "node:worker_threads";
import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import {
  type AnsweringPulse,
  BEAT,
  type Pulse,
  type PulseAnswer,
  pulseAnswerHeader,
  pulseAnswerShape,
  QUIET_TICKS,
  type Speaker,
} from "../cluster/pulse.ts";
import type { Address } from "../transport/transport.ts";
import { HEADER_BYTES } from "../wire/frame.ts";
import { decodeJson } from "../wire/json-body.ts";
import { giveBackFreedMemory } from "./freed-memory.ts";
import { type PulseListening, type PulseMessage, type PulsePlace, type PulseThreadData, pulseThread } from "./pulse-thread.ts";
import { formatTcpAddress, parseSocketAddress } from "./transport/socket-address.ts";

/** In the data of a thread: its port to the pulse of its process. */
const PORT = "weighbridge.pulse";
const ANSWER_BYTES_MAX = 64 * 1024;
/** For what is left of V8's heap, which Node itself needs to start a thread. The thread gives a part of it back. */
const HEAP_MB = 16;
/** How long after its start: by then modules have been loaded and compiled. */
const GIVE_BACK_MS = 1000;

/** Ends what it was returned for. */
type Release = () => void;

type ThreadOptions = Pick<WorkerOptions, "workerData" | "transferList">;

export type KeptPulse = {
  readonly release: Release;
  /** What to start one more thread with, so that this pulse speaks for its nodes (ProcessPulse.T3). */
  optionsOfThread(): ThreadOptions;
};

/** Of a thread that shares the pulse of the main one (ProcessPulse.T1). */
const SHARED = portOfThread();

class ProcessPulse implements Pulse {
  #thread: Worker | undefined;
  #uses = 0;
  readonly #listening = new Map<string, Deferred<number | undefined>>();

  /** Keeps the thread for other threads of this process. */
  keep(log: Log): KeptPulse {
    const release = this.#use(log);
    const optionsOfThread = (): ThreadOptions => {
      const { port1, port2 } = new MessageChannel();
      this.#thread?.postMessage({ kind: "thread", port: port1 } satisfies PulseMessage, [port1]);
      return { workerData: { [PORT]: port2 }, transferList: [port2] };
    };
    return { release, optionsOfThread };
  }

  speak({ node, addresses, everyMs, frames }: Speaker, log?: Log): Release {
    const places = addresses.map(placeOf);
    const { turns, stop } = turning(everyMs);
    const id = randomUUID();
    const release = this.#use(log);
    this.#send({ kind: "speak", id, node, places, everyMs, turns, hello: frames.hello, beat: frames.beat });
    return once(() => {
      stop();
      this.#send({ kind: "end", id });
      release();
    });
  }

  async answer(address: Address, { token, everyMs }: { readonly token: string; readonly everyMs: number }): Promise<AnsweringPulse> {
    const { turns, stop } = turning(everyMs);
    const id = randomUUID();
    const release = this.#use(undefined);
    const close = once(() => {
      stop();
      this.#listening.delete(id);
      this.#send({ kind: "end", id });
      release();
    });
    const bound = new Deferred<number | undefined>();
    this.#listening.set(id, bound);
    const place = placeOf(address);
    this.#send({ kind: "answer", id, place, token, everyMs, turns, header: pulseAnswerHeader() });
    this.#thread?.ref(); // until it listens nothing else may keep the process
    try {
      const port = await bound.promise;
      return { address: "path" in place ? address : formatTcpAddress(place.host, port ?? place.port), close };
    } catch (thrown) {
      close();
      throw thrown;
    } finally {
      this.#thread?.unref();
    }
  }

  async ask(address: Address, { timeoutMs }: { readonly timeoutMs: number }): Promise<PulseAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<PulseAnswer>();
    const socket = connect(placeOf(address));
    const chunks: Buffer[] = [];
    const fail = (why: string): void => {
      socket.destroy();
      reject(new WeighbridgeError("LINK_LOST", `no pulse answers at ${address}: ${why}`));
    };
    socket.setTimeout(timeoutMs, () => fail(`nothing came for ${timeoutMs} ms`));
    socket.on("error", ({ message }) => fail(message));
    socket.on("data", (bytes) => {
      chunks.push(bytes);
      if (socket.bytesRead > ANSWER_BYTES_MAX) fail("it sends too much");
    });
    socket.on("end", () => {
      try {
        resolve(decodeJson(pulseAnswerShape, "an answer of a pulse", Buffer.concat(chunks).subarray(HEADER_BYTES)));
      } catch (thrown) {
        reject(thrown);
      }
    });
    return await promise;
  }

  #use(log: Log | undefined): Release {
    if (SHARED === undefined && this.#thread === undefined) this.#start(log);
    this.#uses++;
    return once(() => {
      if (--this.#uses > 0) return;
      void this.#thread?.terminate();
      this.#thread = undefined;
    });
  }

  #start(log: Log | undefined): void {
    try {
      const thread = startPulseThread();
      thread.on("message", ({ id, port, problem }: PulseListening) => {
        const bound = this.#listening.get(id);
        if (problem === undefined) bound?.resolve(port);
        else bound?.reject(new WeighbridgeError("PORT_IN_USE", `the pulse of this process cannot listen: ${problem}`));
      });
      thread.on("error", ({ message }) => this.#failed(log, message));
      thread.unref();
      this.#thread = thread;
      setTimeout(() => void giveBackFreedMemory(), GIVE_BACK_MS).unref(); // ProcessPulse.T4
    } catch (thrown) {
      this.#failed(log, String(thrown));
    }
  }

  /** ProcessPulse.T2 */
  #failed(log: Log | undefined, reason: string): void {
    this.#thread = undefined;
    const error = new WeighbridgeError("CLOSED", `the pulse of this process ended: ${reason}`);
    for (const bound of this.#listening.values()) bound.reject(error);
    log?.warn("nothing speaks for this process while its loop is busy: a busy node is taken for dead", { reason });
  }

  #send(message: PulseMessage): void {
    (SHARED ?? this.#thread)?.postMessage(message); // ProcessPulse.T1
  }
}

/** It shares no environment: Node would load into it what NODE_OPTIONS names. For ProcessPulse and tests. */
export function startPulseThread(): Worker {
  const data: PulseThreadData = { quietTicks: QUIET_TICKS, at: BEAT };
  return new Worker(`(${pulseThread.toString()})(require)`, {
    ...{ eval: true, name: "weighbridge pulse", workerData: data, env: {}, execArgv: [], trackUnmanagedFds: false },
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, maxYoungGenerationSizeMb: 1 },
  });
}

const PULSE = new ProcessPulse();

/** The one of this process. */
export function processPulse(log: Log): Pulse {
  return {
    speak: (speaker) => PULSE.speak(speaker, log),
    answer: (address, options) => PULSE.answer(address, options),
    ask: (address, options) => PULSE.ask(address, options),
  };
}

/** Keeps the pulse of this process for threads that are started with its options. */
export function keepPulse(log: Log): KeptPulse {
  return PULSE.keep(log);
}

/** Shared memory that shows that this loop turns. */
function turning(everyMs: number): { readonly turns: Int32Array; readonly stop: () => void } {
  const turns = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const timer = setInterval(() => Atomics.add(turns, 0, 1), everyMs).unref();
  return { turns, stop: () => clearInterval(timer) };
}

function placeOf(address: Address): PulsePlace {
  const parsed = parseSocketAddress(address);
  return parsed.kind === "tcp" ? { host: parsed.host, port: parsed.port } : { path: parsed.path };
}

/** The port that this thread was started with. */
function portOfThread(): MessagePort | undefined {
  const data: unknown = workerData;
  const port = typeof data === "object" && data !== null ? Reflect.get(data, PORT) : undefined;
  return port instanceof MessagePort ? port : undefined;
}

function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}
