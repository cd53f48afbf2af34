// paced-worker — one incarnation of a simulated worker: at every clock some reads and updates as its script says, then
// clock(). When it hears that it was taken for dead it joins again. What it does depends on its script's seed and on
// what it reads; when, on the delays.

import assert from "node:assert/strict";
import type { Clock } from "../../src/base/clock.ts";
import { isWeighbridgeError, type WeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { type LinkDelay, PacedLink } from "./paced-link.ts";
import { type Holder, type Parameter, type Read, type Record, VALUES } from "./paced-record.ts";
import type { PacedServer } from "./paced-server.ts";

export type PacedWorkerOptions = {
  readonly clock: Clock;
  readonly record: Record;
  readonly servers: readonly PacedServer[];
  readonly parameters: readonly Parameter[];
  readonly holder: Holder;
  readonly scriptSeed: number;
  readonly delay: LinkDelay;
  /** How long it computes between two operations, at most. */
  readonly computeMsMax: number;
  /** Reads everything at every clock, and pushes what depends on it. */
  readonly readsAll: boolean;
  readonly clockTarget: number;
  /** Sees every value read. */
  readonly onRead: (parameter: Parameter, values: Float32Array) => void;
};

type Operation = { readonly kind: "read" | "push"; readonly parameter: Parameter };

export class PacedWorker {
  readonly #options: PacedWorkerOptions;
  readonly #links: readonly PacedLink[];
  readonly #lastRead: Float32Array[];
  #operations: Operation[] = [];
  /** Rises when it joins: whatever was under way before is nothing to it any more. */
  #membership = 0;

  constructor(options: PacedWorkerOptions) {
    this.#options = options;
    this.#links = options.servers.map(() => new PacedLink(options.clock, options.delay));
    this.#lastRead = options.parameters.map(() => new Float32Array(VALUES));
  }

  get holder(): Holder {
    return this.#options.holder;
  }

  /** Joins everywhere, and goes on at the highest clock it is told (spec/consistency.md, W5). */
  join(): void {
    const { holder, servers } = this.#options;
    if (holder.state !== "alive") return;
    this.#options.record.counts.joins++;
    const membership = ++this.#membership;
    let awaited = servers.length;
    servers.forEach((server, i) => {
      const link = this.#links[i] as PacedLink;
      link.clock(() => {
        const outcome = this.#outcomeOf(() => server.join(holder));
        link.answer(() => {
          if (membership !== this.#membership || holder.state !== "alive") return;
          if (typeof outcome !== "number") {
            this.#joinRefused(outcome);
            return;
          }
          holder.clock = Math.max(holder.clock, outcome);
          if (--awaited === 0) this.#begin();
        });
      });
    });
  }

  #outcomeOf(serve: () => number): number | WeighbridgeError {
    try {
      return serve();
    } catch (error) {
      if (!isWeighbridgeError(error)) throw error;
      return error;
    }
  }

  /** The server has not heard yet that it lives: it tries again everywhere. */
  #joinRefused(error: WeighbridgeError): void {
    const { holder, clock } = this.#options;
    assert.equal(error.code, "NODE_DEAD", `${holder.name} joins: ${error.message}`);
    assert.equal(holder.isTrusted, false, `${holder.name} was never taken for dead, and may not join: ${error.message}`);
    const membership = this.#membership;
    clock.after(10, () => {
      if (membership === this.#membership) this.join();
    });
  }

  crash(): void {
    this.holder.state = "crashed";
    for (const link of this.#links) link.cut();
  }

  #begin(): void {
    this.#tellClock();
    this.#plan();
    this.#compute();
  }

  /**
   * What it does at this clock: depends on nothing but the script's seed, the worker, its incarnation and the clock.
   */
  #plan(): void {
    const { parameters, holder, scriptSeed, readsAll } = this.#options;
    const random = new Random(((scriptSeed * 31 + holder.worker) * 31 + holder.incarnation) * 8191 + holder.clock);
    if (readsAll) {
      const pushes = parameters.flatMap((parameter) => Array.from({ length: random.below(3) }, () => parameter));
      this.#operations = [
        ...parameters.map((parameter): Operation => ({ kind: "read", parameter })),
        ...pushes.map((parameter): Operation => ({ kind: "push", parameter })),
      ];
      return;
    }
    this.#operations = Array.from({ length: random.below(7) }, () => ({
      kind: random.chance(0.5) ? "read" : "push",
      parameter: parameters[random.below(parameters.length)] as Parameter,
    }));
  }

  #compute(): void {
    const { clock, delay, computeMsMax } = this.#options;
    const membership = this.#membership;
    clock.after(delay.random.fraction() * computeMsMax, () => {
      if (membership === this.#membership && this.holder.state === "alive") this.#next();
    });
  }

  #next(): void {
    const operation = this.#operations.shift();
    if (operation === undefined) this.#finishClock();
    else if (operation.kind === "push") this.#push(operation.parameter);
    else this.#read(operation.parameter);
  }

  #finishClock(): void {
    const { holder, clockTarget, record, servers } = this.#options;
    if (holder.clock < clockTarget) {
      holder.clock++;
      record.counts.clocks++;
      this.#begin();
      return;
    }
    holder.state = "left";
    for (const [i, server] of servers.entries()) this.#links[i]?.clock(() => server.left(holder));
  }

  #tellClock(): void {
    const { holder, servers } = this.#options;
    const { clock } = holder;
    servers.forEach((server, i) => {
      this.#links[i]?.clock(() => this.#orFail(this.#links[i] as PacedLink, () => server.advance(holder, clock)));
    });
  }

  #push(parameter: Parameter): void {
    const { holder, servers, record } = this.#options;
    record.counts.pushes++;
    const values = gradient({ holder, lastRead: this.#lastRead[parameter.id] as Float32Array, salt: parameter.id });
    const push = holder.push(parameter, values);
    const link = this.#links[parameter.server] as PacedLink;
    const deliver = (): void => {
      this.#orFail(
        link,
        () => servers[parameter.server]?.push(push),
        () => {
          push.state = "refused";
          record.counts.refused++;
        },
      );
    };
    link.push(parameter.id, deliver, () => {
      push.state = "lost";
    });
    this.#compute();
  }

  #read(parameter: Parameter): void {
    const { holder, servers, onRead, record } = this.#options;
    record.counts.reads++;
    const membership = this.#membership;
    const read: Read = { holder, parameter, clock: holder.clock, ownCount: holder.pushes[parameter.id]?.length ?? 0 };
    const link = this.#links[parameter.server] as PacedLink;
    const answered = (outcome: Float32Array | WeighbridgeError): void => {
      link.answer(() => {
        if (membership !== this.#membership || holder.state !== "alive") return;
        if (outcome instanceof Float32Array) {
          this.#lastRead[parameter.id] = outcome;
          onRead(parameter, outcome);
          this.#compute();
        } else if (outcome.code === "QUEUE_FULL") this.#retry({ kind: "read", parameter });
        else this.#failed(outcome);
      });
    };
    link.read(parameter.id, () => {
      try {
        servers[parameter.server]?.read(read, answered);
      } catch (error) {
        if (!isWeighbridgeError(error)) throw error;
        answered(error);
      }
    });
  }

  #retry(operation: Operation): void {
    this.#operations.unshift(operation);
    this.#compute();
  }

  /** Does what the server does with a request, and sends a failure back. */
  #orFail(link: PacedLink, serve: () => void, refused: () => void = () => {}): void {
    const membership = this.#membership;
    try {
      serve();
    } catch (error) {
      if (!isWeighbridgeError(error)) throw error;
      refused();
      link.answer(() => {
        if (membership === this.#membership && this.holder.state === "alive") this.#failed(error);
      });
    }
  }

  #failed(error: WeighbridgeError): void {
    const { holder } = this.#options;
    assert.ok(["NOT_JOINED", "STALE_UPDATE", "NODE_DEAD"].includes(error.code), `${holder.name}: ${error.code} ${error.message}`);
    assert.equal(holder.isTrusted, false, `${holder.name} was never taken for dead, and is told ${error.code}: ${error.message}`);
    this.join();
  }
}

/** Numbers of very different sizes, so that the order in which they are added shows in the last bits. */
function gradient({ holder, lastRead, salt }: { holder: Holder; lastRead: Float32Array; salt: number }): Float32Array {
  const random = new Random((holder.worker * 65_537 + holder.clock) * 31 + salt);
  return lastRead.map((value) => (random.fraction() - 0.5) * 10 ** random.below(5) + value * 0.01);
}
