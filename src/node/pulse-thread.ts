// pulse-thread — what runs on the thread that speaks for the nodes of a process while their loops are busy
// (cluster/pulse.ts). One function that names nothing of this module: the thread begins with its text, and so loads no
// other module of ours, none of Node's loaders for files, and neither types nor a bundle (docs/decisions/0083).

import type { Server, Socket } from "node:net";
import type { MessagePort } from "node:worker_threads";
import type { QUIET_TICKS } from "../cluster/pulse.ts";

/** Where a scheduler, or its pulse, is reached. */
export type PulsePlace = { readonly host: string; readonly port: number } | { readonly path: string };

/** A loop that is watched: it raises the first number of `turns` with every turn of its timer. */
type Watched = { readonly id: string; readonly turns: Int32Array; readonly everyMs: number };

export type PulseMessage =
  | (Watched & {
      readonly kind: "speak";
      readonly node: number;
      readonly places: readonly PulsePlace[];
      readonly hello: Uint8Array;
      readonly beat: Uint8Array;
    })
  | (Watched & { readonly kind: "answer"; readonly place: PulsePlace; readonly token: string; readonly header: Uint8Array })
  | { readonly kind: "end"; readonly id: string }
  /** From another thread come messages through this port, until that thread ends. */
  | { readonly kind: "thread"; readonly port: MessagePort };

/** To the one who asked for answers: the port, or why there is none. */
export type PulseListening = { readonly id: string; readonly port?: number | undefined; readonly problem?: string | undefined };

export type PulseThreadData = {
  readonly quietTicks: typeof QUIET_TICKS;
  readonly at: { readonly requestAt: number; readonly settledAt: number; readonly digitsAt: number; readonly digitCount: number };
};

/** For a thread that begins with its text alone. */
export function pulseThread(require: NodeJS.Require): void {
  const { parentPort, workerData } = require("node:worker_threads") as typeof import("node:worker_threads");
  const net = require("node:net") as typeof import("node:net");
  const { quietTicks, at } = workerData as PulseThreadData;
  const QUEUED_BYTES_MAX = 16 * 1024;
  const PAYLOAD_BYTES_AT = 8;
  const REFUSED_TICKS = 5;
  const SPLIT_CHARS = 20;
  type Loop = Watched & { seen: number; lastMs: number; busyMs: number; timer?: NodeJS.Timeout; end: () => void };
  const loops = new Map<string, Loop & { readonly node?: number }>();

  /** Counts for how long the loop has stood still; the time for which this process was stopped does not count. */
  const look = (loop: Loop): boolean => {
    const [nowMs, seen] = [performance.now(), Atomics.load(loop.turns, 0)];
    if (seen === loop.seen) loop.busyMs += Math.min(nowMs - loop.lastMs, 2 * loop.everyMs);
    else loop.busyMs = 0;
    loop.seen = seen;
    loop.lastMs = nowMs;
    return loop.busyMs >= quietTicks * loop.everyMs;
  };
  const watch = <L extends Loop>(loop: L, tick: () => void): void => {
    loops.get(loop.id)?.end();
    loops.set(loop.id, loop);
    loop.timer = setInterval(tick, loop.everyMs);
  };
  const loopOf = ({ id, turns, everyMs }: Watched): Loop => ({
    ...{ id, turns, everyMs, seen: Atomics.load(turns, 0), lastMs: performance.now(), busyMs: 0, end: () => {} },
  });

  const speak = ({ node, places, hello, beat, ...watched }: PulseMessage & { kind: "speak" }): void => {
    const loop = { ...loopOf(watched), node };
    const words = new DataView(beat.buffer, beat.byteOffset);
    let socket: Socket | undefined;
    let tries = 0;
    let request = 0;
    let refusedTicks = 0;
    const hush = (): void => {
      socket?.end();
      socket = undefined;
    };
    const dial = (): Socket => {
      const dialed = net.connect(places[tries % places.length] as PulsePlace);
      let heard = "";
      dialed.on("data", (bytes) => {
        heard += bytes.toString("latin1"); // only a failure has this word, as a key: in a text its quote is escaped
        const [, retryable] = /"retryable":(true|false)/.exec(heard) ?? [];
        if (retryable === "false")
          end(loop.id); // Pulse.E4
        else if (retryable === "true") refusedTicks = REFUSED_TICKS;
        heard = retryable === undefined ? heard.slice(-SPLIT_CHARS) : "";
      });
      dialed.on("error", () => {});
      dialed.on("close", () => {
        if (socket !== dialed) return;
        socket = undefined;
        tries++;
      });
      dialed.setNoDelay(true);
      dialed.write(hello);
      request = 0;
      return dialed;
    };
    const tick = (): void => {
      if (!look(loop)) {
        hush();
        return;
      }
      if (refusedTicks-- > 0) return;
      refusedTicks = 0;
      socket ??= dial();
      if (socket.writableLength > QUEUED_BYTES_MAX) return;
      request++;
      words.setUint32(at.requestAt, request, true);
      words.setUint32(at.settledAt, request, true);
      const digits = String(Math.round(loop.busyMs)).padEnd(at.digitCount, " ");
      for (let i = 0; i < at.digitCount; i++) beat[at.digitsAt + i] = digits.charCodeAt(i);
      socket.write(Buffer.from(beat));
    };
    loop.end = () => {
      clearInterval(loop.timer);
      hush();
    };
    watch(loop, tick);
  };

  const answer = ({ place, token, header, ...watched }: PulseMessage & { kind: "answer" }): void => {
    const loop = loopOf(watched);
    const told = (listening: PulseListening): void => parentPort?.postMessage(listening);
    const server: Server = net.createServer((socket) => {
      socket.on("error", () => {});
      look(loop);
      const busy = [...loops.values()].flatMap((one) => (one.node !== undefined && look(one) ? [one.node] : []));
      const text = JSON.stringify({ token, loopBusyMs: Math.round(loop.busyMs), busy });
      const body = Buffer.from(text.padEnd(8 * Math.ceil(text.length / 8), " "));
      new DataView(header.buffer, header.byteOffset).setUint32(PAYLOAD_BYTES_AT, body.length, true);
      socket.end(Buffer.concat([header, body]));
    });
    server.on("error", ({ message }) => told({ id: watched.id, problem: message }));
    server.listen(place, () => {
      const bound = server.address();
      told({ id: watched.id, port: typeof bound === "object" ? bound?.port : undefined });
    });
    loop.end = () => {
      clearInterval(loop.timer);
      server.close();
    };
    watch(loop, () => look(loop));
  };

  const end = (id: string): void => {
    loops.get(id)?.end();
    loops.delete(id);
  };
  const take = (message: PulseMessage): void => {
    if (message.kind === "speak") speak(message);
    else if (message.kind === "answer") answer(message);
    else if (message.kind === "end") end(message.id);
    else takeFrom(message.port);
  };
  /** The loops of a thread end with its port (ProcessPulse.T3). */
  const takeFrom = (port: MessagePort): void => {
    const ids = new Set<string>();
    port.on("message", (message: PulseMessage) => {
      if (message.kind === "speak") ids.add(message.id);
      if (message.kind === "end") ids.delete(message.id);
      take(message);
    });
    port.on("close", () => ids.forEach(end));
  };
  parentPort?.on("message", take);
  // A third of the thread's memory is garbage once Node has started it. V8 collects when there is a buffer larger than
  // half of what its heap may be (HEAP_MB), and drops code that rested for six collections. The buffer is never written
  // to, so it takes no memory: malloc maps all that is larger than 32 MB, and clears nothing of it.
  const COLLECTIONS = 7;
  const collect = (left: number): void => {
    try {
      new ArrayBuffer(40e6).transfer(0);
    } catch {
      return; // the system grants no such buffer: the garbage stays
    }
    if (left > 1) setTimeout(collect, 20, left - 1);
  };
  setTimeout(collect, 1000, COLLECTIONS);
}
