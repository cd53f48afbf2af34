// socket-transport — the Transport over TCP ("tcp://host:port") and unix sockets ("unix:///path"); see socket-link.ts.
//
// A unix socket's file outlives a killed process. The next listener removes such a file, but only after a connection to
// it was refused, so never under a live listener. (Two listeners that start at once on a stale file may still race.)
//
// Bun and Deno are refused, whose sockets do not work as socket-link.ts uses them: under Bun nothing would arrive,
// under Deno the first write would end the process. A cluster inside the process has no sockets and works.

import { lstatSync, mkdirSync, unlinkSync } from "node:fs";
import net from "node:net";
import { dirname } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { reasonOf, unsupported, WeighbridgeError } from "../../base/errors.ts";
import { type Log, SILENT_LOG } from "../../base/log.ts";
import type { Address, ConnectOptions, Link, LinkReader, Listener, Transport } from "../../transport/transport.ts";
import { type BoundSendBuffer, isWithinMachine } from "./send-buffer.ts";
import type { SharedLink } from "./shared-link.ts";
import type { SharedMemorySystem } from "./shared-memory.ts";
import { badAddress, formatTcpAddress, parseSocketAddress, type SocketAddress } from "./socket-address.ts";
import { SocketLink } from "./socket-link.ts";
import type { WakefulLoop } from "./wakeful-loop.ts";

export type SocketTransportOptions = {
  readonly clock: Clock;
  readonly log?: Log;
  /** Left out: the event loop sleeps whenever there is no input. */
  readonly loop?: WakefulLoop | undefined;
  /** Whether links are not worth staying awake for, unless set so (Link.setWakeful). */
  readonly isSleepy?: boolean | undefined;
  /** Whether links and listeners do not keep the process: its node does that itself (keep-process.ts). */
  readonly isBackground?: boolean | undefined;
  /** Left out: send buffers are as the system has them. */
  readonly boundSendBuffer?: BoundSendBuffer | undefined;
  /** Left out: links within this machine stay sockets. */
  readonly sharedMemory?: SharedMemorySystem | undefined;
};

export class SocketTransport implements Transport {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #loop: WakefulLoop | undefined;
  readonly #isSleepy: boolean;
  readonly #isBackground: boolean;
  readonly #boundSendBuffer: BoundSendBuffer | undefined;
  readonly #sharedMemory: SharedMemorySystem | undefined;

  /** Throws UNSUPPORTED under other runtimes than Node. */
  constructor(options: SocketTransportOptions) {
    const { clock, log = SILENT_LOG, loop, isSleepy = false, isBackground = false, boundSendBuffer, sharedMemory } = options;
    requireNodeSockets();
    this.#clock = clock;
    this.#log = log;
    this.#loop = loop;
    this.#isSleepy = isSleepy;
    this.#isBackground = isBackground;
    this.#boundSendBuffer = boundSendBuffer;
    this.#sharedMemory = sharedMemory;
  }

  /** Creates the directory of a unix socket. Closing the listener keeps accepted links and removes the file. */
  async listen(address: Address, accept: (link: Link) => LinkReader): Promise<Listener> {
    const target = parseSocketAddress(address);
    const server = net.createServer({ pauseOnConnect: true, noDelay: true });
    let acceptedCount = 0;
    server.on("connection", (socket) => this.#accept(socket, accept, `${address}#${++acceptedCount}`));
    try {
      await bind(server, target);
    } catch (thrown) {
      throw listenError(address, target, thrown);
    }
    if (this.#isBackground) server.unref();
    server.on("error", (error) => this.#log.warn("a connection could not be accepted", { address, reason: error.message }));
    return { address: target.kind === "unix" ? address : realAddress(server, target.host), close: () => closeServer(server) };
  }

  async connect(address: Address, open: (link: Link) => LinkReader, { timeoutMs }: ConnectOptions): Promise<Link> {
    const target = parseSocketAddress(address);
    if (target.kind === "tcp" && target.port === 0) throw badAddress(address, "port 0 can be listened on, but not connected to");
    const { promise, resolve, reject } = Promise.withResolvers<Link>();
    const link = new SocketLink({
      remote: address,
      clock: this.#clock,
      loop: this.#loop,
      isSleepy: this.#isSleepy,
      open: (onread) => net.connect(connectOptions(target, onread)),
    });
    const { socket } = link;
    if (this.#isBackground) socket.unref();
    const cancelDeadline = this.#clock.after(timeoutMs, () => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)));
    socket.once("error", (error) => {
      cancelDeadline();
      reject(connectError(address, error)); // no effect once connected: then the error is the link's
    });
    socket.once("connect", () => {
      cancelDeadline();
      try {
        this.#boundSendBuffer?.(socket);
        const opened = this.#upgradable(link);
        opened.start(open(opened));
        resolve(opened);
      } catch (thrown) {
        link.destroy();
        reject(thrown);
      }
    });
    return await promise;
  }

  #accept(accepted: net.Socket, accept: (link: Link) => LinkReader, unixName: string): void {
    const { remoteAddress, remotePort } = accepted;
    const remote = remoteAddress === undefined || remotePort === undefined ? unixName : formatTcpAddress(remoteAddress, remotePort);
    const link = new SocketLink({
      remote,
      clock: this.#clock,
      loop: this.#loop,
      isSleepy: this.#isSleepy,
      open: (onread) => adopt(accepted, onread),
    });
    if (this.#isBackground) link.socket.unref();
    try {
      this.#boundSendBuffer?.(link.socket);
      const opened = this.#upgradable(link);
      opened.start(accept(opened));
    } catch (thrown) {
      this.#log.error("a connection was refused by a failing accept", { remote, reason: reasonOf(thrown) });
      link.destroy();
    }
  }

  /** What may go on in shared memory, if both ends are on this machine. */
  #upgradable(socket: SocketLink): SocketLink | SharedLink {
    const system = this.#sharedMemory;
    if (system === undefined || !isWithinMachine(socket.socket)) return socket;
    return system.link({ socket, clock: this.#clock, loop: this.#loop, isSleepy: this.#isSleepy });
  }
}

/** No public API gives an accepted socket an `onread`, so its handle moves into a new socket (Node 20 to 26). */
function adopt(accepted: net.Socket, onread: net.OnReadOpts): net.Socket {
  const shell = accepted as unknown as { _handle: unknown };
  const handle = shell._handle;
  shell._handle = null;
  accepted.destroy(); // an empty shell: the server stops counting it, so that closing the listener does not wait for it
  return new net.Socket({ handle, readable: true, writable: true, onread } as net.SocketConstructorOpts);
}

function connectOptions(target: SocketAddress, onread: net.OnReadOpts): net.NetConnectOpts {
  if (target.kind === "unix") return { path: target.path, onread };
  return { host: target.host, port: target.port, noDelay: true, onread };
}

async function bind(server: net.Server, target: SocketAddress): Promise<void> {
  if (target.kind === "tcp") return await listening(server, { host: target.host, port: target.port, exclusive: true });
  const { path } = target;
  mkdirSync(dirname(path), { recursive: true });
  try {
    await listening(server, { path, exclusive: true });
  } catch (thrown) {
    if (codeOf(thrown) !== "EADDRINUSE" || !(await removeStaleSocket(path))) throw thrown;
    await listening(server, { path, exclusive: true });
  }
}

async function listening(server: net.Server, options: net.ListenOptions): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(options, () => {
    server.off("error", reject);
    resolve();
  });
  await promise;
}

/** Returns whether the path is free now. */
async function removeStaleSocket(path: string): Promise<boolean> {
  const file = lstatSync(path, { throwIfNoEntry: false });
  if (file === undefined) return true;
  if (!file.isSocket()) return false;
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const probe = net.connect(path);
  probe.once("connect", () => {
    probe.destroy();
    resolve(false);
  });
  probe.once("error", (error) => {
    try {
      const code = codeOf(error);
      if (code === "ECONNREFUSED") unlinkSync(path);
      resolve(code === "ECONNREFUSED" || code === "ENOENT");
    } catch (thrown) {
      reject(thrown);
    }
  });
  return await promise;
}

function realAddress(server: net.Server, host: string): Address {
  return formatTcpAddress(host, (server.address() as net.AddressInfo).port);
}

async function closeServer(server: net.Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve()); // its only error is "not running": closed twice, which is fine
  await promise;
}

function listenError(address: Address, target: SocketAddress, thrown: unknown): WeighbridgeError {
  const code = codeOf(thrown);
  if (code === "EADDRINUSE") {
    const fix =
      target.kind === "tcp"
        ? "stop the process that listens there, or choose another port"
        : "stop the process that listens there, or choose another path";
    return new WeighbridgeError("PORT_IN_USE", `cannot listen on ${address}: it is taken; ${fix}`, { cause: thrown });
  }
  const reason = target.kind === "unix" ? unixReason(code, thrown, target.path) : (LISTEN_REASONS[code] ?? reasonOf(thrown));
  return new WeighbridgeError("BAD_CONFIG", `cannot listen on ${address}: ${reason}`, { cause: thrown });
}

const LISTEN_REASONS: Readonly<Record<string, string>> = {
  EACCES: "this process may not listen on that port; choose one of 1024 and above",
  EADDRNOTAVAIL: "the host is not an address of this machine",
  EAI_AGAIN: "the host name could not be looked up",
  ENOTFOUND: "the host name is unknown",
};

function unixReason(code: string, thrown: unknown, path: string): string {
  if (code === "EINVAL" || code === "ENAMETOOLONG")
    return `the path has ${Buffer.byteLength(path)} bytes, and a unix socket's may have about 100; choose a shorter one`;
  return code === "EACCES" ? "this process may not write there" : reasonOf(thrown);
}

function connectError(address: Address, error: Error): WeighbridgeError {
  const reason = CONNECT_REASONS[codeOf(error)] ?? reasonOf(error);
  return new WeighbridgeError("NO_ROUTE", `nothing answers at ${address}: ${reason}`, { retryable: true, cause: error });
}

const CONNECT_REASONS: Readonly<Record<string, string>> = {
  EACCES: "this process may not open that socket (EACCES)",
  EAI_AGAIN: "the host name could not be looked up (EAI_AGAIN)",
  ECONNREFUSED: "the connection was refused (ECONNREFUSED)",
  ECONNRESET: "the connection was reset (ECONNRESET)",
  EHOSTUNREACH: "the host cannot be reached (EHOSTUNREACH)",
  ENETUNREACH: "the network cannot be reached (ENETUNREACH)",
  ENOENT: "there is no such socket file (ENOENT)",
  ENOTFOUND: "the host name is unknown (ENOTFOUND)",
  ETIMEDOUT: "the system gave up waiting for an answer (ETIMEDOUT)",
};

function codeOf(thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

/** The name and version of a runtime that is not Node, such as "Bun 1.4.4". */
function foreignRuntime({ bun, deno }: NodeJS.ProcessVersions): string | undefined {
  if (bun !== undefined) return `Bun ${bun}`;
  return deno === undefined ? undefined : `Deno ${deno}`;
}

/** Call it before creating a socket. Throws UNSUPPORTED. */
export function requireNodeSockets(versions: NodeJS.ProcessVersions = process.versions): void {
  const runtime = foreignRuntime(versions);
  if (runtime === undefined) return;
  const message = `nodes of a cluster run under Node 24 or newer, and this is ${runtime}, where EmbeddedCluster alone works: run this script with node`;
  throw unsupported(message);
}
