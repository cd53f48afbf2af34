// open-network — a network whose parameters have their routes and whose lookups have their rows: a Model trains with it
// from the first step until it is closed. It decides, once, where a parameter lives (docs/decisions/0014).

import type { Session } from "../../api/session.ts";
import { assert } from "../../base/assert.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { Consistency } from "../../store/consistency.ts";
import type { InitializerSpec } from "../../store/initializers/initializer-spec.ts";
import { type OptimizerName, type OptimizerSpec, resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { UpdateKernels } from "./devices/shared-loop.ts";
import type { EmbeddingLookup } from "./embedding-lookup.ts";
import { pause } from "./event-loop.ts";
import { LocalRoute, LocalUpdater } from "./local-route.ts";
import { LocalRows, type TableDescription } from "./local-rows.ts";
import { lookupsOf, type Network, parametersOf } from "./network.ts";
import type { ParameterRoute } from "./parameter-route.ts";
import { ReducedRoute } from "./reduced-route.ts";
import { Retry } from "./retry.ts";
import { RowMembers } from "./row-members.ts";
import type { RowSource } from "./row-source.ts";
import { ServerExchange } from "./server-exchange.ts";
import { ServerRoute } from "./server-route.ts";
import { ServerRows } from "./server-rows.ts";
import { TieredRows } from "./tiered-rows.ts";
import { TrainingGroup } from "./training-group.ts";

export type OpenNetworkOptions = {
  readonly network: Network;
  /** Left out: everything lives in this process. */
  readonly session: Session | undefined;
  /** By the parameter's name. */
  readonly optimizerOf: (name: string) => OptimizerName | OptimizerSpec;
  /** Of first values. */
  readonly seed: number;
  readonly consistency: Consistency;
  readonly log?: Log | undefined;
};

/** How long one wait may take, and how long transient failures are retried. */
export type Patience = { readonly wait: WaitOptions; readonly patienceMs: number };

const REGROUP_PAUSE_MS = 20;

export class OpenNetwork {
  readonly session: Session | undefined;
  /** In the order of the network. */
  readonly routes: ReadonlyMap<Parameter, ParameterRoute>;
  /** Of the optimizers that run here. */
  readonly kernels: UpdateKernels;
  readonly #lookups: EmbeddingLookup[] = [];
  readonly #options: OpenNetworkOptions;
  readonly #retry: Retry | undefined;
  /** The uncached sources of lookups whose rows are cached. */
  readonly #direct = new Map<EmbeddingLookup, RowSource>();
  readonly #exchange = new ServerExchange(() => this.patience.wait);
  #group: TrainingGroup | undefined;
  #members: RowMembers | undefined;
  #clocks = 0;
  /** Of the current call. */
  patience: Patience;

  private constructor(options: OpenNetworkOptions, patience: Patience, routes: ReadonlyMap<Parameter, ParameterRoute>) {
    const { session } = options;
    this.#options = options;
    this.patience = patience;
    this.session = session;
    this.routes = routes;
    this.kernels = new UpdateKernels(options.network.workspace.arena);
    this.#retry = session === undefined ? undefined : new Retry(session);
  }

  /** Throws BAD_ARGUMENT, SPEC_MISMATCH, ARENA_FULL, and what the servers throw. */
  static async open(options: OpenNetworkOptions, patience: Patience): Promise<OpenNetwork> {
    const { network } = options;
    const routes = new Map<Parameter, ParameterRoute>();
    const opened = new OpenNetwork(options, patience, routes);
    try {
      await opened.#formGroup();
      const priorityOf = (stage: number): number => network.stages.length - stage; // the first stage is needed first
      for (const [i, stage] of network.stages.entries()) {
        for (const parameter of stage.parameters) routes.set(parameter, await opened.#routeFor(parameter, priorityOf(i)));
      }
      await opened.#openRoutes();
      for (const [i, { lookup }] of network.stages.entries()) {
        if (lookup === undefined || !lookup.options.sparse) continue;
        lookup.attach(await opened.#sourceFor(lookup, priorityOf(i)));
        opened.#lookups.push(lookup);
      }
    } catch (thrown) {
      await opened.close();
      throw thrown;
    }
    return opened;
  }

  /** Clocks that this training has ended: the number of its next step, by which schedules and checkpoints go. */
  get clocks(): number {
    return this.session?.clocks ?? this.#clocks;
  }

  /** What was loaded is of this clock. A session never goes back. */
  resumeAt(clock: number): void {
    if (this.session === undefined) this.#clocks = clock;
    else this.session.advanceTo(clock);
  }

  /** How often something was retried after a failure. */
  get retryCount(): number {
    return this.#retry?.retryCount ?? 0;
  }

  routeOf(parameter: Parameter): ParameterRoute {
    const route = this.routes.get(parameter);
    assert(route !== undefined, `${parameter.name} has a route`);
    return route;
  }

  /** The workers that reduce gradients with this one, if any. */
  get group(): TrainingGroup | undefined {
    return this.#group;
  }

  /**
   * A member is gone, or one more joined: continues with all live members, and with the same values; an unfinished step
   * is dropped. `signal` ends the wait for the others with ABORTED; until the next call this worker is in no group.
   */
  async regroup(signal?: AbortSignal): Promise<void> {
    const [group, session] = [this.#group, this.session];
    assert(group !== undefined && session !== undefined, "a worker that regroups has a group");
    const until = performance.now() + this.patience.patienceMs;
    for (let isDone = false; !isDone; ) {
      try {
        await group.regroup(signal);
        await session.rejoin(this.patience.wait);
        await this.#openRoutes();
        for (const { source } of this.#lookups) if (source instanceof TieredRows) await source.reform(this.patience.wait);
        isDone = true;
      } catch (thrown) {
        // Otherwise one more member is gone.
        if (!group.mayRecover(thrown) || signal?.aborted === true || performance.now() > until) throw thrown;
        await pause(REGROUP_PAUSE_MS);
      }
    }
  }

  /** Whether gradients of its rows are pushed to servers, so that they can be pushed again. */
  pushesRows({ source }: EmbeddingLookup): boolean {
    return source instanceof ServerRows;
  }

  /** What the routes have to push and pull leaves, together: after `push`, `skip` or `repeat` of several of them. */
  leave(): void {
    this.#exchange.leave();
  }

  /** Ends this worker's step. */
  endClock(): void {
    if (this.session === undefined) this.#clocks++;
    else this.session.clock();
  }

  /** Calls `attempt` until it succeeds; with a session, transient failures are retried (retry.ts). */
  async withRetry(attempt: (isFirst: boolean) => Promise<void>): Promise<void> {
    if (this.#retry === undefined) await attempt(true);
    else await this.#retry.through(attempt, { patienceMs: this.patience.patienceMs, isHopeless: () => this.#group?.isBroken === true });
  }

  /** Runs code that only reads rows, without the caches, which would need all workers: it sees what was flushed. */
  async reading<T>(run: () => Promise<T>): Promise<T> {
    const sources = this.#lookups.map(({ source }) => source!);
    try {
      for (const lookup of this.#lookups) lookup.attach(this.#direct.get(lookup) ?? lookup.source!);
      return await run();
    } finally {
      for (const [i, lookup] of this.#lookups.entries()) lookup.attach(sources[i]!);
    }
  }

  /** Resolves when the servers have all pushes of lookups. */
  async flush(): Promise<void> {
    for (const { source } of this.#lookups) await source?.flush(this.patience.wait);
  }

  async close(): Promise<void> {
    for (const lookup of this.#lookups) {
      const { source } = lookup;
      lookup.detach();
      await source?.close();
    }
    for (const route of this.routes.values()) route.close();
  }

  /** With the values of the group, if there is one. */
  async #openRoutes(): Promise<void> {
    const reduced = [...this.routes.values()].filter((route) => route instanceof ReducedRoute);
    if (this.session !== undefined) await this.#group?.compare(reduced, this.session);
    for (const route of this.routes.values()) await route.open();
    await this.#group?.join(reduced);
  }

  /** Workers need a group if parameters that several of them train live on no server, or for a while on one worker. */
  async #formGroup(): Promise<void> {
    const { session, network } = this.#options;
    if (session === undefined || session.workerCount === 1) return;
    const isCached = lookupsOf(network).some(({ options }) => options.vocabCacheSize > 0);
    if (!isCached && parametersOf(network).every(({ serverTarget }) => serverTarget !== undefined)) return;
    const collective = await session.stepCollective(this.patience.wait);
    this.#members = new RowMembers(session.rank, collective);
    this.#group = new TrainingGroup(collective, () => this.patience.wait);
  }

  async #routeFor(parameter: Parameter, priority: number): Promise<ParameterRoute> {
    const { session, network, consistency } = this.#options;
    const wait = (): WaitOptions => this.patience.wait;
    const { name, shape, serverTarget } = parameter;
    const optimizer = this.#options.optimizerOf(name);
    if (session === undefined || serverTarget === undefined) {
      const updater = new LocalUpdater(network.workspace, parameter, resolveOptimizer(optimizer), this.kernels);
      if (session === undefined || session.workerCount === 1) return new LocalRoute(parameter, updater, () => this.clocks);
      return new ReducedRoute({ parameter, updater, collective: this.#group!.collective, clock: () => this.clocks, wait });
    }
    const init = this.#seeded(parameter.initializer);
    const tensor = await session.tensor(name, { shape, init, optimizer, consistency, ...wait() });
    // The first worker's values, unless the servers have some already.
    if (!serverTarget.initInServer) await tensor.start(parameter.values, wait());
    return new ServerRoute({ parameter, tensor, priority, exchange: this.#exchange });
  }

  async #sourceFor(lookup: EmbeddingLookup, priority: number): Promise<RowSource> {
    const { session, network, consistency, log } = this.#options;
    const { vocabSize, dim: width, idsPerSample, sampleCountMax, initializer, vocabCacheSize } = lookup.options;
    const name = lookup.tableName;
    const optimizer = this.#options.optimizerOf(name);
    const init = this.#seeded(initializer);
    const table: TableDescription = { name, vocabSize, width, idCountMax: idsPerSample * sampleCountMax, initializer: init, optimizer };
    if (session === undefined || (lookup.serverTarget === undefined && session.workerCount === 1)) {
      return new LocalRows(network.workspace, table, () => this.clocks);
    }
    if (lookup.serverTarget === undefined) {
      const text = `${lookup.name} is sparse, and ${session.workerCount} workers share it: setParamPs(lookup), or sparse: false`;
      throw badArgument(text);
    }
    const { workspace } = network;
    const embedding = await session.embedding(name, { dim: width, rows: vocabSize, init, optimizer, consistency, ...this.patience.wait });
    const direct = new ServerRows({ workspace, table, embedding, priority });
    if (vocabCacheSize === 0) return direct;
    if (consistency !== "bsp") {
      const text = `${lookup.name}: rows in a cache of ${vocabCacheSize} are trained under "bsp", not ${JSON.stringify(consistency)}`;
      throw badArgument(text);
    }
    this.#direct.set(lookup, direct);
    const cache = { embedding, arena: workspace.arena, vocabCacheSize, idCountMax: table.idCountMax, members: this.#members, log };
    return await TieredRows.open(cache, this.patience.wait);
  }

  #seeded(initializer: InitializerSpec): InitializerSpec {
    return initializer.type === "constant" ? initializer : { ...initializer, seed: this.#options.seed };
  }
}

/** Throws BAD_ARGUMENT if two parameters have one name: on servers they would be one. */
export function checkNames(network: Network): void {
  const tables = network.stages.flatMap(({ lookup }) => (lookup?.options.sparse === true ? [lookup.tableName] : []));
  const names = [...parametersOf(network).map(({ name }) => name), ...tables];
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw badArgument(`two parameters of the network are called ${twice}`);
}
