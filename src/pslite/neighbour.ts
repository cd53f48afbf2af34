// neighbour — a process that speaks ps-lite's protocol, at one host and port: our line to it and its inlets here. A process with several
// customers is several nodes, each with its envoy.
//
// Invariants:
//   B1. A neighbour that is kept is dialed again every REDIAL_MS until it is there. It always has a line: what is sent while that waits leaves
//       once it is up, so that an answer is not lost between two connections; what waits for a dial that fails is dropped.
//   B2. `gone` is called when its line is down and none of its inlets is open, once each time.
//   B3. It is dialed once in REDIAL_MS at most, whoever asks, and less and less often while it ends every line within SHORT_MS; `renewLine` alone
//       does not wait: it is called once in a node's life.
//   B4. What is said to it while it is kept and cannot be reached is said once it can, the first HELD_MAX messages, as libzmq does.

import type { Clock } from "../base/clock.ts";
import type { Envoy } from "./envoy.ts";
import type { Inlet } from "./inlet.ts";
import type { Line, LineOptions } from "./line.ts";
import type { PsMeta } from "./wire/ps-meta.ts";

/** As libzmq does. */
const REDIAL_MS = 100;
const REDIAL_MS_MAX = 1000;
/** Who ends connections on purpose does so at once. */
const SHORT_MS = 30;
const HELD_MAX = 1000;

export type NeighbourHost = {
  readonly clock: Clock;
  newLine(neighbour: Neighbour, options: Pick<LineOptions, "up" | "down" | "delayMs">): Line;
  lineUp(neighbour: Neighbour): void;
  /** A line that was up is down. */
  lineFell(neighbour: Neighbour, cause: Error | undefined): void;
  gone(neighbour: Neighbour): void;
};

type Attempt = { readonly resolve: () => void; readonly reject: (cause: Error) => void };

export class Neighbour {
  readonly hostname: string;
  readonly port: number;
  /** The nodes of this process by customer; most have customer 0 only. */
  readonly envoys: Map<number, Envoy> = new Map();
  readonly inlets: Set<Inlet> = new Set();
  readonly #host: NeighbourHost;
  #line: Line | undefined;
  #attempts: Attempt[] = [];
  #isKept = false;
  #isGone = false;
  /** Said since the line was up last. */
  #held: PsMeta[] = [];
  #dialedAtMs = -Infinity;
  #upAtMs = -Infinity;
  /** How many lines in turn were up and ended within SHORT_MS. */
  #shortCount = 0;

  constructor(host: NeighbourHost, { hostname, port }: { readonly hostname: string; readonly port: number }) {
    this.#host = host;
    this.hostname = hostname;
    this.port = port;
  }

  get line(): Line | undefined {
    return this.#line;
  }

  get isPresent(): boolean {
    return this.#line?.isUp === true || this.inlets.size > 0;
  }

  /** The node that was there first: the one that messages go to. */
  get primary(): Envoy | undefined {
    const [first] = this.envoys.values();
    return first;
  }

  addEnvoy(customer: number, envoy: Envoy): void {
    this.envoys.set(customer, envoy);
    envoy.line = this.#line;
  }

  /** Dials if there is no line, and resolves once it is up. */
  async dial(): Promise<void> {
    if (this.#line?.isUp === true) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#attempts.push({ resolve, reject });
    if (this.#line === undefined) this.#newLine(this.#pauseMs());
    await promise;
  }

  /** Keeps a line to it from now on (B1). */
  keep(): void {
    this.#isKept = true;
    if (this.#line === undefined) this.#newLine(this.#pauseMs());
  }

  /** A message of one part from its first node to it; `meta` is kept (B4). */
  say(meta: PsMeta): void {
    if (this.#isKept && this.#line?.isUp !== true && this.#held.length < HELD_MAX) this.#held.push(meta);
    this.primary?.send(meta);
  }

  /** Makes another line, for instance with another identity; the old one ends after what was sent on it has left. */
  renewLine(): void {
    const old = this.#line;
    this.#newLine(0);
    old?.close();
  }

  /** Ends the line; it is not dialed again. */
  dropLine(isAbrupt: boolean): void {
    this.#isKept = false;
    if (isAbrupt) this.#line?.destroy();
    else this.#line?.close();
  }

  inletClosed(inlet: Inlet): void {
    this.inlets.delete(inlet);
    this.#checkGone();
  }

  /** How long to wait before it is dialed (B3). */
  #pauseMs(): number {
    const pauseMs = Math.min(REDIAL_MS_MAX, REDIAL_MS * 2 ** Math.max(0, this.#shortCount - 1));
    return Math.max(0, this.#dialedAtMs + pauseMs - this.#host.clock.nowMs());
  }

  #newLine(delayMs: number): void {
    this.#dialedAtMs = this.#host.clock.nowMs() + delayMs;
    const line = this.#host.newLine(this, { up: (up) => this.#up(up), down: (down, cause) => this.#down(down, cause), delayMs });
    this.#setLine(line);
    for (const meta of this.#held) this.primary?.send(meta);
  }

  #setLine(line: Line | undefined): void {
    this.#line = line;
    for (const envoy of this.envoys.values()) envoy.line = line;
  }

  #up(line: Line): void {
    if (line !== this.#line) return;
    this.#isGone = false;
    this.#upAtMs = this.#host.clock.nowMs();
    this.#held = [];
    for (const { resolve } of this.#attempts.splice(0)) resolve();
    this.#host.lineUp(this);
  }

  #down(line: Line, cause: Error | undefined): void {
    if (line !== this.#line) return;
    const wasUp = line.wasUp;
    this.#setLine(undefined);
    for (const { reject } of this.#attempts.splice(0)) reject(cause ?? new Error("the connection was closed"));
    if (wasUp) this.#shortCount = this.#host.clock.nowMs() - this.#upAtMs < SHORT_MS ? this.#shortCount + 1 : 0;
    if (wasUp) this.#host.lineFell(this, cause);
    if (this.#isKept && this.#line === undefined) this.#newLine(Math.max(REDIAL_MS, this.#pauseMs()));
    this.#checkGone();
  }

  /** B2 */
  #checkGone(): void {
    const isDialing = this.#line !== undefined && !this.#line.isDown && !this.#line.isPending;
    if (this.isPresent || this.#isGone || isDialing) return;
    this.#isGone = true;
    this.#host.gone(this);
  }
}
