// sim-network — a network of hosts inside one process, as events of a clock, from a seed: latency, partitions, broken
// links, crashes. Addresses are "sim://host:port". It carries byte streams; it does not lose, double or reorder frames.
//
//   const network = new SimNetwork({ clock, seed });
//   const transport = network.host("server-0");      // one per node; ask again for a host that crashed
//   network.partition("server-0", "worker-1");       // bytes stall until network.heal("server-0", "worker-1")

import type { Clock } from "../base/clock.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import { Random } from "../base/random.ts";
import type { Address, ConnectOptions, Link, LinkReader, Listener, Transport } from "../transport/transport.ts";
import { SimLink, type SimWire } from "./sim-link.ts";

type Accept = (link: Link) => LinkReader;

/** How a simulated network behaves. */
export type SimNetworkOptions = {
  /** What its delays go by. */
  readonly clock: Clock;
  /** One seed, one run. */
  readonly seed: number;
  /** Every segment takes between these two, drawn for each; order within a link is kept. */
  readonly latencyMsMin?: number | undefined;
  /** The most that a segment takes. */
  readonly latencyMsMax?: number | undefined;
  /** Bandwidth of a link, each way; unlimited when left out. */
  readonly bytesPerMs?: number | undefined;
  /** How many bytes a link takes from a writer ahead of the reader. */
  readonly windowBytes?: number | undefined;
  /** How likely a write breaks its link, after a random part of its bytes. */
  readonly breakChance?: number | undefined;
};

/** How two sides are cut off from each other. */
export type PartitionOptions = {
  /** The links between the two sides break as well, instead of waiting for the healing. */
  readonly breakLinks?: boolean | undefined;
  /** Only what the first sends to the second is held up. */
  readonly isOneWay?: boolean | undefined;
};

/** How a host crashes. */
export type CrashOptions = {
  /** A switched-off machine, not a killed process: links of others stay open and stall, and connecting times out. */
  readonly silent?: boolean | undefined;
};

/** How soon a host tries again to connect to a silent host. */
const KNOCK_AGAIN_MS = 200;

type Stalled = { readonly fromHost: string; readonly toHost: string; readonly arrive: () => void };

const NETWORK_OPTIONS: readonly (keyof SimNetworkOptions)[] = [
  "clock",
  "seed",
  "latencyMsMin",
  "latencyMsMax",
  "bytesPerMs",
  "windowBytes",
  "breakChance",
];

/** A network whose delays, losses and partitions a test decides. */
export class SimNetwork {
  readonly #wire: NetworkWire;
  readonly #hosts = new Map<string, SimHost>();

  constructor(options: SimNetworkOptions) {
    checkOptions(options, NETWORK_OPTIONS, "the options of a SimNetwork");
    this.#wire = new NetworkWire(options);
  }

  /**
   * @internal The transport of this host: the same one until it crashes, then a new one, with nothing left of the old.
   */
  host(name: string): Transport {
    const known = this.#hosts.get(name);
    if (known?.alive) return known;
    const host = new SimHost(name, this.#wire, this.#hosts);
    this.#hosts.set(name, host);
    this.#wire.silentHosts.delete(name);
    for (const link of this.#wire.links) if (link.remoteHost === name) link.retry();
    return host;
  }

  /** From now on; for instance 0, to let a cluster finish in peace. */
  set breakChance(breakChance: number) {
    this.#wire.breakChance = breakChance;
  }

  /** Cuts two hosts off from each other. */
  partition(a: string, b: string, options: PartitionOptions = {}): void {
    checkOptions(options, ["breakLinks", "isOneWay"], "the options of a partition");
    const { breakLinks = false, isOneWay = false } = options;
    this.#wire.partitions.add(wayName(a, b));
    if (!isOneWay) this.#wire.partitions.add(wayName(b, a));
    if (breakLinks) this.breakLinks(a, b);
  }

  /** Cuts a host off from all others, those that come later included. */
  isolate(name: string, options: Pick<PartitionOptions, "breakLinks"> = {}): void {
    checkOptions(options, ["breakLinks"], "the options of an isolation");
    const { breakLinks = false } = options;
    this.#wire.isolatedHosts.add(name);
    if (breakLinks) this.breakLinks(name);
  }

  /** Ends the partition of two hosts, everything that cuts off one host, or every cut there is. */
  heal(a?: string, b?: string): void {
    const { partitions, isolatedHosts } = this.#wire;
    if (a === undefined) {
      partitions.clear();
      isolatedHosts.clear();
    } else if (b === undefined) {
      isolatedHosts.delete(a);
      for (const way of partitions) if (way.split("|").includes(a)) partitions.delete(way);
    } else {
      partitions.delete(wayName(a, b));
      partitions.delete(wayName(b, a));
    }
    this.#wire.release();
  }

  /** Breaks every link of `a`, or those between `a` and `b`: each side learns it at its own time. */
  breakLinks(a: string, b?: string): void {
    for (const link of this.#wire.links)
      if (
        (link.host === a && (b === undefined || link.remoteHost === b)) ||
        (link.remoteHost === a && (b === undefined || link.host === b))
      )
        this.#wire.clock.after(this.#wire.latencyMs(), () => link.end(new Error(`the link to ${link.remoteHost} broke`)));
  }

  /**
   * Ends all links and listeners of a host at once, and its transport for good: nothing it does later reaches anybody.
   * Its own ends are closed like any others, so that the code of the dead node can wind down.
   */
  crash(name: string, options: CrashOptions = {}): void {
    checkOptions(options, ["silent"], "the options of a crash");
    const { silent = false } = options;
    const host = this.#hosts.get(name);
    if (host === undefined || !host.alive) return;
    host.alive = false;
    host.accepts.clear();
    if (silent) this.#wire.silentHosts.add(name);
    for (const link of this.#wire.links) {
      if (link.host !== name) continue;
      if (silent) link.vanish();
      else link.abort(new Error(`${name} crashed`), new Error(`${name} crashed`));
    }
  }
}

/** What the links see of the network, and the cuts in it. */
class NetworkWire implements SimWire {
  readonly clock: Clock;
  readonly random: Random;
  readonly windowBytes: number;
  readonly bytesPerMs: number;
  readonly links: Set<SimLink> = new Set();
  /** Ways that are cut, each from one host to another. */
  readonly partitions: Set<string> = new Set();
  readonly isolatedHosts: Set<string> = new Set();
  readonly silentHosts: Set<string> = new Set();
  breakChance: number;
  readonly #latencyMsMin: number;
  readonly #latencyMsMax: number;
  #stalled: Stalled[] = [];

  constructor(options: SimNetworkOptions) {
    this.clock = options.clock;
    this.random = new Random(options.seed);
    this.windowBytes = options.windowBytes ?? 256 * 1024;
    this.bytesPerMs = options.bytesPerMs ?? Infinity;
    this.breakChance = options.breakChance ?? 0;
    this.#latencyMsMin = options.latencyMsMin ?? 0.05;
    this.#latencyMsMax = options.latencyMsMax ?? 2;
  }

  latencyMs(): number {
    return this.#latencyMsMin + this.random.fraction() * (this.#latencyMsMax - this.#latencyMsMin);
  }

  carry(fromHost: string, toHost: string, delayMs: number, arrive: () => void): void {
    this.clock.after(delayMs, () => {
      if (this.#isCut(fromHost, toHost)) this.#stalled.push({ fromHost, toHost, arrive });
      else arrive();
    });
  }

  isSilent(host: string): boolean {
    return this.silentHosts.has(host);
  }

  forget(link: SimLink): void {
    this.links.delete(link);
  }

  /** Sends what stalled on its way again; what is still cut off stalls again. */
  release(): void {
    const stalled = this.#stalled;
    this.#stalled = [];
    for (const { fromHost, toHost, arrive } of stalled) this.carry(fromHost, toHost, this.latencyMs(), arrive);
  }

  #isCut(from: string, to: string): boolean {
    if (from === to) return false;
    return this.isolatedHosts.has(from) || this.isolatedHosts.has(to) || this.partitions.has(wayName(from, to));
  }
}

class SimHost implements Transport {
  readonly name: string;
  readonly accepts: Map<number, Accept> = new Map();
  alive = true;
  readonly #wire: NetworkWire;
  readonly #hosts: ReadonlyMap<string, SimHost>;
  #nextPort = 49_152;

  constructor(name: string, wire: NetworkWire, hosts: ReadonlyMap<string, SimHost>) {
    this.name = name;
    this.#wire = wire;
    this.#hosts = hosts;
  }

  async listen(address: Address, accept: Accept): Promise<Listener> {
    const { host, port: asked } = parseSimAddress(address);
    if (host !== this.name) throw badAddress(address, `this is ${this.name}, not ${host}`);
    if (!this.alive) throw new WeighbridgeError("CLOSED", `${this.name} crashed`);
    if (asked !== 0 && this.accepts.has(asked))
      throw new WeighbridgeError("PORT_IN_USE", `cannot listen on ${address}: it is taken; choose another port (0 takes a free one)`);
    const port = asked === 0 ? this.#freePort() : asked;
    this.accepts.set(port, accept);
    let closed = false;
    const close = async (): Promise<void> => {
      if (!closed) this.accepts.delete(port);
      closed = true;
    };
    return { address: `sim://${host}:${port}`, close };
  }

  async connect(address: Address, open: Accept, { timeoutMs }: ConnectOptions): Promise<Link> {
    const target = parseSimAddress(address);
    if (target.port === 0) throw badAddress(address, "port 0 can be listened on, but not connected to");
    const wire = this.#wire;
    const { promise, resolve, reject } = Promise.withResolvers<Link>();
    let waiting = true;
    const fail = (reason: string, cause?: Error): void => {
      waiting = false;
      cancelDeadline();
      reject(new WeighbridgeError("NO_ROUTE", `nothing answers at ${address}: ${reason}`, { retryable: true, cause }));
    };
    const cancelDeadline = wire.clock.after(timeoutMs, () => fail(`no answer within ${timeoutMs} ms`));
    const answer = (arrive: () => void): void => wire.carry(target.host, this.name, wire.latencyMs(), arrive);
    const arrive = (): void => {
      const accept = this.#hosts.get(target.host)?.accepts.get(target.port);
      if (!this.alive) fail(`${this.name} crashed`);
      else if (wire.isSilent(target.host)) knock(KNOCK_AGAIN_MS);
      else if (accept === undefined) answer(() => fail("the connection was refused", refused()));
      else meet(accept);
    };
    const meet = (accept: Accept): void => {
      const [near, far] = this.#pair(address, target.host);
      wire.links.add(far);
      startOrDestroy(far, accept);
      answer(() => {
        if (waiting && !this.alive) fail(`${this.name} crashed`);
        if (!waiting) {
          far.end(new Error(`${this.name} gave up connecting`));
          return;
        }
        waiting = false;
        cancelDeadline();
        wire.links.add(near);
        const failure = startOrDestroy(near, open);
        if (failure === undefined) resolve(near);
        else reject(failure.thrown);
      });
    };
    const knock = (delayMs: number): void => {
      if (waiting) wire.carry(this.name, target.host, delayMs, arrive);
    };
    knock(wire.latencyMs());
    return await promise;
  }

  #pair(address: Address, remoteHost: string): [near: SimLink, far: SimLink] {
    const near = new SimLink({ wire: this.#wire, host: this.name, remoteHost, remote: address });
    const far = new SimLink({
      wire: this.#wire,
      host: remoteHost,
      remoteHost: this.name,
      remote: `sim://${this.name}:${this.#freePort()}`,
    });
    near.join(far);
    return [near, far];
  }

  #freePort(): number {
    while (this.accepts.has(this.#nextPort)) this.#nextPort++;
    return this.#nextPort++;
  }
}

function startOrDestroy(link: SimLink, readerFor: Accept): { readonly thrown: unknown } | undefined {
  try {
    link.start(readerFor(link));
    return undefined;
  } catch (thrown) {
    link.destroy();
    return { thrown };
  }
}

function parseSimAddress(address: Address): { readonly host: string; readonly port: number } {
  const parts = /^sim:\/\/([^\s:/|]+):(\d{1,5})$/.exec(address);
  if (parts === null) throw badAddress(address, 'expected "sim://host:port"');
  return { host: parts[1] as string, port: Number(parts[2]) };
}

function badAddress(address: Address, why: string): WeighbridgeError {
  return badArgument(`"${address}" cannot be used as an address: ${why}`);
}

function wayName(from: string, to: string): string {
  return `${from}|${to}`;
}

function refused(): Error {
  return Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
}
